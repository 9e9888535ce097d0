// Reductions: checks, the CPU's side, and the way to the device's.
#include <topograd/ops/reduce.hpp>

#include <topograd/codegen/glsl_function.hpp>
#include <topograd/codegen/glsl_text.hpp>
#include <topograd/ops/blocks.hpp>
#include <topograd/ops/kernel_store.hpp>
#include <topograd/ops/reduce_device.hpp>
#include <topograd/ops/tiles.hpp>

#include <tbb/enumerable_thread_specific.h>

#include <Eigen/Core>

#include <cmath>
#include <limits>

namespace topograd::ops {
namespace {

using codegen::Precision;
using codegen::text;

/// Sums and products wrap around, which signed integers must not do in C++.
template <class T>
using Wrapping = std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t, T>;

template <class T>
struct Best {
  T value;
  std::uint32_t place;
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

/// NaN before numbers, better before worse, earlier before later.
template <class T>
Best<T> better(const Best<T>& a, const Best<T>& b, bool smallest) {
  const bool first = is_nan(a.value), second = is_nan(b.value);
  if (first || second) return first && (!second || a.place <= b.place) ? a : b;
  if (a.value == b.value) return a.place <= b.place ? a : b;
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

/// Element i of what is reduced.
template <class T>
struct Operands {
  const T* x;
  const T* y;  // null unless it is a product
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

// Short enough that the error of a plain sum stays that of a tree.
constexpr std::size_t kSumBlock = 1024;

template <class T>
T reduce_numbers(Reduction reduction, const Operands<T>& from, std::size_t count) {
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

template <class T>
Best<T> find_best(bool smallest, const Operands<T>& from, std::size_t count) {
  const Best<T> worst{limit<T>(smallest), ~std::uint32_t{0}};
  const auto combine = [&](const Best<T>& a, const Best<T>& b) { return better(a, b, smallest); };
  const auto body = [&](std::size_t first, std::size_t n) {
    Best<T> best = worst;
    for (std::size_t i = first; i < first + n; ++i)
      best = combine(best, {from[i], static_cast<std::uint32_t>(i)});
    return best;
  };
  return reduce_blocks(count, worst, body, combine);
}

bool orders(Reduction r) {
  return r == Reduction::min || r == Reduction::max || r == Reduction::argmin ||
         r == Reduction::argmax;
}
bool finds_place(Reduction r) { return r == Reduction::argmin || r == Reduction::argmax; }

template <class T>
void reduce_on_cpu(Reduction reduction, Operand operand, std::span<const Slice> inputs,
                   const Slice& output, bool root) {
  const Operands<T> from{inputs[0].read<T>(),
                         operand == Operand::product ? inputs[1].read<T>() : inputs[0].read<T>(),
                         operand};
  const std::size_t count = inputs[0].size;
  if (orders(reduction)) {
    const bool smallest = reduction == Reduction::min || reduction == Reduction::argmin;
    const Best<T> best = find_best(smallest, from, count);
    if (finds_place(reduction)) {
      *output.write<std::uint32_t>() = best.place;
    } else {
      *output.write<T>() = best.value;
    }
    return;
  }
  T result = reduce_numbers(reduction, from, count);
  if constexpr (std::is_floating_point_v<T>) {
    if (root) result = std::sqrt(result);
  }
  *output.write<T>() = result;
}

ReductionItem plain_item(Operand operand, Type type) {
  std::string value = "x0(i)";
  if (operand == Operand::product) value = "x0(i) * x1(i)";
  if (operand == Operand::square) value = "x0(i) * x0(i)";
  return {.key = key_of("operand", static_cast<int>(operand)),
          .functions = {},
          .statements = text("  precise ", glsl_name(type), " v = ", value, ";\n")};
}

void check_sizes(const char* call, std::span<const Slice> inputs, const Slice& output) {
  for (const Slice& input : inputs) expect_size(call, inputs[0].size, input.size);
  expect_size(call, 1, output.size);
}

std::vector<std::shared_ptr<Storage>> storages(std::span<const Slice> slices) {
  std::vector<std::shared_ptr<Storage>> out;
  for (const Slice& slice : slices) out.push_back(slice.storage);
  return out;
}

/// Results of f on tiles of the inputs, folded lane by lane and then across lanes.
template <class T>
class TileReduction {
 public:
  TileReduction(const MapReduction& what, std::span<const Slice> inputs) : what_(what) {
    for (const Slice& input : inputs)
      inputs_.push_back({input.type, input.storage->read_host() + input.byte_offset(), {}, {}});
    if (what.element) element_.emplace(what.element->program(), what.element->numbers());
    if (what.fold) fold_.emplace(what.fold->program(), what.fold->numbers());
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
        count, static_cast<T>(what_.identity),
        [&](std::size_t first, std::size_t n) { return fold(first, n); },
        [&](T a, T b) { return fold_two(a, b); });
  }

 private:
  using Scratch = typename TileExpression<T>::Scratch;
  struct Local {
    Scratch element, fold;
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

  T fold_two(T a, T b) {
    Local& local = locals_.local();
    *fold_->input(local.fold, 2, 0) = a;
    *fold_->input(local.fold, 2, 1) = b;
    fold_->run(local.fold, 1);
    return *fold_->output(local.fold, 0);
  }

  T fold(std::size_t first, std::size_t n) {
    std::vector<T> lanes(kTile, static_cast<T>(what_.identity));
    const auto combine = [&](Local& local, const T* a, const T* b, std::size_t m) {
      std::copy_n(a, m, fold_->input(local.fold, 2, 0));
      std::copy_n(b, m, fold_->input(local.fold, 2, 1));
      fold_->run(local.fold, m);
      std::copy_n(fold_->output(local.fold, 0), m, lanes.data());
    };
    for_tiles(first, n, [&](Local& local, const T* tile, std::size_t m, std::size_t) {
      combine(local, lanes.data(), tile, m);
    });
    Local& local = locals_.local();
    for (std::size_t width = kTile / 2; width > 0; width /= 2)
      combine(local, lanes.data(), lanes.data() + width, width);
    return lanes[0];
  }

  const MapReduction& what_;
  std::vector<HostInput> inputs_;
  std::optional<TileExpression<T>> element_, fold_;
  tbb::enumerable_thread_specific<Local> locals_;
};

template <class T>
void map_reduce_on_cpu(const MapReduction& what, std::span<const Slice> inputs,
                       const Slice& output) {
  const T result = TileReduction<T>(what, inputs).reduce(inputs[0].size);
  with_type(output.type, [&](auto element) {
    using E = decltype(element);
    *output.write<E>() = to_element<E>(result);
  });
}

/// The text of what each item is, with `element` declared by the caller or here.
void map_reduce_on_device(Backend& backend, const MapReduction& what, std::span<const Slice> inputs,
                          const Slice& output, Precision precision) {
  const Type type = precision == Precision::f64 ? Type::f64 : Type::f32;
  const std::uint32_t room = most_words(static_cast<std::uint32_t>(inputs.size()) + 2) - 5;
  std::optional<FittedExpression> element, fold;
  if (what.fold) fold = fit(*what.fold, precision, what.element ? 0 : room);
  if (what.element) element = fit(*what.element, precision, what.fold ? 0 : room);
  Monoid monoid =
      what.fold ? monoid_of(*fold, what.identity, precision, element ? &element->program : nullptr)
                : monoid_of(what.reduction, type);
  ReductionItem item{.key = key_of("item", static_cast<int>(precision))};
  const std::string t(codegen::scalar_type(precision));
  if (element) {
    item.key.add(element->hash.high);
    item.key.add(element->hash.low);
    item.key.add(element->numbers);
    std::string call = "  element(";
    for (std::size_t k = 0; k < inputs.size(); ++k)
      call += (k > 0 ? ", " : "") + load_text(inputs[k].type, precision, text("x", k, "(i)"));
    item.statements =
        text("  ", t, " v;\n", call, number_arguments(*element, precision), ", v);\n");
    if (!what.fold) {
      const codegen::NamedProgram function{"element", &element->program};
      item.functions = codegen::write_functions({&function, 1}, precision);
      for (const std::string& word : number_words(*element, precision))
        monoid.word_names.push_back(word);
      monoid.words.insert(monoid.words.end(), element->words.begin(), element->words.end());
      monoid.key.add(element->words.size());
    }
  } else {
    item.statements = text("  ", t, " v = ", load_text(inputs[0].type, precision, "x0(i)"), ";\n");
  }
  reduce_on_device(backend, monoid, item, inputs, output,
                   store_text(output.type, precision, "{0}"));
}

}  // namespace

ExecutionStats reduce_into(Reduction reduction, Operand operand, std::span<const Slice> inputs,
                           const Slice& output, bool root, const OpOptions& options) {
  const std::string call(name(reduction));
  check_sizes(call.c_str(), inputs, output);
  const Type type = inputs[0].type;
  if (inputs[0].size == 0 && orders(reduction))
    throw Error(ErrorCode::Shape, call + ": expected at least one element, got none");
  const auto in = storages(inputs), out = storages({&output, 1});
  const ReductionItem item = plain_item(operand, type);
  const OpCall op{.op = Op::Reduce,
                  .kernel = key_of("reduce", static_cast<int>(reduction), static_cast<int>(operand),
                                   static_cast<int>(type)),
                  .size = inputs[0].size,
                  .features = {.bytes = static_cast<double>(size_of(type) * inputs.size()),
                               .pattern = runtime::hybrid::MemoryPattern::reduction},
                  .inputs = in,
                  .outputs = out,
                  .on_cpu =
                      [&] {
                        with_type(type, [&](auto element) {
                          reduce_on_cpu<decltype(element)>(reduction, operand, inputs, output,
                                                           root);
                        });
                      },
                  .on_device =
                      [&](Backend& backend) {
                        reduce_on_device(backend, monoid_of(reduction, type), item, inputs, output,
                                         root ? "sqrt({0})" : "{0}");
                      },
                  .needs_float64 = type == Type::f64};
  return run(op, options);
}

ExecutionStats map_reduce_into(const MapReduction& what, std::span<const Slice> inputs,
                               const Slice& output, const OpOptions& options) {
  const char* const call = what.element ? "map_reduce" : "reduce";
  check_sizes(call, inputs, output);
  if (!what.fold && finds_place(what.reduction))
    throw Error(ErrorCode::InvalidArgument,
                "map_reduce: expected sum, compensated_sum, product, min or max, got " +
                    std::string(name(what.reduction)));
  if (!what.fold && orders(what.reduction) && inputs[0].size == 0)
    throw Error(ErrorCode::Shape, "map_reduce: expected at least one element, got none");
  std::vector<Type> types = {output.type};
  for (const Slice& input : inputs) types.push_back(input.type);
  const Precision precision = precision_for(types);
  const auto in = storages(inputs), out = storages({&output, 1});
  ir::Hash128 key = key_of("map_reduce", static_cast<int>(what.reduction));
  double operations = 1;
  for (const Expression* e : {what.element, what.fold}) {
    if (e == nullptr) continue;
    key.add(e->hash().high);
    key.add(e->hash().low);
    operations += e->operations();
  }
  const OpCall op{
      .op = Op::Reduce,
      .kernel = key,
      .size = inputs[0].size,
      .features = {.operations = operations,
                   .bytes = 4.0 * static_cast<double>(inputs.size()),
                   .pattern = runtime::hybrid::MemoryPattern::reduction},
      .inputs = in,
      .outputs = out,
      .on_cpu =
          [&] {
            if (precision == Precision::f64) {
              map_reduce_on_cpu<double>(what, inputs, output);
            } else {
              map_reduce_on_cpu<float>(what, inputs, output);
            }
          },
      .on_device =
          [&](Backend& backend) { map_reduce_on_device(backend, what, inputs, output, precision); },
      .needs_float64 = precision == Precision::f64};
  return run(op, options);
}

}  // namespace topograd::ops
