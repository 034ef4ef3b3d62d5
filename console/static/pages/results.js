// The results of an insight: live or of a past range, as a plot by key and as tables.

import {html, useEffect, useMemo, useReducer, useRef, useState} from "../vendor/interface.js";
import {ApiError, get, isTemporary, path} from "../app/api.js";
import {clock, dateTime, duration} from "../app/format.js";
import {RETRY_MS} from "../app/hooks.js";
import {timesOf} from "../app/language.js";
import {follow} from "../app/live.js";
import {KeyTable, boundsOf, listOf, notesOf, valueOf} from "../parts/keys.js";
import {TimePlot, colourOf} from "../parts/plot.js";
import {SeriesSet, isWithdrawn} from "../parts/series.js";
import {Card, Empty, ErrorNotice, Name, Segments} from "../parts/ui.js";
import {file} from "./ways.js";

const RANGES = {10: "10 min", 60: "1 h", 360: "6 h", 1440: "24 h"};
const MINUTE = 60_000;
const FIRST_LIMIT = 8000;
const MAX_LINES = 8;

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
        if (!past) own.set.dropBefore(Date.now() - minutes * MINUTE);
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
    else read(Date.now() - minutes * MINUTE);
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

export function ResultsView({id, insight}) {
  const [minutes, setMinutes] = useState("10");
  const [past, setPast] = useState(null);
  const results = useResults(id, insight.name, Number(minutes), past);
  const [picked, setPicked] = useState(null);
  const [view, setView] = useState("keys");
  const {set} = results;
  const chosen = useMemo(() => choose(set, picked), [picked, set, set.size]);
  const lines = useMemo(() => linesOf(set, chosen), [set, set.version, chosen]);
  const now = Date.now();
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
      ${set.hasNumbers && html`
        <${TimePlot} lines=${lines} range=${range} spanGaps=${Boolean(insight.each_point)}
          onSelect=${(from, to) => to - from > 1000 && setPast([from, to])}
          label=${`${insight.name} over time, ${lines.length} of ${set.size} keys; the values are in the table below`} />`}
      ${set.size > 0 && html`
        <div class="row" style=${{padding: "10px 14px 0"}}>
          <${Segments} label="Table" value=${view} onChange=${setView} choices=${[["keys", "Keys"], ["rows", "Latest results"]]} />
          <span class="small dim">Drag over the plot to select a past range. ● marks a corrected value; the shaded area shows the bounds of a sample.${set.hasLists ? " The plot shows the least value of TOP_K, and the number of HISTOGRAM and OUTLIER_DETECTION." : ""}</span>
        </div>
        ${view === "keys"
          ? html`<${KeyTable} set=${set} version=${set.version} chosen=${chosen} onToggle=${toggle} />`
          : html`<${ResultTable} set=${set} />`}`}
    <//>`;
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
        : "The insight runs, but no point matches it: check the name of the metric and the conditions."}
    <//>`;
}

/** Return id of a series -> colour: the picked ones, or those with the greatest values. */
function choose(set, picked) {
  const all = [...set.byId.values()];
  const ids = picked?.filter((id) => set.byId.has(id)) ??
    all.sort((a, b) => (b.last?.value ?? -Infinity) - (a.last?.value ?? -Infinity)).slice(0, MAX_LINES).map((each) => each.id);
  return new Map(ids.map((id, n) => [id, colourOf(n)]));
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

function ResultTable({set}) {
  const rows = set.newest(200);
  return html`
    <div class="scroll" style=${{maxHeight: "420px"}} tabindex="0" role="region" aria-label="Table of results">
      <table class="list dense">
        <thead class="sticky"><tr><th>Time</th><th>Key</th><th class="right">Value</th><th class="right">Bounds</th><th class="right">Computed after</th><th>Notes</th></tr></thead>
        <tbody>${rows.map((each) => html`
          <tr key=${`${each.ts} ${JSON.stringify(each.key)}`}>
            <td class="nowrap">${clock(each.ts, true)}</td>
            <td><${Name} text=${set.byId.get(JSON.stringify(each.key))?.text} /></td>
            <td class="right"><strong>${valueOf(each)}</strong>${each.values && html`<div class="small dim">${listOf(each)}</div>`}</td>
            <td class="right nowrap">${boundsOf(each)}</td>
            <td class="right nowrap">${each.computed_at ? duration(each.computed_at - each.ts) : "–"}</td>
            <td>${notesOf(each)}</td>
          </tr>`)}</tbody>
      </table>
    </div>`;
}
