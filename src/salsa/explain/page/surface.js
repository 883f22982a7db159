// The effect of a pair: a heat map. Its colours run from dark to light, for every eye and in grey.

const STOPS = [[0, 32, 77], [53, 72, 108], [102, 105, 112], [148, 142, 119], [194, 179, 108], [255, 234, 70]];
const APART = 0.14; // share of an axis that missing values get, besides numbers

function heatMap(width, effect, readout) {
  const [across, up] = effect.axes;
  const height = Math.min(width * 0.85, 400);
  const upNames = up.labels ?? fittingTicks(...ends(up), height - 76, true).map((mark) => mark.label);
  const left = Math.min(0.34 * width, 18 + widest([...upNames, up.points.includes(null) ? MISSING : ""]));
  const box = { left, right: width - 14, top: 26, bottom: height - 50 };
  const [columns, rows] = [spans(across, box.left, box.right), spans(up, box.bottom, box.top)];
  const limits = colourLimits(effect);
  const at = (i, k) => effect.values[i * up.points.length + k];
  const cell = (i, k) => [columns[i][0], rows[k][1], columns[i][1] - columns[i][0], rows[k][0] - rows[k][1]];
  const cells = columns.flatMap((_, i) => rows.map((__, k) => {
    const [x, y, w, h] = cell(i, k);
    return svg("rect", { x, y, width: w + 0.5, height: h + 0.5, fill: tint(at(i, k), limits) });
  }));
  const chart = canvas(width, height, describeEffect(effect), svg("g", { "shape-rendering": "crispEdges" }, cells),
    cellMarks(across, columns, false).map(({ place, words }) => (
      label(place, box.bottom + 16, words, 90, { "text-anchor": "middle" }))),
    cellMarks(up, rows, true).map(({ place, words }) => (
      label(box.left - 7, place + 4, words, left - 10, { "text-anchor": "end" }))),
    label((box.left + box.right) / 2, box.bottom + 38, across.name, box.right - box.left,
      { "text-anchor": "middle", class: "name" }),
    label(4, 14, up.name, width - 8, { class: "name" }));
  const within = (list, p) => list.findIndex(([a, b]) => p >= Math.min(a, b) && p <= Math.max(a, b));
  const words = (i, k) => `${across.name} = ${pointName(across, i)}, ${up.name} = ${pointName(up, k)}: ${signed(at(i, k))}`;
  const locate = (px, py) => [within(columns, px), within(rows, py)];
  explore(chart, columns.length, rows.length, locate, cell, words, readout);
  return chart;
}

function observed(axis) {
  return axis.points.filter((value) => value !== null);
}

function ends(axis) {
  const values = observed(axis);
  return values.length ? [values[0], values.at(-1)] : [0, 1];
}

// Where the cell of each point lies: levels and missing values side by side, numbers to scale.
function spans(axis, from, to) {
  const equal = (count, start, end) => Array.from({ length: count }, (_, i) => (
    [i, i + 1].map((edge) => start + ((end - start) * edge) / count)));
  if (axis.labels) return equal(axis.points.length, from, to);
  const values = observed(axis);
  const missing = values.length < axis.points.length;
  const end = missing && values.length ? to - APART * (to - from) : to;
  const edges = [values[0], ...values.slice(1).map((value, i) => (value + values[i]) / 2), values.at(-1)];
  const at = scale(ends(axis), [from, end]);
  const toScale = values.map((_, i) => [at(edges[i]), at(edges[i + 1])]);
  const cells = values.length > 1 ? toScale : equal(values.length, from, end);
  return missing ? [...cells, [values.length ? end + 0.03 * (to - from) : from, to]] : cells;
}

// Labels along an axis: round numbers, or as many names as have room.
function cellMarks(axis, cells, upright) {
  const middle = ([a, b]) => (a + b) / 2;
  const pixels = Math.abs(cells.at(-1)[1] - cells[0][0]);
  if (axis.labels) {
    const room = upright ? LINE : 12 + Math.min(90, widest(axis.labels));
    const step = Math.ceil((axis.labels.length * room) / pixels);
    return axis.labels.map((words, i) => ({ place: middle(cells[i]), words })).filter((_, i) => i % step === 0);
  }
  const numbers = cells.slice(0, observed(axis).length);
  const missing = numbers.length < cells.length ? [{ place: middle(cells.at(-1)), words: MISSING }] : [];
  if (!numbers.length) return missing;
  const [low, high] = ends(axis);
  const at = scale([low, high], [numbers[0][0], numbers.at(-1)[1]]);
  const marks = fittingTicks(low, high, missing.length ? 0.75 * pixels : pixels, upright);
  return [...marks.map(({ value, label: words }) => ({ place: at(value), words })), ...missing];
}

// An interaction is spread around zero; a joint effect uses all colours.
function colourLimits({ values, joint }) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const extreme = Math.max(-low, high);
  return joint ? [low, high] : [-extreme, extreme];
}

function tint(value, [low, high]) {
  const place = (high > low ? (value - low) / (high - low) : 0.5) * (STOPS.length - 1);
  const stop = Math.min(Math.floor(place), STOPS.length - 2);
  const mixed = STOPS[stop].map((channel, c) => Math.round(channel + (place - stop) * (STOPS[stop + 1][c] - channel)));
  return `rgb(${mixed.join(" ")})`;
}

function colourKey(effect) {
  if (effect.axes.length < 2) return "";
  const limits = colourLimits(effect);
  const cells = Array.from({ length: 24 }, (_, i) => (
    svg("rect", { x: i * 6, y: 0, width: 6.5, height: 12, fill: tint(i, [0, 23]) })));
  const strip = svg("svg", { width: 144, height: 12, "aria-hidden": "true" }, cells);
  return el("p", { class: "legend key" }, signed(limits[0]), strip, signed(limits[1]));
}
