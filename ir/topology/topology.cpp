// Canonical programs and their hashes.
#include "topology.hpp"
#include "../error.hpp"
#include "../passes/checked.hpp"
#include "../passes/passes.hpp"
#include "canonical_form.hpp"

#include <algorithm>
#include <tuple>

namespace topograd::ir {
namespace {

Hash128 hash_of(const Program& program) {
  Hash128 hash;
  for (std::uint64_t count :
       {std::size_t{program.leaves.parameters}, std::size_t{program.leaves.data},
        std::size_t{program.leaves.uniforms}, program.nodes.size(), program.outputs.size(),
        program.guards.size()}) {
    hash.add(count);
  }
  for (const Node& n : program.nodes) {
    hash.add((std::uint64_t{n.args[0]} << 8) | static_cast<std::uint64_t>(n.op));
    if (arity(n.op) > 1 || n.op == Op::Literal)
      hash.add((std::uint64_t{n.args[2]} << 32) | n.args[1]);
  }
  for (Id id : program.outputs) hash.add(id);
  for (const Guard& g : program.guards) hash.add(2 * std::uint64_t{g.condition} + g.expected);
  return hash;
}

// A repeated guard does not change the structure.
void remove_repeated(std::vector<Guard>& guards) {
  std::sort(guards.begin(), guards.end(), [](const Guard& a, const Guard& b) {
    return std::tie(a.condition, a.expected) < std::tie(b.condition, b.expected);
  });
  guards.erase(std::unique(guards.begin(), guards.end()), guards.end());
}

void expect_residual(const Program& program) {
  for (const Node& n : program.nodes) {
    if (n.op != Op::Tangent && n.op != Op::Seed) continue;
    throw Error(ErrorCode::InvalidArgument,
                "canonicalize: expected a program of parameters, data and uniforms, got a " +
                    std::string(info(n.op).name) + " leaf");
  }
}

}  // namespace

Canonical canonicalize(const Program& program) {
  Program source = remove_dead(program);
  expect_residual(source);
  remove_repeated(source.guards);
  Refinement refinement(source);
  CanonicalSearch search(refinement);
  const CanonicalForm& form = search.run();
  Canonical out;
  out.parameters = source_slots(form, refinement, Op::Parameter);
  out.data = source_slots(form, refinement, Op::Data);
  out.uniforms = source_slots(form, refinement, Op::Uniform);
  out.exact = search.exact();
  out.topology.program = checked(form.program, "canonicalize");
  out.topology.hash = hash_of(form.program);
  return out;
}

}  // namespace topograd::ir
