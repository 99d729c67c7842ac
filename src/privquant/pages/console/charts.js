// Charts by uPlot, in the colours of the page. Each is drawn anew from its data; nothing is animated.

import { el } from "../shared/dom.js";
import { count, value } from "./words.js";

const { uPlot } = globalThis;
const LOG = 3; // uPlot's number for a logarithmic scale
const WIDE = 60; // a range whose ends differ by more than this factor is drawn by ratios

function colour(name) {
  return getComputedStyle(document.body).getPropertyValue(`--${name}`).trim();
}

/** A place for a chart that keeps the width of its column; `label` is what it says to who does not see it. */
export class Chart {
  constructor(height) {
    this.height = height;
    this.canvas = el("div", { "aria-hidden": "true" });
    this.words = el("figcaption", { class: "quiet" });
    this.place = el("figure", { class: "chart" }, this.canvas, this.words);
    this.last = null;
    this.plot = null;
    new ResizeObserver(() => this.#fit()).observe(this.place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.last && this.draw(...this.last));
  }

  /** options: a function of the colours' reader, so that they follow light and dark. */
  draw(options, data, label) {
    this.last = [options, data, label];
    this.words.textContent = label;
    this.plot?.destroy();
    this.plot = null;
    const width = this.place.clientWidth;
    if (width === 0 || data === null) return;
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    const made = options(colour);
    made.axes = made.axes.map((each) => ({ ...axis, ...each }));
    const rest = { width, height: this.height, legend: { show: false }, cursor: { show: false }, padding: [10, 28, 0, 0] };
    this.plot = new uPlot({ ...rest, ...made }, data, this.canvas);
  }

  #fit() {
    const width = this.place.clientWidth;
    if (this.last !== null && width > 0 && (this.plot === null || this.plot.width !== width)) this.draw(...this.last);
  }
}

function wide(values) {
  const known = values.filter((each) => typeof each === "number");
  const low = Math.min(...known);
  return known.length > 0 && low > 0 && Math.max(...known) / low > WIDE;
}

function scale(values, more = {}) {
  return wide(values) ? { time: false, distr: LOG, ...more } : { time: false, ...more };
}

const shown = (_, ticks) => ticks.map((tick) => (tick === null ? "" : value(tick)));
const shares = (_, ticks) => ticks.map((tick) => `${Math.round(100 * tick)} %`);

/** Reports by threshold and the curve through them, the answer and its range. */
export function sharesChart(chart, { points, curve }, estimate, range) {
  if (points.length === 0) return chart.draw(null, null, "No reports to draw yet.");
  const data = uPlot.join([
    [points.map((p) => p[0]), points.map((p) => p[1]), points.map((p) => p[2])],
    [curve.map((p) => p[0]), curve.map((p) => p[1])],
  ]);
  const options = (of) => ({
    scales: { x: scale(data[0]), y: { range: (_, low, high) => [Math.max(0, low - 0.12), Math.min(1, high + 0.12)] } },
    axes: [{ values: shown }, { values: shares, size: 52 }],
    series: [
      {},
      { stroke: of("soft"), paths: () => null, points: { show: true, size: 7, fill: of("soft") } },
      { show: false, auto: false },
      { stroke: of("accent"), width: 2.5, spanGaps: true, points: { show: false } },
    ],
    hooks: { drawAxes: [(u) => behind(u, of, estimate, range)], draw: [(u) => errors(u, of)] },
  });
  const each = Math.round(points.reduce((sum, p) => sum + p[3], 0) / points.length);
  const label =
    `Share of people at or below a value. Dots: reports, about ${count(each)} each, with one standard error; ` +
    "line: the fitted curve; the answer and its range in colour.";
  return chart.draw(options, data, label);
}

/** The answer as a line across, its range as a band; under everything else. */
function behind(u, of, estimate, range) {
  const { ctx, bbox } = u;
  const at = (x) => Math.min(Math.max(u.valToPos(x, "x", true), bbox.left), bbox.left + bbox.width);
  ctx.save();
  if (range !== null) {
    const low = range.low === null ? bbox.left : at(range.low);
    const high = range.high === null ? bbox.left + bbox.width : at(range.high);
    ctx.fillStyle = of("warm-soft");
    ctx.fillRect(low, bbox.top, high - low, bbox.height);
  }
  ctx.strokeStyle = of("warm");
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.beginPath();
  const x = at(estimate.value);
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

function errors(u, of) {
  const [xs, ys, spread] = u.data;
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = of("soft");
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  xs.forEach((x, k) => {
    if (typeof spread[k] !== "number") return;
    const place = u.valToPos(x, "x", true);
    ctx.moveTo(place, u.valToPos(ys[k] - spread[k], "y", true));
    ctx.lineTo(place, u.valToPos(ys[k] + spread[k], "y", true));
  });
  ctx.stroke();
  ctx.restore();
}

/** How the answer closed in: value and range against the number of reports, which is drawn by ratios. */
export function traceChart(chart, trace, which) {
  const rows = trace.map((row) => [row[0], ...row[1 + which]]).filter((row) => row[1] !== null);
  if (rows.length < 2) return chart.draw(null, null, "Drawn when there are two snapshots to compare.");
  const column = (k) => rows.map((row) => row[k]);
  const data = [column(0), column(2), column(3), column(1)];
  const options = (of) => ({
    scales: { x: { time: false, distr: LOG }, y: scale([...data[1], ...data[2], ...data[3]]) },
    axes: [{ values: (u, ticks) => ticks.map((t) => (t === null ? "" : count(t))) }, { values: shown, size: 64 }],
    series: [
      {},
      { stroke: of("warm-soft"), width: 1, points: { show: false } },
      { stroke: of("warm-soft"), width: 1, points: { show: false } },
      { stroke: of("warm"), width: 2, points: { show: true, size: 5, fill: of("warm") } },
    ],
    bands: [{ series: [2, 1], fill: of("warm-soft") }],
  });
  const label = `The answer and its range after ${count(rows[0][0])} to ${count(rows.at(-1)[0])} reports (logarithmic axis).`;
  return chart.draw(options, data, label);
}

/** The error that a plan expects against the number of people. */
export function planChart(chart, curve, users) {
  const rows = curve.filter((row) => row[1] !== null || row[2] !== null);
  if (rows.length < 2) return chart.draw(null, null, "Nothing to draw for these numbers.");
  const points = (k) => rows.map((row) => (row[k] === null ? null : 100 * row[k]));
  const data = [rows.map((row) => row[0]), points(1), points(2)];
  const options = (of) => ({
    scales: { x: { time: false, distr: LOG }, y: { range: (_, low, high) => [0, 1.1 * high] } },
    axes: [
      { values: (u, ticks) => ticks.map((t) => (t === null ? "" : count(t))) },
      { values: (u, ticks) => ticks.map((t) => `${Number(t.toPrecision(3))}`), size: 44 },
    ],
    series: [
      {},
      { stroke: of("accent"), width: 2.5, points: { show: true, size: 6, fill: of("accent") } },
      { stroke: of("warm"), width: 2, dash: [6, 4], points: { show: false } },
    ],
  });
  const label =
    "Error in percentile points against people asked. Line: typical data; dashed: the hardest measured. " +
    `The plan has ${count(Math.round(users))} people.`;
  return chart.draw(options, data, label);
}
