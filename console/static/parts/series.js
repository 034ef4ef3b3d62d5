// The results of one insight, by key: values at times, each in its highest revision.

import {keyText} from "../app/format.js";

/** The values of one key: `times` ascends, and `results[n]` is the result at `times[n]`. */
export class Series {
  constructor(id, key) {
    this.id = id;
    this.key = key;
    this.text = keyText(key);
    this.times = [];
    this.results = [];
  }

  get last() {
    return this.results[this.results.length - 1];
  }

  /** Return the index of the first time at or after `ts`. */
  indexOf(ts) {
    let [low, high] = [0, this.times.length];
    // Almost every result is later than all before.
    if (high > 0 && ts > this.times[high - 1]) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] < ts) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Add a result; return whether it is new, or a higher revision. */
  add(result) {
    const at = this.indexOf(result.ts);
    const isKnown = this.times[at] === result.ts;
    if (isKnown && this.results[at].revision >= result.revision) return false;
    if (isKnown) {
      this.results[at] = result;
    } else {
      this.times.splice(at, 0, result.ts);
      this.results.splice(at, 0, result);
    }
    return true;
  }

  dropBefore(ts) {
    const count = this.indexOf(ts);
    if (count === 0) return;
    this.times.splice(0, count);
    this.results.splice(0, count);
  }
}

/** The time (ms) for which a key of an insight at points is current after its last value. */
const POINT_MS = 60_000;
/** The time (ms) that a result may take from its tick until it is here. */
const DELAY_MS = 10_000;

/**
 * Return the time from which on the last value of a key counts as current.
 * With ticks, this is the tick of the latest result; Infinity: no key has had a value for three ticks.
 * @param {{latest: number}} set
 * @param {{every_ms: number, each_point?: boolean, lag_ms?: number|null}} insight
 */
export function currentFrom({latest}, {every_ms: every, each_point: atPoints, lag_ms: lag}, now) {
  const oldest = now - (lag ?? 0) - DELAY_MS;
  if (atPoints) return oldest - POINT_MS;
  return latest >= oldest - 3 * every ? latest : Infinity;
}

/** Return whether a result withdraws the earlier result of its key and time. */
export const isWithdrawn = (result) => result.value === null && (result.text ?? null) === null;

/** The series of an insight. `version` changes with each change. */
export class SeriesSet {
  constructor() {
    /** @type {Map<string, Series>} */
    this.byId = new Map();
    this.version = 0;
    this.latest = 0;
    this.received = 0;
  }

  /** Add results in any order; return whether any changed something. */
  add(results) {
    let isChanged = false;
    for (const result of results) {
      const id = JSON.stringify(result.key);
      let series = this.byId.get(id);
      if (series === undefined) this.byId.set(id, (series = new Series(id, result.key)));
      if (series.add(result)) {
        isChanged = true;
        this.received += 1;
      }
      if (result.ts > this.latest) this.latest = result.ts;
    }
    if (isChanged) this.version += 1;
    return isChanged;
  }

  /** Remove what is older than `ts`, and keys without values. */
  dropBefore(ts) {
    for (const [id, series] of this.byId) {
      series.dropBefore(ts);
      if (series.times.length === 0) this.byId.delete(id);
    }
    this.version += 1;
  }

  /** The attributes of the keys that no result has a value of: no point has them. */
  get unknownAttributes() {
    const keys = [...this.byId.values()].map((each) => each.key);
    return Object.keys(keys[0] ?? {}).filter((name) => keys.every((key) => key[name] === null));
  }

  /** The time of the earliest result; Infinity: there is none. */
  get earliest() {
    let earliest = Infinity;
    for (const {times} of this.byId.values()) earliest = Math.min(earliest, times[0] ?? Infinity);
    return earliest;
  }

  /** Return the newest `count` results of all series, the newest first. */
  newest(count) {
    const found = [];
    for (const series of this.byId.values()) found.push(...series.results.slice(-count));
    return found.sort((a, b) => b.ts - a.ts).slice(0, count);
  }

  /** The shortest time (ms) between results: the interval of ticks, or a multiple of it. */
  get step() {
    const times = [...new Set([...this.byId.values()].flatMap((each) => each.times))].sort((a, b) => a - b);
    return times.reduce((least, time, n) => (n ? Math.min(least, time - times[n - 1]) : least), Infinity);
  }

  get size() {
    return this.byId.size;
  }

  /** Whether the results are those of a function that computes several values. */
  get hasLists() {
    for (const series of this.byId.values()) if (series.last?.values) return true;
    return false;
  }

  get hasNumbers() {
    for (const series of this.byId.values()) if (series.last && series.last.value !== null) return true;
    return false;
  }
}
