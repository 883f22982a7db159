// The fitted function and its Shapley values, from the stored model in double precision.
//
//   f(x) = offset + sum_i coef_i sum_m v_m e_m(s_1(i), ..., s_U(i)),   s_j(i) = a_j k_j(x_j, anchor_i)
//   phi_j = sum_i coef_i  integral over t in [0, 1] of (s_j - b_j) d/ds_j [sum_m v_m e_m]  at  s(t) = (1 - t) b + t s
//
// A kernel of several terms has one such sum per term, with v, a_j and k_j of its own: predictions and values add up.
// b_j(i) is the mean of s_j(i) over the background. The integrand is a polynomial: Gauss-Legendre is exact.

// BASES, the base kernels by name, is written by page.py from the table in kernels/base.py, which uses `decayed`.

function decayed(r, polynomial) {
  return r < 800 ? polynomial(r) * Math.exp(-r) : 0; // infinity times zero is NaN
}

function decodeModel(stored) {
  const { rows, offset } = stored;
  const anchors = floats(stored.anchors);
  const terms = stored.terms.map((term) => decodeTerm(term, rows, anchors));
  return { n: rows, offset, coef: floats(stored.coef), width: stored.features.length, terms };
}

// Returns one term of the kernel; `place` is the place of its feature among all features of the function.
function decodeTerm({ weights, nodes, background, features }, n, anchors) {
  const column = (values, j) => values.subarray(j * n, (j + 1) * n);
  const means = floats(background);
  const lowest = weights.findIndex((v) => v > 0);
  return { weights, nodes, lowest: lowest < 0 ? 0 : lowest, features: features.map((feature, k) => ({
    place: feature.place,
    base: BASES[feature.base],
    h: feature.bandwidth ?? Infinity,
    a: feature.relevance,
    points: floats(feature.points),
    masses: floats(feature.masses),
    anchors: column(anchors, feature.place),
    background: column(means, k),
  })) };
}

// Returns, for each term, one column per feature: what `column` makes of the feature.
function columnsOf({ terms }, column) {
  return terms.map(({ features }) => features.map(column));
}

function meanSimilarity({ base, h, points, masses }, x) {
  let mean = 0;
  for (let p = 0; p < points.length; p += 1) mean += masses[p] * base(points[p] - x, h);
  return mean;
}

// Returns s_j (n,) of a value x. NaN (missing) is averaged over the distribution of its feature; k(NaN, NaN) = 1.
function factors(feature, x) {
  const { base, h, a, anchors } = feature;
  if (Number.isNaN(x)) return anchors.map((z) => a * (Number.isNaN(z) ? 1 : meanSimilarity(feature, z)));
  const toMissing = a * meanSimilarity(feature, x);
  return anchors.map((z) => (Number.isNaN(z) ? toMissing : a * base(x - z, h)));
}

// Returns the range of orders to keep after `seen` features: those that can still reach an order with a weight.
function ordersAfter({ features, weights, lowest }, seen) {
  return [Math.max(0, lowest - (features.length - seen)), Math.min(seen, weights.length - 1)];
}

// Returns the workspace for one anchor: e (U+1, d+1) before each feature, u (d+2), and the ranges of orders.
function workspace(term) {
  const [U, d] = [term.features.length, term.weights.length - 1];
  const ranges = Array.from({ length: U + 1 }, (_, seen) => ordersAfter(term, seen));
  return { U, d, ranges, e: new Float64Array((U + 1) * (d + 1)), u: new Float64Array(d + 2), s: new Float64Array(U) };
}

// Returns sum_m v_m e_m(s) by e_m <- e_m + s_j e_{m-1} over features.
function forward({ weights }, { U, d, ranges, e, s }) {
  e.fill(0);
  e[0] = 1;
  for (let j = 0; j < U; j += 1) {
    const [before, after] = [j * (d + 1), (j + 1) * (d + 1)];
    const [low, high] = ranges[j + 1];
    for (let m = low; m <= high; m += 1) e[after + m] = e[before + m] + (m > 0 ? s[j] * e[before + m - 1] : 0);
  }
  let sum = 0;
  for (let m = 0; m <= d; m += 1) sum += weights[m] * e[U * (d + 1) + m];
  return sum;
}

// Adds rate * (derivative by s_j) * step_j to total_j for all j, by the adjoint of the forward recursion.
function backward({ weights }, { U, d, ranges, e, u, s }, rate, step, total) {
  u.set(weights);
  u[d + 1] = 0;
  for (let j = U - 1; j >= 0; j -= 1) {
    const [low, high] = ranges[j];
    let derivative = 0;
    for (let m = low; m <= high; m += 1) {
      derivative += u[m + 1] * e[j * (d + 1) + m];
      u[m] += s[j] * u[m + 1];
    }
    total[j] += rate * derivative * step[j];
  }
}

// Returns the prediction for columns[term][feature] (n,) of factors; columns of means give the mean prediction.
function predicted({ n, coef, offset, terms }, columns) {
  return offset + terms.reduce((sum, term, t) => sum + termSum(term, columns[t], n, coef), 0);
}

function termSum(term, columns, n, coef) {
  const work = workspace(term);
  let sum = 0;
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < work.U; j += 1) work.s[j] = columns[j][i];
    sum += coef[i] * forward(term, work);
  }
  return sum;
}

function contributions({ n, coef, width, terms }, columns) {
  const total = new Float64Array(width);
  terms.forEach((term, t) => {
    const parts = termContributions(term, columns[t], n, coef);
    term.features.forEach(({ place }, j) => { total[place] += parts[j]; });
  });
  return total;
}

function termContributions(term, columns, n, coef) {
  const work = workspace(term);
  const total = new Float64Array(work.U);
  const step = new Float64Array(work.U);
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < work.U; j += 1) step[j] = columns[j][i] - term.features[j].background[i];
    for (const [t, share] of term.nodes) {
      for (let j = 0; j < work.U; j += 1) work.s[j] = term.features[j].background[i] + t * step[j];
      forward(term, work);
      backward(term, work, share * coef[i], step, total);
    }
  }
  return total;
}
