// Builds the page from the payload.

function section(id, title, content) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), content);
}

function build(data, panels) {
  const panel = effectPanel(data.effects, data.effectName);
  const { orders, rowsLead } = data.importance;
  const table = effectTable(data.effects, panel.open, orders.length > 1, rowsLead);
  const open = (effect) => {
    document.getElementById("matters").scrollIntoView();
    table.select(effect, false);
  };
  const choose = (chosen) => {
    const key = (features) => [...new Set(features)].sort((a, b) => a - b).join();
    const effect = data.effects.find(({ features }) => key(features) === key(chosen));
    if (effect) open(effect);
  };
  const sections = [
    section("fitted", "What was fitted", fittedSection(data.fitted, data.importance)),
    section("good", "How good it is", qualitySection(data.quality, data.plain)),
    section("matters", "What matters", importanceSection(data.importance, data.effectsNote, table, panel)),
    section("interactions", "Interactions", interactionSection(data.interactions, choose)),
    section("what-if", "What if", whatIfSection(data.whatIf, panels.whatIf)),
    section("intervals", data.calibration.title ?? "Can the intervals be trusted?", calibrationSection(data.calibration)),
    section("data", "What salsa understood of the table", dataSection(data.data)),
    section("method", "How to cite, and how this was computed", citeSection(data.about)),
  ];
  if (data.effects.length) table.select(data.effects[0], false);
  const header = el("header", {}, paragraph("salsa report", { class: "kicker" }), el("h1", {}, data.title),
    paragraph(data.byline, { class: "byline" }));
  return [header, ...sections];
}

function contents(sections) {
  const entry = (node) => el("a", { href: `#${node.id}` }, node.querySelector("h2").textContent);
  return el("ol", {}, sections.map((node) => el("li", {}, entry(node))));
}

// Marks the entry of the section that is being read.
function followReading(nav, sections) {
  const links = new Map([...nav.querySelectorAll("a")].map((link) => [link.getAttribute("href").slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    const seen = entries.filter(({ isIntersecting }) => isIntersecting).at(0);
    if (!seen) return;
    links.forEach((link) => link.removeAttribute("aria-current"));
    const link = links.get(seen.target.id);
    link.setAttribute("aria-current", "true");
    nav.scrollLeft = link.offsetLeft - 24; // on a phone the contents are one line that scrolls
  }, { rootMargin: "-15% 0px -75% 0px" });
  sections.forEach((node) => watcher.observe(node));
}

const payload = JSON.parse(document.getElementById("payload").textContent);
document.title = `${payload.title} – salsa report`;
const report = document.getElementById("report");
const stored = payload.whatIf?.model; // two models have no panel
const whatIfPanel = stored && whatIf(stored);
report.append(...(payload.comparison ? buildComparison(payload) : build(payload, { whatIf: whatIfPanel })));
const sections = [...report.querySelectorAll("section")];
const nav = document.getElementById("contents");
nav.append(contents(sections));
followReading(nav, sections);
// Charts are drawn in the first frame, which moves the target of the address: scroll to it afterwards.
const aim = () => document.getElementById(location.hash.slice(1))?.scrollIntoView();
requestAnimationFrame(() => requestAnimationFrame(aim));
if (stored) followAddress(stored, whatIfPanel.start);
