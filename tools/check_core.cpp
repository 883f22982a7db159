// The core without Python: blocks of every base kernel and order against sums over all subsets of features, the same bits
// for any number of threads, and triangular solves and products whose rows have the same bits alone and beside others. For processors that tests in Python do not reach: `make test-aarch64` runs it in an emulator.
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "../src/cpp/bases.hpp"
#include "../src/cpp/block.hpp"
#include "../src/cpp/linear.hpp"

namespace {

using salsa::portable::Bases;

constexpr int D = 6;
constexpr salsa::Size n = 70, m = 45;  // neither is a multiple of the panels' width

std::vector<double> uniform(size_t count, unsigned seed) {
    std::vector<double> values(count);
    for (double& value : values) value = double((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 24) * 4 - 2;
    return values;
}

const std::map<std::string, double (*)(double)> formulas = {  // of s = |t| / h
    {"gaussian", [](double s) { return std::exp(-s * s / 2); }},
    {"laplace", [](double s) { return std::exp(-s); }},
    {"matern32", [](double s) { return (1 + std::sqrt(3.0) * s) * std::exp(-std::sqrt(3.0) * s); }},
    {"matern52", [](double s) { return (1 + std::sqrt(5.0) * s + 5 * s * s / 3) * std::exp(-std::sqrt(5.0) * s); }},
    {"equality", [](double s) { return s == 0 ? 1.0 : 0.0; }},
};

// By its formula, or by the core itself where none is given here: then only the recursion is judged.
double base_kernel(const salsa::Feature& f, double t, double h) {
    const auto formula = formulas.find(Bases::names[f.base]);
    if (formula != formulas.end()) return formula->second(std::fabs(t) / h);
    double lanes[salsa::portable::Pack::width];
    Bases::with(f.base, [&](auto base) { base.value(f, salsa::portable::Pack(t)).store(lanes); });
    return lanes[0];
}

salsa::Feature feature(int code, double relevance, double h, int column) {
    salsa::Feature feature{code, relevance, 0.0, 0.0, column, false};
    Bases::with(code, [&](auto base) { feature.rate = base.rate(h), feature.limit = base.limit(feature.rate, salsa::portable::log2_floor); });
    return feature;
}

// sum over subsets S of weight_|S| prod_{j in S} a_j k_j
double over_subsets(const salsa::Kernel& kernel, const double* x, const double* z, double h) {
    double sum = 0;
    for (unsigned subset = 0; subset < 1u << D; ++subset) {
        int order = 0;
        double product = 1;
        for (int j = 0; j < D; ++j)
            if (subset >> j & 1) product *= kernel.feature[j].relevance * base_kernel(kernel.feature[j], x[j] - z[j], h), ++order;
        if (order <= kernel.d) sum += kernel.weight[order] * product;
    }
    return sum;
}

// Whether R'x = b and R x = b are solved, and whether every row of the result has the bits that it has by itself
bool rows_are_right() {
    std::vector<double> R = uniform(n * n, 3), B = uniform(m * n, 4);
    for (salsa::Size i = 0; i < n; ++i) {
        std::fill_n(&R[i * n], i, 0.0);
        R[i * n + i] = 20;
    }
    const salsa::Sweeps& sweeps = salsa::portable::sweeps;
    for (const bool backward : {false, true}) {
        std::vector<double> X = B, product(m * n), alone(n), transposed(n * n);
        for (salsa::Size i = 0; i < n * n; ++i) transposed[i] = R[i % n * n + i / n];
        salsa::solve(sweeps, R.data(), n, X.data(), m, backward, 2);
        salsa::times(sweeps, X.data(), m, n, (backward ? R : transposed).data(), n, backward, product.data(), 2);
        for (salsa::Size i = 0; i < m * n; ++i)
            if (std::fabs(product[i] - B[i]) > 1e-13) return false;
        for (salsa::Size row = 0; row < m; ++row) {
            alone.assign(&B[row * n], &B[row * n] + n);
            salsa::solve(sweeps, R.data(), n, alone.data(), 1, backward, 1);
            if (!std::equal(alone.begin(), alone.end(), &X[row * n])) return false;
            std::vector<double> one(n);
            salsa::times(sweeps, alone.data(), 1, n, (backward ? R : transposed).data(), n, backward, one.data(), 1);
            if (!std::equal(one.begin(), one.end(), &product[row * n])) return false;
        }
    }
    return true;
}

}  // namespace

int main() {
    if (!rows_are_right()) return std::puts("rows are solved wrongly, or have other bits beside other rows"), 1;
    const std::vector<double> X = uniform(n * D, 1);
    std::vector<double> Z = uniform(m * D, 2);
    std::copy_n(X.begin(), 3 * D, Z.begin());  // some equal values, for the equality kernel
    const double h = 0.8;
    double worst = 0;
    for (int base = 0; base < Bases::size; ++base)
        for (int d = 1; d <= D; ++d) {
            std::vector<salsa::Feature> features;
            for (int j = 0; j < D; ++j) features.push_back(feature(base, 0.5 + 0.3 * j, h, j));
            std::vector<double> weight(d + 1);
            for (int order = 0; order <= d; ++order) weight[order] = 1.0 / (1 + order);
            const salsa::Kernel kernel{D, d, 0, features.data(), weight.data(), false};
            std::vector<double> K(n * m), again(n * m);
            const salsa::DoublePairs pairs{salsa::portable::sweeps, {&kernel, 1}, {X.data(), n, D}, salsa::Panels({Z.data(), m, D})};
            salsa::block(pairs, K.data(), m, 1);
            salsa::block(pairs, again.data(), m, 3);
            if (K != again) return std::puts("three threads give other bits than one"), 1;
            for (salsa::Size i = 0; i < n; ++i)
                for (salsa::Size l = 0; l < m; ++l) {
                    const double exact = over_subsets(kernel, &X[i * D], &Z[l * D], h);
                    worst = std::fmax(worst, std::fabs(K[i * m + l] - exact) / exact);
                }
        }
    std::printf("%d base kernels, orders 1 to %d: largest relative error %.1e\n", Bases::size, D, worst);
    return worst < 1e-14 ? 0 : 1;
}
