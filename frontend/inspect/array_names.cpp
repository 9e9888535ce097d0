// Texts for arrays, blocks and scalars.
#include "array_names.hpp"

namespace topograd {

std::string block_text(const ArrayName& array, std::uint64_t block) {
  if (array.name.empty()) {
    return "parameter array " + std::to_string(array.number) + ", block " + std::to_string(block);
  }
  return "parameter \"" + std::string(array.name) + "\"" +
         (array.blocks == 1 ? "" : ", block " + std::to_string(block));
}

std::string scalar_text(const ArrayName& array, std::uint64_t scalar) {
  std::string block = block_text(array, scalar / array.width);
  if (!array.name.empty() && array.width == 1) return block;
  return block + ", coordinate " + std::to_string(scalar % array.width);
}

}  // namespace topograd
