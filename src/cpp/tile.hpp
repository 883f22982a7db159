// Products of a tile T (rows, columns) of a symmetric matrix, in float32 or float64, with a few vectors. Both halves of the
// matrix that the tile stands for are served by one reading of it, because reading is what takes the time:
//     out_c = T v_c,      across_c += T'u_c      c = 0..q-1
#pragma once

#include "kernel.hpp"
#include "simd.hpp"

namespace salsa::SALSA_ISA {

template <class Number>
struct Register {
    static constexpr int bytes = SALSA_LEVEL == 2 ? 64 : SALSA_LEVEL == 1 ? 32 : 16, width = bytes / sizeof(Number);
    typedef Number Lanes __attribute__((vector_size(bytes)));
    typedef Number Unaligned __attribute__((vector_size(bytes), aligned(sizeof(Number)), may_alias));
    static Lanes load(const Number* at) { return *reinterpret_cast<const Unaligned*>(at); }
    static void store(Number* at, Lanes lanes) { *reinterpret_cast<Unaligned*>(at) = lanes; }
};

constexpr int strip_rows = 4, strip_vectors = SALSA_LEVEL == 2 ? 6 : 3;  // sums that fit into the registers

// A few rows of the tile from `t` on, with q vectors: out (q, .) of stride `height`, across (q, columns)
template <int rows, int q, class Number>
inline void tile_strip(const Number* t, Size columns, const Number* v, const Number* u, Size height, Number* out, Number* across) {
    using R = Register<Number>;
    const Size whole = columns / R::width * R::width;
    typename R::Lanes sum[rows][q] = {};
    for (Size j = 0; j < whole; j += R::width)
        for (int c = 0; c < q; ++c) {
            const auto at = R::load(v + c * columns + j);
            for (int i = 0; i < rows; ++i) sum[i][c] += R::load(t + i * columns + j) * at;
        }
    for (int i = 0; i < rows; ++i)
        for (int c = 0; c < q; ++c) {
            Number total = 0;
            for (int lane = 0; lane < R::width; ++lane) total += sum[i][c][lane];
            for (Size j = whole; j < columns; ++j) total += t[i * columns + j] * v[c * columns + j];
            out[c * height + i] = total;
        }
    if (!u) return;
    for (Size j = 0; j < whole; j += R::width) {
        typename R::Lanes at[rows];
        for (int i = 0; i < rows; ++i) at[i] = R::load(t + i * columns + j);
        for (int c = 0; c < q; ++c) {
            auto total = R::load(across + c * columns + j);
            for (int i = 0; i < rows; ++i) total += at[i] * u[c * height + i];
            R::store(across + c * columns + j, total);
        }
    }
    for (int c = 0; c < q; ++c)
        for (Size j = whole; j < columns; ++j)
            for (int i = 0; i < rows; ++i) across[c * columns + j] += t[i * columns + j] * u[c * height + i];
}

template <int q, class Number>
inline void tile_vectors(const Number* t, Size rows, Size columns, const Number* v, const Number* u, Number* out, Number* across) {
    Size i = 0;
    for (; i + strip_rows <= rows; i += strip_rows)
        tile_strip<strip_rows, q>(t + i * columns, columns, v, u ? u + i : u, rows, out + i, across);
    for (; i < rows; ++i) tile_strip<1, q>(t + i * columns, columns, v, u ? u + i : u, rows, out + i, across);
}

// v (q, columns), u (q, rows) or null: then `across` is not touched; out (q, rows), across (q, columns)
template <class Number>
inline void tile_product(const Number* t, Size rows, Size columns, const Number* v, const Number* u, int q, Number* out, Number* across) {
    for (int c = 0; c < q; c += strip_vectors) {
        const auto with = [&](auto product) {
            product(t, rows, columns, v + c * columns, u ? u + c * rows : u, out + c * rows, across + c * columns);
        };
        switch (q - c) {
            case 1: with(tile_vectors<1, Number>); break;
            case 2: with(tile_vectors<2, Number>); break;
#if SALSA_LEVEL == 2
            case 3: with(tile_vectors<3, Number>); break;
            case 4: with(tile_vectors<4, Number>); break;
            case 5: with(tile_vectors<5, Number>); break;
#endif
            default: with(tile_vectors<strip_vectors, Number>);
        }
    }
}

}  // namespace salsa::SALSA_ISA
