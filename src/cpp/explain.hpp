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

// The covariance of k(X, x) and l(X, z), of every order s of interaction. E_s[a, b] sums, over all sets S of s features, the
// products over S of product_j times e_a of x_mean and e_b of z_mean over the features outside S: over features j
//     E_s[a, b] <- E_s[a, b] + x E_s[a-1, b] + z E_s[a, b-1] + x z E_s[a-1, b-1] + p E_{s-1}[a, b].
// The covariance of order s is sum_{a, b} x_weight_{s+a} z_weight_{s+b} E_s[a, b]; its part with feature j is p dL/dp.
// If a kernel counts the features that it leaves out, a feature outside S keeps a with its mean, and adds 1 to a without it: x and
// 1 change places in the recursion, and the order in the end is D - a instead of s + a.
struct Covariance {
    const Moments& moments;
    const int column, D, d;
    const Size size;   // of all states, in packs
    const bool plain;  // both kernels count means: the state stays with the factor 1

    Covariance(const Moments& moments, int column)
        : moments(moments), column(column), D(moments.D), d(moments.d), size(moments.size * Pack::width),
          plain(!moments.x.counts_left_out && !moments.z.counts_left_out) {}

    struct Feature { Pack stay, a, b, both, p; };  // factors of E_s[a, b], E_s[a-1, b], E_s[a, b-1], E_s[a-1, b-1], E_{s-1}[a, b]
    Feature feature(int j) const {
        const Size at = j * Size(panel_width) + column;
        const Pack x(moments.x_mean[j]), z = Pack::load(moments.z_mean + at), one(1.0);
        const bool x_left = moments.x.counts_left_out, z_left = moments.z.counts_left_out;
        const Pack x_stay = x_left ? x : one, x_step = x_left ? one : x, z_stay = z_left ? z : one, z_step = z_left ? one : z;
        return {x_stay * z_stay, x_step * z_stay, x_stay * z_step, x_step * z_step, Pack::load(moments.product + at)};
    }
    int order(const Side& side, int s, int number) const { return side.counts_left_out ? D - number : s + number; }

    // body(s, states) for every s that exists after `seen` features; states of s - 1 and s + 1 stand beside it
    template <class Body>
    void for_orders(int seen, Body body) const {
        const States* states = moments.states + seen * (d + Size(1));
        for (int s = 0; s <= d && s <= seen; ++s) body(s, states + s);
    }

    // E (D+1, states): before each feature, and in the end
    void forward(double* E) const {
        constexpr int w = Pack::width;
        for (Size k = 0; k < (D + Size(1)) * size; k += w) Pack(0.0).store(E + k);
        Pack(1.0).store(E);
        for (int j = 0; j < D; ++j) {
            const Feature f = feature(j);
            for_orders(j + 1, [&](int s, const States* states) {
                const double* before = E + j * size + states->first * w;
                const double* fewer = s ? E + j * size + states[-1].first * w : nullptr;  // E_{s-1}
                double* after = E + (j + 1) * size + states->first * w;
                const Size up = Size(states->columns) * w, wider = s ? Size(states[-1].columns) * w : 0;
                for (int a = states->a.low; a <= states->a.high; ++a)
                    for (int b = states->b.low; b <= states->b.high; ++b) {
                        const Size at = a * up + b * w;
                        Pack value = plain ? Pack::load(before + at) : f.stay * Pack::load(before + at);
                        if (a) value = fma(f.a, Pack::load(before + at - up), value);
                        if (b) value = fma(f.b, Pack::load(before + at - w), value);
                        if (a && b) value = fma(f.both, Pack::load(before + at - up - w), value);
                        if (s) value = fma(f.p, Pack::load(fewer + a * wider + b * w), value);
                        value.store(after + at);
                    }
            });
        }
    }

    // U (states) = dL/dE in the end, and the sums of every order from 3 on
    void finish(Pack g, const double* last, double* U, double* by_order) const {
        constexpr int w = Pack::width;
        for (Size k = 0; k < size; k += w) Pack(0.0).store(U + k);
        for_orders(D, [&](int s, const States* states) {
            for (int a = states->a.low; a <= states->a.high && s >= 3; ++a)
                for (int b = states->b.low; b <= states->b.high; ++b) {
                    const Size at = (states->first + Size(a) * states->columns + b) * w;
                    const Pack at_x(moments.x_weight[order(moments.x, s, a)]);
                    const Pack at_z = Pack::load(moments.z_weight + order(moments.z, s, b) * Size(panel_width) + column);
                    const Pack weight = g * (at_x * at_z);
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
            Pack dp(0.0);
            for_orders(j, [&](int s, const States* states) {
                double* u = U + states->first * w;
                const double *before = E + j * size + states->first * w, *more = s < d ? U + states[1].first * w : nullptr;  // U_{s+1}
                const int rows = states->rows, columns = states->columns;
                const int shorter = s < d ? states[1].rows : 0, narrower = s < d ? states[1].columns : 0;
                const Size down = Size(columns) * w;
                for (int a = states->a.low; a <= states->a.high; ++a)
                    for (int b = states->b.low; b <= states->b.high; ++b) {
                        const Size at = a * down + b * w;
                        Pack value = plain ? Pack::load(u + at) : f.stay * Pack::load(u + at);
                        if (a + 1 < rows) value = fma(f.a, Pack::load(u + at + down), value);
                        if (b + 1 < columns) value = fma(f.b, Pack::load(u + at + w), value);
                        if (a + 1 < rows && b + 1 < columns) value = fma(f.both, Pack::load(u + at + down + w), value);
                        if (a < shorter && b < narrower) {
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
