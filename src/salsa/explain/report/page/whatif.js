// The what-if panel: one control per feature. The page predicts from the stored model after every change.

const FIRST_CONTROLS = 12;
const MOST_STEPS = 200;

function whatIf(stored) {
  const model = decodeModel(stored);
  const columns = columnsOf(model, () => null);
  const row = new Float64Array(model.width);
  const mean = predicted(model, columnsOf(model, ({ background }) => background));
  const answer = responseOf(stored.response, model);
  const warning = paragraph("", { class: "note", hidden: true });
  const holder = el("div", { class: "chart waterfall" });
  let waiting = false;

  function set(j, value) {
    row[j] = value;
    model.terms.forEach(({ features }, t) => features.forEach((feature, k) => {
      if (feature.place === j) columns[t][k] = factors(feature, value);
    }));
  }

  function refresh() {
    waiting = false;
    const prediction = predicted(model, columns);
    const parts = contributions(model, columns);
    answer.show(prediction, columns);
    const beyond = stored.features.filter(({ low, high }, j) => row[j] < low || row[j] > high).map(({ name }) => name);
    warning.hidden = beyond.length === 0;
    warning.textContent = `Outside the range of the training data (unreliable): ${beyond.join(", ")}.`;
    const named = stored.features.map((feature, j) => (
      { name: `${feature.name} = ${valueName(feature, row[j])}`, value: parts[j] }));
    holder.dataset.contributions = JSON.stringify([...parts]);
    holder.replaceChildren(waterfall(Math.max(280, Math.floor(holder.clientWidth)), named, mean, prediction,
      answer.ends));
    page.show(row, parts);
  }

  function soon() {
    if (!waiting) requestAnimationFrame(refresh);
    waiting = true;
  }

  const controls = stored.features.map((feature, j) => control(feature, (value) => { set(j, value); soon(); }));
  const start = (place, values = stored.examples[place].values) => {
    examples.value = String(place);
    values.forEach((value, j) => { set(j, value ?? NaN); controls[j].show(value ?? NaN); });
    soon();
  };
  const examples = el("select", { "aria-label": "Start from", change: () => start(Number(examples.value)) },
    stored.examples.map(({ name }, i) => el("option", { value: i }, name)));
  const page = rowPage(stored, () => Number(examples.value));
  start(0);
  new ResizeObserver(soon).observe(holder);
  window.salsaReport = { explain: (values) => explainRow(model, values, answer), mean };

  const nodes = controls.map(({ node }) => node).filter((_, j) => !stored.features[j].fixed);
  const rest = nodes.slice(FIRST_CONTROLS);
  const panel = el("div", { class: "whatif" },
    el("div", { class: "answer" }, answer.headline, answer.more, warning, holder),
    el("div", { class: "controls" },
      el("label", { class: "start" }, el("span", {}, "Start from"), examples),
      nodes.slice(0, FIRST_CONTROLS),
      rest.length ? el("details", {}, el("summary", {}, `${rest.length} more features, of less importance`), rest) : null));
  return { nodes: [panel, page.node], start };
}

// Returns prediction and contributions of a row of used features, null where missing; for the console and tests.
function explainRow(model, values, answer) {
  const columns = columnsOf(model, (feature) => factors(feature, values[feature.place] ?? NaN));
  const prediction = predicted(model, columns);
  return { prediction, response: answer.of(prediction, columns), contributions: [...contributions(model, columns)] };
}

function valueName(feature, value) {
  if (Number.isNaN(value)) return MISSING;
  if (feature.levels) return feature.levels[Math.round(value / (feature.step ?? 1))] ?? number(value);
  if (feature.part) return partName(feature.part, value);
  const apart = Math.log10(Math.abs(value) / (feature.high - feature.low)); // leading digits that all values share
  return number(tidy(value, feature.high - feature.low), Math.min(15, Math.max(4, Math.ceil(apart || 0) + 3)));
}

function control(feature, change) {
  return feature.levels ? levelControl(feature, change) : numberControl(feature, change);
}

function levelControl(feature, change) {
  const options = feature.levels.map((name, code) => el("option", { value: code }, name));
  if (feature.missing) options.push(el("option", { value: "" }, MISSING));
  const step = feature.step ?? 1; // between the values of neighbouring levels
  const chosen = () => (select.value === "" ? NaN : Number(select.value) * step);
  const select = el("select", { "aria-label": feature.name, change: () => change(chosen()) }, options);
  const show = (value) => { select.value = Number.isNaN(value) ? "" : String(Math.round(value / step)); };
  return { node: el("div", { class: "control" }, controlName(feature), select), show };
}

// Returns a part of a date as people write it. The page holds days since 1970 in UTC, or shares of a year or day, whose
// rounding must not show the minute or the day before.
function partName(part, value) {
  const atSecond = (seconds) => new Date(1000 * Math.round(seconds)).toISOString().slice(0, 16).replace("T", " ");
  if (part === "trend") return atSecond(86400 * value).replace(" 00:00", "");
  if (part === "hour of day") return atSecond(60 * Math.round(1440 * value)).slice(11);
  const format = { day: "numeric", month: "long", timeZone: "UTC" };
  return new Date(Date.UTC(2001, 0, 1 + Math.floor((value % 1) * 365 + 1e-6))).toLocaleDateString("en-GB", format);
}

function controlName({ name }) {
  return el("span", { class: "control-name", title: name }, name);
}

// Returns a slider with equal steps over the range of the data, and a box that takes any number.
function numberControl(feature, change) {
  const { low, high, whole } = feature;
  const steps = whole && high - low <= MOST_STEPS ? high - low : MOST_STEPS;
  const range = { type: "range", min: 0, max: Math.max(steps, 1), step: 1, disabled: !(high > low) };
  const slider = el("input", { ...range, "aria-label": feature.name });
  const box = feature.part ? el("output", {})
    : el("input", { type: "number", step: "any", "aria-label": `${feature.name}, as a number` });
  const missing = feature.missing ? el("input", { type: "checkbox" }) : null;
  let last = low;
  const show = (value) => {
    const absent = Number.isNaN(value);
    last = absent ? last : value;
    if (missing) missing.checked = absent;
    box.value = absent ? "" : feature.part ? partName(feature.part, value) : String(tidy(value, high - low));
    slider.value = String(Math.round(((last - low) / (high - low || 1)) * steps));
    slider.setAttribute("aria-valuetext", absent ? MISSING : feature.part ? box.value : number(value));
  };
  const set = (value) => { show(value); change(value); };
  const slid = () => tidy(low + ((high - low) * Number(slider.value)) / steps, high - low);
  slider.addEventListener("input", () => set(Math.min(high, Math.max(low, slid()))));
  box.addEventListener("change", () => set(Number.isFinite(box.valueAsNumber) ? box.valueAsNumber : last));
  missing?.addEventListener("change", () => set(missing.checked ? NaN : last));
  const absence = missing && el("label", { class: "absent" }, missing, MISSING);
  return { node: el("div", { class: "control" }, controlName(feature), slider, box, absence), show };
}

// Rounds to a few digits relative to the range of the data: the page predicts for the value that it shows.
function tidy(value, span) {
  if (!(span > 0)) return value;
  const unit = Math.floor(Math.log10(span)) - 3;
  const rounded = unit < 0 ? Math.round(value * 10 ** -unit) / 10 ** -unit : Math.round(value / 10 ** unit) * 10 ** unit;
  return Number.isFinite(rounded) ? rounded : value;
}
