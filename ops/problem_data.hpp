// Arrays and tensors as data of least-squares problems.
#pragma once

#include <type_traits>

#include "../frontend/problem.hpp"
#include "array/array.hpp"
#include "tensor/tensor.hpp"

namespace topograd::ops {

namespace detail {
void set_problem_data(Problem& problem, const Data& data, const Slice& values);
}  // namespace detail

/// Replaces the numbers of a data array by the present numbers of `values`, like Problem::set().
///
/// Numbers on a device are copied there, and a solve or an evaluation on that device reads them
/// without the host, in any order. They are copied to the host when they are read there: by the
/// interpreter (also for Backend::automatic while kernels are compiled), for another device or one
/// that cannot bind as many bytes at once, by residuals added later, and for columns that also hold
/// other numbers.
///
/// Throws Error{Shape} if the size differs, Error{WrongProblem}, Error{OutOfDeviceMemory}. Cost:
/// linear in the reads of data arrays for the first call, and after changes of the structure.
template <class T>
requires std::is_floating_point_v<T>
void set(Problem& problem, const Data& data, const Array<T>& values) {
  detail::set_problem_data(problem, data, values.untyped());
}
/// The same for a tensor of f32 or f64, row-major.
void set(Problem& problem, const Data& data, const Tensor& values);

}  // namespace topograd::ops
