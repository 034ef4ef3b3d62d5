// Small parts of all pages: names, badges, cards, notices, dialogs.

import {html, useEffect, useMemo, useRef, useState} from "../vendor/interface.js";
import {visible, visibleLines} from "../app/format.js";
import {useTip} from "./terms.js";

const ICONS = {
  good: "M3 8.5l3.2 3.2L13 5",
  warn: "M8 2l6.5 12h-13zM8 6.5v3.5M8 12v.2",
  bad: "M5 1.5h6L14.5 5v6L11 14.5H5L1.5 11V5zM5.5 5.5l5 5M10.5 5.5l-5 5",
  wait: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13M8 4.5V8l2.5 2",
  pause: "M5.5 3v10M10.5 3v10",
  home: "M2 8l6-5.5L14 8M4 7v6.5h8V7",
  list: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4v.1M2.5 8v.1M2.5 12v.1",
  pen: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3zM9.5 4.2l2.3 2.3",
  map: "M4 4.5a1.5 1.5 0 1 0 0-.1M12 6a1.5 1.5 0 1 0 0-.1M6.5 13a1.5 1.5 0 1 0 0-.1M5 5l6 1M11 7l-3.5 5M4.5 5.5L6 11.5",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.5 10.5L14 14",
};

/** A pictogram; what it shows is also in the text beside it. */
export const Icon = ({name}) => html`
  <svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.6"
    stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${ICONS[name]} /></svg>
`;

/** A text of the data: isolated, so that its direction does not change the texts beside it. */
export function Name({text, className = ""}) {
  const shown = visible(text);
  return html`<bdi class=${`name ${className}`} title=${shown.length > 40 ? shown.slice(0, 600) : undefined}>${shown}</bdi>`;
}

const TONES = {
  running: "good", correcting: "good", adapting: "good",
  starting: "wait", submitted: "wait", placing: "bad", lagging: "warn", degraded: "warn",
  shed: "warn", failed: "bad", paused: "pause", stopped: "pause",
};
/** Return the tone of a state of an insight: good, wait, warn, bad or pause. */
export const toneOf = (state) => TONES[state] ?? "wait";

const MEANINGS = {
  running: "Results are complete and in time.",
  correcting: "Results continue while late points correct earlier results.",
  adapting: "Results continue while a new version, or another worker, catches up to take over.",
  starting: "The insight is placed, and has no complete result yet.",
  submitted: "The insight is stored, and not placed yet.",
  placing: "No worker can run the insight now.",
  lagging: "The results are late.",
  degraded: "Results continue without the points of some sites, or at a site that is cut off.",
  shed: "An overloaded worker has stopped the insight until there is capacity again.",
  failed: "The query failed several times in a row; the worker retries.",
  paused: "A request has paused the deployment.",
  stopped: "The insight has ended, and all its results are stored.",
};

/** The state of an insight, as colour, pictogram and word. */
export function StateBadge({state}) {
  const tone = toneOf(state);
  // A check mark would say that nothing happens.
  const icon = CHANGING.includes(state) ? "wait" : tone;
  return html`<span class=${`badge ${tone}`} title=${MEANINGS[state]}><${Icon} name=${icon} />${state ?? "unknown"}</span>`;
}

const CHANGING = ["adapting", "correcting"];

/** Return what a state means, for states that need an explanation; "": it needs none. */
export const meaningOf = (state) => (state === "running" ? "" : MEANINGS[state] ?? "");

export const Card = ({title, tools, flush, footer, label, children}) => html`
  <section class="card" aria-label=${visible(label ?? (typeof title === "string" ? title : "")) || undefined}>
    ${title && html`<header><h2>${typeof title === "string" ? visible(title) : title}</h2>${tools}</header>`}
    <div class=${`body ${flush ? "flush" : ""}`}>${children}</div>
    ${footer && html`<footer>${footer}</footer>`}
  </section>
`;

export const Empty = ({title, children}) => html`<div class="empty"><h3>${title}</h3>${children}</div>`;

/** An error of the API with its hint. */
export function ErrorNotice({error}) {
  if (!error) return null;
  return html`<div class="notice bad" role="alert">
    <bdi class="name lines">${visibleLines(error.message)}</bdi>
    ${error.hint && html`<div class="hint"><bdi class="name lines">${visibleLines(error.hint)}</bdi></div>`}
  </div>`;
}

/** Buttons of which one is chosen. */
export const Segments = ({label, choices, value, onChange}) => html`
  <div class="segments" role="group" aria-label=${label}>
    ${choices.map(([id, text]) => html`
      <button type="button" key=${id} aria-pressed=${id === value} onClick=${() => onChange(id)}>${visible(text)}</button>`)}
  </div>
`;

/** Return the rows in the order of their values; those without a value are last. */
export function ordered(rows, valueOf, sign) {
  const isMissing = (value) => value === null || value === undefined;
  return [...rows].sort((a, b) => {
    const [one, other] = [valueOf(a), valueOf(b)];
    if (isMissing(one) || isMissing(other)) return isMissing(one) - isMissing(other);
    const areNumbers = typeof one === "number" && typeof other === "number";
    return sign * (areNumbers ? one - other : `${one}`.localeCompare(`${other}`, undefined, {numeric: true}));
  });
}

/**
 * Return rows in the order that the user has chosen, and the choice: {rows, by, sign, sort}.
 * @param {object[]} rows
 * @param {Record<string, (row: object) => unknown>} values name of a column -> its value of a row
 */
export function useOrder(rows, values) {
  const [{by, sign}, setOrder] = useState({by: null, sign: 1});
  const sorted = useMemo(() => (values[by] ? ordered(rows, values[by], sign) : rows), [rows, values, by, sign]);
  const sort = (next) => setOrder(next === by ? {by, sign: -sign} : {by: next, sign: 1});
  return {rows: sorted, by, sign, sort};
}

/** The heading of a column by which rows can be sorted; `about`: what the column means. */
export function SortHead({order, by, isRight, title, about, children}) {
  const {on, tip} = useTip(about);
  return html`
    <th class=${isRight ? "right" : ""} aria-sort=${order.by === by ? (order.sign === 1 ? "ascending" : "descending") : undefined}>
      <button type="button" class="sorter" title=${about ? undefined : visible(title ?? "Sort by this column")} onClick=${() => order.sort(by)} ...${on}>${children}</button>${tip}</th>`;
}

/** The button that runs a query, or cancels the query that runs. */
export const RunButton = ({isBusy, isEmpty, onRun, onCancel}) =>
  isBusy
    ? html`<button type="button" class="button" key="cancel" onClick=${onCancel}>Cancel</button>`
    : html`<button type="button" class="button main-action" key="run" disabled=${isEmpty} onClick=${onRun}>Run</button>`;

/** A button that copies a text. */
export function CopyButton({text, label = "Copy"}) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
    } catch {
      setDone("Select the text to copy it");
    }
    setTimeout(() => setDone(""), 2000);
  };
  return html`<button type="button" class="button small" onClick=${copy} aria-live="polite">${done || label}</button>`;
}

/** A modal dialog; it closes by Escape, and returns the focus to where it was. */
export function Dialog({title, wide, onClose, children}) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
    return () => dialog.current?.close();
  }, []);
  return html`
    <dialog ref=${dialog} class=${wide ? "wide" : ""} aria-label=${title}
      onCancel=${(event) => { event.preventDefault(); onClose(); }} onClose=${onClose}>
      <div class="inside"><h2>${title}</h2>${children}</div>
    </dialog>`;
}

/** A question before something that cannot be undone. */
export function Question({title, action, danger, onYes, onClose, children}) {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const answer = async () => {
    setBusy(true);
    try {
      await onYes();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      ${children}
      <${ErrorNotice} error=${error} />
      <div class="actions">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="button" class=${`button ${danger ? "danger" : "main-action"}`} disabled=${isBusy}
          onClick=${answer}>${action}</button>
      </div>
    <//>`;
}
