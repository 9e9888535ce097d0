// Types of the numbers in arrays.
#pragma once

#include "../../ir/enum_table.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace topograd::ops {

/// f16 is only a storage type: some kernels unpack it, arrays do not support it.
enum class Type : std::uint8_t { f32, f64, i32, u32, f16 };

inline constexpr Type kArrayTypes[] = {Type::f32, Type::f64, Type::i32, Type::u32};

TG_ENUM_NAMES(Type)
/// The GLSL type: "float", "double", "int", "uint"; for f16 "uint", which holds two.
constexpr std::string_view glsl_name(Type type) {
  switch (type) {
    case Type::f32: return "float";
    case Type::f64: return "double";
    case Type::i32: return "int";
    case Type::u32:
    case Type::f16: break;
  }
  return "uint";
}

/// Bytes per element.
constexpr std::size_t size_of(Type type) {
  switch (type) {
    case Type::f64: return 8;
    case Type::f16: return 2;
    case Type::f32:
    case Type::i32:
    case Type::u32: break;
  }
  return 4;
}
constexpr bool is_floating(Type type) { return type != Type::i32 && type != Type::u32; }

template <class T>
inline constexpr bool kIsElement =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::uint32_t>;

/// The Type of a C++ type.
template <class T>
requires kIsElement<T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, float>) return Type::f32;
  if constexpr (std::is_same_v<T, double>) return Type::f64;
  if constexpr (std::is_same_v<T, std::int32_t>) return Type::i32;
  return Type::u32;
}

/// f(T{}) with the C++ type of an array's elements; Type::f16 is an internal error.
template <class F>
decltype(auto) with_type(Type type, F&& f) {
  switch (type) {
    case Type::f64: return f(double{});
    case Type::i32: return f(std::int32_t{});
    case Type::u32: return f(std::uint32_t{});
    case Type::f32:
    case Type::f16: break;
  }
  return f(float{});
}

}  // namespace topograd::ops
