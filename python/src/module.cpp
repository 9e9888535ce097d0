// The extension module topograd._core.
#include "../../api/version.hpp"
#include "../../ir/error.hpp"
#include "../../solver/sensitivity.hpp"
#include "bindings.hpp"

#include <array>
#include <string>
#include <string_view>

namespace topograd::python {
namespace {

bool is_callers(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument:
    case ErrorCode::Shape:
    case ErrorCode::WrongProblem:
    case ErrorCode::EmptyProblem:
    case ErrorCode::NoParameters:
    case ErrorCode::NonFinite:
    case ErrorCode::Parse: return true;
    case ErrorCode::StaleValue:
    case ErrorCode::StaleBranch:
    case ErrorCode::File:
    case ErrorCode::NoLoader:
    case ErrorCode::NoDriver:
    case ErrorCode::NoDevice:
    case ErrorCode::Unsupported:
    case ErrorCode::ShaderCompile:
    case ErrorCode::LayoutMismatch:
    case ErrorCode::DeviceLost:
    case ErrorCode::OutOfHostMemory:
    case ErrorCode::OutOfDeviceMemory:
    case ErrorCode::Timeout:
    case ErrorCode::Stopped:
    case ErrorCode::Internal: return false;
  }
  return false;
}

/// Exception classes of the module; it lives as long as the process.
struct Exceptions {
  PyObject* error;
  PyObject* argument;
  PyObject* sensitivity;
};
Exceptions& exceptions() {
  static Exceptions classes{};
  return classes;
}

/// Names of C++ and of the command, as they are called in Python.
constexpr std::array<std::array<std::string_view, 2>, 9> kPythonsWords = {{
    {"set_constant", "fix"},
    {"set_bounds", "bounds"},
    {"set_manifold", "manifold"},
    {"add_residuals", "residuals"},
    {"add_energies", "energies"},
    {"dump: ", "source: "},
    {"--kernel ", "kernel="},
    {"--emit ", "format="},
    {"--precision ", "precision="},
}};

std::string in_pythons_words(std::string message) {
  for (const auto& [theirs, ours] : kPythonsWords) {
    for (std::size_t at = message.find(theirs); at != std::string::npos;
         at = message.find(theirs, at + ours.size()))
      message.replace(at, theirs.size(), ours);
  }
  return message;
}

py::object exception_of(PyObject* type, const Error& error) {
  py::object made = py::reinterpret_borrow<py::object>(type)(in_pythons_words(error.what()));
  made.attr("code") = name(error.code());
  return made;
}

void raise(const Error& error) {
  PyObject* type = is_callers(error.code()) ? exceptions().argument : exceptions().error;
  PyErr_SetObject(type, exception_of(type, error).ptr());
}

void raise(const SensitivityError& error) {
  py::object made = exception_of(exceptions().sensitivity, error);
  made.attr("reason") = name(error.reason());
  PyErr_SetObject(exceptions().sensitivity, made.ptr());
}

void bind_errors(py::module_& module) {
  exceptions().error = PyErr_NewExceptionWithDoc(
      "topograd.Error", "A failure of the library or of a device. `code` is its kind.",
      PyExc_RuntimeError, nullptr);
  const py::tuple bases =
      py::make_tuple(py::handle(exceptions().error), py::handle(PyExc_ValueError));
  exceptions().argument = PyErr_NewExceptionWithDoc(
      "topograd.ArgumentError", "An argument that a call cannot use. `code` is its kind.",
      bases.ptr(), nullptr);
  exceptions().sensitivity = PyErr_NewExceptionWithDoc(
      "topograd.SensitivityError",
      "A point without a derivative. `reason` is 'unconverged', 'singular' or 'infeasible'.",
      exceptions().argument, nullptr);
  module.add_object("Error", py::handle(exceptions().error));
  module.add_object("ArgumentError", py::handle(exceptions().argument));
  module.add_object("SensitivityError", py::handle(exceptions().sensitivity));
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const SensitivityError& error) {
      raise(error);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace
}  // namespace topograd::python

PYBIND11_MODULE(_core, module) {
  module.doc() = "Traced arrays, problems and solves; the package topograd is their interface.";
  module.attr("version") = topograd::version();
  topograd::python::bind_errors(module);
  topograd::python::bind_graph(module);
  topograd::python::bind_problem(module);
  topograd::python::bind_solve(module);
  topograd::python::bind_view(module);
}
