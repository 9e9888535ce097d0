// Problems from Python: unknowns in NumPy arrays, flags, values and derivatives, kernels' source.
#include "bindings.hpp"

#include "../../api/source.hpp"
#include "../../frontend/inspect/problem_use.hpp"
#include "../../frontend/inspect/unread_blocks.hpp"
#include "../../frontend/manifold.hpp"
#include "../../ir/error.hpp"
#include "../../solver/covariance.hpp"
#include "../../solver/evaluator.hpp"
#include "../../solver/sensitivity.hpp"
#include "add_rows.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace topograd::python {
namespace {

std::span<const double> numbers_of(const Eigen::VectorXd& vector) {
  return {vector.data(), static_cast<std::size_t>(vector.size())};
}

/// Values and derivatives of a problem, with rows in the order of the traced arrays.
class Values {
 public:
  Values(Bound& bound, const py::dict& options, bool with_losses)
      : model_(*bound.model),
        evaluator_(model_.problem(), options_from(options),
                   with_losses ? Losses::applied : Losses::ignored) {}

  double cost(const Doubles& x) {
    const Numbers point = numbers(x);
    const py::gil_scoped_release released;
    return evaluator_.cost(point);
  }
  py::object residuals(const Doubles& x) {
    const Numbers point = numbers(x);
    std::vector<double> rows;
    {
      const py::gil_scoped_release released;
      const Eigen::VectorXd found = evaluator_.residuals(point);
      rows = model_.in_order(numbers_of(found));
    }
    return to_numpy(rows);
  }
  py::tuple deviation(const Doubles& x, const Doubles& f) {
    const Numbers point = numbers(x);
    Eigen::VectorXd found;
    {
      const py::gil_scoped_release released;
      found = evaluator_.residuals(point);
    }
    return deviation_from(model_, numbers_of(found), f);
  }
  py::object gradient(const Doubles& x) {
    const Numbers point = numbers(x);
    Eigen::VectorXd found;
    {
      const py::gil_scoped_release released;
      found = evaluator_.gradient(point);
    }
    return to_numpy(numbers_of(found));
  }
  /// (numbers, columns, row starts) of a matrix in compressed rows.
  py::tuple jacobian(const Doubles& x);
  /// The matrix with its zeros.
  py::object dense_jacobian(const Doubles& x);

 private:
  static Numbers numbers(const Doubles& x) { return x.span(); }
  Evaluator::SparseMatrix matrix(const Doubles& x) {
    const Numbers point = numbers(x);
    const py::gil_scoped_release released;
    Evaluator::SparseMatrix found = evaluator_.jacobian(point);
    found.makeCompressed();
    return found;
  }

  Model& model_;
  Evaluator evaluator_;
};

py::tuple Values::jacobian(const Doubles& x) {
  const Evaluator::SparseMatrix found = matrix(x);
  const std::size_t rows = model_.row_count();
  const std::vector<std::size_t>& order = model_.order();
  NewArray<double> numbers({static_cast<py::ssize_t>(found.nonZeros())});
  NewArray<std::int32_t> columns({static_cast<py::ssize_t>(found.nonZeros())});
  NewArray<std::int32_t> starts({static_cast<py::ssize_t>(rows + 1)});
  std::int32_t* const begins = starts.data();
  std::fill_n(begins, rows + 1, 0);
  const int* const from = found.outerIndexPtr();
  for (std::size_t k = 0; k < order.size(); ++k) begins[order[k] + 1] = from[k + 1] - from[k];
  for (std::size_t k = 0; k < rows; ++k) begins[k + 1] += begins[k];
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::int32_t to = begins[order[k]];
    std::copy(found.valuePtr() + from[k], found.valuePtr() + from[k + 1], numbers.data() + to);
    std::copy(found.innerIndexPtr() + from[k], found.innerIndexPtr() + from[k + 1],
              columns.data() + to);
  }
  return py::make_tuple(numbers.array(), columns.array(), starts.array());
}

py::object Values::dense_jacobian(const Doubles& x) {
  const Evaluator::SparseMatrix found = matrix(x);
  const std::size_t columns = x.size();
  NewArray<double> out(
      {static_cast<py::ssize_t>(model_.row_count()), static_cast<py::ssize_t>(columns)});
  std::fill_n(out.data(), out.size(), 0.0);
  const std::vector<std::size_t>& order = model_.order();
  for (std::size_t row = 0; row < order.size(); ++row) {
    double* const to = out.data() + order[row] * columns;
    for (int k = found.outerIndexPtr()[row]; k < found.outerIndexPtr()[row + 1]; ++k)
      to[found.innerIndexPtr()[k]] += found.valuePtr()[k];
  }
  return out.array();
}

std::size_t add_parameters(Bound& bound, Memory memory, int width, const std::string& name) {
  const std::size_t number = bound.model->add_parameters(memory.span(), width, name);
  bound.memory.push_back(std::move(memory));
  return number;
}

/// The number of an array of data, and the leaf that its first number is in a graph.
py::tuple add_data(Bound& bound, const Doubles& values, const std::string& name) {
  const std::size_t number = bound.model->add_data(values.span(), name);
  return py::make_tuple(number, kFirstDatum + bound.model->data()[number].id().offset);
}

/// Derivatives of a solution by arrays of data, in their order.
class SolutionDerivatives {
 public:
  SolutionDerivatives(Bound& bound, const std::vector<std::size_t>& arrays, const std::string& form,
                      double tolerance, const py::dict& options)
      : sensitivity_(make(bound, arrays, form, tolerance, options_from(options))) {}

  py::object jvp(const Doubles& dtheta) const { return product(&Sensitivity::jvp, dtheta); }
  py::object vjp(const Doubles& dx) const { return product(&Sensitivity::vjp, dx); }
  std::size_t size() const { return sensitivity_.size(); }
  std::vector<std::string> undetermined() const { return sensitivity_.undetermined(); }
  std::size_t active_bounds() const { return sensitivity_.active_bounds(); }
  std::size_t active_constraints() const { return sensitivity_.active_constraints(); }

 private:
  using Product = Eigen::VectorXd (Sensitivity::*)(Numbers) const;

  static Sensitivity make(Bound& bound, const std::vector<std::size_t>& arrays,
                          const std::string& form, double tolerance, SolverOptions solver) {
    const SensitivityOptions options{.form = parse_enum<SensitivityForm>("form", form),
                                     .convergence_tolerance = tolerance,
                                     .solver = std::move(solver)};
    std::vector<Theta> theta;
    for (const std::size_t number : arrays) theta.emplace_back(bound.model->data().at(number));
    const py::gil_scoped_release released;
    return Sensitivity(bound.model->problem(), theta, options);
  }
  py::object product(Product call, const Doubles& direction) const {
    const std::span numbers = direction.span();
    Eigen::VectorXd found;
    {
      const py::gil_scoped_release released;
      found = (sensitivity_.*call)(Numbers(std::span<const double>(numbers)));
    }
    return to_numpy(numbers_of(found));
  }

  Sensitivity sensitivity_;
};

/// Calls f(array, block, coordinate) for unknowns given by their indices in x.
template <class F>
void for_unknowns(Model& model, const std::vector<Index>& unknowns, F&& f) {
  for (const Index unknown : unknowns) {
    const Parameters& array = model.arrays()[array_of(model.arrays(), unknown)];
    const Index at = unknown - array.offset();
    const auto width = static_cast<Index>(array.width());
    f(array, at / width, static_cast<int>(at % width));
  }
}

void fix(Bound& bound, const std::vector<Index>& unknowns, bool fixed) {
  for_unknowns(*bound.model, unknowns, [&](const Parameters& x, std::size_t block, int k) {
    if (fixed)
      bound.model->problem().set_constant(x, block, 1u << k);
    else
      bound.model->problem().set_variable(x, block, 1u << k);
  });
}

void set_bounds(Bound& bound, const std::vector<Index>& unknowns, const Doubles& lower,
                const Doubles& upper) {
  const double* low = lower.data();
  const double* high = upper.data();
  for_unknowns(*bound.model, unknowns, [&](const Parameters& x, std::size_t block, int k) {
    bound.model->problem().set_bounds(x, block, k, *low++, *high++);
  });
}

Manifold manifold_of(const std::string& name, int width) {
  if (name == "euclidean") return Manifold::euclidean(width);
  const std::optional<Manifold> found = find_manifold(name, width);
  if (!found)
    throw Error(ErrorCode::InvalidArgument, "manifold: expected one of euclidean, " +
                                                manifold_names() + ", got \"" + name + '"');
  return *found;
}

std::string source_of(const Bound& bound, const std::string& kernel, const std::string& format,
                      const std::string& precision, const std::string& topology) {
  SourceOptions options;
  options.kernel = kernel;
  options.format = format;
  options.precision = parse_precision(precision);
  options.topology = topology;
  return source(bound.model->problem(), options);
}

/// The matrix, with an infinite variance for each scalar of a block that is not determined, and the
/// names of these blocks.
py::tuple covariance(Bound& bound, const std::vector<std::size_t>& arrays,
                     bool allow_rank_deficient) {
  CovarianceOptions options;
  if (allow_rank_deficient) {
    options.algorithm = CovarianceAlgorithm::dense_svd;
    options.null_space_rank = -1;
  }
  std::vector<ParameterBlock> all, blocks;
  std::vector<std::size_t> positions;  // of the blocks' scalars among all
  std::vector<std::string> missing;
  std::size_t size = 0;
  Eigen::MatrixXd found;
  {
    const py::gil_scoped_release released;
    const Problem& problem = bound.model->problem();
    const Covariance covariance(bound.model->problem(), options);
    for (const std::size_t number : arrays) {
      const Parameters& x = bound.model->arrays().at(number);
      for (std::size_t b = 0; b < x.size(); ++b) {
        all.push_back(x.block(b));
        const auto width = static_cast<std::size_t>(x.width());
        if (covariance.determines(all.back())) {
          blocks.push_back(all.back());
          for (std::size_t k = 0; k < width; ++k) positions.push_back(size + k);
        } else {
          missing.push_back(block_text(problem, {number, b}));
        }
        size += width;
      }
    }
    // If none is determined, this is the error that says so.
    found = covariance.matrix(blocks.empty() ? all : blocks);
  }
  const auto n = static_cast<py::ssize_t>(size);
  NewArray<double> out({n, n});
  const auto entry = [&, numbers = out.data()](py::ssize_t i, py::ssize_t j) -> double& {
    return numbers[i * n + j];
  };
  for (py::ssize_t i = 0; i < n; ++i)
    for (py::ssize_t j = 0; j < n; ++j)
      entry(i, j) = i == j ? std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < positions.size(); ++i)
    for (std::size_t j = 0; j < positions.size(); ++j)
      entry(static_cast<py::ssize_t>(positions[i]), static_cast<py::ssize_t>(positions[j])) =
          found(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
  return py::make_tuple(out.array(), missing);
}

}  // namespace

py::tuple deviation_from(const Model& model, std::span<const double> residuals, const Doubles& f) {
  const std::size_t size = f.size();
  if (size != model.row_count())
    throw Error(ErrorCode::Shape, "deviation: expected " + std::to_string(model.row_count()) +
                                      " rows, got " + std::to_string(size));
  const Deviation found = model.deviation(residuals, f.span());
  return py::make_tuple(found.largest, found.difference);
}

void bind_problem(py::module_& module) {
  py::class_<AddedBlocks>(module, "AddedBlocks", "Residual blocks of one call.")
      .def_readonly("rows", &AddedBlocks::rows)
      .def_readonly("first", &AddedBlocks::first);
  py::class_<Bound>(module, "Model", "A problem over NumPy arrays.")
      .def(py::init<>())
      .def("add_parameters", &add_parameters)
      .def("add_data", &add_data)
      .def("set_data",
           [](Bound& b, std::size_t number, const Doubles& values) {
             b.model->problem().set(b.model->data().at(number), values.span());
           })
      .def("set_loss",
           [](Bound& b, const AddedBlocks& blocks, const py::object& loss) {
             for (const Residuals& map : blocks.maps)
               b.model->problem().set_loss(map, loss_from(loss));
           })
      .def("fix", &fix)
      .def("set_bounds", &set_bounds)
      .def("set_manifold",
           [](Bound& b, std::size_t array, const std::string& name) {
             const Parameters& x = b.model->arrays().at(array);
             b.model->problem().set_manifold(x, manifold_of(name, x.width()));
           })
      .def("source", &source_of)
      .def("covariance", &covariance)
      .def("row_count", [](const Bound& b) { return b.model->row_count(); })
      .def("parameter_count", [](const Bound& b) { return b.model->problem().parameter_count(); })
      .def("constant_rows", [](const Bound& b) { return b.model->constant_rows(); })
      .def("explain", [](const Bound& b) { return explain(b.model->problem()); })
      .def("sizes", [](const Bound& b) {
        const Problem& p = b.model->problem();
        py::dict out;
        out["unknowns"] = p.parameter_count();
        out["rows"] = p.residual_count();
        out["blocks"] = p.residual_block_count();
        out["energies"] = p.energy_count();
        out["topologies"] = p.topology_count();
        py::list arrays;
        for (const Parameters& x : b.model->arrays())
          arrays.append(py::make_tuple(x.size(), x.width()));
        out["arrays"] = arrays;
        py::list sharing;
        for (const SharingRows& s : b.model->sharing())
          sharing.append(py::make_tuple(s.rows, s.operations, s.unknowns));
        out["node_by_node"] = sharing;
        py::list texts;
        for (const LongExpression& e : ProblemUse::long_expressions(p)) texts.append(text(e));
        out["long_expressions"] = texts;
        return out;
      });
  py::class_<SolutionDerivatives>(module, "Sensitivity", "Derivatives of a solution.")
      .def(py::init<Bound&, const std::vector<std::size_t>&, const std::string&, double,
                    const py::dict&>(),
           py::keep_alive<1, 2>())
      .def("jvp", &SolutionDerivatives::jvp)
      .def("vjp", &SolutionDerivatives::vjp)
      .def_property_readonly("size", &SolutionDerivatives::size)
      .def_property_readonly("undetermined", &SolutionDerivatives::undetermined)
      .def_property_readonly("active_bounds", &SolutionDerivatives::active_bounds)
      .def_property_readonly("active_constraints", &SolutionDerivatives::active_constraints);
  py::class_<Values>(module, "Values", "Values and derivatives of a model.")
      .def(py::init<Bound&, const py::dict&, bool>(), py::keep_alive<1, 2>())
      .def("cost", &Values::cost)
      .def("residuals", &Values::residuals)
      .def("deviation", &Values::deviation)
      .def("gradient", &Values::gradient)
      .def("jacobian", &Values::jacobian)
      .def("dense_jacobian", &Values::dense_jacobian);
}

}  // namespace topograd::python
