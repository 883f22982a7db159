// Matrix products of rows that stand side by side in lanes: every lane goes through the same operations in the same order,
// so that the bits of a row do not depend on the rows beside it, on its lane, or on how many there are.
#pragma once

#include "kernel.hpp"
#include "simd.hpp"

namespace salsa::SALSA_ISA {

constexpr int tile_packs = 2, tile_rows = SALSA_LEVEL == 2 ? 8 : 6;  // sums that fit into the registers
constexpr Size near_columns = 64;  // so many rows of x stay in the first cache
static_assert(lane_step % Pack::width == 0, "lanes are a whole number of packs");

// Not inlined: the loop over columns then has the registers to itself.
template <int rows, int packs, Order order>
__attribute__((noinline)) void add_tile(const double* a, Size stride, Size columns, const double* x, double* y, Size lanes) {
    Pack sum[rows][packs];
    for (int i = 0; i < rows; ++i)
        for (int p = 0; p < packs; ++p) sum[i][p] = Pack::load(y + i * lanes + p * Pack::width);
    for (Size j = 0; j < columns; ++j) {
        Pack at[packs];
        for (int p = 0; p < packs; ++p) at[p] = Pack::load(x + j * lanes + p * Pack::width);
        for (int i = 0; i < rows; ++i) {
            const Pack factor(order == Order::by_row ? a[i * stride + j] : a[j * stride + i]);
            for (int p = 0; p < packs; ++p) sum[i][p] = fma(factor, at[p], sum[i][p]);
        }
    }
    for (int i = 0; i < rows; ++i)
        for (int p = 0; p < packs; ++p) sum[i][p].store(y + i * lanes + p * Pack::width);
}

template <int rows, Order order>
inline void add_strip(const double* a, Size stride, Size columns, const double* x, double* y, Size lanes) {
    constexpr Size width = tile_packs * Pack::width;
    Size lane = 0;
    for (; lane + width <= lanes; lane += width) add_tile<rows, tile_packs, order>(a, stride, columns, x + lane, y + lane, lanes);
    for (; lane < lanes; lane += Pack::width) add_tile<rows, 1, order>(a, stride, columns, x + lane, y + lane, lanes);
}

template <Order order>
inline void add_products(const double* a, Size stride, Size rows, Size columns, const double* x, double* y, Size lanes) {
    const Size down = order == Order::by_row ? stride : 1, across = order == Order::by_row ? 1 : stride;
    for (Size j = 0; j < columns; j += near_columns, a += near_columns * across, x += near_columns * lanes) {
        const Size count = columns - j < near_columns ? columns - j : near_columns;
        Size i = 0;
        for (; i + tile_rows <= rows; i += tile_rows) add_strip<tile_rows, order>(a + i * down, stride, count, x, y + i * lanes, lanes);
        for (; i < rows; ++i) add_strip<1, order>(a + i * down, stride, count, x, y + i * lanes, lanes);
    }
}

inline void add_products(Order order, const double* a, Size stride, Size rows, Size columns, const double* x, double* y, Size lanes) {
    if (order == Order::by_row) add_products<Order::by_row>(a, stride, rows, columns, x, y, lanes);
    else add_products<Order::by_column>(a, stride, rows, columns, x, y, lanes);
}

}  // namespace salsa::SALSA_ISA
