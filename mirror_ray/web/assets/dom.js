// Elements from words. Names of topics and groups are other people's: they only ever become text, never markup.

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
  element.append(...children.filter((each) => each !== null));
  return element;
}

/** A word for a state with a sign of its own, so that colour is not all that tells them apart. */
const SIGNS = {
  running: ["●", "good"], copying: ["●", "good"], synced: ["●", "good"], done: ["●", "good"], active: ["●", "calm"],
  starting: ["◌", "calm"], establishing: ["◌", "calm"], waiting: ["◌", "warn"], behind: ["◌", "calm"], draining: ["◌", "calm"],
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

/**
 * A table whose rows stay the same elements while their keys stay: focus and selection survive every update.
 * @param {{head: string, cell: (row: any) => Node|string, class?: string}[]} columns
 * @param {(row: any) => string} key
 * @param {string} nothing What is said without rows.
 */
export function table(columns, key, nothing) {
  const head = h("tr", {}, ...columns.map((each) => h("th", { scope: "col", class: each.class ?? "" }, each.head)));
  const body = h("tbody");
  const whole = h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), body));
  const empty = h("p", { class: "empty" }, nothing);
  const element = h("div", {}, whole, empty);
  const rows = new Map();

  function update(values) {
    whole.hidden = values.length === 0;
    empty.hidden = values.length !== 0;
    const wanted = new Set(values.map(key));
    for (const [name, row] of rows) if (!wanted.has(name)) { row.remove(); rows.delete(name); }
    values.forEach((value, index) => {
      const name = key(value);
      let row = rows.get(name);
      if (!row) { row = h("tr", {}, ...columns.map((each) => h("td", { class: each.class ?? "" }))); rows.set(name, row); }
      if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
      columns.forEach((each, at) => put(row.children[at], each.cell(value)));
    });
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
