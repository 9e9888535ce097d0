// The buffer protocol, and the two functions of NumPy's that are called by their names.
#include "bindings.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace topograd::python {
namespace {

/// A function of NumPy's, looked up once. `kept` is never released; two threads may both look it
/// up.
py::handle numpys(const char* name, PyObject*& kept) {
  if (kept == nullptr) kept = py::object(py::module_::import("numpy").attr(name)).release().ptr();
  return kept;
}
PyObject *ascontiguousarray = nullptr, *empty = nullptr;

bool has_type(const Py_buffer& view, const ElementType& type) {
  if (view.itemsize != type.size || view.format == nullptr) return false;
  std::string_view format = view.format;
  if (format.starts_with('@') || format.starts_with('=') || format.starts_with('<'))
    format.remove_prefix(1);
  return format.size() == 1 && std::string_view(type.letters).find(format[0]) != format.npos;
}

}  // namespace

Buffer::Buffer(py::handle object, int flags) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), flags) != 0) throw py::error_already_set();
  view_ = std::shared_ptr<Py_buffer>(view.release(), [](Py_buffer* kept) {
    PyBuffer_Release(kept);
    delete kept;
  });
}

Buffer memory_of(py::handle object, const ElementType& type, bool writable) {
  const int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    try {
      Buffer found(object, flags);
      if (has_type(*found, type)) return found;
    } catch (const py::error_already_set&) {
      if (writable) throw;
    }
  }
  if (writable) {
    PyErr_Format(PyExc_TypeError, "expected an array of %s in rows, got one of another type",
                 type.name);
    throw py::error_already_set();
  }
  const py::object copy = numpys("ascontiguousarray", ascontiguousarray)(object, type.name);
  return Buffer(copy, flags);
}

py::object new_array(std::initializer_list<py::ssize_t> shape, const ElementType& type) {
  py::tuple extents(shape.size());
  std::size_t axis = 0;
  for (const py::ssize_t extent : shape) extents[axis++] = py::int_(extent);
  return numpys("empty", empty)(extents, type.name);
}

py::object to_numpy(std::span<const double> values) {
  NewArray<double> out({static_cast<py::ssize_t>(values.size())});
  std::ranges::copy(values, out.data());
  return out.array();
}

}  // namespace topograd::python
