// The parameters of an additive kernel for the sweeps
//
//     k(x, z) = sum_{m=0..d} weight_m e_m(a_1 k_1(x_1, z_1), ..., a_D k_D(x_D, z_D))
//
// and the table of sweeps that every instruction set fills in. A sweep handles one row x (D,) against one panel of
// `panel_width` points z, stored column by column: panel[j * panel_width + c] = z_c's column j.
//
// A missing value stands for the distribution of its feature: k_j is then the mean of k_j over it. A feature with missing
// values has three columns: the value x_j (NaN if missing), k_j of x_j and a missing value, and the derivative of this
// k_j with respect to log h_j.
#pragma once

#include <cstddef>

namespace salsa {

using Size = std::ptrdiff_t;

constexpr int panel_width = 32;
constexpr int single_width = 64;  // points of a panel in float32
constexpr int cyclic_code = 64;  // added to the code of a base kernel for a feature on a circle of circumference 1
constexpr int lane_step = 8;  // rows side by side come in multiples of this many lanes

struct Feature {
    int base;          // its place in the list of bases.hpp, where rate and limit are explained; cyclic_code more on a circle
    double relevance;  // a_j
    double rate;       // rate of the base kernel for bandwidth h_j
    double limit;      // |t| beyond which the base kernel is constant
    int column;        // its first column
    bool missing;      // whether it has missing values, and three columns
    double bandwidth;  // h_j
    struct {           // what blocks in float32 read of it, rounded once
        float relevance, rate, nats, limit;  // nats: the rate times ln 2
        float polynomial[4];                 // for k = p(r) e^-r: coefficients of a_j p in r / ln 2
    } single;
};

struct Kernel {
    int D, d;
    int lowest;              // smallest order with a weight: orders below it may be abandoned on the way
    const Feature* feature;  // (D,)
    const double* weight;    // (d+1,)
    bool missing;            // whether any feature has missing values
    bool product;            // d = D, no other order has a weight, no value is missing, no relevance is 0: product.hpp
};

struct Sum {  // k_1 + ... + k_T; the terms read the same columns, each those of its features
    const Kernel* begin_;
    int count;
    const Kernel* begin() const { return begin_; }
    const Kernel* end() const { return begin_ + count; }
};

struct Single {  // a sum in float32: rates and limits of its features are in the units of their columns (coordinates.hpp)
    Sum sum;
    int columns;
};

struct Gradient {      // sums over pairs of dL/dK times dK/dparameter, one lane per column
    double* relevance;  // (D, panel_width)
    double* log_bandwidth;  // (D, panel_width)
    double* weight;     // (d+1, panel_width)
};

struct Rule {  // Gauss-Legendre on [0, 1]
    int nodes;
    const double *node, *weight;  // (nodes,)
};

// One of the two kernels of a covariance. Its states count the means of features outside S, or, where that takes fewer states,
// the features that it leaves out: a product of all features leaves none out.
struct Side {
    int d, lowest;  // orders 0..d have weights, and `lowest` is the smallest order whose weight is not zero
    bool counts_left_out;
};

struct Range { int low, high; };

struct States {  // E_s[a, b] of a covariance, a matrix (rows, columns) whose first state has the place `first` among all states
    int rows, columns;
    Range a, b;  // the numbers that can still reach an order with a weight
    Size first;
};

struct Moments {  // of the base kernels k at x and l at z under the background, feature by feature; both kernels use all D features
    int D, d;              // d is the smaller of both
    Side x, z;
    Size size;             // number of all states
    const States* states;  // (D+1, d+1): of every s, after 0..D features
    const double* x_weight;  // (d_x+1,)
    const double* z_weight;  // (d_z+1, panel_width)
    const double* x_mean;    // (D,): a_j mean_X k_j(X, x)
    const double* z_mean;    // (D, panel_width): b_j mean_X l_j(X, z_c)
    const double* product;   // (D, panel_width): a_j b_j times the covariance over X of k_j(X, x) and l_j(X, z_c)
};

enum class Order { by_row, by_column };

struct Sweeps {
    // out (panel_width,): k(x, z_c). scratch: scratch_values(d) doubles.
    void (*values)(const Kernel&, const double* x, const double* panel, double* scratch, double* out);
    // out[m * stride + c]: weight_m e_m for every order m = 0..d. Same scratch.
    void (*orders)(const Kernel&, const double* x, const double* panel, double* scratch, double* out, Size stride);
    // g (panel_width,): dL/dK of these pairs; adds to `sum`. scratch: scratch_adjoint(D, d) doubles. For a product, nothing is
    // added to sum.relevance: these derivatives follow from sum.weight.
    void (*adjoint)(const Kernel&, const double* x, const double* panel, const double* g, double* scratch, const Gradient& sum);
    // out (n, 2): the mean of k_j(x_i, .) over points z (m,) of weight w (m,), m a multiple of panel_width, and its derivative
    // with respect to log h_j.
    void (*embed)(const Feature&, const double* x, Size n, const double* z, const double* w, Size m, double* out);
    // out (D, panel_width): the Shapley values of k(x, z_c), where mean (D, panel_width) replaces a feature left out:
    // a_j mean_X k_j(X, z_c). scratch: scratch_shapley(D, d) doubles.
    void (*shapley)(const Kernel&, const Rule&, const double* x, const double* panel, const double* mean, double* scratch, double* out);
    // g (panel_width,): adds g times the covariances of k(X, x) and l(X, z_c), of every order from 3 to the smaller d (d-2, panel_width),
    // and of their parts with each feature (D, panel_width). scratch: scratch_covariance doubles.
    void (*covariance)(const Moments&, const double* g, double* scratch, double* by_order, double* by_feature);
    // y (rows, lanes): adds sum_j A_ij x_j to y_i, j ascending; x (columns, lanes), lanes a multiple of lane_step. A_ij stands at
    // a[i * stride + j] (by row) or a[j * stride + i] (by column).
    void (*add_products)(Order, const double* a, Size stride, Size rows, Size columns, const double* x, double* y, Size lanes);
    // out (single_width,): the sum of all terms in float32. x (2, columns), panel (2, columns, single_width): the high and the low
    // parts of coordinates. tile: tile_single(columns) floats. scratch: scratch_single(D, d) doubles, for the largest D and d.
    void (*single)(const Single&, const float* x, const float* panel, float* tile, double* scratch, float* out);
    // t (rows, columns), v (q, columns), u (q, rows) or null: out (q, rows) = v t', and with u, across (q, columns) += u t.
    void (*tile_product32)(const float* t, Size rows, Size columns, const float* v, const float* u, int q, float* out, float* across);
    void (*tile_product64)(const double* t, Size rows, Size columns, const double* v, const double* u, int q, double* out, double* across);
};

constexpr Size scratch_values(int d) { return (d + Size(1)) * panel_width; }
constexpr Size tile_single(int columns) { return Size(columns) * single_width + (columns + Size(15)) / 16 * 16; }
constexpr Size scratch_single(int D, int d) { return (D + Size(4)) * single_width + (d + Size(2)) * panel_width; }
constexpr Size scratch_adjoint(int D, int d) { return ((D + Size(2)) * (d + Size(1)) + Size(1) + Size(3) * D) * panel_width; }
constexpr Size scratch_shapley(int D, int d) { return ((D + Size(2)) * (d + Size(1)) + Size(1) + Size(2) * D) * panel_width; }

constexpr Size scratch_covariance(int D, Size states) { return (D + Size(2)) * states * panel_width; }

namespace portable { extern const Sweeps sweeps; }
#ifdef SALSA_X86
namespace avx2 { extern const Sweeps sweeps; }
namespace avx512 { extern const Sweeps sweeps; }
#endif

}  // namespace salsa
