// A plot of values over time: lines per key, shaded bounds, marks at corrected results.

import Plot from "../vendor/plot.js";
import {html, useEffect, useRef, useState} from "../vendor/interface.js";
import {clock, dateTime, number} from "../app/format.js";
import {Name} from "./ui.js";

/** Colours that differ in lightness too, and are legible on light and dark. */
export const COLOURS = [
  "#0f8b8d", "#d1495b", "#6c63d9", "#c98a00", "#3f7cac", "#5f9e3f", "#b0508e", "#8a6d4b",
];
export const colourOf = (index) => COLOURS[index % COLOURS.length];
const HEIGHT = 290;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Return the columns of the plot: times, and for each series its values and its bounds. */
export function columnsOf(lines) {
  const times = [...new Set(lines.flatMap((line) => line.times))].sort((a, b) => a - b);
  const at = new Map(times.map((time, n) => [time, n]));
  const column = (line, read) => {
    const values = new Array(times.length).fill(null);
    line.times.forEach((time, n) => {
      const value = read(n);
      if (typeof value === "number") values[at.get(time)] = value;
    });
    return values;
  };
  const columns = [times.map((time) => time / 1000)];
  const marks = [null];
  const bands = [];
  lines.forEach((line) => {
    columns.push(column(line, (n) => line.values[n]));
    marks.push((line.corrected ?? []).map((time) => at.get(time)));
  });
  lines.forEach((line, n) => {
    if (!line.low?.some((each) => each !== null)) return;
    columns.push(column(line, (k) => line.high[k]), column(line, (k) => line.low[k]));
    marks.push([], []);
    bands.push({of: n, series: [columns.length - 2, columns.length - 1]});
  });
  return {columns, marks, bands};
}

function optionsOf(lines, {bands, marks}, width, {spanGaps, onSelect, onCursor, range}) {
  const dim = css("--dim");
  const grid = {stroke: css("--line"), width: 1};
  const axis = {stroke: dim, grid, ticks: grid, font: "12px system-ui, sans-serif"};
  const line = (each, n) => ({
    label: each.label,
    stroke: each.colour,
    width: 1.8,
    spanGaps,
    points: {
      show: true, size: 7, width: 2, stroke: each.colour, fill: css("--surface"),
      filter: (_, index) => {
        if (each.times.length === 1) return [0];
        return marks[index]?.length ? marks[index] : [];
      },
    },
    key: n,
  });
  const edge = {stroke: "transparent", width: 0, points: {show: false}, spanGaps};
  return {
    width,
    height: HEIGHT,
    ms: 1e-3,
    // Room for the last label of the axis of time.
    padding: [null, 26, null, null],
    cursor: {drag: {x: Boolean(onSelect), y: false, setScale: false}, points: {size: 7}},
    scales: {x: {time: true, range: range ? () => [range[0] / 1000, range[1] / 1000] : undefined}},
    axes: [
      {...axis, values: (plot, splits) => splits.map((each) => clock(each * 1000).replace(/:00$/, "")), space: 60},
      {...axis, size: 64, values: (_, splits) => splits.map(number)},
    ],
    series: [{}, ...lines.map(line), ...bands.flatMap(() => [edge, edge])],
    bands: bands.map(({of, series}) => ({series, fill: `${lines[of].colour}33`})),
    hooks: {
      setSelect: [
        (plot) => {
          if (plot.select.width < 6) return;
          const [from, to] = [plot.select.left, plot.select.left + plot.select.width];
          onSelect?.(Math.round(plot.posToVal(from, "x") * 1000), Math.round(plot.posToVal(to, "x") * 1000));
          plot.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
        },
      ],
      setCursor: [(plot) => onCursor(plot)],
    },
  };
}

/**
 * @param {{lines: {label: string, colour: string, times: number[], values: (number|null)[],
 *   low?: (number|null)[], high?: (number|null)[], corrected?: number[]}[], spanGaps?: boolean,
 *   range?: [number, number], onSelect?: (from: number, to: number) => void, label: string}} props
 */
export function TimePlot({lines, spanGaps = false, range, onSelect, label}) {
  const box = useRef(null);
  const plot = useRef(null);
  const shape = useRef("");
  const [tip, setTip] = useState(null);
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  const latest = useRef({});
  latest.current = {onSelect, lines, range};

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    const repaint = () => setTheme((n) => n + 1);
    addEventListener("mistbow-theme", repaint);
    return () => {
      observer.disconnect();
      removeEventListener("mistbow-theme", repaint);
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);

  useEffect(() => {
    if (width < 50) return;
    const parts = columnsOf(lines);
    const next = JSON.stringify([lines.map((each) => [each.label, each.colour]), parts.bands, spanGaps, theme, Boolean(range)]);
    if (plot.current && shape.current === next) {
      marksOf(plot.current, parts.marks);
      if (plot.current.width !== width) plot.current.setSize({width, height: HEIGHT});
      plot.current.setData(parts.columns);
      return;
    }
    plot.current?.destroy();
    shape.current = next;
    const options = optionsOf(lines, parts, width, {
      spanGaps,
      range: range && [0, 0],
      onSelect: onSelect && ((from, to) => latest.current.onSelect?.(from, to)),
      onCursor: (own) => setTip(tipOf(own, latest.current.lines)),
    });
    if (range) options.scales.x.range = () => latest.current.range.map((each) => each / 1000);
    plot.current = new Plot(options, parts.columns, box.current);
    marksOf(plot.current, parts.marks);
  }, [lines, width, spanGaps, theme, range?.[0], range?.[1]]);

  return html`<div class="plot" ref=${box} role="img" aria-label=${label}>${tip && html`<${Tip} tip=${tip} />`}</div>`;
}

/** Let the filter of each series find the marks of the present data. */
function marksOf(plot, marks) {
  plot.series.forEach((each, n) => {
    if (n === 0 || !each.points?.filter) return;
    each.points.filter = () => (plot.data[0].length === 1 ? [0] : marks[n] ?? []);
  });
}

function tipOf(plot, lines) {
  const {idx, left, top} = plot.cursor;
  if (idx === null || idx === undefined || left < 0) return null;
  const rows = lines
    .map((line, n) => ({label: line.label, colour: line.colour, value: plot.data[n + 1]?.[idx]}))
    .filter((row) => row.value !== null && row.value !== undefined);
  const flip = left > plot.over.clientWidth / 2;
  return {at: plot.data[0][idx] * 1000, rows, left: left + plot.over.offsetLeft, top, flip, width: plot.width};
}

function Tip({tip}) {
  const style = tip.flip
    ? {right: `${tip.width - tip.left + 20}px`, top: `${Math.max(8, tip.top - 20)}px`}
    : {left: `${tip.left + 24}px`, top: `${Math.max(8, tip.top - 20)}px`};
  return html`<div class="plot-tip" style=${style}>
    <div class="dim">${dateTime(tip.at)}</div>
    ${tip.rows.map((row) => html`<div><i style=${{background: row.colour}}></i><${Name} text=${row.label} /><b>${number(row.value)}</b></div>`)}
  </div>`;
}
