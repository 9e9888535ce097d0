// Tensors: numbers in a shape, operations on them, and derivatives of what was computed.
#pragma once

#include "../../frontend/value/math.hpp"
#include "../backend/device.hpp"
#include "../backend/type.hpp"
#include "shape.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace topograd::ops {

struct OpOptions;

namespace detail {
struct TensorState;
}

/// Numbers in a shape, row-major: f32 or f64; f16 as storage, which arithmetic reads as f32.
///
/// A handle: copies are the same tensor, and contents never change but by assign(). Element-wise
/// operations are not computed when they are written down but when somebody reads them, a whole
/// chain in one kernel. Operations run where their inputs were placed (to()), else where the
/// executor expects them to be fastest; data stays where it is until it is read elsewhere.
///
/// Operands have equal types (f16 is read as f32): Error{InvalidArgument} "add: expected tensors of
/// one type, got f32 and f64"; and are not placed on different devices. Shapes broadcast as in
/// NumPy. One thread at a time uses a tensor and what was computed from it.
class Tensor {
 public:
  /// No tensor; every use throws Error{InvalidArgument}.
  Tensor() = default;
  /// One number, f32; mixes with tensors of f64, too.
  Tensor(double number);  // NOLINT: numbers mix with tensors

  const Shape& shape() const;
  /// Entries along an axis; -1 is the last one.
  std::int64_t size(std::int64_t axis) const;
  std::int64_t count() const { return element_count(shape()); }
  std::size_t rank() const { return shape().size(); }
  Type type() const;
  explicit operator bool() const { return state_ != nullptr; }

  /// The numbers, row-major; waits for what computes them.
  std::vector<double> values() const;
  std::vector<float> floats() const;
  /// Computes it and begins to copy the numbers to the host; values() then waits for that, not for
  /// what is queued afterwards. Returns this.
  const Tensor& begin_read() const;
  /// The number of a tensor that has one. Throws Error{Shape} otherwise.
  double item() const;

  /// The same numbers, for operations on that device from now on. Throws Error{Unsupported} for f64
  /// on a device without it.
  Tensor to(const Device& device) const;
  Tensor to_cpu() const { return to(Device::cpu()); }
  /// Rounded to another type.
  Tensor to(Type type) const;
  /// The device that it was placed on, or nothing.
  std::optional<Device> placed() const;
  /// Computes it now, on the device without waiting.
  const Tensor& evaluate() const;
  /// The same by options: on their device, or it throws; and how it ran (with_options()).
  const Tensor& evaluate(const OpOptions& options) const;

  // Views: no number is copied where the layout allows it.

  /// The same numbers in order; one size may be -1. Throws Error{Shape}.
  Tensor reshape(Shape to) const;
  /// Two axes change places.
  Tensor transpose(std::int64_t a = -2, std::int64_t b = -1) const;
  /// Axis k of the result is axes[k] of this.
  Tensor permute(const std::vector<std::int64_t>& axes) const;
  /// Entries begin, begin + step, ... below end of one axis. Throws Error{InvalidArgument} unless
  /// 0 <= begin <= end <= size and step > 0.
  Tensor slice(std::int64_t axis, std::int64_t begin, std::int64_t end,
               std::int64_t step = 1) const;
  /// Axes of size 1 (and missing ones in front) repeated. Throws Error{Shape}.
  Tensor broadcast_to(const Shape& to) const;

  // Derivatives.

  /// Marks a tensor that was not computed: backward() gives it a grad(). Returns this.
  ///
  /// Throws Error{InvalidArgument} for what was computed from such tensors.
  Tensor& requires_grad();
  /// Depends on a tensor that requires_grad().
  bool has_grad() const;
  /// Adds the derivatives of this number to grad() of every tensor that it depends on.
  ///
  /// Throws Error{Shape} unless it is one number, Error{NoParameters} if it depends on none. Costs
  /// about twice what the computation did.
  void backward() const;
  /// The same, of the sum of this times `seed`, which has its shape.
  void backward(const Tensor& seed) const;
  /// The same by options: on their device, or it throws; and how all of it ran (with_options()).
  void backward(const OpOptions& options) const;
  void backward(const Tensor& seed, const OpOptions& options) const;
  /// What backward() has added up since zero_grad(); zeros before.
  Tensor grad() const;
  void zero_grad() const;
  /// The same numbers, constant to backward().
  Tensor detach() const;
  /// Other numbers in this tensor, of equal shape and type; not what was computed from it before.
  /// Throws Error{InvalidArgument} if this was computed from tensors that require_grad().
  void assign(const Tensor& numbers) const;

  explicit Tensor(std::shared_ptr<detail::TensorState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::TensorState>& state() const { return state_; }

 private:
  std::shared_ptr<detail::TensorState> state_;
};

// Where tensors come from. Throw Error{InvalidArgument} "full: expected sizes >= 0, got (2, -3)",
// Error{Shape} if numbers do not fill the shape.

Tensor tensor(std::span<const double> numbers, Shape shape, Type type = Type::f32);
Tensor tensor(std::span<const float> numbers, Shape shape);
Tensor tensor(std::initializer_list<double> numbers, Shape shape, Type type = Type::f32);
Tensor full(Shape shape, double number, Type type = Type::f32);
inline Tensor zeros(Shape shape, Type type = Type::f32) { return full(std::move(shape), 0, type); }
inline Tensor ones(Shape shape, Type type = Type::f32) { return full(std::move(shape), 1, type); }
/// 0, 1, ..., count - 1.
Tensor arange(std::int64_t count, Type type = Type::f32);
/// Independent numbers of the standard normal law (random_normal()), of the uniform law in [0, 1)
/// (random_uniform()): the same seed gives the same numbers on every device, to rounding. With a
/// device they are made and stay there. f16 is rounded from f32.
Tensor randn(Shape shape, std::uint64_t seed, Type type = Type::f32,
             const std::optional<Device>& device = {});
Tensor rand(Shape shape, std::uint64_t seed, Type type = Type::f32,
            const std::optional<Device>& device = {});
/// The same with the next seed of a counter that all threads share: other numbers at each call, and
/// the same ones from one run to the next where calls come in one order.
Tensor randn(Shape shape, Type type = Type::f32, const std::optional<Device>& device = {});
Tensor rand(Shape shape, Type type = Type::f32, const std::optional<Device>& device = {});
/// Where that counter goes on; it begins as after seed(0).
void seed(std::uint64_t number);

/// f of the elements of tensors whose shapes broadcast: one kernel, fused with what computes the
/// inputs. C++ numbers in f are data: other ones run the same kernel.
///
///   Tensor y = map([](std::span<const Value> v) { return v[0] * exp(-v[1]); }, {a, b});
///
/// Throws Error{Unsupported} for an `if` on a Value, for more than 8 tensors or 16 C++ numbers
/// (8 of f64; make those that never change literal(c)).
Tensor map(const std::function<Value(std::span<const Value>)>& f,
           std::initializer_list<Tensor> tensors);
namespace detail {
/// The result of a function of elements as a number: a Bool gives 1 or 0.
template <class R>
Value to_number(const R& result) {
  if constexpr (std::is_same_v<R, Bool>) {
    return result.value();
  } else {
    return result;
  }
}
}  // namespace detail
/// The same for f(Value...) of as many Values as there are tensors.
template <class F, class... Tensors>
Tensor map(const F& f, const Tensor& first, const Tensors&... rest) {
  return map(
      [&f]<std::size_t... I>(std::index_sequence<I...>) {
        return std::function<Value(std::span<const Value>)>(
            [&f](std::span<const Value> v) { return detail::to_number(f(v[I]...)); });
      }(std::make_index_sequence<1 + sizeof...(Tensors)>{}),
      {first, rest...});
}

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a);

// The ops of the table, element by element.
Tensor abs(const Tensor& a);
Tensor square(const Tensor& a);
Tensor sqrt(const Tensor& a);
Tensor rsqrt(const Tensor& a);
Tensor exp(const Tensor& a);
Tensor log(const Tensor& a);
Tensor sin(const Tensor& a);
Tensor cos(const Tensor& a);
Tensor tanh(const Tensor& a);
Tensor sigmoid(const Tensor& a);
Tensor relu(const Tensor& a);
Tensor gelu(const Tensor& a);  ///< x Φ(x)
Tensor silu(const Tensor& a);
Tensor softplus(const Tensor& a);
Tensor leaky_relu(const Tensor& a, double slope);
Tensor leaky_relu(const Tensor& a);  ///< of slope 0.01
Tensor elu(const Tensor& a, double scale);
Tensor elu(const Tensor& a);  ///< of scale 1
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
/// a^b; NaN for negative a, unless b is a whole number.
Tensor pow(const Tensor& a, const Tensor& b);
/// The same of a number: small whole and half exponents are products, roots and reciprocals.
Tensor pow(const Tensor& a, double exponent);
/// max(low, min(a, high)). Throws Error{InvalidArgument} "clamp: expected low <= high, got 1 and
/// 0".
Tensor clamp(const Tensor& a, double low, double high);
/// a where the condition is not 0, else b; derivatives go to what was taken alone.
///
///   where(less(x, 0.0), 0.0, sqrt(x))
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// 1 where it holds, else 0.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);

}  // namespace topograd::ops
