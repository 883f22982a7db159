// Triangular solves and products for the rows of a matrix, each row by itself: its bits depend neither on the rows beside it
// nor on the number of threads. Those of BLAS do, which has other code for other shapes. Knows no Python.
#pragma once

#include <algorithm>
#include <memory>

#include "kernel.hpp"
#include "threads.hpp"

namespace salsa {

constexpr Size solve_block = 16;  // unknowns that are found one after the other before the rest hears of them
constexpr Size times_block = 48;  // rows of a triangle that are taken for equally long

constexpr Size lanes_for(Size rows) { return (rows + lane_step - 1) / lane_step * lane_step; }

// Rows (rows, n) side by side, column by column: (n, lanes). Lanes without a row hold zeros.
struct Lanes {
    Lanes(double* data, Size n, Size rows) : data(data), n(n), rows(rows), count(lanes_for(rows)) {}
    double* const data;
    const Size n, rows, count;
    double* at(Size j) const { return data + j * count; }
    void clear() const { std::fill_n(data, n * count, 0.0); }
    void load(const double* from) const {
        if (rows < count) clear();
        for (Size row = 0; row < rows; ++row) {
            double* to = data + row;
            for (Size j = 0; j < n; ++j, to += count) *to = *from++;
        }
    }
    void store(double* to, double sign) const {
        for (Size row = 0; row < rows; ++row) {
            const double* from = data + row;
            for (Size j = 0; j < n; ++j, from += count) *to++ = sign * *from;
        }
    }
};

// x_i <- -x_i / diagonal: solutions are kept with the other sign, so that they are added to what follows
inline void settle(const Lanes& x, Size i, double diagonal) {
    double* at = x.at(i);
    for (Size lane = 0; lane < x.count; ++lane) at[lane] /= -diagonal;
}

// R'x = b for upper triangular R (n, n), row-major: from the first unknown on
inline void solve_forward(const Sweeps& sweeps, const double* R, const Lanes& x) {
    const Size n = x.n;
    for (Size begin = 0; begin < n; begin += solve_block) {
        const Size end = std::min(n, begin + solve_block);
        for (Size i = begin; i < end; ++i) {
            sweeps.add_products(Order::by_column, R + begin * n + i, n, 1, i - begin, x.at(begin), x.at(i), x.count);
            settle(x, i, R[i * n + i]);
        }
        sweeps.add_products(Order::by_column, R + begin * n + end, n, n - end, end - begin, x.at(begin), x.at(end), x.count);
    }
}

// R x = b: from the last unknown on
inline void solve_backward(const Sweeps& sweeps, const double* R, const Lanes& x) {
    const Size n = x.n;
    for (Size end = n; end > 0; end = (end - 1) / solve_block * solve_block) {
        const Size begin = (end - 1) / solve_block * solve_block;
        sweeps.add_products(Order::by_row, R + begin * n + end, n, end - begin, n - end, x.at(end), x.at(begin), x.count);
        for (Size i = end - 1; i >= begin; --i) {
            sweeps.add_products(Order::by_row, R + i * n + i + 1, n, 1, end - i - 1, x.at(i + 1), x.at(i), x.count);
            settle(x, i, R[i * n + i]);
        }
    }
}

// body(begin, end, scratch) over tiles of rows; scratch has n * lanes_for(end - begin) doubles
template <class Body>
void for_lanes(Size m, Size n, int threads, Body body) {
    const Size need = n * lanes_for(std::min<Size>(m, panel_width)), team = std::min<Size>(threads, m / panel_width + 1);
    const std::unique_ptr<double[]> scratch(new double[need * team]);
    for_row_tiles(m, int(team), [&](Size begin, Size end, int thread) { body(begin, end, scratch.get() + thread * need); });
}

// X (m, n): every row b becomes the x with R'x = b, or with R x = b (backward)
inline void solve(const Sweeps& sweeps, const double* R, Size n, double* X, Size m, bool backward, int threads) {
    for_lanes(m, n, threads, [&](Size begin, Size end, double* scratch) {
        const Lanes x(scratch, n, end - begin);
        x.load(X + begin * n);
        if (backward) solve_backward(sweeps, R, x);
        else solve_forward(sweeps, R, x);
        x.store(X + begin * n, -1.0);
    });
}

// out (m, c) = B A', B (m, n), A (c, n). upper: A_ij = 0 for j < i, and these zeros are skipped.
inline void times(const Sweeps& sweeps, const double* B, Size m, Size n, const double* A, Size c, bool upper, double* out, int threads) {
    for_lanes(m, n + c, threads, [&](Size begin, Size end, double* scratch) {
        const Lanes x(scratch, n, end - begin), y(x.at(n), c, end - begin);
        x.load(B + begin * n);
        y.clear();
        for (Size i = 0; i < c; i += times_block) {
            const Size first = upper ? std::min(i, n) : 0;
            sweeps.add_products(Order::by_row, A + i * n + first, n, std::min(times_block, c - i), n - first, x.at(first), y.at(i), x.count);
        }
        y.store(out + begin * c, 1.0);
    });
}

}  // namespace salsa
