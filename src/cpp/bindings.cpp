// nanobind: checks, threads, the GIL. No mathematics beyond the units of a bandwidth.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "bases.hpp"
#include "block.hpp"
#include "coordinates.hpp"
#include "linear.hpp"
#ifdef SALSA_X86
#include "cpu.hpp"
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // overwritten
using Cube = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const std::int8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::numpy, double>;
template <class Number>
using MatrixOf = nb::ndarray<const Number, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bases = salsa::portable::Bases;  // names, codes, rates and limits are the same at every level

void require(bool condition, const std::string& message) {
    if (!condition) throw nb::value_error(message.c_str());
}

void require_threads(int threads) { require(threads >= 1 && threads <= 4096, "n_threads: must lie between 1 and 4096"); }

// NumPy's arrays may start anywhere, as views of bytes do; a double may not.
template <class... Arrays>
void require_aligned(const Arrays&... arrays) {
    const bool aligned = (... && (arrays.size() == 0 || reinterpret_cast<std::uintptr_t>(arrays.data()) % alignof(typename Arrays::Scalar) == 0));
    require(aligned, "every array must be aligned; numpy.require(array, requirements='A') copies one that is not");
}

template <class Number>
nb::ndarray<nb::numpy, Number> new_array(std::unique_ptr<Number[]>& data, std::initializer_list<size_t> shape) {
    Number* raw = data.release();
    nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<Number*>(p); });
    return nb::ndarray<nb::numpy, Number>(raw, shape.size(), shape.begin(), owner);
}

std::unique_ptr<double[]> allocate(size_t count) { return std::unique_ptr<double[]>(new double[count ? count : 1]); }

std::vector<std::pair<std::string, const salsa::Sweeps*>> levels() {
    std::vector<std::pair<std::string, const salsa::Sweeps*>> found;
#ifdef SALSA_X86
    const salsa::Cpu cpu = salsa::cpu();
    if (cpu.avx512) found.emplace_back("avx512", &salsa::avx512::sweeps);
    if (cpu.avx2) found.emplace_back("avx2", &salsa::avx2::sweeps);
#endif
    found.emplace_back("portable", &salsa::portable::sweeps);
    return found;
}

std::vector<std::string> simd_levels() {
    std::vector<std::string> names;
    for (const auto& level : levels()) names.push_back(level.first);
    return names;
}

const salsa::Sweeps* find(const std::string& simd) {
    for (const auto& level : levels())
        if (simd == level.first) return level.second;
    return nullptr;
}

// The best level, or what the environment variable SALSA_SIMD said when it was first asked for.
const salsa::Sweeps& default_level() {
    static const char* const variable = std::getenv("SALSA_SIMD");
    static const std::string wanted = variable ? variable : "";
    static const salsa::Sweeps* const found = wanted.empty() ? levels().front().second : find(wanted);
    if (found) return *found;
    std::string available;
    for (const std::string& name : simd_levels()) available += (available.empty() ? "" : ", ") + name;
    throw nb::value_error(("SALSA_SIMD=" + wanted + " is not among the instruction sets of this machine: " + available).c_str());
}

const salsa::Sweeps& choose(const std::optional<std::string>& simd) {
    if (!simd) return default_level();
    if (const salsa::Sweeps* found = find(*simd)) return *found;
    throw nb::value_error(("this machine has no SIMD level '" + *simd + "'; see simd_levels()").c_str());
}

std::vector<std::string> base_kernels() { return {std::begin(Bases::names), std::end(Bases::names)}; }

unsigned long main_thread;  // the only one that Python tells of signals

// Whether a signal's handler, such as that of Ctrl-C, raised: its exception is then set.
bool signalled() {
    if (PyThread_get_thread_ident() != main_thread) return false;
    nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
}

salsa::Feature make_feature(int code, double relevance, double bandwidth, int column, bool missing) {
    const int place = code >= salsa::cyclic_code ? code - salsa::cyclic_code : code;
    require(place >= 0 && place < Bases::size, "base: codes run from 0 to " + std::to_string(Bases::size - 1));
    require((bandwidth >= 1e-150 && bandwidth <= 1e150) || bandwidth == std::numeric_limits<double>::infinity(),
            "bandwidth: every value must lie between 1e-150 and 1e150, or be infinite");  // its square must be a double
    require(std::isfinite(relevance), "relevance: every value must be finite");
    salsa::Feature feature{code, relevance, 0.0, 0.0, column, missing, bandwidth, {}};
    Bases::with(code, [&](auto base) {
        feature.rate = base.rate(bandwidth);
        feature.limit = base.limit(feature.rate, salsa::portable::log2_floor);
    });
    return feature;
}

// One term: its number of features, and of weights
using Terms = nb::ndarray<const std::int32_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Columns {  // by name, after the arguments of a kernel
    std::optional<Codes> missing;    // which features have missing values, and three columns
    std::optional<Numbers> columns;  // the first column of every feature; none: one feature after the other
    std::optional<Terms> terms;      // none: one term
};

// The arguments that every function shares, checked once and kept alive for the call.
class Call {
  public:
    Call(const Matrix& X, const std::optional<Matrix>& Z, const Codes& base, const Vector& bandwidth, const Vector& relevance,
         const Vector& weight, int threads, const std::optional<std::string>& simd, const Columns& layout, bool all_orders = false)
        : X{X.data(), salsa::Size(X.shape(0)), int(X.shape(1))}, symmetric(!Z), sweeps(choose(simd)), threads(threads) {
        const size_t D = base.shape(0);
        require_aligned(X, Z ? *Z : X, bandwidth, relevance, weight);
        if (layout.columns) require_aligned(*layout.columns);
        if (layout.terms) require_aligned(*layout.terms);
        this->Z = Z ? salsa::Points{Z->data(), salsa::Size(Z->shape(0)), int(Z->shape(1))} : this->X;
        require(D >= 1, "X: at least one feature is needed");
        require(!Z || Z->shape(1) == X.shape(1), "Z: has another number of features than X");
        require(bandwidth.shape(0) == D && relevance.shape(0) == D && (!layout.missing || layout.missing->shape(0) == D) &&
                    (!layout.columns || layout.columns->shape(0) == D),
                "base, bandwidth, relevance: one value per feature of X is needed");
        require_threads(threads);
        int next = 0;
        for (size_t j = 0; j < D; ++j) {
            const bool has_missing = layout.missing && layout.missing->data()[j];
            const int column = layout.columns ? layout.columns->data()[j] : next, width = has_missing ? 3 : 1;
            require(column >= 0 && size_t(column) + width <= X.shape(1), "base, bandwidth, relevance: one value per feature of X is needed");
            next = column + width;
            features_.push_back(make_feature(base.data()[j], relevance.data()[j], bandwidth.data()[j], column, has_missing));
        }
        require(layout.columns || X.shape(1) == size_t(next), "base, bandwidth, relevance: one value per feature of X is needed");
        weight_.assign(weight.data(), weight.data() + weight.shape(0));
        size_t feature = 0, order = 0;
        for (size_t t = 0; t < (layout.terms ? layout.terms->shape(0) : 1); ++t) {
            const size_t features = layout.terms ? size_t((*layout.terms)(t, 0)) : D;
            const size_t orders = layout.terms ? size_t((*layout.terms)(t, 1)) : weight_.size();
            require(features >= 1 && features <= D - feature && orders <= weight_.size() - order, "terms: more features or weights than given");
            require(orders >= 2 && orders <= features + 1, "weights: orders 0..d with 1 <= d <= number of features are needed");
            terms_.push_back(term(feature, int(features), order, int(orders) - 1, all_orders));
            feature += features, order += orders;
        }
        require(feature == D && order == weight_.size() && !terms_.empty(), "terms: fewer features or weights than given");
    }
    salsa::Points X, Z{};
    bool symmetric;
    const salsa::Sweeps& sweeps;
    int threads;
    size_t n() const { return size_t(X.n); }
    size_t m() const { return size_t(Z.n); }
    bool empty() const { return X.n == 0 || Z.n == 0; }
    salsa::Sum sum() const { return {terms_.data(), int(terms_.size())}; }
    salsa::DoublePairs pairs() const { return {sweeps, sum(), X, salsa::Panels(Z)}; }
    const salsa::Kernel& only() const {
        require(terms_.size() == 1, "terms: this function takes one term");
        return terms_.front();
    }
    size_t n_features() const { return features_.size(); }
    size_t n_weights() const { return weight_.size(); }

  private:
    salsa::Kernel term(size_t first, int D, size_t order, int d, bool all_orders) const {
        const salsa::Feature* feature = features_.data() + first;
        const double* weight = weight_.data() + order;
        int lowest = 0;
        while (!all_orders && lowest < d && weight[lowest] == 0.0) ++lowest;
        const bool missing = std::any_of(feature, feature + D, [](const salsa::Feature& f) { return f.missing; });
        const bool all_matter = std::all_of(feature, feature + D, [](const salsa::Feature& f) { return f.relevance != 0.0; });
        return {D, d, lowest, feature, weight, missing, D >= 2 && lowest == D && !missing && all_matter};
    }
    std::vector<salsa::Feature> features_;
    std::vector<double> weight_;
    std::vector<salsa::Kernel> terms_;
};

template <class Pairs>
void fill(const Call& call, const Pairs& pairs, typename Pairs::Value* out, salsa::Size stride) {
    if (call.symmetric) salsa::symmetric_block(pairs, out, stride, call.threads);
    else salsa::block(pairs, out, stride, call.threads);
}

Array block(const Matrix& X, const std::optional<Matrix>& Z, const Codes& base, const Vector& bandwidth, const Vector& relevance,
            const Vector& weights, int n_threads, const std::optional<std::string>& simd, const std::optional<Codes>& missing,
            const std::optional<Numbers>& columns, const std::optional<Terms>& terms) {
    const Call call(X, Z, base, bandwidth, relevance, weights, n_threads, simd, {missing, columns, terms});
    auto out = allocate(call.n() * call.m());
    if (!call.empty()) {
        nb::gil_scoped_release release;
        fill(call, call.pairs(), out.get(), salsa::Size(call.m()));
    }
    return new_array(out, {call.n(), call.m()});
}

using Output = nb::ndarray<float, nb::ndim<2>, nb::device::cpu>;  // rows of a matrix that is perhaps wider

float* checked(const Output& out, const Call& call) {
    require_aligned(out);
    require(out.shape(0) == call.n() && out.shape(1) == call.m(), "out: one value per pair of rows of X and Z is needed");
    require(out.shape(1) <= 1 || out.stride(1) == 1, "out: the values of a row must stand side by side");
    require(out.shape(0) <= 1 || out.stride(0) >= std::int64_t(call.m()), "out: rows must not overlap");
    return out.data();
}

nb::object block32(const Matrix& X, const std::optional<Matrix>& Z, const Codes& base, const Vector& bandwidth, const Vector& relevance,
                   const Vector& weights, int n_threads, const std::optional<std::string>& simd, const std::optional<Codes>& missing,
                   const std::optional<Numbers>& columns, const std::optional<Terms>& terms, nb::object out) {
    const Call call(X, Z, base, bandwidth, relevance, weights, n_threads, simd, {missing, columns, terms});
    Output given;
    if (!out.is_none() && !nb::try_cast<Output>(out, given, false)) throw nb::type_error("out: a matrix of float32 is needed");
    std::unique_ptr<float[]> own;
    if (out.is_none()) own.reset(new float[std::max<size_t>(call.n() * call.m(), 1)]);
    float* data = own ? own.get() : checked(given, call);
    const salsa::Size stride = own || call.n() <= 1 ? salsa::Size(call.m()) : salsa::Size(given.stride(0));
    if (!call.empty()) {
        nb::gil_scoped_release release;
        const salsa::Coordinates coordinates(call.sum(), call.X, call.Z);
        if (coordinates.accurate()) fill(call, coordinates.pairs(call.sweeps), data, stride);
        else fill(call, salsa::RoundedPairs{call.pairs()}, data, stride);
    }
    return own ? nb::cast(new_array(own, {call.n(), call.m()})) : out;
}

Array orders(const Matrix& X, const std::optional<Matrix>& Z, const Codes& base, const Vector& bandwidth, const Vector& relevance,
             const Vector& weights, int n_threads, const std::optional<std::string>& simd, const std::optional<Codes>& missing) {
    const Call call(X, Z, base, bandwidth, relevance, weights, n_threads, simd, {missing, {}, {}}, true);
    const size_t count = call.n_weights();
    auto out = allocate(count * call.n() * call.m());
    if (!call.empty()) {
        nb::gil_scoped_release release;
        salsa::orders(call.sweeps, call.only(), call.X, call.Z, out.get(), n_threads);
    }
    return new_array(out, {count, call.n(), call.m()});
}

Array product(const Matrix& X, const Matrix& Z, const Matrix& V, const Codes& base, const Vector& bandwidth, const Vector& relevance,
              const Vector& weights, int n_threads, const std::optional<std::string>& simd, const std::optional<Codes>& missing,
              const std::optional<Numbers>& columns, const std::optional<Terms>& terms) {
    const Call call(X, Z, base, bandwidth, relevance, weights, n_threads, simd, {missing, columns, terms});
    require_aligned(V);
    require(V.shape(0) == call.m(), "V: one row per row of Z is needed");
    const size_t q = V.shape(1);
    auto out = allocate(call.n() * q);
    if (call.empty()) std::fill_n(out.get(), call.n() * q, 0.0);
    else {
        nb::gil_scoped_release release;
        salsa::product(call.sweeps, call.sum(), call.X, call.Z, V.data(), salsa::Size(q), out.get(), n_threads);
    }
    return new_array(out, {call.n(), q});
}

std::tuple<Array, Array, Array> gradient(const Matrix& X, const std::optional<Matrix>& Z, const Matrix& G, const Codes& base,
                                         const Vector& bandwidth, const Vector& relevance, const Vector& weights, int n_threads,
                                         const std::optional<std::string>& simd, bool all_orders, const std::optional<Codes>& missing,
                                         const std::optional<Numbers>& columns, const std::optional<Terms>& terms) {
    const Call call(X, Z, base, bandwidth, relevance, weights, n_threads, simd, {missing, columns, terms}, all_orders);
    require_aligned(G);
    require(G.shape(0) == call.n() && G.shape(1) == call.m(), "G: one value per pair of rows of X and Z is needed");
    const size_t D = call.n_features(), orders = call.n_weights();
    auto sums = allocate(2 * D + orders);
    if (call.empty()) std::fill_n(sums.get(), 2 * D + orders, 0.0);
    else {
        nb::gil_scoped_release release;
        salsa::gradient(call.sweeps, call.sum(), call.X, call.Z, G.data(), call.symmetric, sums.get(), n_threads);
    }
    auto part = [&](size_t begin, size_t count) {
        auto copy = allocate(count);
        std::copy_n(sums.get() + begin, count, copy.get());
        return new_array(copy, {count});
    };
    return {part(0, D), part(D, D), part(2 * D, orders)};
}

// (n, 2): mean of k_j(x_i, .) over weighted points, and its derivative with respect to log h_j
Array embed(const Vector& x, const Vector& points, const Vector& weights, int base, double bandwidth,
            const std::optional<std::string>& simd) {
    require_aligned(x, points, weights);
    require(points.shape(0) == weights.shape(0) && points.shape(0) >= 1, "points: as many as weights, and at least one, are needed");
    const salsa::Feature feature = make_feature(base, 1.0, bandwidth, 0, false);
    const salsa::Sweeps& sweeps = choose(simd);
    const size_t count = points.shape(0), whole = (count + salsa::panel_width - 1) / salsa::panel_width * salsa::panel_width;
    std::vector<double> z(whole, points.data()[count - 1]), w(whole, 0.0);
    std::copy_n(points.data(), count, z.begin());
    std::copy_n(weights.data(), count, w.begin());
    auto out = allocate(2 * x.shape(0));
    {
        nb::gil_scoped_release release;
        sweeps.embed(feature, x.data(), salsa::Size(x.shape(0)), z.data(), w.data(), salsa::Size(whole), out.get());
    }
    return new_array(out, {x.shape(0), 2});
}

Array shapley(const Matrix& X, const Matrix& Z, const Matrix& means, const Matrix& V, const Vector& nodes, const Vector& node_weights,
              const Codes& base, const Vector& bandwidth, const Vector& relevance, const Vector& weights, int n_threads,
              const std::optional<std::string>& simd, const std::optional<Codes>& missing, const std::optional<Numbers>& columns,
              const std::optional<Terms>& terms) {
    const Call call(X, Z, base, bandwidth, relevance, weights, n_threads, simd, {missing, columns, terms});
    const size_t D = call.n_features(), q = V.shape(1);
    require_aligned(means, V, nodes, node_weights);
    require(V.shape(0) == call.m(), "V: one row per row of Z is needed");
    require(means.shape(0) == call.m() && means.shape(1) == D, "means: one value per row of Z and feature is needed");
    require(nodes.shape(0) == node_weights.shape(0), "nodes: as many as weights are needed");
    const salsa::Rule rule{int(nodes.shape(0)), nodes.data(), node_weights.data()};
    const salsa::Points mean_points{means.data(), salsa::Size(call.m()), int(D)};
    auto out = allocate(call.n() * D * q);
    if (call.empty()) std::fill_n(out.get(), call.n() * D * q, 0.0);
    else {
        nb::gil_scoped_release release;
        salsa::shapley(call.sweeps, call.only(), rule, call.X, call.Z, mean_points, V.data(), salsa::Size(q), out.get(), n_threads);
    }
    return new_array(out, {call.n(), D, q});
}

// One kernel of a covariance, from the weights (count, n) of the orders of every anchor
salsa::Side make_side(size_t D, const double* weights, size_t count, size_t n) {
    const auto is_zero = [](double weight) { return weight == 0.0; };
    size_t lowest = 0;
    while (lowest + 1 < count && std::all_of(weights + lowest * n, weights + (lowest + 1) * n, is_zero)) ++lowest;
    return salsa::make_side(int(D), int(count) - 1, int(lowest));
}

void require_orders(size_t D, size_t weights) {
    require(weights >= 4 && weights <= D + 1, "weights: orders 0..d with 3 <= d <= number of features are needed");
}

Array covariances(const Cube& products, const Matrix& means, const Vector& coef, const Vector& weights, int n_threads,
                  const std::optional<std::string>& simd) {
    const size_t D = products.shape(0), r = products.shape(1), columns = products.shape(2), n = coef.shape(0), count = weights.shape(0);
    require_aligned(products, means, coef, weights);
    require_orders(D, count);
    require(means.shape(0) == D && means.shape(1) == n, "means: one value per feature and row is needed");
    require(r <= columns && columns <= n, "products: of rows with all rows up to them are needed");
    require_threads(n_threads);
    const salsa::Sweeps& sweeps = choose(simd);
    const size_t size = count - 3 + D;
    auto out = allocate(r * size);
    {
        nb::gil_scoped_release release;
        std::vector<double> of_rows(count * n);
        for (size_t m = 0; m < count; ++m) std::fill_n(of_rows.data() + m * n, n, weights.data()[m]);
        const salsa::Anchors anchors{make_side(D, weights.data(), count, 1), means.data(), of_rows.data(), salsa::Size(n)};
        salsa::covariances(sweeps, int(D), anchors, anchors, products.data(), salsa::Size(columns), salsa::Size(columns - r), salsa::Size(r),
                           coef.data(), true, out.get(), n_threads);
    }
    return new_array(out, {r, size});
}

Array cross_covariances(const Cube& products, const Matrix& x_means, const Matrix& z_means, const Vector& coef, const Matrix& x_weights,
                        const Matrix& z_weights, int n_threads, const std::optional<std::string>& simd) {
    const size_t D = products.shape(0), r = products.shape(1), columns = products.shape(2);
    require_aligned(products, x_means, z_means, coef, x_weights, z_weights);
    require_orders(D, x_weights.shape(0));
    require_orders(D, z_weights.shape(0));
    require(x_means.shape(0) == D && x_means.shape(1) == r && x_weights.shape(1) == r,
            "x_means, x_weights: one column per row of products is needed");
    require(z_means.shape(0) == D && z_means.shape(1) == columns && z_weights.shape(1) == columns,
            "z_means, z_weights: one column per column of products is needed");
    require(coef.shape(0) == columns, "coef: one value per column of products is needed");
    require_threads(n_threads);
    const salsa::Sweeps& sweeps = choose(simd);
    const size_t size = std::min(x_weights.shape(0), z_weights.shape(0)) - 3 + D;
    auto out = allocate(r * size);
    {
        nb::gil_scoped_release release;
        const salsa::Anchors x{make_side(D, x_weights.data(), x_weights.shape(0), r), x_means.data(), x_weights.data(), salsa::Size(r)};
        const salsa::Anchors z{make_side(D, z_weights.data(), z_weights.shape(0), columns), z_means.data(), z_weights.data(),
                               salsa::Size(columns)};
        salsa::covariances(sweeps, int(D), x, z, products.data(), salsa::Size(columns), 0, salsa::Size(r), coef.data(), false, out.get(),
                           n_threads);
    }
    return new_array(out, {r, size});
}

void solve(const Matrix& R, const Rows& X, bool backward, int n_threads, const std::optional<std::string>& simd) {
    const size_t n = R.shape(0), m = X.shape(0);
    require_aligned(R, X);
    require(n >= 1 && R.shape(1) == n, "R: must be square, with at least one row");
    require(X.shape(1) == n, "X: one column per row of R is needed");
    require_threads(n_threads);
    const salsa::Sweeps& sweeps = choose(simd);
    nb::gil_scoped_release release;
    salsa::solve(sweeps, R.data(), salsa::Size(n), X.data(), salsa::Size(m), backward, n_threads);
}

Array times(const Matrix& B, const Matrix& A, bool upper, int n_threads, const std::optional<std::string>& simd) {
    const size_t m = B.shape(0), n = B.shape(1), c = A.shape(0);
    require_aligned(B, A);
    require(A.shape(1) == n, "A: has another number of columns than B");
    require_threads(n_threads);
    const salsa::Sweeps& sweeps = choose(simd);
    require(m == 0 || c <= PTRDIFF_MAX / sizeof(double) / m, "A: the result would be beyond all memory");
    auto out = allocate(m * c);
    if (n == 0) std::fill_n(out.get(), m * c, 0.0);
    else {
        nb::gil_scoped_release release;
        salsa::times(sweeps, B.data(), salsa::Size(m), salsa::Size(n), A.data(), salsa::Size(c), upper, out.get(), n_threads);
    }
    return new_array(out, {m, c});
}

// (q, rows) V T' and, with U (q, rows), (q, columns) U T, for a tile T (rows, columns), V (q, columns)
template <class Number>
auto tile_product(const MatrixOf<Number>& T, const MatrixOf<Number>& V, const std::optional<MatrixOf<Number>>& U,
                  const std::optional<std::string>& simd) {
    const size_t rows = T.shape(0), columns = T.shape(1), q = V.shape(0), across = U ? q : 0;
    require_aligned(T, V, U ? *U : V);
    require(V.shape(1) == columns, "V: one column per column of T is needed");
    require(!U || (U->shape(0) == q && U->shape(1) == rows), "U: one row per row of V and one column per row of T are needed");
    require(q <= 4096, "V: at most 4096 rows are possible");
    const salsa::Sweeps& sweeps = choose(simd);
    std::unique_ptr<Number[]> down(new Number[std::max<size_t>(q * rows, 1)]()), back(new Number[std::max<size_t>(across * columns, 1)]());
    {
        nb::gil_scoped_release release;
        const Number* u = U ? U->data() : nullptr;
        if constexpr (sizeof(Number) == 4)
            sweeps.tile_product32(T.data(), salsa::Size(rows), salsa::Size(columns), V.data(), u, int(q), down.get(), back.get());
        else sweeps.tile_product64(T.data(), salsa::Size(rows), salsa::Size(columns), V.data(), u, int(q), down.get(), back.get());
    }
    return std::tuple(new_array(down, {q, rows}), new_array(back, {across, columns}));
}

}  // namespace

NB_MODULE(_core, module) {
    module.doc() = "Additive kernels: blocks, products and gradients over all pairs of rows.";
    main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
    salsa::interrupted = &signalled;
    nb::register_exception_translator([](const std::exception_ptr& error, void*) {
        try {
            std::rethrow_exception(error);
        } catch (const salsa::Interrupted&) {  // by an exception that Python knows of already
        }
    });
    module.def("simd_levels", &simd_levels, "Instruction sets this machine can run, best first.");
    module.def("base_kernels", &base_kernels, "Names of the base kernels in the order of their codes.");
    module.def("block", &block, "X"_a.noconvert(), "Z"_a.noconvert().none(), "base"_a.noconvert(), "bandwidth"_a.noconvert(),
               "relevance"_a.noconvert(), "weights"_a.noconvert(), "n_threads"_a = 1, "simd"_a = nb::none(), "missing"_a.noconvert() = nb::none(),
               "columns"_a.noconvert() = nb::none(), "terms"_a.noconvert() = nb::none(),
               "K (n, m) = sum_m weights_m e_m, added up over all terms; Z None: X with itself, half the work.");
    module.def("block32", &block32, "X"_a.noconvert(), "Z"_a.noconvert().none(), "base"_a.noconvert(), "bandwidth"_a.noconvert(),
               "relevance"_a.noconvert(), "weights"_a.noconvert(), "n_threads"_a = 1, "simd"_a = nb::none(), "missing"_a.noconvert() = nb::none(),
               "columns"_a.noconvert() = nb::none(), "terms"_a.noconvert() = nb::none(), "out"_a = nb::none(),
               "K (n, m) in float32, within 4e-7 of its diagonal; written into `out`, whose rows may be parts of wider rows.");
    module.def("embed", &embed, "x"_a.noconvert(), "points"_a.noconvert(), "weights"_a.noconvert(), "base"_a, "bandwidth"_a,
               "simd"_a = nb::none(), "(n, 2): mean of a base kernel at x over weighted points, and its derivative by log bandwidth.");
    module.def("orders", &orders, "X"_a.noconvert(), "Z"_a.noconvert().none(), "base"_a.noconvert(), "bandwidth"_a.noconvert(),
               "relevance"_a.noconvert(), "weights"_a.noconvert(), "n_threads"_a = 1, "simd"_a = nb::none(), "missing"_a.noconvert() = nb::none(),
               "(d+1, n, m): weights_m e_m of every order in one sweep.");
    module.def("product", &product, "X"_a.noconvert(), "Z"_a.noconvert(), "V"_a.noconvert(), "base"_a.noconvert(),
               "bandwidth"_a.noconvert(), "relevance"_a.noconvert(), "weights"_a.noconvert(), "n_threads"_a = 1, "simd"_a = nb::none(), "missing"_a.noconvert() = nb::none(),
               "columns"_a.noconvert() = nb::none(), "terms"_a.noconvert() = nb::none(),
               "K(X, Z) V (n, q) without forming K.");
    module.def("gradient", &gradient, "X"_a.noconvert(), "Z"_a.noconvert().none(), "G"_a.noconvert(), "base"_a.noconvert(),
               "bandwidth"_a.noconvert(), "relevance"_a.noconvert(), "weights"_a.noconvert(), "n_threads"_a = 1, "simd"_a = nb::none(),
               "all_orders"_a = true, "missing"_a.noconvert() = nb::none(),
               "columns"_a.noconvert() = nb::none(), "terms"_a.noconvert() = nb::none(),
               "Sums over pairs of G dK/drelevance (D,), G dK/dlog bandwidth (D,) and G e_m (d+1,); without all_orders, the last is 0 "
               "below the smallest order with a weight, which costs less.");
    module.def("shapley", &shapley, "X"_a.noconvert(), "Z"_a.noconvert(), "means"_a.noconvert(), "V"_a.noconvert(), "nodes"_a.noconvert(),
               "node_weights"_a.noconvert(), "base"_a.noconvert(), "bandwidth"_a.noconvert(), "relevance"_a.noconvert(), "weights"_a.noconvert(),
               "n_threads"_a = 1, "simd"_a = nb::none(), "missing"_a.noconvert() = nb::none(), "columns"_a.noconvert() = nb::none(),
               "terms"_a.noconvert() = nb::none(), "(n, D, q): Shapley values of K(X, Z) V, features left out standing at means (m, D), by a rule on [0, 1].");
    module.def("covariances", &covariances, "products"_a.noconvert(), "means"_a.noconvert(), "coef"_a.noconvert(), "weights"_a.noconvert(),
               "n_threads"_a = 1, "simd"_a = nb::none(),
               "(r, d-2 + D): covariances of rows with all rows up to them, by order from 3 on, and what concerns each feature.");
    module.def("cross_covariances", &cross_covariances, "products"_a.noconvert(), "x_means"_a.noconvert(), "z_means"_a.noconvert(),
               "coef"_a.noconvert(), "x_weights"_a.noconvert(), "z_weights"_a.noconvert(), "n_threads"_a = 1, "simd"_a = nb::none(),
               "(r, d-2 + D): covariances of the rows of one kernel with all rows of another, by order from 3 to the smaller d, and what "
               "concerns each feature.");
    module.def("solve", &solve, "R"_a.noconvert(), "X"_a.noconvert(), "backward"_a, "n_threads"_a = 1, "simd"_a = nb::none(),
               "Overwrites every row b of X (m, n) by the x with R'x = b, or with R x = b (backward), R (n, n) upper triangular. A row has "
               "the same bits whatever rows stand beside it.");
    const char* about_tiles = "V T' (q, rows) and, with U (q, rows), U T (q, columns) of a tile T (rows, columns), all in float32 or all in "
                              "float64; one reading of T serves both.";
    module.def("tile_product", &tile_product<float>, "T"_a.noconvert(), "V"_a.noconvert(), "U"_a.noconvert().none(), "simd"_a = nb::none(),
               about_tiles);
    module.def("tile_product", &tile_product<double>, "T"_a.noconvert(), "V"_a.noconvert(), "U"_a.noconvert().none(), "simd"_a = nb::none(),
               about_tiles);
    module.def("times", &times, "B"_a.noconvert(), "A"_a.noconvert(), "upper"_a = false, "n_threads"_a = 1, "simd"_a = nb::none(),
               "B A' (m, c), where upper says that A_ij = 0 for j < i; a row has the same bits whatever rows stand beside it.");
}
