// The keys of an insight as rows, of which only the visible ones are in the document.

import {html, useEffect, useMemo, useRef, useState} from "../vendor/interface.js";
import {clock, number, quantity, visible} from "../app/format.js";
import {Name} from "./ui.js";

const ROW = 30;

/** Sorting of keys -> the order of two of them; those with a current value are always first. */
const ORDERS = {
  value: (a, b) => valueBy(b) - valueBy(a) || byName(a, b),
  key: (a, b) => byName(a, b),
  time: (a, b) => (b.last?.ts ?? 0) - (a.last?.ts ?? 0) || ORDERS.value(a, b),
};
const valueBy = (each) => each.last?.value ?? -Infinity;
const byName = (a, b) => a.text.localeCompare(b.text, undefined, {numeric: true});

/**
 * Return the keys in an order; those without a value since the time `from` are last.
 * @param {Iterable<import("./series.js").Series>} all
 */
export function keysInOrder(all, order, from) {
  const isOld = (each) => !((each.last?.ts ?? 0) >= from);
  return [...all].sort((a, b) => isOld(a) - isOld(b) || ORDERS[order](a, b));
}

/** Return how many keys there are, and how many of them have a current value: "42 keys: 1 now, 41 earlier". */
export function countOf(all, from, now = "now") {
  const keys = [...all];
  const current = keys.filter((each) => each.last?.ts >= from).length;
  const words = `${keys.length} ${keys.length === 1 ? "key" : "keys"}`;
  return current === keys.length ? words : `${words}: ${current} ${now}, ${keys.length - current} earlier`;
}

/**
 * @param {{set: import("./series.js").SeriesSet, version: number, chosen: Map<string, string>,
 *   onToggle: (id: string) => void, from: number, isPast: boolean, since: number,
 *   unit?: string|null}} props
 *   `chosen`: id of a series -> its colour; `from`: values before this time are not current;
 *   `since`: keys whose values end by this time belong to a former definition.
 */
export function KeyTable({set, version, chosen, onToggle, from, isPast, since, unit}) {
  const [search, setSearch] = useState("");
  const [order, setOrder] = useState("value");
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(340);
  const box = useRef(null);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setHeight(entry.contentRect.height));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const rows = useMemo(() => {
    const words = search.toLowerCase();
    const found = [...set.byId.values()].filter((each) => each.text.toLowerCase().includes(words));
    return keysInOrder(found, order, from);
  }, [version, search, order, from]);
  const first = Math.max(0, Math.floor(top / ROW) - 4);
  const count = Math.ceil(height / ROW) + 8;
  return html`
    <div class="row apart" style=${{padding: "10px 14px"}}>
      <h3>${countOf(set.byId.values(), from, isPast ? "at the end" : "now")}</h3>
      <span class="row">
        <input class="input" type="search" placeholder="Search keys" aria-label="Search keys" value=${search}
          onInput=${(event) => setSearch(event.target.value)} />
        <label class="row small dim">Sort by
          <select class="input" value=${order} onChange=${(event) => setOrder(event.target.value)}>
            <option value="value">value</option><option value="key">key</option><option value="time">time</option>
          </select>
        </label>
      </span>
    </div>
    <div class="key-head" aria-hidden="true">
      <span></span><span>Key</span><span class="right">Value</span><span class="right">${set.hasLists ? "Values" : "Bounds"}</span><span class="right">Time</span><span>Notes</span>
    </div>
    <div class="keys" ref=${box} tabindex="0" role="group" aria-label="Keys and their latest values"
      style=${{height: `${Math.min(340, Math.max(1, rows.length) * ROW + 2)}px`}} onScroll=${(event) => setTop(event.target.scrollTop)}>
      <div class="space" style=${{height: `${rows.length * ROW}px`}}>
        ${rows.slice(first, first + count).map((series, n) => html`
          <${KeyRow} key=${series.id} series=${series} top=${(first + n) * ROW} colour=${chosen.get(series.id)} onToggle=${onToggle}
            isOld=${!(series.last?.ts >= from)} isFormer=${series.last?.ts <= since} unit=${series.last?.ts <= since ? null : unit} />`)}
      </div>
    </div>`;
}

function KeyRow({series, top, colour, onToggle, isOld, isFormer, unit}) {
  const {last} = series;
  return html`
    <button type="button" class=${`key-row ${isOld ? "old" : ""}`} style=${{top: `${top}px`}} aria-pressed=${colour !== undefined}
      title="Show or hide in the plot" onClick=${() => onToggle(series.id)}>
      <span class="swatch" style=${colour ? {background: colour, borderColor: colour} : {}}></span>
      <span><${Name} text=${series.text} /></span>
      <span class="right"><strong>${valueOf(last, unit)}</strong></span>
      <span class="right dim small" title=${last?.values ? listOf(last) : undefined}>${last?.values ? listOf(last) : boundsOf(last)}</span>
      <span class="right dim small">${last ? clock(last.ts, true) : "–"}</span>
      <span class="dim small">${last ? [isFormer ? "former definition" : isOld ? "no value since" : "", notesOf(last)].filter(Boolean).join("; ") : ""}</span>
    </button>`;
}

/** Return the value of a result as text, with its unit if that is known. */
export function valueOf(result, unit) {
  if (!result) return "–";
  if ((result.text ?? null) !== null) return html`<${Name} text=${result.text} />`;
  return result.value === null ? "withdrawn" : quantity(result.value, unit);
}

const MAX_LISTED = 20;

/** Return the values of a function that computes several, such as TOP_K, as text. */
export const listOf = ({values}) =>
  values.slice(0, MAX_LISTED).map(number).join(", ") + (values.length > MAX_LISTED ? " …" : "");

/** Return the bounds of a result as text. */
export const boundsOf = (result) =>
  typeof result?.low === "number" ? `${number(result.low)} … ${number(result.high)}` : "–";

/** Return the remarks on a result. */
export function notesOf(result) {
  const notes = [];
  if (result.revision > 0) notes.push(`corrected (revision ${result.revision})`);
  if (typeof result.few_points === "number") notes.push(`bounds of ${result.few_points} sampled points: wide`);
  if (result.missing?.length) notes.push(`without ${visible(result.missing.join(", "))}`);
  return notes.join("; ");
}
