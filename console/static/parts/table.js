// A table of any values, and what it shows as a plot.

import {html, useMemo} from "../vendor/interface.js";
import {dateTime, number} from "../app/format.js";
import {TimePlot, coloursOf} from "./plot.js";
import {Name, SortHead, useOrder} from "./ui.js";

const MAX_ROWS = 500;
const MAX_LINES = 8;
const NUMERIC = /INT|DOUBLE|FLOAT|DECIMAL|REAL/i;
const TIME_NAME = /^(ts|t|time|at|computed_at|.*_at)$/i;
// Whole numbers between the years 2001 and 2286 in a column with the name of a time are times (ms);
// with any other name, if all of the column are between 2015 and 2050.
const isBetween = (value, least, most) => Number.isInteger(value) && value > least && value < most;

/** Return the columns whose values are times in ms, as a set of their numbers. */
export function timeColumns(columns, rows) {
  const isTime = ({name, type}, n) => {
    const values = rows.map((row) => row[n]).filter((each) => each !== null);
    if (!values.length || !/INT/i.test(type)) return false;
    const [least, most] = TIME_NAME.test(name) ? [1e12, 1e13] : [1.42e12, 2.55e12];
    return values.every((each) => isBetween(each, least, most));
  };
  return new Set(columns.flatMap((column, n) => (isTime(column, n) ? [n] : [])));
}

/** @param {{columns: {name: string, type: string}[], rows: unknown[][], label: string}} props */
export function DataTable({columns, rows, label}) {
  const values = useMemo(() => columns.map((_, n) => (row) => row[n]), [columns]);
  const times = useMemo(() => timeColumns(columns, rows), [columns, rows]);
  const order = useOrder(rows, values);
  const shown = order.rows;
  return html`
    <div class="scroll" style=${{maxHeight: "480px"}} tabindex="0" role="region" aria-label=${label}><table class="list dense">
      <thead class="sticky"><tr>${columns.map((each, n) => html`
        <${SortHead} key=${n} order=${order} by=${n} isRight=${NUMERIC.test(each.type)} title=${each.type}><${Name} text=${each.name} /><//>`)}</tr></thead>
      <tbody>${shown.slice(0, MAX_ROWS).map((row, n) => html`
        <tr key=${n}>${row.map((value, k) => html`<td key=${k} class=${NUMERIC.test(columns[k].type) ? "right" : ""}><${Cell} isTime=${times.has(k)} value=${value} /></td>`)}</tr>`)}</tbody>
    </table></div>
    ${shown.length > MAX_ROWS && html`<p class="small dim" style=${{padding: "8px 14px"}}>The first ${MAX_ROWS} of ${shown.length} rows.</p>`}`;
}

function Cell({isTime, value}) {
  if (value === null) return html`<span class="dim">null</span>`;
  if (typeof value === "number") return html`<span title=${value}>${isTime ? dateTime(value) : number(value)}</span>`;
  return html`<${Name} text=${typeof value === "object" ? JSON.stringify(value) : value} />`;
}

/**
 * Return which columns can be plotted: {time, values, series}; null: none.
 * A plot needs a column of times and numbers of one kind: without columns of texts, those of up to
 * three columns; else those of one column, and a line for each of a few texts.
 */
export function plottable(columns, rows) {
  if (rows.length < 2) return null;
  const times = timeColumns(columns, rows);
  const [time] = times;
  const values = columns.map((_, n) => n).filter((n) => !times.has(n) && NUMERIC.test(columns[n].type));
  const series = columns.map((_, n) => n).filter((n) => rows.some((row) => typeof row[n] === "string"));
  if (times.size !== 1 || values.length === 0 || values.length > (series.length ? 1 : 3)) return null;
  const names = new Set(rows.map((row) => JSON.stringify(series.map((each) => row[each]))));
  const metrics = columns.findIndex(({name}) => /^metric/i.test(name));
  // Different metrics have different units, so they have no common axis.
  if (series.includes(metrics) && new Set(rows.map((row) => row[metrics])).size > 1) return null;
  return names.size <= MAX_LINES && rows.length >= 2 * names.size ? {time, values, series} : null;
}

/** The numbers of a table over its column of times, one line for each text and each column. */
export function TablePlot({columns, rows, label}) {
  const parts = useMemo(() => plottable(columns, rows), [columns, rows]);
  const lines = useMemo(() => (parts ? linesOf(columns, rows, parts) : []), [columns, rows, parts]);
  return parts && html`<${TimePlot} lines=${lines} spanGaps label=${label} />`;
}

function linesOf(columns, rows, {time, values, series}) {
  const groups = new Map();
  for (const row of rows) {
    for (const column of values) {
      const words = series.map((each) => row[each]);
      const name = [...words, ...(values.length > 1 || !words.length ? [columns[column].name] : [])].join(" · ");
      if (!groups.has(name)) groups.set(name, []);
      if (typeof row[time] === "number") groups.get(name).push([row[time], row[column]]);
    }
  }
  const colours = coloursOf(groups.keys());
  return [...groups].map(([name, points]) => {
    points.sort((a, b) => a[0] - b[0]);
    const last = points.filter((each, k) => points[k + 1]?.[0] !== each[0]);
    return {label: name, colour: colours.get(name), times: last.map((each) => each[0]), values: last.map((each) => each[1])};
  });
}
