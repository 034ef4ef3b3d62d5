// The one stream of events of the page: states, decisions, the fog, and followed results.

import {address, get, isTemporary} from "./api.js";
import {lastAnswer, now, recordAnswer} from "./clock.js";
import {poll} from "./polling.js";
import {Store} from "./store.js";

const MAX_DECISIONS = 200;
const RETRY_MS = 3000;
const JOIN_MS = 80;
/**
 * The time (ms) after which a hidden page closes its stream. A browser opens six connections to a
 * host, so the streams of six pages would leave none for requests.
 */
const HIDDEN_MS = 3000;
/** The time (ms) after which a new stream without an event is given up. */
const MAX_CONNECT_MS = 10_000;
/** The number of intervals between pings after which a silent stream counts as lost. */
const MAX_SILENT_PINGS = 2.5;

/** "connecting"; "open"; "lost": the views are polled; "down": the enabler does not answer. */
export const connection = new Store("connecting");
/** Why the enabler refuses the stream of events; "": it does not refuse it. */
export const refusal = new Store("");
/** The time of the enabler at which it answered last, before it was down. */
export const downSince = new Store(null);
/** Deployment id -> its state. */
export const states = new Store(new Map());
/** The newest decisions, the newest first. */
export const decisions = new Store([]);
/** The answer of /api/fog with all later changes; null: not read yet. */
export const fog = new Store(null);
/** The answer of /api/health; null: not read yet. */
export const health = new Store(null);

/** @type {Map<string, number>} topic -> number of components that need it */
const topics = new Map([["states", 1], ["decisions", 1]]);
/** @type {Map<string, Set<object>>} insight (ID or ID/NAME) -> the receivers of its results */
const followed = new Map();
let source = null;
/** The topics and insights whose events `source` reads, as a text. */
let subscribed = "";
let cursor = "";
let timer = 0;
let decisionsTimer = 0;
let hiddenTimer = 0;
let silenceTimer = 0;
/** The time (ms) after which an open stream counts as lost; 0: its enabler sends no pings. */
let maxSilenceMs = 0;
let isRunning = false;
/** Whether the stream is closed because the page is hidden. */
let isResting = false;
/** Ends the polling; null: nothing is polled, because the stream is open. */
let stopPolling = null;

/** Begin to read events. */
export function start() {
  isRunning = true;
  isResting = false;
  reconnect(0);
  document.addEventListener("visibilitychange", onVisibility);
  onVisibility();
  readDecisions();
}

/** Read the decisions before those of the stream; again, if the enabler cannot answer yet. */
function readDecisions() {
  get("api/decisions", {limit: MAX_DECISIONS}).then(
    (answer) => {
      if (!isRunning) return;
      answer.decisions.forEach(addDecision);
      decisions.changed();
    },
    (error) => {
      if (isRunning && isTemporary(error)) decisionsTimer = setTimeout(readDecisions, RETRY_MS);
    },
  );
}

/** End reading events, and discard the read data. */
export function stop() {
  isRunning = false;
  document.removeEventListener("visibilitychange", onVisibility);
  clearTimeout(hiddenTimer);
  clearTimeout(decisionsTimer);
  close();
  cursor = "";
  connection.set("connecting");
  refusal.set("");
  states.set(new Map());
  decisions.set([]);
  fog.set(null);
  health.set(null);
}

function close() {
  source?.close();
  source = null;
  clearTimeout(timer);
  clearTimeout(silenceTimer);
  stopPolling?.();
  stopPolling = null;
}

/** Close the stream of a page that remains hidden; resume it when the page is shown. */
function onVisibility() {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(() => {
      isResting = true;
      close();
    }, HIDDEN_MS);
  } else if (isResting) {
    isResting = false;
    reconnect(0);
  }
}

/** Read the events of a topic until the returned function is called. */
export function need(topic) {
  topics.set(topic, (topics.get(topic) || 0) + 1);
  if (topics.get(topic) === 1) reconnect(JOIN_MS);
  return () => {
    topics.set(topic, topics.get(topic) - 1);
    if (topics.get(topic) > 0) return;
    topics.delete(topic);
    reconnect(JOIN_MS);
  };
}

/**
 * Follow the results of an insight ("ID" or "ID/NAME") until the returned function is called.
 * @param {{results: (results: object[]) => void, gap?: (gap: object) => void,
 *   problem?: (problem: object) => void}} receiver
 */
export function follow(insight, receiver) {
  if (!followed.has(insight)) followed.set(insight, new Set());
  followed.get(insight).add(receiver);
  reconnect(JOIN_MS);
  return () => {
    followed.get(insight)?.delete(receiver);
    if (followed.get(insight)?.size !== 0) return;
    followed.delete(insight);
    reconnect(JOIN_MS);
  };
}

function reconnect(ms) {
  if (!isRunning || isResting) return;
  clearTimeout(timer);
  timer = setTimeout(connect, ms);
}

/** Read the data of the stream by other requests, until a stream is open. */
function startPolling() {
  if (connection.value !== "down") connection.set("lost");
  stopPolling ??= poll(POLLED);
}

/** Replace the stream if no event arrives within `ms`; 0: at no time. */
function limitSilence(ms) {
  clearTimeout(silenceTimer);
  if (ms === 0) return;
  silenceTimer = setTimeout(() => {
    source?.close();
    startPolling();
    reconnect(RETRY_MS);
  }, ms);
}

function connect() {
  const query = {topics: [...topics.keys()].sort().join(","), insights: [...followed.keys()].sort().join(",")};
  const wanted = JSON.stringify(query);
  // A page that is left and the next one may need the same.
  if (source?.readyState === EventSource.OPEN && wanted === subscribed) return;
  source?.close();
  subscribed = wanted;
  source = new EventSource(address("api/events", {...query, after: cursor}));
  limitSilence(MAX_CONNECT_MS);
  const own = source;
  const on = (name, handle) =>
    own.addEventListener(name, (event) => {
      if (own !== source) return;
      recordAnswer();
      limitSilence(maxSilenceMs);
      if (event.lastEventId) cursor = event.lastEventId;
      handle(JSON.parse(event.data));
    });
  on("hello", ({ping_s: seconds = 0}) => {
    maxSilenceMs = 1000 * MAX_SILENT_PINGS * seconds;
    limitSilence(maxSilenceMs);
    connection.set("open");
    if (refusal.value) refusal.set("");
    stopPolling?.();
    stopPolling = null;
  });
  on("ping", () => {});
  on("state", (state) => {
    states.value.set(state.deployment_id, state);
    states.changed();
  });
  on("deleted", ({deployment_id: id}) => {
    states.value.delete(id);
    states.changed();
  });
  on("present", ({deployment_ids: ids}) => {
    const present = new Set(ids);
    for (const id of [...states.value.keys()]) if (!present.has(id)) states.value.delete(id);
    states.changed();
  });
  on("decision", (decision) => {
    addDecision(decision);
    decisions.changed();
  });
  on("health", (report) => health.set(report));
  on("fog", (answer) => fog.set(answer));
  on("fog_changed", (change) => fog.set(applied(fog.value, change)));
  on("result", (result) => deliver([result]));
  on("results", ({results}) => deliver(results));
  on("gap", (gap) => receivers(gap.deployment_id).forEach((each) => each.gap?.(gap)));
  on("problem", (problem) => receivers(problem.deployment_id).forEach((each) => each.problem?.(problem)));
  own.onerror = () => {
    if (own !== source) return;
    startPolling();
    // A closed source does not connect again by itself.
    const isClosed = own.readyState === EventSource.CLOSED;
    limitSilence(isClosed ? 0 : MAX_CONNECT_MS);
    if (!isClosed) return;
    if (!refusal.value) explain(own.url);
    reconnect(RETRY_MS + Math.random() * 1000);
  };
}

/** Read why a stream is refused, because an EventSource does not report the reason. */
async function explain(url) {
  const controller = new AbortController();
  try {
    const answer = await fetch(url, {credentials: "same-origin", cache: "no-store", signal: controller.signal});
    if (!answer.ok) refusal.set((await answer.json()).error?.message ?? "");
  } catch {
    // Without an answer, the polling finds the reason.
  }
  controller.abort();
}

const POLLED = {
  topics: () => [...topics.keys()],
  followed: () => [...followed.keys()],
  onStates: (found) => {
    states.set(new Map(found.map((each) => [each.deployment_id, each])));
  },
  onFog: (answer) => fog.set(answer),
  onHealth: (report) => health.set(report),
  onRound: (isAnswered) => {
    if (!isAnswered && connection.value !== "down") downSince.set(lastAnswer() ?? now());
    if (connection.value !== "open") connection.set(isAnswered ? "lost" : "down");
  },
  onDecisions: (found) => {
    found.forEach(addDecision);
    decisions.changed();
  },
  onResults: deliver,
};

function addDecision(decision) {
  const same = (each) =>
    ["at", "kind", "subject", "what"].every((part) => each[part] === decision[part]);
  if (decisions.value.some(same)) return;
  decisions.value = [decision, ...decisions.value].sort((a, b) => b.at - a.at).slice(0, MAX_DECISIONS);
}

function receivers(deployment, insight) {
  const found = new Set(followed.get(deployment));
  for (const [name, them] of followed) {
    const matches = insight === undefined ? name.startsWith(`${deployment}/`) : name === `${deployment}/${insight}`;
    if (matches) them.forEach((each) => found.add(each));
  }
  return [...found];
}

function deliver(results) {
  const groups = new Map();
  for (const result of results) {
    const id = JSON.stringify([result.deployment_id, result.insight]);
    if (!groups.has(id)) groups.set(id, []);
    groups.get(id).push(result);
  }
  for (const group of groups.values()) {
    receivers(group[0].deployment_id, group[0].insight).forEach((each) => each.results(group));
  }
}

const KEYS = {
  nodes: (each) => each.name,
  links: (each) => JSON.stringify([each.source, each.target]),
  site_states: (each) => each.name,
  fragments: (each) => each.fragment,
  flows: (each) => JSON.stringify([each.source, each.target, each.kind, each.group]),
};

/** Return the fog after a change of some of its entries. */
export function applied(before, change) {
  if (before === null) return null;
  const after = {...before, at: change.at ?? before.at};
  for (const [field, keyOf] of Object.entries(KEYS)) {
    const removed = (change.removed?.[field] ?? []).map((each) => (Array.isArray(each) ? JSON.stringify(each) : each));
    const changed = change[field] ?? [];
    if (!removed.length && !changed.length) continue;
    const entries = new Map((before[field] ?? []).map((each) => [keyOf(each), each]));
    removed.forEach((each) => entries.delete(each));
    changed.forEach((each) => entries.set(keyOf(each), each));
    after[field] = [...entries.values()];
  }
  if (after.site_states !== before.site_states) after.sites = after.site_states.map((each) => each.name).sort();
  return after;
}
