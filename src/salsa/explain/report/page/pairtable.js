// The effect of a pair of features with two values each: a small table, which needs no colours and no pointing.

const TABLE_VALUES = 2;

function isPairTable({ axes }) {
  return axes.length === 2 && axes.every((axis) => observed(axis).length <= TABLE_VALUES);
}

function pairTable(effect, name) {
  const [down, across] = effect.axes;
  const most = extreme(effect);
  const values = (axis) => axis.points.map((_, i) => i);
  const heading = (axis, i, scope) => el("th", { scope, class: scope === "col" ? "number" : null },
    `${axis.name} = ${pointName(axis, i)}`);
  const cell = (i, k) => {
    const place = i * across.points.length + k;
    const value = effect.values[place];
    const reach = effect.sd ? el("span", {}, `± ${number(2 * effect.sd[place], 2)}`) : null;
    return el("td", { class: "number confused", style: cellTone(value, most) }, el("b", {}, signed(value)), reach);
  };
  return el("table", { class: "confusion two-valued" },
    el("caption", {}, `${name[0].toUpperCase()}${name.slice(1)}${effect.sd ? ", ± 2 standard deviations" : ""}`),
    el("thead", {}, el("tr", {}, el("td"), values(across).map((k) => heading(across, k, "col")))),
    el("tbody", {}, values(down).map((i) => (
      el("tr", {}, heading(down, i, "row"), values(across).map((k) => cell(i, k)))))));
}

function cellTone(value, most) {
  const strength = most > 0 ? Math.round((45 * Math.abs(value)) / most) : 0;
  return `--strength: ${strength}%; --tone: var(--${value < 0 ? "warm" : "first"})`;
}
