// A plot of values over time: lines per key, shaded bounds, marks at corrected results.

import Plot from "../vendor/plot.js";
import {html, useEffect, useRef, useState} from "../vendor/interface.js";
import {clock, dateTime, number, quantity, visible} from "../app/format.js";
import {Name} from "./ui.js";

/** Colours that differ in lightness too, and are legible on light and dark. */
export const COLOURS = [
  "#0f8b8d", "#d1495b", "#6c63d9", "#c98a00", "#3f7cac", "#5f9e3f", "#b0508e", "#8a6d4b",
];
const HEIGHT = 290;
/** The number of values up to which each of them has a dot. */
const FEW = 12;

/**
 * Return name -> colour. A name has the same colour in each view, unless the names before it in
 * the alphabet have taken it.
 */
export function coloursOf(names) {
  const found = new Map();
  const free = new Set(COLOURS);
  for (const name of [...names].sort()) {
    const start = hash(name) % COLOURS.length;
    const order = [...COLOURS.slice(start), ...COLOURS.slice(0, start)];
    const colour = order.find((each) => free.has(each)) ?? order[0];
    free.delete(colour);
    found.set(name, colour);
  }
  return found;
}

/** Return a number for a text (FNV-1a). */
function hash(text) {
  let value = 0x811c9dc5;
  for (const each of text) value = Math.imul(value ^ each.codePointAt(0), 0x01000193);
  return value >>> 0;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * Return the columns of the plot: times, and for each series its values and its bounds; with the
 * indexes of corrected values (`marks`), and of values that no line would show (`dots`).
 * A line is interrupted after the times `breaks`.
 */
export function columnsOf(lines, {spanGaps = false, breaks = []} = {}) {
  const after = breaks.map((each) => each + 1);
  const times = [...new Set([...lines.flatMap((line) => line.times), ...after])].sort((a, b) => a - b);
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
  const dots = [null];
  const bands = [];
  lines.forEach((line) => {
    const values = column(line, (n) => line.values[n]);
    columns.push(values);
    dots.push(dotsOf(values, spanGaps));
    marks.push((line.corrected ?? []).map((time) => at.get(time)));
  });
  lines.forEach((line, n) => {
    if (!line.low?.some((each) => each !== null)) return;
    columns.push(column(line, (k) => line.high[k]), column(line, (k) => line.low[k]));
    marks.push([], []);
    bands.push({of: n, series: [columns.length - 2, columns.length - 1]});
  });
  return {columns, marks, dots, bands};
}

/** Return the indexes of values that need a dot: all of a few, else those without a neighbour. */
function dotsOf(values, spanGaps) {
  const all = values.flatMap((value, n) => (value === null ? [] : [n]));
  if (all.length <= FEW) return all;
  return spanGaps ? [] : all.filter((n) => (values[n - 1] ?? null) === null && (values[n + 1] ?? null) === null);
}

const DAY_S = 86_400;
/** Steps (s) of the axis of time, so that each width has several labels. */
const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
  3600, 7200, 10_800, 21_600, 43_200, ...[1, 2, 5, 10, 20, 50, 100, 200, 400].map((each) => each * DAY_S),
];

/** Return the labels of the axis of time: with milliseconds, or with the date, where they differ. */
export function timeLabels(splits, step) {
  return splits.map((each) => {
    const ts = Math.round(each * 1000);
    if (step < 1) return clock(ts, true);
    if (step >= DAY_S) return dateTime(ts).slice(0, 10);
    const time = clock(ts).replace(/:00$/, "");
    return time === "00:00" ? dateTime(ts).slice(5, 10) : time;
  });
}

/** Return the width of the axis of values: that of its longest label. */
function axisWidth(plot, labels, index, cycle) {
  if (cycle > 1) return plot.axes[index]._size;
  const longest = Math.max(0, ...(labels ?? []).map((each) => each.length));
  return Math.max(44, Math.round(longest * 7.2) + 20);
}

function optionsOf(lines, {bands}, width, {spanGaps, onSelect, onCursor, onDraw, range, unit}) {
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
      filter: () => [],
    },
    key: n,
  });
  const edge = {stroke: "transparent", width: 0, points: {show: false}, spanGaps};
  return {
    width,
    height: HEIGHT,
    ms: 1e-3,
    legend: {show: false},
    // Room for the last label of the axis of time.
    padding: [null, 26, null, null],
    cursor: {drag: {x: Boolean(onSelect), y: false, setScale: false}, points: {size: 7}},
    scales: {x: {time: true, range: range ? () => [range[0] / 1000, range[1] / 1000] : undefined}},
    axes: [
      {...axis, incrs: STEPS, values: (_, splits, __, ___, step) => timeLabels(splits, step), space: (_, __, ___, ____, width) => Math.min(76, Math.max(60, width / 8))},
      {...axis, size: axisWidth, values: (_, splits) => splits.map(number), ...(unit ? {label: visible(unit).slice(0, 40), labelSize: 18, labelGap: 2, labelFont: "12px system-ui, sans-serif"} : {})},
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
      draw: [(plot) => onDraw(plot)],
    },
  };
}

const NO_EVENTS = [];

/**
 * @param {{lines: {label: string, colour: string, times: number[], values: (number|null)[],
 *   low?: (number|null)[], high?: (number|null)[], corrected?: number[]}[], spanGaps?: boolean,
 *   range?: [number, number], onSelect?: (from: number, to: number) => void, label: string,
 *   unit?: string|null, events?: {at: number, text: string}[]}} props
 *   `events`: what the plot marks by a vertical line, at which the lines of values are interrupted
 */
export function TimePlot({lines, spanGaps = false, range, onSelect, label, unit, events = NO_EVENTS}) {
  const box = useRef(null);
  const plot = useRef(null);
  const shape = useRef("");
  const [tip, setTip] = useState(null);
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  const latest = useRef({});
  latest.current = {...latest.current, onSelect, lines, range, unit, events};

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
    const parts = columnsOf(lines, {spanGaps, breaks: events.map((each) => each.at)});
    latest.current.dots = parts.dots;
    const next = JSON.stringify([lines.map((each) => [each.label, each.colour]), parts.bands, spanGaps, theme, Boolean(range), unit]);
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
      unit,
      range: range && [0, 0],
      onSelect: onSelect && ((from, to) => latest.current.onSelect?.(from, to)),
      onCursor: (own) => setTip(tipOf(own, latest.current)),
      onDraw: (own) => drawMarks(own, latest.current),
    });
    if (range) options.scales.x.range = () => latest.current.range.map((each) => each / 1000);
    plot.current = new Plot(options, parts.columns, box.current);
    marksOf(plot.current, parts.marks);
  }, [lines, width, spanGaps, theme, range?.[0], range?.[1], unit, events]);

  return html`<div class="plot" ref=${box} role="img" aria-label=${visible(label)}>${tip && html`<${Tip} tip=${tip} />`}</div>`;
}

/** Let the filter of each series find the marks of the present data. */
function marksOf(plot, marks) {
  plot.series.forEach((each, n) => {
    if (n > 0 && each.points?.filter) each.points.filter = () => marks[n] ?? [];
  });
}

/** Draw the dots of values that no line shows, and the vertical lines of events. */
function drawMarks(plot, {lines, dots, events}) {
  const {ctx, bbox} = plot;
  const scale = devicePixelRatio;
  // A dot at the edge of the plot is whole.
  const radius = 3 * scale;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - radius, bbox.top - radius, bbox.width + 2 * radius, bbox.height + 2 * radius);
  ctx.clip();
  lines.forEach((line, n) => {
    ctx.fillStyle = line.colour;
    for (const index of dots?.[n + 1] ?? []) {
      const [time, value] = [plot.data[0][index], plot.data[n + 1]?.[index] ?? null];
      const [x, y] = [plot.valToPos(time, "x", true), plot.valToPos(value, "y", true)];
      if (value === null || x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
      ctx.beginPath();
      ctx.arc(x, y, radius, 0, 2 * Math.PI);
      ctx.fill();
    }
  });
  ctx.strokeStyle = ctx.fillStyle = css("--warn");
  ctx.lineWidth = 1.5 * scale;
  ctx.font = `${12 * scale}px system-ui, sans-serif`;
  ctx.setLineDash([5 * scale, 4 * scale]);
  for (const {at, text} of events) {
    const x = plot.valToPos(at / 1000, "x", true);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const isAtEnd = x > bbox.left + 0.8 * bbox.width;
    ctx.textAlign = isAtEnd ? "right" : "left";
    ctx.fillText(text, x + (isAtEnd ? -5 : 5) * scale, bbox.top + 13 * scale);
  }
  ctx.restore();
}

function tipOf(plot, {lines, unit, events}) {
  const {idx, left, top} = plot.cursor;
  if (idx === null || idx === undefined || left < 0) return null;
  const at = plot.data[0][idx] * 1000;
  const event = events.find((each) => Math.abs(each.at - at) <= 1);
  const rows = lines
    .map((line, n) => ({label: line.label, colour: line.colour, value: plot.data[n + 1]?.[idx]}))
    .filter((row) => row.value !== null && row.value !== undefined);
  const flip = left > plot.over.clientWidth / 2;
  // The values of a former text may have another unit.
  const isFormer = events.some((each) => at <= each.at + 1);
  return {at, rows, unit: isFormer ? null : unit, note: event?.text, left: left + plot.over.offsetLeft, top, flip, width: plot.width};
}

function Tip({tip}) {
  const style = tip.flip
    ? {right: `${tip.width - tip.left + 20}px`, top: `${Math.max(8, tip.top - 20)}px`}
    : {left: `${tip.left + 24}px`, top: `${Math.max(8, tip.top - 20)}px`};
  return html`<div class="plot-tip" style=${style}>
    <div class="dim">${dateTime(tip.at)}${tip.note && `: ${tip.note}`}</div>
    ${tip.rows.map((row) => html`<div><i style=${{background: row.colour}}></i><${Name} text=${row.label} /><b>${quantity(row.value, tip.unit)}</b></div>`)}
  </div>`;
}
