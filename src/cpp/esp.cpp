// Compiled once per instruction set (see CMakeLists.txt); each build fills its own table.
#include "explain.hpp"
#include "rowwise.hpp"

namespace salsa::SALSA_ISA {
extern const Sweeps sweeps;
const Sweeps sweeps{values, orders, adjoint, embed, shapley, covariance, add_products};
}  // namespace salsa::SALSA_ISA
