// One key of the running system: first what a change would touch, then the change.

import { card, h } from "./dom.js";

/** What is asked for most; any other key of docs/configuration.md works too. */
const KEYS = ["topics.include", "topics.exclude", "topics.refresh_interval_s", "groups.include", "groups.exclude", "enabled",
  "replicators", "elastic.min_replicators", "elastic.max_replicators", "alerts.lag_s", "alerts.lag_growing_s"];

/** @param {any} actions `set` gives what the system says. */
export function change(actions) {
  const flow = h("select", { id: "flow" }, h("option", { value: "" }, "the whole system"));
  const key = h("input", { id: "key", list: "keys", placeholder: "topics.include", spellcheck: "false", autocomplete: "off" });
  const value = h("input", { id: "value", placeholder: "orders.*, empty: the default", spellcheck: "false", autocomplete: "off" });
  const outcome = h("pre", { id: "touched", role: "status" });
  const button = (name, dry_run, kind) => h("button", { type: "button", class: kind, onclick: () => ask(dry_run) }, name);

  async function ask(dry_run) {
    const body = { flow: flow.value || null, changes: { [key.value.trim()]: value.value.trim() || null }, dry_run };
    const answer = await actions.set(body);
    if (answer) outcome.textContent = `${dry_run ? "It would be" : "Done"}: ${answer.text}`;
  }
  const element = h("div", { class: "contents" }, card("Change a key while it runs",
    h("p", { class: "quiet" }, "Only what the key touches stops, and a bad change is refused whole. It holds until the next mirror-ray up; mirror-ray config writes what runs."),
    h("div", { class: "controls" }, h("label", { for: "flow" }, "Flow"), flow, h("label", { for: "key" }, "Key"), key,
      h("label", { for: "value" }, "Value"), value, h("datalist", { id: "keys" }, ...KEYS.map((name) => h("option", { value: name })))),
    h("div", { class: "controls" }, button("show what it touches", true, ""), button("change", false, "primary")), outcome));

  function update(snapshot) {
    const names = snapshot.status.flows.map((row) => row.flow).filter((name) => !name.includes("#"));
    if ([...flow.options].slice(1).map((option) => option.value).join() === names.join()) return;
    flow.replaceChildren(flow.options[0], ...names.map((name) => h("option", { value: name }, name)));
  }
  return { element, update };
}
