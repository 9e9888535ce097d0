// Internal: what a tensor is: numbers in memory, or an expression that nobody has read yet.
#pragma once

#include "../../ir/program.hpp"
#include "../run/run.hpp"
#include "tensor.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd::ops::detail {

/// Elements of a storage, from `offset` on; strides belong to the shape of whoever holds the view.
struct View {
  std::shared_ptr<Storage> storage;
  std::int64_t offset = 0;
  Strides strides;
};

/// How a tensor was computed, for derivatives. A node without `pull` is a tensor that
/// requires_grad().
struct GradNode {
  GradNode(Shape node_shape, Type node_type);
  /// Takes long chains apart without recursion.
  ~GradNode();
  GradNode(const GradNode&) = delete;
  GradNode& operator=(const GradNode&) = delete;

  Shape shape;
  Type type;
  std::uint64_t order;  ///< grows: what a node is computed from came before it
  std::vector<std::shared_ptr<GradNode>> inputs;  ///< null: constant
  /// Derivatives by the inputs, in their order; what belongs to a constant is ignored.
  std::function<std::vector<Tensor>(const Tensor& g)> pull;
  Tensor grad;  ///< of a leaf
};

/// A tensor of an expression: parameter slot k of the program is input k.
struct PendingInput {
  View view;  ///< strides by the axes of the expression
  Type type = Type::f32;
  Shape shape;  ///< of the tensor that it was: derivatives are summed to it
  std::shared_ptr<GradNode> node;
};

/// An expression over elements that has not been computed.
struct Pending {
  ir::Program program;
  std::vector<PendingInput> inputs;
  std::vector<double> numbers;  ///< by uniform slot
};

struct TensorState {
  Shape shape;
  Type type = Type::f32;
  std::optional<Device> device;
  bool number = false;  ///< made from a C++ number: takes the type of what it meets
  View data;            ///< without storage: pending
  std::shared_ptr<const Pending> pending;
  std::shared_ptr<GradNode> node;
};

/// The program that gives its one parameter.
const ir::Program& identity_program();

/// The state of a tensor that is one. Throws Error{InvalidArgument} "call: expected a tensor, got
/// none".
TensorState& state_of(const char* call, const Tensor& tensor);

/// Its numbers in memory; computes them if need be.
const View& data_of(const Tensor& tensor);
/// The same, one after the other in row-major order; copies if they do not lie so.
View contiguous_data(const Tensor& tensor);

/// A tensor over new, contiguous storage that nobody has written.
Tensor make_tensor(Shape shape, Type type, std::optional<Device> device);
/// A tensor over elements of another one's storage.
Tensor make_view(const Tensor& of, Shape shape, View view);

/// `number` in the shape of a tensor, with its type, on its device. Costs nothing before it is
/// read, and nothing at all in an expression.
Tensor full_like(const Tensor& tensor, double number);
/// The same number everywhere, in another shape; nothing if the tensor is not such a one.
std::optional<Tensor> reshaped_number(const Tensor& tensor, const Shape& shape);

/// Types that fit: both, or the other one where one is a number or f16. Throws
/// Error{InvalidArgument}.
Type common_type(const char* call, std::span<const Tensor> tensors);
/// Places along an axis, as numbers of the tensor's type, must be exact. Throws
/// Error{InvalidArgument} "argmax: expected at most 16777216 entries of f32, got 16777217".
void check_places(const char* call, Type type, std::int64_t entries);
/// The device that one of them was placed on. Throws Error{InvalidArgument} for two.
std::optional<Device> common_device(const char* call, std::span<const Tensor> tensors);

/// Tensors that a function of elements may read.
inline constexpr std::size_t kMostInputs = 8;

/// The expression `program` over elements of `operands` (parameter slots), which are fused if they
/// are expressions themselves. Its uniform slots read `numbers`.
///
///   operands  at most kMostInputs, and one more in derivatives
///
/// Throws Error{Unsupported} for more than sixteen numbers, eight where they are f64.
Tensor compose(const char* call, const ir::Program& program, std::span<const Tensor> operands,
               std::span<const double> numbers);

/// All outputs of `program` over elements of `operands` (parameter slots), which are of one shape,
/// in one kernel; its uniform slots read `numbers`. Nothing is recorded for derivatives.
std::vector<Tensor> compute_together(const char* call, const ir::Program& program,
                                     std::span<const Tensor> operands,
                                     std::span<const double> numbers);

/// Computes the tensors that are expressions of one shape and device in one kernel.
void evaluate_together(std::span<const Tensor> tensors);

/// Records how `out` was computed, if derivatives are wanted and an input has some.
void record(const Tensor& out, std::span<const Tensor> inputs,
            std::function<std::vector<Tensor>(const Tensor& g)> pull);
/// Whether record() would do something.
bool wants_grad(std::span<const Tensor> inputs);

/// The sum of `g` over what broadcasting repeated.
Tensor sum_to(const Tensor& g, const Shape& shape);

/// `tensor` at the places of a slice, zero elsewhere: the transpose of Tensor::slice().
Tensor place_slice(const Tensor& tensor, const Shape& shape, std::size_t axis, std::int64_t begin,
                   std::int64_t step);

/// A range of a storage as a kernel's argument: `count` elements from the view's offset on.
///
/// Throws Error{Unsupported} if they are more than the backend binds at once.
Argument argument(Backend& backend, const View& view, std::uint64_t count, Type type, Access access,
                  bool keep = false);
/// Elements from a view's first to its last.
std::uint64_t extent(const Shape& shape, const Strides& strides);

/// Where an operation runs whose tensors were placed there: OnDevice counts for more.
std::optional<Device> runs_on(const std::optional<Device>& placed);
/// What every device operation of tensors is run by: fills in device and the need for f64.
void run_op(OpCall call, const std::optional<Device>& device, Type type);

/// Reads numbers of a storage on the host, and writes them.
template <class T>
const T* host_read(const View& view) {
  return reinterpret_cast<const T*>(view.storage->read_host()) + view.offset;
}
template <class T>
T* host_write(const View& view, bool keep = false) {
  return reinterpret_cast<T*>(view.storage->write_host(keep)) + view.offset;
}

}  // namespace topograd::ops::detail
