// Base kernels k(t) of single features, t = x_j - z_j: one struct each, and the list of all at the end of this file. Codes,
// names and dispatch follow from the list; docs/howto/base_kernel.md adds a kernel.
//
// A struct holds
//     name                its name in Python
//     rate(h)             a number that stands for the bandwidth h in the sweeps; 0 for an infinite h, which must give k = 1
//     limit(rate, floor)  the distance |t| beyond which k is constant, where it has come down to about 2^-floor: nothing overflows
//     value(f, t)         k(t) of a pack of differences
//     slope(f, t, k)      dk / dlog h, given k = k(t)
// and, if k = p(r) e^-r with r >= 0 and p(r) <= e^r, for products of many features by one exponential (product.hpp)
//     nats(f, t)          r
//     polynomial[]        the coefficients of p, 1 first; none if p = 1
//     ratio(r)            dlog k / dlog h
// with f.rate and f.limit as computed by the first two. k(0) = 1, k >= 0, and k depends on t / h alone. What blocks need is
// written for packs P of doubles and of floats; derivatives need packs of doubles alone.
//
// Every base kernel also exists on a circle of circumference 1, as Cyclic<Base>, whose code is `cyclic_code` larger.
#pragma once

#include "kernel.hpp"
#include "simd32.hpp"

namespace salsa::SALSA_ISA {

constexpr double ln2 = 0.693147180559945309417232121458176568, log2e = 1.44269504088896340736;
constexpr double log2_floor = 1000.0;  // base kernels end at 2^-1000, so that exponents never leave the range of a double
constexpr double largest = 0x1.fffffffffffffp+1023;

// The distance a at which 2^-(rate a) reaches the floor; finite, because 0 times it must be 0
inline double reach(double rate, double floor) { return rate > 0 ? floor / rate : largest; }

inline Pack distance(const Feature& f, Pack t) { return min_abs(t, Pack(f.limit)); }
inline Pack32 distance(const Feature& f, Pack32 t) { return min_abs(t, Pack32(f.single.limit)); }
inline Pack rate_like(Pack, const Feature& f) { return Pack(f.rate); }
inline Pack32 rate_like(Pack32, const Feature& f) { return Pack32(f.single.rate); }
// r, for kernels that are a polynomial in r times e^-r
inline Pack exponent(const Feature& f, Pack a) { return a * Pack(f.rate * ln2); }
inline Pack32 exponent(const Feature& f, Pack32 a) { return a * Pack32(f.single.nats); }

struct Gaussian {  // exp(-t^2 / (2 h^2))
    static constexpr const char* name = "gaussian";
    static double rate(double h) { return log2e / 2 / (h * h); }
    static double limit(double rate, double floor) { return __builtin_sqrt(reach(rate, floor)); }
    template <class P>
    static P value(const Feature& f, P t) {
        const P a = distance(f, t);
        return exp2_neg(a * rate_like(a, f), a);
    }
    static Pack slope(const Feature& f, Pack t, Pack k) {  // (t / h)^2 k
        const Pack a = distance(f, t);
        return Pack(2.0) * exponent(f, a) * a * k;
    }
    template <class P>
    static P nats(const Feature& f, P t) {
        const P a = distance(f, t);
        return exponent(f, a) * a;
    }
    static Pack ratio(Pack r) { return r + r; }
};

struct Laplace {  // e^-r, r = |t| / h
    static constexpr const char* name = "laplace";
    static double rate(double h) { return log2e / h; }
    static double limit(double rate, double floor) { return reach(rate, floor); }
    template <class P>
    static P value(const Feature& f, P t) { return exp2_neg(distance(f, t), rate_like(t, f)); }
    static Pack slope(const Feature& f, Pack t, Pack k) { return exponent(f, distance(f, t)) * k; }  // r e^-r
    template <class P>
    static P nats(const Feature& f, P t) { return exponent(f, distance(f, t)); }
    static Pack ratio(Pack r) { return r; }
};

struct Matern32 {  // (1 + r) e^-r, r = sqrt(3) |t| / h
    static constexpr const char* name = "matern32";
    static double rate(double h) { return __builtin_sqrt(3.0) * log2e / h; }
    static double limit(double rate, double floor) { return reach(rate, floor); }
    template <class P>
    static P value(const Feature& f, P t) {
        const P a = distance(f, t), decay = exp2_neg(a, rate_like(a, f));
        return fma(exponent(f, a), decay, decay);
    }
    static Pack slope(const Feature& f, Pack t, Pack) {  // r^2 e^-r
        const Pack a = distance(f, t), r = exponent(f, a);
        return r * r * exp2_neg(a, Pack(f.rate));
    }
    template <class P>
    static P nats(const Feature& f, P t) { return exponent(f, distance(f, t)); }
    static constexpr double polynomial[] = {1.0, 1.0};
    static Pack ratio(Pack r) { return r * r / (r + Pack(1.0)); }
};

struct Matern52 {  // (1 + r + r^2/3) e^-r, r = sqrt(5) |t| / h
    static constexpr const char* name = "matern52";
    static double rate(double h) { return __builtin_sqrt(5.0) * log2e / h; }
    static double limit(double rate, double floor) { return reach(rate, floor); }
    template <class P>
    static P value(const Feature& f, P t) {
        const P a = distance(f, t), decay = exp2_neg(a, rate_like(a, f)), r = exponent(f, a);
        return fma(fma(r, P(1.0 / 3.0), P(1.0)) * r, decay, decay);
    }
    static Pack slope(const Feature& f, Pack t, Pack) {  // r^2 (1 + r)/3 e^-r
        const Pack a = distance(f, t), r = exponent(f, a);
        return r * r * fma(r, Pack(1.0 / 3.0), Pack(1.0 / 3.0)) * exp2_neg(a, Pack(f.rate));
    }
    template <class P>
    static P nats(const Feature& f, P t) { return exponent(f, distance(f, t)); }
    static constexpr double polynomial[] = {1.0, 1.0, 1.0 / 3.0};
    static Pack ratio(Pack r) { return r * fma(r, r, r) / fma(r, r + Pack(3.0), Pack(3.0)); }
};

struct Equality {  // 1 if t = 0, else 0: categories have no bandwidth
    static constexpr const char* name = "equality";
    static double rate(double) { return 0.0; }
    static double limit(double, double) { return largest; }
    template <class P>
    static P value(const Feature&, P t) { return equal(t, P(0.0)); }
    static Pack slope(const Feature&, Pack, Pack) { return Pack(0.0); }
};

// The coefficients of sin(pi r) / pi in r, r^3, r^5, ...
struct SineSeries {
    double coefficient[11];
};
template <class P>
constexpr int sine_terms = 11;  // as many as doubles need
template <>
constexpr int sine_terms<Pack32> = 7;

constexpr SineSeries sine_series() {
    constexpr double pi = 3.14159265358979323846;
    SineSeries sine{{1.0}};
    for (int k = 1; k < 11; ++k) sine.coefficient[k] = -sine.coefficient[k - 1] * pi * pi / (2.0 * k * (2.0 * k + 1.0));
    return sine;
}

// The chord sin(pi t) / pi between two points on a circle of circumference 1, for a difference |t| < 2^22 of their places. It is near t
// for a small t, and periodic up to its sign. The series is exact to rounding, as the remainder of t is at most a half.
template <class P>
inline P chord(P t) {
    constexpr SineSeries sine = sine_series();
    const P r = remainder_of_turns(t), square = r * r;
    P sum(sine.coefficient[sine_terms<P> - 1]);
    for (int k = sine_terms<P> - 2; k >= 0; --k) sum = fma(sum, square, P(sine.coefficient[k]));
    return sum * r;
}

// The base kernel of the chord: positive definite on the circle, because the base kernel is positive definite in the plane
template <class Base>
struct Cyclic : Base {
    template <class P>
    static P value(const Feature& f, P t) { return Base::value(f, chord(t)); }
    static Pack slope(const Feature& f, Pack t, Pack k) { return Base::slope(f, chord(t), k); }
    template <class P, class B = Base>
    static auto nats(const Feature& f, P t) -> decltype(B::nats(f, t)) { return B::nats(f, chord(t)); }
};

// The place of a base kernel in the list is its code.
template <class... Base>
struct List {
    static constexpr int size = sizeof...(Base);
    static constexpr const char* names[] = {Base::name...};

    // f(base) with the base kernel of this code: one predictable branch per feature and tile.
    template <class F>
    static void with(int code, F f) {
        int place = 0;
        if (code < cyclic_code) (void)((code == place++ && (f(Base{}), true)) || ...);
        else (void)((code - cyclic_code == place++ && (f(Cyclic<Base>{}), true)) || ...);
    }
};

using Bases = List<Gaussian, Laplace, Matern32, Matern52, Equality>;

}  // namespace salsa::SALSA_ISA
