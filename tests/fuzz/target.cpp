// The table of targets, and their common parts.
#include "target.hpp"

#include <algorithm>
#include <stdexcept>

namespace topograd::fuzz {

// CMake generates it from its list of targets.
#define TG_FUZZ_TARGET(name) void name(std::string_view input);
#include "fuzz_targets.inc"
#undef TG_FUZZ_TARGET

std::span<const Target> targets() {
  static constexpr Target kTargets[] = {
#define TG_FUZZ_TARGET(name) {#name, name},
#include "fuzz_targets.inc"
#undef TG_FUZZ_TARGET
  };
  return kTargets;
}

bool reads(const std::function<void()>& read, std::initializer_list<ErrorCode> entitled) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (std::ranges::find(entitled, error.code()) == entitled.end()) throw;
    return false;
  }
}

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace topograd::fuzz
