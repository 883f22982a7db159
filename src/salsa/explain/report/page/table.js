// The table of effects: a click on a heading sorts it, a search filters it by name, a row opens its picture.

const COLUMNS = [
  { key: "term", title: "Effect", start: "ascending" },
  { key: "share", title: "Share", start: "descending" },
  { key: "total", title: "Total", start: "descending" },
  { key: "rows", title: "Over rows", start: "descending" },
];

// Shares over rows are the first column of numbers if rowsLead, the last one otherwise, and left out if not known.
function effectColumns(effects, interacting, rowsLead) {
  const [term, share, total, rows] = COLUMNS;
  const known = effects.some((effect) => effect.rows !== null);
  return [term, known && rowsLead && rows, share, interacting && total, known && !rowsLead && rows].filter(Boolean);
}

function effectTable(effects, open, interacting, rowsLead) {
  const columns = effectColumns(effects, interacting, rowsLead);
  const leading = columns[1].key;
  const body = el("tbody");
  const hint = "Search a feature";
  const search = el("input", { type: "search", placeholder: hint, "aria-label": hint, input: () => update() });
  const empty = paragraph("No effect has this name.", { class: "note", hidden: true });
  let order = { key: leading, direction: "descending" };
  let chosen = null;
  const headings = columns.map((column) => heading(column, () => {
    const turned = order.direction === "ascending" ? "descending" : "ascending";
    order = { key: column.key, direction: order.key === column.key ? turned : column.start };
    update();
  }));
  const most = Math.max(...effects.map((effect) => Math.abs(effect[leading] ?? 0)), 1e-9);
  const rows = new Map(effects.map((effect) => [effect, effectRow(effect, columns, most, () => select(effect))]));

  function update() {
    const wanted = search.value.trim().toLowerCase();
    const found = sorted(effects, order).filter(({ term }) => term.toLowerCase().includes(wanted));
    body.replaceChildren(...found.map((effect) => rows.get(effect)));
    empty.hidden = found.length > 0;
    headings.forEach((th, i) => th.setAttribute("aria-sort", columns[i].key === order.key ? order.direction : "none"));
  }

  function select(effect, scroll = true) {
    if (chosen) markRow(rows.get(chosen), false);
    markRow(rows.get((chosen = effect)), true);
    open(effect, scroll);
  }

  update();
  const table = el("table", { class: columns.length > 3 ? "effects four" : "effects" }, el("thead", {}, el("tr", {}, headings)), body);
  const holder = el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Effects" }, table);
  return { node: el("div", { class: "searched" }, search, holder, empty), select };
}

function sorted(effects, { key, direction }) {
  const sign = direction === "ascending" ? 1 : -1;
  const size = (effect) => Math.abs(effect[key] ?? 0);
  const compare = key === "term" ? (a, b) => a.term.localeCompare(b.term) : (a, b) => size(a) - size(b);
  return effects.toSorted((a, b) => sign * compare(a, b));
}

function heading({ title, key }, click) {
  const arrow = el("span", { class: "arrow", "aria-hidden": "true" });
  const button = el("button", { type: "button", click }, title, arrow);
  return el("th", { scope: "col", class: key === "term" ? null : "number" }, button);
}

function effectRow(effect, columns, most, click) {
  const { term, unsure } = effect;
  const button = el("button", { type: "button", class: "open", title: term, "aria-pressed": "false" }, term);
  const tag = unsure && el("span", { class: "tag", title: "within two standard deviations of zero" }, "unsure");
  const cells = columns.slice(1).map(({ key }, i) => el("td", { class: "number" },
    i === 0 && spark(Math.max(0, effect[key] ?? 0) / most),
    el("span", {}, key === "total" && effect.total === null ? "" : percent(effect[key]))));
  return el("tr", { click }, el("th", { scope: "row" }, el("div", { class: "named" }, button, tag)), cells);
}

function markRow(row, on) {
  row.classList.toggle("chosen", on);
  row.querySelector("button").setAttribute("aria-pressed", String(on));
}
