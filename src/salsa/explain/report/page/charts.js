// Charts of a whole model: each function takes a width and plain numbers, and returns an SVG element.

// Draws rows { name, value, error, strong } as labels and dots on a common scale; long labels stand above the dots.
function dotChart(width, rows, { name, describe, zero = null, also = [] }) {
  const wide = widest(rows.map((row) => row.name), true) + 18;
  const above = wide > 0.5 * width;
  const step = above ? 44 : 30;
  const box = { left: above ? 8 : wide, right: width - 14, top: 8, bottom: 12 + rows.length * step };
  const ends = rows.flatMap(({ value, error }) => [value - 2 * (error ?? 0), value + 2 * (error ?? 0)]);
  const [low, high] = padded(zero === null ? ends : [...ends, ...also, zero]);
  const at = scale([low, high], [box.left + 8, box.right]);
  return canvas(width, box.bottom + 44, describe,
    bottomAxis(fittingTicks(low, high, box.right - box.left), at, box, name),
    zero === null ? null : line(at(zero), box.top, at(zero), box.bottom, "zero"),
    rows.map((row, i) => {
      const style = { class: row.strong ? "strong" : null };
      return [
        above ? label(2, 23 + i * step, row.name, width - 8, style)
          : label(wide - 10, 31 + i * step, row.name, wide - 10, { "text-anchor": "end", ...style }),
        dotMark(row, at, 8 + (i + (above ? 0.75 : 0.63)) * step),
      ];
    }));
}

function dotMark({ name, value, error, strong }, at, y) {
  const reach = 2 * (error ?? 0);
  return [
    reach > 0 ? line(at(value - reach), y, at(value + reach), y, strong ? "whisker strong" : "whisker") : null,
    svg("circle", { cx: at(value), cy: y, r: strong ? 6 : 4.5, class: strong ? "dot strong" : "dot" },
      svg("title", {}, `${name}: ${number(value)}${reach > 0 ? ` ± ${number(error, 2)}` : ""}`)),
  ];
}

// Draws the shares of a whole as one stacked bar.
function shareBar(width, parts) {
  const total = parts.reduce((sum, part) => sum + part.share, 0) || 1;
  const at = scale([0, total], [0, width]);
  let sum = 0;
  const pieces = parts.flatMap(({ name, share, style, words }) => {
    const [from, to] = [at(sum), at((sum += share))];
    const fits = to - from > textWidth(words, true) + 12;
    return [
      bar(from, 0, to - from - (to < width ? 1 : 0), 34, style, `${name}: ${words}`),
      fits ? text((from + to) / 2, 22, words, { "text-anchor": "middle", class: `on-${style}` }) : null,
    ];
  });
  return canvas(width, 34, parts.map(({ name, words }) => `${name} ${words}`).join(", "), pieces);
}

// Draws a small bar beside a number; its length is relative to the largest number.
function spark(share) {
  return svg("svg", { class: "spark", width: 60, height: 10, "aria-hidden": "true" }, bar(0, 0, 60 * share, 10, "first"));
}

// Draws per feature the share of its own effect and, lighter, of its interactions; an unsure effect is pale. A diamond
// marks the share over rows, which can be negative; it is null if the rows are not known.
function importanceBars(width, features, interacting) {
  const step = 28;
  const left = Math.min((features.some(({ rows }) => rows !== null) ? 0.3 : 0.4) * width,
    16 + widest(features.map(({ name }) => name)));
  const room = Math.max(40, ...features.map((feature) => textWidth(barWords(feature)))) + 12;
  const box = { left, right: width - room, top: 4, bottom: 8 + features.length * step };
  const marks = features.map(({ rows }) => rows ?? 0);
  const [low, high] = [Math.min(0, ...marks), Math.max(...features.map(({ total }) => total), ...marks, 1e-9)];
  const at = scale([low, high], [box.left + (low < 0 ? 8 : 0), box.right]);
  return canvas(width, box.bottom + 4, "Share of the variance of every feature",
    low < 0 ? line(at(0), box.top, at(0), box.bottom, "zero") : null,
    features.flatMap((feature, i) => {
      const { name, first, total, rows, unsure } = feature;
      const y = box.top + i * step;
      const words = `${name}: ${shareWords(feature, interacting)}`;
      return [
        label(box.left - 10, y + 18, name, box.left - 14, { "text-anchor": "end" }),
        bar(at(0), y + 5, at(total) - at(0), 18, "second", words),
        bar(at(0), y + 5, at(Math.min(first, total)) - at(0), 18, unsure ? "unsure" : "first", words),
        rows === null ? null : diamond(at(rows), y + 14, words),
        text(at(Math.max(total, rows ?? 0)) + 9, y + 18, barWords(feature), { class: "soft" }),
      ];
    }));
}

function barWords({ total, rows }) {
  return rows === null ? percent(total) : `${percent(total)}, rows ${percent(rows)}`;
}

function diamond(x, y, title) {
  return svg("path", { d: `M${x} ${y - 6}l6 6l-6 6l-6 -6z`, class: "dot rows" }, svg("title", {}, title));
}

function shareWords({ first, total, rows }, interacting) {
  const words = interacting ? `${percent(first)} on its own, ${percent(total)} with interactions` : percent(total);
  if (rows === null) return words;
  return `${words}; ${percent(rows)} over rows${interacting ? ", with its part in interactions" : ""}`;
}

function scatterChart(width, { title, observed, predicted: values }) {
  const height = Math.min(width, 400);
  const [low, high] = padded([...observed, ...values]);
  const upright = fittingTicks(low, high, height - 80, true);
  const box = { left: 14 + widest(upright.map((mark) => mark.label)), right: width - 12, top: 26, bottom: height - 44 };
  const [x, y] = [scale([low, high], [box.left, box.right]), scale([low, high], [box.bottom, box.top])];
  return canvas(width, height, `${title}: observed against predicted`,
    bottomAxis(fittingTicks(low, high, box.right - box.left), x, box, "observed"),
    leftAxis(upright, y, box, "predicted"),
    line(x(low), y(low), x(high), y(high), "reference"),
    dots(observed.map((value, i) => [x(value), y(values[i])]), observed.length > 400 ? "cloud fine" : "cloud"));
}

// Draws actual against nominal coverage; curves = [{ name, nominal, actual, error, style }].
function coverageChart(width, curves) {
  const height = Math.min(width, 340);
  const marks = [0, 0.25, 0.5, 0.75, 1].map((value) => ({ value, label: `${100 * value} %` }));
  const box = { left: 52, right: width - 20, top: 26, bottom: height - 44 };
  const [x, y] = [scale([0, 1], [box.left, box.right]), scale([0, 1], [box.bottom, box.top])];
  const drawn = curves.flatMap(({ name, nominal, actual, error, style }) => [
    ...nominal.map((p, i) => {
      const [low, high] = [Math.max(0, actual[i] - 2 * error[i]), Math.min(1, actual[i] + 2 * error[i])];
      return line(x(p), y(low), x(p), y(high), `whisker thin ${style}`);
    }),
    svg("path", { d: path(nominal.map((p, i) => [x(p), y(actual[i])])), class: `curve ${style}` }),
    ...nominal.map((p, i) => svg("circle", { cx: x(p), cy: y(actual[i]), r: 3.5, class: `dot ${style}` },
      svg("title", {}, `${name}: ${percent(p)} intended, ${percent(actual[i])} covered`))),
  ]);
  return canvas(width, height, "Intended coverage of intervals against the share of rows they covered",
    bottomAxis(marks, x, box, "intended coverage"), leftAxis(marks, y, box, "actual coverage"),
    line(x(0), y(0), x(1), y(1), "reference"), drawn);
}

// Draws the heights of bins of equal width, or of levels; axis: { low, high } for numbers.
function histogram(width, height, counts, axis = null, describe = "Histogram") {
  const bottom = height - (axis ? 44 : 0);
  const most = Math.max(...counts, 1);
  const step = (width - (axis ? 28 : 0)) / counts.length;
  const start = axis ? 14 : 0;
  const bars = counts.map((count, i) => {
    const tall = count > 0 ? Math.max(1.5, (count / most) * (bottom - 4)) : 0;
    return bar(start + i * step + 0.5, bottom - tall, step - Math.min(1.5, 0.25 * step), tall, "first", number(count));
  });
  const at = axis && scale([axis.low, axis.high], [start, width - 14]);
  return canvas(width, height, describe,
    axis && bottomAxis(fittingTicks(axis.low, axis.high, width - 28), at,
      { left: start, right: width - 14, top: bottom, bottom }, axis.name),
    bars);
}
