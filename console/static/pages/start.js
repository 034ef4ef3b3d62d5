// The start page: the state of the fog, and its problems with their beginnings and remedies.

import {html} from "../vendor/interface.js";
import {ago, sentence, visible, when} from "../app/format.js";
import {useNow} from "../app/hooks.js";
import {decisions, health, refusal} from "../app/live.js";
import {insightLink, link} from "../app/route.js";
import {mayChange} from "../app/session.js";
import {useStore} from "../app/store.js";
import {useTopic} from "../parts/topic_hook.js";
import {Term} from "../parts/terms.js";
import {Card, Empty, Icon, Name} from "../parts/ui.js";

const VERDICTS = {
  ok: ["good", "All is well"],
  degraded: ["warn", "There are warnings"],
  failed: ["bad", "There are errors"],
};

export function StartPage() {
  useTopic("health");
  const report = useStore(health);
  const refused = useStore(refusal);
  if (report === null && refused) return html`<${Empty} title="The state of the fog is not available">${visible(refused)}<//>`;
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

/** Return the sentence below the verdict, if there are problems. */
export const summaryOf = (count) =>
  count === 1 ? "There is 1 problem; its remedy is below." : `There are ${count} problems, the most serious first; their remedies are below.`;

function Verdict({report}) {
  const [tone, title] = VERDICTS[report.state] ?? VERDICTS.degraded;
  const count = report.problems.length;
  const {sites_reachable: reachable, sites, insights, insights_running: running} = report.counts;
  const summary = count
    ? summaryOf(count)
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
    ["insight", "Insights running", of(counts.insights_running, counts.insights)],
    ["site", "Sites reachable", of(counts.sites_reachable, counts.sites)],
    ["worker", "Workers", counts.workers],
    ["fragment", "Fragments", counts.fragments],
  ];
  return html`<dl class="figures">${figures.map(([term, name, value]) => html`<div class="figure" key=${name}><dt><${Term} name=${term}>${name}<//></dt><dd>${value}</dd></div>`)}</dl>`;
}

function Problems({problems}) {
  const now = useNow(5000);
  return html`
    <${Card} title="Needs attention" flush>
      ${problems.length === 0 && html`<${Empty} title="No problems">Sites, workers and insights work as expected.<//>`}
      ${problems.map((each) => {
        const tone = each.severity === "error" ? "bad" : "warn";
        return html`
          <div class=${`problem ${tone}`} key=${`${each.kind} ${each.subject} ${each.what}`}>
            <${Icon} name=${tone} />
            <div>
              <div class="what"><span class="hidden-text">${each.severity}: </span><${Name} text=${sentence(each.what)} /></div>
              <div class="small dim">
                ${each.since ? `Since ${when(each.since)} (${ago(each.since, now)})` : "Since an unknown time"}${linkOf(each) && html` · <a href=${linkOf(each)}>${each.site ? "show the site" : "show the insight"}</a>`}
              </div>
              <div class="todo"><strong>To do: </strong><${Name} text=${each.action} /></div>
            </div>
          </div>`;
      })}
    <//>`;
}

/** Return the page of the subject of a problem; null: no page. */
function linkOf({kind, subject, site}) {
  if (site) return link("fog", site);
  return kind.startsWith("insight_") ? insightLink(subject) : null;
}

function FirstSteps({counts}) {
  if (counts.insights > 0 || !mayChange()) return null;
  return html`
    <${Card} title="First steps">
      <p>No insight runs yet. An insight is a continuous query over the points of the fog.</p>
      <div class="actions" style=${{marginTop: "12px"}}>
        <a class="button main-action" href=${link("write")}>Write an insight</a>
        <a class="button" href=${link("explore")}>Explore the metrics</a>
      </div>
    <//>`;
}

function Decisions() {
  const entries = useStore(decisions);
  return html`
    <${Card} title="Decisions" flush footer=${html`The decisions of the <${Term} name="enabler">enabler<//> with their reasons, newest first.`}>
      ${entries.length === 0 && html`<${Empty} title="Nothing yet">Deployments, moves and losses appear here.<//>`}
      <${DecisionList} entries=${entries.slice(0, 15)} />
    <//>`;
}

/** Decisions of the enabler, the newest first. */
export const DecisionList = ({entries}) => html`
  <ul class="events">
    ${entries.map((each) => html`
      <li key=${`${each.at} ${each.kind} ${each.subject} ${each.what}`}>
        <time>${when(each.at)}</time>
        <div>
          <div class="what"><${Name} text=${each.what} /></div>
          <div class="why"><${Name} text=${each.why} /> · <${Name} text=${each.by} /></div>
        </div>
      </li>`)}
  </ul>`;
