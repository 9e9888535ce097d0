// Type of the numbers in a buffer.
#pragma once

#include "../ir/enum_table.hpp"

namespace topograd::codegen {

enum class Element {
#define TG_ELEMENT(element, type) element,
#include "elements.def"
};
/// The names are GLSL's.
inline constexpr EnumRow<Element> kElements[] = {
#define TG_ELEMENT(element, type) {Element::element, type},
#include "elements.def"
};
TG_ENUM_TABLE(Element, kElements)

}  // namespace topograd::codegen
