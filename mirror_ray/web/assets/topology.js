// Clusters and the flows between them: an arrow each, with what goes through and how far behind it is.

import { bytes, count, seconds } from "./format.js";
import { s, tone } from "./dom.js";

const RADIUS = 42;
/** Two clusters lie side by side, more of them on a ring. `aside`: how far a label stands from its arrow; `along`: where. */
const PAIR = { width: 640, height: 210, bend: 64, aside: 24, along: 0.5 };
const RING = { width: 900, height: 560, bend: 60, aside: 0, along: 0.3 };

/** @param {any[]} flows Those of a status. Routes and backfills go along with their flow's arrow. */
export function topology(flows) {
  const main = flows.filter((flow) => !flow.flow.includes("#"));
  const aliases = [...new Set(main.flatMap((flow) => flow.flow.split("->")))].sort();
  const plan = aliases.length > 2 ? RING : PAIR;
  const places = new Map(aliases.map((alias, index) => [alias, place(plan, index, aliases.length)]));
  const label = main.map((flow) => `${flow.flow} ${flow.state}, lag ${count(flow.lag_records)}`).join("; ");
  const arrows = main.map((flow) => arrow(plan, flow, places));
  return s("svg", { viewBox: `0 0 ${plan.width} ${plan.height}`, role: "img", "aria-label": `Flows: ${label}` },
    ...arrows.map((drawing) => drawing.line),
    ...aliases.map((alias) => cluster(alias, places.get(alias))),
    ...arrows.map((drawing) => drawing.label));
}

function place(plan, index, all) {
  if (all <= 2) return [index === 0 ? 70 : plan.width - 70, plan.height / 2];
  const angle = -Math.PI / 2 + (2 * Math.PI * index) / all;
  const [x, y] = [plan.width / 2 - 110, plan.height / 2 - RADIUS - 10];
  return [plan.width / 2 + x * Math.cos(angle), plan.height / 2 + y * Math.sin(angle)];
}

function cluster(alias, [x, y]) {
  const short = alias.length > 12 ? `${alias.slice(0, 11)}…` : alias;
  return s("g", {}, s("title", {}, alias), s("circle", { class: "cluster", cx: x, cy: y, r: RADIUS }),
    s("text", { class: short.length > 6 ? "alias long" : "alias", x, y }, short));
}

function arrow(plan, flow, places) {
  const [from, to] = flow.flow.split("->").map((alias) => places.get(alias));
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.hypot(dx, dy) || 1;
  // Bent to its left, so that the flow back has its own way.
  const [left, up] = [dy / length, -dx / length];
  const middle = [(from[0] + to[0]) / 2 + left * plan.bend, (from[1] + to[1]) / 2 + up * plan.bend];
  const start = edge(from, middle, RADIUS + 4);
  const end = edge(to, middle, RADIUS + 14);
  const kind = tone(flow.state);
  const [x, y] = [0, 1].map((axis) => on(plan.along, start[axis], middle[axis], end[axis]) + [left, up][axis] * plan.aside);
  const angle = (Math.atan2(end[1] - middle[1], end[0] - middle[0]) * 180) / Math.PI;
  const strong = flow.state === "running" ? `${count(flow.records_per_s)} records/s · ${bytes(flow.bytes_per_s)}/s` : flow.state;
  return {
    line: s("g", {},
      s("title", {}, `${flow.flow}: ${flow.state}`),
      s("path", { class: `flow ${kind}`, d: `M${start} Q${middle} ${end}` }),
      s("path", { class: `tip ${kind}`, d: "M12,0 L-6,8 L-2,0 L-6,-8 Z", transform: `translate(${end}) rotate(${angle})` })),
    label: s("g", {},
      s("text", { class: "label strong", x, y: y - 6 }, strong),
      s("text", { class: "label", x, y: y + 14 }, `lag ${count(flow.lag_records)} · ${seconds(flow.lag_seconds)}`)),
  };
}

/** A point of the curve from one end to the other. */
function on(share, start, middle, end) {
  return (1 - share) ** 2 * start + 2 * share * (1 - share) * middle + share ** 2 * end;
}

function edge(from, towards, distance) {
  const [dx, dy] = [towards[0] - from[0], towards[1] - from[1]];
  const length = Math.hypot(dx, dy) || 1;
  return [from[0] + (dx / length) * distance, from[1] + (dy / length) * distance];
}
