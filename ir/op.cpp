// Look-up of ops by name.
#include "op.hpp"

namespace topograd::ir {

std::optional<Op> find_op(std::string_view name) {
  for (const OpInfo& row : kOps) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

}  // namespace topograd::ir
