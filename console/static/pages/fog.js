// The fog: its sites on a map or as a graph, what runs and flows there, now and in the past.

import {html, useEffect, useMemo, useState} from "../vendor/interface.js";
import {get} from "../app/api.js";
import {now as enablerTime} from "../app/clock.js";
import {ago, counted, dateTime, duration, visible, when} from "../app/format.js";
import {useRequest, useSettled, useStored} from "../app/hooks.js";
import {fog as liveFog, states} from "../app/live.js";
import {go, insightLink, link} from "../app/route.js";
import {useStore} from "../app/store.js";
import {useFog} from "../parts/topic_hook.js";
import {FogMap} from "../parts/fog_map.js";
import {hasPositions, sitesOf} from "../parts/fog_model.js";
import {Term} from "../parts/terms.js";
import {Card, Empty, ErrorNotice, Name, Segments} from "../parts/ui.js";
import {SiteDetails} from "./site.js";

export function FogPage({route}) {
  useFog();
  const live = useStore(liveFog);
  const [at, setAt] = useState(null);
  const settledAt = useSettled(at, 200);
  const past = useRequest((signal) => (settledAt ? readPast(settledAt, signal) : Promise.resolve(null)), 0, [settledAt]);
  const shown = pictureAt(at, live, past.data);
  const [form, setForm] = useStored("fog", "map");
  const [chosen] = route.parts;
  const sites = useMemo(() => (shown ? sitesOf(shown) : new Map()), [shown]);
  const canMap = hasPositions(sites);
  if (!shown && at === null) return html`<p class="starting" role="status">Reading the fog … If this lasts, the <a href=${link("start")}>overview</a> states what the enabler waits for.</p>`;
  const choose = (site) => go(site === chosen ? link("fog") : link("fog", site));
  const counts = {good: 0, warn: 0, bad: 0};
  for (const site of sites.values()) counts[site.tone] += 1;
  const site = sites.get(chosen);
  return html`
    <div class="page">
      <div class="page-head">
        <div><h1>Fog</h1><p>${!shown ? past.error ? "The fog at this time cannot be shown." : "Loading …" : html`${counted(sites.size, "site")}, ${counted(shown.nodes?.length ?? 0, "worker")}, ${counted(shown.fragments?.length ?? 0, "fragment")}${counts.bad ? `, ${counts.bad} with errors` : ""}${counts.warn ? `, ${counts.warn} to watch` : ""}.`}</p></div>
        <div class="actions">
          ${canMap && html`<${Segments} label="Form" value=${form} onChange=${setForm} choices=${[["map", "Map"], ["graph", "Graph"]]} />`}
          <${Find} sites=${sites} onChoose=${choose} />
        </div>
      </div>
      <${ErrorNotice} error=${at !== null ? past.error : null} />
      ${shown && chosen && !site && html`<div class="notice" role="status">${at === null ? "There is no site" : "At this time, there was no site"} <strong><${Name} text=${chosen} /></strong>. <a href=${link("fog")}>All sites</a></div>`}
      <div class="columns">
        <section class="card" aria-label="Picture of the fog">
          ${shown
            ? html`<${FogMap} fog=${shown} sites=${sites} isMap=${canMap && form === "map"} chosen=${chosen} onChoose=${choose} />`
            : html`<p class="starting" role="status">${past.error ? "No picture of this time." : "Loading …"}</p>`}
          <${Legend} />
          <${TimeSlider} at=${at} onAt=${setAt} />
        </section>
        ${site
          ? html`<${SiteDetails} key=${chosen} site=${site} fog=${shown} worker=${route.parts[1]} at=${at} />`
          : shown && html`<${ToWatch} sites=${sites} />`}
      </div>
      ${shown && html`<${Fragments} fragments=${shown.fragments ?? []} chosen=${site && chosen} />`}
    </div>`;
}

/** Return the fog at a past time: {at, fog}. */
const readPast = async (at, signal) => ({at, fog: await get("api/fog", {at}, signal)});

/** Return the fog to show at a time (null: now); null: the fog of this time is not read yet. */
export function pictureAt(at, live, past) {
  if (at === null) return live;
  return past?.at === at ? past.fog : null;
}

function Find({sites, onChoose}) {
  /** The name of a site as the list shows it -> the name. */
  const names = new Map([...sites.keys()].map((each) => [visible(each), each]));
  const choose = (event) => {
    const site = names.get(visible(event.target.value));
    if (site === undefined) return;
    onChoose(site);
    event.target.value = "";
  };
  const find = (event) => {
    // "edge-1" may become "edge-10": then Enter, or the list, chooses.
    const begins = [...names.keys()].filter((each) => each.startsWith(visible(event.target.value)));
    if (begins.length === 1) choose(event);
  };
  return html`
    <input class="input" type="search" list="site-names" placeholder="Find a site" aria-label="Find a site" onInput=${find} onChange=${choose} />
    <datalist id="site-names">${[...names.keys()].map((each) => html`<option key=${each} value=${each} />`)}</datalist>`;
}

const Legend = () => html`
  <div class="legend" aria-hidden="true">
    <span>◆ computes results</span><span>● computes panes</span><span><b class="dot-number">2</b>a worker with 2 fragments</span>
    <span><i style=${{borderColor: "var(--accent)"}}></i>panes</span>
    <span><i style=${{borderColor: "var(--token-number)"}}></i>points</span>
    <span><i style=${{borderColor: "var(--good)"}}></i>results</span>
    <span><i style=${{borderColor: "var(--token-keyword)", borderTopStyle: "dashed"}}></i>replica</span>
    <span><i style=${{borderColor: "var(--warn)", borderTopStyle: "dotted"}}></i>slow or full link</span>
    <span><b class="dot-site good"></b>well</span><span><b class="dot-site warn"></b>to watch</span><span><b class="dot-site bad">×</b>silent, or with an error</span>
  </div>`;

/** Hours -> the step of the slider (ms). A long history is large, so it is read only once. */
const SPANS = {1: 5000, 6: 30_000, 24: 120_000};

function TimeSlider({at, onAt}) {
  const [hours, setHours] = useState("1");
  const read = (signal) => {
    // With an end: without it, the span would end a moment later, and could be longer than a day.
    const to = enablerTime();
    return get("api/fog/history", {from: to - Number(hours) * 3_600_000, to, limit: 1000, newest: true}, signal);
  };
  const history = useRequest(read, hours === "1" ? 15_000 : 0, [hours]);
  const range = history.data;
  if (!range || range.first === null || range.last === null) {
    return history.error
      ? html`<${ErrorNotice} error=${history.error} />`
      : html`<p class="small dim" style=${{padding: "10px 14px"}}>${history.loading ? "Loading the history …" : "There is no history of the fog yet."}</p>`;
  }
  const step = SPANS[hours];
  // The slider ends after whole steps, so that it shows the present at its end.
  const now = range.first + step * Math.ceil((Math.max(range.last, enablerTime()) - range.first) / step);
  const share = (time) => (100 * (time - range.first)) / (now - range.first);
  const near = range.changes.filter((each) => each.at <= (at ?? now) && each.part !== "links").slice(-4).reverse();
  return html`
    <${ErrorNotice} error=${history.error} />
    <div class="slider">
      <label for="fog-time" class="small nowrap">${at === null ? html`<span class="badge good"><span class="live-dot"></span>now</span>` : html`<strong>${dateTime(at)}</strong>`}</label>
      <div class="track">
        ${range.changes.slice(-200).map((each, n) => html`<span key=${n} class="tick" style=${{left: `${share(each.at)}%`}}></span>`)}
        <input id="fog-time" type="range" min=${range.first} max=${now} step=${step} value=${at ?? now} aria-label="Time of the picture"
          aria-valuetext=${at === null ? "now" : dateTime(at)} onInput=${(event) => {
            const chosen = Number(event.target.value);
            onAt(now - chosen < step ? null : chosen);
          }} />
      </div>
      <span class="row">
        <${Segments} label="Length of the history" value=${hours} onChange=${setHours} choices=${Object.keys(SPANS).map((each) => [each, `${each} h`])} />
        <button type="button" class="button small" disabled=${at === null} onClick=${() => onAt(null)}>Now</button>
      </span>
    </div>
    ${near.length > 0 && html`<ul class="events">${near.map((each) => html`<li key=${`${each.at} ${each.part} ${each.names}`}><time>${when(each.at)}</time><span class="what"><${Name} text=${wordsOf(each)} /></span></li>`)}</ul>`}`;
}

const PARTS = {nodes: "worker", links: "link", site_states: "site", fragments: "fragment", flows: "flow"};

/** Return a change of the fog as text: "worker w1 removed". */
const wordsOf = (change) => `${PARTS[change.part] ?? change.part} ${change.names.filter(Boolean).join(" → ")} ${change.change}`;

const MAX_WATCHED = 60;

export function ToWatch({sites}) {
  if (sites.size === 0) return html`<${Card} title="To watch" flush><${Empty} title="No site is known yet">A site appears when its storage agent answers.<//><//>`;
  const troubled = [...sites.values()].filter((each) => each.problems.length).sort((a, b) => (a.tone === b.tone ? 0 : a.tone === "bad" ? -1 : 1));
  return html`
    <${Card} title="To watch" flush footer=${troubled.length > 0 && "Choose a site to see its workers, fragments, links, metrics and replicas."}>
      ${troubled.length === 0 && html`<${Empty} title="No site is silent, slow or full">Choose a site in the picture to see its workers, fragments, links, metrics and replicas.<//>`}
      ${troubled.slice(0, MAX_WATCHED).map((site) => html`
        <div class=${`problem ${site.tone}`} key=${site.name}>
          <span class=${`badge ${site.tone}`} style=${{padding: "3px"}}><span class="hidden-text">${site.tone === "bad" ? "error" : "warning"}</span>${site.tone === "bad" ? "×" : "!"}</span>
          <div><a href=${link("fog", site.name)} class="what"><${Name} text=${site.name} /></a>
            <ul class="small">${site.problems.map((each) => html`<li key=${each.what}><${Name} text=${each.what} />${each.since && html` <span class="dim">since ${when(each.since)} (${ago(each.since)})</span>`}</li>`)}</ul></div>
        </div>`)}
      ${troubled.length > MAX_WATCHED && html`<p class="small dim" style=${{padding: "8px 14px"}}>And ${counted(troubled.length - MAX_WATCHED, "site")} more.</p>`}
    <//>`;
}

function Fragments({fragments, chosen}) {
  const [all, setAll] = useState(false);
  useEffect(() => setAll(false), [chosen]);
  const own = chosen && !all ? fragments.filter((each) => each.site === chosen) : fragments;
  const deployed = useStore(states);
  const rows = useMemo(() => rowsOf(own, deployed), [fragments, chosen, all, deployed.size]);
  const tools = chosen && html`<${Segments} label="Fragments of" value=${all ? "all" : "site"} onChange=${(next) => setAll(next === "all")} choices=${[["site", "this site"], ["all", "all sites"]]} />`;
  return html`
    <${Card} title="Fragments" flush tools=${tools}>
      ${own.length === 0
        ? html`<${Empty} title="No fragment runs here">Fragments are the parts of insights that workers compute.<//>`
        : html`<div class="scroll" style=${{maxHeight: "380px"}} tabindex="0" role="region" aria-label="Table of fragments"><table class="list dense">
            <thead class="sticky"><tr><th><${Term} name="fragment">Fragment<//></th><th><${Term} name="kind">Kind<//></th><th><${Term} name="worker">Worker<//></th><th><${Term} name="site">Site<//></th><th>Since</th><th>State</th><th class="right"><${Term} name="lag">Lag<//></th><th>Insights</th></tr></thead>
            <tbody>${rows}</tbody></table></div>
          ${own.length > MAX_ROWS && html`<p class="small dim" style=${{padding: "8px 14px"}}>The first ${MAX_ROWS} of ${own.length} fragments: choose a site to see its own.</p>`}`}
    <//>`;
}

const MAX_ROWS = 100;

/** Return insights (ID/NAME) as users look for them: the latest deployed first. */
export function latestFirst(insights, deployed) {
  const time = (insight) => deployed.get(insight.split("/")[0])?.created_at ?? 0;
  return [...insights].sort((a, b) => time(b) - time(a));
}

const InsightLink = ({insight}) => html`<a href=${insightLink(insight)}><${Name} text=${insight.split("/").slice(1).join("/") || insight} /></a> `;

/** The insights of a fragment: some of them at once, the others after a click. */
function InsightsOf({insights, deployed}) {
  const all = latestFirst(insights, deployed);
  return html`
    ${all.slice(0, MAX_SHOWN).map((each) => html`<${InsightLink} key=${each} insight=${each} />`)}
    ${all.length > MAX_SHOWN && html`<details><summary>and ${all.length - MAX_SHOWN} more</summary>
      ${all.slice(MAX_SHOWN).map((each) => html`<${InsightLink} key=${each} insight=${each} />`)}</details>`}`;
}
const MAX_SHOWN = 6;

const rowsOf = (fragments, deployed) => fragments.slice(0, MAX_ROWS).map((each) => html`
              <tr key=${each.fragment} data-fragment=${each.fragment}>
                <td><${Name} text=${each.fragment} /></td><td>${each.kind}</td>
                <td>${each.node ? html`<${Name} text=${each.node} />` : html`<strong>none</strong>`}</td>
                <td>${each.site ? html`<a href=${link("fog", each.site)}><${Name} text=${each.site} /></a>` : "–"}</td>
                <td class="nowrap">${each.since ? when(each.since) : "–"}</td><td>${each.state ?? "–"}</td>
                <td class="right nowrap">${each.lag_ms === null || each.lag_ms === undefined ? "–" : duration(each.lag_ms)}</td>
                <td class="insights"><${InsightsOf} insights=${each.insights ?? []} deployed=${deployed} /></td>
              </tr>`);
