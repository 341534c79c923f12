// Elements from words. Names of topics and groups are other people's: they only ever become text, never markup.

import { bytes, cost, count, offset, ratio, seconds } from "./format.js";

/** @param {string} tag @param {Record<string, any>} [attributes] @param {...(Node|string|null)} children */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. @param {string} tag @param {Record<string, any>} [attributes] @param {...(Node|string|null)} children */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A word for a state with a sign of its own, so that colour is not all that tells them apart. */
const SIGNS = {
  running: ["●", "good"], copying: ["●", "good"], synced: ["●", "good"], done: ["●", "good"], active: ["●", "calm"],
  starting: ["◌", "calm"], establishing: ["◌", "calm"], waiting: ["◌", "warn"], behind: ["◌", "calm"], draining: ["◌", "calm"],
  mirrored: ["●", "good"], missing: ["◌", "warn"], conflict: ["✕", "bad"],
  translated: ["◌", "calm"], uncopied: ["–", "calm"], idle: ["–", "calm"], paused: ["‖", "calm"], kept: ["▲", "warn"], degraded: ["▲", "warn"],
  unresponsive: ["▲", "warn"], stopped: ["✕", "bad"], refused: ["✕", "bad"], unreachable: ["✕", "bad"], dead: ["✕", "bad"],
};

/** @param {string} word */
export function tone(word) {
  return (SIGNS[word] ?? ["·", "calm"])[1];
}

/** @param {string} word */
export function state(word) {
  const [sign, kind] = SIGNS[word] ?? ["·", "calm"];
  return h("span", { class: `state ${kind}`, "data-sign": sign }, word);
}

/** @param {string} title @param {...Node} children */
export function card(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), ...children);
}

/** How the values of each format are written. */
const WRITTEN = {
  text: (value) => value ?? "", state: (value) => state(value), number: (value) => String(value), offset, count, bytes, seconds, ratio,
  share: (value) => `${Math.round(value * 100)} %`, money: cost, pair: (value, second) => `${count(value)} / ${count(second)}`,
};
const CLASSES = { flow: "flow", topic: "name", remote_topic: "name", id: "name", reason: "why", cost_per_hour: "num cost" };

/**
 * The columns of a table as mirror_ray/observe/status.py declares them.
 * @param {{field: string, title: string, format: string, second: string, wide: boolean}[]} declared One of the TABLES.
 * @param {Record<string, (row: any) => Node|string>} [cells] Other cells, by their fields.
 */
export function columns(declared, cells = {}) {
  return declared.map(({ field, title, format, second, wide }) => ({
    head: title,
    class: `${CLASSES[field] ?? (["text", "state"].includes(format) ? "" : "num")}${wide ? " wide" : ""}`.trim(),
    cell: cells[field] ?? ((row) => WRITTEN[format](row[field], row[second])),
  }));
}

/**
 * A table whose rows stay the same elements while their keys stay: focus and selection survive every update.
 * @param {{head: string, cell: (row: any) => Node|string, class?: string}[]} columns
 * @param {(row: any) => string} key
 * @param {string} nothing What is said without rows.
 * @param {(row: any) => string|null} [note] A long text about a row, as wide as the table.
 */
export function table(columns, key, nothing, note = () => null) {
  const head = h("tr", {}, ...columns.map((column) => h("th", { scope: "col", class: column.class ?? "" }, column.head)));
  const body = h("tbody");
  const scrolled = h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), body));
  const empty = h("p", { class: "empty" }, nothing);
  const element = h("div", {}, scrolled, empty);
  const rows = new Map();
  const notes = new Map();
  const cells = () => h("tr", {}, ...columns.map((column) => h("td", { class: column.class ?? "" })));
  const noted = () => h("tr", {}, h("td", { class: "why", colspan: String(columns.length) }));

  /** The element of a name, which is made at first. */
  function known(elements, name, make) {
    if (!elements.has(name)) elements.set(name, make());
    return elements.get(name);
  }
  function keep(elements, wanted) {
    for (const [name, row] of elements) if (!wanted.has(name)) { row.remove(); elements.delete(name); }
  }

  function update(values) {
    scrolled.hidden = values.length === 0;
    empty.hidden = values.length !== 0;
    keep(rows, new Set(values.map(key)));
    keep(notes, new Set(values.filter(note).map(key)));
    let next = body.firstElementChild;
    const place = (row) => { if (next === row) next = row.nextElementSibling; else body.insertBefore(row, next); };
    for (const value of values) {
      const [name, text] = [key(value), note(value)];
      const row = known(rows, name, cells);
      place(row);
      row.classList.toggle("noted", Boolean(text));
      columns.forEach((column, at) => put(row.children[at], column.cell(value)));
      if (!text) continue;
      const more = known(notes, name, noted);
      place(more);
      put(more.firstElementChild, text);
    }
  }
  return { element, update };
}

/** Put text or an element into a cell, unless just that is there. A button that has focus stays. */
function put(cell, content) {
  if (typeof content === "string") {
    if (cell.textContent !== content) cell.textContent = content;
  } else if (!cell.firstChild || !cell.firstChild.isEqualNode(content)) {
    const focused = cell.contains(document.activeElement);
    cell.replaceChildren(content);
    if (focused) (cell.querySelector("button, a, input") ?? cell).focus();
  }
}
