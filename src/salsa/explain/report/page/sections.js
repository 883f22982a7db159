// The sections of the report, in order: each function takes its part of the payload and returns the content.

const MOST_BARS = 20;

function fittedSection({ summary, facts, notes }, { interactions }) {
  const all = facts.toSpliced(2, 0, ["Interactions", interactions]);
  return [
    paragraph(summary, { class: "lead" }),
    el("dl", { class: "facts" }, all.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    bullets(notes),
  ];
}

function qualitySection({ sentence, measure, scores, searches, scatters, panels, classes, notes }, plain) {
  const rows = scores.map(({ name, explained, error, strong }) => ({ name, value: explained, error, strong }));
  const scoreWords = { name: measure.axis, describe: scoresInWords(scores, measure.name), zero: 0, also: [1] };
  return [
    plain && plainWords(plain),
    plain ? el("h3", {}, "In figures") : null,
    paragraph(sentence, { class: plain ? "" : "lead" }),
    bullets(notes),
    rows.length ? figure(measure.caption, (width) => dotChart(width, rows, scoreWords)) : null,
    classes && classPanels(classes),
    el("div", { class: "pair" },
      panels.map((part) => figure(part.title, (width) => PANELS[part.kind](width, part), part.note)),
      scatters.map((part) => figure(part.title, (width) => scatterChart(width, part), part.note)),
      searches.map(({ title, axis, rows: tried, note }) => figure(title,
        (width) => dotChart(width, tried, { name: axis, describe: title }), note))),
  ];
}

// The error in words for readers who know no statistics, and the groups of rows that were checked.
function plainWords({ statements, table, note }) {
  return [
    el("ul", { class: "statements" }, statements.map((words) => el("li", {}, words))),
    table && el("details", {}, el("summary", {}, table.title), plainTable(table.title, table.head, table.rows),
      paragraph(note, { class: "note" })),
  ];
}

function scoresInWords(scores, measure) {
  const spread = (error) => (error ? ` ± ${number(error, 2)}` : "");
  return scores.map(({ name, explained, error }) => `${name}: ${measure} ${number(explained, 3)}${spread(error)}`).join("; ");
}

function importanceSection({ sentence, meaning, values, rowsLead, cautions, orders, features }, effectsNote, table, panel) {
  if (!orders.length) return [paragraph(sentence, { class: "lead" })];
  const shown = features.slice(0, MOST_BARS);
  const many = `The ${MOST_BARS} strongest of ${features.length} features; the table has all.`;
  const more = features.length > shown.length ? many : null;
  const interacting = orders.length > 1;
  const unsure = shown.some((feature) => feature.unsure);
  const known = shown.some(({ rows }) => rows !== null);
  const origin = rowsLead ? "would come from if features were independent" : "comes from";
  return [
    paragraph(sentence, { class: "lead" }),
    paragraph(meaning, { class: "note" }),
    bullets(cautions),
    interacting && figure(`Where the variance of the ${values} ${origin}`, (width) => shareBar(width, orders)),
    interacting && legend(...orders.map(({ name, words, style }) => [style, `${name} ${words}`])),
    figure(`Share of the variance of every feature${known ? " (bars: features independent)" : ""}`, (width) => (
      importanceBars(width, shown, interacting)), more),
    (interacting || unsure || known) && legend(["first", "on its own"],
      ...(unsure ? [["unsure", "on its own, may be zero"]] : []),
      ...(interacting ? [["second", "through interactions"]] : []),
      ...(known ? [["rows", interacting ? "over rows, with its part in interactions" : "over rows"]] : [])),
    el("h3", {}, "Every effect"),
    paragraph(effectsNote, { class: "note" }),
    el("div", { class: "browser" }, table.node, panel.node),
  ];
}

function interactionSection(part, choose) {
  const { sentence, names, features, of, strongest } = part;
  if (names.length < 2) return [paragraph(sentence)];
  const readout = makeReadout("Point at a square, or use the arrow keys, to read its share of the variance.");
  const caption = paragraph("", { class: "note" });
  const draw = (width) => {
    const { count } = shownInMatrix(width, names);
    caption.textContent = count < of ? `The ${count} strongest of ${of} features are shown.` : "";
    return matrixChart(width, part, readout, (i, k) => choose([features[i], features[k]]));
  };
  const matrix = figure("Shares of the variance (%): pairs in blue, single features in grey on the diagonal", draw);
  return [
    paragraph(sentence, { class: "lead" }),
    el("div", { class: names.length > 14 ? "" : "sides" }, el("div", {}, matrix, readout, caption),
      strongest.length ? pairList(part, choose) : null),
  ];
}

function whatIfSection({ sentence }, panel) {
  return [paragraph(sentence, { class: "intro" }), panel && panel.nodes];
}

function calibrationSection({ sentence, note, curves, tables = [] }) {
  const styles = ["strong", "warm"];
  const drawn = curves.map((curve, i) => ({ ...curve, style: styles[i % styles.length] }));
  return [
    paragraph(sentence, { class: "lead" }),
    curves.length ? figure("Intended and actual coverage", (width) => coverageChart(Math.min(width, 520), drawn)) : null,
    curves.length ? legend(...drawn.map(({ name, style }) => [style, name])) : null,
    tables.length ? el("div", { class: "pair" }, tables.map(({ title, head, rows }) => (
      el("figure", {}, el("figcaption", {}, title), plainTable(title, head, rows))))) : null,
    note ? paragraph(note, { class: "note" }) : null,
  ];
}

// The columns of the table of understanding: a class, a heading, and the content of a cell.
const UNDERSTOOD = [
  ["kind", "Kind", ({ kind, used }) => [kind, used ? null : el("span", { class: "tag" }, "not used")]],
  ["example", "Example", ({ example }) => cutText(example)],
  ["number missing", "Missing", ({ missing, part }) => (part ? "" : percent(missing))],
  ["done", "What was done", ({ done }) => done],
  ["range", "Range or levels", (row) => [cutText(rangeWords(row)), smallHistogram(row)]],
];

function dataSection({ sentence, target, features }) {
  const heading = ([kind, title]) => el("th", { scope: "col", class: kind }, title);
  return [
    paragraph(sentence),
    target && (target.classes ? classShares(target) : figure("Target", (width) => (
      histogram(Math.min(width, 560), 170, target.counts, target, "Histogram of the target")))),
    el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Columns of the table" },
      el("table", { class: "data" }, el("thead", {}, el("tr", {}, heading(["", "Column"]), UNDERSTOOD.map(heading))),
        el("tbody", {}, features.map(dataRow)))),
  ];
}

function dataRow(row) {
  return el("tr", { class: row.part ? "part" : null },
    el("th", { scope: "row" }, cutText(row.name)),
    UNDERSTOOD.map(([kind, , content]) => el("td", { class: kind }, content(row))));
}

function smallHistogram({ name, counts }) {
  return counts.length ? histogram(110, 22, counts, null, `Distribution of ${name}`) : null;
}

function rangeWords({ range, levels }) {
  return levels ? levels.join(", ") : range.map((value) => number(value)).join(" – ");
}

function cutText(words) {
  return words && el("span", { class: "cut", title: words }, words);
}

function citeSection({ cite, method }) {
  return [el("blockquote", {}, cite), method.map((words) => paragraph(words))].flat();
}
