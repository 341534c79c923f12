// What was changed on clusters, and what operators did: who, what, before and after.

import { get } from "./api.js";
import { card, h, table } from "./dom.js";
import { count } from "./format.js";

const SINCE = [["1 h", 3_600_000], ["a day", 86_400_000], ["a week", 604_800_000], ["30 days", 2_592_000_000]];
const MOST = 200;
const SIGNS = { done: ["good", "●"], refused: ["bad", "✕"], unknown: ["warn", "▲"], intended: ["warn", "▲"] };

export function audit() {
  const since = h("select", { id: "since" }, ...SINCE.map(([name, ms]) => h("option", { value: String(ms) }, name)));
  const cluster = h("select", { id: "cluster" }, h("option", { value: "" }, "all"));
  const kind = h("select", { id: "kind" }, h("option", { value: "" }, "all"));
  const search = h("input", { type: "search", id: "who", placeholder: "who, topic, group, word" });
  const shown = h("span", { class: "quiet" });
  const rows = table([
    { head: "Time", class: "num", cell: (row) => moment(row.time_ms) },
    { head: "Who", class: "name", cell: who },
    { head: "Flow", class: "flow wide", cell: (row) => row.flow },
    { head: "What", cell: (row) => row.kind },
    { head: "On", class: "wide", cell: (row) => row.cluster || "–" },
    { head: "Of", class: "name", cell: (row) => row.subject },
    { head: "Before", class: "why", cell: (row) => row.before ?? "–" },
    { head: "After", class: "why", cell: (row) => row.after ?? "–" },
    { head: "Outcome", cell: outcome },
  ], (row) => row.id, "Nothing was changed in this time.");
  const element = h("div", { class: "contents" }, card("Audit: what was changed, and by whom",
    h("div", { class: "controls" }, h("label", { for: "since" }, "Within"), since, h("label", { for: "cluster" }, "Cluster"), cluster,
      h("label", { for: "kind" }, "What"), kind, h("label", { for: "who" }, "Search"), search, shown), rows.element));
  let found = [];

  function draw() {
    const words = search.value.toLowerCase();
    const fits = found.filter((row) => Object.values(row).join(" ").toLowerCase().includes(words)).reverse();
    rows.update(fits);
    shown.textContent = found.length < MOST ? count(fits.length) : `${count(fits.length)} of the newest ${MOST}; mirror-ray audit shows more`;
    choices(kind, found.map((row) => row.kind));
  }
  async function ask() {
    const query = new URLSearchParams({ since_ms: String(Date.now() - Number(since.value)), limit: String(MOST) });
    if (cluster.value) query.set("cluster", cluster.value);
    if (kind.value) query.set("kind", kind.value);
    found = await get(`/api/v1/audit?${query}`);
    draw();
  }
  for (const control of [since, cluster, kind]) control.addEventListener("change", () => ask().catch((error) => { shown.textContent = error.message; }));
  search.addEventListener("input", draw);

  function update(snapshot) {
    choices(cluster, snapshot.status.flows.flatMap((flow) => flow.flow.split("#")[0].split("->")));
  }
  return { element, ask, update, every_s: 10 };
}

/** Adds what can be chosen; what was there once stays, so that a choice is never lost. */
function choices(select, values) {
  const known = new Set([...select.options].map((option) => option.value));
  for (const value of [...new Set(values)].sort()) if (!known.has(value)) select.append(h("option", { value: value }, value));
}

function moment(ms) {
  const at = new Date(ms);
  return h("time", { datetime: at.toISOString(), title: at.toISOString() }, at.toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" }));
}

const who = (row) => (row.operator ? `${row.operator}${row.component === "coordinator" ? "" : ` (${row.component})`}` : `${row.system} ${row.component}`);

function outcome(row) {
  const [kind, sign] = SIGNS[row.outcome] ?? ["calm", "·"];
  return h("span", { class: `state ${kind}`, "data-sign": sign, title: row.error ?? "" }, row.error ? `${row.outcome}: ${row.error}` : row.outcome);
}
