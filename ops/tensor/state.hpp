// Internal: the state of a tensor: numbers in memory, or an expression that was not computed yet.
#pragma once

#include "../../ir/program.hpp"
#include "../run/run.hpp"
#include "tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd::ops::detail {

/// Elements of a storage from `offset` on; the holder of the view has the shape of its strides.
struct View {
  std::shared_ptr<Storage> storage;
  std::int64_t offset = 0;
  Strides strides;
};

/// The computation of a tensor, for derivatives. A node without `pull` is a tensor with
/// requires_grad().
struct GradNode {
  GradNode(Shape node_shape, Type node_type);
  /// Destroys long chains without recursion.
  ~GradNode();
  GradNode(const GradNode&) = delete;
  GradNode& operator=(const GradNode&) = delete;

  Shape shape;
  Type type;
  std::uint64_t order;  ///< increasing: inputs of a node have lower numbers
  std::vector<std::shared_ptr<GradNode>> inputs;  ///< null: constant
  /// Derivatives by the inputs, in their order; those of constants are ignored.
  std::function<std::vector<Tensor>(const Tensor& g)> pull;
  Tensor grad;  ///< for leaves
};

/// An input tensor of an expression: parameter slot k of the program is input k.
struct PendingInput {
  View view;  ///< strides by the axes of the expression
  Type type = Type::f32;
  Shape shape;  ///< of the original tensor: derivatives are summed to it
  std::shared_ptr<GradNode> node;
};

/// An expression over elements that has not been computed.
struct PendingExpression {
  ir::Program program;
  std::vector<PendingInput> inputs;
  std::vector<double> numbers;  ///< by uniform slot
};

struct TensorState {
  Shape shape;
  Type type = Type::f32;
  std::optional<Device> device;
  bool number = false;  ///< true if made from a C++ number: takes the type of other operands
  View data;            ///< without storage while pending
  std::shared_ptr<const PendingExpression> pending;
  std::shared_ptr<GradNode> node;
};

/// The program that returns its only parameter.
const ir::Program& identity_program();

/// The state of a non-empty tensor. Throws Error{InvalidArgument} "call: expected a tensor, got
/// none".
TensorState& state_of(const char* call, const Tensor& tensor);

/// The numbers in memory; computes them if needed.
const View& data_of(const Tensor& tensor);
/// The same, contiguous in row-major order; copies if needed.
View contiguous_data(const Tensor& tensor);

/// A tensor with new, contiguous, uninitialised storage.
Tensor make_tensor(Shape shape, Type type, std::optional<Device> device);
/// A tensor over elements of another tensor's storage.
Tensor make_view(const Tensor& of, Shape shape, View view);

/// `number` in the shape of a tensor, with its type and device. Free until it is read.
Tensor full_like(const Tensor& tensor, double number);
/// The same constant in another shape; empty if the tensor is not a pending constant.
std::optional<Tensor> reshaped_number(const Tensor& tensor, const Shape& shape);

/// The common type: the type of both, or the other type if one is a number or f16. Throws
/// Error{InvalidArgument}.
Type common_type(const char* call, std::span<const Tensor> tensors);
/// Checks that indices along an axis are exact as numbers of the tensor's type. Throws
/// Error{InvalidArgument} "argmax: expected at most 16777216 entries of f32, got 16777217".
void check_index_range(const char* call, Type type, std::int64_t entries);
/// The device on which one of them was placed. Throws Error{InvalidArgument} for two devices.
std::optional<Device> common_device(const char* call, std::span<const Tensor> tensors);

/// Maximum number of tensors of an element-wise function.
inline constexpr std::size_t kMostInputs = 8;

/// The expression `program` over elements of `operands` (parameter slots), fused with operands that
/// are expressions. Its uniform slots read `numbers`.
///
///   operands  at most kMostInputs, and one more in derivatives
///
/// Throws Error{Unsupported} for more than sixteen numbers, or eight if they are f64.
Tensor compose(const char* call, const ir::Program& program, std::span<const Tensor> operands,
               std::span<const double> numbers);

/// Computes all outputs of `program` over elements of `operands` (parameter slots) of one shape in
/// one kernel; its uniform slots read `numbers`. Records nothing for derivatives.
std::vector<Tensor> compute_together(const char* call, const ir::Program& program,
                                     std::span<const Tensor> operands,
                                     std::span<const double> numbers);

/// Computes tensors that are expressions of one shape and device in one kernel.
void evaluate_together(std::span<const Tensor> tensors);

/// Records the computation of `out` if derivatives are enabled and an input has some.
void record(const Tensor& out, std::span<const Tensor> inputs,
            std::function<std::vector<Tensor>(const Tensor& g)> pull);
/// True if record() would record.
bool wants_grad(std::span<const Tensor> inputs);

/// Sums `g` over the axes that broadcasting repeated.
Tensor sum_to(const Tensor& g, const Shape& shape);

/// `tensor` at the positions of a slice, zero elsewhere: the transpose of Tensor::slice().
Tensor place_slice(const Tensor& tensor, const Shape& shape, std::size_t axis, std::int64_t begin,
                   std::int64_t step);

/// A range of a storage as a kernel's argument: `count` elements from the view's offset on.
///
/// Throws Error{Unsupported} if they are more than the backend binds at once.
Argument argument(OpBackend& backend, const View& view, std::uint64_t count, Type type,
                  Access access, bool keep = false);
/// Number of elements from a view's first to its last.
std::uint64_t extent(const Shape& shape, const Strides& strides);

/// The device for an operation on placed tensors: OnDevice takes precedence.
std::optional<Device> runs_on(const std::optional<Device>& placed);
/// Runs an operation on tensors that were placed on `device`.
void run_op(const OpCall& call, const std::optional<Device>& device);

/// The numbers of a storage on the host, for reading and for writing.
template <class T>
const T* host_read(const View& view) {
  return reinterpret_cast<const T*>(view.storage->read_host()) + view.offset;
}
template <class T>
T* host_write(const View& view, bool keep = false) {
  return reinterpret_cast<T*>(view.storage->write_host(keep)) + view.offset;
}

}  // namespace topograd::ops::detail
