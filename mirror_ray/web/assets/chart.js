// Lines over time, as SVG. Series are told apart by colour and by dashes.

import { s, h } from "./dom.js";
import { time } from "./format.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [560, 190, 62, 8, 10, 22];

/**
 * @param {string} title
 * @param {Record<string, {time_ms: number}[]>} series Points by name, oldest first.
 * @param {(point: any) => number|null} value
 * @param {(value: number) => string} words
 */
export function chart(title, series, value, words) {
  const names = Object.keys(series).sort();
  const points = names.flatMap((name) => series[name]);
  const highest = round(Math.max(0, ...points.map((point) => value(point) ?? 0)));
  const [first, last] = [Math.min(...points.map((point) => point.time_ms)), Math.max(...points.map((point) => point.time_ms))];
  const x = (ms) => LEFT + ((ms - first) / Math.max(1, last - first)) * (WIDTH - LEFT - RIGHT);
  const y = (at) => HEIGHT - BOTTOM - (at / highest) * (HEIGHT - TOP - BOTTOM);
  const marks = [0, 0.5, 1].map((share) => share * highest);
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title} over the last hour` },
    ...marks.map((at) => s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(at), y2: y(at) })),
    ...marks.map((at) => s("text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, words(at))),
    ...(points.length ? [s("text", { x: LEFT, y: HEIGHT - 5 }, time(first)), s("text", { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end" }, time(last))] : []),
    ...names.map((name, index) => s("path", { class: `c${(index % 6) + 1}`, d: line(series[name], value, x, y) })));
  const legend = h("ul", { class: "legend" }, ...names.map((name, index) => {
    const newest = value(series[name].at(-1));
    return h("li", {}, h("i", { class: `c${(index % 6) + 1}` }), `${name}: ${newest === null ? "–" : words(newest)}`);
  }));
  return h("section", { class: "card chart" }, h("h2", {}, title), drawing, legend);
}

/** A gap where nothing was known. */
function line(points, value, x, y) {
  let pen = "M";
  return points.map((point) => {
    const at = value(point);
    const drawn = at === null ? "" : `${pen}${x(point.time_ms).toFixed(1)},${y(at).toFixed(1)}`;
    pen = at === null ? "M" : "L";
    return drawn;
  }).join("");
}

/** The next 1, 2 or 5 of its size. */
function round(value) {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * size).find((step) => step >= value) ?? value;
}
