// The views that the stream alone feeds: overview, replicators, events.

import { card, columns, h, state, table } from "./dom.js";
import { TABLES } from "./figures.js";
import { time } from "./format.js";
import { mirrored } from "./schemas.js";
import { topology } from "./topology.js";

/** @param {any} actions What can be done: pause, resume, scale. */
export function overview(actions) {
  const problems = h("div");
  const map = h("div", { class: "map" });
  const flows = table([
    ...columns(TABLES.flows),
    { head: "", class: "act", cell: (row) => pauseButton(row, actions) },
  ], (row) => row.flow, "No flows.");
  const backfills = table([
    { head: "Backfill", class: "name", cell: (row) => row.name },
    { head: "Topic", class: "name", cell: (row) => `${row.topic} into ${row.into}` },
    { head: "State", cell: (row) => state(row.state) },
    { head: "Why", class: "why", cell: (row) => row.reason ?? "" },
  ], (row) => row.name, "");
  const behind = card("Backfills under way", backfills.element);
  const schemas = mirrored();
  const priced = h("p", { class: "quiet" });
  const slowed = h("div");
  const element = h("div", { class: "contents" }, card("What is wrong", problems), card("Topology", map), card("Flows", flows.element, slowed, priced), schemas.element, behind);

  function update(snapshot) {
    const found = snapshot.status.problems;
    problems.replaceChildren(...(found.length ? found.map(problem) : [h("p", { class: "allwell" }, "● Nothing.")]));
    map.replaceChildren(topology(snapshot.status.flows));
    flows.update(snapshot.status.flows);
    slowed.replaceChildren(...snapshot.status.flows.filter((flow) => flow.why).map((flow) => h("p", {}, `${flow.flow}: ${flow.why}`)));
    const { price_per_gb: price, currency } = snapshot.status;
    priced.textContent = price > 0 ? `Cost: ${currency} an hour at this rate, at ${price} a GB over the link.` : "";
    schemas.update(snapshot.status.flows);
    backfills.update(snapshot.status.backfills);
    behind.hidden = snapshot.status.backfills.length === 0;
  }
  return { element, update };
}

function problem(found) {
  const where = found.flow && found.flow !== found.subject ? `${found.flow} ${found.subject}` : found.subject;
  return h("article", { class: `problem ${found.severity}` },
    h("b", {}, `${found.severity === "critical" ? "✕" : "▲"} ${where}: ${found.text}`),
    h("p", {}, `Next: ${found.remedy}`),
    h("p", { class: "quiet" }, `${found.severity} · docs/runbooks/alerts/${found.kind.replaceAll("_", "-")}.md`));
}

function pauseButton(row, actions) {
  if (row.state === "idle") return "";
  const name = row.state === "paused" ? "resume" : "pause";
  return h("button", { type: "button", "aria-label": `${name} ${row.flow}`, onclick: () => actions[name]({ flow: row.flow }) }, name);
}

export function replicators(actions) {
  const wanted = h("input", { type: "number", min: "1", max: "1000", id: "wanted", size: "4" });
  const now = h("span", { class: "quiet" });
  const set = h("button", { type: "button", onclick: () => actions.scale({ replicators: Number(wanted.value) }) }, "scale");
  const rows = table(columns(TABLES.replicators), (row) => row.id, "No replicators.");
  const load = h("p", { class: "quiet" });
  const element = h("div", { class: "contents" }, card("Replicators",
    h("div", { class: "controls" }, now, h("label", { for: "wanted" }, "Wanted"), wanted, set), load, rows.element));

  function update(snapshot) {
    const status = snapshot.status;
    if (!wanted.value) wanted.value = String(status.desired_replicators);
    now.textContent = `${status.replicators.filter((replicator) => replicator.state === "running").length} of ${status.desired_replicators} run; coordinator ${status.coordinator_pid} on ${status.coordinator_node}`;
    load.textContent = byLoad(status.elastic);
    rows.update(status.replicators);
  }
  return { element, update };
}

/** How the number follows load and lag, where it does. */
function byLoad(elastic) {
  if (!elastic) return "";
  if (elastic.pinned) return "The number was set by hand: it follows nothing until mirror-ray scale --auto.";
  return `By load, ${elastic.min_replicators} to ${elastic.max_replicators}${elastic.why ? `: ${elastic.why}` : ""}.`;
}

/** @param {any[]} log Every event that was seen, oldest first; main.js adds to it. */
export function events(log) {
  const level = h("select", { id: "level" }, ...["all", "warning", "error"].map((name) => h("option", { value: name }, name)));
  const search = h("input", { type: "search", id: "search", placeholder: "flow, topic, word" });
  const rows = table([
    { head: "Time", class: "num", cell: (row) => h("time", { datetime: new Date(row.time_ms).toISOString(), title: new Date(row.time_ms).toISOString() }, time(row.time_ms)) },
    { head: "Level", cell: (row) => h("span", { class: `state ${{ error: "bad", warning: "warn" }[row.level] ?? "calm"}`, "data-sign": { error: "✕", warning: "▲" }[row.level] ?? "·" }, row.level) },
    { head: "About", class: "name", cell: (row) => row.subject },
    { head: "What happened, and why", class: "name", cell: (row) => row.text },
  ], (row) => `${row.time_ms} ${row.number}`, "No events.");
  const element = h("div", { class: "contents" }, card("Events",
    h("div", { class: "controls" }, h("label", { for: "level" }, "Level"), level, h("label", { for: "search" }, "Search"), search), rows.element));

  function update() {
    const words = search.value.toLowerCase();
    const fits = (row) => (level.value === "all" || row.level === level.value) && `${row.subject} ${row.text}`.toLowerCase().includes(words);
    rows.update(log.filter(fits).slice(-200).reverse());
  }
  level.addEventListener("change", update);
  search.addEventListener("input", update);
  return { element, update };
}
