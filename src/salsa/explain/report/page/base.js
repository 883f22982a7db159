// Elements, numbers and words. Data reaches the page as text nodes and attribute values, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const MINUS = "\u2212";
const THIN = "\u202f"; // a narrow no-break space
const MISSING = "missing";

function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(key, value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  const present = children.flat(Infinity).filter((child) => ![null, undefined, false].includes(child));
  node.append(...present.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

// Formats a number with about this many digits; very large and small numbers as 1.2×10⁹.
function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return scientific(value, digits - 1);
  const whole = size >= 1 ? Math.floor(Math.log10(size)) + 1 : 1;
  const format = { maximumSignificantDigits: Math.max(digits, whole), useGrouping: size >= 1e4 };
  return minus(value.toLocaleString("en", format));
}

function scientific(value, decimals) {
  const [mantissa, exponent] = value.toExponential(decimals).split("e");
  const raised = Array.from(String(Number(exponent)), (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)])).join("");
  return `${minus(String(Number(mantissa)))}×10${raised}`;
}

function minus(text) {
  return text.replace("-", MINUS);
}

// Formats a difference to a mean, with its sign.
function signed(value, digits = 3) {
  return (value > 0 ? "+" : "") + number(value, digits);
}

function percent(share) {
  if (share === null || !Number.isFinite(share)) return "–";
  const points = 100 * share;
  if (Math.abs(points) < 0.005) return `0${THIN}%`;
  if (Math.abs(points) < 0.1) return points > 0 ? `<${THIN}0.1${THIN}%` : `>${THIN}${MINUS}0.1${THIN}%`;
  return `${minus(points.toFixed(Math.abs(points) < 9.95 ? 1 : 0))}${THIN}%`;
}

// Decodes base64 of little-endian float64, the byte order of all machines with a browser.
function floats(text) {
  return new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
}

// Returns a figure that calls draw(width) to draw its chart again when its width changes.
function figure(caption, draw, note = null) {
  const holder = el("div", { class: "chart" });
  let drawn = 0;
  const redraw = () => {
    const width = Math.floor(holder.clientWidth);
    if (width === drawn || width === 0) return;
    drawn = width;
    holder.replaceChildren(draw(width));
  };
  new ResizeObserver(redraw).observe(holder);
  return el("figure", {}, caption && el("figcaption", {}, caption), holder, note && el("p", { class: "note" }, note));
}

function legend(...entries) {
  return el("p", { class: "legend" }, entries.map(([shape, text]) => el("span", {}, el("i", { class: shape }), text)));
}

function bullets(texts) {
  return texts.length ? el("ul", { class: "notes" }, texts.map((words) => el("li", {}, words))) : null;
}

function paragraph(text, attributes = {}) {
  return el("p", attributes, text);
}
