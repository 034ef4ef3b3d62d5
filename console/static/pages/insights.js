// The insights: a list of all, or the page of one.

import {html, useEffect, useMemo, useState} from "../vendor/interface.js";
import {get} from "../app/api.js";
import {bytes, duration, visible} from "../app/format.js";
import {useRequest} from "../app/hooks.js";
import {everyOf} from "../app/language.js";
import {fog, states} from "../app/live.js";
import {link} from "../app/route.js";
import {mayChange} from "../app/session.js";
import {useStore} from "../app/store.js";
import {TERMS} from "../parts/terms.js";
import {Card, Empty, ErrorNotice, Name, SortHead, StateBadge, meaningOf, toneOf, useOrder} from "../parts/ui.js";
import {useFog} from "../parts/topic_hook.js";
import {DeploymentPage} from "./deployment.js";

export function InsightsPage({route}) {
  const [id, name] = route.parts;
  return id ? html`<${DeploymentPage} key=${id} id=${id} name=${name} query=${route.query} />` : html`<${InsightList} />`;
}

function InsightList() {
  const {data, error, refresh} = useRequest((signal) => get("api/insights", {}, signal), 5000, []);
  const [search, setSearch] = useState("");
  const live = useStore(states);
  const deployed = [...live].map(([id, each]) => `${id} ${each.version}`).sort().join(",");
  useEffect(() => {
    if (data) refresh();
  }, [deployed]);
  useFog();
  const snapshot = useStore(fog);
  const fragments = useMemo(() => byInsight(snapshot), [snapshot]);
  const rows = rowsOf(data?.deployments ?? [], live, fragments).filter((row) => row.searched.includes(search.toLowerCase()));
  return html`
    <div class="page">
      <div class="page-head">
        <div><h1>Insights</h1><p>Continuous queries over the points of the fog: each gives a new result at each interval.</p></div>
        <div class="actions">
          <input class="input" type="search" placeholder="Search" aria-label="Search insights" value=${search}
            onInput=${(event) => setSearch(event.target.value)} />
          ${mayChange() && html`<a class="button main-action" href=${link("write")}>Write an insight</a>`}
        </div>
      </div>
      <${ErrorNotice} error=${error} />
      ${data?.missing_domains && html`<div class="notice">Not listed: insights of the domains ${visible(data.missing_domains.join(", "))}, whose enablers do not answer.</div>`}
      <${Card} flush label="List of insights">
        ${!data ? html`<${Empty} title=${error ? "The insights cannot be listed now" : "Loading …"} />` : rows.length === 0
          ? html`<${Empty} title=${search ? "No insight matches" : "No insight is deployed"}>
              ${search ? "Search by name, deployment, text, state or owner." : "Write one: the editor completes names and shows a preview."}
            <//>`
          : html`<${Rows} rows=${rows} />`}
      <//>
    </div>`;
}

const MAX_ROWS = 200;
const TONES = ["bad", "warn", "wait", "pause", "good"];
/** Name of a column -> the value by which its rows are in order. */
const ORDERS = {
  name: (row) => row.name, state: (row) => TONES.indexOf(toneOf(row.state)), lag: (row) => row.lag,
  traffic: (row) => row.rate, salience: (row) => row.salience, owner: (row) => row.owner,
};

function Rows({rows}) {
  const order = useOrder(rows, ORDERS);
  const head = (by, title, isRight) => html`<${SortHead} order=${order} by=${by} isRight=${isRight} about=${TERMS[by]}>${title}<//>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Table of insights">
      <table class="list">
        <thead><tr>
          ${head("name", "Insight")}${head("state", "State")}${head("lag", "Lag", true)}<th class="right">Every</th>
          ${head("traffic", "Traffic of fragments", true)}${head("salience", "Salience", true)}${head("owner", "Owner")}<th>Where</th>
        </tr></thead>
        <tbody>${order.rows.slice(0, MAX_ROWS).map((row) => html`
          <tr key=${row.id}>
            <td class="clamp">
              <a href=${row.link}><strong><${Name} text=${row.name} /></strong></a>
              <div class="small dim"><${Name} text=${row.deployment} /></div>
            </td>
            <td class="state clamp"><${StateBadge} state=${row.state} />
              ${(row.error || meaningOf(row.state)) && html`<div class="small dim"><${Name} text=${row.error || meaningOf(row.state)} /></div>`}</td>
            <td class="right nowrap">${row.lag === null ? "–" : duration(row.lag)}</td>
            <td class="right nowrap">${row.every}</td>
            <td class="right nowrap">${row.rate === null ? "–" : `${bytes(row.rate)}/s`}
              ${row.sharers > 1 && html`<div class="small dim">of ${row.sharers} insights</div>`}</td>
            <td class="right">${row.salience ?? "–"}</td>
            <td class="owner"><${Name} text=${row.owner} /></td>
            <td>${row.where.length ? row.where.map(({node, site}, n) => html`${n > 0 && ", "}${site ? html`<a key=${node} href=${link("fog", site, node)}><${Name} text=${node} /></a>` : html`<${Name} text=${node} />`}`) : "–"}</td>
          </tr>`)}
        </tbody>
      </table>
    </div>
    ${rows.length > MAX_ROWS && html`<p class="small dim" style=${{padding: "8px 14px"}}>The first ${MAX_ROWS} of ${rows.length} insights: search, or sort by another column, to see others.</p>`}`;
}

/** Return "DEPLOYMENT/NAME" -> its fragments. */
function byInsight(snapshot) {
  const found = new Map();
  for (const fragment of snapshot?.fragments ?? []) {
    for (const insight of fragment.insights ?? []) {
      if (!found.has(insight)) found.set(insight, []);
      found.get(insight).push(fragment);
    }
  }
  return found;
}

/** Return why an insight has no value; undefined: it has values. */
function silenceOf(insight) {
  return insight?.silent ? `no value: ${insight.silent}` : undefined;
}

function rowsOf(deployments, live, fragments) {
  return deployments.flatMap((deployment) => {
    const id = deployment.deployment_id;
    const state = live.get(id);
    const insights = deployment.insights.length ? deployment.insights : [null];
    return insights.map((insight) => {
      const name = insight?.name ?? deployment.name ?? id;
      const now = state?.insights?.find((each) => each.name === name);
      const own = fragments.get(`${id}/${name}`) ?? [];
      const rates = own.map((each) => each.bytes_per_s).filter((each) => typeof each === "number");
      const row = {
        id: `${id}/${name}`,
        link: insight ? link("insights", id, name) : link("insights", id),
        name,
        deployment: deployment.name ? `${deployment.name} · ${id}` : id,
        state: now?.lifecycle?.state ?? insight?.lifecycle?.state ?? deployment.lifecycle?.state ?? deployment.status,
        error: (now ? now.error : insight?.error) || silenceOf(insight),
        lag: now?.lag_ms ?? insight?.lag_ms ?? null,
        every: everyOf(insight),
        rate: rates.length ? rates.reduce((a, b) => a + b, 0) : null,
        salience: insight?.salience ?? own[0]?.salience ?? null,
        owner: deployment.owner ?? "–",
        sharers: Math.max(0, ...own.map((each) => each.insights?.length ?? 0)),
        where: [...new Map(own.filter((each) => each.node).map((each) => [each.node, {node: each.node, site: each.site}])).values()],
      };
      row.searched = [row.name, row.deployment, insight?.text, row.state, row.owner].join(" ").toLowerCase();
      return row;
    });
  });
}
