// NIST's files: a set with consistent columns, starts and certified values.
#include "target.hpp"

#include "../../tools/problems/nist.hpp"

#include "../../ir/verify.hpp"

namespace topograd::fuzz {

void nist_set(std::string_view text) {
  problems::NistSet set;
  const auto read = [&] { set = problems::parse_nist(text, "set.dat"); };
  if (!reads(read, {ErrorCode::Parse})) return;
  require(!ir::violation(set.residual), "a model that breaks an invariant");
  require(!set.columns.empty() && set.data.size() % set.columns.size() == 0,
          "half of an observation");
  for (const auto& start : set.starts)
    require(start.size() == set.certified.size(), "starts without certified values");
}

}  // namespace topograd::fuzz
