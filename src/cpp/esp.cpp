// Compiled once per instruction set (see CMakeLists.txt); each build fills its own table.
#include "explain.hpp"
#include "rowwise.hpp"
#include "single.hpp"
#include "tile.hpp"

namespace salsa::SALSA_ISA {
extern const Sweeps sweeps;
const Sweeps sweeps{values,       orders, adjoint,             embed,               shapley, covariance,
                    add_products, single, tile_product<float>, tile_product<double>};
}  // namespace salsa::SALSA_ISA
