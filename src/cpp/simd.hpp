// One pack of doubles and the few operations the sweeps need, spelled three times: AVX-512, AVX2 + FMA, and plain C++.
// Each translation unit sees one spelling, inside a namespace of that name: no symbol of an AVX-512 build can be linked
// into the code of a machine that lacks it. For the same reason nothing here uses the standard library's templates.
#pragma once

#include <cstdint>

// SALSA_LEVEL is set by the build, not read off the compiler's flags: -march=native must not turn all builds into one.
#if SALSA_LEVEL == 2
#define SALSA_ISA avx512
#include <immintrin.h>
#elif SALSA_LEVEL == 1
#define SALSA_ISA avx2
#include <immintrin.h>
#else
#define SALSA_ISA portable
#endif

namespace salsa::SALSA_ISA {

// exp2_neg computes 2^-(a b) as 2^n (1 + r q(r)): n the product rounded to a grid, r = -(a b) - n in one rounding.
// Adding `shift` rounds to that grid: multiples of 1/16 with a table of 2^(i/16), or integers without one.
// q is the Chebyshev fit of (2^r - 1)/r on the grid's cell; its error is below 2e-17.

#if SALSA_LEVEL == 2

struct Pack {
    static constexpr int width = 8;
    __m512d v;
    Pack() = default;
    Pack(__m512d v) : v(v) {}
    explicit Pack(double x) : v(_mm512_set1_pd(x)) {}
    static Pack load(const double* p) { return _mm512_loadu_pd(p); }
    void store(double* p) const { _mm512_storeu_pd(p, v); }
};
inline Pack operator+(Pack a, Pack b) { return _mm512_add_pd(a.v, b.v); }
inline Pack operator-(Pack a, Pack b) { return _mm512_sub_pd(a.v, b.v); }
inline Pack operator*(Pack a, Pack b) { return _mm512_mul_pd(a.v, b.v); }
inline Pack operator/(Pack a, Pack b) { return _mm512_div_pd(a.v, b.v); }
inline Pack fma(Pack a, Pack b, Pack c) { return _mm512_fmadd_pd(a.v, b.v, c.v); }
inline Pack min_abs(Pack a, Pack limit) { return _mm512_range_pd(a.v, limit.v, 0b1010); }
inline Pack equal(Pack a, Pack b) {
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ), _mm512_set1_pd(1.0));
}
inline Pack where_nan(Pack t, Pack a, Pack b) {  // a where t is not a number, else b
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(t.v, t.v, _CMP_UNORD_Q), b.v, a.v);
}
inline Pack where_above(Pack t, Pack limit, Pack a, Pack b) {  // a where t > limit, else b
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(t.v, limit.v, _CMP_GT_OQ), b.v, a.v);
}

inline Pack exp2_neg(Pack a, Pack b) {
    const __m512d shift = _mm512_set1_pd(0x1.8p+48);
    const __m512d low = _mm512_setr_pd(0x1p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
                                       0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0);
    const __m512d high = _mm512_setr_pd(0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0,
                                        0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0);
    const __m512d k = _mm512_fnmadd_pd(a.v, b.v, shift);
    const Pack n = _mm512_sub_pd(k, shift);
    const Pack r = _mm512_fnmsub_pd(a.v, b.v, n.v);
    const Pack root = _mm512_permutex2var_pd(low, _mm512_castpd_si512(k), high);  // 2^(n - floor n)
    Pack q = fma(Pack(0x1.430a1d08ec681p-13), r, Pack(0x1.5d897e525c216p-10));
    q = fma(q, r, Pack(0x1.3b2ab6fb41213p-7));
    q = fma(q, r, Pack(0x1.c6b08d6f2a289p-5));
    q = fma(q, r, Pack(0x1.ebfbdff82c590p-3));
    q = fma(q, r, Pack(0x1.62e42fefa39f3p-1));
    return _mm512_scalef_pd(fma(root * r, q, root).v, n.v);
}

#elif SALSA_LEVEL == 1

struct Pack {
    static constexpr int width = 4;
    __m256d v;
    Pack() = default;
    Pack(__m256d v) : v(v) {}
    explicit Pack(double x) : v(_mm256_set1_pd(x)) {}
    static Pack load(const double* p) { return _mm256_loadu_pd(p); }
    void store(double* p) const { _mm256_storeu_pd(p, v); }
};
inline Pack operator+(Pack a, Pack b) { return _mm256_add_pd(a.v, b.v); }
inline Pack operator-(Pack a, Pack b) { return _mm256_sub_pd(a.v, b.v); }
inline Pack operator*(Pack a, Pack b) { return _mm256_mul_pd(a.v, b.v); }
inline Pack operator/(Pack a, Pack b) { return _mm256_div_pd(a.v, b.v); }
inline Pack fma(Pack a, Pack b, Pack c) { return _mm256_fmadd_pd(a.v, b.v, c.v); }
inline Pack min_abs(Pack a, Pack limit) { return _mm256_min_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v), limit.v); }
inline Pack equal(Pack a, Pack b) { return _mm256_and_pd(_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ), _mm256_set1_pd(1.0)); }
inline Pack where_nan(Pack t, Pack a, Pack b) { return _mm256_blendv_pd(b.v, a.v, _mm256_cmp_pd(t.v, t.v, _CMP_UNORD_Q)); }
inline Pack where_above(Pack t, Pack limit, Pack a, Pack b) {
    return _mm256_blendv_pd(b.v, a.v, _mm256_cmp_pd(t.v, limit.v, _CMP_GT_OQ));
}
inline Pack round_neg_product(Pack a, Pack b, Pack shift) { return _mm256_fnmadd_pd(a.v, b.v, shift.v); }
inline Pack remainder_neg(Pack a, Pack b, Pack n) { return _mm256_fnmsub_pd(a.v, b.v, n.v); }
inline Pack scale_by_power(Pack p, Pack shifted) {  // p 2^n, n in the low bits of `shifted`
    const __m256i exponent = _mm256_slli_epi64(_mm256_castpd_si256(shifted.v), 52);
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p.v), exponent));
}

#else  // two lanes by the compiler's vector extension (GCC, Clang): SSE2, NEON, or scalar code where there is neither

struct Pack {
    static constexpr int width = 2;
    typedef double Lanes __attribute__((vector_size(16)));
    typedef std::int64_t Bits __attribute__((vector_size(16)));
    Lanes v;
    Pack() = default;
    Pack(Lanes v) : v(v) {}
    explicit Pack(double x) : v{x, x} {}
    static Pack load(const double* p) { return Lanes{p[0], p[1]}; }
    void store(double* p) const { p[0] = v[0], p[1] = v[1]; }
};
inline Pack operator+(Pack a, Pack b) { return a.v + b.v; }
inline Pack operator-(Pack a, Pack b) { return a.v - b.v; }
inline Pack operator*(Pack a, Pack b) { return a.v * b.v; }
inline Pack operator/(Pack a, Pack b) { return a.v / b.v; }
inline Pack fma(Pack a, Pack b, Pack c) { return a.v * b.v + c.v; }
inline Pack min_abs(Pack a, Pack limit) {
    const Pack::Lanes size = a.v < -a.v ? -a.v : a.v;
    return size < limit.v ? size : limit.v;
}
inline Pack equal(Pack a, Pack b) { return a.v == b.v ? Pack(1.0).v : Pack(0.0).v; }
inline Pack where_nan(Pack t, Pack a, Pack b) { return t.v == t.v ? b.v : a.v; }
inline Pack where_above(Pack t, Pack limit, Pack a, Pack b) { return t.v > limit.v ? a.v : b.v; }
inline Pack round_neg_product(Pack a, Pack b, Pack shift) { return shift.v - a.v * b.v; }
inline Pack remainder_neg(Pack a, Pack b, Pack n) { return -(a.v * b.v) - n.v; }
inline Pack scale_by_power(Pack p, Pack shifted) {  // p 2^n, n in the low bits of `shifted`
    return (Pack::Lanes)((Pack::Bits)p.v + ((Pack::Bits)shifted.v << 52));
}

#endif

#if SALSA_LEVEL != 2

inline Pack exp2_neg(Pack a, Pack b) {
    const Pack shift(0x1.8p+52);
    const Pack k = round_neg_product(a, b, shift);
    const Pack r = remainder_neg(a, b, k - shift);
    Pack q = fma(Pack(0x1.e9d3fe3952179p-32), r, Pack(0x1.e6063f7217bc6p-28));
    q = fma(q, r, Pack(0x1.b524fae627834p-24));
    q = fma(q, r, Pack(0x1.62bfd47773353p-20));
    q = fma(q, r, Pack(0x1.ffcbfc670dcd4p-17));
    q = fma(q, r, Pack(0x1.430913096fd9fp-13));
    q = fma(q, r, Pack(0x1.5d87fe78a5276p-10));
    q = fma(q, r, Pack(0x1.3b2ab6fba1ddap-7));
    q = fma(q, r, Pack(0x1.c6b08d704a0c2p-5));
    q = fma(q, r, Pack(0x1.ebfbdff82c598p-3));
    q = fma(q, r, Pack(0x1.62e42fefa39efp-1));
    return scale_by_power(fma(q, r, Pack(1.0)), k);
}

#endif

constexpr int packs = 4;  // independent chains per sweep: hides the latency of the arithmetic

inline Pack remainder_of_turns(Pack t) {  // t minus the nearest integer, |t| < 2^51
    const Pack shift(0x1.8p+52);
    return t - ((t + shift) - shift);
}

inline void add_to(double* sum, Pack term) { (Pack::load(sum) + term).store(sum); }

}  // namespace salsa::SALSA_ISA
