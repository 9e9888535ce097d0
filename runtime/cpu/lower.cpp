// Lowering: schedule, lifetimes, registers.
#include <topograd/runtime/cpu/lower.hpp>

#include <topograd/ir/passes/passes.hpp>

namespace topograd::runtime::cpu {
namespace {

using ir::Id;
using ir::Op;
using Action = Instruction::Action;

constexpr Place kUnplaced = ~Place{0};

bool is_gathered(Op op) { return op == Op::Parameter || op == Op::Tangent || op == Op::Uniform; }
bool is_register(Op op) { return !ir::is_leaf(op) || is_gathered(op); }

class Lowering {
 public:
  explicit Lowering(const ir::Program& program)
      : program_(program), uses_(program.nodes.size()), place_(program.nodes.size(), kUnplaced) {
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
  }

  TileProgram run() {
    place_constants_and_columns();
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      if (!ir::is_leaf(program_.nodes[id].op)) apply(id);
      for (std::uint32_t k = first_output_[id]; k != ir::kNone; k = next_output_[k]) store(id, k);
    }
    return std::move(result_);
  }

 private:
  void place_constants_and_columns() {
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      const ir::Node& node = program_.nodes[id];
      if (node.op != Op::Literal) continue;
      place_[id] = static_cast<Place>(result_.literals.size());
      result_.literals.push_back(node.literal());
    }
    for (Id id = 0; id < program_.nodes.size(); ++id) {
      const ir::Node& node = program_.nodes[id];
      if (node.op == Op::Literal || is_register(node.op)) continue;
      place_[id] = result_.first_register();
      result_.columns.push_back({node.op, node.slot()});
    }
  }

  Place take_register() {
    if (free_.empty()) return result_.first_register() + result_.registers++;
    const Place place = free_.back();
    free_.pop_back();
    return place;
  }

  // The operand's place; a leaf is loaded before its first use.
  Place use(Id id) {
    if (place_[id] != kUnplaced) return place_[id];
    const ir::Node& node = program_.nodes[id];
    place_[id] = take_register();
    result_.instructions.push_back({.action = Action::Load,
                                    .out = place_[id],
                                    .a = static_cast<Place>(result_.gathers.size())});
    result_.gathers.push_back({node.op, node.slot()});
    return place_[id];
  }

  void release(Id id) {
    if (--uses_[id] == 0 && is_register(program_.nodes[id].op)) free_.push_back(place_[id]);
  }

  void apply(Id id) {
    const ir::Node& node = program_.nodes[id];
    const std::span<const Id> operands = node.operands();
    Instruction instruction{.op = node.op, .a = use(operands[0])};
    // Unused fields repeat the first: every field names a place that can be read.
    instruction.b = operands.size() > 1 ? use(operands[1]) : instruction.a;
    instruction.c = operands.size() > 2 ? use(operands[2]) : instruction.a;
    for (Id operand : operands) release(operand);
    place_[id] = take_register();
    instruction.out = place_[id];
    result_.instructions.push_back(instruction);
  }

  void store(Id id, std::uint32_t output) {
    result_.instructions.push_back({.action = Action::Store, .out = output, .a = use(id)});
    release(id);
  }

  const ir::Program& program_;
  std::vector<std::uint32_t> uses_;  // still to come, by node
  std::vector<Place> place_;
  std::vector<Place> free_;
  std::vector<std::uint32_t> first_output_, next_output_;  // outputs of a node, as lists
  TileProgram result_;
};

}  // namespace

TileProgram lower(const ir::Program& program) {
  ir::Program values = program;
  values.guards.clear();  // conditions of branches are no results
  return Lowering(ir::schedule(ir::remove_dead(ir::expand(values)))).run();
}

}  // namespace topograd::runtime::cpu
