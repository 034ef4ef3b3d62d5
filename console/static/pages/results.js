// The results of an insight: live or of a past range, as a plot by key and as tables.

import {html, useEffect, useMemo, useReducer, useRef, useState} from "../vendor/interface.js";
import {ApiError, get, isTemporary, path} from "../app/api.js";
import {now as enablerTime} from "../app/clock.js";
import {clock, counted, dateTime, duration, when} from "../app/format.js";
import {RETRY_MS} from "../app/hooks.js";
import {timesOf} from "../app/language.js";
import {follow} from "../app/live.js";
import {go, link} from "../app/route.js";
import {KeyTable, boundsOf, keysInOrder, listOf, notesOf, valueOf} from "../parts/keys.js";
import {TimePlot, coloursOf} from "../parts/plot.js";
import {SeriesSet, currentFrom, isWithdrawn} from "../parts/series.js";
import {Card, Empty, ErrorNotice, Name, Segments} from "../parts/ui.js";
import {file} from "./ways.js";

const RANGES = {10: "10 min", 60: "1 h", 360: "6 h", 1440: "24 h"};
const MINUTE = 60_000;
const FIRST_LIMIT = 8000;
const MAX_LINES = 8;
/** The time (ms) after which the keys in the plot are chosen again. */
const CHOICE_MS = 30_000;
const NO_AMENDMENTS = [];

/** Return the results of an insight: {set, version, error, isLoading, truncated}. */
function useResults(id, name, minutes, past) {
  const [, render] = useReducer((n) => n + 1, 0);
  const state = useRef(null);
  const reset = () => ({set: new SeriesSet(), error: null, isLoading: true, truncated: false});
  state.current ??= reset();
  useEffect(() => {
    let ended = false;
    let waiting = 0;
    const controller = new AbortController();
    const own = reset();
    state.current = own;
    render();
    // Changes within a moment cause one rendering, however many results arrive.
    const changed = () => {
      waiting ||= setTimeout(() => {
        waiting = 0;
        if (!past) own.set.dropBefore(enablerTime() - minutes * MINUTE);
        render();
      }, 150);
    };
    const read = async (from, to) => {
      const query = {insight: name, from, to, limit: FIRST_LIMIT};
      try {
        const {results} = await get(path`api/insights/${id}/results`, query, controller.signal);
        own.truncated = results.length >= FIRST_LIMIT;
        own.set.add(results);
        own.error = null;
      } catch (error) {
        if (error.name === "AbortError") return;
        own.error = error;
        if (isTemporary(error)) setTimeout(() => ended || read(from, to), RETRY_MS);
      }
      own.isLoading = false;
      if (!ended) render();
    };
    if (past) read(past[0], past[1]);
    else read(enablerTime() - minutes * MINUTE);
    const stop = past
      ? () => {}
      : follow(`${id}/${name}`, {
          results: (results) => {
            if (!own.set.add(results)) return;
            // An error of a read remains: earlier results are missing until a read succeeds.
            if (!(own.error instanceof ApiError)) own.error = null;
            changed();
          },
          gap: ({since}) => read(since),
          problem: ({message}) => {
            own.error = {message};
            changed();
          },
        });
    // Old values leave the plot also while no new ones arrive.
    const timer = past ? 0 : setInterval(changed, 10_000);
    return () => {
      ended = true;
      stop();
      clearInterval(timer);
      clearTimeout(waiting);
      controller.abort();
    };
  }, [id, name, minutes, past?.[0], past?.[1]]);
  return state.current;
}

/** Return the past range of time in an address, as [from, to] in ms; null: the results are live. */
export function pastIn(query) {
  const [from, to] = ["from", "to"].map((name) => Number(query?.get(name) ?? NaN));
  return Number.isSafeInteger(from) && Number.isSafeInteger(to) && from < to ? [from, to] : null;
}

/** @param {{id: string, insight: object, amendments?: object[], query?: URLSearchParams}} props `query`: of the address */
export function ResultsView({id, insight, amendments = NO_AMENDMENTS, query}) {
  const [minutes, setMinutes] = useState("10");
  const past = useMemo(() => pastIn(query), [query?.get("from"), query?.get("to")]);
  // The range is a part of the address, so that the button Back of the browser leaves it.
  const setPast = (next) => go(link("insights", id, insight.name) + (next ? `?from=${next[0]}&to=${next[1]}` : ""));
  const results = useResults(id, insight.name, Number(minutes), past);
  const [picked, setPicked] = useState(null);
  const [view, setView] = useState("keys");
  const {set} = results;
  const from = currentFrom(set, insight, past ? past[1] : enablerTime());
  const chosen = useMemo(() => choose(set, picked, from), [picked, set, set.size, Math.floor(set.latest / CHOICE_MS)]);
  const lines = useMemo(() => linesOf(set, chosen), [set, set.version, chosen]);
  const now = enablerTime();
  const events = useMemo(() => amendments.map(({at}) => ({at, text: `amended ${when(at)}`})), [amendments]);
  const range = past ?? [liveStart(now, Number(minutes), insight, set), now];
  const toggle = (key) => {
    const next = new Set(chosen.keys());
    if (!next.delete(key)) next.add(key);
    setPicked([...next].slice(-MAX_LINES));
  };
  const move = (share) => {
    const span = range[1] - range[0];
    const moved = [Math.round(range[0] + share * span), Math.round(range[1] + share * span)];
    setPast(moved[1] >= now ? null : moved);
  };
  const title = html`Results ${past ? html`<span class="small dim">${dateTime(past[0])} to ${dateTime(past[1])}</span>` : html`<span class="badge good"><span class="live-dot"></span>live</span>`}`;
  const tools = html`
    <div class="actions">
      ${past ? html`<button type="button" class="button small main-action" onClick=${() => setPast(null)}>Back to live</button>` : html`
        <${Segments} label="Shown range" value=${minutes} onChange=${setMinutes} choices=${Object.entries(RANGES)} />`}
      ${past && html`
        <a class="button small" href=${file("csv", id, insight.name, ...past)} download>CSV of this range</a>
        <a class="button small" href=${file("parquet", id, insight.name, ...past)} download>Parquet</a>`}
      <button type="button" class="button small" onClick=${() => move(-0.5)}>← Earlier</button>
      <button type="button" class="button small" disabled=${!past} onClick=${() => move(0.5)}>Later →</button>
    </div>`;
  return html`
    <${Card} title=${title} tools=${tools} flush label="Results" footer=${footerOf(results, set)}>
      <${ErrorNotice} error=${results.error} />
      ${set.size === 0 && !results.error && html`<${Nothing} isLoading=${results.isLoading} past=${past} insight=${insight} />`}
      ${set.size > 0 && !past && insight.window && html`<div class="notice plain" role="status"><${Name} text=${coverageOf(insight.window)} /></div>`}
      ${set.hasNumbers && html`
        <${TimePlot} lines=${lines} range=${range} spanGaps=${Boolean(insight.each_point)}
          unit=${insight.unit} events=${events}
          onSelect=${(from, to) => to - from > 1000 && setPast([from, to])}
          label=${`${insight.name} over time, ${lines.length} of ${set.size} keys; the values are in the table below`} />`}
      ${set.size > 0 && html`
        <div class="row" style=${{padding: "10px 14px 0"}}>
          <${Segments} label="Table" value=${view} onChange=${setView} choices=${[["keys", "Keys"], ["rows", "Latest results"]]} />
          <span class="small dim">Drag over the plot to select a past range. ○ marks a corrected value; the shaded area shows the bounds of a sample.${set.hasLists ? " The plot shows the least value of TOP_K, and the number of HISTOGRAM and OUTLIER_DETECTION." : ""}</span>
        </div>
        ${view === "keys"
          ? html`<${KeyTable} set=${set} version=${set.version} chosen=${chosen} onToggle=${toggle}
              from=${from} isPast=${Boolean(past)} since=${amendments.at(-1)?.at ?? 0} unit=${insight.unit} />`
          : html`<${ResultTable} set=${set} unit=${insight.unit} amendments=${amendments} />`}`}
    <//>`;
}

/**
 * Return in words that the points began after the window of the latest value.
 * @param {{metric: string, begins_at: number, points_from: number, ends_at: number}} window
 */
export function coverageOf({metric, begins_at: begins, points_from: from, ends_at: ends}) {
  const seconds = (ms) => Math.round(ms / 1000);
  return `The window of the latest value is not full yet: it began at ${when(begins)}, the points of ${metric} at ${when(from)}. ${seconds(ends - from)} of ${counted(seconds(ends - begins), "second")} are covered.`;
}

/** Return the beginning of the live plot, which leaves out the time before the first result. */
export function liveStart(now, minutes, {first_tick: first}, {earliest}) {
  return Math.max(now - minutes * MINUTE, Math.min(first, earliest, now - MINUTE));
}

function footerOf({truncated}, set) {
  if (set.size === 0) return null;
  const cut = truncated ? ` There are more results than fit: shown from ${clock(set.earliest)}.` : "";
  return `Latest result ${dateTime(set.latest)}.${cut}`;
}

function Nothing({isLoading, past, insight}) {
  if (isLoading) return html`<p class="starting" role="status">Reading results …</p>`;
  if (past) return html`<${Empty} title="No results in this range">Choose another range, or go back to live.<//>`;
  const isNew = !insight.silent && (insight.lag_ms === null || insight.lifecycle?.state === "starting" || insight.lifecycle?.state === "submitted");
  return html`
    <${Empty} title=${isNew ? "The first result is on its way" : "No results yet"}>
      ${insight.silent
        ? "The reason is above."
        : isNew
        ? html`The first result is at ${clock(insight.first_tick)}, then ${timesOf(insight)}.`
        : "The insight runs, but has had no value: no point matched its names and conditions, or the condition after WHEN was true for none of its values."}
    <//>`;
}

/**
 * Return the amendments of an insight in the order of time: [{at, before}], with the former text.
 * A pause and its resumption, which do not change the text, are none.
 */
export function amendmentsOf(ended, {name, text}) {
  const own = (ended ?? []).filter((each) => each.name === name).sort((a, b) => a.until - b.until);
  const next = (n) => (n + 1 < own.length ? own[n + 1].text : text);
  return own.flatMap((each, n) => (each.text === next(n) ? [] : [{at: each.until, before: each.text}]));
}

/** Return id of a series -> colour: the picked ones, or the greatest values, the current ones first. */
function choose(set, picked, from) {
  const ids = picked?.filter((id) => set.byId.has(id)) ??
    keysInOrder(set.byId.values(), "value", from).slice(0, MAX_LINES).map((each) => each.id);
  return coloursOf(ids);
}

function linesOf(set, chosen) {
  return [...chosen].flatMap(([id, colour]) => {
    const series = set.byId.get(id);
    if (!series) return [];
    const shown = series.results;
    return [{
      label: series.text,
      colour,
      times: [...series.times],
      values: shown.map((each) => each.value),
      low: shown.map((each) => each.low ?? null),
      high: shown.map((each) => each.high ?? null),
      corrected: shown.filter((each) => each.revision > 0 && !isWithdrawn(each)).map((each) => each.ts),
    }];
  });
}

const Row = ({result, text, unit}) => html`
  <tr>
    <td class="nowrap">${clock(result.ts, true)}</td>
    <td><${Name} text=${text} /></td>
    <td class="right"><strong>${valueOf(result, unit)}</strong>${result.values && html`<div class="small dim">${listOf(result)}</div>`}</td>
    <td class="right nowrap">${boundsOf(result)}</td>
    <td class="right nowrap">${result.computed_at ? duration(result.computed_at - result.ts) : "–"}</td>
    <td>${notesOf(result)}</td>
  </tr>`;

/** The newest results; a row between them marks each amendment. */
function ResultTable({set, unit, amendments}) {
  const rows = set.newest(200);
  const between = (n) => amendments.filter(({at}) => rows[n].ts > at && rows[n + 1]?.ts <= at);
  return html`
    <div class="scroll" style=${{maxHeight: "420px"}} tabindex="0" role="region" aria-label="Table of results">
      <table class="list dense">
        <thead class="sticky"><tr><th>Time</th><th>Key</th><th class="right">Value</th><th class="right">Bounds</th><th class="right">Computed after</th><th>Notes</th></tr></thead>
        <tbody>${rows.map((each, n) => html`
          <${Row} key=${`${each.ts} ${JSON.stringify(each.key)}`} result=${each} unit=${each.ts > (amendments.at(-1)?.at ?? 0) ? unit : null} text=${set.byId.get(JSON.stringify(each.key))?.text} />
          ${between(n).map(({at}) => html`<tr key=${at} class="mark"><td colspan="6">Amended at ${when(at)}: the results below belong to the former text.</td></tr>`)}`)}</tbody>
      </table>
    </div>`;
}
