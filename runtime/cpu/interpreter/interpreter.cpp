// Lowering by schedule, lifetimes and registers; execution of instructions on tiles.
#include "interpreter.hpp"

#include <algorithm>
#include <optional>

#include "../../../ir/passes/passes.hpp"
#include "../../../ir/program.hpp"

namespace topograd::runtime::cpu {
namespace {

using ir::Id;
using ir::Op;
using Action = Instruction::Action;

constexpr OperandIndex kNoOperand = ~OperandIndex{0};

bool is_gathered(Op op) { return op == Op::Parameter || op == Op::Tangent || op == Op::Uniform; }
bool is_register(Op op) { return !ir::is_leaf(op) || is_gathered(op); }

/// The pair of `inner` and an outer op that reads it at `operand`.
std::optional<Pair> find_pair(Op inner, Op outer, int operand) {
  if (ir::info(outer).commutes) operand = 0;
  for (std::size_t k = 0; k < kPairCount; ++k) {
    const PairInfo& pair = kPairs[k];
    if (pair.inner == inner && pair.outer == outer && pair.operand == operand)
      return static_cast<Pair>(k);
  }
  return std::nullopt;
}

class Lowering {
 public:
  explicit Lowering(const ir::Program& program)
      : program_(program), uses_(program.nodes.size()), operand_(program.nodes.size(), kNoOperand) {
    for (const ir::Node& node : program.nodes) {
      for (Id operand : node.operands()) ++uses_[operand];
    }
    result_.outputs = static_cast<std::uint32_t>(program.outputs.size());
    next_output_.resize(program.outputs.size());
    first_output_.assign(program.nodes.size(), ir::kNone);
    for (std::uint32_t k = result_.outputs; k-- > 0;) {
      const Id id = program.outputs[k];
      ++uses_[id];
      next_output_[k] = first_output_[id];
      first_output_[id] = k;
    }
    find_pairs();
  }

  TileProgram run() {
    number_constants_and_columns();
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      if (absorbed_[id]) continue;
      if (inner_[id].pair) {
        apply_both(id);
      } else if (!ir::is_leaf(program_.nodes[id].op)) {
        apply(id);
      }
      for (std::uint32_t k = first_output_[id]; k != ir::kNone; k = next_output_[k]) store(id, k);
    }
    return std::move(result_);
  }

 private:
  /// The operand of a node that becomes one instruction with it.
  struct Inner {
    std::optional<Pair> pair;
    int operand = 0;
  };

  /// In the order of the nodes: in a chain of sums the first two, the next two, and so on.
  void find_pairs() {
    absorbed_.assign(program_.nodes.size(), false);
    inner_.resize(program_.nodes.size());
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      const ir::Node& node = program_.nodes[id];
      if (ir::is_leaf(node.op)) continue;
      const std::span<const Id> operands = node.operands();
      for (int k = 0; k < static_cast<int>(operands.size()) && !inner_[id].pair; ++k) {
        const Id inner = operands[static_cast<std::size_t>(k)];
        if (uses_[inner] != 1 || first_output_[inner] != ir::kNone || inner_[inner].pair) continue;
        inner_[id] = {find_pair(program_.nodes[inner].op, node.op, k), k};
        if (inner_[id].pair) absorbed_[inner] = true;
      }
    }
  }

  void number_constants_and_columns() {
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      const ir::Node& node = program_.nodes[id];
      if (node.op != Op::Literal) continue;
      operand_[id] = static_cast<OperandIndex>(result_.literals.size());
      result_.literals.push_back(node.literal());
    }
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      const ir::Node& node = program_.nodes[id];
      if (node.op == Op::Literal || is_register(node.op)) continue;
      operand_[id] = result_.first_register();
      result_.columns.push_back({node.op, node.slot()});
    }
  }

  OperandIndex take_register() {
    if (free_.empty()) return result_.first_register() + result_.registers++;
    const OperandIndex last = free_.back();
    free_.pop_back();
    return last;
  }

  // The operand's index; a leaf is loaded before its first use.
  OperandIndex use(Id id) {
    if (operand_[id] != kNoOperand) return operand_[id];
    const ir::Node& node = program_.nodes[id];
    operand_[id] = take_register();
    result_.instructions.push_back({.action = Action::Load,
                                    .out = operand_[id],
                                    .a = static_cast<OperandIndex>(result_.gathers.size())});
    result_.gathers.push_back({node.op, node.slot()});
    return operand_[id];
  }

  void release(Id id) {
    if (--uses_[id] == 0 && is_register(program_.nodes[id].op)) free_.push_back(operand_[id]);
  }

  void apply(Id id) {
    const ir::Node& node = program_.nodes[id];
    const std::span<const Id> operands = node.operands();
    Instruction instruction{.op = node.op, .a = use(operands[0])};
    // Unused fields repeat the first, so that every field is a readable operand.
    instruction.b = operands.size() > 1 ? use(operands[1]) : instruction.a;
    instruction.c = operands.size() > 2 ? use(operands[2]) : instruction.a;
    for (Id operand : operands) release(operand);
    operand_[id] = take_register();
    instruction.out = operand_[id];
    result_.instructions.push_back(instruction);
  }

  void apply_both(Id id) {
    const std::span<const Id> outer = program_.nodes[id].operands();
    const auto position = static_cast<std::size_t>(inner_[id].operand);
    const std::span<const Id> inner = program_.nodes[outer[position]].operands();
    Instruction instruction{.action = Action::Both, .pair = *inner_[id].pair, .a = use(inner[0])};
    instruction.b = inner.size() > 1 ? use(inner[1]) : instruction.a;
    instruction.c = outer.size() > 1 ? use(outer[1 - position]) : instruction.a;
    for (Id operand : inner) release(operand);
    if (outer.size() > 1) release(outer[1 - position]);
    operand_[id] = take_register();
    instruction.out = operand_[id];
    result_.instructions.push_back(instruction);
  }

  void store(Id id, std::uint32_t output) {
    if (uses_[id] == 1 && !result_.instructions.empty()) {
      Instruction& last = result_.instructions.back();
      const bool computes = last.action == Action::Apply || last.action == Action::Both;
      if (computes && last.out == operand_[id]) {
        last.output = output;
        return release(id);
      }
    }
    result_.instructions.push_back({.action = Action::Store, .out = output, .a = use(id)});
    release(id);
  }

  const ir::Program& program_;
  std::vector<std::uint32_t> uses_;  // remaining uses, by node
  std::vector<Inner> inner_;
  std::vector<bool> absorbed_;  // part of another node's instruction
  std::vector<OperandIndex> operand_;
  std::vector<OperandIndex> free_;
  std::vector<std::uint32_t> first_output_, next_output_;  // outputs of a node, as lists
  TileProgram result_;
};

template <class T>
class CpuRows final : public RowRunner {
 public:
  explicit CpuRows(Bits bits) : ops_(tile_ops<T>(bits)) {}

  Backend backend() const override { return Backend::cpu; }
  std::string device() const override { return ops_.name; }
  Precision precision() const override {
    return sizeof(T) == sizeof(float) ? Precision::f32 : Precision::f64;
  }

  Columns run(const ir::Program& program, const Rows& rows) override {
    check_rows(program, rows);
    const TileKernel<T> kernel(program, ops_);
    const std::size_t padded = whole_tiles(rows.count);
    Column<std::uint32_t> identity(padded);
    for (std::size_t i = 0; i < padded; ++i) identity[i] = static_cast<std::uint32_t>(i);
    std::vector<Column<T>> leaves, results;
    Binding<T> binding;
    for (const LeafUse& leaf : kernel.program().columns) {
      leaves.push_back(padded_column((*ir::leaf_space(leaf.op, rows))[leaf.slot], rows.count));
      binding.columns.push_back({leaves.back().data()});
    }
    for (const LeafUse& leaf : kernel.program().gathers) {
      leaves.push_back(padded_column((*ir::leaf_space(leaf.op, rows))[leaf.slot], rows.count));
      binding.gathers.push_back({leaves.back().data(), identity.data()});
    }
    for (std::size_t k = 0; k < program.outputs.size(); ++k) {
      results.emplace_back(padded);
      binding.outputs.push_back(results.back().data());
    }
    for (std::size_t first = 0; first < rows.count; first += kTile) {
      worker_.run(kernel, binding, first, std::min(kTile, rows.count - first));
    }
    Columns out;
    for (const Column<T>& c : results) out.emplace_back(c.data(), c.data() + rows.count);
    return out;
  }

 private:
  static Column<T> padded_column(const std::vector<double>& from, std::size_t count) {
    Column<T> column(whole_tiles(count));
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = i < count ? static_cast<T>(from[i]) : T(0);
    }
    return column;
  }

  const TileOps<T>& ops_;
  Worker<T> worker_;
};

}  // namespace

TileProgram lower(const ir::Program& program) {
  ir::Program values = program;
  values.guards.clear();  // conditions of branches are no results
  return Lowering(ir::schedule(ir::finish(ir::expand(values)))).run();
}

template <class T>
TileKernel<T>::TileKernel(const ir::Program& program, const TileOps<T>& ops)
    : program_(lower(program)), ops_(&ops), constants_(program_.literals.size() * kTile) {
  for (std::size_t k = 0; k < program_.literals.size(); ++k) {
    std::fill_n(constants_.data() + k * kTile, kTile, static_cast<T>(program_.literals[k]));
  }
}

template <class T>
void Worker<T>::reserve(const TileProgram& program) {
  if (registers_.size() < program.registers * kTile) {
    registers_ = Column<T>(program.registers * kTile);
  }
  if (outputs_.size() < program.outputs * kTile) outputs_ = Column<T>(program.outputs * kTile);
}

template <class T>
void Worker<T>::bind(const TileKernel<T>& kernel, const Binding<T>& binding, std::size_t first) {
  const TileProgram& program = kernel.program();
  constants_and_columns_.resize(program.first_register());
  for (std::size_t k = 0; k < program.literals.size(); ++k) {
    constants_and_columns_[k] = kernel.constant(k);
  }
  for (std::size_t k = 0; k < program.columns.size(); ++k) {
    const ColumnSource<T>& column = binding.columns[k];
    constants_and_columns_[program.first_column() + k] = column.from + (column.shared ? 0 : first);
  }
}

namespace {

/// The numbers of `length` instances from `first` on.
template <class T>
void load(const TileOps<T>& ops, const GatherSource<T>& source, std::size_t first,
          std::size_t length, T* out) {
  if (source.index == nullptr) {
    std::fill_n(out, length, *source.from);
  } else {
    ops.gather(out, source.from, source.index + first, length);
  }
}

}  // namespace

template <class T>
void Worker<T>::run(const TileKernel<T>& kernel, const Binding<T>& binding, std::size_t first,
                    std::size_t n) {
  const TileProgram& program = kernel.program();
  const TileOps<T>& ops = kernel.ops();
  reserve(program);
  bind(kernel, binding, first);
  const OperandIndex first_register = program.first_register();
  const std::size_t length = whole_lanes(n);
  const auto reg = [&](OperandIndex p) { return registers_.data() + (p - first_register) * kTile; };
  const auto at = [&](OperandIndex p) -> const T* {
    return p < first_register ? constants_and_columns_[p] : reg(p);
  };
  // Memory of an output; one that is streamed is computed in a register first.
  const auto output = [&](std::uint32_t k) {
    T* const column = binding.outputs.empty() ? nullptr : binding.outputs[k];
    return column == nullptr ? outputs_.data() + k * kTile : column + first;
  };
  const auto streams = [&](std::uint32_t k) {
    return binding.stream && !binding.outputs.empty() && binding.outputs[k] != nullptr;
  };
  const auto result = [&](const Instruction& in) {
    const bool is_stored = in.output != Instruction::kNoOutput && !streams(in.output);
    return is_stored ? output(in.output) : reg(in.out);
  };
  const auto store = [&](std::uint32_t k, const T* from) {
    (streams(k) ? ops.stream : ops.copy)(output(k), from, length);
  };
  for (const Instruction& in : program.instructions) {
    switch (in.action) {
      case Instruction::Action::Apply:
      case Instruction::Action::Both: {
        T* const out = result(in);
        const auto function = in.action == Instruction::Action::Apply
                                  ? ops.map[static_cast<std::size_t>(in.op)]
                                  : ops.pair[static_cast<std::size_t>(in.pair)];
        function(out, at(in.a), at(in.b), at(in.c), length);
        if (in.output != Instruction::kNoOutput && streams(in.output)) store(in.output, out);
        break;
      }
      case Instruction::Action::Load:
        load(ops, binding.gathers[in.a], first, length, reg(in.out));
        break;
      case Instruction::Action::Store: store(in.out, at(in.a)); break;
    }
  }
}

template class TileKernel<float>;
template class TileKernel<double>;
template class Worker<float>;
template class Worker<double>;

std::unique_ptr<RowRunner> make_row_runner(Precision precision, Bits bits) {
  if (precision == Precision::f32) return std::make_unique<CpuRows<float>>(bits);
  return std::make_unique<CpuRows<double>>(bits);
}

}  // namespace topograd::runtime::cpu
