// Internal: reductions of elements and of expressions on the CPU.
#pragma once

#include <tbb/enumerable_thread_specific.h>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "../blocks.hpp"
#include "../map_kernel.hpp"
#include "reduce.hpp"

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

/// Sums and products wrap around, which is undefined for signed integers in C++.
template <class T>
using Wrapping = std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t, T>;

template <class T>
struct Best {
  T value;
  std::uint32_t index;
};

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

template <class T>
T limit(bool smallest) {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) return smallest ? L::infinity() : -L::infinity();
  return smallest ? L::max() : L::min();
}

/// Prefers NaN to numbers, then better to worse, then earlier to later elements.
template <class T>
Best<T> better(const Best<T>& a, const Best<T>& b, bool smallest) {
  const bool first = is_nan(a.value), second = is_nan(b.value);
  if (first || second) return first && (!second || a.index <= b.index) ? a : b;
  if (a.value == b.value) return a.index <= b.index ? a : b;
  return (smallest ? b.value < a.value : a.value < b.value) ? b : a;
}

template <class T>
struct Compensated {
  T sum, carried;
};
template <class T>
Compensated<T> add(const Compensated<T>& a, const Compensated<T>& b) {
  const T s = a.sum + b.sum, other = s - a.sum;
  return {s, a.carried + b.carried + ((a.sum - (s - other)) + (b.sum - other))};
}

/// Element i of the reduced numbers.
template <class T>
struct ReductionInputs {
  const T* x;
  const T* y;  // null except for a product
  Operand operand;

  T operator[](std::size_t i) const {
    using W = Wrapping<T>;
    if (operand == Operand::element) return x[i];
    return static_cast<T>(static_cast<W>(x[i]) * static_cast<W>(y[i]));
  }
  Wrapping<T> sum(std::size_t first, std::size_t n) const {
    using Map = Eigen::Map<const Eigen::Array<Wrapping<T>, Eigen::Dynamic, 1>>;
    const auto at = [&](const T* p) {
      return Map(reinterpret_cast<const Wrapping<T>*>(p + first), static_cast<Eigen::Index>(n));
    };
    return operand == Operand::element ? at(x).sum() : (at(x) * at(y)).sum();
  }
};

// Short enough that the error of a plain sum within a block does not exceed the tree's.
constexpr std::size_t kSumBlock = 1024;

template <class T>
T reduce_numbers(Reduction reduction, const ReductionInputs<T>& from, std::size_t count) {
  using W = Wrapping<T>;
  if (reduction == Reduction::compensated_sum) {
    const auto body = [&](std::size_t first, std::size_t n) {
      Compensated<T> sum{0, 0};
      for (std::size_t i = first; i < first + n; ++i) sum = add(sum, {from[i], T{0}});
      return sum;
    };
    const auto sum = reduce_blocks(count, Compensated<T>{0, 0}, body, add<T>);
    return is_nan(static_cast<T>(sum.sum - sum.sum)) ? sum.sum
                                                     : static_cast<T>(sum.sum + sum.carried);
  }
  const auto plus = [](W a, W b) { return static_cast<W>(a + b); };
  const auto times = [](W a, W b) { return static_cast<W>(a * b); };
  if (reduction == Reduction::sum) {
    const auto body = [&](std::size_t first, std::size_t n) {
      W sum{0};
      for (std::size_t k = 0; k < n; k += kSumBlock)
        sum += from.sum(first + k, std::min(kSumBlock, n - k));
      return sum;
    };
    return static_cast<T>(reduce_blocks(count, W{0}, body, plus));
  }
  const auto body = [&](std::size_t first, std::size_t n) {
    W product{1};
    for (std::size_t i = first; i < first + n; ++i) product *= static_cast<W>(from[i]);
    return product;
  };
  return static_cast<T>(reduce_blocks(count, W{1}, body, times));
}

/// True if some element precedes `best`, NaN included: a loop that compilers vectorise.
template <class T>
bool any_beats(T best, bool smallest, const T* x, std::size_t n) {
  std::uint32_t found = 0;
  if (smallest) {
    for (std::size_t i = 0; i < n; ++i) found |= static_cast<std::uint32_t>(!(x[i] >= best));
  } else {
    for (std::size_t i = 0; i < n; ++i) found |= static_cast<std::uint32_t>(!(x[i] <= best));
  }
  return found != 0;
}

template <class T>
Best<T> find_best(bool smallest, const ReductionInputs<T>& from, std::size_t count) {
  const Best<T> worst{limit<T>(smallest), ~std::uint32_t{0}};
  const auto combine = [&](const Best<T>& a, const Best<T>& b) { return better(a, b, smallest); };
  const auto body = [&](std::size_t first, std::size_t n) {
    Best<T> best = worst;
    for (std::size_t piece = first; piece < first + n; piece += kSumBlock) {
      if (is_nan(best.value)) break;  // the first NaN wins
      const std::size_t end = std::min(piece + kSumBlock, first + n);
      const bool plain = from.operand == Operand::element && piece > first;
      if (plain && !any_beats(best.value, smallest, from.x + piece, end - piece)) continue;
      for (std::size_t i = piece; i < end; ++i)
        best = combine(best, {from[i], static_cast<std::uint32_t>(i)});
    }
    return best;
  };
  return reduce_blocks(count, worst, body, combine);
}

inline bool orders(Reduction r) {
  return r == Reduction::min || r == Reduction::max || r == Reduction::argmin ||
         r == Reduction::argmax;
}
inline bool finds_index(Reduction r) { return r == Reduction::argmin || r == Reduction::argmax; }

/// Reduces f's results on tiles of the inputs, in order.
template <class T>
class TileReduction {
 public:
  TileReduction(const MapReduction& what, std::span<const Slice> inputs) : what_(what) {
    for (const Slice& input : inputs)
      inputs_.push_back({input.type, input.storage->read_host() + input.byte_offset(), {}, {}});
    if (what.element) element_.emplace(what.element->program(), what.element->numbers());
    if (what.fold) fold_.emplace(*what.fold, what.identity);
  }

  T reduce(std::size_t count) {
    if (!what_.fold && orders(what_.reduction)) {
      const bool smallest = what_.reduction == Reduction::min;
      const Best<T> worst{limit<T>(smallest), ~std::uint32_t{0}};
      return reduce_blocks(
                 count, worst,
                 [&](std::size_t first, std::size_t n) { return best(first, n, smallest, worst); },
                 [&](const Best<T>& a, const Best<T>& b) { return better(a, b, smallest); })
          .value;
    }
    if (!what_.fold) return sum_or_product(count);
    return reduce_blocks(
        count, fold_->identity(), [&](std::size_t first, std::size_t n) { return fold(first, n); },
        [&](T a, T b) { return fold_->two(a, b); });
  }

 private:
  using Scratch = typename TileExpression<T>::Scratch;
  struct Local {
    Scratch element;
    std::vector<T> tile = std::vector<T>(kTile);
  };

  /// n <= kTile results from item `first` on.
  const T* results(Local& local, std::size_t first, std::size_t n) {
    if (!element_) {
      load_tile(inputs_[0], {}, first, n, local.tile.data());
      return local.tile.data();
    }
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      load_tile(inputs_[k], {}, first, n, element_->input(local.element, inputs_.size(), k));
    element_->run(local.element, n);
    return element_->output(local.element, 0);
  }

  template <class F>
  void for_tiles(std::size_t first, std::size_t n, const F& f) {
    Local& local = locals_.local();
    for (std::size_t k = 0; k < n; k += kTile) {
      const std::size_t m = std::min(kTile, n - k);
      f(local, results(local, first + k, m), m, first + k);
    }
  }

  Best<T> best(std::size_t first, std::size_t n, bool smallest, Best<T> worst) {
    for_tiles(first, n, [&](Local&, const T* tile, std::size_t m, std::size_t at) {
      for (std::size_t i = 0; i < m; ++i)
        worst = better(worst, {tile[i], static_cast<std::uint32_t>(at + i)}, smallest);
    });
    return worst;
  }

  T sum_or_product(std::size_t count) {
    const bool product = what_.reduction == Reduction::product;
    const auto body = [&](std::size_t first, std::size_t n) {
      Compensated<T> state{product ? T{1} : T{0}, 0};
      for_tiles(first, n, [&](Local&, const T* tile, std::size_t m, std::size_t) {
        for (std::size_t i = 0; i < m; ++i) {
          if (product) {
            state.sum *= tile[i];
          } else {
            state = add(state, {tile[i], T{0}});
          }
        }
      });
      return state;
    };
    const Compensated<T> total =
        reduce_blocks(count, Compensated<T>{product ? T{1} : T{0}, 0}, body,
                      [&](const Compensated<T>& a, const Compensated<T>& b) {
                        return product ? Compensated<T>{a.sum * b.sum, 0} : add(a, b);
                      });
    const bool finite = std::isfinite(total.sum);
    return product || !finite ? total.sum : total.sum + total.carried;
  }

  T fold(std::size_t first, std::size_t n) {
    std::vector<T> all;
    all.reserve(n);
    for_tiles(first, n, [&](Local&, const T* tile, std::size_t m, std::size_t) {
      all.insert(all.end(), tile, tile + m);
    });
    return fold_->reduce(all);
  }

  const MapReduction& what_;
  std::vector<HostInput> inputs_;
  std::optional<TileExpression<T>> element_;
  std::optional<TileFold<T>> fold_;
  tbb::enumerable_thread_specific<Local> locals_;
};

}  // namespace topograd::ops
