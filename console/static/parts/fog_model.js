// What the fog page derives from a snapshot of the fog: parts of sites, positions, slow links.

const SLOW_MS = 100;
const LOSSY = 0.01;
/** The share of its bandwidth from which on a link is full. */
const FULL = 0.9;

/** Return site -> {state, workers, fragments, problems, tone} of a snapshot. */
export function sitesOf(fog) {
  const sites = new Map();
  const states = new Map((fog.site_states ?? []).map((each) => [each.name, each]));
  const names = new Set([...(fog.sites ?? []), ...states.keys()]);
  for (const name of [...names].sort((a, b) => a.localeCompare(b, undefined, {numeric: true}))) {
    sites.set(name, {name, state: states.get(name) ?? {name, reachable: true}, workers: [], fragments: [], problems: []});
  }
  for (const node of fog.nodes ?? []) sites.get(node.site)?.workers.push(node);
  for (const fragment of fog.fragments ?? []) sites.get(fragment.site)?.fragments.push(fragment);
  for (const site of sites.values()) {
    site.problems = site.state.problems ?? [];
    site.tone = site.problems.some((each) => each.severity === "error") ? "bad" : site.problems.length ? "warn" : "good";
  }
  return sites;
}

const BRIEF = {
  site_silent: "silent", site_suspected: "suspected", agent_waiting: "waiting", agent_warning: "warning",
  worker_suspected: "worker suspected", worker_limited: "little memory",
  identity_expires: "identity expires", certificate_expires: "certificate expires",
  no_free_cores: "no free cores", no_free_memory: "no free memory", lossy_links: "lossy links", fragments_lagging: "lagging",
};
/** Return a problem of a site in a few words, for the picture. */
export const briefOf = (problem) => BRIEF[problem.kind] ?? "problem";

/** Return why a link is slow or full; "": it is neither. */
export function slownessOf(link) {
  const reasons = [];
  if (link.latency_ms >= SLOW_MS) reasons.push(`${Math.round(link.latency_ms)} ms`);
  if (link.loss >= LOSSY) reasons.push(`${(100 * link.loss).toFixed(1)} % loss`);
  if (link.bandwidth_mbps > 0 && link.load_mbps >= FULL * link.bandwidth_mbps) reasons.push("full");
  return reasons.join(", ");
}

/** Return the position of a site, or of one of its workers; null: none is declared. */
export const positionOf = (site) => site.state.position ?? site.workers.find((each) => each.position)?.position ?? null;

/** Return whether a map is possible: at least two sites have a position. */
export const hasPositions = (sites) => [...sites.values()].filter(positionOf).length >= 2;

/** The number of sites above which the picture shows each of them as a small circle. */
export const MANY = 60;

/**
 * Return positions that do not cover each other: a site whose place is taken moves to the nearest
 * free place around it.
 */
function apart(places) {
  const distance = places.length > MANY ? 16 : 46;
  const taken = [];
  const isFree = ([x, y]) => taken.every(([a, b]) => Math.hypot(a - x, b - y) >= distance - 0.5);
  return places.map(([x, y]) => {
    let found = [x, y];
    for (let ring = 0; !isFree(found) && ring < 12; ring += 1) {
      const count = 6 * (ring + 1);
      const around = Array.from({length: count}, (_, n) => {
        const angle = (2 * Math.PI * n) / count;
        const away = distance * (ring + 1);
        return [x + Math.cos(angle) * away, y + Math.sin(angle) * away];
      });
      found = around.find(isFree) ?? found;
    }
    taken.push(found);
    return found;
  });
}

const KM_PER_DEGREE = 111.2;

/**
 * Return where a map in a box of the given size shows positions: {placed, places, kmPerUnit}.
 * `kmPerUnit`: null if all positions are the same.
 */
function projectionOf(sites, width, height) {
  const placed = [...sites.values()].filter(positionOf);
  const bottom = placed.length < sites.size ? 90 : 0;
  const points = placed.map((each) => {
    const {latitude, longitude} = positionOf(each);
    return [longitude, latitude];
  });
  const middle = points.reduce((sum, [, latitude]) => sum + latitude, 0) / Math.max(1, points.length);
  const squeeze = Math.max(0.1, Math.cos((middle * Math.PI) / 180));
  const [xs, ys] = [points.map(([x]) => x * squeeze), points.map(([, y]) => y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const isOnePlace = right === left && high === low;
  const scale = isOnePlace ? 1 : Math.min((width - 140) / (right - left), (height - bottom - 120) / (high - low));
  const [startX, startY] = [(width - (right - left) * scale) / 2, (height - bottom - (high - low) * scale) / 2];
  const places = placed.map((_, n) => [startX + (xs[n] - left) * scale, startY + (high - ys[n]) * scale]);
  return {placed, places, kmPerUnit: isOnePlace ? null : KM_PER_DEGREE / scale};
}

/** Return site -> [x, y] in a box of the given size, by geographic position; others stand below. */
export function mapLayout(sites, width, height) {
  const {placed, places} = projectionOf(sites, width, height);
  const others = [...sites.values()].filter((each) => !positionOf(each));
  const free = apart(places);
  const found = new Map(placed.map((each, n) => [each.name, free[n]]));
  others.forEach((each, n) => found.set(each.name, [((n + 0.5) * width) / others.length, height - 48]));
  return found;
}

/**
 * Return the bar of the scale of a map: {length, text}; `length` in units of the box, at most `most`.
 * The distance is a round number: 1, 2 or 5 times a power of ten. null: all sites are at one place.
 */
export function scaleBar(sites, width, height, most) {
  const {kmPerUnit} = projectionOf(sites, width, height);
  if (kmPerUnit === null) return null;
  const power = 10 ** Math.floor(Math.log10(most * kmPerUnit));
  const km = [5, 2, 1].map((each) => each * power).find((each) => each <= most * kmPerUnit) ?? power;
  return {length: km / kmPerUnit, text: km >= 1 ? `${km} km` : `${Number((1000 * km).toPrecision(1))} m`};
}

/** Return site -> [x, y]: sites to which most flows go in the middle, the others around them. */
export function graphLayout(sites, fog, width, height) {
  const incoming = new Map();
  for (const flow of fog.flows ?? []) incoming.set(flow.target, (incoming.get(flow.target) ?? 0) + 1);
  for (const fragment of fog.fragments ?? []) {
    if (fragment.kind !== "partial" && fragment.site) incoming.set(fragment.site, (incoming.get(fragment.site) ?? 0) + 0.5);
  }
  const names = [...sites.keys()];
  const most = Math.max(0, ...names.map((each) => incoming.get(each) ?? 0));
  const hubs = names.length > 3 ? names.filter((each) => most > 0 && (incoming.get(each) ?? 0) >= most / 2).slice(0, 5) : [];
  const rest = names.filter((each) => !hubs.includes(each));
  rest.sort((a, b) => (sites.get(a).state.region ?? "").localeCompare(sites.get(b).state.region ?? ""));
  const found = new Map();
  const ring = (some, share) => some.forEach((each, n) => {
    if (names.length === 1) share = 0;
    const angle = (2 * Math.PI * n) / some.length - Math.PI / 2;
    found.set(each, [width / 2 + Math.cos(angle) * share * (width / 2 - 70), height / 2 + Math.sin(angle) * share * (height / 2 - 50)]);
  });
  ring(hubs, hubs.length > 1 ? 0.16 : 0);
  // The outer rings have room for more sites than the inner ones.
  const rings = Math.max(1, Math.ceil(rest.length / 60));
  let taken = 0;
  for (let n = 0; n < rings; n += 1) {
    const share = rings === 1 ? 0.8 : 0.42 + (0.58 * n) / (rings - 1);
    const weight = share / Array.from({length: rings}, (_, k) => 0.42 + (0.58 * k) / (rings - 1 || 1)).reduce((a, b) => a + b, 0);
    const count = n === rings - 1 ? rest.length - taken : Math.round(rest.length * (rings === 1 ? 1 : weight));
    ring(rest.slice(taken, taken + count), share);
    taken += count;
  }
  return found;
}
