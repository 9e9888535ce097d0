// The ten lines that an installation must be able to build and run.
#include <cstring>
#include <topograd/ir/error.hpp>

namespace tg = topograd;

int main() {
  const tg::Error error(tg::ErrorCode::Timeout, "solve: no progress for 60 s");
  return std::strcmp(tg::name(error.code()), "timeout") == 0 ? 0 : 1;
}
