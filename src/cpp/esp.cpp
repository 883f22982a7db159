// Compiled once per instruction set (see CMakeLists.txt); each build fills its own table.
#include "esp.hpp"

namespace salsa::SALSA_ISA {
extern const Sweeps sweeps;
const Sweeps sweeps{values, orders, adjoint, embed};
}  // namespace salsa::SALSA_ISA
