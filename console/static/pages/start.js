// The start page: is all well? What is not, since when, and what to do.

import {html} from "../vendor/interface.js";
import {send} from "../app/api.js";
import {ago, when} from "../app/format.js";
import {healthOf} from "../app/health.js";
import {useNow, useRequest} from "../app/hooks.js";
import {decisions, fog, isRead, states} from "../app/live.js";
import {link} from "../app/route.js";
import {mayChange} from "../app/session.js";
import {useStore} from "../app/store.js";
import {useFog} from "../parts/fog_hook.js";
import {Card, Empty, Icon, Name} from "../parts/ui.js";

const VERDICTS = {
  ok: ["good", "All is well"],
  degraded: ["warn", "Some things need attention"],
  failed: ["bad", "Something is broken"],
};
const PAGE_OF = {site: "fog", worker: "fog", disk: "fog", insight: "insights", scheduler: "insights", enabler: "start"};

export function StartPage() {
  useFog();
  const [known, snapshot, deployed] = [useStore(isRead), useStore(fog), useStore(states)];
  const {data: readiness} = useRequest(readReadiness, 10_000, []);
  // The store changes the same map, so it is no dependency.
  const report = known && snapshot ? healthOf(deployed, snapshot, readiness) : null;
  if (report === null) return html`<p class="starting" role="status">Reading the state of the fog …</p>`;
  return html`
    <div class="page">
      <${Verdict} report=${report} />
      <${Figures} counts=${report.counts} />
      <div class="columns">
        <${Problems} problems=${report.problems} />
        <div class="stack">
          <${FirstSteps} counts=${report.counts} />
          <${Decisions} />
        </div>
      </div>
    </div>`;
}

/** Return whether the enabler is ready, also when it is not. */
async function readReadiness(signal) {
  try {
    return await send("GET", "readyz", {signal});
  } catch (error) {
    if (error.status === 503) return {waiting_for: [error.message]};
    throw error;
  }
}

function Verdict({report}) {
  const [tone, title] = VERDICTS[report.state] ?? VERDICTS.degraded;
  const count = report.problems.length;
  const found = count === 1 ? "1 problem" : `${count} problems`;
  const {sites_reachable: reachable, sites, insights, insights_running: running} = report.counts;
  const summary = count
    ? `${found}; the first ones are the most serious. Each states what to do.`
    : `${reachable} of ${sites} sites answer, and ${running} of ${insights} insights run.`;
  return html`
    <div class=${`card verdict ${tone}`} role="status">
      <${Icon} name=${tone} />
      <div class="grow"><h1>${title}</h1><p>${summary}</p></div>
    </div>`;
}

function Figures({counts}) {
  const of = (some, all) => html`${some}<small> of ${all}</small>`;
  const figures = [
    ["Insights running", of(counts.insights_running, counts.insights)],
    ["Sites reachable", of(counts.sites_reachable, counts.sites)],
    ["Workers", counts.workers],
    ["Fragments", counts.fragments],
  ];
  return html`<dl class="figures">${figures.map(([name, value]) => html`<div class="figure" key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Problems({problems}) {
  const now = useNow(5000);
  const sorted = [...problems].sort((a, b) => (a.severity === b.severity ? (a.since ?? 0) - (b.since ?? 0) : a.severity === "error" ? -1 : 1));
  return html`
    <${Card} title="Needs attention" flush>
      ${sorted.length === 0 && html`<${Empty} title="Nothing">Sites, workers and insights work as they should.<//>`}
      ${sorted.map((each) => {
        const tone = each.severity === "error" ? "bad" : "warn";
        return html`
          <div class=${`problem ${tone}`} key=${`${each.kind} ${each.subject} ${each.what}`}>
            <${Icon} name=${tone} />
            <div>
              <div class="what"><span class="hidden-text">${each.severity}: </span><${Name} text=${each.what} /></div>
              <div class="small dim">
                ${each.kind} <a href=${linkOf(each)}><${Name} text=${each.subject} /></a>
                ${each.since && html` · since ${when(each.since)} (${ago(each.since, now)})`}
              </div>
              ${each.do && html`<div class="todo"><strong>To do: </strong><${Name} text=${each.do} /></div>`}
            </div>
          </div>`;
      })}
    <//>`;
}

function linkOf({kind, subject}) {
  const page = PAGE_OF[kind] ?? "start";
  if (page === "fog") return link("fog", subject);
  if (page === "insights" && kind === "insight") return link("insights", ...subject.split("/"));
  return link(page);
}

function FirstSteps({counts}) {
  if (counts.insights > 0 || !mayChange()) return null;
  return html`
    <${Card} title="First steps">
      <p>No insight runs yet. An insight computes a figure from the points of the fog, again and again.</p>
      <div class="actions" style=${{marginTop: "12px"}}>
        <a class="button main-action" href=${link("write")}>Write an insight</a>
        <a class="button" href=${link("explore")}>See which metrics there are</a>
      </div>
    <//>`;
}

function Decisions() {
  const entries = useStore(decisions);
  return html`
    <${Card} title="What happened" flush footer="What the enabler did or found, and why; the newest first.">
      ${entries.length === 0 && html`<${Empty} title="Nothing yet">Deployments, moves and losses appear here.<//>`}
      <${DecisionList} entries=${entries.slice(0, 15)} />
    <//>`;
}

/** Decisions of the enabler, the newest first. */
export const DecisionList = ({entries}) => html`
  <ul class="events">
    ${entries.map((each) => html`
      <li key=${`${each.at} ${each.kind} ${each.subject}`}>
        <time>${when(each.at)}</time>
        <div>
          <div class="what"><${Name} text=${each.what} /></div>
          <div class="why"><${Name} text=${each.why} /> · <${Name} text=${each.by} /></div>
        </div>
      </li>`)}
  </ul>`;
