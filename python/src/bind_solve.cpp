// Solves from Python: options, summaries, callbacks, and interruption by Ctrl-C.
#include "bindings.hpp"

#include "../../frontend/by_name.hpp"
#include "../../ir/error.hpp"
#include "../../solver/solve.hpp"
#include "../../solver/solve_many.hpp"
#include "../../solver/summary_json.hpp"

#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace topograd::python {
namespace {

/// Solves look for signals at most this often: asking for the interpreter may wait for a thread.
constexpr std::chrono::milliseconds kSignalInterval{20};

/// Changes of the cost below this share are rounding.
constexpr double kRounding = 1e-13;

/// Ends a solve on a signal, or once rounding has been all that changed the cost for `stalled`
/// steps, unless that is 0; calls a Python function after each step.
class Watch {
 public:
  explicit Watch(py::object callback, int stalled = 0)
      : callback_(std::move(callback)), most_stalled_(stalled) {}

  CallbackReturn operator()(const IterationSummary& step) {
    const bool still = step.iteration > 0 && std::abs(step.cost_change) <= kRounding * step.cost;
    stalled_ = still ? stalled_ + 1 : 0;
    const CallbackReturn answer = ask(step);
    const bool ends = most_stalled_ > 0 && stalled_ >= most_stalled_;
    return ends && answer == CallbackReturn::SOLVER_CONTINUE
               ? CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY
               : answer;
  }
  bool interrupted() const { return interrupted_; }

 private:
  CallbackReturn ask(const IterationSummary& step) {
    const auto now = std::chrono::steady_clock::now();
    if (callback_.is_none() && now - last_ < kSignalInterval)
      return CallbackReturn::SOLVER_CONTINUE;
    last_ = now;
    const py::gil_scoped_acquire acquired;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (callback_.is_none()) return CallbackReturn::SOLVER_CONTINUE;
      const py::object answer = callback_(step);
      const bool stops = !answer.is_none() && answer.cast<bool>();
      return stops ? CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY
                   : CallbackReturn::SOLVER_CONTINUE;
    } catch (py::error_already_set& raised) {
      interrupted_ = raised.matches(PyExc_KeyboardInterrupt);
      if (!interrupted_ && !raised.matches(PyExc_StopIteration)) throw;
      return CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
    }
  }

  py::object callback_;
  int most_stalled_, stalled_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool interrupted_ = false;
};

/// A summary, and whether Ctrl-C ended the solve.
struct Result {
  Summary summary;
  bool interrupted = false;
};

template <class Solve>
Result watched(SolverOptions& options, const py::object& callback, Solve&& solve) {
  Watch watch(callback);
  // Components have no common steps to call back after.
  if (!callback.is_none() || options.components != Components::separate)
    options.callback = std::ref(watch);
  Result result;
  {
    const py::gil_scoped_release released;
    result.summary = solve();
  }
  result.interrupted = watch.interrupted();
  return result;
}

/// Keeps a Solver, and the callback of its present solve.
class KeptSolver {
 public:
  KeptSolver(Bound& bound, const py::dict& options)
      : model_(*bound.model), solver_(model_.problem(), with_callback(options_from(options))) {}

  /// How far the residuals at x are from f (deviation_from).
  py::tuple deviation(const Doubles& x, const Doubles& f) {
    const Eigen::VectorXd r =
        evaluate(x, {.cost = false, .residuals = true, .gradient = false}).residuals;
    return deviation_from(model_, {r.data(), static_cast<std::size_t>(r.size())}, f);
  }
  py::object gradient(const Doubles& x) {
    const Eigen::VectorXd g =
        evaluate(x, {.cost = false, .residuals = false, .gradient = true}).gradient;
    return to_numpy({g.data(), static_cast<std::size_t>(g.size())});
  }

  Result solve(const py::object& callback, int stalled) {
    Watch watch(callback, stalled);
    *watch_ = &watch;
    Result result;
    try {
      const py::gil_scoped_release released;
      result.summary = solver_.solve();
    } catch (...) {
      *watch_ = nullptr;
      throw;
    }
    *watch_ = nullptr;
    result.interrupted = watch.interrupted();
    return result;
  }

 private:
  SolverOptions with_callback(SolverOptions options) {
    options.callback = [watch = watch_](const IterationSummary& step) {
      return *watch == nullptr ? CallbackReturn::SOLVER_CONTINUE : (**watch)(step);
    };
    return options;
  }

  Evaluation evaluate(const Doubles& x, const Wanted& wanted) {
    const std::span<const double> point = x.span();
    const py::gil_scoped_release released;
    return solver_.evaluate(point, wanted);
  }

  Model& model_;
  std::shared_ptr<Watch*> watch_ = std::make_shared<Watch*>(nullptr);
  Solver solver_;
};

using Setter = std::function<void(SolverOptions&, const py::handle&)>;

template <class T>
Setter number(T SolverOptions::*field) {
  return [field](SolverOptions& o, const py::handle& value) { o.*field = value.cast<T>(); };
}
template <class T>
Setter named(T SolverOptions::*field, T (*parse)(std::string_view)) {
  return [field, parse](SolverOptions& o, const py::handle& value) {
    o.*field = parse(value.cast<std::string>());
  };
}

/// Options that Python can set, by name.
const std::map<std::string, Setter>& setters() {
  using O = SolverOptions;
  static const auto& table = *new std::map<std::string, Setter>{
      {"backend", named(&O::backend, parse_backend)},
      {"precision", named(&O::precision, parse_solve_precision)},
      {"method", named(&O::method, parse_method)},
      {"linear_solver", named(&O::linear_solver, parse_linear_solver)},
      {"preconditioner", named(&O::preconditioner, parse_preconditioner)},
      {"normal_matrix", named(&O::normal_matrix, parse_normal_matrix)},
      {"factor", named(&O::factor, parse_factor_place)},
      {"forcing_sequence", named(&O::forcing_sequence, parse_forcing_sequence)},
      {"dogleg_type", named(&O::dogleg_type, parse_dogleg_type)},
      {"domain", named(&O::domain, parse_domain_policy)},
      {"components", named(&O::components, parse_components)},
      {"max_iterations", number(&O::max_iterations)},
      {"time_limit_seconds", number(&O::time_limit_seconds)},
      {"function_tolerance", number(&O::function_tolerance)},
      {"gradient_tolerance", number(&O::gradient_tolerance)},
      {"parameter_tolerance", number(&O::parameter_tolerance)},
      {"absolute_gradient_tolerance", number(&O::absolute_gradient_tolerance)},
      {"constraint_tolerance", number(&O::constraint_tolerance)},
      {"kkt_tolerance", number(&O::kkt_tolerance)},
      {"initial_penalty", number(&O::initial_penalty)},
      {"initial_barrier", number(&O::initial_barrier)},
      {"max_outer_iterations", number(&O::max_outer_iterations)},
      {"scale_free", number(&O::scale_free)},
      {"initial_trust_region_radius", number(&O::initial_trust_region_radius)},
      {"min_trust_region_radius", number(&O::min_trust_region_radius)},
      {"max_trust_region_radius", number(&O::max_trust_region_radius)},
      {"min_relative_decrease", number(&O::min_relative_decrease)},
      {"min_lm_diagonal", number(&O::min_lm_diagonal)},
      {"max_lm_diagonal", number(&O::max_lm_diagonal)},
      {"jacobi_scaling", number(&O::jacobi_scaling)},
      {"rescale_steps", number(&O::rescale_steps)},
      {"use_nonmonotonic_steps", number(&O::use_nonmonotonic_steps)},
      {"linear_tolerance", number(&O::linear_tolerance)},
      {"max_linear_iterations", number(&O::max_linear_iterations)},
      {"eta", number(&O::eta)},
      {"max_lbfgs_rank", number(&O::max_lbfgs_rank)},
      {"max_escapes", number(&O::max_escapes)},
      {"threads", number(&O::threads)},
      {"device", number(&O::device)},
      {"float64", named(&O::float64, parse_float64)},
      {"deterministic", number(&O::deterministic)},
      {"validation", number(&O::validation)},
      {"cross_check", number(&O::cross_check)},
      {"update_state_every_iteration", number(&O::update_state_every_iteration)},
      {"learning_rate",
       [](O& o, const py::handle& v) { o.first_order.learning_rate = v.cast<double>(); }},
  };
  return table;
}

void bind_iterations(py::module_& module) {
  py::class_<IterationSummary>(module, "IterationSummary", "One step of a solve.")
      .def_readonly("iteration", &IterationSummary::iteration)
      .def_readonly("successful", &IterationSummary::step_is_successful)
      .def_readonly("cost", &IterationSummary::cost)
      .def_readonly("cost_change", &IterationSummary::cost_change)
      .def_readonly("gradient_max_norm", &IterationSummary::gradient_max_norm)
      .def_readonly("gradient_norm", &IterationSummary::gradient_norm)
      .def_readonly("step_norm", &IterationSummary::step_norm)
      .def_readonly("trust_region_radius", &IterationSummary::trust_region_radius)
      .def_readonly("linear_iterations", &IterationSummary::linear_iterations)
      .def_readonly("seconds", &IterationSummary::cumulative_time_in_seconds)
      .def("__repr__", [](const IterationSummary& s) {
        return "<step " + std::to_string(s.iteration) + ", cost " + std::to_string(s.cost) +
               (s.step_is_successful ? ">" : ", rejected>");
      });
}

/// Numbers that stand for the entries of an array of data of each copy.
py::object codes(std::size_t array, std::size_t count) {
  std::vector<double> out(count);
  for (std::size_t k = 0; k < count; ++k) out[k] = code_of(array, k);
  return to_numpy(out);
}

/// Solves copies of a model; x (copies, unknowns) is overwritten.
py::dict solve_copies_of(Bound& bound, const Memory& x, const std::vector<Doubles>& data,
                         const py::dict& given, bool covariances) {
  SolverOptions options = options_from(given);
  options.component_covariances = covariances;
  const std::span<double> starts = x.span();
  const std::size_t unknowns = bound.model->problem().parameter_count();
  const std::size_t count = unknowns == 0 ? 0 : starts.size() / unknowns;
  std::vector<ManyData> numbers;
  for (const Doubles& array : data)
    numbers.push_back({array.data(), count == 0 ? 0 : array.size() / count});
  Result result;
  {
    const py::gil_scoped_release released;
    result.summary = solve_copies(bound.model->problem(), count, starts, numbers, options);
  }
  ComponentsSummary& all = result.summary.components;
  NewArray<std::int32_t> status({static_cast<py::ssize_t>(count)});
  NewArray<std::int64_t> steps({static_cast<py::ssize_t>(count)});
  for (std::size_t k = 0; k < count; ++k) {
    const Termination end = all.termination[k];
    status.data()[k] = end == Termination::CONVERGENCE ? 1 : end == Termination::FAILURE ? -1 : 0;
    steps.data()[k] = std::int64_t{all.successful_steps[k]} + all.unsuccessful_steps[k];
  }
  py::dict out;
  out["initial_cost"] = to_numpy(all.initial_cost);
  out["cost"] = to_numpy(all.final_cost);
  out["status"] = status.array();
  out["steps"] = steps.array();
  out["covariance"] = to_numpy(all.covariance);
  out["summary"] = std::move(result);
  return out;
}

}  // namespace

SolverOptions options_from(const py::dict& given) {
  SolverOptions options;
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string>();
    const auto setter = setters().find(name);
    if (setter == setters().end()) {
      std::string names;
      for (const auto& [known, _] : setters()) names += (names.empty() ? "" : ", ") + known;
      throw py::type_error("unknown option '" + name + "'; options are " + names);
    }
    try {
      setter->second(options, value);
    } catch (const py::cast_error&) {
      throw py::type_error("option '" + name +
                           "' has a wrong type: " + py::repr(value).cast<std::string>());
    }
  }
  return options;
}

Loss loss_from(const py::object& loss) {
  if (loss.is_none()) return {};
  if (py::isinstance<Loss>(loss)) return loss.cast<Loss>();
  std::string name;
  std::vector<double> numbers;
  if (py::isinstance<py::str>(loss)) {
    name = loss.cast<std::string>();
  } else {
    const auto parts = loss.cast<py::sequence>();
    name = parts[0].cast<std::string>();
    for (std::size_t k = 1; k < parts.size(); ++k) numbers.push_back(parts[k].cast<double>());
  }
  if (name == "linear" || name == "trivial") return {};
  const LossRow* const row = find_loss(name);
  if (row == nullptr) {
    std::string known = "linear";
    for (const LossRow& other : kLosses) known += ", " + std::string(other.name);
    throw Error(ErrorCode::InvalidArgument,
                "loss: expected one of " + known + ", got \"" + name + '"');
  }
  if (numbers.size() < number_count(*row)) numbers.resize(number_count(*row), 1.0);
  if (numbers.size() != number_count(*row))
    throw Error(ErrorCode::InvalidArgument, "loss: " + name + " takes " +
                                                std::to_string(number_count(*row)) +
                                                " numbers, got " + std::to_string(numbers.size()));
  return make_loss(*row, numbers);
}

void bind_solve(py::module_& module) {
  bind_iterations(module);
  py::class_<Result>(module, "Summary", "The result of a solve.")
      .def_property_readonly("initial_cost", [](const Result& r) { return r.summary.initial_cost; })
      .def_property_readonly("final_cost", [](const Result& r) { return r.summary.final_cost; })
      .def_property_readonly(
          "termination", [](const Result& r) { return std::string(name(r.summary.termination)); })
      .def_property_readonly("message", [](const Result& r) { return r.summary.message; })
      .def_property_readonly("success",
                             [](const Result& r) { return r.summary.is_solution_usable(); })
      .def_property_readonly("backend", [](const Result& r) { return r.summary.backend; })
      .def_property_readonly("device", [](const Result& r) { return r.summary.device; })
      .def_property_readonly("why", [](const Result& r) { return r.summary.why; })
      .def_property_readonly("iterations", [](const Result& r) { return r.summary.iterations; })
      .def_property_readonly("degrees_of_freedom",
                             [](const Result& r) { return r.summary.degrees_of_freedom(); })
      .def_property_readonly("num_iterations",
                             [](const Result& r) { return r.summary.num_iterations(); })
      .def_property_readonly("accepted",
                             [](const Result& r) { return r.summary.num_successful_steps; })
      .def_property_readonly("rejected",
                             [](const Result& r) { return r.summary.num_unsuccessful_steps; })
      .def_property_readonly("seconds",
                             [](const Result& r) { return r.summary.times.total_seconds; })
      .def_property_readonly(
          "linear_solver",
          [](const Result& r) { return std::string(linear_solver_name(r.summary)); })
      .def_readonly("interrupted", &Result::interrupted)
      .def("multipliers",
           [](const Result& r, const Bound& bound) {
             return to_numpy(bound.model->constraints_in_order(r.summary.constrained.multipliers));
           })
      .def("brief_report", [](const Result& r) { return r.summary.brief_report(); })
      .def("full_report", [](const Result& r) { return r.summary.full_report(); })
      .def("json", [](const Result& r) { return to_json(r.summary, -1); });
  module.def("solve", [](Bound& bound, const py::dict& given, const py::object& callback) {
    SolverOptions options = options_from(given);
    return watched(options, callback, [&] { return solve(bound.model->problem(), options); });
  });
  module.def("codes", &codes);
  module.def("solve_many", &solve_copies_of);
  module.def("check_options", [](const py::dict& given) { resolved(options_from(given)); });
  py::class_<KeptSolver>(module, "Solver", "Solves one model repeatedly.")
      .def(py::init<Bound&, const py::dict&>(), py::keep_alive<1, 2>())
      .def("solve", &KeptSolver::solve, py::arg("callback"), py::arg("stalled") = 0)
      .def("deviation", &KeptSolver::deviation)
      .def("gradient", &KeptSolver::gradient);
}

}  // namespace topograd::python
