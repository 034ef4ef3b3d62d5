// A table of any values, and what it shows as a plot.

import {html, useMemo} from "../vendor/interface.js";
import {dateTime, number} from "../app/format.js";
import {TimePlot, colourOf} from "./plot.js";
import {Name, SortHead, useOrder} from "./ui.js";

const MAX_ROWS = 500;
const MAX_LINES = 8;
const NUMERIC = /INT|DOUBLE|FLOAT|DECIMAL|REAL/i;
// Whole numbers between the years 2001 and 2286 in a column of this name are times (ms).
const isTime = (name, value) => /^(ts|t|time|at|computed_at|.*_at)$/i.test(name) && value > 1e12 && value < 1e13;

/** @param {{columns: {name: string, type: string}[], rows: unknown[][], label: string}} props */
export function DataTable({columns, rows, label}) {
  const values = useMemo(() => columns.map((_, n) => (row) => row[n]), [columns]);
  const order = useOrder(rows, values);
  const shown = order.rows;
  return html`
    <div class="scroll" style=${{maxHeight: "480px"}} tabindex="0" role="region" aria-label=${label}><table class="list dense">
      <thead class="sticky"><tr>${columns.map((each, n) => html`
        <${SortHead} key=${n} order=${order} by=${n} isRight=${NUMERIC.test(each.type)} title=${each.type}><${Name} text=${each.name} /><//>`)}</tr></thead>
      <tbody>${shown.slice(0, MAX_ROWS).map((row, n) => html`
        <tr key=${n}>${row.map((value, k) => html`<td key=${k} class=${NUMERIC.test(columns[k].type) ? "right" : ""}><${Cell} name=${columns[k].name} value=${value} /></td>`)}</tr>`)}</tbody>
    </table></div>
    ${shown.length > MAX_ROWS && html`<p class="small dim" style=${{padding: "8px 14px"}}>The first ${MAX_ROWS} of ${shown.length} rows.</p>`}`;
}

function Cell({name, value}) {
  if (value === null) return html`<span class="dim">null</span>`;
  if (typeof value === "number") return isTime(name, value) ? html`<span title=${value}>${dateTime(value)}</span>` : html`<span title=${value}>${number(value)}</span>`;
  return html`<${Name} text=${typeof value === "object" ? JSON.stringify(value) : value} />`;
}

/** Return which columns can be plotted: {time, values, series}; null: none. */
export function plottable(columns, rows) {
  const sample = rows[0];
  if (!sample || rows.length < 2) return null;
  const time = columns.findIndex(({name}, n) => typeof sample[n] === "number" && isTime(name, sample[n]));
  if (time < 0) return null;
  const values = columns.map((_, n) => n).filter((n) => n !== time && NUMERIC.test(columns[n].type) && !isTime(columns[n].name, sample[n] ?? 0));
  const series = columns.map((_, n) => n).filter((n) => typeof sample[n] === "string");
  return values.length ? {time, values, series} : null;
}

/** The numbers of a table over its column of times, one line for each text and each column. */
export function TablePlot({columns, rows, label}) {
  const parts = plottable(columns, rows);
  const lines = useMemo(() => (parts ? linesOf(columns, rows, parts) : []), [columns, rows]);
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
  return [...groups].slice(0, MAX_LINES).map(([name, points], n) => {
    points.sort((a, b) => a[0] - b[0]);
    const last = points.filter((each, k) => points[k + 1]?.[0] !== each[0]);
    return {label: name, colour: colourOf(n), times: last.map((each) => each[0]), values: last.map((each) => each[1])};
  });
}

