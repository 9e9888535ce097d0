// The pipeline of passes in front of differentiation.
#include "passes.hpp"

namespace topograd::ir {

Program optimize(const Program& program) {
  // Rules only ever shorten a program or bring it closer to canonical form; each round opens few
  // new chances.
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
