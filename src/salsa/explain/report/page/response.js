// The answer of the what-if panel: the prediction in the units of the target, or the probabilities of the classes.

const MOST_PROBABILITIES = 12;

const LINKS = {
  identity: (f) => f,
  log: (f) => Math.exp(Math.max(-300, Math.min(300, f))),
  logistic: (f) => 1 / (1 + Math.exp(-f)),
};

const INVERSES = { log: Math.exp, log1p: Math.expm1, sqrt: (z) => Math.max(z, 0) ** 2 };

// Returns the mean of the target where the function, learned on a transform of the target, is f: smearing.
function smeared(transform, stored) {
  const residual = floats(stored);
  return (f) => residual.reduce((sum, r) => sum + INVERSES[transform](f + r), 0) / residual.length;
}

function softmax(values) {
  const top = Math.max(...values);
  const raised = values.map((f) => Math.exp(f - top));
  const sum = raised.reduce((a, b) => a + b, 0);
  return raised.map((value) => value / sum);
}

// Returns the headline, the lines below it, the names of both ends of the waterfall, and functions of f:
// of(f, columns) -> the response (a number, or the probabilities of all classes), show(f, columns).
function responseOf({ link, name, scale: onScale, labels, output: own, coefs, offsets, transform, residual }, model) {
  const output = el("output", { class: "prediction", "aria-live": "polite" });
  const more = el("div", { class: "probabilities" });
  const classes = coefs?.map((coef, k) => ({ ...model, coef: floats(coef), offset: offsets[k] }));
  const respond = transform ? smeared(transform, residual) : LINKS[link];
  const of = (f, columns) => (classes ? softmax(classes.map((one) => predicted(one, columns))) : respond(f));
  const show = (f, columns) => {
    const response = of(f, columns);
    const shown = classes ? response[own] : response;
    output.textContent = labels.length ? percent(shown) : number(shown, 5);
    output.dataset.value = f;
    output.dataset.response = JSON.stringify(response);
    more.replaceChildren(...(link === "identity" ? [] : [scaleLine(onScale, f)]),
      ...(classes ? [probabilityBars(labels, response, own)] : []));
  };
  const headline = el("div", { class: "headline" }, el("span", {}, name), output);
  const ends = link === "identity" ? ["mean prediction", "this prediction"] : ["mean", "these values"];
  return { headline, more, ends, of, show };
}

function scaleLine(name, f) {
  return paragraph(`${name[0].toUpperCase()}${name.slice(1)}: ${number(f)}`, { class: "note" });
}

// Lists the classes by probability; the class that the page is about is always among them.
function probabilityBars(labels, p, own) {
  const ranked = labels.map((name, k) => ({ name, k, p: p[k] })).sort((a, b) => b.p - a.p);
  const shown = ranked.filter(({ k }, place) => place < MOST_PROBABILITIES || k === own);
  return el("ul", { class: "pairs", "aria-label": "Probabilities of the classes" }, shown.map(({ name, k, p: share }) => (
    el("li", {}, el("span", { class: k === own ? "cut own-class" : "cut", title: name }, name), spark(share),
      el("span", { class: "number" }, percent(share))))));
}
