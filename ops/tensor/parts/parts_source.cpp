// Internal: kernels that copy parts of tensors.
#include "parts_source.hpp"

#include "../../../codegen/glsl/text.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace topograd::ops::detail {
namespace {

std::string unit_type(std::uint32_t unit) {
  return unit == 4 ? "uint" : unit == 8 ? "uvec2" : "uvec4";
}

/// Repeats `statement` for each item, with the index of its entry, `place`.
std::string for_entries(bool wide, std::string_view statement) {
  return codegen::substitute(R"(  uint i = linear_item();
  if (i >= count) return;
  uint row = i / inner;
  {T} place = indices(row % taken);
  bool there = place >= {T}(0.0) && place < {T}(entries);
  uint from = there ? (row / taken * entries + uint(place)) * inner + i % inner : 0u;
)",
                             {{"T", wide ? "double" : "float"}}) +
         std::string(statement);
}

}  // namespace

std::uint32_t unit_bytes(Type type, std::initializer_list<std::uint64_t> elements) {
  std::uint64_t all = 16;
  for (const std::uint64_t count : elements) all |= count * size_of(type);
  return 1u << std::countr_zero(all);
}

ComputeKernel place_kernel(std::uint32_t unit) {
  return make_kernel({.name = "place_" + std::to_string(unit),
                      .arguments = {{"source", unit_type(unit), Access::read},
                                    {"target", unit_type(unit), Access::write}},
                      .words = {"count", "inner", "row"},
                      .body = "  uint i = linear_item();\n"
                              "  if (i < count) target(i / inner * row + i % inner) = "
                              "source(i);\n"});
}

ComputeKernel take_kernel(std::uint32_t unit, bool wide) {
  const std::string type = unit_type(unit);
  return make_kernel({.name = "take_" + std::to_string(unit) + (wide ? "_f64" : ""),
                      .arguments = {{"source", type, Access::read},
                                    {"indices", wide ? "double" : "float", Access::read},
                                    {"target", type, Access::write}},
                      .words = {"count", "inner", "taken", "entries"},
                      .body = for_entries(wide, "  " + type + " value = " + type +
                                                    "(0u);\n  if (there) value = source(from);\n"
                                                    "  target(i) = value;\n")});
}

ComputeKernel taken_places_kernel(bool wide) {
  return make_kernel({.name = wide ? "taken_places_f64" : "taken_places",
                      .arguments = {{"indices", wide ? "double" : "float", Access::read},
                                    {"target", "uint", Access::write}},
                      .words = {"count", "inner", "taken", "entries"},
                      .body = for_entries(wide, "  target(i) = there ? from : ~0u;\n")});
}

}  // namespace topograd::ops::detail
