// Which view is shown, what feeds it, and what the buttons do.

import { act, follow, forget, keep, token, Unknown } from "./api.js";
import { audit } from "./audit.js";
import { change } from "./change.js";
import { h } from "./dom.js";
import { seconds } from "./format.js";
import { groups, history, topic, topics } from "./lists.js";
import { schemas } from "./schemas.js";
import { events, overview, replicators } from "./views.js";

const VIEWS = [["overview", "Overview"], ["topics", "Topics"], ["groups", "Groups"], ["schemas", "Schemas"], ["replicators", "Replicators"], ["history", "History"], ["events", "Events"], ["audit", "Audit"], ["change", "Change"]];
const OLD_S = 10;
const KEPT = 2000;

const by = (id) => document.getElementById(id);
const log = [];
let snapshot = null;
let view = null;
let timer = 0;

function announce(text) {
  by("outcome").textContent = text;
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => { by("outcome").textContent = ""; }, 8000);
}

/** Ask for the token first where there is none; say what came of it. */
async function attempt(name, body) {
  if (!token() && !(await askToken())) return null;
  try {
    const answer = await act(name, body);
    announce(`${name}: ${answer.done ? "done" : "nothing was changed"}`);
    return answer;
  } catch (error) {
    if (error instanceof Unknown && forget(error)) lock();
    announce(`${name}: ${error.message}`);
    return null;
  } finally {
    if (view?.ask) ask(view);
  }
}

const actions = Object.fromEntries(["pause", "resume", "scale", "set"].map((name) => [name, (body) => attempt(name, body)]));

function askToken() {
  const dialog = by("ask");
  if (dialog.open) return Promise.resolve(false);
  by("ask-token").value = "";
  dialog.showModal();
  return new Promise((done) => {
    const end = (value) => { dialog.close(); if (value) keep(value); lock(); done(Boolean(value)); };
    by("ask-ok").onclick = () => end(by("ask-token").value);
    by("ask-token").onkeydown = (event) => {
      if (event.key !== "Enter") return;
      // The focus goes back to the button that asked: the same key must not press it once more.
      event.preventDefault();
      end(by("ask-token").value);
    };
    by("ask-no").onclick = () => end("");
    dialog.oncancel = () => end("");
  });
}

function lock() {
  by("token").textContent = token() ? "Lock" : "Unlock";
}

function open() {
  const [, name = "overview", ...rest] = location.hash.split("/");
  const parts = rest.map(decodeURIComponent);
  const makers = { overview, topics, groups, schemas, history, replicators, change, audit, events: () => events(log), topic: () => topic(actions, parts[0] ?? "", parts[1] ?? "") };
  view = (makers[name] ?? overview)(actions);
  for (const link of by("views").children) {
    if (link.hash === `#/${name === "topic" ? "topics" : name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  by("view").replaceChildren(view.element);
  clearInterval(timer);
  if (view.ask) {
    ask(view);
    timer = setInterval(() => ask(view), view.every_s * 1000);
  }
  if (snapshot?.status) view.update?.(snapshot);
}

async function ask(asked) {
  try {
    await asked.ask();
  } catch (error) {
    if (error instanceof Unknown) await wanted(asked, error);
    else announce(error.message);
  }
}

/** A view needs a token: ask for one when it is opened, and show it by that; not where the whole page has asked. */
async function wanted(asked, error) {
  if (!forget(error)) return;
  lock();
  if (asked.locked || locked.asked) return;
  asked.locked = true;
  if (await askToken()) ask(asked);
}

/** The gateway shows nothing without a token: ask for one at first, and then say so. */
async function locked(error) {
  if (!forget(error)) return;
  by("health").replaceChildren(h("span", { class: "state warn", "data-sign": "▲" }, error.asked ? "the token is not right" : "a token is needed: Unlock"));
  lock();
  if (locked.asked) return;
  locked.asked = true;
  if (!view.locked && (await askToken()) && view.ask) ask(view);
}

function show(next) {
  const health = by("health");
  if (next === null || !next.status) {
    health.replaceChildren(h("span", { class: "state bad", "data-sign": "✕" }, next === null ? "the gateway does not answer" : "the coordinator has not answered yet"));
    return;
  }
  snapshot = next;
  if (next.events.length && log.length && next.events.at(-1).number < log.at(-1).number) log.length = 0;
  log.push(...next.events);
  log.splice(0, log.length - KEPT);
  by("system").textContent = next.status.name;
  document.body.classList.toggle("priced", next.status.price_per_gb > 0);
  document.title = `${next.status.problems.length ? `(${next.status.problems.length}) ` : ""}mirror-ray ${next.status.name}`;
  const wrong = next.status.problems.length;
  const [kind, sign, words] = !next.up || next.age_seconds > OLD_S ? ["bad", "✕", `old: ${seconds(next.age_seconds)}`]
    : wrong ? [next.status.problems[0].severity === "critical" ? "bad" : "warn", "▲", `${wrong} problem${wrong > 1 ? "s" : ""}`]
      : ["good", "●", "all is well"];
  const shown = health.firstElementChild;
  if (shown?.textContent !== words) health.replaceChildren(h("span", { class: `state ${kind}`, "data-sign": sign }, words));
  view?.update?.(next);
}

by("views").append(...VIEWS.map(([name, title]) => h("a", { href: `#/${name}` }, title)));
by("token").addEventListener("click", () => { if (token()) { keep(""); lock(); } else askToken(); });
addEventListener("hashchange", () => { open(); by("view").focus({ preventScroll: true }); scrollTo(0, 0); });
lock();
open();
follow(show, locked);
