// Reading values of a chart by mouse, finger or arrow keys; a line of text below the chart shows the value.

// locate(x, y) -> [i, k]; frame(i, k) -> [x, y, width, height] to outline; words(i, k); choose(i, k) on click or Enter.
function explore(chart, columns, rows, locate, frame, words, readout, choose = null) {
  const outline = svg("rect", { class: "outline", visibility: "hidden" });
  let place = null;
  const show = (i, k) => {
    if (!(i >= 0 && i < columns && k >= 0 && k < rows) || !words(i, k)) return;
    place = [i, k];
    const [x, y, width, height] = frame(i, k);
    filled(outline, { x, y, width: Math.max(width, 1), height: Math.max(height, 1), visibility: "visible" }, []);
    readout.textContent = words(i, k);
  };
  const point = (event) => {
    const { left, top, width, height } = chart.getBoundingClientRect();
    const { width: w, height: h } = chart.viewBox.baseVal;
    show(...locate(((event.clientX - left) / width) * w, ((event.clientY - top) / height) * h));
  };
  const press = (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.key === "Enter" && place && choose) choose(...place);
    if (!move) return;
    event.preventDefault();
    if (place) show(place[0] + move[0], place[1] + move[1]);
    else show(0, 0);
  };
  chart.append(outline);
  const listeners = { pointermove: point, pointerdown: point, keydown: press };
  filled(chart, { tabindex: 0, class: "explored", "aria-describedby": readout.id, ...listeners }, []);
  if (choose) chart.addEventListener("click", (event) => { point(event); if (place) choose(...place); });
}

let readouts = 0;
function makeReadout(hint) {
  readouts += 1;
  return el("p", { class: "readout", id: `readout-${readouts}`, "aria-live": "polite" }, hint);
}

function nearest(places, p) {
  return places.reduce((best, place, i) => (Math.abs(place - p) < Math.abs(places[best] - p) ? i : best), 0);
}
