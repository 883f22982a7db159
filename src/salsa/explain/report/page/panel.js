// The picture of one effect, with a switch between a pair's interaction and its whole joint effect.
function effectPanel(effects, name) {
  const node = el("div", { class: "panel", "aria-live": "polite" });
  function open(effect, scroll) {
    node.replaceChildren(...panelContent(effect, effects, name));
    if (scroll && window.matchMedia("(max-width: 899px)").matches) node.scrollIntoView({ block: "nearest" });
  }
  return { node, open };
}

function panelContent(effect, effects, name) {
  const title = el("h3", { title: effect.term }, effect.term);
  if (!effect.axes) return [title, paragraph(effect.reason, { class: "note" })];
  const [first, second] = effect.axes;
  const hint = "Point at the picture, or use the arrow keys, to read values.";
  const isPlain = isPairTable(effect) || (first.labels && !second); // all values are written or drawn with their names
  const readout = makeReadout(isPlain ? "" : hint);
  const picture = el("div");
  const draw = (shown) => {
    const chart = figure(null, (width) => effectChart(width, shown, readout, name));
    picture.replaceChildren(chart, isPairTable(shown) ? "" : colourKey(shown));
  };
  draw(effect);
  const words = paragraph(effectSentence(effect), { class: "note" });
  return [title, words, second ? jointSwitch(effect, effects, draw) : "", picture, readout];
}

function effectSentence({ axes, share, sd, total, rows, unsure }) {
  const over = rows === null ? "" : ` Over rows: ${percent(rows)}.`;
  if (axes.length === 2) return `Joint effect beyond both main effects: ${percent(share)} of the variance.${over}`;
  const band = sd ? ` ${axes[0].labels || isFew(axes[0]) ? "Bars" : "Band"}: ± 2 standard deviations.` : "";
  const doubt = unsure ? " Zero is inside for most rows: the effect may be zero." : "";
  if (percent(share) === percent(total)) return `${percent(share)} of the variance.${over}${band}${doubt}`;
  return `On its own ${percent(share)} of the variance, ${percent(total)} with interactions.${over}${band}${doubt}`;
}

function jointSwitch(effect, effects, draw) {
  const single = ({ features, axes }, j) => axes && features.length === 1 && features[0] === j;
  const mains = effect.features.map((j) => effects.find((other) => single(other, j)));
  if (mains.some((main) => !main)) return "";
  const joint = { ...effect, sd: null, values: effect.values.map((value, at) => {
    const place = [Math.floor(at / effect.axes[1].points.length), at % effect.axes[1].points.length];
    return value + mains.reduce((sum, main, side) => sum + mainAt(main, effect.axes[side], place[side]), 0);
  }) };
  const name = `view-${readouts}`;
  const choice = (words, shown, checked) => (
    el("label", {}, el("input", { type: "radio", name, checked, change: () => draw(shown) }), words));
  return el("div", { class: "choices", role: "radiogroup", "aria-label": "What the picture shows" },
    choice("interaction alone", effect, true), choice("with both main effects", joint, false));
}

// Interpolates a main effect at point i of another axis of the same feature.
function mainAt({ axes: [own], values }, axis, i) {
  const value = axis.points[i];
  if (own.labels || value === null) return values[own.points.indexOf(value)] ?? 0;
  const known = own.points.filter((point) => point !== null);
  const right = Math.min(Math.max(known.findIndex((point) => point >= value), 1), known.length - 1);
  if (known.length < 2) return values[0];
  const share = (value - known[right - 1]) / (known[right] - known[right - 1]);
  return values[right - 1] + share * (values[right] - values[right - 1]);
}
