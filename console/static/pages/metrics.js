// Metrics by their metadata: search, attributes, series and their latest values.

import {html, useEffect, useMemo, useState} from "../vendor/interface.js";
import {get, path, post} from "../app/api.js";
import {now} from "../app/clock.js";
import {ago, counted, number, visible} from "../app/format.js";
import {useNow, useRequest, useSettled, useTitle} from "../app/hooks.js";
import {inOrderOfUse} from "../app/language.js";
import {link} from "../app/route.js";
import {COLOURS, TimePlot} from "../parts/plot.js";
import {Card, Empty, ErrorNotice, Name} from "../parts/ui.js";

const PAGE = 60;
/** The number of metrics that are read at once, so that those of the applications can be first. */
const METRICS_PAGE = 300;

/** The time (ms) after which the series are read again. */
const SERIES_MS = 10_000;
/** The time (ms) after which a list of metrics without an entry is read again. */
const NO_METRICS_MS = 20_000;

/**
 * Read pages of a list one after the other: {items, answer, error, isLoading, more}.
 * `ms`: the time after which the first page is read again while it is the only one, or a function of
 * the answer that returns this time (0: never).
 */
function usePages(read, field, dependencies, ms) {
  const [cursor, setCursor] = useState(null);
  const [former, setFormer] = useState([]);
  useEffect(() => {
    setCursor(null);
    setFormer([]);
  }, dependencies);
  const request = (signal) => read(cursor, signal).then((answer) => ({...answer, cursor}));
  const {data: latest, error, loading} = useRequest(request, cursor === null ? ms : 0, [...dependencies, cursor]);
  // While a further page is read, the latest answer is the page before, which is among the former.
  const data = latest?.cursor === cursor ? latest : null;
  const items = [...former, ...(data?.[field] ?? [])];
  const more = data?.next
    ? () => {
        setFormer(items);
        setCursor(data.next);
      }
    : null;
  return {items, answer: data, error, isLoading: loading, more};
}

const WORD = /(?:"(?:[^"\\]|\\.)*"|[^\s"])+|"/g;
const QUOTED = /"(?:[^"\\]|\\.)*"/g;

/** Return a text without the quotes around its parts. */
const unquoted = (text) =>
  text.replace(QUOTED, (part) => {
    try {
      return JSON.parse(part);
    } catch {
      return part;
    }
  });

/** Return a name or a value as a search contains it: in quotes if it has spaces or quotes. */
const searched = (text) => (/[\s"\\]/.test(text) ? JSON.stringify(text) : text);

/** Return the search for an attribute with a value: region=west, or region="new town". */
export const conditionOf = (name, value) => `${searched(name)}=${searched(`${value}`)}`;

/** Return the conditions of a search: words of the metadata, and an attribute as region=west. */
export function conditionsOf(text) {
  const words = text.match(WORD) ?? [];
  const label = words.find((each) => /^[^=]+=/.test(each));
  return {search: words.filter((each) => each !== label).map(unquoted).join(" "), label: label && unquoted(label)};
}

export function MetricsExplorer({metric, site}) {
  const [search, setSearch] = useState("");
  const settled = useSettled(search, 250);
  const pages = usePages((cursor, signal) => get("api/metrics", {...conditionsOf(settled), site, limit: METRICS_PAGE, cursor}, signal), "metrics", [settled, site], (answer) => (answer.metrics.length ? 0 : NO_METRICS_MS));
  const items = useMemo(() => inOrderOfUse(pages.items), [pages.items.length, pages.answer]);
  const [known, setKnown] = useState(null);
  const current = pages.items.find((each) => each.metric === metric) ?? (known?.metric === metric ? known : null);
  useEffect(() => {
    if (!metric || current) return;
    get("api/metrics", {metric, limit: 1}).then((answer) => setKnown(answer.metrics[0] ?? null), () => {});
  }, [metric, current]);
  const query = site ? `?site=${encodeURIComponent(site)}` : "";
  const missing = pages.answer?.missing_sites ?? [];
  return html`
    <div class="columns explore">
      <${Card} title="Metrics" flush label="Metrics" footer=${pages.answer && `${counted(pages.answer.total ?? pages.items.length, "metric")}${missing.length ? `; without the sites ${visible(missing.join(", "))}` : ""}`}
        tools=${site && html`<a class="button small" href=${link("explore")}>at <${Name} text=${site} /> ×</a>`}>
        <div style=${{padding: "12px 14px"}}>
          <input class="input" style=${{width: "100%"}} type="search" placeholder="Name, description, unit, entity, or region=west" aria-label="Search metrics"
            value=${search} onInput=${(event) => setSearch(event.target.value)} />
        </div>
        <${ErrorNotice} error=${pages.error} />
        ${!pages.isLoading && pages.items.length === 0 && !pages.error && html`
          <${Empty} title=${search ? "No metric matches" : "No metric is known yet"}>${search ? "Try another word." : "Metrics appear as soon as nodes send points."}
            ${search && pages.answer?.attributes?.length > 0 && html`
              <p>Recent points have these attributes; a click searches for one:</p>
              <p class="chips" style=${{justifyContent: "center", marginTop: "6px"}}>${pages.answer.attributes.map((each) => html`<button type="button" class="chip" key=${each} disabled=${each.includes("=")}
                onClick=${() => setSearch(searched(each))}><${Name} text=${each} /></button> `)}</p>`}
          <//>`}
        <ul class="picker" style=${{maxHeight: "62vh"}}>
          ${items.map((each) => html`
            <li key=${each.metric}><a class="pick clamp" href=${`${link("explore", each.metric)}${query}`} aria-current=${each.metric === metric ? "true" : undefined}>
              <strong><${Name} text=${each.metric} /></strong>
              <span class="small dim"><${Name} text=${[each.desc || each.name, each.units].filter(Boolean).join(" · ")} /></span>
              <span class="small dim block">${each.entity_count} series at ${counted(each.sites.length, "site")}</span>
            </a></li>`)}
        </ul>
        ${pages.more && html`<div style=${{padding: "10px 14px"}}><button type="button" class="button small" onClick=${pages.more}>Show more</button></div>`}
      <//>
      ${metric ? html`<${Metric} key=${metric} metric=${metric} about=${current} site=${site} onFilter=${setSearch} />` : html`
        <${Card} title="A metric"><${Empty} title="Choose a metric">Its attributes, its series and their values appear here.<//><//>`}
    </div>`;
}

function Metric({metric, about, site, onFilter}) {
  useTitle(visible(metric).slice(0, 80));
  const attributes = useRequest((signal) => get("api/attributes", {metric}, signal), 0, [metric]);
  const pages = usePages((cursor, signal) => get(path`api/metrics/${metric}/series`, {site, limit: PAGE, cursor}, signal), "series", [metric, site], SERIES_MS);
  return html`
    <div class="stack">
      <${Card} title=${html`<${Name} text=${metric} />`} label="Metric" tools=${html`<a class="button small" href=${`${link("write")}?metric=${encodeURIComponent(metric)}`}>Write an insight</a>`}>
        <div class="stack">
          ${about && html`<dl class="facts">
            ${about.name && about.name !== metric && html`<dt>Name</dt><dd><${Name} text=${about.name} /></dd>`}
            ${about.desc && html`<dt>Meaning</dt><dd><${Name} text=${about.desc} /></dd>`}
            ${about.units && html`<dt>Unit</dt><dd><${Name} text=${about.units} /></dd>`}
            ${about.group && html`<dt>Group</dt><dd><${Name} text=${about.group} /></dd>`}
            ${(about.min !== null || about.max !== null) && html`<dt>Range</dt><dd>${number(about.min)} to ${number(about.max)}</dd>`}
            <dt>Sites</dt><dd>${about.sites.map((each) => html`<a key=${each} href=${link("fog", each)}><${Name} text=${each} /></a> `)}</dd>
          </dl>`}
          ${attributes.data?.attributes.length > 0 && html`
            <div><h3>Attributes, for BY and WHEN</h3>
              <p class="small dim">A click on a value lists the metrics that have it.</p>
              <dl class="facts" style=${{marginTop: "6px"}}>${attributes.data.attributes.map((each) => html`
                <dt><code><${Name} text=${each.name} /></code></dt>
                <dd class="chips">${each.values.slice(0, 12).map((value) => html`<button type="button" class="chip" key=${value} disabled=${each.name.includes("=")}
                  onClick=${() => onFilter(conditionOf(each.name, value))}><${Name} text=${value} /></button> `)}${each.more || each.values.length > 12 ? "…" : ""}</dd>`)}</dl></div>`}
        </div>
      <//>
      <${History} metric=${metric} sites=${site ? [site] : about?.sites ?? []} />
      <${Card} title="Series" flush>
        <${ErrorNotice} error=${pages.error} />
        ${!pages.isLoading && !pages.error && pages.items.length === 0 && html`<${Empty} title="No series">No node sends this metric, or its points have expired.<//>`}
        <${SeriesTable} series=${pages.items} />
        ${pages.more && html`<div style=${{padding: "10px 14px"}}><button type="button" class="button small" onClick=${pages.more}>Show more</button></div>`}
      <//>
    </div>`;
}

/** The series with their latest values, and the ages of these at present. */
function SeriesTable({series}) {
  const present = useNow();
  return html`
    <div class="scroll" style=${{maxHeight: "360px"}} tabindex="0" role="region" aria-label="Table of series"><table class="list dense">
      <thead class="sticky"><tr><th>Entity</th><th>Site</th><th class="right">Latest value</th><th class="right">When</th></tr></thead>
      <tbody>${series.map((each) => html`
        <tr key=${`${each.site} ${each.entity}`}>
          <td class="clamp"><${Name} text=${each.entity} /></td><td><${Name} text=${each.site} /></td>
          <td class="right">${each.latest ? number(each.latest.value) : "–"}</td>
          <td class="right nowrap">${each.latest ? ago(each.latest.ts, present) : "–"}</td>
        </tr>`)}</tbody></table></div>`;
}

const MINUTES = 10;

/** The last ten minutes of a metric: mean, least and greatest value of all its series at a site. */
function History({metric, sites}) {
  const [chosen, setChosen] = useState("");
  const site = chosen || (sites[0] ?? "");
  const query = `SELECT ts // 10000 * 10000 AS t, avg(value), min(value), max(value) FROM historical
WHERE metric = ? AND ts >= ? GROUP BY t ORDER BY t`;
  const {data, error} = useRequest(
    (signal) => (site ? post("api/sql", {query, parameters: [metric, now() - MINUTES * 60_000]}, signal, {site}) : Promise.resolve(null)),
    10_000, [metric, site], true,
  );
  const rows = (data?.rows ?? []).filter((row) => row.every((each) => typeof each === "number"));
  const line = {
    label: "mean", colour: COLOURS[0], times: rows.map((row) => row[0]), values: rows.map((row) => row[1]),
    low: rows.map((row) => row[2]), high: rows.map((row) => row[3]),
  };
  return html`
    <${Card} title="Last ten minutes" flush footer=${html`Mean of all series at <${Name} text=${site || "–"} />, in steps of 10 s; the shaded area is from the minimum to the maximum.`}
      tools=${sites.length > 1 && html`<label class="row small dim">Site <select class="input" value=${site} onChange=${(event) => setChosen(event.target.value)}>
        ${sites.map((each) => html`<option key=${each} value=${each}>${visible(each)}</option>`)}</select></label>`}>
      <${ErrorNotice} error=${error} />
      ${rows.length > 0 ? html`<${TimePlot} lines=${[line]} spanGaps label=${`Values of ${metric} in the last ten minutes`} />` : !data && !error && site ? html`<p class="starting" role="status">Reading points …</p>` : data && html`<${Empty} title="No points in the last ten minutes">${sites.length > 1 ? "Choose another site." : "The time of the latest point is in the table below."}<//>`}
    <//>`;
}
