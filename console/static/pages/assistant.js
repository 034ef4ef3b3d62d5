// What helps beside the editor: examples with the metrics of the fog, metrics, the language, the plan.

import {html, useEffect, useMemo, useState} from "../vendor/interface.js";
import {get, post} from "../app/api.js";
import {bytes, compact, counted, duration, visible, visibleLines} from "../app/format.js";
import {useRequest, useSettled} from "../app/hooks.js";
import {SUMMARY, bestOf, filled, inOrderOfUse, isWritable, nameOf, readExamples, secondOf, valueOf} from "../app/language.js";
import {isReplaceable, rememberExample} from "../parts/draft.js";
import {Dialog, Empty, ErrorNotice, Name} from "../parts/ui.js";

const MAX_METRICS = 300;
/** The time (ms) after which the metrics are read again, since new ones may have arrived. */
const AGAIN_MS = 20_000;
const TABS = {examples: "Examples", metrics: "Metrics", language: "Language", plan: "Plan"};

export function Assistant({metric: initial, text, isRight, editor, onText}) {
  const [tab, setTab] = useState("examples");
  const metrics = useRequest((signal) => get("api/metrics", {limit: MAX_METRICS}, signal), AGAIN_MS, []);
  const [chosen, setChosen] = useState(null);
  useEffect(() => {
    if (!initial) return;
    get("api/metrics", {metric: initial, limit: 1}).then((answer) => setChosen(answer.metrics[0] ?? null), () => {});
  }, [initial]);
  const found = useMemo(() => withChosen(metrics.data?.metrics ?? [], chosen), [metrics.data, chosen]);
  const current = found.find((each) => each.metric === chosen?.metric) ?? found[0];
  const {attributes, isReading} = useAttributes(current?.metric);
  const onKey = (event) => {
    const names = Object.keys(TABS);
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const next = names[(names.indexOf(tab) + step + names.length) % names.length];
    setTab(next);
    document.getElementById(`tab-${next}`).focus();
  };
  return html`
    <section class="card" aria-label="Help with writing">
      <div class="tabs" role="tablist" aria-label="Help" onKeyDown=${onKey}>
        ${Object.entries(TABS).map(([id, title]) => html`
          <button type="button" key=${id} role="tab" id=${`tab-${id}`} aria-selected=${id === tab} tabindex=${id === tab ? 0 : -1}
            aria-controls="help-panel" onClick=${() => setTab(id)}>${title}</button>`)}
      </div>
      <div id="help-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`}>
        ${tab === "examples" && html`<${Examples} metrics=${found} current=${current} onMetric=${setChosen} attributes=${attributes} text=${text} onText=${onText} editor=${editor} isReading=${metrics.loading || isReading} />`}
        ${tab === "metrics" && html`<${Metrics} current=${current} onMetric=${setChosen} attributes=${attributes} editor=${editor} />`}
        ${tab === "language" && html`<${Language} />`}
        ${tab === "plan" && html`<${Plan} text=${text} isRight=${isRight} />`}
      </div>
    </section>`;
}

/** Return the metrics for examples; the chosen one is among them, also if the list is cut before it. */
function withChosen(metrics, chosen) {
  const all = !chosen || metrics.some((each) => each.metric === chosen.metric) ? metrics : [chosen, ...metrics];
  return inOrderOfUse(all.filter((each) => isWritable(each.metric)));
}

/** Read the attributes of the points of a metric: {attributes: [{name, values, more}], isReading}. */
function useAttributes(metric) {
  const {data, loading} = useRequest(
    (signal) => (metric ? get("api/attributes", {metric}, signal) : Promise.resolve(null)), 0, [metric], true,
  );
  return {attributes: data?.attributes ?? [], isReading: loading};
}

function Examples({metrics, current, onMetric, attributes, text, onText, editor, isReading}) {
  const {data: examples} = useRequest(readExamples, 0, []);
  const [attribute, setAttribute] = useState("");
  const [asked, setAsked] = useState("");
  const values = attributes.find((each) => each.name === attribute) ?? bestOf(attributes);
  const attributeName = values?.name ?? "node";
  const fill = {metric: current?.metric ?? "cpu.util", attribute: attributeName, second: secondOf(attributes, attributeName), value: values?.values?.[0] ?? "n1"};
  const types = current?.entity_types?.join(", ");
  const words = (text) => text.replaceAll("{attribute}", () => fill.attribute).replaceAll("{second}", () => fill.second).replaceAll("{entities}", () => (types ? `entities (${types})` : "entities"));
  const use = (example) => {
    const next = filled(example.text, fill);
    if (isReplaceable(text)) take(next, true);
    else setAsked(next);
  };
  const take = (next, isWhole) => {
    if (isWhole) rememberExample(next);
    onText(isWhole ? next : `${text.trimEnd().replace(/;$/, "")};\n${next}`);
    setAsked("");
    // After the dialog has returned the focus to the example.
    setTimeout(() => editor.current?.focus());
  };
  return html`
    <div class="row" style=${{padding: "12px 14px"}}>
      <label class="field grow">Metric
        <select class="input" value=${current?.metric} onChange=${(event) => onMetric(metrics.find((each) => each.metric === event.target.value))}>
          ${metrics.map((each) => html`<option key=${each.metric} value=${each.metric}>${visible(each.metric).slice(0, 80)}</option>`)}
        </select></label>
      <label class="field grow">Attribute
        <select class="input" value=${values?.name} onChange=${(event) => setAttribute(event.target.value)}>
          ${attributes.map((each) => html`<option key=${each.name} value=${each.name}>${visible(each.name).slice(0, 80)}</option>`)}
        </select></label>
    </div>
    ${!isReading && metrics.length === 0 && html`<p class="notice plain" style=${{margin: "0 14px 12px"}}>No metric is known yet: the examples use cpu.util.</p>`}
    ${current?.desc && html`<p class="small dim" style=${{padding: "0 14px 10px"}}><${Name} text=${current.metric} />: <${Name} text=${current.desc} />${current.units && html` (<${Name} text=${current.units} />)`}</p>`}
    <p class="small dim" style=${{padding: "0 14px 10px"}}>Choose the metric and the attribute above; a click on an example writes it into the text.</p>
    <ul class="picker" style=${{maxHeight: "none"}}>
      ${(examples ?? []).map((example) => html`
        <li key=${example.title}><button type="button" class="pick" disabled=${isReading && metrics.length > 0 && attributes.length === 0} onClick=${() => use(example)}>
          <strong><${Name} text=${words(example.title)} /></strong><span class="small dim"><${Name} text=${words(example.about)} /></span>
        </button></li>`)}
    </ul>
    ${asked && html`<${Replacement} example=${asked} onTake=${take} onClose=${() => setAsked("")} />`}`;
}

/** The question whether an example replaces a text of the user. */
const Replacement = ({example, onTake, onClose}) => html`
  <${Dialog} title="Replace your text?" onClose=${onClose}>
    <p>The editor contains a text of your own. The example is:</p>
    <pre class="code" tabindex="0">${visibleLines(example)}</pre>
    <div class="actions">
      <button type="button" class="button" onClick=${onClose}>Cancel</button>
      <button type="button" class="button" onClick=${() => onTake(example, false)}>Add the example below</button>
      <button type="button" class="button main-action" onClick=${() => onTake(example, true)}>Replace my text</button>
    </div>
  <//>`;

function Metrics({current, onMetric, attributes, editor}) {
  const [search, setSearch] = useState("");
  const settled = useSettled(search, 250);
  const metrics = useRequest((signal) => get("api/metrics", {search: settled, limit: MAX_METRICS}, signal), AGAIN_MS, [settled]);
  const shown = useMemo(() => inOrderOfUse(metrics.data?.metrics ?? []), [metrics.data]);
  return html`
    <div style=${{padding: "12px 14px"}}>
      <input class="input" style=${{width: "100%"}} type="search" placeholder="Search metrics" aria-label="Search metrics" value=${search} onInput=${(event) => setSearch(event.target.value)} />
    </div>
    <${ErrorNotice} error=${metrics.error} />
    ${metrics.data && shown.length === 0 && html`<${Empty} title=${search ? "No metric matches" : "No metric is known yet"}>${search ? "Try another word." : "Metrics appear when nodes send points."}<//>`}
    <ul class="picker">
      ${shown.map((each) => html`
        <li key=${each.metric}><button type="button" class="pick" disabled=${!isWritable(each.metric)} aria-pressed=${each.metric === current?.metric}
          onClick=${() => { onMetric(each); editor.current.insert(nameOf(each.metric)); }}>
          <strong><${Name} text=${each.metric} /></strong>
          <span class="small dim"><${Name} text=${each.desc || each.name || ""} />${each.units && html` · <${Name} text=${each.units} />`} · ${each.entity_count} series at ${counted(each.sites.length, "site")}</span>
        </button></li>`)}
    </ul>
    ${current && attributes.length > 0 && html`
      <div style=${{padding: "12px 14px", borderTop: "1px solid var(--line)"}}>
        <h3>Attributes of <${Name} text=${current.metric} /></h3>
        <p class="small dim">For BY and WHEN; a click inserts the name or the condition.</p>
        <dl class="facts" style=${{marginTop: "8px"}}>${attributes.filter((each) => isWritable(each.name)).map((each) => html`
          <dt><button type="button" class="button small" onClick=${() => editor.current.insert(nameOf(each.name))}><${Name} text=${each.name} /></button></dt>
          <dd class="row">${each.values.slice(0, 8).map((value) => html`
            <button type="button" class="button small quiet" key=${value} onClick=${() => editor.current.insert(`${nameOf(each.name)} == ${valueOf(value)}`)}><${Name} text=${value} /></button>`)}${(each.more || each.values.length > 8) && " …"}</dd>`)}
        </dl>
      </div>`}`;
}

const Language = () => html`
  <div class="stack tight" style=${{padding: "14px"}}>
    <pre class="code" tabindex="0">${"worst_delay = COMPUTE MAX(delay, 30 SECONDS)\n  BY region\n  WHEN > 60\n  EVERY 5 SECONDS"}</pre>
    <p>Every five seconds, for each region: the greatest delay of the last 30 seconds, if it is above 60.</p>
    <dl class="facts stacked">${SUMMARY.map(([form, meaning]) => html`<dt><code>${form}</code></dt><dd>${meaning}</dd>`)}</dl>
  </div>`;

function Plan({text, isRight}) {
  const settled = useSettled(text, 800);
  const isReady = isRight && settled === text;
  const {data, error, loading} = useRequest(
    (signal) => (isReady ? post("api/insights/explain", {queries: settled}, signal) : Promise.resolve(null)), 0, [settled, isReady],
  );
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!data) return html`<${Empty} title=${loading && isReady ? "Explaining …" : "No plan yet"}>When the text has no errors, its plan, its workers, and its shared parts appear here.<//>`;
  return html`<div class="stack" style=${{padding: "14px"}}>
    ${data.groups.map((group) => html`<${Group} key=${group.id} group=${group} />`)}
    <div><h3>Shared with running insights</h3>
      ${data.shared.length === 0 ? html`<p class="small dim">Nothing: no running insight reads the same windows.</p>` : html`
        <ul class="small">${data.shared.map((each) => html`<li key=${`${each.insight} ${each.id}`}><${Name} text=${each.text} /></li>`)}</ul>`}</div>
    <details open><summary>Plan after the optimizer</summary><div class="plan">${visibleLines(optimized(data).join("\n"))}</div></details>
    <details><summary>Plan before, as written</summary><div class="plan">${visibleLines(data.plan.join("\n"))}</div></details>
    ${data.steps.length > 0 && html`<details><summary>What the optimizer did (${counted(data.steps.length, "step")})</summary>
      ${data.steps.map((step) => html`<p class="small" style=${{marginTop: "8px"}}><strong>${step.rule}</strong>: <${Name} text=${step.did} /></p><div class="plan dim">${visibleLines(step.plan.join("\n"))}</div>`)}</details>`}
  </div>`;
}

/** Return the lines of the plan after the last step of each group; without steps, those of the plan. */
function optimized({plan, steps}) {
  const last = new Map(steps.map((step) => [step.group, step.plan]));
  return last.size ? [...last.values()].flat() : plan;
}

function Group({group}) {
  const crossing = group.edges.filter((each) => !each.is_local && each.bytes_per_s !== null);
  const traffic = crossing.reduce((sum, each) => sum + each.bytes_per_s, 0);
  const first = group.edges.filter((each) => each.carries === "points").reduce((sum, each) => sum + (each.per_s ?? 0), 0);
  return html`
    <div class="stack tight">
      <h3>Workers</h3>
      ${group.problem && html`<div class="notice bad"><${Name} text=${group.problem} /></div>`}
      <table class="list dense"><thead><tr><th>Fragment</th><th>Worker</th><th class="right">Cores</th><th class="right">Memory</th></tr></thead>
        <tbody>${group.fragments.map((each) => html`
          <tr key=${each.id}><td><${Name} text=${each.kind} /> <span class="small dim"><${Name} text=${each.id} /></span></td>
            <td>${each.worker ? html`<${Name} text=${each.worker} /> <span class="small dim">at <${Name} text=${each.site} /></span>` : html`<strong>none</strong>`}</td>
            <td class="right">${compact(each.cores)}</td><td class="right nowrap">${each.memory_mb === null || each.memory_mb === undefined ? "–" : `${Math.round(each.memory_mb)} MB`}</td></tr>`)}</tbody></table>
      <dl class="facts small">
        <dt>Reads</dt><dd>about ${compact(first)} points/s</dd>
        <dt>Between sites</dt><dd>${crossing.length ? `about ${bytes(traffic)}/s` : "nothing"}</dd>
        ${group.latency_ms !== null && html`<dt>Latency of links</dt><dd>${duration(group.latency_ms)}</dd>`}
        ${group.cost_per_hour !== null && html`<dt>Cost</dt><dd>${compact(group.cost_per_hour)} per hour</dd>`}
        ${group.savings.map((each) => html`<dt key=${each.step}>Saved</dt><dd><${Name} text=${each.did} />: ${compact(each.per_s)} instead of ${compact(each.instead_of)} ${each.unit}/s</dd>`)}
      </dl>
      ${group.refusals.length > 0 && html`<details class="small"><summary>Nodes that cannot run the fragments (${group.refusals.length})</summary><ul>${group.refusals.map((each) => html`<li key=${each}><${Name} text=${each} /></li>`)}</ul></details>`}
    </div>`;
}
