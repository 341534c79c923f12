// The views that ask for more than the stream brings: topics, one topic's partitions, groups, history.

import { get } from "./api.js";
import { chart } from "./chart.js";
import { card, columns, h, state, table } from "./dom.js";
import { TABLES } from "./figures.js";
import { bytes, count, offset, seconds } from "./format.js";

const PAGE = 100;

/** A search field, a choice of flow, and rows by the hundred. */
function list(title, heads, key, fits, order, nothing) {
  const search = h("input", { type: "search", id: "find", placeholder: "part of a name" });
  const trouble = h("input", { type: "checkbox", id: "trouble" });
  const shown = h("span", { class: "quiet" });
  const more = h("button", { type: "button", onclick: () => { most += PAGE; draw(); } }, "show more");
  const rows = table(heads, key, nothing);
  let [values, most] = [[], PAGE];

  function draw() {
    const words = search.value.toLowerCase();
    const found = values.filter((row) => fits(row).toLowerCase().includes(words) && (!trouble.checked || isTrouble(row))).sort(order);
    rows.update(found.slice(0, most));
    shown.textContent = `${count(Math.min(most, found.length))} of ${count(found.length)}`;
    more.hidden = found.length <= most;
  }
  search.addEventListener("input", () => { most = PAGE; draw(); });
  trouble.addEventListener("change", draw);
  const element = h("div", { class: "contents" }, card(title,
    h("div", { class: "controls" }, h("label", { for: "find" }, "Search"), search,
      h("label", { for: "trouble" }, trouble, "only what does not go on"), shown), rows.element, more));
  return { element, show: (found) => { values = found; draw(); } };
}

const isTrouble = (row) => !["copying", "synced", "active", "behind", "translated"].includes(row.state);
const byLag = (one, other) => Number(isTrouble(other)) - Number(isTrouble(one)) || (other.lag_records ?? 0) - (one.lag_records ?? 0) || (one.topic ?? "").localeCompare(other.topic ?? "");

function button(row, actions, scope) {
  if (["refused"].includes(row.state)) return "";
  const name = row.state === "paused" ? "resume" : "pause";
  const what = scope.partition === undefined ? row.topic : `${row.topic} ${scope.partition}`;
  return h("button", { type: "button", "aria-label": `${name} ${what}`, onclick: () => actions[name](scope) }, name);
}

export function topics(actions) {
  const where = (row) => `#/topic/${encodeURIComponent(row.flow)}/${encodeURIComponent(row.topic)}`;
  const rows = list("Topics, furthest behind first", [
    ...columns(TABLES.topics, { topic: (row) => h("a", { href: where(row) }, row.topic) }),
    { head: "", class: "act", cell: (row) => button(row, actions, { flow: row.flow, topic: row.topic }) },
  ], (row) => `${row.flow} ${row.topic}`, (row) => `${row.topic} ${row.remote_topic} ${row.flow}`, byLag, "No topic fits.");
  return { element: rows.element, ask: async () => rows.show(await get("/api/v1/topics")), every_s: 2 };
}

export function topic(actions, flow, name) {
  const rows = table([
    ...columns(TABLES.partitions, { replicator: (row) => row.replicator ?? "–" }),
    { head: "", class: "act", cell: (row) => button(row, actions, { flow: row.flow, topic: row.topic, partition: row.partition }) },
  ], (row) => String(row.partition), "This flow does not copy the topic.");
  const title = h("p", { class: "quiet" });
  const element = h("div", { class: "contents" }, card(name, title, rows.element, h("p", {}, h("a", { href: "#/topics" }, "all topics"))));
  const query = `/api/v1/partitions?flow=${encodeURIComponent(flow)}&topic=${encodeURIComponent(name)}`;
  return {
    element, every_s: 1,
    ask: async () => {
      const found = await get(query);
      title.textContent = found.length ? `${flow}, to ${found[0].target_topic}` : flow;
      rows.update(found.sort((one, other) => (other.lag_records ?? 0) - (one.lag_records ?? 0) || one.partition - other.partition));
    },
  };
}

export function groups() {
  const rows = list("Consumer groups: where they stand", [
    { head: "Group", class: "name", cell: (row) => row.group },
    { head: "Flow", class: "flow wide", cell: (row) => row.flow },
    { head: "Topic", class: "name", cell: (row) => `${row.topic} ${row.partition}` },
    { head: "State", cell: (row) => state(row.state) },
    { head: "Committed on the source", class: "num", cell: (row) => offset(row.source_offset) },
    { head: "That is on the target", class: "num", cell: (row) => offset(row.target_offset) },
    { head: "It stands there at", class: "num", cell: (row) => offset(row.committed_offset) },
    { head: "Exact", cell: (row) => (row.exact ? "yes" : "no") },
    { head: "Why", class: "why wide", cell: (row) => row.reason ?? "" },
  ], (row) => `${row.flow} ${row.group} ${row.topic} ${row.partition}`, (row) => `${row.group} ${row.topic}`, (one, other) => one.group.localeCompare(other.group) || one.topic.localeCompare(other.topic) || one.partition - other.partition, "No group has committed an offset in a copied topic.");
  return {
    element: rows.element, every_s: 3,
    ask: async () => {
      const found = await get("/api/v1/groups");
      rows.show(found.flatMap((group) => group.partitions.map((partition) => ({ ...partition, flow: group.flow, group: group.group }))));
    },
  };
}

export function history() {
  const charts = h("div", { class: "pair" });
  const element = h("div", { class: "contents" }, charts);
  return {
    element, every_s: 5,
    ask: async () => {
      const found = await get("/api/v1/history");
      if (!Object.keys(found).length) { charts.replaceChildren(h("p", { class: "empty" }, "The first points come within seconds.")); return; }
      charts.replaceChildren(
        chart("Lag in seconds", found, (point) => point.lag_seconds, seconds),
        chart("Lag in records", found, (point) => point.lag_records, count),
        chart("Records/s", found, (point) => point.records_per_s, count),
        chart("Bytes/s", found, (point) => point.bytes_per_s, bytes));
    },
  };
}
