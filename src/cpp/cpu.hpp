// Instruction sets that processor and operating system allow. clang-cl links no library for __builtin_cpu_supports.
#pragma once

#include <cpuid.h>

namespace salsa {

struct Cpu {
    bool avx2 = false;    // and FMA
    bool avx512 = false;  // F and DQ, and FMA
};

inline Cpu cpu() {
    unsigned a, b, c, d, kept, kept_high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA)) return {};
    __asm__("xgetbv" : "=a"(kept), "=d"(kept_high) : "c"(0));  // the registers that the system saves for a thread
    const bool keeps_ymm = (kept & 0x06) == 0x06, keeps_zmm = (kept & 0xe6) == 0xe6;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return {};
    return {keeps_ymm && (b & bit_AVX2), keeps_zmm && (b & bit_AVX512F) && (b & bit_AVX512DQ)};
}

}  // namespace salsa
