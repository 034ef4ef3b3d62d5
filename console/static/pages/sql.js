// SQL over what is stored at a site: one SELECT, its rows as a table and as a plot.

import {html, useEffect, useMemo, useRef, useState} from "../vendor/interface.js";
import {post} from "../app/api.js";
import {counted, duration, visible} from "../app/format.js";
import {useStored} from "../app/hooks.js";
import {TextEditor} from "../parts/editor.js";
import {useExampleNames} from "../parts/example_names.js";
import {sqlLanguage} from "../parts/highlight.js";
import {SiteChoice} from "../parts/site_choice.js";
import {DataTable, TablePlot, plottable} from "../parts/table.js";
import {Card, Empty, ErrorNotice, RunButton} from "../parts/ui.js";

const START = "SELECT metric, count(*) AS series, max(ts) AS ts\nFROM latest\nGROUP BY metric\nORDER BY series DESC";
/** Name of a table -> its columns. */
const TABLES = {
  latest: "metric, entity, ts, value, and the columns of metadata: the latest point of each series. It has no attributes",
  historical: "metric, entity, attributes, ts, value: all stored points. One attribute is attributes->>'region'",
  metadata: "metric, entity, entity_type, name, units, description, group_name, min_val, max_val, higher_is_better, and columns for pods and containers",
};

/** Return an error of a query; where it names the page of the documentation, the table below replaces it. */
export const explained = (error) =>
  /docs\/sql\.md/.test(error.hint) ? {...error, message: error.message, hint: "The tables and their columns are listed below the editor."} : error;

const quotedText = (value) => `'${value.replaceAll("'", "''")}'`;
const quotedName = (value) => `"${value.replaceAll('"', '""')}"`;

/** Return [title, query] of the examples, for a metric and an attribute of its points. */
export const examplesOf = (metric, attribute) => [
  ["Latest values", "SELECT metric, entity, ts, value FROM latest ORDER BY ts DESC LIMIT 100"],
  ["Series of each metric", START],
  [`${metric} by minute`, `SELECT ts // 60000 * 60000 AS ts, avg(value) AS mean, max(value) AS greatest\nFROM historical\nWHERE metric = ${quotedText(metric)} AND ts >= epoch_ms(now()) - 3600000\nGROUP BY ALL\nORDER BY ts`],
  [`${metric} by ${attribute}`, `SELECT attributes->>${quotedText(attribute)} AS ${quotedName(attribute)}, count(*) AS points, avg(value) AS mean\nFROM historical\nWHERE metric = ${quotedText(metric)} AND ts >= epoch_ms(now()) - 600000\nGROUP BY ALL`],
  ["Units and descriptions", "SELECT DISTINCT metric, name, units, description FROM metadata ORDER BY metric"],
];

export function SqlBox({query}) {
  const [stored, setStored] = useStored("sql", START);
  const [text, setText] = useState(query || stored);
  const [site, setSite] = useState("");
  const [state, setState] = useState({answer: null, error: null, isBusy: false, ms: 0});
  const current = useRef(null);
  const names = useExampleNames();
  const examples = examplesOf(names.metric, names.attribute);
  useEffect(() => () => current.current?.abort(), []);
  const run = async () => {
    current.current?.abort();
    current.current = new AbortController();
    setStored(text);
    setState((former) => ({...former, error: null, isBusy: true}));
    const start = performance.now();
    try {
      const answer = await post("api/sql", {query: text}, current.current.signal, {site});
      setState({answer, error: null, isBusy: false, ms: performance.now() - start});
    } catch (error) {
      if (error.name !== "AbortError") setState({answer: null, error, isBusy: false, ms: 0});
    }
  };
  const cancel = () => {
    current.current?.abort();
    setState((former) => ({...former, isBusy: false}));
  };
  const {answer} = state;
  const canPlot = useMemo(() => answer && plottable(answer.columns, answer.rows), [answer]);
  return html`
    <${Card} title="SQL" flush tools=${html`<${SiteChoice} site=${site} onSite=${setSite} />`}
      footer="One SELECT of DuckDB over the tables latest, historical and metadata, and every stream by its name in quotes.">
      <${TextEditor} value=${text} onChange=${setText} language=${sqlLanguage} label="SQL query" minHeight="120px" onRun=${run} empty="SELECT * FROM latest LIMIT 100" />
      <div class="row" style=${{padding: "10px 14px"}}>
        <${RunButton} isBusy=${state.isBusy} isEmpty=${text.trim() === ""} onRun=${run} onCancel=${cancel} />
        <span class="small dim phone-hidden">Ctrl + Enter</span>
        <label class="row small dim">Example <select class="input" value="" onChange=${(event) => { if (event.target.value) setText(examples[Number(event.target.value)][1]); event.target.value = ""; }}>
          <option value="">choose …</option>${examples.map(([title], n) => html`<option key=${title} value=${n}>${visible(title)}</option>`)}</select></label>
      </div>
      <${ErrorNotice} error=${state.error && explained(state.error)} />
      <details class="small" style=${{padding: "0 14px 10px"}} open=${Boolean(state.error)}><summary>Tables and their columns</summary>
        <dl class="facts stacked" style=${{marginTop: "6px"}}>${Object.entries(TABLES).map(([name, about]) => html`<dt key=${name}><code>${name}</code></dt><dd>${about}</dd>`)}
          <dt><code>"results/…"</code>, <code>raw</code></dt><dd>Every stream by its name in quotes</dd></dl>
        <p class="dim" style=${{marginTop: "6px"}}>Times (ts) are in milliseconds since 1970.</p></details>
    <//>
    <${Card} title="Rows" flush footer=${answer && `${counted(answer.rows.length, "row")} in ${duration(state.ms)}`}>
      ${answer === null && html`<${Empty} title=${state.isBusy ? "Running …" : "Nothing to show yet"}>${!state.isBusy && "Run a query: its rows appear here, and as a plot if they have times and numbers."}<//>`}
      ${answer && state.isBusy && html`<p class="notice plain" role="status">Running … The rows below belong to the previous query.</p>`}
      ${answer?.rows.length === 0 && html`<${Empty} title="No rows">The answer of the query has no rows.<//>`}
      <div class=${state.isBusy ? "outdated" : ""}>
        ${canPlot && html`<${TablePlot} columns=${answer.columns} rows=${answer.rows} label="The rows as a plot; the values are in the table below" />`}
        ${answer?.rows.length > 0 && html`<${DataTable} columns=${answer.columns} rows=${answer.rows} label="Table of rows" />`}
      </div>
    <//>`;
}
