// The preview: the values that a text would have had in the last ten minutes.

import {html, useEffect, useMemo, useState} from "../vendor/interface.js";
import {isTemporary, post} from "../app/api.js";
import {clock, duration, sentence, visible} from "../app/format.js";
import {RETRY_MS, useSettled, useStored} from "../app/hooks.js";
import {countOf, keysInOrder, listOf, valueOf} from "../parts/keys.js";
import {TimePlot, coloursOf} from "../parts/plot.js";
import {SeriesSet, currentFrom} from "../parts/series.js";
import {Card, Empty, ErrorNotice, Name, Segments} from "../parts/ui.js";
import {coverageOf} from "./results.js";

const SETTLE_MS = 1200;
const MAX_LINES = 8;

/** @param {{text: string, isRight: boolean, hasErrors?: boolean}} props */
export function Preview({text, isRight, hasErrors = false}) {
  const [isOn, setOn] = useStored("preview", true);
  const [state, setState] = useState({answer: null, of: "", error: null, isBusy: false});
  // The text whose preview was asked for, and how often.
  const [asked, setAsked] = useState({text: null, count: 0});
  const settled = useSettled(text, SETTLE_MS);
  const isReady = isRight && settled === text;
  useEffect(() => {
    if (!isReady || !(isOn || asked.text === settled)) return undefined;
    const controller = new AbortController();
    let timer = 0;
    setState((former) => ({...former, error: null, isBusy: true}));
    const read = () =>
      post("api/insights/preview", {queries: settled, minutes: 10, limit: 5000}, controller.signal).then(
        (answer) => setState({answer, of: settled, error: null, isBusy: false}),
        (error) => {
          if (error.name === "AbortError") return;
          // The former preview of this token may not have ended yet.
          if (error.status === 429) timer = setTimeout(read, 1500);
          else setState({answer: null, of: "", error: explained(error), isBusy: false});
          if (isTemporary(error)) timer = setTimeout(read, RETRY_MS);
        },
      );
    read();
    return () => {
      clearTimeout(timer);
      controller.abort();
      setState((former) => ({...former, isBusy: false}));
    };
  }, [settled, isReady, isOn, asked]);
  const tools = html`
    <span class="row">
      <label class="row small dim"><input type="checkbox" checked=${isOn} onChange=${(event) => setOn(event.target.checked)} /> while I type</label>
      <button type="button" class="button small" disabled=${!isReady || state.isBusy} onClick=${() => setAsked({text: settled, count: asked.count + 1})}>${state.answer ? "Compute again" : "Compute"}</button>
    </span>`;
  return html`
    <${Card} title="Preview of the last ten minutes" tools=${tools} flush label="Preview">
      <${ErrorNotice} error=${state.error} />
      ${hasErrors && html`<${Empty} title="No preview">Correct the errors of the text first.<//>`}
      ${state.answer && !hasErrors ? html`<${Values} answer=${state.answer} isBusy=${state.isBusy} isOld=${state.of !== text} hasTicks=${hasTicks(state.of)} />` : !state.error && !hasErrors && html`
        <${Empty} title=${state.isBusy ? "Computing …" : "No preview yet"}>
          ${state.isBusy ? "This takes a few seconds." : "When the text has no errors, its values of the last ten minutes appear here, before you deploy it."}
        <//>`}
    <//>`;
}

/** An enabler of an earlier version has no preview. */
const explained = (error) =>
  [404, 405].includes(error.status) ? {message: "This enabler cannot compute previews.", hint: "Deploy the insight to see its values."} : error;

/** Return whether the insights of a text have values at ticks, not at points. */
const hasTicks = (text) => /\bEVERY\s+(?!\d+\s+POINTS?\b)/i.test(text);

function Values({answer, isBusy, isOld, hasTicks: atTicks}) {
  const [chosen, setChosen] = useState("");
  const names = answer.insights ?? [];
  const name = names.includes(chosen) ? chosen : names[0];
  const set = useMemo(() => {
    const found = new SeriesSet();
    found.add(answer.results.filter((each) => each.insight === name));
    return found;
  }, [answer, name]);
  const from = useMemo(() => currentFrom(set, {every_ms: set.step, each_point: !atTicks}, answer.to), [set]);
  const all = useMemo(() => keysInOrder(set.byId.values(), "value", from), [set]);
  const colours = useMemo(() => coloursOf(all.slice(0, MAX_LINES).map((each) => each.id)), [all]);
  const unit = answer.units?.[name];
  const lines = useMemo(() => all.slice(0, MAX_LINES).map((series) => ({
    label: series.text,
    colour: colours.get(series.id),
    times: series.times,
    values: series.results.map((each) => each.value),
    low: series.results.map((each) => each.low ?? null),
    high: series.results.map((each) => each.high ?? null),
  })), [all]);
  const missing = answer.missing_sites?.length ? ` Without the sites ${visible(answer.missing_sites.join(", "))}.` : "";
  const worker = answer.worker ? html` on <${Name} text=${answer.worker} />` : "";
  const note = html`${answer.results.length} results of ${clock(answer.from)} to ${clock(answer.to)}, computed in ${duration(answer.took_ms)}${worker}.${answer.truncated ? " More results than fit." : ""}${missing}`;
  return html`
    ${names.length > 1 && html`<div style=${{padding: "10px 14px 0"}}><${Segments} label="Insight" value=${name} onChange=${setChosen} choices=${names.map((each) => [each, each])} /></div>`}
    ${set.unknownAttributes.map((each) => html`
      <div class="notice" key=${each}>No point has the attribute <strong><${Name} text=${each} /></strong>, so there is one result for all of them. The tab Metrics lists the attributes of a metric.</div>`)}
    ${set.size === 0
      ? html`<${Empty} title="No values in the last ten minutes">${answer.silent?.[name]
          ? html`<${Name} text=${`${sentence(answer.silent[name])}.`} />`
          : "Either no point matched the names and the conditions on attributes, or the condition after WHEN was true for none of the values, as with a limit that is too high."}<//>`
      : html`
        ${answer.windows?.[name] && html`<div class="notice plain" role="status"><${Name} text=${coverageOf(answer.windows[name])} /></div>`}
        ${set.hasNumbers && html`<${TimePlot} lines=${lines} spanGaps unit=${unit} label=${`Preview of ${name}; the latest values are in the table below`} />`}
        <div class="scroll" style=${{maxHeight: "240px"}} tabindex="0" role="region" aria-label="Latest values of the preview"><table class="list dense">
          <thead class="sticky"><tr><th>${countOf(all, from)}</th><th class="right">Latest value</th><th class="right">At</th></tr></thead>
          <tbody>${all.slice(0, 100).map((series) => html`
            <tr key=${series.id} class=${series.last.ts >= from ? "" : "old"}>
              <td><span class="swatch-dot" style=${{background: colours.get(series.id) ?? "transparent"}}></span><${Name} text=${series.text} /></td>
              <td class="right"><strong>${valueOf(series.last, unit)}</strong>${series.last.values && html`<div class="small dim">${listOf(series.last)}</div>`}</td>
              <td class="right">${clock(series.last.ts)}</td>
            </tr>`)}</tbody></table></div>`}
    <p class="small dim" style=${{padding: "8px 14px"}} role="status">${isBusy ? "Computing again … " : isOld ? "Of the text before your last change: " : ""}${note}</p>`;
}
