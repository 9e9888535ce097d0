// Internal: folds many numbers by a function of two numbers on the CPU, in order.
#pragma once

#include "../tiles.hpp"

#include <tbb/enumerable_thread_specific.h>

#include <algorithm>
#include <vector>

namespace topograd::ops {

/// x0 f x1 f ... for an associative f; combines neighbours first. Thread-safe.
template <class T>
class TileFold {
 public:
  TileFold(const Expression& f, double identity)
      : f_(f.program(), f.numbers()), identity_(static_cast<T>(identity)) {}

  T identity() const { return identity_; }

  /// a f b.
  T two(T a, T b) {
    T out;
    combine(
        1, [&](std::size_t) { return a; }, [&](std::size_t) { return b; },
        [&](std::size_t, T v) { out = v; });
    return out;
  }
  /// Reduces all elements; overwrites them.
  T reduce(std::vector<T>& x) {
    if (x.empty()) return identity_;
    while (x.size() > 1) x = halve(x);
    return x[0];
  }
  /// x[i] = before f x[0] f ... f x[i - 1].
  void prefixes(std::vector<T>& x, T before) {
    if (x.size() < 2) {
      std::ranges::fill(x, before);
      return;
    }
    std::vector<T> half = halve(x);
    prefixes(half, before);
    combine(
        x.size() / 2, [&](std::size_t i) { return half[i]; },
        [&](std::size_t i) { return x[2 * i]; }, [&](std::size_t i, T v) { x[2 * i + 1] = v; });
    for (std::size_t i = 0; i < half.size(); ++i) x[2 * i] = half[i];
  }
  /// x[i] = x[i] f y[i].
  void add(std::vector<T>& x, const std::vector<T>& y) {
    combine(
        x.size(), [&](std::size_t i) { return x[i]; }, [&](std::size_t i) { return y[i]; },
        [&](std::size_t i, T v) { x[i] = v; });
  }

 private:
  std::vector<T> halve(const std::vector<T>& x) {
    std::vector<T> half((x.size() + 1) / 2);
    combine(
        x.size() / 2, [&](std::size_t i) { return x[2 * i]; },
        [&](std::size_t i) { return x[2 * i + 1]; }, [&](std::size_t i, T v) { half[i] = v; });
    if (x.size() % 2 == 1) half.back() = x.back();
    return half;
  }

  /// Calls out(i, a(i) f b(i)) for i < count; reads a tile before it is written.
  template <class A, class B, class Out>
  void combine(std::size_t count, const A& a, const B& b, const Out& out) {
    auto& scratch = scratches_.local();
    T* const left = f_.input(scratch, 2, 0);
    T* const right = f_.input(scratch, 2, 1);
    for (std::size_t first = 0; first < count; first += kTile) {
      const std::size_t n = std::min(kTile, count - first);
      for (std::size_t i = 0; i < n; ++i) {
        left[i] = a(first + i);
        right[i] = b(first + i);
      }
      f_.run(scratch, n);
      const T* const from = f_.output(scratch, 0);
      for (std::size_t i = 0; i < n; ++i) out(first + i, from[i]);
    }
  }

  TileExpression<T> f_;
  T identity_;
  tbb::enumerable_thread_specific<typename TileExpression<T>::Scratch> scratches_;
};

}  // namespace topograd::ops
