// Elementary symmetric polynomials of base kernels, pack by pack: forward recursion and its adjoint.
//
// Forward, over features j = 1..D:   e_m <- e_m + s_j e_{m-1},  s_j = a_j k_j(x_j, z_j)      (m descending)
// All numbers are non-negative and only added and multiplied: the relative error is a few rounding units for any D and d.
#pragma once

#include "product.hpp"

namespace salsa::SALSA_ISA {

static_assert(panel_width % (packs * Pack::width) == 0, "a panel is a whole number of tiles");

// s (packs,): a_j k_j(x_j, z_j) for the points of the tile; `missing`: whether any feature has missing values
template <bool missing>
inline void scaled_base(const Feature& f, const double* x, const double* panel, Pack (&s)[packs]) {
    const double *at = x + f.column, *z = panel + f.column * panel_width;
    if constexpr (missing)
        if (f.missing && at[0] != at[0]) {
            for (int p = 0; p < packs; ++p) s[p] = Pack(f.relevance) * Pack::load(z + panel_width + p * Pack::width);
            return;
        }
    Bases::with(f.base, [&](auto base) {
        for (int p = 0; p < packs; ++p)
            s[p] = Pack(f.relevance) * base.value(f, Pack(at[0]) - Pack::load(z + p * Pack::width));
    });
    if constexpr (missing)
        if (f.missing)
            for (int p = 0; p < packs; ++p) s[p] = where_nan(Pack::load(z + p * Pack::width), Pack(f.relevance) * Pack(at[1]), s[p]);
}

// k_j(x_j, z_j) and its derivative with respect to log h_j, for one pack of points
template <bool missing>
inline void base_and_slope(const Feature& f, const double* x, const double* panel, Pack& value, Pack& slope) {
    const double *at = x + f.column, *z = panel + f.column * panel_width;
    if constexpr (missing)
        if (f.missing && at[0] != at[0]) {
            value = Pack::load(z + panel_width), slope = Pack::load(z + 2 * panel_width);
            return;
        }
    const Pack there = Pack::load(z), t = Pack(at[0]) - there;
    Bases::with(f.base, [&](auto base) {
        value = base.value(f, t);
        slope = base.slope(f, t, value);
    });
    if constexpr (missing)
        if (f.missing) value = where_nan(there, Pack(at[1]), value), slope = where_nan(there, Pack(at[2]), slope);
}

// e_0..e_d of the features begin..end-1, of which scaled(j, s) gives a_j k_j; the state stays in registers because d is known to
// the compiler.
template <int d, class P, class Scaled>
inline void recursion(int begin, int end, Scaled scaled, P (&e)[d + 1][packs]) {
    P s[packs];
    for (int m = 0; m <= d; ++m)
        for (int p = 0; p < packs; ++p) e[m][p] = P(m == 0 ? 1.0 : 0.0);
    for (int j = begin; j < end; ++j) {
        scaled(j, s);
        for (int m = d; m > 1; --m)
            for (int p = 0; p < packs; ++p) e[m][p] = fma(s[p], e[m - 1][p], e[m][p]);
        for (int p = 0; p < packs; ++p) e[1][p] = e[1][p] + s[p];
    }
}

// One row x (D,) against one tile of columns
template <int d, bool missing>
void tile_small(const Kernel& kernel, const double* x, const double* z, double* out) {
    Pack e[d + 1][packs];
    recursion<d>(0, kernel.D, [&](int j, Pack(&s)[packs]) { scaled_base<missing>(kernel.feature[j], x, z, s); }, e);
    for (int p = 0; p < packs; ++p) {
        Pack k(kernel.weight[0]);
        for (int m = 1; m <= d; ++m) k = fma(Pack(kernel.weight[m]), e[m][p], k);
        k.store(out + p * Pack::width);
    }
}

// The orders that are computed after `seen` features: they exist, and can still reach an order with a weight.
inline Range orders_after(const Kernel& kernel, int seen) {
    const int needed = kernel.lowest - (kernel.D - seen);
    return {needed > 0 ? needed : 0, seen < kernel.d ? seen : kernel.d};
}

// The sweep for any d: e (d+1, panel_width) in memory, two features at a time to halve the stores,
//     e_m <- e_m + (s_1 + s_2) e_{m-1} + s_1 s_2 e_{m-2},
// and only the orders that exist (m <= features seen) and can still reach `lowest` (m >= lowest - features to come).
// scaled(j, s) gives a_j k_j.
template <class Scaled>
inline void recursion_any(const Kernel& kernel, Scaled scaled, double* e) {
    const int D = kernel.D, d = kernel.d;
    Pack s[packs], t[packs];
    for (int m = 0; m <= d; ++m)
        for (int p = 0; p < packs; ++p) Pack(m == 0 ? 1.0 : 0.0).store(e + m * panel_width + p * Pack::width);
    for (int j = 0; j < D; j += 2) {
        const bool two = j + 1 < D;
        const int seen = two ? j + 2 : D;
        scaled(j, s);
        if (two) scaled(j + 1, t);
        const Range range = orders_after(kernel, seen);
        const int high = range.high, low = range.low > 1 ? range.low : 1;
        for (int p = 0; p < packs; ++p) {
            const Pack sum = two ? s[p] + t[p] : s[p];
            const Pack product = two ? s[p] * t[p] : Pack(0.0);
            double* row = e + p * Pack::width;
            Pack upper = Pack::load(row + (high - 1) * panel_width);
            for (int m = high; m >= low; --m) {
                const Pack lower = m > 1 ? Pack::load(row + (m - 2) * panel_width) : Pack(0.0);
                const Pack old = Pack::load(row + m * panel_width);
                fma(product, lower, fma(sum, upper, old)).store(row + m * panel_width);
                upper = lower;
            }
        }
    }
}

template <bool missing>
inline void tile_any(const Kernel& kernel, const double* x, const double* z, double* e) {
    recursion_any(kernel, [&](int j, Pack(&s)[packs]) { scaled_base<missing>(kernel.feature[j], x, z, s); }, e);
}

inline void weighted_sum(const Kernel& kernel, const double* e, double* out) {
    for (int p = 0; p < packs; ++p) {
        Pack k(kernel.weight[0]);
        for (int m = kernel.lowest > 1 ? kernel.lowest : 1; m <= kernel.d; ++m)
            k = fma(Pack(kernel.weight[m]), Pack::load(e + m * panel_width + p * Pack::width), k);
        k.store(out + p * Pack::width);
    }
}

template <bool missing>
inline void tile_values(const Kernel& kernel, const double* x, const double* z, double* scratch, double* out) {
    switch (kernel.d) {
        case 1: return tile_small<1, missing>(kernel, x, z, out);
        case 2: return tile_small<2, missing>(kernel, x, z, out);
        case 3: return tile_small<3, missing>(kernel, x, z, out);
        case 4: return tile_small<4, missing>(kernel, x, z, out);
        default:
            tile_any<missing>(kernel, x, z, scratch);
            weighted_sum(kernel, scratch, out);
    }
}

inline void values(const Kernel& kernel, const double* x, const double* panel, double* scratch, double* out) {
    if (kernel.product) return product_values(kernel, x, panel, out);
    for (int c = 0; c < panel_width; c += packs * Pack::width)
        (kernel.missing ? tile_values<true> : tile_values<false>)(kernel, x, panel + c, scratch + c, out + c);
}

inline void orders(const Kernel& kernel, const double* x, const double* panel, double* scratch, double* out, Size stride) {
    for (int c = 0; c < panel_width; c += packs * Pack::width) {
        (kernel.missing ? tile_any<true> : tile_any<false>)(kernel, x, panel + c, scratch + c);
        for (int m = 0; m <= kernel.d; ++m)
            for (int p = 0; p < packs; ++p) {
                const Size at = c + p * Pack::width;
                (Pack(kernel.weight[m]) * Pack::load(scratch + m * panel_width + at)).store(out + m * stride + at);
            }
    }
}

// Forward recursion for one pack of columns, of s (D, width), every step kept: e (D+1, d+1, width) before each feature.
inline void forward_pack(const Kernel& kernel, const double* s, Size stride, double* e) {
    constexpr int w = Pack::width;
    const int D = kernel.D, d = kernel.d;
    const Size row = (d + Size(1)) * w;
    Pack(1.0).store(e);
    for (int j = 0; j < D; ++j) {
        const Pack scaled = Pack::load(s + j * stride);
        double *before = e + j * row, *after = before + row;
        const Range m_after = orders_after(kernel, j + 1);
        if (j < d) Pack(0.0).store(before + (j + 1) * w);  // e_{j+1} of j features
        for (int m = m_after.low; m <= m_after.high; ++m) {
            const Pack old = Pack::load(before + m * w);
            (m ? fma(scaled, Pack::load(before + (m - 1) * w), old) : old).store(after + m * w);
        }
    }
}

// The adjoint recursion calls use(j, dL/ds_j) for every feature. With u_m = dL/de_m after feature j (start: u_m = g weight_m),
//     dL/ds_j = sum_m u_m e_{m-1} before j,      u_m <- u_m + s_j u_{m+1}      (j = D..1, m ascending),
// over the orders that are computed. u: (d+2, width).
template <class Use>
inline void backward_pack(const Kernel& kernel, const double* s, Size stride, const double* e, Pack g, double* u, Use use) {
    constexpr int w = Pack::width;
    const int D = kernel.D, d = kernel.d;
    const Size row = (d + Size(1)) * w;
    for (int m = 0; m <= d; ++m) (g * Pack(kernel.weight[m])).store(u + m * w);
    Pack(0.0).store(u + (d + 1) * w);
    for (int j = D - 1; j >= 0; --j) {
        const Pack scaled = Pack::load(s + j * stride);
        const double* before = e + j * row;
        const Range m_before = orders_after(kernel, j);
        Pack ds(0.0), here = Pack::load(u + m_before.low * w);
        for (int m = m_before.low; m <= m_before.high; ++m) {
            const Pack next = Pack::load(u + (m + 1) * w);
            ds = fma(next, Pack::load(before + m * w), ds);
            fma(scaled, next, here).store(u + m * w);
            here = next;
        }
        use(j, ds);
    }
}

// scratch: e (D+1, d+1) before each feature, u (d+2), and s, k, slope (D), in packs.
template <bool missing>
inline void adjoint_pack(const Kernel& kernel, const double* x, const double* z, Pack g, double* scratch, const Gradient& sum) {
    constexpr int w = Pack::width;
    const int D = kernel.D, d = kernel.d;
    const Size row = (d + Size(1)) * w;
    double *e = scratch, *u = e + (D + Size(1)) * row, *s = u + row + w, *k = s + Size(D) * w, *slope = k + Size(D) * w;
    for (int j = 0; j < D; ++j) {
        Pack value, derivative;
        base_and_slope<missing>(kernel.feature[j], x, z, value, derivative);
        const Pack scaled = Pack(kernel.feature[j].relevance) * value;
        value.store(k + j * w), derivative.store(slope + j * w), scaled.store(s + j * w);
    }
    forward_pack(kernel, s, w, e);
    for (int m = kernel.lowest; m <= d; ++m) add_to(sum.weight + m * panel_width, g * Pack::load(e + D * row + m * w));
    backward_pack(kernel, s, w, e, g, u, [&](int j, Pack ds) {
        add_to(sum.relevance + j * panel_width, ds * Pack::load(k + j * w));
        add_to(sum.log_bandwidth + j * panel_width, ds * Pack(kernel.feature[j].relevance) * Pack::load(slope + j * w));
    });
}

// The same for a low order that the compiler knows, several packs at a time: u_1..u_d stay in registers, and only
// e_1..e_{d-1} before each feature are kept. Orders below `lowest` are computed along, and not added.
// scratch: k, slope (D, packs); e (D, d-1, packs)
template <int d, bool missing>
inline void adjoint_small(const Kernel& kernel, const double* x, const double* z, const double* g, double* scratch, const Gradient& sum) {
    constexpr int w = Pack::width, step = packs * w;
    const int D = kernel.D;
    double *k = scratch, *slope = k + Size(D) * step, *kept = slope + Size(D) * step;
    Pack e[d + 1][packs], u[d + 1][packs];
    for (int p = 0; p < packs; ++p)
        for (int m = 0; m <= d; ++m) e[m][p] = Pack(m == 0 ? 1.0 : 0.0);
    for (int j = 0; j < D; ++j) {
        const Feature& f = kernel.feature[j];
        for (int p = 0; p < packs; ++p) {
            Pack value, derivative;
            base_and_slope<missing>(f, x, z + p * w, value, derivative);
            value.store(k + j * step + p * w), derivative.store(slope + j * step + p * w);
            const Pack s = Pack(f.relevance) * value;
            for (int m = 1; m < d; ++m) e[m][p].store(kept + (j * (d - 1) + m - 1) * Size(step) + p * w);
            for (int m = d; m > 0; --m) e[m][p] = fma(s, e[m - 1][p], e[m][p]);
        }
    }
    for (int p = 0; p < packs; ++p) {
        const Pack gradient = Pack::load(g + p * w);
        for (int m = 1; m <= d; ++m) u[m][p] = gradient * Pack(kernel.weight[m]);
        for (int m = kernel.lowest; m <= d; ++m) add_to(sum.weight + m * panel_width + p * w, gradient * e[m][p]);
    }
    for (int j = D - 1; j >= 0; --j) {
        const Pack relevance(kernel.feature[j].relevance);
        Pack by_relevance(0.0), by_bandwidth(0.0);  // over all packs: one addition in memory for each
        for (int p = 0; p < packs; ++p) {
            const Pack value = Pack::load(k + j * step + p * w);
            Pack ds = u[1][p];
            for (int m = 2; m <= d; ++m) ds = fma(u[m][p], Pack::load(kept + (j * (d - 1) + m - 2) * Size(step) + p * w), ds);
            for (int m = 1; m < d; ++m) u[m][p] = fma(relevance * value, u[m + 1][p], u[m][p]);
            by_relevance = fma(ds, value, by_relevance);
            by_bandwidth = fma(ds, Pack::load(slope + j * step + p * w), by_bandwidth);
        }
        add_to(sum.relevance + j * panel_width, by_relevance);
        add_to(sum.log_bandwidth + j * panel_width, relevance * by_bandwidth);
    }
}

template <bool missing>
inline void adjoint_tile(const Kernel& kernel, const double* x, const double* z, const double* g, double* scratch, const Gradient& sum) {
    switch (kernel.d) {
        case 1: return adjoint_small<1, missing>(kernel, x, z, g, scratch, sum);
        case 2: return adjoint_small<2, missing>(kernel, x, z, g, scratch, sum);
        case 3: return adjoint_small<3, missing>(kernel, x, z, g, scratch, sum);
        case 4: return adjoint_small<4, missing>(kernel, x, z, g, scratch, sum);
        default:
            for (int p = 0; p < packs; ++p) {
                const int c = p * Pack::width;
                adjoint_pack<missing>(kernel, x, z + c, Pack::load(g + c), scratch,
                                      {sum.relevance + c, sum.log_bandwidth + c, sum.weight + c});
            }
    }
}

template <bool missing>
inline void adjoint_panel(const Kernel& kernel, const double* x, const double* panel, const double* g, double* scratch,
                          const Gradient& sum) {
    for (int c = 0; c < panel_width; c += packs * Pack::width)
        adjoint_tile<missing>(kernel, x, panel + c, g + c, scratch, {sum.relevance + c, sum.log_bandwidth + c, sum.weight + c});
}

inline void adjoint(const Kernel& kernel, const double* x, const double* panel, const double* g, double* scratch, const Gradient& sum) {
    if (kernel.product) return product_adjoint(kernel, x, panel, g, scratch, sum);
    if (kernel.missing) adjoint_panel<true>(kernel, x, panel, g, scratch, sum);
    else adjoint_panel<false>(kernel, x, panel, g, scratch, sum);
}

inline void embed(const Feature& f, const double* x, Size n, const double* z, const double* w, Size m, double* out) {
    for (Size i = 0; i < n; ++i) {
        Pack mean(0.0), slope(0.0);
        Bases::with(f.base, [&](auto base) {
            for (Size c = 0; c < m; c += Pack::width) {
                const Pack t = Pack(x[i]) - Pack::load(z + c), weight = Pack::load(w + c);
                const Pack k = base.value(f, t);
                mean = fma(weight, k, mean);
                slope = fma(weight, base.slope(f, t, k), slope);
            }
        });
        double lanes[2][Pack::width];
        mean.store(lanes[0]), slope.store(lanes[1]);
        out[2 * i] = out[2 * i + 1] = 0.0;
        for (int l = 0; l < Pack::width; ++l) out[2 * i] += lanes[0][l], out[2 * i + 1] += lanes[1][l];
    }
}

}  // namespace salsa::SALSA_ISA
