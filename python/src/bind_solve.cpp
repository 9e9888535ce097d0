// Solves from Python: options, summaries, callbacks, and interruption by Ctrl-C.
#include "bindings.hpp"

#include "../../frontend/loss.hpp"
#include "../../ir/error.hpp"
#include "../../solver/evaluator.hpp"
#include "../../solver/minimize_function.hpp"
#include "../../solver/option_table.hpp"
#include "../../solver/solve.hpp"
#include "../../solver/solve_many.hpp"
#include "../../solver/solve_watch.hpp"
#include "../../solver/summary.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <thread>
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

/// Ends solves of this thread on a signal. Unlike a callback it decides nothing: components may be
/// solved one by one.
class SignalWatch {
 public:
  SignalWatch() : watch_({}, [this] { return should_end(); }) {}

  /// Throws what a handler of a signal raised, but KeyboardInterrupt and StopIteration.
  bool interrupted() {
    if (!raised_) return false;
    if (raised_->matches(PyExc_KeyboardInterrupt)) return true;
    if (raised_->matches(PyExc_StopIteration)) return false;
    throw std::exchange(raised_, std::nullopt).value();
  }

 private:
  bool should_end() {
    if (std::this_thread::get_id() != thread_) return ends_;
    const auto now = std::chrono::steady_clock::now();
    if (ends_ || now - last_ < kSignalInterval) return ends_;
    last_ = now;
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() == 0) return false;
    raised_.emplace();
    return ends_ = true;
  }

  const std::thread::id thread_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::atomic<bool> ends_ = false;
  std::optional<py::error_already_set> raised_;  // on its thread
  SolveWatch watch_;
};

/// A summary, and whether Ctrl-C ended the solve.
struct Result {
  Summary summary;
  bool interrupted = false;
};

/// Runs a solve without a callback, which Ctrl-C ends.
template <class Solve>
Result watched(Solve&& solve) {
  SignalWatch watch;
  Result result;
  {
    const py::gil_scoped_release released;
    result.summary = solve();
  }
  result.interrupted = watch.interrupted();
  return result;
}

Result solve_once(Bound& bound, const py::dict& given, const py::object& callback) {
  SolverOptions options = options_from(given);
  const auto run = [&] { return solve(bound.model->problem(), options); };
  if (callback.is_none()) return watched(run);
  Watch watch(callback);
  options.callback = std::ref(watch);
  Result result;
  {
    const py::gil_scoped_release released;
    result.summary = run();
  }
  result.interrupted = watch.interrupted();
  return result;
}

/// Minimises the only row of a model by L-BFGS, from x in the model's memory, within a box, whose
/// arrays are empty if there is none. Nothing is compiled if the row is evaluated node by node.
Result minimize_row(Bound& bound, const Memory& memory, const Doubles& lower, const Doubles& upper,
                    const py::dict& given, const py::object& callback) {
  SolverOptions options = options_from(given);
  options.backend = Backend::cpu;
  Model& model = *bound.model;
  if (model.row_count() != 1 || model.problem().residual_count() != 1)
    throw Error(ErrorCode::Shape, "minimize_row: expected one row that reads unknowns, got " +
                                      std::to_string(model.problem().residual_count()));
  Evaluator row(model.problem(), options, Losses::ignored);
  const std::vector<double> one = {1.0};
  Objective objective;
  objective.size = model.problem().parameter_count();
  for (const std::size_t size : {memory.span().size(), lower.size(), upper.size()}) {
    if (size != objective.size && !(size == 0 && lower.size() == upper.size()))
      throw Error(ErrorCode::Shape, "minimize_row: expected " + std::to_string(objective.size) +
                                        " numbers, got " + std::to_string(size));
  }
  objective.lower = lower.span();
  objective.upper = upper.span();
  objective.evaluate = [&](std::span<const double> x, std::span<double> gradient) {
    const double value = row.residuals(x)[0];
    if (!gradient.empty())
      std::ranges::copy(row.vjp(x, std::span<const double>(one)), gradient.begin());
    return value;
  };
  Watch watch(callback);
  options.callback = std::ref(watch);
  Result result;
  result.summary.backend = "cpu";
  result.summary.device = "interpreter";
  result.summary.why = "one row, evaluated node by node";
  result.summary.method = options.method = Method::lbfgs;
  {
    const py::gil_scoped_release released;
    minimize_lbfgs(objective, memory.span(), options, result.summary);
  }
  result.interrupted = watch.interrupted();
  return result;
}

/// Keeps a Solver, or two: with the callback of its present solve, and without one, so that
/// components may be solved one by one.
class KeptSolver {
 public:
  ///   called  most solves have a callback
  KeptSolver(Bound& bound, const py::dict& options, bool called)
      : model_(*bound.model), options_(options_from(options)), called_(called) {
    solver(called);
  }

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
    if (!called_ && callback.is_none() && stalled == 0)
      return watched([&] { return solver(false).solve(); });
    Solver& solver_with_callback = solver(true);
    Watch watch(callback, stalled);
    *watch_ = &watch;
    Result result;
    try {
      const py::gil_scoped_release released;
      result.summary = solver_with_callback.solve();
    } catch (...) {
      *watch_ = nullptr;
      throw;
    }
    *watch_ = nullptr;
    result.interrupted = watch.interrupted();
    return result;
  }

 private:
  Solver& solver(bool called) {
    std::optional<Solver>& kept = called ? with_callback_ : plain_;
    if (kept) return *kept;
    SolverOptions options = options_;
    if (called)
      options.callback = [watch = watch_](const IterationSummary& step) {
        return *watch == nullptr ? CallbackReturn::SOLVER_CONTINUE : (**watch)(step);
      };
    return kept.emplace(model_.problem(), options);
  }

  Evaluation evaluate(const Doubles& x, const Wanted& wanted) {
    const std::span<const double> point = x.span();
    const py::gil_scoped_release released;
    return solver(called_).evaluate(point, wanted);
  }

  Model& model_;
  std::shared_ptr<Watch*> watch_ = std::make_shared<Watch*>(nullptr);
  SolverOptions options_;
  bool called_;
  std::optional<Solver> with_callback_, plain_;
};

/// Throws py::cast_error for a value of another kind.
OptionValue value_of(const SolverOption& option, const py::handle& value) {
  const OptionValue initial = option.get(SolverOptions{});
  if (value.is_none() && std::holds_alternative<std::monostate>(initial)) return initial;
  if (option.kind == OptionKind::count && py::isinstance<py::str>(value) &&
      value.cast<std::string>() == "all")
    return std::string("all");
  switch (option.kind) {
    case OptionKind::flag: return value.cast<bool>();
    case OptionKind::count: return value.cast<std::int64_t>();
    case OptionKind::number: return value.cast<double>();
    case OptionKind::choice:
    case OptionKind::text: break;
  }
  return value.cast<std::string>();
}

/// Sets options by the names of the table; a dot in a name is a dictionary.
///
///   group  names of this dictionary begin so
void set_options(SolverOptions& options, const py::dict& given, const std::string& group) {
  for (const auto& [key, value] : given) {
    const std::string name = group + key.cast<std::string>();
    const SolverOption* const option = find_option(name);
    try {
      if (option != nullptr) {
        set(*option, options, value_of(*option, value));
        continue;
      }
    } catch (const py::cast_error&) {
      throw py::type_error("option '" + name +
                           "' has a wrong type: " + py::repr(value).cast<std::string>());
    }
    const bool is_group = std::ranges::any_of(
        option_table(), [&](const SolverOption& o) { return o.name.starts_with(name + "."); });
    if (is_group && py::isinstance<py::dict>(value)) {
      set_options(options, value.cast<py::dict>(), name + ".");
      continue;
    }
    if (is_group)
      throw py::type_error("option '" + name + "' has a wrong type: expected a dictionary, got " +
                           py::repr(value).cast<std::string>());
    std::string names;
    for (const SolverOption& known : option_table())
      names +=
          (names.empty() ? "" : ", ") + std::string(known.alias.empty() ? known.name : known.alias);
    throw py::type_error("unknown option '" + name + "'; options are " + names);
  }
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
  Result result = watched(
      [&] { return solve_copies(bound.model->problem(), count, starts, numbers, options); });
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
  set_options(options, given, "");
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
      .def_property_readonly("optimality", [](const Result& r) { return r.summary.optimality; })
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
  module.def("solve", &solve_once);
  module.def("codes", &codes);
  module.def("solve_many", &solve_copies_of);
  module.def("minimize_row", &minimize_row);
  module.def("check_options", [](const py::dict& given) { resolved(options_from(given)); });
  py::class_<KeptSolver>(module, "Solver", "Solves one model repeatedly.")
      .def(py::init<Bound&, const py::dict&, bool>(), py::arg("model"), py::arg("options"),
           py::arg("called") = false, py::keep_alive<1, 2>())
      .def("solve", &KeptSolver::solve, py::arg("callback"), py::arg("stalled") = 0)
      .def("deviation", &KeptSolver::deviation)
      .def("gradient", &KeptSolver::gradient);
}

}  // namespace topograd::python
