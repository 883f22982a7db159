// What a sweep needs to know of an additive kernel
//
//     k(x, z) = sum_{m=0..d} weight_m e_m(a_1 k_1(x_1, z_1), ..., a_D k_D(x_D, z_D))
//
// and the table of sweeps that every instruction set fills in. A sweep handles one row x (D,) against one panel of
// `panel_width` points z, stored column by column: panel[j * panel_width + c] = z_c's column j.
//
// A missing value stands for the distribution of its feature: k_j is then the mean of k_j over it. A feature with missing
// values has three columns: the value (NaN if missing), k_j of it with a missing value, and the derivative of that with
// respect to log h_j.
#pragma once

#include <cstddef>

namespace salsa {

using Size = std::ptrdiff_t;

enum class Base : signed char { gaussian, laplace, matern32, matern52, equality };
constexpr int n_bases = 5;

constexpr int panel_width = 32;
constexpr double log2_floor = 1000.0;  // base kernels end at 2^-1000, so that exponents never leave the range of a double

struct Feature {
    Base base;
    double relevance;  // a_j
    double rate;       // base kernel = polynomial times 2^-(rate |t|^p), t = x_j - z_j; p = 2 for Gaussian, else 1
    double limit;      // |t| beyond which the base kernel rests at 2^-log2_floor
    int column;        // where its values stand
    bool missing;      // whether there are missing ones, and three columns
};

struct Kernel {
    int D, d;
    int lowest;              // smallest order with a weight: orders below it may be abandoned on the way
    const Feature* feature;  // (D,)
    const double* weight;    // (d+1,)
    bool missing;            // whether any feature has missing values
};

struct Gradient {      // sums over pairs of dL/dK times dK/dparameter, one lane per column
    double* relevance;  // (D, panel_width)
    double* log_bandwidth;  // (D, panel_width)
    double* weight;     // (d+1, panel_width)
};

struct Sweeps {
    // out (panel_width,): k(x, z_c). scratch: scratch_values(d) doubles.
    void (*values)(const Kernel&, const double* x, const double* panel, double* scratch, double* out);
    // out[m * stride + c]: weight_m e_m for every order m = 0..d. Same scratch.
    void (*orders)(const Kernel&, const double* x, const double* panel, double* scratch, double* out, Size stride);
    // g (panel_width,): dL/dK of these pairs; adds to `sum`. scratch: scratch_adjoint(D, d) doubles.
    void (*adjoint)(const Kernel&, const double* x, const double* panel, const double* g, double* scratch, const Gradient& sum);
    // out (n, 2): the mean of k_j(x_i, .) over points z (m,) of weight w (m,), m a multiple of panel_width, and its derivative
    // with respect to log h_j.
    void (*embed)(const Feature&, const double* x, Size n, const double* z, const double* w, Size m, double* out);
};

constexpr Size scratch_values(int d) { return (d + Size(1)) * panel_width; }
constexpr Size scratch_adjoint(int D, int d) { return ((D + Size(2)) * (d + Size(1)) + Size(1) + Size(3) * D) * panel_width; }

namespace portable { extern const Sweeps sweeps; }
#ifdef SALSA_X86
namespace avx2 { extern const Sweeps sweeps; }
namespace avx512 { extern const Sweeps sweeps; }
#endif

}  // namespace salsa
