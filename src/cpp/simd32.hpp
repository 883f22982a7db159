// One pack of floats, with the operations of simd.hpp that blocks in float32 need: twice the lanes of a pack of doubles.
// Sums and products of many features are accumulated in packs of doubles, which `load_widened` reads from floats.
#pragma once

#include "simd.hpp"

namespace salsa::SALSA_ISA {

#if SALSA_LEVEL == 2

struct Pack32 {
    static constexpr int width = 16;
    __m512 v;
    Pack32() = default;
    Pack32(__m512 v) : v(v) {}
    explicit Pack32(float x) : v(_mm512_set1_ps(x)) {}
    explicit Pack32(double x) : Pack32(float(x)) {}
    static Pack32 load(const float* p) { return _mm512_loadu_ps(p); }
    void store(float* p) const { _mm512_storeu_ps(p, v); }
};
inline Pack32 operator+(Pack32 a, Pack32 b) { return _mm512_add_ps(a.v, b.v); }
inline Pack32 operator-(Pack32 a, Pack32 b) { return _mm512_sub_ps(a.v, b.v); }
inline Pack32 operator*(Pack32 a, Pack32 b) { return _mm512_mul_ps(a.v, b.v); }
inline Pack32 fma(Pack32 a, Pack32 b, Pack32 c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
inline Pack32 min_abs(Pack32 a, Pack32 limit) { return _mm512_range_ps(a.v, limit.v, 0b1010); }
inline Pack32 equal(Pack32 a, Pack32 b) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ), _mm512_set1_ps(1.0f));
}
inline Pack32 where_nan(Pack32 t, Pack32 a, Pack32 b) {  // a where t is not a number, else b
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(t.v, t.v, _CMP_UNORD_Q), b.v, a.v);
}
inline Pack32 scale_by_power(Pack32 p, Pack32, Pack32 n) { return _mm512_scalef_ps(p.v, n.v); }
inline Pack32 scaled_product(Pack32 p, Pack32 q, Pack32 shifted, Pack32 n) { return p * scale_by_power(q, shifted, n); }  // p q 2^n
inline Pack load_widened(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
inline void store_narrowed(Pack a, float* p) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(a.v)); }

#elif SALSA_LEVEL == 1

struct Pack32 {
    static constexpr int width = 8;
    __m256 v;
    Pack32() = default;
    Pack32(__m256 v) : v(v) {}
    explicit Pack32(float x) : v(_mm256_set1_ps(x)) {}
    explicit Pack32(double x) : Pack32(float(x)) {}
    static Pack32 load(const float* p) { return _mm256_loadu_ps(p); }
    void store(float* p) const { _mm256_storeu_ps(p, v); }
};
inline Pack32 operator+(Pack32 a, Pack32 b) { return _mm256_add_ps(a.v, b.v); }
inline Pack32 operator-(Pack32 a, Pack32 b) { return _mm256_sub_ps(a.v, b.v); }
inline Pack32 operator*(Pack32 a, Pack32 b) { return _mm256_mul_ps(a.v, b.v); }
inline Pack32 fma(Pack32 a, Pack32 b, Pack32 c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
inline Pack32 min_abs(Pack32 a, Pack32 limit) { return _mm256_min_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v), limit.v); }
inline Pack32 equal(Pack32 a, Pack32 b) { return _mm256_and_ps(_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ), _mm256_set1_ps(1.0f)); }
inline Pack32 where_nan(Pack32 t, Pack32 a, Pack32 b) { return _mm256_blendv_ps(b.v, a.v, _mm256_cmp_ps(t.v, t.v, _CMP_UNORD_Q)); }
inline Pack32 scale_by_power(Pack32 p, Pack32 shifted, Pack32) {  // p 2^n, n in the low bits of `shifted`
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted.v), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p.v), exponent));
}
inline Pack32 scaled_product(Pack32 p, Pack32 q, Pack32 shifted, Pack32 n) { return q * scale_by_power(p, shifted, n); }  // q may be 0
inline Pack load_widened(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
inline void store_narrowed(Pack a, float* p) { _mm_storeu_ps(p, _mm256_cvtpd_ps(a.v)); }

#else  // four lanes by the compiler's vector extension

struct Pack32 {
    static constexpr int width = 4;
    typedef float Lanes __attribute__((vector_size(16)));
    typedef std::int32_t Bits __attribute__((vector_size(16)));
    Lanes v;
    Pack32() = default;
    Pack32(Lanes v) : v(v) {}
    explicit Pack32(float x) : v{x, x, x, x} {}
    explicit Pack32(double x) : Pack32(float(x)) {}
    static Pack32 load(const float* p) { return Lanes{p[0], p[1], p[2], p[3]}; }
    void store(float* p) const { p[0] = v[0], p[1] = v[1], p[2] = v[2], p[3] = v[3]; }
};
inline Pack32 operator+(Pack32 a, Pack32 b) { return a.v + b.v; }
inline Pack32 operator-(Pack32 a, Pack32 b) { return a.v - b.v; }
inline Pack32 operator*(Pack32 a, Pack32 b) { return a.v * b.v; }
inline Pack32 fma(Pack32 a, Pack32 b, Pack32 c) { return a.v * b.v + c.v; }
inline Pack32 min_abs(Pack32 a, Pack32 limit) {
    const Pack32::Lanes size = a.v < -a.v ? -a.v : a.v;
    return size < limit.v ? size : limit.v;
}
inline Pack32 equal(Pack32 a, Pack32 b) { return a.v == b.v ? Pack32(1.0).v : Pack32(0.0).v; }
inline Pack32 where_nan(Pack32 t, Pack32 a, Pack32 b) { return t.v == t.v ? b.v : a.v; }
inline Pack32 scale_by_power(Pack32 p, Pack32 shifted, Pack32) {
    return (Pack32::Lanes)((Pack32::Bits)p.v + ((Pack32::Bits)shifted.v << 23));
}
inline Pack32 scaled_product(Pack32 p, Pack32 q, Pack32 shifted, Pack32 n) { return q * scale_by_power(p, shifted, n); }
inline Pack load_widened(const float* p) { return Pack::Lanes{p[0], p[1]}; }
inline void store_narrowed(Pack a, float* p) { p[0] = float(a.v[0]), p[1] = float(a.v[1]); }

#endif

// 2^-y = 2^n p as in simd.hpp, y at most 126. No table: its entries would be rounded, which costs more than it saves. The polynomial
// is cut into three parts that do not wait for each other.
struct Power {
    Pack32 shifted, n, p;
    explicit Power(Pack32 y) {
        const Pack32 shift(0x1.8p+23);
        shifted = shift - y, n = shifted - shift;
        const Pack32 r = y + n, rr = r * r;
        const Pack32 low = fma(Pack32(0x1.ebfbe0p-3), r, Pack32(-0x1.62e430p-1));
        const Pack32 middle = fma(Pack32(0x1.3b2a54p-7), r, Pack32(-0x1.c6af6cp-5));
        const Pack32 high = fma(Pack32(0x1.44138ap-13), r, Pack32(-0x1.5f0890p-10));
        p = fma(fma(fma(high, rr, middle), rr, low), r, Pack32(1.0));
    }
};

inline Pack32 remainder_of_turns(Pack32 t) {  // t minus the nearest integer, |t| < 2^22
    const Pack32 shift(0x1.8p+23);
    return t - ((t + shift) - shift);
}

inline Pack32 exp2_neg(Pack32 a, Pack32 b) {  // 2^-(a b)
    const Power power(a * b);
    return scale_by_power(power.p, power.shifted, power.n);
}
inline Pack32 times_exp2_neg(Pack32 q, Pack32 y) {  // q 2^-y
    const Power power(y);
    return scaled_product(power.p, q, power.shifted, power.n);
}

}  // namespace salsa::SALSA_ISA
