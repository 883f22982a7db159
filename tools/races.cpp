// Every threaded function of the core, on four threads and on one, which must agree bit for bit. Built by tools/races.py with
// GCC's thread sanitizer, without Python.
#include <cstdio>
#include <functional>
#include <random>
#include <string>

#include "bases.hpp"
#include "block.hpp"
#include "linear.hpp"

using salsa::Size;
using Numbers = std::vector<double>;

Numbers random(Size count) {
    static std::mt19937 generator(0);
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    Numbers numbers(count);
    for (double& number : numbers) number = uniform(generator);
    return numbers;
}

int main() {
    const Size n = 200, m = 70, q = 2;
    const int D = 6;
    const Numbers x = random(n * D), z = random(m * D), V = random(m * q), G = random(n * m), H = random(n * n), means = random(m * D);
    const Numbers products = random(D * n * n), x_means = random(D * n), coef = random(n), nodes = random(3), node_weights = random(3);
    const salsa::Points X{x.data(), n, D}, Z{z.data(), m, D}, M{means.data(), m, D};
    const salsa::Sweeps& sweeps = salsa::portable::sweeps;
    const salsa::Rule rule{3, nodes.data(), node_weights.data()};
    int failures = 0;
    const auto compare = [&](const std::string& name, Size size, const std::function<void(double*, int)>& compute) {
        Numbers one(size), four(size);
        compute(one.data(), 1), compute(four.data(), 4);
        if (one == four) return;
        std::printf("%s depends on the number of threads\n", name.c_str());
        ++failures;
    };
    for (int d = 1; d <= D; ++d) {
        const Numbers weight = random(d + 1);
        std::vector<salsa::Feature> features;
        for (int j = 0; j < D; ++j) features.push_back({j % salsa::portable::Bases::size, 1.0, 1.0, 100.0, j, false});
        const salsa::Kernel kernel{D, d, 0, features.data(), weight.data(), false, false};
        const salsa::Sum sum{&kernel, 1};
        const salsa::DoublePairs pairs{sweeps, sum, X, salsa::Panels(Z)}, own{sweeps, sum, X, salsa::Panels(X)};
        compare("block", n * m, [&](double* out, int threads) { salsa::block(pairs, out, m, threads); });
        compare("symmetric block", n * n, [&](double* out, int threads) { salsa::symmetric_block(own, out, n, threads); });
        compare("orders", (d + 1) * n * m, [&](double* out, int threads) { salsa::orders(sweeps, kernel, X, Z, out, threads); });
        compare("product", n * q, [&](double* out, int threads) { salsa::product(sweeps, sum, X, Z, V.data(), q, out, threads); });
        compare("gradient", 2 * D + d + 1,
                [&](double* out, int threads) { salsa::gradient(sweeps, sum, X, Z, G.data(), false, out, threads); });
        compare("symmetric gradient", 2 * D + d + 1,
                [&](double* out, int threads) { salsa::gradient(sweeps, sum, X, X, H.data(), true, out, threads); });
        compare("shapley", n * D * q,
                [&](double* out, int threads) { salsa::shapley(sweeps, kernel, rule, X, Z, M, V.data(), q, out, threads); });
        if (d < 3) continue;
        const Numbers weights = random((d + 1) * n);
        const salsa::Anchors anchors{salsa::make_side(D, d, 0), x_means.data(), weights.data(), n};
        for (const bool symmetric : {false, true})
            compare("covariances", n * (d - 2 + D), [&](double* out, int threads) {
                salsa::covariances(sweeps, D, anchors, anchors, products.data(), n, 0, n, coef.data(), symmetric, out, threads);
            });
    }
    Numbers R = random(n * n);
    for (Size i = 0; i < n; ++i) R[i * n + i] += n;
    for (const bool flag : {false, true}) {
        compare("solve", n * n, [&](double* out, int threads) {
            std::copy(H.begin(), H.end(), out);
            salsa::solve(sweeps, R.data(), n, out, n, flag, threads);
        });
        compare("times", n * n, [&](double* out, int threads) {
            salsa::times(sweeps, H.data(), n, n, R.data(), n, flag, out, threads);
        });
    }
    std::printf("races: every threaded function on %d threads\n", 4);
    return failures;
}
