// The details of a site: workers, links, replicas, metrics, decisions about it.

import {html, useMemo} from "../vendor/interface.js";
import {get} from "../app/api.js";
import {ago, bytes, compact, duration, visible, when} from "../app/format.js";
import {useRequest, useTitle} from "../app/hooks.js";
import {inOrderOfUse} from "../app/language.js";
import {decisions} from "../app/live.js";
import {link} from "../app/route.js";
import {useStore} from "../app/store.js";
import {slownessOf} from "../parts/fog_model.js";
import {Card, Name} from "../parts/ui.js";
import {DecisionList} from "./start.js";

export function SiteDetails({site, fog, worker, at}) {
  const {state} = site;
  useTitle(`Site ${visible(site.name)}`);
  const links = (fog.links ?? []).filter((each) => each.source === site.name && each.target !== site.name);
  const flows = (fog.flows ?? []).filter((each) => [each.source, each.target].includes(site.name));
  const labels = Object.entries(state.labels ?? {});
  return html`
    <div class="stack">
      <${Card} title=${html`Site <${Name} text=${site.name} />`} label=${`Site ${site.name}`} tools=${html`<a class="button small" href=${link("fog")}>Close</a>`}>
        <div class="stack">
          ${site.problems.map((each) => html`
            <div class=${`notice ${each.severity === "error" ? "bad" : ""}`} key=${each.what}><${Name} text=${each.what} />${each.since && ` since ${when(each.since)} (${ago(each.since)})`}<div class="hint"><${Name} text=${each.action} /></div></div>`)}
          <dl class="facts">
            <dt>Region</dt><dd><${Name} text=${state.region || "–"} /></dd>
            <dt>Agent at</dt><dd><${Name} text=${state.node ?? "–"} /></dd>
            ${labels.length > 0 && html`<dt>Labels</dt><dd>${labels.map(([name, value], n) => html`${n > 0 && ", "}<${Name} key=${name} text=${`${name}=${value}`} />`)}</dd>`}
            <dt>Series</dt><dd>${state.series ?? "–"}</dd>
            ${typeof state.disk_free_mb === "number" && html`<dt>Free disk</dt><dd>${bytes(state.disk_free_mb * 1e6)} of ${bytes(state.disk_size_mb * 1e6)}</dd>`}
            <dt>Replicas at</dt><dd>${state.replicas?.length ? state.replicas.map((each) => html`<a key=${each} href=${link("fog", each)}><${Name} text=${each} /></a> `) : "no other site"}</dd>
          </dl>
          <${Workers} workers=${site.workers} chosen=${worker} />
          <${Links} links=${links} />
          <${Flows} flows=${flows} site=${site.name} />
        </div>
      <//>
      ${at === null && html`<${Metrics} site=${site.name} />`}
      <${Events} site=${site} at=${at} />
    </div>`;
}

function Bar({used, all}) {
  const share = all > 0 ? Math.min(1, Math.max(0, used / all)) : 0;
  return html`<span class=${`bar ${share > 0.9 ? "warn" : ""}`} aria-hidden="true"><i style=${{width: `${Math.round(100 * share)}%`}}></i></span>`;
}

function Workers({workers, chosen}) {
  if (workers.length === 0) return html`<p class="dim">The site has no worker: a worker elsewhere reads its points.</p>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Workers"><table class="list dense">
      <thead><tr><th>Worker</th><th>Cores used</th><th>Memory used</th></tr></thead>
      <tbody>${workers.map((each) => html`
        <tr key=${each.name}>
          <td>${each.name === chosen ? html`<strong><${Name} text=${each.name} /></strong>` : html`<${Name} text=${each.name} />`}${each.suspected && html` <span class="badge warn">suspected</span>`}${each.drained && html` <span class="badge" title="An operator has drained this worker, so it receives no fragments.">drained</span>`}</td>
          <td class="nowrap"><${Bar} used=${each.cores - each.cores_free} all=${each.cores} /> ${compact(each.cores - each.cores_free)} of ${compact(each.cores)}</td>
          <td class="nowrap"><${Bar} used=${each.memory_mb - each.memory_free_mb} all=${each.memory_mb} /> ${bytes((each.memory_mb - each.memory_free_mb) * 1e6)} of ${bytes(each.memory_mb * 1e6)}</td>
        </tr>`)}</tbody></table></div>
    <p class="small dim">Used: by all but the fragments of this domain, which the enabler may place elsewhere.</p>`;
}

function Links({links}) {
  if (links.length === 0) return null;
  const sorted = [...links].sort((a, b) => b.latency_ms - a.latency_ms);
  return html`
    <div class="scroll" style=${{maxHeight: "220px"}} tabindex="0" role="region" aria-label="Links"><table class="list dense">
      <thead class="sticky"><tr><th>Link to</th><th class="right">Latency</th><th class="right">Loss</th><th class="right">Bandwidth</th><th class="right">Load</th></tr></thead>
      <tbody>${sorted.slice(0, 100).map((each) => html`
        <tr key=${each.target}>
          <td><a href=${link("fog", each.target)}><${Name} text=${each.target} /></a>${slownessOf(each) && html` <span class="badge warn">${slownessOf(each) === "full" ? "full" : "slow"}</span>`}</td>
          <td class="right nowrap">${duration(each.latency_ms)}</td>
          <td class="right nowrap">${(100 * each.loss).toFixed(1)} %</td>
          <td class="right nowrap">${each.bandwidth_mbps === null ? "–" : `${compact(each.bandwidth_mbps)} Mbit/s`}</td>
          <td class="right nowrap">${each.load_mbps === null || each.load_mbps === undefined ? "–" : `${bytes(each.load_mbps * 125_000)}/s`}</td>
        </tr>`)}</tbody></table></div>`;
}

function Flows({flows, site}) {
  if (flows.length === 0) return null;
  return html`
    <div class="scroll" style=${{maxHeight: "220px"}} tabindex="0" role="region" aria-label="Flows"><table class="list dense">
      <thead class="sticky"><tr><th>Flow</th><th>Other site</th><th>Group</th><th class="right">Rate</th></tr></thead>
      <tbody>${flows.slice(0, 100).map((each) => {
        const isSent = each.source === site;
        const other = isSent ? each.target : each.source;
        return html`
          <tr key=${`${each.source} ${each.target} ${each.kind} ${each.group}`}>
            <td>${visible(each.kind)} ${isSent ? "to" : "from"}</td>
            <td><a href=${link("fog", other)}><${Name} text=${other} /></a></td>
            <td><${Name} text=${each.group ?? "–"} /></td>
            <td class="right nowrap">${typeof each.bytes_per_s === "number" ? `${bytes(each.bytes_per_s)}/s` : "–"}</td>
          </tr>`;
      })}</tbody></table></div>`;
}

function Metrics({site}) {
  const {data} = useRequest((signal) => get("api/metrics", {site, limit: 300}, signal), 0, [site]);
  const metrics = useMemo(() => inOrderOfUse(data?.metrics ?? []).slice(0, 8), [data]);
  return html`
    <${Card} title="Metrics" flush tools=${html`<a class="button small" href=${`${link("explore")}?site=${encodeURIComponent(site)}`}>Explore all</a>`}>
      <ul class="picker">${metrics.map((each) => html`
        <li key=${each.metric}><a class="pick" href=${`${link("explore", each.metric)}?site=${encodeURIComponent(site)}`}>
          <strong><${Name} text=${each.metric} /></strong> <span class="small dim"><${Name} text=${each.desc || each.name} /></span></a></li>`)}</ul>
      ${data && metrics.length === 0 && html`<p class="small dim" style=${{padding: "14px"}}>No points of this site are known.</p>`}
    <//>`;
}

function Events({site, at}) {
  const names = new Set([site.name, ...site.workers.map((each) => each.name)]);
  const own = useStore(decisions).filter((each) => (at === null || each.at <= at) && (names.has(each.subject) || mentions(each.what, names)));
  return html`
    <${Card} title="Decisions about the site" flush>
      ${own.length === 0 ? html`<p class="small dim" style=${{padding: "14px"}}>No recent decisions.</p>` : html`<${DecisionList} entries=${own.slice(0, 12)} />`}
    <//>`;
}

const mentions = (text, names) => text.split(/[\s,:;]+/).some((word) => names.has(word));
