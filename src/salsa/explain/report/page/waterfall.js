// Waterfall chart of the Shapley values of one prediction.

const MOST_CONTRIBUTIONS = 10;

// Draws the steps from the mean prediction to this prediction, largest steps first.
function waterfall(width, parts, mean, prediction, [start, end]) {
  const ranked = parts.filter(({ value }) => value !== 0).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const [shown, rest] = [ranked.slice(0, MOST_CONTRIBUTIONS), ranked.slice(MOST_CONTRIBUTIONS)];
  const others = `${rest.length} other${rest.length > 1 ? "s" : ""}`;
  if (rest.length) shown.push({ name: others, value: rest.reduce((sum, { value }) => sum + value, 0) });
  const sums = shown.reduce((list, { value }) => [...list, list.at(-1) + value], [mean]);
  const step = 28;
  const ends = widest([number(mean), number(prediction)], true);
  const side = 16 + Math.max(ends, widest(shown.map(({ value }) => signed(value))));
  const names = Math.max(widest([start, end], true), widest(shown.map(({ name }) => name))) + 16;
  const box = { left: Math.min(0.48 * width, names), right: width - side, top: 6, bottom: 6 + (shown.length + 2) * step };
  const at = scale(padded(sums, 0.02), [box.left, box.right]);
  const edge = (name, value, i) => [
    label(box.left - 10, box.top + i * step + 18, name, box.left - 12, { "text-anchor": "end", class: "strong" }),
    svg("circle", { cx: at(value), cy: box.top + i * step + 14, r: 5, class: "dot strong" }),
    text(at(value) + 9, box.top + i * step + 18, number(value), { class: "strong" }),
  ];
  const steps = shown.flatMap(({ name, value }, k) => {
    const [from, to, y] = [at(sums[k]), at(sums[k + 1]), box.top + (k + 1) * step];
    return [
      line(from, y - 9, from, y + 5, "link"),
      label(box.left - 10, y + 18, name, box.left - 12, { "text-anchor": "end" }),
      bar(Math.min(from, to), y + 5, Math.max(1.5, Math.abs(to - from)), 18, value < 0 ? "falls" : "rises",
        `${name}: ${signed(value)}`),
      text(Math.max(from, to) + 6, y + 18, signed(value), { class: "soft" }),
    ];
  });
  return canvas(width, box.bottom, `From the mean ${number(mean)} to the prediction ${number(prediction)}`,
    edge(start, mean, 0), steps, edge(end, prediction, shown.length + 1));
}
