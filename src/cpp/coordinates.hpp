// Rows and kernels as the sweeps in float32 take them, and whether float32 can hold them. No Python.
//
// A value x of a column becomes u = (x - centre) / unit, stored as two floats, high + low = u to 48 bits: differences of u are then
// exact to a float's rounding where values are large beside the bandwidth, such as years. The unit of a column is its smallest
// bandwidth. The centre comes from Z alone: a row of X has the same coordinates whatever rows stand beside it.
// The unit of a column on a circle is its circumference, and its high parts are multiples of 2^-12, whose differences are exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "block.hpp"
#include "product.hpp"

namespace salsa {

// Pairs of rows in float32 for `block` and `symmetric_block`
struct SinglePairs {
    using Value = float;
    static constexpr int width = single_width;
    const Sweeps& sweeps;
    const Single kernel;
    const PointsOf<float> X;  // (n, 2 columns): high parts, then low parts
    const PanelsOf<float, single_width> panels;
    const int D, d;  // the largest of all terms
    Size n() const { return X.n; }
    Size scratch() const { return scratch_single(D, d) + tile_size(); }
    Size tile_size() const { return tile_single(kernel.columns) / 2; }  // in doubles
    void values(Size i, Size p, double* work, float* out) const {
        sweeps.single(kernel, X.row(i), panels[p], reinterpret_cast<float*>(work), work + tile_size(), out);
    }
};

class Coordinates {
  public:
    Coordinates(const Sum& sum, const Points& X, const Points& Z) : columns_(X.columns), n_(X.n), m_(Z.n) {
        for (const Kernel& term : sum)
            for (int j = 0; j < term.D; ++j) measure(term.feature[j]);
        for (Scale& scale : scales_) locate(scale, Z);
        for (const Kernel& term : sum) accurate_ = accurate_ && holds(term);
        for (const Scale& scale : scales_) accurate_ = accurate_ && holds(scale, X, Z);
        if (!accurate_) return;
        add_terms(sum);
        x_ = split(X);
        z_ = X.data == Z.data && X.n == Z.n ? x_ : split(Z);
    }
    bool accurate() const { return accurate_; }  // whether K has float32's accuracy; nothing else may be asked for if not
    SinglePairs pairs(const Sweeps& sweeps) const {
        int D = 0, d = 0;
        for (const Kernel& term : terms_) D = std::max(D, term.D), d = std::max(d, term.d);
        const Single kernel{{terms_.data(), int(terms_.size())}, columns_};
        const PointsOf<float> Z{z_.data(), m_, 2 * columns_};
        return {sweeps, kernel, {x_.data(), n_, 2 * columns_}, PanelsOf<float, single_width>(Z), D, d};
    }

  private:
    static constexpr double circle_grid = 0x1p+12;     // parts of a circle whose differences floats hold exactly
    static constexpr double circle_turns = 0x1p+9;     // most turns from the centre for which they do
    static constexpr double circle_narrowest = 1e-4;   // smallest bandwidth beside which the rounding of low parts is nothing

    struct Scale {  // of a column of values
        int column;
        bool missing, category, cyclic, constant;  // constant: no feature has a finite bandwidth
        double unit, widest;               // the smallest and the largest finite bandwidth
        double centre;
        double of(double x) const { return constant ? (std::isnan(x) ? x : 0.0) : (x - centre) / unit; }
        double high(double u) const { return cyclic ? std::nearbyint(u * circle_grid) / circle_grid : float(u); }
        double low(double u) const { return float(u - high(u)); }
    };
    static constexpr double floor = 120.0;     // base kernels end at 2^-120, so that exponents never leave the range of a float
    static constexpr double far = 0x1p+23;     // two floats hold u to 2^-25 of a bandwidth up to here
    static constexpr double beyond = 1e37;     // and nothing that is larger
    static constexpr double widest_ratio = 1e15;    // of two bandwidths in a column
    static constexpr double smallest_ratio = 1e-9;  // of relevances whose products of four are floats

    static bool is_category(const Feature& f) {
        bool category = false;
        portable::Bases::with(f.base, [&](auto base) { category = base.rate(1.0) == 0.0; });
        return category;
    }

    Scale& scale_of(int column) {
        const auto found = std::find_if(scales_.begin(), scales_.end(), [&](const Scale& scale) { return scale.column == column; });
        if (found != scales_.end()) return *found;
        scales_.push_back({column, false, false, false, true, 1.0, 1.0, 0.0});
        return scales_.back();
    }

    void measure(const Feature& f) {
        Scale& scale = scale_of(f.column);
        scale.missing = scale.missing || f.missing;
        if (is_category(f)) {
            accurate_ = accurate_ && (scale.category || scale.constant);  // numbers, categories and circles want different units
            scale.category = true, scale.constant = false;
        } else if (f.base >= cyclic_code) {
            accurate_ = accurate_ && (scale.cyclic || scale.constant) && f.bandwidth >= circle_narrowest;
            scale.cyclic = true, scale.constant = false;
        } else if (std::isfinite(f.bandwidth)) {
            accurate_ = accurate_ && !scale.category && !scale.cyclic;
            scale.unit = scale.constant ? f.bandwidth : std::min(scale.unit, f.bandwidth);
            scale.widest = scale.constant ? f.bandwidth : std::max(scale.widest, f.bandwidth);
            scale.constant = false;
        }
    }

    // The centre: the median of a few values of Z, so that no outlier decides; categories keep their values
    static void locate(Scale& scale, const Points& Z) {
        constexpr Size few = 15;
        std::vector<double> values;
        for (Size k = 0; k < few && !scale.category; ++k) {
            const double z = Z.row(k * (Z.n - 1) / (few - 1))[scale.column];
            if (!std::isnan(z)) values.push_back(z);
        }
        if (values.empty()) return;
        std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
        scale.centre = values[values.size() / 2];
    }

    // e_m of relevances of at least `smallest`, weighted and added up: the diagonal of K
    static double diagonal(const Kernel& term, double smallest) {
        std::vector<double> e(term.d + 1);
        e[0] = 1.0;
        for (int j = 0; j < term.D; ++j)
            if (const double a = std::fabs(term.feature[j].relevance); a >= smallest)
                for (int m = term.d; m > 0; --m) e[m] += a * e[m - 1];
        double sum = 0.0;
        for (int m = 0; m <= term.d; ++m) sum += std::fabs(term.weight[m]) * e[m];
        return sum;
    }

    static double largest_relevance(const Kernel& term) {
        double largest = 0.0;
        for (int j = 0; j < term.D; ++j) largest = std::max(largest, std::fabs(term.feature[j].relevance));
        return largest;
    }

    // The largest relevance: it becomes 1, which no rounding changes; 1 for a product, whose relevances stay doubles
    static double scale_of(const Kernel& term) {
        const double largest = largest_relevance(term);
        return largest > 0 && !term.product ? largest : 1.0;
    }

    // Whether relevances that are too small for floats do not matter, and weights stay finite
    static bool holds(const Kernel& term) {
        const double all = diagonal(term, 0.0), without = diagonal(term, smallest_ratio * largest_relevance(term));
        for (int m = 0; m <= term.d; ++m)
            if (!std::isfinite(term.weight[m] * std::pow(scale_of(term), m))) return false;
        return std::isfinite(all) && (term.product || all - without <= 1e-8 * all);
    }

    // Whether u is precise enough wherever k is not small: values far from the centre must be equal, or far from each other
    static bool holds(const Scale& scale, const Points& X, const Points& Z) {
        if (scale.widest > widest_ratio * scale.unit) return false;
        std::vector<double> outside;
        for (const Points* points : {&X, &Z})
            for (Size i = 0; i < points->n; ++i) {
                const double x = points->row(i)[scale.column], u = scale.of(x);
                if (scale.category && !std::isnan(x) && scale.high(u) + scale.low(u) != x) return false;
                if (scale.cyclic && std::fabs(u) > circle_turns) return false;
                if (std::fabs(u) > beyond) return false;
                if (std::fabs(u) > far && !scale.category) outside.push_back(u);
            }
        std::sort(outside.begin(), outside.end());
        const double near = 32.0 * scale.widest / scale.unit;
        for (size_t k = 1; k < outside.size(); ++k)
            if (outside[k] != outside[k - 1] && outside[k] - outside[k - 1] < near) return false;
        return true;
    }

    std::vector<float> split(const Points& points) const {
        std::vector<float> parts(points.n * 2 * columns_);
        for (Size i = 0; i < points.n; ++i) {
            float* row = parts.data() + i * 2 * columns_;
            for (const Scale& scale : scales_) {
                const double u = scale.of(points.row(i)[scale.column]);
                row[scale.column] = float(scale.high(u)), row[columns_ + scale.column] = float(scale.low(u));
                if (scale.missing) row[scale.column + 1] = float(points.row(i)[scale.column + 1]);
            }
        }
        return parts;
    }

    // The terms in units: relevances a_j / c and weights w_m c^m, c = scale_of(term)
    void add_terms(const Sum& sum) {
        Size features = 0, weights = 0;
        for (const Kernel& term : sum) features += term.D, weights += term.d + 1;
        features_.reserve(features), weights_.reserve(weights);
        for (const Kernel& term : sum) {
            const double scale = scale_of(term);
            Kernel in_units = term;
            in_units.feature = features_.data() + features_.size(), in_units.weight = weights_.data() + weights_.size();
            for (int j = 0; j < term.D; ++j) features_.push_back(in_unit(term.feature[j], scale));
            for (int m = 0; m <= term.d; ++m) weights_.push_back(term.weight[m] * std::pow(scale, m));
            terms_.push_back(in_units);
        }
    }

    Feature in_unit(Feature f, double scale) {
        f.relevance /= scale;
        f.bandwidth /= scale_of(f.column).unit;
        portable::Bases::with(f.base, [&](auto base) {
            f.rate = base.rate(f.bandwidth);
            f.limit = std::min(base.limit(f.rate, floor), beyond);
            f.single = {float(f.relevance), float(f.rate), float(f.rate * portable::ln2), float(f.limit), {}};
            if constexpr (portable::has_polynomial<decltype(base)>(0)) {
                static_assert(sizeof(base.polynomial) / sizeof(double) <= sizeof(f.single.polynomial) / sizeof(float), "too high a degree");
                double unit = f.relevance;
                float* coefficient = f.single.polynomial;
                for (const double c : base.polynomial) *coefficient++ = float(c * unit), unit *= portable::ln2;
            }
        });
        return f;
    }

    const int columns_;
    const Size n_, m_;
    bool accurate_ = true;
    std::vector<Scale> scales_;
    std::vector<Feature> features_;
    std::vector<double> weights_;
    std::vector<Kernel> terms_;
    std::vector<float> x_, z_;
};

}  // namespace salsa
