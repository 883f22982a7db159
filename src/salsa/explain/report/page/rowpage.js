// The page of one row, "why this prediction": its values beside the training range, contributions, interval, and a link.
//
// The address of a row is #row=3, the third row to start from, with the changed features as &.name=value.

const ROW_KEY = "row";

// Returns the node, and show(row, parts, example): draws the values and contributions of a row; example may be null.
function rowPage(stored, started) {
  const known = paragraph("", { class: "interval" });
  const body = el("tbody");
  const link = el("a", { class: "button", href: "#what-if" }, "Link to this row");
  const printed = el("button", { type: "button", class: "button", click: () => window.print() }, "Print");
  const whole = el("a", { class: "button whole", href: "#what-if" }, "Show the whole report");
  const head = ["Feature", "Value", "Training range", "Contribution"].map((title, i) => (
    el("th", { scope: "col", class: i === 3 ? "number" : null }, title)));
  const table = el("table", { class: "row-values" }, el("thead", {}, el("tr", {}, head)), body);
  const region = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values of this row" }, table);
  const node = el("div", { class: "row-page" }, el("h3", {}, "This row, against the training table"), known, region,
    el("div", { class: "tools" }, link, printed, whole),
    paragraph(sumWords(stored.response), { class: "note" }));

  function show(row, parts) {
    const place = started();
    const example = stored.examples[place];
    const changed = stored.features.map((_, j) => j).filter((j) => !Object.is(row[j], example.values[j] ?? NaN));
    known.textContent = `${startWords(example, changed, stored)} ${intervalWords(example, changed)}`.trim();
    link.setAttribute("href", rowAddress(place, changed, row, stored));
    const order = stored.features.map((_, j) => j).filter((j) => !stored.features[j].fixed)
      .sort((a, b) => Math.abs(parts[b]) - Math.abs(parts[a]));
    body.replaceChildren(...order.map((j) => rowOfValue(stored.features[j], row[j], parts[j])));
  }
  return { node, show };
}

function sumWords({ link, scale }) {
  if (link === "identity") return "Contributions are exact Shapley values: with the mean prediction they add up to this prediction.";
  return `Contributions are exact Shapley values on the scale of the model, the ${scale}: with its mean they add up to its value here.`;
}

function rowOfValue(feature, value, part) {
  const outside = value < feature.low || value > feature.high;
  return el("tr", {},
    el("th", { scope: "row" }, feature.name),
    el("td", {}, valueName(feature, value), outside ? el("span", { class: "tag" }, "outside the range") : null),
    el("td", {}, trainingRange(feature, value)),
    el("td", { class: "number" }, signed(part)));
}

// Returns the range of a number in the training table with the place of this value, or how many levels there were.
function trainingRange(feature, value) {
  const { low, high, levels, part } = feature;
  if (levels) return `one of ${levels.length} levels`;
  if (part && part !== "trend") return "none: it repeats";
  const words = `${valueName(feature, low)} – ${valueName(feature, high)}`;
  if (Number.isNaN(value) || !(high > low)) return words;
  const x = 5 + 90 * Math.min(1.04, Math.max(-0.04, (value - low) / (high - low)));
  return [words, svg("svg", { class: "place", viewBox: "0 0 100 12", width: 100, height: 12, "aria-hidden": "true" },
    line(5, 6, 95, 6, "whisker"), svg("circle", { cx: x, cy: 6, r: 4.5, class: "dot strong" }))];
}

function startWords({ name }, changed, { features }) {
  const others = changed.length > 3 ? `${changed.length} features` : changed.map((j) => features[j].name).join(", ");
  return `${name[0].toUpperCase()}${name.slice(1)}${changed.length ? `, with ${others} changed` : ""}.`;
}

function intervalWords({ interval, set }, changed) {
  if (!interval && !set) return "";
  if (changed.length) return "Its interval is for the values before the change.";
  const level = `90${THIN}%`;
  if (set) return `Set of classes that holds the true one with ${level}: ${set.length ? set.join(", ") : "none"}.`;
  const [low, high] = interval.map((end) => (end === null ? "unlimited" : number(end)));
  return `${level} interval for a new row with these values: ${low} to ${high}.`;
}

function rowAddress(place, changed, row, { features }) {
  const words = new URLSearchParams({ [ROW_KEY]: String(place) });
  changed.forEach((j) => words.append(`.${features[j].name}`, addressValue(features[j], row[j])));
  return `#${words}`;
}

function addressValue({ levels, step = 1 }, value) {
  if (Number.isNaN(value)) return MISSING;
  return levels ? levels[Math.round(value / step)] : String(value);
}

// Returns { place, values } of the row that an address names; null for other addresses, and for rows that are not here.
function rowOfAddress(hash, { features, examples }) {
  const words = new URLSearchParams(hash.slice(1));
  const number = words.get(ROW_KEY) ?? "";
  const place = Number(number);
  if (!/^\d+$/.test(number) || !examples[place]) return null;
  const values = features.map((feature, j) => {
    const text = words.get(`.${feature.name}`);
    return text === null ? examples[place].values[j] : valueOfAddress(feature, text, examples[place].values[j]);
  });
  return { place, values };
}

function valueOfAddress({ levels, step = 1 }, text, otherwise) {
  if (levels && levels.includes(text)) return levels.indexOf(text) * step;
  if (text === MISSING) return null;
  return !levels && text !== "" && Number.isFinite(Number(text)) ? Number(text) : otherwise;
}

// Shows the row of the address alone, on a page that says why; other addresses show the whole report.
function followAddress(stored, start) {
  const heading = document.getElementById("what-if-title");
  const usual = heading.textContent;
  const follow = () => {
    const found = rowOfAddress(location.hash, stored);
    document.body.classList.toggle("one-row", found !== null);
    heading.textContent = found ? "Why this prediction" : usual;
    if (found) start(found.place, found.values);
    if (found) document.querySelector("main").scrollIntoView();
  };
  window.addEventListener("hashchange", follow);
  follow();
}
