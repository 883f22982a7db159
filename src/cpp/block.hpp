// Blocks of an additive kernel from row-by-panel sweeps: packing, threads, symmetry, reductions. No Python.
//
// Results do not depend on the number of threads: threads share out rows, and sums over rows are cut into a fixed number
// of parts that are added in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernel.hpp"
#include "threads.hpp"

namespace salsa {

// An array that starts at a cache line, so that no pack lies across two lines
template <class Real>
class Lines {
  public:
    explicit Lines(Size size) : data_(size + line) {}
    Real* data() { return const_cast<Real*>(std::as_const(*this).data()); }
    const Real* data() const {
        const auto address = reinterpret_cast<std::uintptr_t>(data_.data());
        return data_.data() + (bytes - address % bytes) % bytes / sizeof(Real);
    }

  private:
    static constexpr Size bytes = 64, line = bytes / sizeof(Real);
    std::vector<Real> data_;
};

template <class Real>
struct PointsOf {
    const Real* data;  // (n, columns), row-major
    Size n;
    int columns;
    const Real* row(Size i) const { return data + i * columns; }
};
using Points = PointsOf<double>;

// Z (m, columns) cut into panels of `width` points stored column by column; the last panel repeats the last point.
template <class Real, int width>
class PanelsOf {
  public:
    explicit PanelsOf(const PointsOf<Real>& Z) : m(Z.n), size_(Size(Z.columns) * width), data_(count() * size_) {
        for (Size p = 0; p < count(); ++p)
            for (int j = 0; j < Z.columns; ++j)
                for (int c = 0; c < width; ++c) data_.data()[p * size_ + j * width + c] = Z.row(std::min(p * width + c, m - 1))[j];
    }
    const Size m;
    Size count() const { return (m + width - 1) / width; }
    int filled(Size p) const { return int(std::min<Size>(width, m - p * width)); }
    const Real* operator[](Size p) const { return data_.data() + p * size_; }

  private:
    const Size size_;
    Lines<Real> data_;
};
using Panels = PanelsOf<double, panel_width>;

inline Size scratch_sum(const Sum& sum) {
    int d = 0;
    for (const Kernel& term : sum) d = std::max(d, term.d);
    return scratch_values(d) + panel_width;
}

// out (panel_width,): the sum of all terms. scratch: scratch_sum(sum) doubles.
inline void sum_values(const Sweeps& sweeps, const Sum& sum, const double* x, const double* panel, double* scratch, double* out) {
    double *term_values = scratch, *work = scratch + panel_width;
    sweeps.values(*sum.begin(), x, panel, work, out);
    for (const Kernel* term = sum.begin() + 1; term != sum.end(); ++term) {
        sweeps.values(*term, x, panel, work, term_values);
        for (int c = 0; c < panel_width; ++c) out[c] += term_values[c];
    }
}

// Values of all pairs, row by panel, for `block` and `symmetric_block`: a type of numbers `Value`, the `width` of a panel, and
//     values(i, p, work, out)    out (width,): k of row i and the points of panel p; work: scratch() doubles
struct DoublePairs {
    using Value = double;
    static constexpr int width = panel_width;
    const Sweeps& sweeps;
    const Sum sum;
    const Points X;
    const Panels panels;
    Size n() const { return X.n; }
    Size scratch() const { return scratch_sum(sum); }
    void values(Size i, Size p, double* work, double* out) const { sum_values(sweeps, sum, X.row(i), panels[p], work, out); }
};

// float64 rounded to float32 at the end, for kernels and coordinates that float32 cannot hold
struct RoundedPairs {
    using Value = float;
    static constexpr int width = panel_width;
    const DoublePairs exact;
    const Panels& panels = exact.panels;
    Size n() const { return exact.n(); }
    Size scratch() const { return exact.scratch() + panel_width; }
    void values(Size i, Size p, double* work, float* out) const {
        exact.values(i, p, work + panel_width, work);
        std::copy_n(work, panel_width, out);
    }
};

// out: K[i, l] = k(x_i, z_l) at out[i * stride + l]
template <class Pairs>
void block(const Pairs& pairs, typename Pairs::Value* out, Size stride, int threads) {
    using Value = typename Pairs::Value;
    constexpr Size width = Pairs::width;
    const Size need = (pairs.scratch() + 7) / 8 * 8;  // whole cache lines
    Lines<double> scratch(threads * need);
    for_row_tiles(
        pairs.n(), threads,
        [&](Size begin, Size end, int thread) {
            double* work = scratch.data() + thread * need;
            alignas(64) Value tail[width];
            for (Size p = 0; p < pairs.panels.count(); ++p)
                for (Size i = begin; i < end; ++i) {
                    Value* at = out + i * stride + p * width;
                    const bool whole = pairs.panels.filled(p) == width;
                    pairs.values(i, p, work, whole ? at : tail);
                    if (!whole) std::copy_n(tail, pairs.panels.filled(p), at);
                }
        },
        width);
}

// The same for X with itself, from its lower tiles; upper tiles mirror them, bit for bit.
template <class Pairs>
void symmetric_block(const Pairs& pairs, typename Pairs::Value* out, Size stride, int threads) {
    using Value = typename Pairs::Value;
    constexpr Size width = Pairs::width;
    const Size values = (pairs.scratch() + 7) / 8 * 8, need = values + width * width;  // whole cache lines
    Lines<double> scratch(threads * need);
    for_row_tiles(
        pairs.n(), threads,
        [&](Size begin, Size end, int thread) {
            double* work = scratch.data() + thread * need;
            Value* tile = reinterpret_cast<Value*>(work + values);
            for (Size first = 0; first <= begin; first += width) {
                const Size p = first / width, filled = pairs.panels.filled(p);
                for (Size i = begin; i < end; ++i) {
                    Value* row = tile + (i - begin) * width;
                    pairs.values(i, p, work, row);
                    std::copy_n(row, filled, out + i * stride + first);
                }
                if (first == begin) continue;
                for (Size c = 0; c < filled; ++c)
                    for (Size i = begin; i < end; ++i) out[(first + c) * stride + i] = tile[(i - begin) * width + c];
            }
        },
        width);
}

// out (d+1, n, m): weight_m e_m of every order in one sweep
inline void orders(const Sweeps& sweeps, const Kernel& kernel, const Points& X, const Points& Z, double* out, int threads) {
    const Panels panels(Z);
    const Size n = X.n, m = Z.n, values = scratch_values(kernel.d), need = 2 * values;
    std::vector<double> scratch(threads * need);
    for_row_tiles(n, threads, [&](Size begin, Size end, int thread) {
        double *work = scratch.data() + thread * need, *tail = work + values;
        for (Size p = 0; p < panels.count(); ++p)
            for (Size i = begin; i < end; ++i) {
                sweeps.orders(kernel, X.row(i), panels[p], work, tail, panel_width);
                for (int order = 0; order <= kernel.d; ++order)
                    std::copy_n(tail + order * panel_width, panels.filled(p), out + (order * n + i) * m + p * panel_width);
            }
    });
}

// out (n, q) = K(X, Z) V, V (m, q); K is never formed
inline void product(const Sweeps& sweeps, const Sum& kernel, const Points& X, const Points& Z, const double* V, Size q, double* out,
                    int threads) {
    const Panels panels(Z);
    const Size values = scratch_sum(kernel), need = values + panel_width;
    std::vector<double> scratch(threads * need);
    std::fill_n(out, X.n * q, 0.0);
    for_row_tiles(X.n, threads, [&](Size begin, Size end, int thread) {
        double *work = scratch.data() + thread * need, *k = work + values;
        for (Size p = 0; p < panels.count(); ++p)
            for (Size i = begin; i < end; ++i) {
                sum_values(sweeps, kernel, X.row(i), panels[p], work, k);
                double* sum = out + i * q;
                for (int c = 0; c < panels.filled(p); ++c) {
                    const double* v = V + (p * panel_width + c) * q;
                    for (Size o = 0; o < q; ++o) sum[o] += k[c] * v[o];
                }
            }
    });
}

// Where the derivatives of the terms stand among those of the sum: all relevances, all log bandwidths, all weights.
struct Places {
    Size features = 0, weights = 0, scratch = 0;
    explicit Places(const Sum& sum) {
        for (const Kernel& term : sum) {
            features += term.D, weights += term.d + 1;
            scratch = std::max(scratch, scratch_adjoint(term.D, term.d));
        }
    }
    Size count() const { return 2 * features + weights; }
};

// tile (rows, panel_width) of G (., m) at these rows and columns, zeros beyond the columns that are filled.
// symmetric: G[i, l] + G[l, i] below the diagonal, zeros above it
inline void tile_of(const double* G, Size m, Size row, Size rows, Size column, Size filled, bool symmetric, double* tile) {
    std::fill_n(tile, rows * panel_width, 0.0);
    for (Size i = 0; i < rows; ++i) {
        const Size count = symmetric ? std::min(filled, row + i - column + 1) : filled;
        std::copy_n(G + (row + i) * m + column, count, tile + i * panel_width);
    }
    if (!symmetric) return;
    constexpr Size side = 8;  // squares of this side stay in few cache lines
    for (Size c0 = 0; c0 < filled; c0 += side)
        for (Size i0 = 0; i0 < rows; i0 += side)
            for (Size c = c0; c < std::min(c0 + side, filled); ++c)
                for (Size i = std::max(column + c + 1 - row, i0); i < std::min(i0 + side, rows); ++i)
                    tile[i * panel_width + c] += G[(column + c) * m + row + i];
}

// Sums over all pairs of G[i, l] dk(x_i, z_l)/dparameter. out: relevances, log bandwidths and weights (d+1) of all terms.
// symmetric: Z is X, and only tiles on and below the diagonal are swept, with G[i, l] + G[l, i].
inline void gradient(const Sweeps& sweeps, const Sum& sum, const Points& X, const Points& Z, const double* G, bool symmetric, double* out,
                     int threads) {
    const Panels panels(Z);
    const Places places(sum);
    const Size m = Z.n, lanes = places.count() * panel_width, need = places.scratch + panel_width * panel_width;
    constexpr Size most_parts = 64;
    const Size tiles = std::max<Size>((X.n + panel_width - 1) / panel_width, 1), tiles_per_part = (tiles + most_parts - 1) / most_parts;
    const Size parts = (tiles + tiles_per_part - 1) / tiles_per_part;
    std::vector<double> sums(parts * lanes), scratch(threads * need);
    for_row_tiles(parts * panel_width, threads, [&](Size part_begin, Size, int thread) {
        const Size part = part_begin / panel_width;
        double *work = scratch.data() + thread * need, *g = work + places.scratch, *total = sums.data() + part * lanes;
        const Size begin = part * tiles_per_part * panel_width, end = std::min(X.n, begin + tiles_per_part * panel_width);
        for (Size first = begin; first < end; first += panel_width) {
            const Size rows = std::min<Size>(panel_width, end - first);
            for (Size p = 0; p < panels.count() && !(symmetric && p * panel_width > first); ++p) {
                tile_of(G, m, first, rows, p * panel_width, panels.filled(p), symmetric, g);
                for (Size i = 0; i < rows; ++i) {
                    Gradient term_sum{total, total + places.features * panel_width, total + 2 * places.features * panel_width};
                    for (const Kernel& term : sum) {
                        sweeps.adjoint(term, X.row(first + i), panels[p], g + i * panel_width, work, term_sum);
                        term_sum.relevance += Size(term.D) * panel_width, term_sum.log_bandwidth += Size(term.D) * panel_width;
                        term_sum.weight += (term.d + Size(1)) * panel_width;
                    }
                }
            }
        }
    });
    for (Size part = 1; part < parts; ++part)
        for (Size lane = 0; lane < lanes; ++lane) sums[lane] += sums[part * lanes + lane];
    std::fill_n(out, places.count(), 0.0);
    for (Size k = 0; k < places.count(); ++k)
        for (int c = 0; c < panel_width; ++c) out[k] += sums[k * panel_width + c];
    double *relevance = out, *weight = out + 2 * places.features;
    for (const Kernel& term : sum) {  // of a product w s_1 ... s_D, the derivative by a_j is w s_1 ... s_D / a_j
        if (term.product)
            for (int j = 0; j < term.D; ++j) relevance[j] = term.weight[term.d] * weight[term.d] / term.feature[j].relevance;
        relevance += term.D, weight += term.d + 1;
    }
}

// out (n, D, q): Shapley values of f(x_i) = sum_l k(x_i, z_l) V[l], where means (m, D) replace the features left out
inline void shapley(const Sweeps& sweeps, const Kernel& kernel, const Rule& rule, const Points& X, const Points& Z, const Points& means,
                    const double* V, Size q, double* out, int threads) {
    const Panels panels(Z), mean_panels(means);
    const int D = kernel.D;
    const Size need = scratch_shapley(D, kernel.d) + Size(D) * panel_width;
    std::vector<double> scratch(threads * need);
    std::fill_n(out, X.n * D * q, 0.0);
    for_row_tiles(X.n, threads, [&](Size begin, Size end, int thread) {
        double *work = scratch.data() + thread * need, *phi = work + scratch_shapley(D, kernel.d);
        for (Size p = 0; p < panels.count(); ++p)
            for (Size i = begin; i < end; ++i) {
                sweeps.shapley(kernel, rule, X.row(i), panels[p], mean_panels[p], work, phi);
                for (int j = 0; j < D; ++j)
                    for (int c = 0; c < panels.filled(p); ++c) {
                        const double* v = V + (p * panel_width + c) * q;
                        double* sum = out + (i * D + j) * q;
                        for (Size o = 0; o < q; ++o) sum[o] += phi[j * panel_width + c] * v[o];
                    }
            }
    });
}

// A state of a covariance has s interacting features, and for either kernel a number: of the other features' means, at most d - 3
// and at most d - s because finally s >= 3, or of the features that are left out, at most D - lowest.
inline int numbers_of(const Side& side, int D, int s) { return side.counts_left_out ? D - side.lowest + 1 : side.d - std::max(s, 3) + 1; }

inline Side make_side(int D, int d, int lowest) {
    const Side means{d, lowest, false}, left_out{d, lowest, true};
    int more = 0;
    for (int s = 0; s <= d; ++s) more += numbers_of(means, D, s) - numbers_of(left_out, D, s);
    return more > 0 ? left_out : means;
}

// The numbers of states of s after `seen` features that can still reach an order with a weight
inline Range reaching(const Side& side, int D, int s, int seen) {
    const int least = side.counts_left_out ? seen - side.d : side.lowest - (D - seen) - s;
    return {std::max(least, 0), std::min(seen - s, numbers_of(side, D, s) - 1)};
}

// (D+1, d+1): the states of every s = 0..d after 0..D features
inline std::vector<States> covariance_states(const Side& x, const Side& z, int D) {
    std::vector<States> states;
    for (int seen = 0; seen <= D; ++seen) {
        Size first = 0;
        for (int s = 0; s <= std::min(x.d, z.d); ++s) {
            const int rows = numbers_of(x, D, s), columns = numbers_of(z, D, s);
            states.push_back({rows, columns, reaching(x, D, s, seen), reaching(z, D, s, seen), first});
            first += Size(rows) * columns;
        }
    }
    return states;
}

// lanes (panel_width,): the values that there are, and the last of them again
inline void fill_lanes(const double* values, Size filled, double* lanes) {
    std::fill(std::copy_n(values, filled, lanes), lanes + panel_width, values[filled - 1]);
}

struct Anchors {  // of one kernel of a covariance
    Side side;
    const double* mean;    // (D, n): a_j times the mean of k_j over the background
    const double* weight;  // (d+1, n): of every order, for each anchor
    Size n;
};

// Covariances of k(X, x_i) and sum_l l(X, z_l) coef_l, for the r anchors i = first, first + 1, ... of x:
// out (r, d-2 + D): one number per order from 3 to the smaller d, then their parts with each feature. products (D, r, columns).
// symmetric: z is x with the same kernel, and the sum runs over l <= i, where l < i counts twice.
inline void covariances(const Sweeps& sweeps, int D, const Anchors& x, const Anchors& z, const double* products, Size columns, Size first,
                        Size r, const double* coef, bool symmetric, double* out, int threads) {
    const std::vector<States> states = covariance_states(x.side, z.side, D);
    const int d = std::min(x.side.d, z.side.d), orders = d - 2;
    const Size count_states = states[d].first + Size(states[d].rows) * states[d].columns, covariance = scratch_covariance(D, count_states);
    const Size lanes = Size(D) * panel_width, size = orders + Size(D), x_weights = x.side.d + Size(1), z_weights = z.side.d + Size(1);
    const Size need = covariance + 2 * lanes + D + x_weights + (z_weights + 1 + size) * panel_width;
    std::vector<double> scratch(threads * need);
    for_row_tiles(r, threads, [&](Size begin, Size end, int thread) {
        double *z_mean = scratch.data() + thread * need, *product = z_mean + lanes, *z_weight = product + lanes;
        double *g = z_weight + z_weights * panel_width, *sums = g + panel_width, *work = sums + size * panel_width;
        double *x_mean = work + covariance, *x_weight = x_mean + D;
        const Moments here{D, d, x.side, z.side, count_states, states.data(), x_weight, z_weight, x_mean, z_mean, product};
        for (Size k = begin; k < end; ++k) {
            const Size i = first + k, count = symmetric ? i + 1 : columns;
            for (int j = 0; j < D; ++j) x_mean[j] = x.mean[j * x.n + i];
            for (Size m = x.side.lowest; m < x_weights; ++m) x_weight[m] = x.weight[m * x.n + i];
            std::fill_n(sums, size * panel_width, 0.0);
            for (Size start = 0; start < count; start += panel_width) {
                const Size filled = std::min<Size>(panel_width, count - start);
                for (Size c = 0; c < panel_width; ++c) g[c] = c < filled ? coef[start + c] * (symmetric && start + c < i ? 2.0 : 1.0) : 0.0;
                for (Size m = z.side.lowest; m < z_weights; ++m) fill_lanes(z.weight + m * z.n + start, filled, z_weight + m * panel_width);
                for (int j = 0; j < D; ++j) {
                    fill_lanes(z.mean + j * z.n + start, filled, z_mean + j * panel_width);
                    fill_lanes(products + (j * r + k) * columns + start, filled, product + j * panel_width);
                }
                sweeps.covariance(here, g, work, sums, sums + orders * panel_width);
            }
            for (Size part = 0; part < size; ++part) {
                out[k * size + part] = 0.0;
                for (int c = 0; c < panel_width; ++c) out[k * size + part] += sums[part * panel_width + c];
            }
        }
    });
}

}  // namespace salsa
