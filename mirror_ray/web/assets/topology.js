// Clusters and the flows between them: an arrow each, with what goes through and how far behind it is.

import { bytes, count, seconds } from "./format.js";
import { s, tone } from "./dom.js";

const [WIDTH, HEIGHT, RADIUS] = [620, 230, 40];
/** Where a ring of three and more lies. */
const RING = { x: 245, y: 165, middle: 215 };

/** @param {any[]} flows Those of a status. Routes and backfills go along with their flow's arrow. */
export function topology(flows) {
  const main = flows.filter((each) => !each.flow.includes("#"));
  const aliases = [...new Set(main.flatMap((each) => each.flow.split("->")))].sort();
  const places = new Map(aliases.map((alias, index) => [alias, place(index, aliases.length)]));
  const height = aliases.length > 2 ? Math.max(...[...places.values()].map((each) => each[1])) + RADIUS + 12 : HEIGHT;
  const label = main.map((each) => `${each.flow} ${each.state}, lag ${count(each.lag_records)}`).join("; ");
  return s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `Flows: ${label}` },
    ...main.map((each) => arrow(each, places)),
    ...aliases.map((alias) => cluster(alias, places.get(alias))));
}

function place(index, all) {
  if (all <= 2) return [index === 0 ? 70 : WIDTH - 70, HEIGHT / 2];
  const angle = -Math.PI / 2 + (2 * Math.PI * index) / all;
  return [WIDTH / 2 + RING.x * Math.cos(angle), RING.middle + RING.y * Math.sin(angle)];
}

function cluster(alias, [x, y]) {
  const short = alias.length > 9 ? `${alias.slice(0, 8)}…` : alias;
  return s("g", {}, s("title", {}, alias), s("circle", { class: "cluster", cx: x, cy: y, r: RADIUS }), s("text", { class: "alias", x, y }, short));
}

function arrow(flow, places) {
  const [from, to] = flow.flow.split("->").map((alias) => places.get(alias));
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  // Bent to its left, so that the flow back has its own way.
  const bend = Math.min(80, length / 4);
  const middle = [(from[0] + to[0]) / 2 + uy * bend, (from[1] + to[1]) / 2 - ux * bend];
  const start = edge(from, middle, RADIUS + 4);
  const end = edge(to, middle, RADIUS + 14);
  const kind = tone(flow.state);
  const [lx, ly] = [(start[0] + end[0]) / 4 + middle[0] / 2, (start[1] + end[1]) / 4 + middle[1] / 2];
  const angle = (Math.atan2(end[1] - middle[1], end[0] - middle[0]) * 180) / Math.PI;
  const strong = flow.state === "running" ? `${count(flow.records_per_s)} records/s · ${bytes(flow.bytes_per_s)}/s` : flow.state;
  return s("g", {},
    s("title", {}, `${flow.flow}: ${flow.state}`),
    s("path", { class: `flow ${kind}`, d: `M${start} Q${middle} ${end}` }),
    s("path", { class: `tip ${kind}`, d: "M12,0 L-6,8 L-2,0 L-6,-8 Z", transform: `translate(${end}) rotate(${angle})` }),
    s("text", { class: "label strong", x: lx, y: ly - 6 }, strong),
    s("text", { class: "label", x: lx, y: ly + 14 }, `lag ${count(flow.lag_records)} · ${seconds(flow.lag_seconds)}`));
}

function edge(from, towards, distance) {
  const [dx, dy] = [towards[0] - from[0], towards[1] - from[1]];
  const length = Math.hypot(dx, dy) || 1;
  return [from[0] + (dx / length) * distance, from[1] + (dy / length) * distance];
}
