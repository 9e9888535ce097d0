// Interface of a compute module that the host relies on: buffers, push constants, workgroup size.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "precision.hpp"

namespace topograd::codegen {

/// A storage or uniform buffer that holds one array (or a run of members) of one element type.
struct Binding {
  std::uint32_t set = 0;
  std::uint32_t binding = 0;
  std::string name;  ///< of the variable or, if it has none, of its block
  Element element = Element::f32;
  std::uint32_t lanes = 1;   ///< 1 for scalars, 2 to 4 for vectors
  std::uint32_t stride = 0;  ///< bytes from one array element to the next; 0 without an array
  bool readonly = false;
  bool writeonly = false;
};

/// A member of the push constant block.
struct PushConstant {
  std::string name;
  std::uint32_t offset = 0;  ///< bytes
  std::uint32_t size = 0;    ///< bytes

  bool operator==(const PushConstant&) const = default;
};

/// Marks a workgroup dimension that is not a specialisation constant.
constexpr std::uint32_t kNoSpecialization = ~0u;

/// The interface that a module must have before a pipeline is made of it.
struct ExpectedLayout {
  std::vector<Binding> bindings;             ///< any order
  std::vector<PushConstant> push_constants;  ///< by offset
  std::uint32_t push_constant_size = 0;      ///< bytes
  std::array<std::uint32_t, 3> workgroup_size = {1, 1, 1};
  std::array<std::uint32_t, 3> workgroup_ids = {kNoSpecialization, kNoSpecialization,
                                                kNoSpecialization};
};

}  // namespace topograd::codegen
