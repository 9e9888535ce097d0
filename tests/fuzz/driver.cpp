// Entry point for libFuzzer: the target for which this program was built.
#include "target.hpp"

#include <cstddef>
#include <cstdint>

namespace topograd::fuzz {
void TOPOGRAD_FUZZ_TARGET(std::string_view input);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  topograd::fuzz::TOPOGRAD_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
