// The page of two models: errors on the same rows, importance side by side, and effects drawn together.

const PAIR_STYLES = ["strong", "warm"];

function buildComparison({ title, byline, comparison: pair }) {
  const sections = [
    section("better", "Which one is better", [
      paragraph(pair.sentence, { class: "lead" }), plainTable("Errors on the same rows", pair.table.head, pair.table.rows),
      paragraph(pair.note, { class: "note" })]),
    section("models", "The two models", el("div", { class: "pair" }, pair.models.map(comparedModel(pair.names)))),
    section("matters", "What matters in each", comparedShares(pair)),
    section("effects", "Their effects", comparedEffects(pair)),
  ];
  const header = el("header", {}, paragraph("salsa report", { class: "kicker" }), el("h1", {}, title),
    paragraph(byline, { class: "byline" }));
  return [header, ...sections];
}

function comparedModel(names) {
  return ({ summary, facts }, i) => el("div", {}, el("h3", {}, names[i]), paragraph(summary),
    el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
}

function pairLegend(names) {
  return legend(...names.map((name, i) => [i ? "warm" : "", name]));
}

function comparedShares({ names, shares }) {
  const shown = shares.slice(0, MOST_BARS).filter((row) => Math.max(...row.shares) > 0);
  if (!shown.length) return [paragraph("Neither model uses a feature.")];
  const cells = shares.map(({ name, shares: both }) => [name, ...both.map(percent)]);
  return [
    figure("Total share of the variance of every feature", (width) => pairedBars(width, shown, names)),
    pairLegend(names),
    el("details", {}, el("summary", {}, "The shares as a table"), plainTable("Shares of both models", ["Feature", ...names], cells)),
    paragraph("Total share: all effects with the feature, if features varied independently.", { class: "note" }),
  ];
}

function pairedBars(width, rows, names) {
  const step = 40;
  const left = Math.min(0.4 * width, 16 + widest(rows.map(({ name }) => name)));
  const box = { left, right: width - 64, top: 4 };
  const most = Math.max(...rows.flatMap(({ shares }) => shares), 1e-9);
  const at = scale([0, most], [box.left, box.right]);
  return canvas(width, 8 + rows.length * step, "Total share of the variance of every feature in both models",
    rows.flatMap(({ name, shares }, i) => [
      label(left - 10, box.top + i * step + 22, name, left - 14, { "text-anchor": "end" }),
      shares.flatMap((share, k) => {
        const y = box.top + i * step + 4 + 15 * k;
        return [bar(left, y, at(share) - left, 13, k ? "falls" : "first", `${names[k]}: ${name} ${percent(share)}`),
          text(at(share) + 7, y + 11, percent(share), { class: "soft" })];
      }),
    ]));
}

function comparedEffects({ names, effects, effectName, effectsNote }) {
  const drawn = effects.map((effect) => figure(effect.term, (width) => (
    effect.axis.labels ? pairedLevels(width, effect, names, effectName) : pairedCurves(width, effect, names, effectName))));
  return [effects.length ? pairLegend(names) : null, el("div", { class: "pair" }, drawn),
    paragraph(effectsNote, { class: "note" })];
}

function reachOf({ values, sd }) {
  return values.map((_, i) => 2 * (sd ? sd[i] : 0));
}

// Draws the effect of a number in both models: a curve with its band for each.
function pairedCurves(width, { term, axis, curves }, names, name) {
  const height = 280;
  const ends = curves.flatMap((curve) => curve.values.flatMap((value, i) => [value - reachOf(curve)[i], value + reachOf(curve)[i]]));
  const [low, high] = padded([0, ...ends]);
  const upright = fittingTicks(low, high, height - 80, true);
  const box = { left: 14 + widest(upright.map((mark) => mark.label)), right: width - 12, top: 26, bottom: height - 50 };
  const [first, last] = [axis.points[0], axis.points.at(-1)];
  const [x, y] = [scale([first, last], [box.left, box.right]), scale([low, high], [box.bottom, box.top])];
  const marks = axisTicks(axis, box.right - box.left) || fittingTicks(first, last, box.right - box.left);
  const drawn = curves.map((curve, k) => {
    const reach = reachOf(curve);
    const edge = (sign) => axis.points.map((value, i) => [x(value), y(curve.values[i] + sign * reach[i])]);
    return [curve.sd && svg("path", { class: `band ${PAIR_STYLES[k]}`, d: `${path([...edge(1), ...edge(-1).reverse()])}Z` }),
      svg("path", { class: `curve ${PAIR_STYLES[k]}`, d: path(axis.points.map((value, i) => [x(value), y(curve.values[i])])) })];
  });
  return canvas(width, height, `Effect of ${term} in both models: ${spokenEnds(curves, names)}`,
    bottomAxis(marks, x, box, axis.name), leftAxis(upright, y, box, name), line(box.left, y(0), box.right, y(0), "zero"), drawn);
}

function spokenEnds(curves, names) {
  return curves.map(({ values }, k) => `${names[k]} from ${signed(values[0])} to ${signed(values.at(-1))}`).join("; ");
}

// Draws the effect of a category in both models: two dots with their bands for each level, the largest effect first.
function pairedLevels(width, { term, axis, curves }, names, name) {
  const order = axis.labels.map((_, i) => i);
  if (!axis.ordered) order.sort((a, b) => curves[0].values[b] - curves[0].values[a]);
  const shown = order.slice(0, MOST_LEVELS);
  const left = Math.min(0.4 * width, 16 + widest(shown.map((i) => axis.labels[i])));
  const step = 34;
  const box = { left, right: width - 14, top: 8, bottom: 12 + shown.length * step };
  const ends = curves.flatMap((curve) => shown.flatMap((i) => [-1, 1].map((sign) => curve.values[i] + sign * reachOf(curve)[i])));
  const [low, high] = padded([0, ...ends]);
  const at = scale([low, high], [box.left, box.right]);
  const rows = shown.flatMap((i, place) => [
    label(left - 10, box.top + place * step + 22, axis.labels[i], left - 12, { "text-anchor": "end" }),
    curves.map((curve, k) => {
      const y = box.top + place * step + 11 + 13 * k;
      const [value, reach] = [curve.values[i], reachOf(curve)[i]];
      return [line(at(value - reach), y, at(value + reach), y, `whisker ${PAIR_STYLES[k]}`),
        svg("circle", { cx: at(value), cy: y, r: 5, class: `dot ${PAIR_STYLES[k]}` },
          svg("title", {}, `${names[k]}, ${axis.labels[i]}: ${signed(value)}`))];
    }),
  ]);
  const spoken = shown.map((i) => `${axis.labels[i]} ${curves.map(({ values }) => signed(values[i])).join(" and ")}`);
  return canvas(width, box.bottom + 44, `Effect of ${term} in both models: ${spoken.join(", ")}`,
    bottomAxis(fittingTicks(low, high, box.right - box.left), at, box, name), line(at(0), box.top, at(0), box.bottom, "zero"), rows);
}
