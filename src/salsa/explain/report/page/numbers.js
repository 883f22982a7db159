// Checks of counts, amounts and quantiles: each function takes a width and one panel of the payload.

const PANELS = { means: meansChart, rootogram: rootogramChart, below: belowChart };

// Draws the mean target of each bin against its mean prediction, on log scales for amounts.
function meansChart(width, { title, expected, observed: values, error, log }) {
  const height = Math.min(width, 380);
  const moved = log ? Math.log10 : (value) => value;
  const least = log ? Math.min(...expected, ...values) / 4 : -Infinity; // a bar may end below zero
  const ends = values.map((value, i) => [Math.max(value - 2 * error[i], least), value + 2 * error[i]]);
  const [low, high] = padded([...expected, ...ends.flat()].map(moved), 0.06);
  const marks = (pixels, upright) => (log ? logTicks(low, high) : fittingTicks(low, high, pixels, upright));
  const upright = marks(height - 80, true);
  const box = { left: 14 + widest(upright.map((mark) => mark.label)), right: width - 12, top: 26, bottom: height - 44 };
  const [x, y] = [scale([low, high], [box.left, box.right]), scale([low, high], [box.bottom, box.top])];
  return canvas(width, height, title,
    bottomAxis(marks(box.right - box.left, false), x, box, "mean prediction"),
    leftAxis(upright, y, box, "mean observed"),
    line(x(low), y(low), x(high), y(high), "reference"),
    expected.map((mean, i) => [
      line(x(moved(mean)), y(moved(ends[i][0])), x(moved(mean)), y(moved(ends[i][1])), "whisker strong"),
      svg("circle", { cx: x(moved(mean)), cy: y(moved(values[i])), r: 5, class: "dot strong" },
        svg("title", {}, `predicted ${number(mean)}, observed ${number(values[i])} ± ${number(error[i], 2)}`)),
    ]));
}

// Returns ticks at powers of ten between 10^low and 10^high, with 2 and 5 times them if there are few.
function logTicks(low, high) {
  const found = [];
  const multiples = high - low > 2.5 ? [1] : high - low > 1 ? [1, 3] : [1, 2, 3, 5, 7];
  for (let power = Math.floor(low); power <= high; power += 1) {
    for (const multiple of multiples) {
      const value = Math.log10(multiple) + power;
      if (value >= low && value <= high) found.push({ value, label: number(multiple * 10 ** power, 3) });
    }
  }
  return found;
}

// Draws how many rows have each count (bars) and how many are expected (dots with ± 2 standard deviations).
function rootogramChart(width, { title, labels, observed: counts, expected, error }) {
  const height = 320;
  const reach = expected.map((mean, i) => [Math.max(0, mean - 2 * error[i]), mean + 2 * error[i]]);
  const most = Math.max(...counts, ...reach.map(([, high]) => high), 1);
  const upright = rootTicks(most);
  const left = 14 + widest(upright.map((mark) => mark.label));
  const box = { left, right: width - 12, top: 26, bottom: height - 44 };
  const step = (box.right - box.left) / labels.length;
  const y = scale([0, Math.sqrt(most)], [box.bottom, box.top]);
  const [high, middle] = [(value) => y(Math.sqrt(value)), (i) => box.left + (i + 0.5) * step];
  const every = Math.ceil((widest(labels) + 8) / step);
  const marks = labels.map((words, i) => ({ value: i, label: words })).filter((_, i) => i % every === 0);
  return canvas(width, height, title,
    leftAxis(upright, (value) => high(value), box, "rows (square-root scale)"),
    counts.map((found, i) => bar(middle(i) - 0.4 * step, high(found), 0.8 * step, box.bottom - high(found), "second",
      `${labels[i]}: ${number(found)} rows, ${number(expected[i], 3)} expected`)),
    svg("path", { class: "curve thin", d: path(expected.map((mean, i) => [middle(i), high(mean)])) }),
    expected.map((mean, i) => [
      line(middle(i), high(reach[i][0]), middle(i), high(reach[i][1]), "whisker strong"),
      svg("circle", { cx: middle(i), cy: high(mean), r: Math.min(4.5, 0.4 * step), class: "dot strong" }),
    ]),
    svg("g", { class: "axis" }, marks.map(({ value, label: words }) => (
      text(middle(value), box.bottom + 16, words, { "text-anchor": "middle" }))),
    label((box.left + box.right) / 2, box.bottom + 36, "count",
      box.right - box.left, { "text-anchor": "middle", class: "name" })));
}

// Returns ticks at round numbers that are evenly spread on a square-root scale.
function rootTicks(most) {
  const round = (value) => {
    const power = 10 ** Math.floor(Math.log10(value));
    return power * [1, 2, 3, 5, 10].reduce((best, m) => (Math.abs(m * power - value) < Math.abs(best * power - value) ? m : best));
  };
  const values = [0.06, 0.25, 0.56, 1].map((share) => round(Math.max(1, share * most))).filter((value) => value <= most);
  return [0, ...new Set(values)].map((value) => ({ value, label: number(value) }));
}

// Draws the share of targets at or below the predicted quantile against the mean prediction of each bin.
function belowChart(width, { title, predicted: means, share, low, high, level }) {
  const height = Math.min(width, 340);
  const [first, last] = padded(means, 0.06);
  const least = Math.max(0, Math.min(...low, level) - 0.05);
  const most = Math.min(1, Math.max(...high, level) + 0.05);
  const upright = ticks(least, most, 5).map((value) => ({ value, label: percent(value) }));
  const box = { left: 14 + widest(upright.map((mark) => mark.label)), right: width - 12, top: 26, bottom: height - 44 };
  const [x, y] = [scale([first, last], [box.left, box.right]), scale([least, most], [box.bottom, box.top])];
  return canvas(width, height, title,
    bottomAxis(fittingTicks(first, last, box.right - box.left), x, box, "predicted quantile"),
    leftAxis(upright, y, box, "share of targets at or below it"),
    line(box.left, y(level), box.right, y(level), "reference"),
    means.map((mean, i) => [
      line(x(mean), y(low[i]), x(mean), y(high[i]), "whisker strong"),
      svg("circle", { cx: x(mean), cy: y(share[i]), r: 5, class: "dot strong" },
        svg("title", {}, `${number(mean)}: ${percent(share[i])}`)),
    ]));
}
