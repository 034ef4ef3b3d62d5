// PromQL over what is stored at a site, as a plot and a table.

import {html, useEffect, useRef, useState} from "../vendor/interface.js";
import {post} from "../app/api.js";
import {now} from "../app/clock.js";
import {dateTime, number, visible} from "../app/format.js";
import {useStored} from "../app/hooks.js";
import {useExampleNames} from "../parts/example_names.js";
import {TimePlot, coloursOf} from "../parts/plot.js";
import {SiteChoice} from "../parts/site_choice.js";
import {Card, Empty, ErrorNotice, Name, RunButton, Segments} from "../parts/ui.js";

const RANGES = [["15", "15 min"], ["60", "1 h"], ["360", "6 h"], ["1440", "24 h"]];
const POINTS = 240;
const MAX_LINES = 8;

const word = (text) => text.replace(/[^A-Za-z0-9_]/g, "_");

/** Return examples of queries for a metric and an attribute of its points. */
const examplesOf = ({metric, attribute}) => [
  `avg by (${word(attribute)}) (${word(metric)})`,
  `topk(3, ${word(metric)})`,
  `count by (${word(attribute)}) (${word(metric)})`,
  `avg_over_time(${word(metric)}[5m])`,
];

export function PromqlBox({query}) {
  const [stored, setStored] = useStored("promql", "");
  const [text, setText] = useState(query || stored);
  const [minutes, setMinutes] = useState("15");
  const [site, setSite] = useState("");
  const [state, setState] = useState({answer: null, error: null, isBusy: false});
  const current = useRef(null);
  const examples = examplesOf(useExampleNames());
  useEffect(() => () => current.current?.abort(), []);
  const run = async (event) => {
    event?.preventDefault();
    if (text.trim() === "") return;
    current.current?.abort();
    current.current = new AbortController();
    setStored(text);
    setState((former) => ({...former, error: null, isBusy: true}));
    const end = Math.floor(now() / 1000);
    const seconds = Number(minutes) * 60;
    const body = {query: text, start: end - seconds, end, step: Math.max(1, Math.round(seconds / POINTS))};
    try {
      const answer = await post("api/promql/query_range", body, current.current.signal, {site});
      setState({answer, error: null, isBusy: false});
    } catch (error) {
      if (error.name !== "AbortError") setState({answer: null, error, isBusy: false});
    }
  };
  const cancel = () => {
    current.current?.abort();
    setState((former) => ({...former, isBusy: false}));
  };
  return html`
    <${Card} title="PromQL" tools=${html`<${SiteChoice} site=${site} onSite=${setSite} />`}
      footer="The same data as for Grafana: metrics by name, with dots as underscores, and results of an insight as insight:NAME.">
      <form class="row" onSubmit=${run}>
        <input class="input mono grow" value=${text} aria-label="PromQL query" placeholder=${examples[0]} spellcheck="false" autocapitalize="off"
          onInput=${(event) => setText(event.target.value)} />
        <${Segments} label="Range" value=${minutes} onChange=${setMinutes} choices=${RANGES} />
        <${RunButton} isBusy=${state.isBusy} isEmpty=${text.trim() === ""} onRun=${run} onCancel=${cancel} />
        <label class="row small dim">Example <select class="input" value="" onChange=${(event) => { setText(event.target.value || text); event.target.value = ""; }}>
          <option value="">choose …</option>${examples.map((each) => html`<option key=${each} value=${each}>${visible(each)}</option>`)}</select></label>
      </form>
      <${ErrorNotice} error=${state.error} />
    <//>
    <${Card} title="Series" flush>
      ${state.answer ? html`<${Answer} answer=${state.answer} />` : html`
        <${Empty} title=${state.isBusy ? "Running …" : "Nothing to show yet"}>${!state.isBusy && "Run a query: each series of the answer is a line."}<//>`}
    <//>`;
}

export function Answer({answer}) {
  const series = answer.data?.result ?? [];
  const warnings = [...(answer.warnings ?? []), ...(answer.infos ?? [])];
  if (series.length === 0) return html`<${Empty} title="No series">No series matches in this range: check the name and the labels.<//>`;
  const named = series.map((each) => ({text: textOf(each.metric ?? {}), values: each.values ?? [each.value]}));
  const colours = coloursOf(named.slice(0, MAX_LINES).map((each) => each.text));
  const lines = named.slice(0, MAX_LINES).map(({text, values}) => ({
    label: text,
    colour: colours.get(text),
    times: values.map(([at]) => Math.round(at * 1000)),
    values: values.map(([, value]) => (Number.isFinite(Number(value)) ? Number(value) : null)),
  }));
  return html`
    ${warnings.map((each) => html`<div class="notice" key=${each}><${Name} text=${each} /></div>`)}
    <${TimePlot} lines=${lines} label="The series of the answer; the latest values are in the table below" />
    ${named.length > MAX_LINES && html`<p class="small dim" style=${{padding: "0 14px"}}>The plot shows ${MAX_LINES} of ${named.length} series.</p>`}
    <div class="scroll" style=${{maxHeight: "360px"}} tabindex="0" role="region" aria-label="Table of series"><table class="list dense">
      <thead class="sticky"><tr><th>Series</th><th class="right">Latest value</th><th class="right">At</th></tr></thead>
      <tbody>${named.slice(0, 500).map(({text, values}, n) => {
        const [at, value] = values[values.length - 1];
        return html`<tr key=${text}>
          <td><span class="swatch-dot" style=${{background: n < MAX_LINES ? colours.get(text) : "transparent"}}></span><${Name} text=${text} /></td>
          <td class="right">${Number.isFinite(Number(value)) ? number(Number(value)) : value}</td><td class="right nowrap">${dateTime(at * 1000)}</td></tr>`;
      })}</tbody></table></div>`;
}

/** Return the labels of a series as PromQL writes them. */
export function textOf({__name__: name = "", ...labels}) {
  const parts = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return parts.length ? `${name}{${parts.join(", ")}}` : name || "{}";
}
