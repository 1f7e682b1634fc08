// Lines with axes, in SVG.
import { el, short, svg } from "./util.js";

const WIDTH = 360;
const HEIGHT = 130;
const LEFT = 46;
const BOTTOM = 18;
const TOP = 8;

/** Round numbers between two values, `count` at most. */
function ticks(low, high, count = 5) {
  const step = Math.pow(10, Math.floor(Math.log10((high - low) / count || 1)));
  const factor = [1, 2, 5, 10].find((f) => (high - low) / (f * step) <= count) ?? 10;
  const size = factor * step;
  const found = [];
  for (let value = Math.ceil(low / size) * size; value <= high + 1e-9 * size; value += size) found.push(value);
  return found;
}

/** Logarithms of 1, 3, 10, 30 and so on between two logarithms. */
function logTicks(low, high) {
  const found = [];
  for (let decade = Math.floor(low); decade <= high; decade++) found.push(decade, decade + Math.log10(3));
  return found.filter((value) => value >= low && value <= high);
}

/**
 * A chart of lines.
 * lines: [{values: [number or null], className, label}], all over the same frames.
 * mark: a frame where a vertical line stands, or null.
 */
export function chart({ title, lines, xLabel = "frame", mark = null, logarithmic = false, xs = null }) {
  const scale = (value) => (logarithmic ? Math.log10(value) : value);
  const known = lines.flatMap(({ values }) => values).filter((v) => v !== null && (!logarithmic || v > 0)).map(scale);
  let low = Math.min(...known);
  let high = Math.max(...known);
  if (!known.length) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const length = Math.max(2, ...lines.map(({ values }) => values.length));
  const lastX = xs ? xs[xs.length - 1] : length - 1;
  const firstX = xs ? xs[0] : 0;
  const x = (t) => LEFT + ((WIDTH - LEFT - 6) * ((xs ? xs[t] : t) - firstX)) / (lastX - firstX || 1);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (scale(value) - low) / (high - low));
  const path = (values) => {
    let isDrawing = false;
    return values
      .map((value, t) => {
        if (value === null || (logarithmic && value <= 0)) {
          isDrawing = false;
          return "";
        }
        const command = `${isDrawing ? "L" : "M"}${x(t).toFixed(1)} ${y(value).toFixed(1)}`;
        isDrawing = true;
        return command;
      })
      .join("");
  };
  const axis = [];
  for (const value of logarithmic ? logTicks(low, high) : ticks(low, high)) {
    const shown = logarithmic ? Math.pow(10, value) : value;
    axis.push(svg("line", { x1: LEFT, x2: WIDTH - 6, y1: y(shown), y2: y(shown), class: "grid" }));
    axis.push(svg("text", { x: LEFT - 5, y: y(shown) + 3, "text-anchor": "end" }, short(shown)));
  }
  for (const value of [firstX, lastX]) {
    const at = value === firstX ? LEFT : WIDTH - 6;
    const anchor = value === firstX ? "start" : "end";
    axis.push(svg("text", { x: at, y: HEIGHT - 4, "text-anchor": anchor }, value === lastX ? `${xLabel} ${short(value)}` : short(value)));
  }
  const drawn = lines.map(({ values, className, label }) =>
    svg("path", { d: path(values), class: `line ${className}` }, svg("title", {}, label)),
  );
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": `${title}: ${lines.map((l) => l.label).join(", ")}` },
    ...axis,
    ...drawn,
    mark === null ? null : svg("line", { x1: x(mark - 0.5), x2: x(mark - 0.5), y1: TOP, y2: HEIGHT - BOTTOM, class: "mark" }),
  );
  return el("figure", { class: "chart-box" }, el("figcaption", {}, title), picture);
}

/** A small picture of a series, without axes: each feature between its extremes in `all`. */
export function sparkline(values, all = values) {
  const features = values[0].length;
  const lines = [];
  for (let feature = 0; feature < Math.min(features, 6); feature++) {
    const column = values.map((row) => row[feature] ?? 0);
    const known = all.map((row) => row[feature] ?? 0);
    const low = Math.min(...known);
    const extent = Math.max(...known) - low || 1;
    const points = column.map((v, t) => `${((100 * t) / (column.length - 1 || 1)).toFixed(1)},${(58 - (56 * (v - low)) / extent).toFixed(1)}`);
    lines.push(svg("polyline", { points: points.join(" "), class: `line feature-${feature}` }));
  }
  return svg("svg", { viewBox: "0 0 100 60", class: "sparkline", preserveAspectRatio: "none" }, ...lines);
}
