// Values of a sum of additive kernels in float32: base kernels in floats, sums and products of many features in doubles.
//
// A float has 24 bits: 100 additions or products in floats would lose three of them. Features therefore come in groups. Within
// a group all is computed in floats, and groups are merged in doubles:
//     e_m <- e_m + sum_{i=1..m} g_i e_{m-i},    g_i = e_i of the group.
#pragma once

#include "esp.hpp"

namespace salsa::SALSA_ISA {

constexpr int single_step = packs * Pack32::width, wide_packs = 2 * packs;  // lanes of a tile, and its packs of doubles
constexpr int orders_group = 10, product_group = 10;  // features; ten polynomials are below the largest float
static_assert(single_width % single_step == 0 && single_step % (packs * Pack::width) == 0, "a panel is a whole number of tiles");

// One row x against one panel. A column of differences x - z is computed when a term first asks for it, beside the exponentials
// of this term, and kept for the others.
class Differences {
  public:
    // tile: (columns, single_width), and one number per column
    Differences(const Single& kernel, const float* x, const float* panel, float* tile)
        : x_(x), panel_(panel), columns_(kernel.columns), tile_(tile),
          done_(reinterpret_cast<std::int32_t*>(tile + kernel.columns * Size(single_width))) {
        for (int column = 0; column < columns_; ++column) done_[column] = 0;
    }
    // (single_width,): x - z. Of a feature with missing values, NaN if one of both is missing, and in the column after it the k_j
    // that replaces k_j(x - z) there.
    const float* operator()(const Feature& f) const {
        float* out = tile_ + f.column * Size(single_width);
        if (!done_[f.column]) compute(f, out), done_[f.column] = 1;
        return out;
    }

  private:
    void compute(const Feature& f, float* out) const {
        const int column = f.column;
        const bool on_circle = f.base >= cyclic_code;  // whole turns are then removed while the difference is exact
        const float *high = panel_ + column * Size(single_width), *low = high + columns_ * Size(single_width);
        const Pack32 x_high(x_[column]), x_low(x_[column + columns_]);
        for (int c = 0; c < single_width; c += Pack32::width) {
            const Pack32 t = x_high - Pack32::load(high + c);
            ((on_circle ? remainder_of_turns(t) : t) + (x_low - Pack32::load(low + c))).store(out + c);
        }
        if (!f.missing) return;
        const Pack32 x_mean(x_[column + 1]);
        for (int c = 0; c < single_width; c += Pack32::width)
            where_nan(x_high, Pack32::load(high + single_width + c), x_mean).store(out + single_width + c);
    }
    const float *x_, *panel_;
    const int columns_;
    float* tile_;
    std::int32_t* done_;
};

struct Tile {  // some lanes of all differences
    const Differences& differences;
    int first;
    const float* operator()(const Feature& f) const { return differences(f) + first; }
};

// a_j k_j(t). For k = p(r) e^-r, r = y ln 2: 2^-y times the polynomial a_j p in y
template <class Base>
inline Pack32 scaled_value(Base, const Feature& f, Pack32 t) {
    if constexpr (is_exponential<Base>(0) && has_polynomial<Base>(0)) {
        constexpr int degree = int(sizeof(Base::polynomial) / sizeof(double)) - 1;
        const Pack32 y = distance(f, t) * Pack32(f.single.rate);
        Pack32 q(f.single.polynomial[degree]);
        for (int i = degree - 1; i >= 0; --i) q = fma(q, y, Pack32(f.single.polynomial[i]));
        return times_exp2_neg(q, y);
    } else {
        return Pack32(f.single.relevance) * Base::value(f, t);
    }
}

template <class Base>
inline Pack32 scaled_value(Cyclic<Base>, const Feature& f, Pack32 t) { return scaled_value(Base{}, f, chord(t)); }

// s (packs,): a_j k_j of the lanes of a tile
template <bool missing>
inline void scaled_base(const Feature& f, const Tile& tile, Pack32 (&s)[packs]) {
    const float* column = tile(f);
    Bases::with(f.base, [&](auto base) {
        for (int p = 0; p < packs; ++p) s[p] = scaled_value(base, f, Pack32::load(column + p * Pack32::width));
    });
    if constexpr (missing)
        if (f.missing)
            for (int p = 0; p < packs; ++p) {
                const float* at = column + p * Pack32::width;
                s[p] = where_nan(Pack32::load(at), Pack32(f.single.relevance) * Pack32::load(at + single_width), s[p]);
            }
}

// A pack of numbers to twice the precision of a float, as an unevaluated sum
struct Twofold {
    Pack32 high, low;
    void add(Pack32 x) {  // 0 <= x <= high
        const Pack32 sum = high + x;
        low = low + (x - (sum - high));
        high = sum;
    }
    void multiply_by_one_plus(Pack32 x) {  // 0 <= x
        const Pack32 product = fma(high, x, high);
        low = fma(low, x, low) + fma(high, x, high - product);
        high = product;
    }
    void multiply_by(Pack32 x) { high = high * x, low = low * x; }  // x is 0 or 1
};

inline void widen(const Twofold (&from)[packs], Pack (&to)[wide_packs]) {  // high + low
    alignas(64) float high[single_step], low[single_step];
    for (int p = 0; p < packs; ++p) from[p].high.store(high + p * Pack32::width), from[p].low.store(low + p * Pack32::width);
    for (int p = 0; p < wide_packs; ++p) to[p] = load_widened(high + p * Pack::width) + load_widened(low + p * Pack::width);
}

inline void store(const Pack32 (&from)[packs], float* to) {
    for (int p = 0; p < packs; ++p) from[p].store(to + p * Pack32::width);
}

// Adds to `sum` (wide_packs,), as the functions below do. scratch: e_1..e_d of every group (groups, d, single_step), floats
template <int d, bool missing>
void add_small(const Kernel& kernel, const Tile& tile, float* scratch, Pack (&sum)[wide_packs]) {
    const int groups = (kernel.D + orders_group - 1) / orders_group, size = (kernel.D + groups - 1) / groups;
    for (int first = 0, place = 0; first < kernel.D; first += size) {
        const int end = first + size < kernel.D ? first + size : kernel.D;
        Pack32 e[d + 1][packs];
        recursion<d>(first, end, [&](int j, Pack32(&s)[packs]) { scaled_base<missing>(kernel.feature[j], tile, s); }, e);
        for (int m = 1; m <= d; ++m, place += single_step) store(e[m], scratch + place);
    }
    for (int p = 0; p < wide_packs; ++p) {
        Pack e[d + 1], g[d + 1];
        for (int m = 1; m <= d; ++m) e[m] = load_widened(scratch + (m - 1) * single_step + p * Pack::width);
        for (int first = size, group = 1; first < kernel.D; first += size, ++group) {
            for (int m = 1; m <= d; ++m) g[m] = load_widened(scratch + (group * Size(d) + m - 1) * single_step + p * Pack::width);
            for (int m = d; m > 0; --m) {
                Pack more = g[m];
                for (int i = 1; i < m; ++i) more = fma(g[i], e[m - i], more);
                e[m] = e[m] + more;
            }
        }
        Pack k(kernel.weight[0]);
        for (int m = 1; m <= d; ++m) k = fma(Pack(kernel.weight[m]), e[m], k);
        sum[p] = sum[p] + k;
    }
}

// Any d: the recursion itself in doubles. scratch: e (d+1, panel_width), k (panel_width,), and s (D, single_step), floats
template <bool missing>
void add_any(const Kernel& kernel, const Tile& tile, double* scratch, Pack (&sum)[wide_packs]) {
    double *e = scratch, *k = e + (kernel.d + Size(1)) * panel_width;
    float* scaled = reinterpret_cast<float*>(k + panel_width);
    for (int j = 0; j < kernel.D; ++j) {
        Pack32 s[packs];
        scaled_base<missing>(kernel.feature[j], tile, s);
        store(s, scaled + j * Size(single_step));
    }
    for (int half = 0; half < wide_packs; half += packs) {
        const float* at = scaled + half * Pack::width;
        recursion_any(kernel, [&](int j, Pack(&s)[packs]) {
            for (int p = 0; p < packs; ++p) s[p] = load_widened(at + j * Size(single_step) + p * Pack::width);
        }, e);
        weighted_sum(kernel, e, k);
        for (int p = 0; p < packs; ++p) sum[half + p] = sum[half + p] + Pack::load(k + p * Pack::width);
    }
}

// Multiply 1 / e^r and q by the base kernels of the features begin..end-1, all of one base kernel. A sum of some r_j is large where
// the product of their polynomials is large, too: both then need more than a float's 24 bits.
template <class Base>
inline void multiply(const Kernel& kernel, int begin, int end, const Tile& tile, Twofold (&r)[packs], Twofold (&q)[packs]) {
    Pack32 plain[packs];
    for (int p = 0; p < packs; ++p) plain[p] = Pack32(0.0);
    for (int j = begin; j < end; ++j) {
        const Feature& f = kernel.feature[j];
        const float* column = tile(f);
        for (int p = 0; p < packs; ++p) {
            const Pack32 t = Pack32::load(column + p * Pack32::width);
            if constexpr (is_exponential<Base>(0)) {
                const Pack32 own = Base::nats(f, t);
                if constexpr (has_polynomial<Base>(0)) r[p].add(own), q[p].multiply_by_one_plus(excess<Base>(own));
                else plain[p] = plain[p] + own;
            } else {
                q[p].multiply_by(Base::value(f, t));
            }
        }
    }
    if constexpr (is_exponential<Base>(0) && !has_polynomial<Base>(0))
        for (int p = 0; p < packs; ++p) r[p].add(plain[p]);
}

inline void add_product(const Kernel& kernel, const Tile& tile, Pack (&sum)[wide_packs]) {
    constexpr double start = 1024.0;  // more than the r_j of a group
    Pack polynomials[wide_packs], wide[wide_packs];
    Twofold r[packs], q[packs];
    for (int p = 0; p < packs; ++p) r[p] = {Pack32(start), Pack32(0.0)};
    for (int p = 0; p < wide_packs; ++p) polynomials[p] = Pack(1.0);
    for (int first = 0, end; first < kernel.D; first = end) {
        const int base = kernel.feature[first].base;
        for (end = first + 1; end < kernel.D && end < first + product_group && kernel.feature[end].base == base;) ++end;
        for (int p = 0; p < packs; ++p) q[p] = {Pack32(1.0), Pack32(0.0)};
        bool has_factors = false;
        Bases::with(base, [&](auto of) {
            using Base = decltype(of);
            has_factors = has_polynomial<Base>(0) || !is_exponential<Base>(0);
            multiply<Base>(kernel, first, end, tile, r, q);
        });
        if (!has_factors) continue;
        widen(q, wide);
        for (int p = 0; p < wide_packs; ++p) polynomials[p] = polynomials[p] * wide[p];
    }
    const Pack scale(kernel.weight[kernel.d] * product_of_relevances(kernel));
    widen(r, wide);
    for (int p = 0; p < wide_packs; ++p) sum[p] = fma(scale, decayed(polynomials[p], wide[p] - Pack(start)), sum[p]);
}

template <bool missing>
inline void add_orders(const Kernel& kernel, const Tile& tile, double* scratch, Pack (&sum)[wide_packs]) {
    float* groups = reinterpret_cast<float*>(scratch);
    switch (kernel.d) {
        case 1: return add_small<1, missing>(kernel, tile, groups, sum);
        case 2: return add_small<2, missing>(kernel, tile, groups, sum);
        case 3: return add_small<3, missing>(kernel, tile, groups, sum);
        case 4: return add_small<4, missing>(kernel, tile, groups, sum);
        default: add_any<missing>(kernel, tile, scratch, sum);
    }
}

inline void single(const Single& kernel, const float* x, const float* panel, float* tile, double* scratch, float* out) {
    const Differences differences(kernel, x, panel, tile);
    for (int c = 0; c < single_width; c += single_step) {
        Pack sum[wide_packs];
        for (int p = 0; p < wide_packs; ++p) sum[p] = Pack(0.0);
        for (const Kernel* term = kernel.sum.begin(); term != kernel.sum.end(); ++term) {
            if (term->product) add_product(*term, {differences, c}, sum);
            else (term->missing ? add_orders<true> : add_orders<false>)(*term, {differences, c}, scratch, sum);
        }
        for (int p = 0; p < wide_packs; ++p) store_narrowed(sum[p], out + c + p * Pack::width);
    }
}

}  // namespace salsa::SALSA_ISA
