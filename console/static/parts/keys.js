// The keys of an insight as rows, of which only the visible ones are in the document.

import {html, useEffect, useMemo, useRef, useState} from "../vendor/interface.js";
import {clock, number, visible} from "../app/format.js";
import {Name} from "./ui.js";

const ROW = 30;

/**
 * @param {{set: import("./series.js").SeriesSet, version: number, chosen: Map<string, string>,
 *   onToggle: (id: string) => void}} props `chosen`: id of a series -> its colour
 */
export function KeyTable({set, version, chosen, onToggle}) {
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
    const value = (each) => each.last?.value ?? -Infinity;
    if (order === "value") found.sort((a, b) => value(b) - value(a) || a.text.localeCompare(b.text));
    else found.sort((a, b) => a.text.localeCompare(b.text, undefined, {numeric: true}));
    return found;
  }, [version, search, order]);
  const first = Math.max(0, Math.floor(top / ROW) - 4);
  const count = Math.ceil(height / ROW) + 8;
  return html`
    <div class="row apart" style=${{padding: "10px 14px"}}>
      <h3>${set.size} ${set.size === 1 ? "key" : "keys"}</h3>
      <span class="row">
        <input class="input" type="search" placeholder="Search keys" aria-label="Search keys" value=${search}
          onInput=${(event) => setSearch(event.target.value)} />
        <label class="row small dim">Sort by
          <select class="input" value=${order} onChange=${(event) => setOrder(event.target.value)}>
            <option value="value">value</option><option value="key">key</option>
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
          <${KeyRow} key=${series.id} series=${series} top=${(first + n) * ROW} colour=${chosen.get(series.id)} onToggle=${onToggle} />`)}
      </div>
    </div>`;
}

function KeyRow({series, top, colour, onToggle}) {
  const {last} = series;
  return html`
    <button type="button" class="key-row" style=${{top: `${top}px`}} aria-pressed=${colour !== undefined}
      title="Show or hide in the plot" onClick=${() => onToggle(series.id)}>
      <span class="swatch" style=${colour ? {background: colour, borderColor: colour} : {}}></span>
      <span><${Name} text=${series.text} /></span>
      <span class="right"><strong>${valueOf(last)}</strong></span>
      <span class="right dim small" title=${last?.values ? listOf(last) : undefined}>${last?.values ? listOf(last) : boundsOf(last)}</span>
      <span class="right dim small">${last ? clock(last.ts, true) : "–"}</span>
      <span class="dim small">${last ? notesOf(last) : ""}</span>
    </button>`;
}

/** Return the value of a result as text. */
export function valueOf(result) {
  if (!result) return "–";
  if ((result.text ?? null) !== null) return html`<${Name} text=${result.text} />`;
  return result.value === null ? "withdrawn" : number(result.value);
}

const MAX_LISTED = 20;

/** Return the values of a function that computes several, such as TOP_K, as text. */
export const listOf = ({values}) =>
  values.slice(0, MAX_LISTED).map(number).join(", ") + (values.length > MAX_LISTED ? " …" : "");

/** Return the bounds of a result as text. */
export const boundsOf = (result) =>
  typeof result?.low === "number" ? `${number(result.low)} … ${number(result.high)}` : "–";

/** Return what is special about a result. */
export function notesOf(result) {
  const notes = [];
  if (result.revision > 0) notes.push(`corrected (revision ${result.revision})`);
  if (typeof result.few_points === "number") notes.push(`bounds of ${result.few_points} sampled points: wide`);
  if (result.missing?.length) notes.push(`without ${visible(result.missing.join(", "))}`);
  return notes.join("; ");
}
