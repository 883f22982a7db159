// Explanations of an additive kernel: Shapley values, and covariances under the product of the features' marginals.
#pragma once

#include "esp.hpp"

namespace salsa::SALSA_ISA {

// e_m is linear in every s_j, so that the Shapley value of feature j is the integral over t in [0, 1] of
//     (s_j - b_j) d/ds_j sum_m weight_m e_m   at   s(t) = b + t (s - b),
// a polynomial in t of degree d-1: exact by ceil(d/2) Gauss-Legendre nodes.
// scratch: s, and s(t) at a node (D, panel_width); e (D+1, d+1) and u (d+2) in packs.
template <bool missing>
inline void shapley_panel(const Kernel& kernel, const Rule& rule, const double* x, const double* panel, const double* mean, double* scratch,
                          double* out) {
    const int D = kernel.D;
    double *s = scratch, *at = s + Size(D) * panel_width, *e = at + Size(D) * panel_width;
    double* u = e + (D + Size(1)) * (kernel.d + Size(1)) * Pack::width;
    for (int j = 0; j < D; ++j)
        for (int c = 0; c < panel_width; c += packs * Pack::width) {
            Pack value[packs];
            scaled_base<missing>(kernel.feature[j], x, panel + c, value);
            for (int p = 0; p < packs; ++p) {
                value[p].store(s + j * panel_width + c + p * Pack::width);
                Pack(0.0).store(out + j * panel_width + c + p * Pack::width);
            }
        }
    for (int c = 0; c < panel_width; c += Pack::width)
        for (int node = 0; node < rule.nodes; ++node) {
            const Pack t(rule.node[node]), weight(rule.weight[node]);
            for (int j = 0; j < D; ++j) {
                const Pack b = Pack::load(mean + j * panel_width + c);
                fma(t, Pack::load(s + j * panel_width + c) - b, b).store(at + j * panel_width + c);
            }
            forward_pack(kernel, at + c, panel_width, e);
            backward_pack(kernel, at + c, panel_width, e, weight, u, [&](int j, Pack ds) {
                const Size place = j * Size(panel_width) + c;
                add_to(out + place, ds * (Pack::load(s + place) - Pack::load(mean + place)));
            });
        }
}

inline void shapley(const Kernel& kernel, const Rule& rule, const double* x, const double* panel, const double* mean, double* scratch,
                    double* out) {
    (kernel.missing ? shapley_panel<true> : shapley_panel<false>)(kernel, rule, x, panel, mean, scratch, out);
}

// The covariance of k(X, x) and k(X, z), of every order s of interaction. E_s[a, b] sums, over all sets S of s features, the
// products over S of product_j times e_a of x_mean and e_b of z_mean over the features outside S: over features j
//     E_s[a, b] <- E_s[a, b] + x E_s[a-1, b] + z E_s[a, b-1] + x z E_s[a-1, b-1] + p E_{s-1}[a, b].
// The covariance of order s is sum_{a, b} weight_{s+a} weight_{s+b} E_s[a, b]; its part with feature j is p dL/dp.
// For the product of all features, only E_s[seen - s, seen - s] is needed: E_s <- x z E_s + p E_{s-1}.
struct Covariance {
    const Moments& moments;
    const int column, D, d;
    const Size size;  // of all states, in packs
    int lowest;       // smallest order with a weight

    Covariance(const Moments& moments, int column)
        : moments(moments), column(column), D(moments.D), d(moments.d), size(covariance_states(moments) * Pack::width), lowest(0) {
        while (lowest < d && moments.weight[lowest] == 0.0) ++lowest;
    }

    struct Feature { Pack x, z, p; };
    Feature feature(int j) const {
        const Size at = j * Size(panel_width) + column;
        return {Pack(moments.x_mean[j]), Pack::load(moments.z_mean + at), Pack::load(moments.product + at)};
    }

    // body(s, side, range, first) for every s that exists after `seen` features: the a, b in range can still reach an order with a
    // weight, and E_s is a square of this side whose first pack stands at `first`.
    template <class Body>
    void for_orders(int seen, Body body) const {
        Size first = 0;
        for (int s = 0; s <= d && s <= seen; ++s) {
            const int side = means_beside(moments, s), needed = moments.product_alone ? 0 : lowest - (D - seen) - s;
            body(s, side, Range{needed > 0 ? needed : 0, seen - s < side ? seen - s : side - 1}, first);
            first += Size(side) * side * Pack::width;
        }
    }

    // E (D+1, states): before each feature, and in the end
    void forward(double* E) const {
        constexpr int w = Pack::width;
        for (Size k = 0; k < (D + Size(1)) * size; k += w) Pack(0.0).store(E + k);
        Pack(1.0).store(E);
        for (int j = 0; j < D; ++j) {
            const Feature f = feature(j);
            const Pack xz = f.x * f.z;
            for_orders(j + 1, [&](int s, int side, Range range, Size first) {
                const double* before = E + j * size + first;
                double* after = E + (j + 1) * size + first;
                const int wider = s ? means_beside(moments, s - 1) : 0;
                const double* fewer = before - Size(wider) * wider * w;  // E_{s-1}
                for (int a = range.low; a <= range.high; ++a)
                    for (int b = range.low; b <= range.high; ++b) {
                        const Size at = (Size(a) * side + b) * w, up = Size(side) * w;
                        Pack value = moments.product_alone ? xz * Pack::load(before + at) : Pack::load(before + at);
                        if (a) value = fma(f.x, Pack::load(before + at - up), value);
                        if (b) value = fma(f.z, Pack::load(before + at - w), value);
                        if (a && b) value = fma(xz, Pack::load(before + at - up - w), value);
                        if (s) value = fma(f.p, Pack::load(fewer + (Size(a) * wider + b) * w), value);
                        value.store(after + at);
                    }
            });
        }
    }

    // U (states) = dL/dE in the end, and the sums of every order from 3 on
    void finish(Pack g, const double* last, double* U, double* by_order) const {
        constexpr int w = Pack::width;
        for (Size k = 0; k < size; k += w) Pack(0.0).store(U + k);
        for_orders(D, [&](int s, int side, Range range, Size first) {
            for (int a = range.low; a <= range.high && s >= 3; ++a)
                for (int b = range.low; b <= range.high; ++b) {
                    const Size at = first + (Size(a) * side + b) * w;
                    const double at_x = moments.weight[moments.product_alone ? d : s + a], at_z = moments.weight[moments.product_alone ? d : s + b];
                    const Pack weight = g * Pack(at_x * at_z);
                    weight.store(U + at);
                    add_to(by_order + (s - 3) * panel_width + column, weight * Pack::load(last + at));
                }
        });
    }

    // From U after the last feature to U before the first, and on the way p dL/dp of each
    void backward(const double* E, double* U, double* by_feature) const {
        constexpr int w = Pack::width;
        for (int j = D - 1; j >= 0; --j) {
            const Feature f = feature(j);
            const Pack xz = f.x * f.z;
            Pack dp(0.0);
            for_orders(j, [&](int s, int side, Range range, Size first) {
                double* u = U + first;
                const double *before = E + j * size + first, *more = u + Size(side) * side * w;  // U_{s+1}
                const int narrower = s < d ? means_beside(moments, s + 1) : 0;
                for (int a = range.low; a <= range.high; ++a)
                    for (int b = range.low; b <= range.high; ++b) {
                        const Size at = (Size(a) * side + b) * w, down = Size(side) * w;
                        Pack value = moments.product_alone ? xz * Pack::load(u + at) : Pack::load(u + at);
                        if (a + 1 < side) value = fma(f.x, Pack::load(u + at + down), value);
                        if (b + 1 < side) value = fma(f.z, Pack::load(u + at + w), value);
                        if (a + 1 < side && b + 1 < side) value = fma(xz, Pack::load(u + at + down + w), value);
                        if (a < narrower && b < narrower) {
                            const Pack next = Pack::load(more + (Size(a) * narrower + b) * w);
                            dp = fma(next, Pack::load(before + at), dp);
                            value = fma(f.p, next, value);
                        }
                        value.store(u + at);
                    }
            });
            add_to(by_feature + j * panel_width + column, dp * f.p);
        }
    }
};

// scratch: E (D+1, states), U (states), in packs
inline void covariance(const Moments& moments, const double* g, double* scratch, double* by_order, double* by_feature) {
    for (int c = 0; c < panel_width; c += Pack::width) {
        const Covariance covariance(moments, c);
        double *last = scratch + moments.D * covariance.size, *U = last + covariance.size;
        covariance.forward(scratch);
        covariance.finish(Pack::load(g + c), last, U, by_order);
        covariance.backward(scratch, U, by_feature);
    }
}

}  // namespace salsa::SALSA_ISA
