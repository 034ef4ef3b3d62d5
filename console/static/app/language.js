// Names of the insight language, the examples, and its summary for people who do not know it.

import {address} from "./api.js";

const PLAIN = /^[A-Za-z_](?:[\w.]*\w)?$/;
const RESERVED = new Set("compute by when every with from and or not in insight function stream true false".split(" "));

/** Return a name as the language writes it: quoted unless it is plain. */
export function nameOf(text) {
  if (PLAIN.test(text) && !RESERVED.has(text.toLowerCase())) return text;
  return `"${text.replaceAll('"', "")}"`;
}

/** Return whether the language can write a name at all. */
export const isWritable = (text) => !/["\n\r]/.test(text);

/** Return a value of an attribute as the language writes it. */
export const valueOf = (value) => (typeof value === "string" ? `"${value.replaceAll('"', "")}"` : `${value}`);

/** Fill an example with names of the fog. */
export function filled(text, {metric, attribute, value}) {
  return text
    .replaceAll("{metric}", nameOf(metric))
    .replaceAll("{attribute}", nameOf(attribute))
    .replaceAll("{value}", valueOf(value));
}

let examples = null;
/** Return the examples: [{title, about, text}]. */
export async function readExamples() {
  examples ??= fetch(address("console/examples.json"), {credentials: "same-origin"}).then((answer) => answer.json());
  return examples;
}

/** The summary: [form, meaning]. */
export const SUMMARY = [
  ["name = COMPUTE …", "Gives the insight a name. Several insights are separated by ;"],
  ["AVG(metric, 1 MINUTE)", "A function of the points of a metric in the last minute. Also SUM, COUNT, MIN, MAX, MEDIAN, SDEV, PERCENTILE[95], RATE, TOP_K[3] and more"],
  ["BY region, line", "One result for each region and line: these are attributes of the points, see Metrics"],
  ['WHEN region == "north"', "Only points with this attribute"],
  ["WHEN > 100", "Only results above 100. AND, OR, NOT and IN (…) combine conditions"],
  ["WHEN COUNT(metric, 1 MINUTE) > 5", "Only results of more than five points. Any function can stand in a condition"],
  ["EVERY 10 SECONDS", "The interval of results. Without EVERY: a result at each point. The order is BY, WHEN, EVERY, WITH"],
  ["WITH SALIENCE 5", "Options, at the end: importance, SAMPLE 0.2, SCHEDULER=latency …"],
  ["60 - AVG(passengers)", "Arithmetic of results; INSIGHT name is the result of another insight"],
  ["-- comment", "A comment to the end of the line"],
];
