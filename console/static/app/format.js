// Numbers, times and names as texts for people.

import {now as enablerTime} from "./clock.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Return a number with at most five significant digits. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return `${value}`;
  if (!Number.isFinite(value)) return `${value}`;
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 1e-4)) return value.toExponential(3);
  if (size >= 10_000) return Math.round(value).toLocaleString("en-US");
  return `${Number(value.toPrecision(5))}`;
}

/** Return a number with its unit, if that is known. */
export const quantity = (value, unit) => (unit ? `${number(value)} ${visible(unit).slice(0, 40)}` : number(value));

/** Return a rate or a size with a unit prefix: 1.2 M. */
export function compact(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (size >= limit) return `${Number((value / limit).toPrecision(3))}${unit}`;
  }
  return `${Number(value.toPrecision(3))}`;
}

/** Return a number of bytes: "1.2 MB", "570 B". */
export function bytes(value) {
  const text = compact(value);
  if (text === "–") return text;
  return /[a-zA-Z]$/.test(text) ? `${text}B` : `${text} B`;
}

/** Return a number with its noun: "1 site", "3 sites". */
export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Return a text with a capital letter at its beginning. */
export const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** Return a duration (ms) in its largest units: "3 min". */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < SECOND) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10 * SECOND) return `${Number((ms / SECOND).toFixed(1))} s`;
  if (ms < 2 * MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < 2 * HOUR) return `${Math.round(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.round(ms / HOUR)} h`;
  return `${Math.round(ms / DAY)} days`;
}

/** Return how long ago a time was: "3 min ago". */
export const ago = (then, now = enablerTime()) =>
  then === null || then === undefined ? "since an unknown time" : `${duration(now - then)} ago`;

const pad = (value, digits = 2) => `${value}`.padStart(digits, "0");

/** Return the time of day: 14:03:22. */
export function clock(ts, withMs = false) {
  const date = new Date(ts);
  const text = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return withMs && ts % 1000 ? `${text}.${pad(date.getMilliseconds(), 3)}` : text;
}

/** Return date and time: 2026-11-25 14:03:22. */
export function dateTime(ts) {
  const date = new Date(ts);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(ts)}`;
}

/** Return the time of day of today's times, and date and time of others. */
export const when = (ts) =>
  new Date(ts).toDateString() === new Date().toDateString() ? clock(ts) : dateTime(ts);

/** Return who amended a deployment last, and when, as a text: "by token anna at 14:03:22". */
export const authorOf = ({amended_by: by, amended_at: at}) =>
  [by ? `by ${by}` : "", at ? `at ${when(at)}` : ""].filter(Boolean).join(" ");

// Control characters, halves of characters, spaces except the usual one, and characters that are
// invisible or reverse the order of others. The selector of the form of a pictogram is a part of it.
export const INVISIBLE =
  /(?<!\p{Extended_Pictographic})[\ufe0e\ufe0f]|(?![ \ufe0e\ufe0f])[\p{Cc}\p{Cs}\p{Default_Ignorable_Code_Point}\p{Z}\u2800\ufff9-\ufffb]/gu;

/** Return a text in which invisible characters, and those that reorder others, are shown by code. */
export const visible = (text) =>
  `${text ?? ""}`.replace(INVISIBLE, (each) => `⟨U+${pad(each.codePointAt(0).toString(16).toUpperCase(), 4)}⟩`);

/** Return a text of several lines in which `visible` applies to all but tabs and the ends of lines. */
export const visibleLines = (text) =>
  `${text ?? ""}`.split(/\r?\n/).map((line) => line.split("\t").map(visible).join("\t")).join("\n");

/** Return the key of a result as text: "region=north, line=7"; "all": the insight has no key. */
export function keyText(key) {
  const parts = Object.entries(key).map(([name, value]) => `${name}=${value ?? "–"}`);
  return parts.length ? parts.join(", ") : "all";
}
/** Return the values of a key, without the names of attributes. */
export const keyValues = (key) => {
  const values = Object.values(key).map((value) => `${value ?? "–"}`);
  return values.length ? values.join(" · ") : "all";
};
