// Concepts for the arguments of Problem's calls, and compile errors for all other arguments.
#pragma once

#include "parameters.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace topograd {

class HostResidual;

namespace detail {

template <class>
inline constexpr bool kNever = false;

/// An Eigen matrix that is not a vector: its numbers may be stored by rows or by columns.
template <class C>
concept EigenMatrix = requires {
  requires !bool(C::IsVectorAtCompileTime);
};
/// A container of contiguous, mutable doubles.
template <class C>
concept Doubles =
    !EigenMatrix<C> && !std::convertible_to<C&&, std::span<double>> && requires(C & c) {
  { c.data() } -> std::same_as<double*>;
  { c.size() } -> std::convertible_to<std::size_t>;
};
template <class C>
concept ConstDoubles = !EigenMatrix<C> && requires(const C& c) {
  { c.data() } -> std::convertible_to<const double*>;
  { c.size() } -> std::convertible_to<std::size_t>;
};
/// Eigen's views of memory that belongs to another object.
template <class C>
concept EigenView = requires {
  typename C::PlainObject;
  requires !std::same_as<typename C::PlainObject, C>;
};
/// Lvalue containers, and views. C is the type of a forwarding reference.
template <class C>
concept LentDoubles = (std::is_lvalue_reference_v<C> ||
                       EigenView<C>)&&Doubles<std::remove_reference_t<C>>;
/// An argument that one of the overloads of add_parameters accepts.
template <class C>
concept GivesDoubles = LentDoubles<C> || std::convertible_to<C&&, std::span<double>> ||
    std::is_bounded_array_v<std::remove_reference_t<C>>;

/// A container that may move its memory because it allocates it: std::vector, Eigen's vectors; not
/// spans, Eigen::Map, std::array.
template <class C>
concept OwnsMemory = requires {
  typename C::allocator_type;
}
|| requires {
  typename C::PlainObject;
  requires std::same_as<typename C::PlainObject, C>;
};

/// Reads where the memory of a container is now.
struct Lender {
  const void* container = nullptr;
  std::span<const double> (*numbers)(const void* container) = nullptr;

  template <class C>
  static Lender of(const C& container) {
    return {&container, [](const void* of) {
              const C& now = *static_cast<const C*>(of);
              return std::span<const double>(now.data(), static_cast<std::size_t>(now.size()));
            }};
  }
};

template <class C>
concept HasElements = requires(const C& c) {
  c.data()[0];
};
template <class C>
struct ElementOf {};
template <HasElements C>
struct ElementOf<C> {
  using type = std::remove_cvref_t<decltype(std::declval<const C&>().data()[0])>;
};
template <class C>
concept OfFloats = std::same_as < typename ElementOf<C>::type,
float > ;

template <class Given>
void refuse_parameters() {
  using C = std::remove_cvref_t<Given>;
  if constexpr (OfFloats<C>) {
    static_assert(kNever<C>,
                  "add_parameters: expected doubles, got floats; unknowns are double in "
                  "every precision: copy them to a std::vector<double>");
  } else if constexpr (std::is_const_v<std::remove_reference_t<Given>>) {
    static_assert(kNever<C>,
                  "add_parameters: expected numbers that a solve can write, got a const "
                  "container");
  } else if constexpr (ConstDoubles<C>) {
    static_assert(kNever<C>,
                  "add_parameters: expected a container with a name, got a temporary one; "
                  "its memory must outlive the Problem");
  } else {
    static_assert(kNever<C>,
                  "add_parameters: expected a std::vector<double>, a std::array, an Eigen "
                  "vector, a std::span<double> or (double*, count)");
  }
}

template <class C>
void refuse_data() {
  if constexpr (OfFloats<C>) {
    static_assert(kNever<C>,
                  "add_data: expected doubles, got floats: copy them to a "
                  "std::vector<double>");
  } else {
    static_assert(kNever<C>,
                  "add_data: expected a std::vector<double>, an Eigen vector, a std::array "
                  "or a std::span<const double>");
  }
}

/// A type that gives rows: a Value or a type that converts to one, a Vec, a container of these.
template <class R>
concept OneRow = std::convertible_to<R, Value> || VecType<std::remove_cvref_t<R>>;
template <class R>
inline constexpr bool kGivesRows = OneRow<R>;
template <class R>
requires(!OneRow<R> && requires(const std::remove_cvref_t<R>& c) {
  *c.begin();
}) inline constexpr bool kGivesRows<R> = [] {
  using Element = decltype(*std::declval<const std::remove_cvref_t<R>&>().begin());
  return !std::is_arithmetic_v<std::remove_cvref_t<Element>> && kGivesRows<Element>;
}();

/// An argument that no other overload of add_residual accepts.
template <class R>
concept OtherRows = !std::convertible_to<const R&, Value> && !VecType<R> &&
                    !std::convertible_to<const R&, std::span<const Value>> && !std::invocable<R&> &&
                    !std::convertible_to<const R&, std::shared_ptr<const HostResidual>>;

template <class R>
void refuse_rows() {
  static_assert(kNever<R>,
                "add_residual: expected a Value, a Vec2, Vec3 or Vec4, a container of "
                "these, or a callable without arguments that gives one");
}

/// True if a callable's result can be rows; a compile error if it cannot.
template <class R>
constexpr bool gives_rows() {
  static_assert(kGivesRows<R>,
                "expected a callable that gives a Value, a Vec2, Vec3 or Vec4, or a "
                "container of these");
  return kGivesRows<R>;
}

/// True if a map can call F; a compile error if it cannot.
template <class F>
constexpr bool takes_element() {
  constexpr bool kTakes = std::invocable<F&, Element>;
  static_assert(kTakes,
                "expected a callable that takes a topograd::Element: [=](topograd::Element e) "
                "{ return ...; }");
  if constexpr (kTakes) {
    return gives_rows<std::invoke_result_t<F&, Element>>();
  } else {
    return false;
  }
}

}  // namespace detail
}  // namespace topograd
