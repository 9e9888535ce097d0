// Checks of the input of row runners.
#include "rows.hpp"

#include "../../ir/error.hpp"

#include <numeric>

namespace topograd::runtime {
namespace {

void check(const char* space, std::uint32_t slots, const Columns& columns, std::size_t count) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::Shape, std::string("rows: expected ") + what);
  };
  if (columns.size() < slots) {
    refuse(std::to_string(slots) + " columns of " + space + ", got " +
           std::to_string(columns.size()));
  }
  for (std::uint32_t k = 0; k < slots; ++k) {
    if (columns[k].size() >= count) continue;
    refuse(std::to_string(count) + " numbers of " + space + " " + std::to_string(k) + ", got " +
           std::to_string(columns[k].size()));
  }
}

bool reads(const ir::Program& program, ir::Op op) {
  for (const ir::Node& node : program.nodes) {
    if (node.op == op) return true;
  }
  return false;
}

}  // namespace

void check_rows(const ir::Program& program, const Rows& rows) {
  const ir::LeafCounts& n = program.leaves;
  const struct {
    const char* name;
    ir::Op op;
    std::uint32_t slots;
    const Columns& columns;
  } spaces[] = {{"parameters", ir::Op::Parameter, n.parameters, rows.parameters},
                {"data", ir::Op::Data, n.data, rows.data},
                {"uniforms", ir::Op::Uniform, n.uniforms, rows.uniforms},
                {"tangents", ir::Op::Tangent, n.parameters, rows.tangents},
                {"seeds", ir::Op::Seed, n.seeds, rows.seeds}};
  for (const auto& space : spaces) {
    if (reads(program, space.op)) check(space.name, space.slots, space.columns, rows.count);
  }
}

ir::Program all_nodes(const ir::Program& program) {
  ir::Program out = program;
  out.outputs.resize(out.nodes.size());
  std::iota(out.outputs.begin(), out.outputs.end(), ir::Id{0});
  out.guards.clear();
  return out;
}

}  // namespace topograd::runtime
