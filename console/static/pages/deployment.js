// The page of a deployment: its insights, one of them with plot, table, placement and decisions.

import {html, useEffect, useMemo, useState} from "../vendor/interface.js";
import {get, ifVersion, path, send} from "../app/api.js";
import {authorOf, counted, duration, sentence, visible, visibleLines, when} from "../app/format.js";
import {useRequest, useTitle} from "../app/hooks.js";
import {timesOf} from "../app/language.js";
import {states} from "../app/live.js";
import {go, link} from "../app/route.js";
import {mayChange} from "../app/session.js";
import {useStore} from "../app/store.js";
import {Term} from "../parts/terms.js";
import {Card, Empty, ErrorNotice, Name, Question, StateBadge, meaningOf} from "../parts/ui.js";
import {ResultsView, amendmentsOf} from "./results.js";
import {DecisionList} from "./start.js";
import {Ways} from "./ways.js";

export function DeploymentPage({id, name, query}) {
  const {data, error, refresh} = useRequest((signal) => get(path`api/insights/${id}`, {}, signal), 5000, [id]);
  const live = useStore(states).get(id);
  useEffect(() => {
    if (data) refresh();
  }, [live?.updated_at, live?.lifecycle?.state, Boolean(live)]);
  const insight = data?.insights.find((each) => each.name === name) ?? data?.insights[0];
  const amendments = useMemo(() => (insight ? amendmentsOf(data.ended, insight) : []), [insight?.uid, insight?.text, data?.ended.length]);
  useTitle(visible(name ?? data?.name ?? id));
  if (error?.status === 404) return html`<${Gone} id=${id} />`;
  if (data === null) return error ? html`<${ErrorNotice} error=${error} />` : html`<p class="starting" role="status">Loading …</p>`;
  const now = live?.insights?.find((each) => each.name === insight?.name);
  const shown = insight && {...insight, ...(now ? {lag_ms: now.lag_ms, lifecycle: now.lifecycle, error: now.error, missing_sites: now.missing_sites} : {})};
  return html`
    <div class="page">
      <${Head} deployment=${data} insight=${shown} amended=${amendments.at(-1)?.at} refresh=${refresh} />
      <${ErrorNotice} error=${error} />
      ${name && insight?.name !== name && html`<div class="notice" role="status">The deployment has no insight <strong><${Name} text=${name} /></strong> now${insight ? html`; this is <strong><${Name} text=${insight.name} /></strong>` : ""}.</div>`}
      ${shown?.error && html`<div class="notice" role="status"><${Name} text=${shown.error} /></div>`}
      ${shown?.silent && html`<div class="notice" role="status"><${Name} text=${`no value: ${shown.silent}`} /></div>`}
      ${insight && html`<${ResultsView} key=${insight.name} id=${id} insight=${shown} amendments=${amendments} query=${query} />`}
      <div class="columns even">
        <div class="stack">
          <${Definition} deployment=${data} insight=${shown} />
          ${insight && html`<${Ways} id=${id} insight=${insight} />`}
        </div>
        <div class="stack">
          <${Placement} placement=${data.placement} insight=${shown} />
          <${Card} title="Decisions" flush>
            ${data.decisions.length === 0 && html`<${Empty} title="None yet">Placements and moves of fragments appear here, with their reasons.<//>`}
            <${DecisionList} entries=${[...data.decisions].reverse()} />
          <//>
        </div>
      </div>
    </div>`;
}

const Gone = ({id}) => html`
  <${Empty} title="There is no such deployment">
    <p><${Name} text=${id} /> was deleted, or never existed.</p>
    <a class="button" href=${link("insights")}>All insights</a>
  <//>`;

function Head({deployment, insight, amended, refresh}) {
  const id = deployment.deployment_id;
  const [question, setQuestion] = useState("");
  const [error, setError] = useState(null);
  const isPaused = deployment.lifecycle?.state === "paused";
  const toggle = async () => {
    try {
      await send("POST", isPaused ? path`api/insights/${id}/resume` : path`api/insights/${id}/pause`);
      setError(null);
      refresh();
    } catch (failure) {
      setError(failure);
    }
  };
  const remove = async () => {
    try {
      await send("DELETE", path`api/insights/${id}`, {headers: ifVersion(deployment.version)});
    } catch (failure) {
      // It may have been deleted by somebody else.
      if (failure.status !== 404) {
        if (failure.status === 412) refresh();
        throw failure.status === 412 ? {message: "The deployment was changed meanwhile.", hint: "Its new text is on this page. To delete it, confirm again."} : failure;
      }
    }
    go(link("insights"));
  };
  return html`
    <div class="page-head">
      <div>
        <p class="small"><a href=${link("insights")}>Insights</a> / <${Name} text=${deployment.name ?? id} /></p>
        <h1><${Name} text=${insight?.name ?? deployment.name ?? id} /></h1>
        <div class="row" style=${{marginTop: "6px"}}>
          <${StateBadge} state=${insight?.lifecycle?.state ?? deployment.lifecycle?.state ?? deployment.status} />
          <span class="small dim">${meaningOf(insight?.lifecycle?.state) && `${meaningOf(insight?.lifecycle?.state)} `}${insight && `${timesOf(insight)} · `}<${Term} name="lag">lag<//> ${duration(insight?.lag_ms)} · deployed ${when(deployment.created_at)}${amended ? ` · this text since ${when(amended)}` : ""}</span>
        </div>
        ${deployment.insights.length > 1 && html`
          <div class="row" style=${{marginTop: "8px"}}>
            <nav class="row" aria-label="Insights of this deployment">${deployment.insights.map((each) => html`
              <a class="button small" key=${each.name} href=${link("insights", id, each.name)}
                aria-current=${each.name === insight?.name ? "true" : undefined}><${Name} text=${each.name} /></a>`)}</nav>
          </div>`}
      </div>
      ${mayChange() && html`
        <div class="actions">
          <a class="button" href=${link("write", id)}>Amend</a>
          <button type="button" class="button" onClick=${toggle}>${isPaused ? "Resume" : "Pause"}</button>
          <button type="button" class="button danger" onClick=${() => setQuestion("delete")}>Delete …</button>
        </div>`}
      <${ErrorNotice} error=${error} />
      ${question === "delete" && html`
        <${Question} title="Delete this deployment?" action="Delete" danger onClose=${() => setQuestion("")}
          onYes=${remove}>
          <p>Its insights stop: ${deployment.insights.map((each, n) => html`${n > 0 && ", "}<strong><${Name} text=${each.name} /></strong>`)}.
            Their results can no longer be read here. Insights of other deployments that refer to them go on.</p>
        <//>`}
    </div>`;
}

function Definition({deployment, insight}) {
  return html`
    <${Card} title="Text">
      <div class="stack tight">
        <pre class="code" tabindex="0" aria-label="Text of the deployment">${visibleLines((insight?.text ?? deployment.queries).trim())}</pre>
        ${deployment.insights.length > 1 && html`
          <details><summary>The text of the whole deployment</summary><pre class="code" tabindex="0">${visibleLines(deployment.queries)}</pre></details>`}
        ${insight && html`<dl class="facts small">
          <dt><${Term} name="deployment">Deployment<//></dt><dd><code>${deployment.deployment_id}</code></dd>
          <dt>Group</dt><dd><${Name} text=${insight.group} /></dd>
          <dt>Owner</dt><dd><${Name} text=${deployment.owner ?? "–"} /></dd>
          ${deployment.amended_at && html`<dt>Amended</dt><dd><${Name} text=${authorOf(deployment)} /></dd>`}
          <dt>Results from</dt><dd>${when(insight.first_tick)}</dd>
          ${deployment.domain && html`<dt>Domain</dt><dd><${Name} text=${deployment.domain} /></dd>`}
        </dl>`}
        ${deployment.warnings.length > 0 && html`
          <details><summary>${counted(deployment.warnings.length, "warning")} when it was deployed</summary>
            <ul class="small">${deployment.warnings.map((each) => html`
              <li key=${each.message}><${Name} text=${[each.message, each.hint].filter(Boolean).join(" ")} /></li>`)}</ul>
          </details>`}
        ${deployment.ended.length > 0 && html`
          <details><summary>${deployment.ended.length} former ${deployment.ended.length === 1 ? "definition" : "definitions"}</summary>
            <ul class="small">${deployment.ended.map((each) => html`
              <li key=${each.uid}><${Name} text=${each.name} />: ${when(each.since)} to ${when(each.until)}, ${each.state}
                ${each.text && html`<pre class="code" tabindex="0" aria-label=${`Former text until ${when(each.until)}`}>${visibleLines(each.text.trim())}</pre>`}</li>`)}</ul>
          </details>`}
      </div>
    <//>`;
}

/** Return how the points of a site without a fitting worker are read, as a sentence. */
const readOf = ({site, reason, worker, worker_site: at}) =>
  `${sentence(reason.replace("the site", `the site ${site}`))}: the worker ${worker} at ${at} reads its points.`;

const KINDS = {whole: "points to results", partial: "points to panes", merge: "panes to results"};

function Placement({placement, insight}) {
  const own = placement.filter((each) => !insight?.group || each.group === insight.group);
  return html`
    <${Card} title="Where it runs" flush>
      ${own.length === 0 && html`<${Empty} title="Not placed">No worker runs the insight now.<//>`}
      ${own.length > 0 && html`
        <div class="scroll" tabindex="0" role="region" aria-label="Placement"><table class="list dense">
          <thead><tr><th><${Term} name="fragment">Fragment<//></th><th>Worker</th><th>Site</th><th>Since</th><th>State</th></tr></thead>
          <tbody>${own.map((each) => html`
            <tr key=${each.fragment}>
              <td><${Name} text=${each.fragment} /><div class="small dim">${KINDS[each.kind]}</div></td>
              <td>${each.node ? html`<a href=${link("fog", each.site, each.node)}><${Name} text=${each.node} /></a>` : "none"}</td>
              <td><${Name} text=${each.site ?? "–"} /></td>
              <td class="nowrap">${each.since ? when(each.since) : "–"}</td>
              <td>${each.state ?? "–"}</td>
            </tr>`)}</tbody>
        </table></div>`}
      ${insight?.remote_reads?.length > 0 && html`
        <ul class="body small">${insight.remote_reads.map((each) => html`
          <li key=${each.site}><${Name} text=${readOf(each)} /></li>`)}</ul>`}
      ${insight?.missing_sites?.length > 0 && html`
        <ul class="body small">${insight.missing_sites.map((each) => html`
          <li key=${each.site}>Without the points of <strong><${Name} text=${each.site} /></strong>${each.since && ` since ${when(each.since)}`}: <${Name} text=${each.why} /></li>`)}</ul>`}
    <//>`;
}
