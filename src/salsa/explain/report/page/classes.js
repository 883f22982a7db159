// Scores, confusions and curves of class probabilities.

const SET_STYLES = ["strong", "warm"];

function classPanels({ table, confusions, curves, chosen, note }) {
  return [
    el("h3", {}, "Scores of the probabilities"),
    scoreTable(table),
    note ? paragraph(note, { class: "note" }) : null,
    el("h3", {}, "True and predicted classes"),
    el("div", { class: "pair" }, confusions.map(confusionTable)),
    el("h3", {}, "Calibration, ROC and precision-recall"),
    classChooser(curves, chosen),
  ];
}

function plainTable(name, head, rows) {
  const heading = (title, i) => el("th", { scope: "col", class: i ? "number" : null }, title);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
    el("table", { class: "plain" }, el("thead", {}, el("tr", {}, head.map(heading))), el("tbody", {}, rows.map((cells) => (
      el("tr", {}, cells.map((cell, i) => (i ? el("td", { class: "number" }, cell)
        : el("th", { scope: "row" }, cell)))))))));
}

function scoreTable({ head, rows }) {
  const words = ({ value, error }) => (error ? `${number(value, 3)} ± ${number(error, 2)}` : number(value, 3));
  const cells = rows.map(({ name, cells: found }) => [name, ...found.flatMap((cell) => (
    [words(cell), number(cell.constant, 3)]))]);
  const titles = head.flatMap((title) => [title, head.length > 1 ? "class shares" : "Class shares alone"]);
  return [plainTable("Scores", ["Score", ...titles], cells), paragraph(
    "± 1 standard error. Beside each score stands the score of the class shares, which ignore all features.",
    { class: "note" })];
}

// Shows counts and shares of the true class; the colour of a cell is its share, blue where the prediction is right.
function confusionTable({ title, labels, counts, shares, note }) {
  const cell = (i, k) => el("td", { class: "number confused",
    style: `--strength: ${Math.round(70 * shares[i][k])}%; --tone: var(--${i === k ? "first" : "warm"})` },
  el("b", {}, number(counts[i][k])), el("span", {}, percent(shares[i][k])));
  const name = (words) => el("span", { class: "cut short", title: words }, words);
  const head = [el("th", { scope: "col" }, "True \\ predicted"), labels.map((words) => (
    el("th", { scope: "col", class: "number" }, name(words))))];
  return el("figure", {}, el("figcaption", {}, title),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title}: true and predicted classes` },
      el("table", { class: "confusion" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, labels.map((words, i) => (
        el("tr", {}, el("th", { scope: "row" }, name(words)), labels.map((_, k) => cell(i, k)))))))),
    paragraph(`Rows: true class; columns: predicted class. Shares are of the true class. ${note}`, { class: "note" }));
}

// Shows the curves of one class, and a choice of the class if there are several.
function classChooser(curves, chosen) {
  const holder = el("div", { class: "pair" });
  const show = (k) => holder.replaceChildren(...classFigures(curves[k]).filter(Boolean));
  const select = el("select", { "aria-label": "Class", change: () => show(Number(select.value)) },
    curves.map(({ label: name }, k) => el("option", { value: k, selected: k === chosen }, name)));
  show(chosen);
  const choice = el("label", { class: "start" }, el("span", {}, "Class"), select);
  const sets = curves[0].sets;
  return [
    curves.length > 1 ? choice : paragraph(`Probabilities of ${curves[0].label}.`, { class: "note" }),
    sets.length > 1 && legend(...sets.map(({ name }, i) => [SET_STYLES[i], name])),
    holder,
  ];
}

function classFigures({ label: name, sets }) {
  const styled = sets.map((set, i) => ({ ...set, style: SET_STYLES[i % SET_STYLES.length] }));
  const having = (key) => styled.filter((set) => set[key]).map((set) => ({ ...set[key], name: set.name, style: set.style }));
  const several = sets.length > 1;
  const each = (parts, words) => parts.map((part) => `${several ? `${part.name}: ` : ""}${words(part)}`).join(" ");
  const [reliable, rocs, recalls] = ["reliability", "roc", "recall"].map(having);
  const bars = "Points are bins of equal numbers of rows; bars: 95 % intervals.";
  return [
    reliable.length ? figure(`Calibration: probability of ${name} and how often it was the class`,
      (width) => unitChart(width, reliable.map(reliabilityMarks), ["predicted probability", "observed frequency"], true),
      `${each(reliable, (part) => part.words)} ${bars}`) : null,
    rocs.length ? figure(`ROC curve of ${name}`,
      (width) => unitChart(width, rocs.map(curveMarks), ["false positive rate", "true positive rate (recall)"], true),
      each(rocs, ({ area }) => `Area under the curve ${number(area, 3)}.`)) : null,
    recalls.length ? figure(`Precision and recall of ${name}`,
      (width) => unitChart(width, recalls.map(stepMarks), ["recall", "precision"], false, recalls.map(shareLine)),
      each(recalls, ({ mean, share }) => (
        `Average precision ${number(mean, 3)}; the class has ${percent(share)} of the rows (dashed).`))) : null,
  ];
}

// Draws marks on the unit square, with its diagonal if wanted.
function unitChart(width, marks, [across, up], diagonal, lines = []) {
  const side = Math.min(width, 380);
  const ends = [0, 0.25, 0.5, 0.75, 1].map((value) => ({ value, label: `${100 * value} %` }));
  const box = { left: 52, right: side - 20, top: 26, bottom: side - 44 };
  const [x, y] = [scale([0, 1], [box.left, box.right]), scale([0, 1], [box.bottom, box.top])];
  return canvas(side, side, `${up} against ${across}`,
    bottomAxis(ends, x, box, across), leftAxis(ends, y, box, up),
    diagonal && line(x(0), y(0), x(1), y(1), "reference"),
    lines.map((draw) => draw(x, y)), marks.map((draw) => draw(x, y)));
}

function reliabilityMarks({ name, predicted: p, observed: found, low, high, style }) {
  return (x, y) => [
    p.map((value, i) => line(x(value), y(low[i]), x(value), y(high[i]), `whisker thin ${style}`)),
    svg("path", { d: path(p.map((value, i) => [x(value), y(found[i])])), class: `curve thin ${style}` }),
    p.map((value, i) => svg("circle", { cx: x(value), cy: y(found[i]), r: 4.5, class: `dot ${style}` },
      svg("title", {}, `${name}: ${percent(value)} predicted, ${percent(found[i])} observed`))),
  ];
}

function curveMarks({ x: across, y: up, style }) {
  return (x, y) => svg("path", { d: path(across.map((value, i) => [x(value), y(up[i])])), class: `curve ${style}` });
}

// Precision belongs to the whole step up to its recall: lines between points would be too good.
function stepMarks({ x: across, y: up, style }) {
  return (x, y) => svg("path", { class: `curve ${style}`, d: path(across.flatMap((value, i) => (
    i ? [[x(across[i - 1]), y(up[i])], [x(value), y(up[i])]] : [[x(value), y(up[i])]]))) });
}

function shareLine({ share }) {
  return (x, y) => line(x(0), y(share), x(1), y(share), "reference");
}

// Lists the classes of the training rows with their numbers of rows and, if rows have weights, shares of the weights.
function classShares({ classes, weighted }) {
  const rows = classes.map(({ name, count, share }) => [name, number(count), percent(share)]);
  const head = ["Class", "Rows", weighted ? "Share of the weights" : "Share"];
  return el("figure", {}, el("figcaption", {}, "Classes of the held-out training rows"), plainTable("Classes", head, rows));
}
