// The pipeline of passes before differentiation.
#include "passes.hpp"

namespace topograd::ir {

Program optimize(const Program& program) {
  // Rules only shorten a program or bring it closer to canonical form; few rounds are useful.
  constexpr int kRounds = 8;
  Program now = expand(program);
  for (int round = 0; round < kRounds; ++round) {
    Program next = simplify(fold(now));
    const bool settled = next == now;
    now = std::move(next);
    if (settled) break;
  }
  return now;
}

}  // namespace topograd::ir
