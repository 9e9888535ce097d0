// Names of element types.
#include "type.hpp"

namespace topograd::ops {

std::string_view name(Type type) {
  switch (type) {
    case Type::f32: return "f32";
    case Type::f64: return "f64";
    case Type::i32: return "i32";
    case Type::u32: return "u32";
    case Type::f16: return "f16";
  }
  return "";
}

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
