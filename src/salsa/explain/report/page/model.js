// The fitted function and its Shapley values, from the stored model in double precision.
//
//   f(x) = offset + sum_i coef_i sum_m v_m e_m(s_1(i), ..., s_U(i)),   s_j(i) = a_j k_j(x_j, anchor_i)
//   phi_j = sum_i coef_i  integral over t in [0, 1] of (s_j - b_j) d/ds_j [sum_m v_m e_m]  at  s(t) = (1 - t) b + t s
//
// b_j(i) is the mean of s_j(i) over the background. The integrand is a polynomial: Gauss-Legendre is exact.

// BASES, the base kernels by name, is written by page.py from the table in kernels/base.py, which uses `decayed`.

function decayed(r, polynomial) {
  return r < 800 ? polynomial(r) * Math.exp(-r) : 0; // infinity times zero is NaN
}

function decodeModel(stored) {
  const n = stored.rows;
  const anchors = floats(stored.anchors);
  const background = floats(stored.background);
  const column = (values, j) => values.subarray(j * n, (j + 1) * n);
  const features = stored.features.map((feature, j) => ({
    base: BASES[feature.base],
    h: feature.bandwidth ?? Infinity,
    a: feature.relevance,
    points: floats(feature.points),
    masses: floats(feature.masses),
    anchors: column(anchors, j),
    background: column(background, j),
  }));
  const { weights, nodes, offset } = stored;
  const lowest = weights.findIndex((v) => v > 0);
  return { n, features, weights, nodes, offset, lowest: lowest < 0 ? 0 : lowest, coef: floats(stored.coef) };
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
function workspace(model) {
  const [U, d] = [model.features.length, model.weights.length - 1];
  const ranges = Array.from({ length: U + 1 }, (_, seen) => ordersAfter(model, seen));
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

// Returns the prediction for columns s[j] (n,) of factors; columns of means give the mean prediction.
function predicted(model, columns) {
  const work = workspace(model);
  let sum = 0;
  for (let i = 0; i < model.n; i += 1) {
    for (let j = 0; j < work.U; j += 1) work.s[j] = columns[j][i];
    sum += model.coef[i] * forward(model, work);
  }
  return model.offset + sum;
}

function contributions(model, columns) {
  const work = workspace(model);
  const total = new Float64Array(work.U);
  const step = new Float64Array(work.U);
  for (let i = 0; i < model.n; i += 1) {
    for (let j = 0; j < work.U; j += 1) step[j] = columns[j][i] - model.features[j].background[i];
    for (const [t, share] of model.nodes) {
      for (let j = 0; j < work.U; j += 1) work.s[j] = model.features[j].background[i] + t * step[j];
      forward(model, work);
      backward(model, work, share * model.coef[i], step, total);
    }
  }
  return total;
}
