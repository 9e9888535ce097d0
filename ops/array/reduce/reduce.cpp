// Reductions: checks, and the implementations on the CPU and on devices.
#include "reduce.hpp"

#include "../../../codegen/glsl/program.hpp"
#include "../../../codegen/glsl/text.hpp"
#include "../../backend/kernel_store.hpp"
#include "reduce_cpu.hpp"
#include "reduce_device.hpp"

#include <cmath>

namespace topograd::ops {
namespace {

using codegen::Precision;
using codegen::text;

template <class T>
void reduce_on_cpu(Reduction reduction, Operand operand, std::span<const Slice> inputs,
                   const Slice& output, bool root) {
  const ReductionInputs<T> from{
      inputs[0].read<T>(), operand == Operand::product ? inputs[1].read<T>() : inputs[0].read<T>(),
      operand};
  const std::size_t count = inputs[0].size;
  if (orders(reduction)) {
    const bool smallest = reduction == Reduction::min || reduction == Reduction::argmin;
    const Best<T> best = find_best(smallest, from, count);
    if (finds_index(reduction)) {
      *output.write<std::uint32_t>() = best.index;
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
  return {.key = key_of("operand", operand),
          .functions = {},
          .statements = text("  precise ", glsl_name(type), " v = ", value, ";\n")};
}

void check_sizes(const char* call, std::size_t arrays, std::span<const Slice> inputs,
                 const Slice& output) {
  if (inputs.size() != arrays) {
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected " +
                                                std::to_string(arrays) + " arrays, got " +
                                                std::to_string(inputs.size()));
  }
  for (const Slice& input : inputs) expect_size(call, inputs[0].size, input.size);
  expect_size(call, 1, output.size);
}

std::vector<std::shared_ptr<Storage>> storages(std::span<const Slice> slices) {
  std::vector<std::shared_ptr<Storage>> out;
  for (const Slice& slice : slices) out.push_back(slice.storage);
  return out;
}

template <class T>
void map_reduce_on_cpu(const MapReduction& what, std::span<const Slice> inputs,
                       const Slice& output) {
  const T result = TileReduction<T>(what, inputs).reduce(inputs[0].size);
  with_type(output.type, [&](auto element) {
    using E = decltype(element);
    *output.write<E>() = to_element<E>(result);
  });
}

/// Adds the source of each item; `element` is declared by the caller or here.
void map_reduce_on_device(OpBackend& backend, const MapReduction& what,
                          std::span<const Slice> inputs, const Slice& output, Precision precision) {
  const Type type = precision == Precision::f64 ? Type::f64 : Type::f32;
  const std::uint32_t room = most_words(static_cast<std::uint32_t>(inputs.size()) + 2) - 5;
  std::optional<FittedExpression> element, fold;
  if (what.fold) fold = fit(*what.fold, precision, what.element ? 0 : room);
  if (what.element) element = fit(*what.element, precision, what.fold ? 0 : room);
  Monoid monoid =
      what.fold ? monoid_of(*fold, what.identity, precision, element ? &element->program : nullptr)
                : monoid_of(what.reduction, type);
  if (what.fold) order_by(*what.fold, monoid);
  ReductionItem item{.key = key_of("item", precision)};
  const std::string t(codegen::scalar_type(precision));
  if (element) {
    item.key.add(element->hash.high);
    item.key.add(element->hash.low);
    item.key.add(element->numbers);
    std::string call = "  element(";
    for (std::size_t k = 0; k < inputs.size(); ++k)
      call += (k > 0 ? ", " : "") + load_source(inputs[k].type, precision, text("x", k, "(i)"));
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
    item.statements =
        text("  ", t, " v = ", load_source(inputs[0].type, precision, "x0(i)"), ";\n");
  }
  reduce_on_device(backend, monoid, item, inputs, output,
                   store_source(output.type, precision, "{0}"));
}

/// A tree over all elements, with `operations` operations per element.
Work reduction_work(std::span<const Slice> inputs, const Slice& output, double operations) {
  const auto count = static_cast<double>(inputs[0].size);
  Work work{.operations = operations * count,
            .bytes_read = 0,
            .bytes_written = output.bytes(),
            .steps = runtime::hybrid::tree_steps(count),
            .pattern = runtime::hybrid::MemoryPattern::reduction};
  for (const Slice& input : inputs) work.bytes_read.value += static_cast<double>(input.bytes());
  return work;
}

}  // namespace

ExecutionStats reduce_into(Reduction reduction, Operand operand, std::span<const Slice> inputs,
                           const Slice& output, bool root, const OpOptions& options) {
  std::string call(name(reduction));
  if (operand == Operand::product) call = "dot";
  if (root) call = "norm";
  check_sizes(call.c_str(), operand == Operand::product ? 2 : 1, inputs, output);
  const Type type = inputs[0].type;
  for (const Slice& input : inputs) expect_type(call.c_str(), "elements", type, input.type);
  expect_type(call.c_str(), "a result", finds_index(reduction) ? Type::u32 : type, output.type);
  if (inputs[0].size == 0 && orders(reduction))
    throw Error(ErrorCode::Shape, call + ": expected at least one element, got none");
  const ReductionItem item = plain_item(operand, type);
  const OpCall op{.op = Operation::Reduce,
                  .kernel = key_of("reduce", reduction, operand, type),
                  .size = inputs[0].size,
                  .work = reduction_work(inputs, output, operand == Operand::product ? 2 : 1),
                  .inputs = storages(inputs),
                  .outputs = {output.storage},
                  .on_cpu =
                      [&] {
                        with_type(type, [&](auto element) {
                          reduce_on_cpu<decltype(element)>(reduction, operand, inputs, output,
                                                           root);
                        });
                      },
                  .on_device =
                      [&](OpBackend& backend) {
                        reduce_on_device(backend, monoid_of(reduction, type), item, inputs, output,
                                         root ? "sqrt({0})" : "{0}");
                      },
                  .needs_float64 = type == Type::f64};
  return run(op, options);
}

ExecutionStats map_reduce_into(const MapReduction& what, std::span<const Slice> inputs,
                               const Slice& output, const OpOptions& options) {
  const char* const call = what.element ? "map_reduce" : "reduce";
  check_sizes(call, what.element ? what.element->inputs() : 1, inputs, output);
  if (!what.fold && finds_index(what.reduction))
    throw Error(ErrorCode::InvalidArgument,
                "map_reduce: expected sum, compensated_sum, product, min or max, got " +
                    std::string(name(what.reduction)));
  if (!what.fold && orders(what.reduction) && inputs[0].size == 0)
    throw Error(ErrorCode::Shape, "map_reduce: expected at least one element, got none");
  std::vector<Type> types = {output.type};
  for (const Slice& input : inputs) types.push_back(input.type);
  const Precision precision = precision_for(types);
  ir::Hash128 key = key_of("map_reduce", what.reduction);
  double operations = what.fold == nullptr ? 1 : 0;
  for (const Expression* e : {what.element, what.fold}) {
    if (e == nullptr) continue;
    key.add(e->hash().high);
    key.add(e->hash().low);
    operations += e->operations();
  }
  const OpCall op{.op = Operation::Reduce,
                  .kernel = key,
                  .size = inputs[0].size,
                  .work = reduction_work(inputs, output, operations),
                  .inputs = storages(inputs),
                  .outputs = {output.storage},
                  .on_cpu =
                      [&] {
                        if (precision == Precision::f64) {
                          map_reduce_on_cpu<double>(what, inputs, output);
                        } else {
                          map_reduce_on_cpu<float>(what, inputs, output);
                        }
                      },
                  .on_device =
                      [&](OpBackend& backend) {
                        map_reduce_on_device(backend, what, inputs, output, precision);
                      },
                  .needs_float64 = precision == Precision::f64};
  return run(op, options);
}

}  // namespace topograd::ops
