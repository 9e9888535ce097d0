// Arrays and tensors as the data of a least-squares problem.
#pragma once

#include "../frontend/problem.hpp"
#include "array/array.hpp"
#include "tensor/tensor.hpp"

namespace topograd::ops {

namespace detail {
void set_problem_data(Problem& problem, const Data& data, const Slice& values);
}  // namespace detail

/// New numbers for all of a data array, as Problem::set(): those that `values` has now.
///
/// Numbers on a device are copied there, and a solve or an evaluation on that device takes them
/// without the host, in whatever order its residuals read them. Whoever asks for one on the host
/// brings them: the interpreter (so also Backend::automatic while kernels are made), another
/// device, a device that does not bind as many bytes at once, residuals that are added, and
/// columns in which other numbers stand beside those of this array.
///
/// Throws Error{Shape} if the size differs, Error{WrongProblem}, Error{OutOfDeviceMemory}. Cost:
/// linear in the reads of data arrays the first time, and where the structure has changed.
template <class T>
requires std::is_floating_point_v<T>
void set(Problem& problem, const Data& data, const Array<T>& values) {
  detail::set_problem_data(problem, data, values.untyped());
}
/// The same of a tensor of f32 or f64, row-major.
void set(Problem& problem, const Data& data, const Tensor& values);

}  // namespace topograd::ops
