// Names of element types.
#include "type.hpp"

namespace topograd::ops {

std::string_view glsl_name(Type type) {
  switch (type) {
    case Type::f32: return "float";
    case Type::f64: return "double";
    case Type::i32: return "int";
    case Type::u32:
    case Type::f16: break;
  }
  return "uint";
}

}  // namespace topograd::ops
