// The matrix of variance shares of pairs: the lower triangle, with the shares of single features on the diagonal.

const SMALLEST_CELL = 15;
const LARGEST_CELL = 44;
const SMALLEST_LETTERS = 9;
const PALE_BELOW = 0.01; // a square of full strength has at least this share of the variance

function shownInMatrix(width, names) {
  const side = Math.min(0.34 * width, 12 + widest(names));
  return { side, count: Math.max(2, Math.min(names.length, Math.floor((width - side - 8) / SMALLEST_CELL))) };
}

// Formats a share in percent for a cell; shares below 0.05 % get no text.
function points(share) {
  return share < 0.0005 ? "" : (100 * share).toFixed(share < 0.0995 ? 1 : 0);
}

// Draws shares[i][k], k <= i, of the listed features, strongest first.
function matrixChart(width, { names, shares }, readout, choose) {
  const { side, count } = shownInMatrix(width, names);
  const cell = Math.min(LARGEST_CELL, (width - side - 8) / count);
  const foot = Math.min(130, 12 + widest(names.slice(0, count)));
  const bottom = 6 + count * cell;
  const most = Math.max(PALE_BELOW, ...shares.slice(0, count).flatMap((row, i) => row.slice(0, i)));
  const mostAlone = Math.max(PALE_BELOW, ...shares.slice(0, count).map((row, i) => row[i]));
  const strength = (share, i, k) => Math.sqrt(Math.max(0, share) / (i === k ? mostAlone : most));
  const squares = shares.slice(0, count).flatMap((row, i) => row.slice(0, i + 1).map((share, k) => {
    const opacity = (0.05 + (i === k ? 0.55 : 0.95) * strength(share, i, k)).toFixed(3);
    return svg("rect", {
      x: side + k * cell + 1, y: 6 + i * cell + 1, width: cell - 2, height: cell - 2, rx: 2,
      class: i === k ? "own" : "pair", "fill-opacity": opacity,
    });
  }));
  const words = shares.slice(0, count).map((row, i) => row.slice(0, i + 1).map(points));
  const size = Math.min(12.5, (12.5 * (cell - 4)) / widest(words.flat(), true));
  const numbers = size < SMALLEST_LETTERS ? [] : words.flatMap((row, i) => row.map((found, k) => (
    text(side + (k + 0.5) * cell, 6 + (i + 0.5) * cell + 4, found, {
      "text-anchor": "middle", style: `font-size: ${size.toFixed(1)}px`,
      class: i !== k && strength(shares[i][k], i, k) > 0.7 ? "on-first" : null,
    }))));
  const labels = names.slice(0, count).flatMap((name, i) => {
    const turned = `translate(${(side + (i + 0.5) * cell + 4).toFixed(1)} ${bottom + 8}) rotate(-90)`;
    return [
      label(side - 8, 6 + (i + 0.5) * cell + 4, name, side - 10, { "text-anchor": "end" }),
      label(0, 0, name, foot - 6, { "text-anchor": "end", transform: turned }),
    ];
  });
  const describe = `Interactions of the ${count} strongest features`;
  const chart = canvas(width, bottom + foot + 8, describe, squares, numbers, labels);
  const locate = (px, py) => [Math.floor((px - side) / cell), count - 1 - Math.floor((py - 6) / cell)];
  const row = (k) => count - 1 - k; // the arrow key up increases k, rows are counted downwards
  const inside = (i, k) => i <= row(k);
  const sentence = (i, k) => inside(i, k) && (i === row(k)
    ? `${names[i]} on its own: ${percent(shares[i][i])} of the variance`
    : `${names[i]} × ${names[row(k)]}: ${percent(shares[row(k)][i])} of the variance`);
  explore(chart, count, count, locate, (i, k) => [side + i * cell, 6 + row(k) * cell, cell, cell], sentence, readout,
    (i, k) => choose(i, row(k)));
  return chart;
}

// Lists the strongest pairs by name; each name opens the picture of its pair.
function pairList({ strongest }, choose) {
  const most = Math.max(...strongest.map(({ share }) => share));
  const entry = ({ term, features, share }) => el("li", {},
    el("button", { type: "button", class: "open", title: term, click: () => choose(features) }, term),
    spark(share / most),
    el("span", { class: "number" }, percent(share)));
  return el("div", {}, el("h3", {}, "Strongest pairs"), el("ul", { class: "pairs" }, strongest.map(entry)));
}
