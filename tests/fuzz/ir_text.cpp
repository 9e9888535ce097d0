// Programs as text: accepted input prints, reads back, and passes every pass.
#include "target.hpp"

#include "../../ir/evaluate.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/text.hpp"
#include "../../ir/topology/topology.hpp"
#include "../../ir/verify.hpp"

#include <algorithm>
#include <vector>

namespace topograd::fuzz {
namespace {

// Limits the time of work other than reading.
constexpr std::size_t kMostNodes = 200;
constexpr std::uint32_t kMostSlots = 1000;

void compute(const ir::Program& program) {
  const auto& leaves = program.leaves;
  const std::vector<double> numbers(
      std::max({leaves.parameters, leaves.data, leaves.uniforms, leaves.seeds}), 0.75);
  ir::evaluate<double>(program, {.parameters = numbers,
                                 .data = numbers,
                                 .uniforms = numbers,
                                 .tangents = numbers,
                                 .seeds = numbers});
}

}  // namespace

void ir_text(std::string_view text) {
  ir::Program program;
  if (!reads([&] { program = ir::parse(text); }, {ErrorCode::Parse})) return;
  require(ir::parse(ir::print(program)) == program, "a program that does not read back");
  if (program.nodes.size() > kMostNodes) return;
  for (const auto pass : {ir::expand, ir::fold, ir::simplify, ir::remove_dead, ir::schedule})
    require(!ir::violation(pass(program)), "a pass that breaks an invariant");
  require(!ir::violation(ir::optimize(program)), "an optimised program that breaks an invariant");
  const auto& leaves = program.leaves;
  if (std::max({leaves.parameters, leaves.data, leaves.uniforms, leaves.seeds}) > kMostSlots)
    return;
  compute(program);
  // For residuals: tangents and seeds belong to derivatives.
  reads([&] { ir::canonicalize(program); }, {ErrorCode::InvalidArgument});
}

}  // namespace topograd::fuzz
