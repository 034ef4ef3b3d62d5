// The picture of the fog: sites, their workers, and what flows between the sites.

import {h, html, useCallback, useMemo, useRef, useState} from "../vendor/interface.js";
import {bytes, compact, visible} from "../app/format.js";
import {MANY, briefOf, graphLayout, mapLayout, positionOf, scaleBar, slownessOf} from "./fog_model.js";

const WIDTH = 780;
const HEIGHT = 500;
const MAX_LINKS = 240;
const KINDS = {panes: "panes", points: "points", results: "results", replica: "a replica"};

/** @param {{fog: object, sites: Map, isMap: boolean, chosen: string, onChoose: (site: string) => void}} props */
export function FogMap({fog, sites, isMap, chosen, onChoose}) {
  const [view, setView] = useState([0, 0, WIDTH, HEIGHT]);
  const svg = useRef(null);
  const drag = useRef(null);
  /** Whether the pointer has moved the picture since it went down: then it chooses no site. */
  const isDragged = useRef(false);
  const places = isMap ? JSON.stringify([...sites.values()].map(positionOf)) : "";
  const names = [...sites.keys()].join("\n");
  const layout = useMemo(
    () => (isMap ? mapLayout(sites, WIDTH, HEIGHT) : graphLayout(sites, fog, WIDTH, HEIGHT)), [names, isMap, places, fog.flows?.length],
  );
  const scale = view[2] / WIDTH;
  const isMany = sites.size > MANY;
  const latest = useRef(onChoose);
  latest.current = onChoose;
  const choose = useCallback((site, isByKey = false) => (isByKey || !isDragged.current) && latest.current(site), []);
  const drawn = useDrawn();
  const edges = useMemo(() => html`
    <${Links} fog=${fog} layout=${layout} chosen=${chosen} isMany=${isMany} />
    <${Flows} fog=${fog} layout=${layout} chosen=${chosen} isMany=${isMany} />`, [fog, layout, isMany ? chosen : "", isMany]);
  const zoom = (factor, x = view[0] + view[2] / 2, y = view[1] + view[3] / 2) => {
    const width = Math.min(WIDTH * 1.5, Math.max(WIDTH / 12, view[2] * factor));
    const ratio = width / view[2];
    setView([x - (x - view[0]) * ratio, y - (y - view[1]) * ratio, width, (width * HEIGHT) / WIDTH]);
  };
  const pointOf = (event) => {
    const box = svg.current.getBoundingClientRect();
    return [view[0] + ((event.clientX - box.left) / box.width) * view[2], view[1] + ((event.clientY - box.top) / box.height) * view[3]];
  };
  const onWheel = (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.15 : 0.87, ...pointOf(event));
  };
  const onPointerMove = (event) => {
    if (!drag.current || event.buttons !== 1) return;
    const box = svg.current.getBoundingClientRect();
    const [x, y, start] = drag.current;
    isDragged.current ||= Math.hypot(event.clientX - x, event.clientY - y) > 4;
    setView([start[0] - ((event.clientX - x) / box.width) * start[2], start[1] - ((event.clientY - y) / box.height) * start[3], start[2], start[3]]);
  };
  const onKeyDown = (event) => {
    const [x, y] = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key] ?? [0, 0];
    if (x === 0 && y === 0) return;
    event.preventDefault();
    setView([view[0] + (x * view[2]) / 10, view[1] + (y * view[3]) / 10, view[2], view[3]]);
  };
  return html`
    <div class="fog-map">
      <svg ref=${svg} viewBox=${view.join(" ")} onWheel=${onWheel} onPointerMove=${onPointerMove}
        onPointerDown=${(event) => { drag.current = [event.clientX, event.clientY, view]; isDragged.current = false; }}
        onPointerUp=${() => { drag.current = null; setTimeout(() => { isDragged.current = false; }); }} onPointerLeave=${() => { drag.current = null; }}
        onKeyDown=${onKeyDown} role="group" aria-label="Sites of the fog; the arrow keys move the picture">
        <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" markerUnits="userSpaceOnUse"><path d="M0 0L8 4L0 8z" class="arrow" /></marker></defs>
        ${edges}
        ${[...sites.values()].map((site) => drawn(site, {
          key: site.name, site, at: layout.get(site.name), isChosen: site.name === chosen, isSmall: isMany,
          hasLabel: !isMany || scale < 0.4 || site.name === chosen || site.tone === "bad",
          scale: Math.max(0.45, scale), onChoose: choose,
        }))}
        ${isMap && html`<${Scale} sites=${sites} view=${view} scale=${scale} />`}
      </svg>
      <div class="zoom">
        <button type="button" class="button small" aria-label="Zoom in" onClick=${() => zoom(0.75)}>+</button>
        <button type="button" class="button small" aria-label="Zoom out" onClick=${() => zoom(1.33)}>−</button>
        <button type="button" class="button small" onClick=${() => setView([0, 0, WIDTH, HEIGHT])}>All</button>
      </div>
    </div>`;
}

/** The bar at the lower left that shows a distance of the map. */
function Scale({sites, view: [left, top, , height], scale}) {
  const bar = scaleBar(sites, WIDTH, HEIGHT, 140 * scale);
  if (bar === null) return null;
  const {length, text} = bar;
  const [x, y] = [left + 16 * scale, top + height - 16 * scale];
  return html`
    <g class="scale" role="img" aria-label=${`Scale: the bar is ${text} long`}>
      <path d=${`M${x} ${y - 5 * scale}v${5 * scale}h${length}v${-5 * scale}`} />
      <text x=${x + length / 2} y=${y - 7 * scale} font-size=${11 * scale}>${text}</text>
    </g>`;
}

/** Return a function that draws a site again only if what it shows has changed. */
function useDrawn() {
  const former = useRef(new Map());
  return (site, properties) => {
    const known = former.current.get(site.name);
    const isSame = known && Object.keys(properties).every((each) => known.properties[each] === properties[each]);
    if (isSame) return known.node;
    const node = h(Site, properties);
    former.current.set(site.name, {properties, node});
    return node;
  };
}

function Site({site, at, isChosen, isSmall, hasLabel, scale, onChoose}) {
  if (!at) return null;
  const radius = (isSmall ? 7 : 17) * scale;
  const merges = site.fragments.filter((each) => each.kind !== "partial").length;
  const others = site.fragments.length - merges;
  const drained = site.workers.filter((each) => each.drained).length;
  const words = [
    `site ${visible(site.name)}`,
    ...(site.problems.length ? site.problems.map((each) => each.what) : ["no problem"]),
    `${site.workers.length} workers${drained ? `, ${drained} drained` : ""}`,
    `${site.fragments.length} fragments${site.fragments.length ? `: ${site.fragments.slice(0, 6).map((each) => each.fragment).join(", ")}` : ""}`,
  ].join("; ");
  const choose = () => onChoose(site.name);
  return html`
    <g class=${`site ${site.tone} ${isChosen ? "chosen" : ""}`} transform=${`translate(${at[0]} ${at[1]})`}>
      <circle class="body" r=${radius} />
      ${site.tone === "bad" && html`<path class="cross" d=${`M${-radius / 2.4} ${-radius / 2.4}L${radius / 2.4} ${radius / 2.4}M${radius / 2.4} ${-radius / 2.4}L${-radius / 2.4} ${radius / 2.4}`} />`}
      ${!isSmall && site.tone !== "bad" && html`<text class="count" font-size=${11 * scale} dy=${4 * scale}>${merges ? "◆".repeat(Math.min(merges, 2)) : ""}${others ? "●".repeat(Math.min(others, 3)) : ""}</text>`}
      ${!isSmall && site.workers.map((worker, n) => {
        const angle = (2 * Math.PI * n) / Math.max(6, site.workers.length) - Math.PI / 2;
        const own = site.fragments.filter((each) => each.node === worker.name);
        const [x, y] = [Math.cos(angle) * (radius + 9 * scale), Math.sin(angle) * (radius + 9 * scale)];
        return html`
          <g key=${worker.name} class=${`worker ${worker.suspected ? "warn" : ""}`} transform=${`translate(${x} ${y})`} data-worker=${worker.name} data-fragments=${own.length}>
            <title>${visible(`worker ${worker.name}${worker.drained ? ", drained" : ""}: ${own.length ? own.map((each) => each.fragment).join(", ") : "no fragment"}`)}</title>
            <circle r=${(own.length ? 8 : 5) * scale} />
            ${own.length > 0 && html`<text font-size=${10 * scale} dy=${3.6 * scale}>${own.length}</text>`}
          </g>`;
      })}
      ${hasLabel && html`<text class="label" font-size=${12.5 * scale} y=${radius + 16 * scale}>${shortened(site.name)}</text>`}
      ${hasLabel && site.tone !== "good" && !isSmall && html`<text class="sub" font-size=${11 * scale} y=${radius + 30 * scale}>${briefOf(site.problems[0])}</text>`}
      <circle class="hit" r=${radius + 2 * scale} tabindex="0" role="button" aria-label=${visible(words)} aria-pressed=${isChosen}
        data-site=${site.name} onClick=${choose}
        onKeyDown=${(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), onChoose(site.name, true))}>
        <title>${visible(words)}</title></circle>
    </g>`;
}

const shortened = (text, most = 22) => {
  const shown = visible(text);
  return shown.length > most ? `${shown.slice(0, most)}…` : shown;
};

function curveOf([x1, y1], [x2, y2], bend) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const length = Math.hypot(dx, dy) || 1;
  // The ends stay outside the circles of the sites.
  const [ux, uy] = [dx / length, dy / length];
  const gap = Math.min(26, length / 4);
  const [ax, ay, bx, by] = [x1 + ux * gap, y1 + uy * gap, x2 - ux * gap, y2 - uy * gap];
  return `M${ax} ${ay}Q${(ax + bx) / 2 - uy * bend} ${(ay + by) / 2 + ux * bend} ${bx} ${by}`;
}

function Links({fog, layout, chosen, isMany}) {
  const shown = (fog.links ?? [])
    .map((link) => ({...link, slow: slownessOf(link)}))
    .filter((link) => layout.has(link.source) && layout.has(link.target) && link.source !== link.target)
    .filter((link) => !isMany || link.source === chosen)
    .slice(0, MAX_LINKS);
  return shown.map((link) => {
    const [a, b] = [layout.get(link.source), layout.get(link.target)];
    return html`
      <g key=${`${link.source} ${link.target}`}>
        <path class=${`link ${link.slow ? "warn" : ""}`} d=${`M${a[0]} ${a[1]}L${b[0]} ${b[1]}`}>
          <title>${visible(`link ${link.source} to ${link.target}: ${link.latency_ms} ms, ${(100 * link.loss).toFixed(1)} % loss, ${link.bandwidth_mbps ?? "?"} Mbit/s, of which ${link.load_mbps ?? 0} are used`)}</title>
        </path>
        ${link.slow && !isMany && html`<text class="sub link-note" font-size="11" x=${(a[0] + b[0]) / 2} y=${(a[1] + b[1]) / 2 - 6}>${link.slow}</text>`}
      </g>`;
  });
}

function Flows({fog, layout, chosen, isMany}) {
  const shown = (fog.flows ?? [])
    .filter((flow) => layout.has(flow.source) && layout.has(flow.target) && flow.source !== flow.target)
    .filter((flow) => !chosen || !isMany || flow.source === chosen || flow.target === chosen);
  return shown.map((flow) => html`
    <path key=${`${flow.source} ${flow.target} ${flow.kind} ${flow.group}`} class=${`flow ${flow.kind} ${isMany && !chosen ? "faint" : ""}`} marker-end=${isMany ? undefined : "url(#arrow)"}
      d=${curveOf(layout.get(flow.source), layout.get(flow.target), flow.kind === "replica" ? -34 : 22)}
      stroke-width=${isMany ? 1.2 : Math.min(5, 1.2 + Math.log10(1 + (flow.bytes_per_s ?? 0)) / 1.6)}>
      <title>${visible(`${KINDS[flow.kind] ?? flow.kind} from ${flow.source} to ${flow.target}${flow.group ? ` (${flow.group})` : ""}: ${typeof flow.bytes_per_s === "number" ? `${bytes(flow.bytes_per_s)}/s` : "unknown rate"}`)}</title>
    </path>`);
}
