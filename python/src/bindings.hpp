// Types and functions that several files of the module use, and arrays by the buffer protocol.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "../../solver/options.hpp"
#include "array_graph.hpp"
#include "model.hpp"

namespace topograd::python {

namespace py = pybind11;

/// A view of an object's memory by the buffer protocol, released with the last copy. Needs the
/// interpreter's lock, also to be destroyed.
class Buffer {
 public:
  Buffer() = default;
  /// Throws py::error_already_set if the object has no memory of this kind (PyBUF_...).
  Buffer(py::handle object, int flags);

  explicit operator bool() const { return view_ != nullptr; }
  const Py_buffer& operator*() const { return *view_; }
  const Py_buffer* operator->() const { return view_.get(); }

 private:
  std::shared_ptr<Py_buffer> view_;
};

/// The type of an array's elements: NumPy's name, the letters that buffers use, and the size.
struct ElementType {
  const char* name;
  const char* letters;
  py::ssize_t size;
};
template <class T>
inline constexpr ElementType kElementType{};
template <>
inline constexpr ElementType kElementType<double>{"float64", "d", 8};
template <>
inline constexpr ElementType kElementType<std::int64_t>{"int64", "lq", 8};
template <>
inline constexpr ElementType kElementType<std::int32_t>{"int32", "il", 4};
template <>
inline constexpr ElementType kElementType<std::uint32_t>{"uint32", "IL", 4};

/// The memory of an array of this type, row by row; of a copy of another array or sequence, unless
/// it has to be writable. Throws py::error_already_set if numbers cannot be made of it.
Buffer memory_of(py::handle object, const ElementType& type, bool writable);

/// A new array of NumPy's; its numbers are not set.
py::object new_array(std::initializer_list<py::ssize_t> shape, const ElementType& type);

/// Numbers that a function reads, from anything that numpy.ascontiguousarray takes.
template <class T>
class ArrayOf {
 public:
  ArrayOf() = default;
  explicit ArrayOf(Buffer memory) : memory_(std::move(memory)) {}

  const T* data() const { return static_cast<const T*>(memory_->buf); }
  std::size_t size() const { return static_cast<std::size_t>(memory_->len) / sizeof(T); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  std::span<const T> span() const { return {data(), size()}; }

 private:
  Buffer memory_;
};

/// Numbers that the library writes: the array's own memory, for as long as this lives.
class Memory {
 public:
  Memory() = default;
  explicit Memory(Buffer memory) : memory_(std::move(memory)) {}

  std::span<double> span() const {
    return {static_cast<double*>(memory_->buf),
            static_cast<std::size_t>(memory_->len) / sizeof(double)};
  }

 private:
  Buffer memory_;
};

/// An array for Python, to be filled.
template <class T>
class NewArray {
 public:
  explicit NewArray(std::initializer_list<py::ssize_t> shape)
      : array_(new_array(shape, kElementType<T>)),
        memory_(memory_of(array_, kElementType<T>, true)) {}

  T* data() { return static_cast<T*>(memory_->buf); }
  std::size_t size() const { return static_cast<std::size_t>(memory_->len) / sizeof(T); }
  py::object array() const { return array_; }

 private:
  py::object array_;
  Buffer memory_;
};

/// An array of these numbers.
py::object to_numpy(std::span<const double> values);

}  // namespace topograd::python

namespace pybind11::detail {

template <class T>
struct type_caster<topograd::python::ArrayOf<T>> {
  PYBIND11_TYPE_CASTER(topograd::python::ArrayOf<T>, const_name("numpy.ndarray"));

  bool load(handle object, bool) {
    using namespace topograd::python;
    try {
      value = ArrayOf<T>(memory_of(object, kElementType<T>, false));
    } catch (const error_already_set&) {
      return false;
    }
    return true;
  }
};

template <>
struct type_caster<topograd::python::Memory> {
  PYBIND11_TYPE_CASTER(topograd::python::Memory, const_name("numpy.ndarray"));

  bool load(handle object, bool) {
    using namespace topograd::python;
    try {
      value = Memory(memory_of(object, kElementType<double>, true));
    } catch (const error_already_set&) {
      return false;
    }
    return true;
  }
};

}  // namespace pybind11::detail

namespace topograd::python {

using Doubles = ArrayOf<double>;

/// A model with the Python objects whose memory it uses.
struct Bound {
  std::unique_ptr<Model> model = std::make_unique<Model>();
  std::vector<Memory> memory;
};

/// Options by their names in SolverOptions; "callback" takes a function of an IterationSummary.
/// Raises TypeError for an unknown name or a wrong type.
SolverOptions options_from(const py::dict& options);

/// A loss from (name, number...), from a name alone, whose numbers are then 1, or from a traced
/// one. None and SciPy's "linear" are no loss.
Loss loss_from(const py::object& loss);

/// (largest |f|, largest difference) of residuals in the order of the problem from f, which has the
/// order of the traced arrays. Raises Error{Shape} if f has another number of rows.
py::tuple deviation_from(const Model& model, std::span<const double> residuals, const Doubles& f);

void bind_graph(py::module_& module);
void bind_problem(py::module_& module);
void bind_solve(py::module_& module);
void bind_view(py::module_& module);

}  // namespace topograd::python
