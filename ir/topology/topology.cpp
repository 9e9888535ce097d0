// Canonical programs, their hashes, and the first difference between two topologies.
#include "topology.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "../error.hpp"
#include "../passes/passes.hpp"
#include "../passes/rewrite.hpp"
#include "../text.hpp"
#include "canonical_form.hpp"

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

std::string differing(const std::string& what, const std::string& a, const std::string& b) {
  return what + ": " + a + " against " + b;
}

std::string count_difference(const Program& a, const Program& b) {
  const struct {
    const char* what;
    std::size_t a, b;
  } rows[] = {
      {"outputs", a.outputs.size(), b.outputs.size()},
      {"parameters", a.leaves.parameters, b.leaves.parameters},
      {"data", a.leaves.data, b.leaves.data},
      {"uniforms", a.leaves.uniforms, b.leaves.uniforms},
      {"guards", a.guards.size(), b.guards.size()},
  };
  for (const auto& row : rows) {
    if (row.a != row.b) return differing(row.what, std::to_string(row.a), std::to_string(row.b));
  }
  return "";
}

std::string op_difference(const Program& a, const Program& b) {
  std::array<std::size_t, kOpCount> in_a{}, in_b{};
  for (const Node& n : a.nodes) ++in_a[static_cast<std::size_t>(n.op)];
  for (const Node& n : b.nodes) ++in_b[static_cast<std::size_t>(n.op)];
  for (std::size_t op = 0; op < kOpCount; ++op) {
    if (in_a[op] == in_b[op]) continue;
    return differing("number of " + std::string(kOps[op].name), std::to_string(in_a[op]),
                     std::to_string(in_b[op]));
  }
  return "";
}

// The first literal, in order of use, that only one of the two has.
std::string literal_difference(const Program& a, const Program& b) {
  const auto literals = [](const Program& p) {
    std::vector<double> values;
    for (const Node& n : p.nodes) {
      if (n.op == Op::Literal) values.push_back(n.literal());
    }
    std::sort(values.begin(), values.end(), [](double x, double y) {
      return std::bit_cast<std::uint64_t>(x) < std::bit_cast<std::uint64_t>(y);
    });
    return values;
  };
  const std::vector<double> x = literals(a), y = literals(b);
  for (std::size_t k = 0; k < std::min(x.size(), y.size()); ++k) {
    if (std::bit_cast<std::uint64_t>(x[k]) == std::bit_cast<std::uint64_t>(y[k])) continue;
    return differing("literal", print_number(x[k]), print_number(y[k]));
  }
  return "";
}

std::string guard_text(const Guard& g) {
  return "%" + std::to_string(g.condition) + (g.expected ? " true" : " false");
}

std::string wiring_difference(const Program& a, const Program& b) {
  for (Id id = 0; id < std::min(a.nodes.size(), b.nodes.size()); ++id) {
    if (a.nodes[id] == b.nodes[id]) continue;
    return differing("same ops, wired differently", print_node(id, a.nodes[id]),
                     print_node(id, b.nodes[id]));
  }
  for (std::size_t k = 0; k < a.outputs.size(); ++k) {
    if (a.outputs[k] == b.outputs[k]) continue;
    return differing("output " + std::to_string(k), "%" + std::to_string(a.outputs[k]),
                     "%" + std::to_string(b.outputs[k]));
  }
  for (std::size_t k = 0; k < a.guards.size(); ++k) {
    if (a.guards[k] == b.guards[k]) continue;
    return differing("guard " + std::to_string(k), guard_text(a.guards[k]),
                     guard_text(b.guards[k]));
  }
  return "";
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

std::string explain_miss(const Topology& a, const Topology& b) {
  for (const auto find : {count_difference, op_difference, literal_difference, wiring_difference}) {
    std::string found = find(a.program, b.program);
    if (!found.empty()) return found;
  }
  return "equal";
}

}  // namespace topograd::ir
