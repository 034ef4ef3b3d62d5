// Names of the insight language, the examples, and its summary for people who do not know it.

import {get} from "./api.js";
import {duration, number} from "./format.js";

const PLAIN = /^[A-Za-z_](?:[\w.]*\w)?$/;
const RESERVED = new Set("compute by when every with from and or not in insight function stream true false".split(" "));

/** Return a name as the language writes it: quoted unless it is plain. */
export function nameOf(text) {
  if (PLAIN.test(text) && !RESERVED.has(text.toLowerCase())) return text;
  return quoted(text);
}

const quoted = (text) => `"${text.replace(/["\\]/g, "\\$&")}"`;

/** Return whether the language can write a name at all. */
export const isWritable = (text) => !/[\n\r]/.test(text);

/** Return a value of an attribute as the language writes it. */
export const valueOf = (value) => (typeof value === "string" ? quoted(value) : `${value}`);

/** Fill an example with names of the fog. */
export function filled(text, {metric, attribute, second, value}) {
  return text
    .replaceAll("{second}", () => nameOf(second))
    .replaceAll("{metric}", () => nameOf(metric))
    .replaceAll("{attribute}", () => nameOf(attribute))
    .replaceAll("{value}", () => valueOf(value));
}

// The monitoring agents name a metric by its group, as cpu.util, and give this name to people too.
const isOfMachines = ({metric, name, group}) => name === metric && Boolean(group) && metric.startsWith(`${group}.`);
const hasChoice = ({labels}) => Object.values(labels ?? {}).some((values) => values.length > 1);

/**
 * Return metrics in the order in which a user needs them: those of the applications before those of
 * the machines, and those with attributes that divide their points before others.
 */
export const inOrderOfUse = (metrics) => {
  const rank = (each) => 2 * isOfMachines(each) + !hasChoice(each);
  return [...metrics].sort((a, b) => rank(a) - rank(b));
};

const hasFewValues = ({name, values, more}) => isWritable(name) && !more && values.length > 1 && values.length <= 20;

/** Return the attribute for examples: one with a few values, so that a plot by it is legible. */
export function bestOf(attributes) {
  const some = attributes.filter(hasFewValues);
  return some.find((each) => each.name === "region") ?? some[0] ?? attributes.find((each) => each.name === "node") ?? attributes[0];
}

/** Return a second attribute for examples, besides the name of the first one. */
export const secondOf = (attributes, first) =>
  attributes.filter((each) => each.name !== first).find(hasFewValues)?.name ?? (first === "entityID" ? "node" : "entityID");

/** Return at which times an insight has values: "every 10 s" or "at each point". */
export const timesOf = (insight) => {
  const every = everyOf(insight);
  return every === "each point" ? `at ${every}` : `every ${every}`;
};

/** Return how often an insight has values: "10 s", "each point" or "100 points". */
export function everyOf(insight) {
  if (!insight) return "–";
  if (insight.every_points) return `${number(insight.every_points)} points`;
  return insight.each_point ? "each point" : duration(insight.every_ms);
}

/** Return the title of a deployment: its name, or the names of its insights. */
export const titleOf = (deployment) =>
  deployment.name ?? (deployment.insights?.map((each) => each.name).join(", ") || deployment.deployment_id);

let examples = null;
/** Return the examples: [{title, about, text}]; after an error, the next call reads them again. */
export async function readExamples() {
  examples ??= get("console/examples.json").catch((error) => {
    examples = null;
    throw error;
  });
  return examples;
}

/** The summary: [form, meaning]. */
export const SUMMARY = [
  ["name = COMPUTE …", "Gives the insight a name. Several insights are separated by ;"],
  ["AVG(metric, 1 MINUTE)", "A function of the points of a metric in the last minute. Also SUM, COUNT, MIN, MAX, MEDIAN, SDEV, PERCENTILE[95], RATE, TOP_K[3] and more"],
  ["AVG(delay WHEN region == \"north\", 1 MINUTE)", "Only points with this attribute, in one function. At the end, WHEN is for the whole insight"],
  ["SUM(passengers BY entityID)", "The sum of the latest values of all entities: first a value for each, then one for all"],
  ["BY region, line", "One result for each region and line: these are attributes of the points, see Metrics"],
  ['WHEN region == "north"', "Only points with this attribute"],
  ["WHEN > 100", "Only results above 100. AND, OR, NOT and IN (…) combine conditions"],
  ["WHEN COUNT(metric, 1 MINUTE) > 5", "Only results of more than five points. A condition can contain any function"],
  ["EVERY 10 SECONDS", "The interval of results. Without EVERY: a result at each point. The order is BY, WHEN, EVERY, WITH"],
  ["WITH SALIENCE 5", "Options, at the end: importance, SAMPLE 0.2, SCHEDULER=latency …"],
  ["60 - AVG(passengers)", "Arithmetic of results; INSIGHT name is the result of another insight"],
  ["-- comment", "A comment to the end of the line"],
];
