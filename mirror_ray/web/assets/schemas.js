// Schemas: what of the source's registry is in the target's, and how each flow mirrors them.

import { page } from "./api.js";
import { card, h, state, table } from "./dom.js";
import { count, offset, seconds } from "./format.js";

const PAGE = 100;
const NOT_MIRRORED = "No flow mirrors schemas: that takes a schema registry on both sides (A.schema.registry.url).";

/** A line for each flow that mirrors schemas; the card is not there without one. */
export function mirrored() {
  const rows = table([
    { head: "Flow", class: "flow", cell: (row) => h("a", { href: "#/schemas" }, row.flow) },
    { head: "Ids", class: "wide", cell: (row) => row.ids ?? "not decided yet" },
    { head: "Subjects", class: "num wide", cell: (row) => count(row.subjects) },
    { head: "Versions", class: "num", cell: (row) => `${count(row.mirrored)} / ${count(row.versions)}` },
    { head: "Problems", class: "num", cell: (row) => count(row.problem_count) },
    { head: "Last round", class: "num", cell: (row) => (row.age_s === null ? "–" : `${seconds(row.age_s)} ago`) },
  ], (row) => row.flow, "", (row) => row.problem);
  const element = card("Schemas", rows.element);

  function update(flows) {
    const found = flows.filter((flow) => flow.schemas).map((flow) => ({ ...flow.schemas, flow: flow.flow }));
    rows.update(found);
    element.hidden = found.length === 0;
  }
  return { element, update };
}

/** Two schemas that differ, one below the other. */
const lines = (text) => text.replace(" source: ", "\nsource: ").replace(" | target: ", "\ntarget: ");

/** The gateway searches: there may be tens of thousands. */
export function schemas() {
  const search = h("input", { type: "search", id: "find", placeholder: "subject, id, word" });
  const trouble = h("input", { type: "checkbox", id: "trouble" });
  const shown = h("span", { class: "quiet" });
  const more = h("button", { type: "button", onclick: () => { most += PAGE; soon(); } }, "show more");
  const rows = table([
    { head: "Subject", class: "name", cell: (row) => row.subject },
    { head: "Flow", class: "flow wide", cell: (row) => row.flow },
    { head: "Version", class: "num", cell: (row) => String(row.version) },
    { head: "Type", class: "wide", cell: (row) => row.kind },
    { head: "Source id", class: "num wide", cell: (row) => String(row.source_id) },
    { head: "On the target", class: "name wide", cell: (row) => row.target_subject },
    { head: "Target id", class: "num wide", cell: (row) => offset(row.target_id) },
    { head: "State", cell: (row) => h("span", {}, state(row.state), row.deleted ? " (deleted)" : "") },
  ], (row) => `${row.flow} ${row.subject} ${row.version}`, "No version fits.", (row) => row.problem && lines(row.problem));
  const nothing = h("p", { class: "empty", hidden: true }, NOT_MIRRORED);
  const list = h("div", {}, h("div", { class: "controls" }, h("label", { for: "find" }, "Search"), search,
    h("label", { for: "trouble" }, trouble, "only what does not go on"), shown), rows.element, more);
  let [most, asked, isThere] = [PAGE, 0, false];

  async function ask() {
    if (!isThere) return;
    const number = asked += 1;
    const query = new URLSearchParams({ search: search.value.trim(), problems: String(trouble.checked), limit: String(most) });
    const found = await page(`/api/v1/schemas?${query}`);
    // An answer to what was typed before may come later.
    if (number !== asked) return;
    rows.update(found.rows);
    shown.textContent = `${count(found.rows.length)} of ${count(found.total)}`;
    more.hidden = found.rows.length >= found.total;
  }
  const soon = () => ask().catch((error) => { shown.textContent = error.message; });
  search.addEventListener("input", () => { most = PAGE; soon(); });
  trouble.addEventListener("change", soon);

  function update(snapshot) {
    const was = isThere;
    isThere = snapshot.status.flows.some((flow) => flow.schemas);
    list.hidden = !isThere;
    nothing.hidden = isThere;
    if (isThere && !was) soon();
  }
  return { element: h("div", { class: "contents" }, card("Schemas on the target", list, nothing)), ask, update, every_s: 5 };
}
