// Heat map of the effect of a pair. As in the waterfall, blue adds and orange subtracts; smaller values are paler.

const LONGEST_LABEL = 90; // pixels
const APART = 0.14; // share of a numeric axis that missing values get

function heatMap(width, effect, readout) {
  const [across, up] = effect.axes;
  const bottom = Math.min(width * 0.85, 400) - 50;
  const upTicks = () => axisTicks(up, bottom - 26, true) ?? fittingTicks(...ends(up), bottom - 26, true);
  const upNames = up.labels ?? upTicks().map((mark) => mark.label);
  const left = Math.min(0.34 * width, 18 + widest([...upNames, up.points.includes(null) ? MISSING : ""]));
  const box = { left, right: width - 14, top: 26, bottom };
  const turned = isCrowded(across, box.right - box.left);
  const foot = turned ? Math.min(LONGEST_LABEL, widest(across.labels)) + 2 : 16;
  const [columns, rows] = [spans(across, box.left, box.right), spans(up, box.bottom, box.top)];
  const most = extreme(effect);
  const at = (i, k) => effect.values[i * up.points.length + k];
  const cell = (i, k) => [columns[i][0], rows[k][1], columns[i][1] - columns[i][0], rows[k][0] - rows[k][1]];
  const cells = columns.flatMap((_, i) => rows.map((__, k) => {
    const [x, y, w, h] = cell(i, k);
    return svg("rect", { x, y, width: w, height: h, ...tint(at(i, k), most) });
  }));
  const chart = canvas(width, bottom + foot + 34, describeEffect(effect),
    svg("g", { "shape-rendering": "crispEdges" }, cells, frames(across, columns, up, rows)),
    across.labels && up.labels && cellNumbers(effect, cell),
    cellMarks(across, columns, turned).map(({ place, words }) => (turned ? turnedLabel(place, box.bottom + 6, words)
      : text(place, box.bottom + 16, words, { "text-anchor": "middle" }))),
    cellMarks(up, rows, true).map(({ place, words }) => (
      label(box.left - 7, place + 4, words, left - 10, { "text-anchor": "end" }))),
    label((box.left + box.right) / 2, box.bottom + foot + 22, across.name, box.right - box.left,
      { "text-anchor": "middle", class: "name" }),
    label(4, 14, up.name, width - 8, { class: "name" }));
  const within = (list, p) => list.findIndex(([a, b]) => p >= Math.min(a, b) && p <= Math.max(a, b));
  const words = (i, k) => `${across.name} = ${pointName(across, i)}, ${up.name} = ${pointName(up, k)}: ${signed(at(i, k))}`;
  const locate = (px, py) => [within(columns, px), within(rows, py)];
  explore(chart, columns.length, rows.length, locate, cell, words, readout);
  return chart;
}

// Draws frames around all levels or numbers and around missing values: values near zero have the colour of the page.
function frames(across, columns, up, rows) {
  const parts = (axis, cells) => {
    const count = axis.labels ? cells.length : observed(axis).length;
    return [cells.slice(0, count), cells.slice(count)].filter((part) => part.length);
  };
  return parts(across, columns).flatMap((wide) => parts(up, rows).map((tall) => {
    const [x, y] = [wide[0][0], tall.at(-1)[1]];
    return svg("rect", { x, y, width: wide.at(-1)[1] - x, height: tall[0][0] - y, class: "frame" });
  }));
}

// Writes the value into every cell, if all values fit: the sign stays readable in greyscale.
function cellNumbers(effect, cell) {
  const [most, count] = [extreme(effect), effect.axes[1].points.length];
  const texts = effect.values.map((value) => signed(value, 2));
  const [, , width, height] = cell(0, 0);
  if (widest(texts, true) + 6 > width || LINE > height) return [];
  return texts.map((words, place) => {
    const [x, y] = cell(Math.floor(place / count), place % count);
    const dark = Math.abs(effect.values[place]) > 0.8 * most;
    const style = { "text-anchor": "middle", class: dark ? "on-first" : null };
    return text(x + width / 2, y + height / 2 + 4, words, style);
  });
}

function observed(axis) {
  return axis.points.filter((value) => value !== null);
}

function ends(axis) {
  const values = observed(axis);
  return values.length ? [values[0], values.at(-1)] : [0, 1];
}

// Returns the ends of the cell of each point: levels and missing values side by side, numbers to scale.
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

// Returns whether the names of levels would touch each other side by side.
function isCrowded({ labels }, pixels) {
  if (!labels) return false;
  const halves = labels.map((words) => textWidth(words) / 2 + 4);
  return Math.max(...halves) > LONGEST_LABEL / 2
    || halves.slice(1).some((half, i) => half + halves[i] > pixels / labels.length);
}

function turnedLabel(x, y, words) {
  const transform = `translate(${(x + 4).toFixed(1)} ${y}) rotate(-90)`;
  return label(0, 0, words, LONGEST_LABEL, { "text-anchor": "end", transform });
}

// Returns the labels along an axis: round numbers, or as many names as fit.
function cellMarks(axis, cells, upright) {
  const middle = ([a, b]) => (a + b) / 2;
  const pixels = Math.abs(cells.at(-1)[1] - cells[0][0]);
  if (axis.labels) {
    const step = upright ? Math.ceil((axis.labels.length * LINE) / pixels) : 1;
    return axis.labels.map((words, i) => ({ place: middle(cells[i]), words })).filter((_, i) => i % step === 0);
  }
  const numbers = cells.slice(0, observed(axis).length);
  const absent = numbers.length < cells.length ? [{ place: middle(cells.at(-1)), words: MISSING }] : [];
  if (!numbers.length) return absent;
  const [low, high] = ends(axis);
  const at = scale([low, high], [numbers[0][0], numbers.at(-1)[1]]);
  const long = Math.abs(numbers.at(-1)[1] - numbers[0][0]);
  const all = axisTicks(axis, long, upright) ?? fittingTicks(low, high, long, upright);
  const marks = absent.reduce((kept, { place, words }) => clearOf(kept, at, words, place, upright), all);
  return [...marks.map(({ value, label: words }) => ({ place: at(value), words })), ...absent];
}

function extreme({ values }) {
  return Math.max(...values.map(Math.abs));
}

function tint(value, most) {
  return { class: value < 0 ? "falls" : "rises", "fill-opacity": (most > 0 ? Math.abs(value) / most : 0).toFixed(3) };
}

function colourKey(effect) {
  if (effect.axes.length < 2) return "";
  const most = extreme(effect);
  const cells = Array.from({ length: 25 }, (_, i) => (
    svg("rect", { x: i * 6, y: 0, width: 6, height: 12, ...tint(i - 12, 12) })));
  const strip = svg("svg", { width: 150, height: 12, "shape-rendering": "crispEdges", "aria-hidden": "true" }, cells);
  return el("p", { class: "legend key" }, signed(-most), strip, signed(most));
}
