// The product of all base kernels, the highest order alone: one exponential a pair instead of D.
//
// With base kernels k_j = polynomial(r_j) e^-r_j, r_j >= 0,
//     prod_j a_j k_j = (prod_j a_j) (prod_j polynomial(r_j)) e^-(r_1 + ... + r_D),
// and dk/dlog h_j is k times ratio(r_j) = dlog k_j / dlog h_j. A polynomial is at most e^r: the product of all is finite
// while the sum of all r_j is below the floor of the base kernels, and beyond that floor k = 0. Base kernels that are no
// exponential enter with their value and r_j = 0.
#pragma once

#include "bases.hpp"

namespace salsa::SALSA_ISA {

constexpr double nats_floor = log2_floor * ln2;
constexpr double smallest = 0x1p-1022;

template <class Base>
constexpr auto is_exponential(int) -> decltype(Base::nats(Feature(), Pack()), bool()) { return true; }
template <class Base>
constexpr bool is_exponential(long) { return false; }

template <class Base>
constexpr auto has_polynomial(int) -> decltype(Base::polynomial[0], bool()) { return true; }
template <class Base>
constexpr bool has_polynomial(long) { return false; }

// p(r) - 1
template <class Base, class P>
inline P excess(P r) {
    constexpr int degree = int(sizeof(Base::polynomial) / sizeof(double)) - 1;
    if constexpr (degree == 1 && Base::polynomial[1] == 1.0) return r;
    P q(Base::polynomial[degree]);
    for (int i = degree - 1; i > 0; --i) q = fma(q, r, P(Base::polynomial[i]));
    return q * r;
}

template <class Base>  // q p(r)
inline Pack times_polynomial(Pack q, Pack r) {
    if constexpr (has_polynomial<Base>(0)) return fma(excess<Base>(r), q, q);
    else return q;
}

// e^-r times the polynomials, 0 beyond the floor
inline Pack decayed(Pack polynomials, Pack r) {
    return where_above(r, Pack(nats_floor), Pack(0.0), polynomials * exp2_neg(min_abs(r, Pack(nats_floor)), Pack(log2e)));
}

inline double product_of_relevances(const Kernel& kernel) {
    double product = 1.0;
    for (int j = 0; j < kernel.D; ++j) product *= kernel.feature[j].relevance;
    return product;
}

// out (packs): the product for the points of a tile, without the relevances
inline void product_tile(const Kernel& kernel, const double* x, const double* z, Pack (&out)[packs]) {
    Pack r[packs], polynomials[packs];
    for (int p = 0; p < packs; ++p) r[p] = Pack(0.0), polynomials[p] = Pack(1.0);
    for (int j = 0; j < kernel.D; ++j) {
        const Feature& f = kernel.feature[j];
        const Pack at(x[f.column]);
        const double* column = z + f.column * panel_width;
        Bases::with(f.base, [&](auto base) {
            using Base = decltype(base);
            for (int p = 0; p < packs; ++p) {
                const Pack t = at - Pack::load(column + p * Pack::width);
                if constexpr (is_exponential<Base>(0)) {
                    const Pack own = base.nats(f, t);
                    r[p] = r[p] + own;
                    polynomials[p] = times_polynomial<Base>(polynomials[p], own);
                } else {
                    polynomials[p] = polynomials[p] * base.value(f, t);
                }
            }
        });
    }
    for (int p = 0; p < packs; ++p) out[p] = decayed(polynomials[p], r[p]);
}

inline void product_values(const Kernel& kernel, const double* x, const double* panel, double* out) {
    const Pack scale(kernel.weight[kernel.d] * product_of_relevances(kernel));
    for (int c = 0; c < panel_width; c += packs * Pack::width) {
        Pack k[packs];
        product_tile(kernel, x, panel + c, k);
        for (int p = 0; p < packs; ++p) (scale * k[p]).store(out + c + p * Pack::width);
    }
}

// Adds to sum.weight[d] and sum.log_bandwidth; the derivatives by relevances follow from the first (see block.hpp).
// scratch: the ratios of all features (D, panel_width)
inline void product_adjoint(const Kernel& kernel, const double* x, const double* panel, const double* g, double* scratch,
                            const Gradient& sum) {
    constexpr int w = Pack::width;
    const Pack relevances(product_of_relevances(kernel)), weight(kernel.weight[kernel.d]);
    for (int c = 0; c < panel_width; c += packs * w) {
        Pack r[packs], polynomials[packs];
        for (int p = 0; p < packs; ++p) r[p] = Pack(0.0), polynomials[p] = Pack(1.0);
        for (int j = 0; j < kernel.D; ++j) {
            const Feature& f = kernel.feature[j];
            const Pack at(x[f.column]);
            const double* column = panel + f.column * panel_width + c;
            double* ratio = scratch + j * Size(panel_width) + c;
            Bases::with(f.base, [&](auto base) {
                using Base = decltype(base);
                for (int p = 0; p < packs; ++p) {
                    const Pack t = at - Pack::load(column + p * w);
                    if constexpr (is_exponential<Base>(0)) {
                        const Pack own = base.nats(f, t);
                        r[p] = r[p] + own;
                        polynomials[p] = times_polynomial<Base>(polynomials[p], own);
                        base.ratio(own).store(ratio + p * w);
                    } else {
                        const Pack k = base.value(f, t);
                        polynomials[p] = polynomials[p] * k;
                        (base.slope(f, t, k) / (k + Pack(smallest))).store(ratio + p * w);
                    }
                }
            });
        }
        Pack gk[packs];
        for (int p = 0; p < packs; ++p) {
            gk[p] = Pack::load(g + c + p * w) * relevances * decayed(polynomials[p], r[p]);
            add_to(sum.weight + kernel.d * panel_width + c + p * w, gk[p]);
            gk[p] = gk[p] * weight;
        }
        for (int j = 0; j < kernel.D; ++j) {
            const Size at = j * Size(panel_width) + c;
            Pack by_bandwidth = Pack::load(sum.log_bandwidth + at);
            for (int p = 0; p < packs; ++p) by_bandwidth = fma(gk[p], Pack::load(scratch + at + p * w), by_bandwidth);
            by_bandwidth.store(sum.log_bandwidth + at);
        }
    }
}

}  // namespace salsa::SALSA_ISA
