// Reads a compiled module's interface back and compares it with what the host believes.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "element.hpp"

namespace topograd::codegen {

/// A storage or uniform buffer that holds one array (or a run of members) of one element type.
struct Binding {
  std::uint32_t set = 0;
  std::uint32_t binding = 0;
  std::string name;  ///< of the variable or, without one, of its block
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

/// What the host must agree on with a module before a pipeline is made of it.
struct ExpectedLayout {
  std::vector<Binding> bindings;             ///< any order
  std::vector<PushConstant> push_constants;  ///< by offset
  std::uint32_t push_constant_size = 0;      ///< bytes
  std::array<std::uint32_t, 3> workgroup_size = {1, 1, 1};
  std::array<std::uint32_t, 3> workgroup_ids = {kNoSpecialization, kNoSpecialization,
                                                kNoSpecialization};
};

/// The interface of a module: the above (bindings by set and number) and what the device must have.
struct ModuleLayout : ExpectedLayout {
  std::vector<std::uint32_t> specialization_ids;  ///< constant_id of each constant, ascending
  std::vector<std::uint32_t> capabilities;        ///< SpvCapability, ascending
  std::vector<std::string> extensions;            ///< SPV_..., ascending

  bool uses_float64() const;
  bool uses_int64() const;
  bool uses_int64_atomics() const;
  bool uses_float32_atomic_add() const;
  bool uses_float64_atomic_add() const;
  bool uses_subgroups() const;
  bool has(std::uint32_t capability) const;
};

/// Reads a compute module back through SPIRV-Cross.
///
/// Throws Error{InvalidArgument} if `module` is not SPIR-V or SPIRV-Cross cannot read it.
ModuleLayout reflect(std::span<const std::uint32_t> module);

/// Compares a module with the host's belief; binding order does not matter.
///
/// Throws Error{LayoutMismatch} that names the kernel and the first difference, expected and got.
void check(const ModuleLayout& got, const ExpectedLayout& want, std::string_view kernel_name);

}  // namespace topograd::codegen
