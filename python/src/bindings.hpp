// Types and functions that several files of the extension module use.
#pragma once

#include "../../solver/options.hpp"
#include "array_graph.hpp"
#include "arrays.hpp"
#include "model.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <span>
#include <vector>

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
