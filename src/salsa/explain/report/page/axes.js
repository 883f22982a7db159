// Scales, ticks at round numbers, labels, and the axes of all charts.

const LINE = 18;
const PEN = document.createElement("canvas").getContext("2d");

// Returns the width of these words in a chart, in pixels.
function textWidth(words, strong = false) {
  PEN.font = `${strong ? 650 : 400} 12.5px ${getComputedStyle(document.body).fontFamily}`;
  return PEN.measureText(words).width;
}

function widest(texts, strong = false) {
  return Math.ceil(Math.max(0, ...texts.map((words) => textWidth(words, strong))));
}

// Shortens words to so many pixels by leaving out their middle: long names often differ at the end.
function shortened(words, pixels, strong = false) {
  if (textWidth(words, strong) <= pixels) return words;
  const letters = [...words];
  const without = (kept) => {
    const tail = Math.floor(kept / 3);
    return `${letters.slice(0, kept - tail).join("").trimEnd()}…${letters.slice(letters.length - tail).join("")}`;
  };
  let [fits, beyond] = [1, letters.length];
  while (beyond - fits > 1) {
    const kept = Math.floor((fits + beyond) / 2);
    if (textWidth(without(kept), strong) <= pixels) fits = kept;
    else beyond = kept;
  }
  return without(fits);
}

function scale([low, high], [from, to]) {
  const span = high - low;
  return (value) => (span > 0 ? from + ((value - low) / span) * (to - from) : (from + to) / 2);
}

// Returns about `count` multiples of 1, 2 or 5 times a power of ten within [low, high].
function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((multiple) => multiple * power >= rough * 0.999) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.min(last - first + 1, 50) }, (_, i) => Number(((first + i) * step).toPrecision(15)));
}

// Returns the labels of ticks, with as many decimals as tell neighbours apart.
function tickLabels(values) {
  const largest = Math.max(...values.map(Math.abs));
  const step = values.length > 1 ? Math.abs(values[1] - values[0]) : largest || 1;
  const digits = Math.max(0, Math.ceil(Math.log10(largest / step) - 1e-9));
  if ((largest >= 1e6 && digits < 6) || (largest > 0 && largest < 1e-3)) {
    return values.map((value) => (value === 0 ? "0" : scientific(value, Math.min(digits, 15))));
  }
  const decimals = Math.min(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), 12);
  const format = { minimumFractionDigits: decimals, maximumFractionDigits: decimals, useGrouping: largest >= 1e4 };
  return values.map((value) => minus(value.toLocaleString("en", format)));
}

// Returns as many ticks as fit into so many pixels, side by side or, upright, below each other.
function fittingTicks(low, high, pixels, upright = false) {
  for (let count = upright ? Math.min(6, pixels / 36) : 7; count >= 1; count -= 1) {
    const values = ticks(low, high, count);
    const labels = tickLabels(values);
    const need = values.length * (widest(labels) + 16);
    const marks = values.map((value, i) => ({ value, label: labels[i] }));
    if (upright || need <= pixels) return marks;
    if (count < 2) return marks.slice(0, 1);
  }
  return [];
}

// Returns the ticks of a part of a date that fit side by side or, upright, below each other; null for other features.
function axisTicks({ ticks: given }, pixels, upright = false) {
  if (!given) return null;
  const need = upright ? LINE : widest(given.map(([, words]) => words)) + 16;
  const every = Math.max(1, Math.ceil((given.length * need) / pixels));
  return given.map(([value, words]) => ({ value, label: words })).filter((_, i) => i % every === 0);
}

// Returns ticks at these values, or null if their labels do not all fit side by side.
function valueTicks(values, pixels) {
  const marks = values.map((value) => ({ value, label: number(value) }));
  const gap = Math.min(...values.slice(1).map((value, i) => value - values[i]));
  const room = (gap / (1.2 * (values.at(-1) - values[0]))) * pixels;
  return values.length < 2 || room > widest(marks.map((mark) => mark.label)) + 10 ? marks : null;
}

// Keeps the marks whose labels do not touch the words at `place` of the axis.
function clearOf(marks, at, words, place, upright = false) {
  const half = (label) => (upright ? LINE / 2 : textWidth(label) / 2 + 4);
  return marks.filter(({ value, label }) => Math.abs(at(value) - place) >= half(label) + half(words));
}

// Returns the range of the values with a margin on both sides; equal values get a range of positive width.
function padded(values, share = 0.04) {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [0, 1];
  const low = finite.reduce((a, b) => Math.min(a, b));
  const high = finite.reduce((a, b) => Math.max(a, b));
  const room = high > low ? (high - low) * share : Math.abs(low) * 0.1 || 1;
  return [low - room, high + room];
}

function canvas(width, height, label, ...children) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, children);
}

function text(x, y, words, attributes = {}, title = null) {
  return svg("text", { x, y, ...attributes }, words, title && svg("title", {}, title));
}

// Draws a label shortened to so many pixels; its title holds the whole text.
function label(x, y, words, pixels, attributes = {}) {
  const short = shortened(words, pixels, attributes.class === "strong");
  return text(x, y, short, attributes, short === words ? null : words);
}

function line(x1, y1, x2, y2, style) {
  return svg("line", { x1, y1, x2, y2, class: style });
}

function bar(x, y, width, height, style, title = null) {
  return svg("rect", { x, y, width: Math.max(0, width), height, class: style }, title && svg("title", {}, title));
}

// Draws ticks, grid lines and name of an axis along the bottom of [left, right] x [top, bottom].
function bottomAxis(marks, at, { left, right, top, bottom }, name) {
  return svg("g", { class: "axis" },
    marks.map(({ value, label: words }) => [
      line(at(value), top, at(value), bottom, "grid"),
      text(at(value), bottom + 16, words, { "text-anchor": "middle" }),
    ]).flat(),
    name && label((left + right) / 2, bottom + 36, name, right - left, { "text-anchor": "middle", class: "name" }));
}

// Draws ticks, grid lines and name of an axis at the left; the name is written horizontally above the axis.
function leftAxis(marks, at, { left, right, top }, name) {
  return svg("g", { class: "axis" },
    marks.map(({ value, label: words }) => [
      line(left, at(value), right, at(value), "grid"),
      text(left - 7, at(value) + 4, words, { "text-anchor": "end" }),
    ]).flat(),
    name && label(left, top - 10, name, right - left, { class: "name" }));
}

function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

// Draws many dots as one element: strokes of length zero with round ends.
function dots(points, style) {
  return svg("path", { class: style, d: points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("") });
}
