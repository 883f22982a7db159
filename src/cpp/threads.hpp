// Tiles of rows shared out among threads.
//
// Threads are started for a call and end with it. They never spin, which would take the cores from other programs and from
// other threads of the process, and none is left behind, which a forked child would wait for in vain.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "kernel.hpp"

namespace salsa {

// Call body(tile, thread) for every tile, the last first; thread 0 is the caller's. The body must not throw.
template <class Body>
void for_tiles(Size tiles, int threads, Body body) {
    std::atomic<Size> left(tiles);
    const auto work = [&](int thread) {
        for (Size tile; (tile = --left) >= 0;) body(tile, thread);
    };
    const int count = int(std::min<Size>(threads, tiles));  // no thread without a tile
    std::vector<std::thread> others;
    others.reserve(std::max(0, count - 1));
    try {
        for (int thread = 1; thread < count; ++thread) others.emplace_back(work, thread);
    } catch (const std::exception&) {
    }  // the system gives no more threads: the present ones do all tiles
    work(0);
    for (std::thread& other : others) other.join();
}

// Whether the caller wants to stop; asked on the caller's thread, between tiles, at most once per `patience`.
inline bool (*interrupted)() = [] { return false; };
constexpr std::chrono::milliseconds patience{50};
struct Interrupted {};

// Call body(row_begin, row_end, thread) for tiles of `height` rows; the last tiles first, as they are the largest under symmetry.
template <class Body>
void for_row_tiles(Size n, int threads, Body body, Size height = panel_width) {
    using Clock = std::chrono::steady_clock;
    std::atomic<bool> stop{false};
    auto asked = Clock::now();  // by thread 0 only, which is the caller's
    for_tiles((n + height - 1) / height, threads, [&](Size tile, int thread) {
        if (stop.load(std::memory_order_relaxed)) return;
        body(tile * height, std::min(n, (tile + 1) * height), thread);
        if (thread == 0 && Clock::now() - asked > patience) {
            if (interrupted()) stop.store(true, std::memory_order_relaxed);
            asked = Clock::now();
        }
    });
    if (stop) throw Interrupted{};  // never from inside: an exception may not leave a thread
}

}  // namespace salsa
