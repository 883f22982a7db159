// Charts of the effect of one feature: a curve with its band, or dots with error bars for few values.

const MOST_LEVELS = 30;
const FEW_VALUES = 12; // a number with at most this many values is drawn as dots

function isFew(axis) {
  return !axis.labels && observed(axis).length <= FEW_VALUES;
}

function effectChart(width, effect, readout, name) {
  if (isPairTable(effect)) return pairTable(effect, name);
  if (effect.axes.length === 2) return heatMap(width, effect, readout);
  return effect.axes[0].labels ? levelChart(width, effect, name) : curveChart(width, effect, readout, name);
}

function describeEffect({ term, share }) {
  return `Effect of ${term}, ${percent(share)} of the variance`;
}

function curveChart(width, effect, readout, name) {
  const [axis] = effect.axes;
  const height = 320;
  const reach = effect.values.map((_, i) => 2 * (effect.sd ? effect.sd[i] : 0));
  const [low, high] = padded([0, ...effect.values.flatMap((value, i) => [value - reach[i], value + reach[i]])]);
  const upright = fittingTicks(low, high, height - 80, true);
  const apart = axis.points.at(-1) === null ? 62 : 0; // pixels for missing values
  const left = 14 + widest(upright.map((mark) => mark.label));
  const box = { left, right: width - 12 - apart, top: 26, bottom: height - 50 };
  const finite = axis.points.map((value, i) => [value, i]).filter(([value]) => value !== null);
  const values = finite.map(([value]) => value);
  const few = isFew(axis);
  const [first, last] = few ? padded(values, 0.1) : ends(axis);
  const all = axisTicks(axis, box.right - box.left)
    || (few && valueTicks(values, box.right - box.left)) || fittingTicks(first, last, box.right - box.left);
  const beyond = width - 12 - apart / 2;
  const [x, y] = [scale([first, last], [box.left, box.right]), scale([low, high], [box.bottom, box.top])];
  const marks = apart > 0 ? clearOf(all, x, MISSING, beyond) : all;
  const middle = finite.map(([value, i]) => [x(value), y(effect.values[i])]);
  const upper = finite.map(([value, i]) => [x(value), y(effect.values[i] + reach[i])]);
  const lower = finite.map(([value, i]) => [x(value), y(effect.values[i] - reach[i])]);
  const chart = canvas(width, height, describeEffect(effect),
    bottomAxis(marks, x, box, axis.name),
    leftAxis(upright, y, { ...box, right: width - 12 }, name),
    line(box.left, y(0), width - 12, y(0), "zero"),
    effect.sd && !few && svg("path", { class: "band", d: `${path([...upper, ...lower.reverse()])}Z` }),
    svg("path", { class: few ? "curve thin" : "curve", d: path(middle) }),
    few ? finite.map(([value, i]) => barredDot(x(value), y, effect.values[i], reach[i]))
      : svg("path", { class: "rug", d: axis.rug.map((value) => `M${x(value).toFixed(1)} ${box.bottom}v-9`).join("") }),
    apart > 0 && barredDot(beyond, y, effect.values.at(-1), reach.at(-1)),
    apart > 0 && text(beyond, box.bottom + 16, MISSING, { "text-anchor": "middle" }));
  const spread = (i) => (reach[i] > 0 ? ` ± ${number(reach[i], 2)}` : "");
  const words = (i) => `${axis.name} = ${pointName(axis, i)}: ${signed(effect.values[i])}${spread(i)}`;
  const places = axis.points.map((value) => (value === null ? beyond : x(value)));
  const frame = (i) => [places[i], box.top, 0, box.bottom - box.top];
  explore(chart, places.length, 1, (px) => [nearest(places, px), 0], frame, words, readout);
  return chart;
}

function barredDot(x, y, value, reach) {
  return svg("g", {}, line(x, y(value - reach), x, y(value + reach), "whisker strong"),
    svg("circle", { cx: x, cy: y(value), r: 5, class: "dot strong" }));
}

function pointName(axis, i) {
  const value = axis.points[i];
  if (axis.labels) return axis.labels[i];
  if (axis.names && value !== null) return axis.names[i];
  return value === null ? MISSING : number(value);
}

// Draws a dot with its band for every level; the level of largest effect is at the top, missing values are at the end.
function levelChart(width, effect, name) {
  const [axis] = effect.axes;
  const rows = axis.labels.map((level, i) => ({
    name: level, value: effect.values[i], error: effect.sd?.[i], strong: true, missing: axis.points[i] === null }));
  const largest = rows.toSorted((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, MOST_LEVELS);
  const shown = rows.filter((row) => largest.includes(row));
  if (!axis.ordered) shown.sort((a, b) => a.missing - b.missing || b.value - a.value);
  const left = rows.length > MOST_LEVELS ? ` (the ${MOST_LEVELS} largest of ${rows.length} levels)` : "";
  const spoken = shown.map((row) => `${row.name} ${signed(row.value)}`).join(", "); // dots have no other text
  return dotChart(width, shown, { name: `${name}${left}`, describe: `${describeEffect(effect)}: ${spoken}`, zero: 0 });
}
