// The table of effects: a click on a heading sorts it, a search filters it by name, a row opens its picture.

const COLUMNS = [
  { key: "term", title: "Effect", start: "ascending" },
  { key: "share", title: "Share", start: "descending" },
  { key: "total", title: "Total", start: "descending" },
];

function effectTable(effects, open, interacting) {
  const columns = COLUMNS.filter(({ key }) => interacting || key !== "total");
  const body = el("tbody");
  const hint = "Search a feature";
  const search = el("input", { type: "search", placeholder: hint, "aria-label": hint, input: () => update() });
  const empty = paragraph("No effect has this name.", { class: "note", hidden: true });
  let order = { key: "share", direction: "descending" };
  let chosen = null;
  const headings = columns.map((column) => heading(column, () => {
    const turned = order.direction === "ascending" ? "descending" : "ascending";
    order = { key: column.key, direction: order.key === column.key ? turned : column.start };
    update();
  }));
  const most = Math.max(...effects.map(({ share }) => share ?? 0), 1e-9);
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
  const table = el("table", { class: "effects" }, el("thead", {}, el("tr", {}, headings)), body);
  const holder = el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Effects" }, table);
  return { node: el("div", { class: "searched" }, search, holder, empty), select };
}

function sorted(effects, { key, direction }) {
  const sign = direction === "ascending" ? 1 : -1;
  const compare = key === "term" ? (a, b) => a.term.localeCompare(b.term) : (a, b) => (a[key] ?? -1) - (b[key] ?? -1);
  return effects.toSorted((a, b) => sign * compare(a, b));
}

function heading({ title, key }, click) {
  const arrow = el("span", { class: "arrow", "aria-hidden": "true" });
  const button = el("button", { type: "button", click }, title, arrow);
  return el("th", { scope: "col", class: key === "term" ? null : "number" }, button);
}

function effectRow({ term, share, total, unsure }, columns, most, click) {
  const button = el("button", { type: "button", class: "open", title: term, "aria-pressed": "false" }, term);
  const tag = unsure && el("span", { class: "tag", title: "within two standard deviations of zero" }, "unsure");
  return el("tr", { click }, el("th", { scope: "row" }, el("div", { class: "named" }, button, tag)),
    el("td", { class: "number" }, spark((share ?? 0) / most), el("span", {}, percent(share))),
    columns.length > 2 && el("td", { class: "number" }, total === null ? "" : percent(total)));
}

function markRow(row, on) {
  row.classList.toggle("chosen", on);
  row.querySelector("button").setAttribute("aria-pressed", String(on));
}
