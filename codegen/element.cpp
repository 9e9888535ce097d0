// Names of the element types.
#include "element.hpp"

namespace topograd::codegen {

const char* name(Element element) {
  switch (element) {
    case Element::f32: return "float";
    case Element::f64: return "double";
    case Element::i32: return "int";
    case Element::u32: return "uint";
    case Element::i64: return "int64_t";
    case Element::u64: return "uint64_t";
    case Element::other: return "other";
  }
  return "other";
}

}  // namespace topograd::codegen
