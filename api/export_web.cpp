// Problems as static files for web pages.
#include "export_web.hpp"

#include "../autodiff/derivatives.hpp"
#include "../codegen/glsl/c_source.hpp"
#include "../codegen/kernel.hpp"
#include "../frontend/block_kind.hpp"
#include "../ir/error.hpp"
#include "../runtime/cpu/engine.hpp"
#include "../runtime/model/model.hpp"
#include "../runtime/plan/passes.hpp"
#include "../solver/host/tangent_space.hpp"
#include "../solver/linear/direct_step.hpp"
#include "../solver/linear/factor/elimination.hpp"
#include "../solver/model/model.hpp"
#include "../solver/model/nonfinite.hpp"
#include "../solver/plan/decide.hpp"
#include "../solver/step_control/newton_decrement.hpp"
#include "compiled_source.hpp"
#include "version.hpp"
#include "web_files.hpp"

#include <Eigen/OrderingMethods>
#include <Eigen/SparseCore>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

namespace topograd {
namespace {

using codegen::PlainFunction;
using nlohmann::ordered_json;

constexpr std::uint32_t kFileVersion = 2;
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kChecksumDigits = 8;
constexpr std::size_t kMostBlocksOfInstance = 64;
constexpr std::size_t kMostLabels = 64;  // of one topology
static_assert(std::endian::native == std::endian::little, "numbers of the file are little-endian");

[[noreturn]] void refuse_export(const std::string& what) {
  throw Error(ErrorCode::Unsupported, "export web: " + what);
}

/// Arrays of numbers, one after the other.
class Body {
 public:
  template <class T>
  ordered_json add(std::span<const T> numbers) {
    static_assert(std::is_same_v<T, double> || std::is_same_v<T, std::uint32_t>);
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + numbers.size_bytes());
    if (!numbers.empty()) std::memcpy(bytes_.data() + at, numbers.data(), numbers.size_bytes());
    return {{"at", at}, {"length", numbers.size()}};
  }
  template <class T>
  ordered_json add(const std::vector<T>& numbers) {
    return add(std::span<const T>(numbers));
  }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

/// Names that differ: those that were there before get a number.
class Names {
 public:
  std::string add(const std::string& name) {
    std::string unique = name;
    for (int k = 2; !names_.insert(unique).second; ++k) unique = name + " " + std::to_string(k);
    return unique;
  }

 private:
  std::set<std::string> names_;
};

void check_method(const Problem& problem, Method method) {
  const bool energies = problem.energy_count() > 0;
  const bool second = method == Method::newton, line = second || method == Method::lbfgs;
  const bool squares = method == Method::levenberg_marquardt || method == Method::gauss_newton;
  if (method != Method::automatic && !(energies ? line : squares)) {
    refuse_export(std::string(energies
                                  ? "the problem has energies; expected the method newton or lbfgs"
                                  : "expected the method levenberg_marquardt or gauss_newton") +
                  ", got " + std::string(name(method)));
  }
  if (!energies || !problem.has_manifolds()) return;
  if (second) refuse_export("newton knows no manifolds; expected lbfgs");
  if (has_bounds(problem)) refuse_export("lbfgs knows no bounds beside manifolds");
}

bool has_default_line_search(const LineSearchOptions& o) {
  const LineSearchOptions d;
  return o.sufficient_decrease == d.sufficient_decrease &&
         o.sufficient_curvature_decrease == d.sufficient_curvature_decrease &&
         o.max_expansion == d.max_expansion && o.min_step_size == d.min_step_size &&
         o.max_evaluations == d.max_evaluations;
}

/// Options that change steps or verdicts, and that the module does not have.
void check_options(const SolverOptions& o) {
  const SolverOptions d;
  const std::pair<const char*, bool> kept[] = {
      {"scale_free", o.scale_free},
      {"jacobi_scaling", o.jacobi_scaling},
      {"rescale_steps", o.rescale_steps},
      {"use_nonmonotonic_steps", !o.use_nonmonotonic_steps},
      {"line_search", has_default_line_search(o.line_search)},
      {"domain", o.domain == DomainPolicy::mathematical},
      {"absolute_gradient_tolerance", o.absolute_gradient_tolerance == 0},
      {"max_consecutive_invalid_steps",
       o.max_consecutive_invalid_steps == d.max_consecutive_invalid_steps},
      {"eta", o.eta == 0},
      {"preconditioner", o.preconditioner != Preconditioner::two_level},
      {"components", o.components != Components::separate},
      {"component_covariances", !o.component_covariances}};
  for (const auto& [field, is_default] : kept)
    if (!is_default)
      refuse_export("the module does not have the option " + std::string(field) +
                    "; expected its default");
}

void check_problem(const Problem& problem, const WebExportOptions& options) {
  if (problem.constraint_count() > 0)
    refuse_export("constraints are not part of the module's methods");
  if (!problem.host_blocks().empty())
    refuse_export("a residual of opaque code (HostResidual) cannot run in a page");
  resolved(options.solver);
  check_method(problem, options.solver.method);
  if (options.f32 && problem.energy_count() > 0)
    refuse_export("energies are minimised in JavaScript, not in the precision f32");
  check_options(options.solver);
}

/// Differences of successive numbers, modulo 2³²: they pack well.
void to_differences(std::span<std::uint32_t> numbers) {
  std::uint32_t last = 0;
  for (std::uint32_t& number : numbers) number -= std::exchange(last, number);
}

/// Instances of a topology that have one label, ascending.
struct Labelled {
  std::string name;
  std::vector<std::uint32_t> instances;
};

/// Splits the instances of a topology by their labels, in the order in which these occur. Instances
/// with more than kMostLabels labels stay together under the term's name.
std::vector<Labelled> by_label(const Problem& problem, std::size_t topology,
                               const runtime::Term& term) {
  std::vector<Labelled> out;
  std::map<std::string_view, std::size_t> known;
  const auto size = static_cast<std::uint32_t>(term.batch->size());
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::string_view label = problem.label(topology, i);
    const auto [at, fresh] = known.try_emplace(label, out.size());
    if (fresh && known.size() > kMostLabels) {
      std::vector<std::uint32_t> all(size);
      std::iota(all.begin(), all.end(), 0);
      return {{term.name, std::move(all)}};
    }
    if (fresh) {
      const std::string unnamed =
          std::string(noun(problem.kind(topology))) + std::to_string(topology);
      out.push_back({label.empty() ? unnamed : std::string(label), {}});
    }
    out[at->second].instances.push_back(i);
  }
  return out;
}

/// The numbers of a column that some instances have.
template <class T>
void pick(std::span<const T> column, std::span<const std::uint32_t> instances, std::span<T> out) {
  for (std::size_t i = 0; i < instances.size(); ++i) out[i] = column[instances[i]];
}

/// Index columns of instances of a term, one after the other, each as differences. Columns that
/// differ by a constant, as those of a block do, are written once: `columns` has the written one of
/// each, and the constant.
void add_index_columns(const ir::Batch& batch, std::span<const std::uint32_t> instances,
                       ordered_json& header, Body& body) {
  std::map<std::vector<std::uint32_t>, std::pair<std::size_t, std::uint32_t>> known;
  std::vector<std::uint32_t> out;
  ordered_json columns = ordered_json::array();
  std::vector<std::uint32_t> whole(batch.size());
  for (std::uint32_t c = 0; c < batch.index_columns(); ++c) {
    std::vector<std::uint32_t> column(instances.size());
    batch.copy_index_column(c, 0, whole);
    pick<std::uint32_t>(whole, instances, column);
    const std::uint32_t first = column.empty() ? 0 : column.front();
    to_differences(column);
    if (!column.empty()) column.front() = 0;
    const auto [at, fresh] = known.try_emplace(column, known.size(), first);
    const auto [written, start] = at->second;
    columns.push_back({written, std::int64_t{first} - start});
    if (!fresh) continue;
    if (!column.empty()) column.front() = first;
    out.insert(out.end(), column.begin(), column.end());
  }
  header["columns"] = std::move(columns);
  header["index"] = body.add(out);
}

/// Data columns of instances of a term, one after the other. Numbers that are there often are
/// written once, without their sign, with codes that name them.
ordered_json data_columns(const ir::Batch& batch, std::span<const std::uint32_t> instances,
                          Body& body) {
  const std::size_t rows = instances.size();
  std::vector<double> numbers(rows * batch.data_columns()), whole(batch.size());
  for (std::uint32_t c = 0; c < batch.data_columns(); ++c) {
    batch.copy_data_column(c, 0, whole);
    pick<double>(whole, instances, std::span(numbers).subspan(c * rows, rows));
  }
  std::map<std::uint64_t, std::uint32_t> known;
  std::vector<double> values;
  std::vector<std::uint32_t> codes;
  for (const double number : numbers) {
    const double size = std::fabs(number);
    const auto [at, fresh] = known.try_emplace(std::bit_cast<std::uint64_t>(size),
                                               static_cast<std::uint32_t>(values.size()));
    if (fresh) values.push_back(size);
    codes.push_back(2 * at->second + (std::signbit(number) ? 1 : 0));
  }
  if (2 * values.size() > numbers.size()) return body.add(numbers);
  to_differences(codes);
  return {{"values", body.add(values)}, {"codes", body.add(codes)}};
}

/// Names the derivatives that the module needs of each term.
enum class Derivatives {
  jacobian,   ///< of residuals, for least squares
  curvature,  ///< these, and second derivatives of the cost, for ends of least squares
  gradient,   ///< of the cost, and rows of residuals
  hessian     ///< these, and second derivatives of the cost
};

std::size_t fixed_count(const Problem& problem) {
  return static_cast<std::size_t>(
      std::ranges::count_if(problem.constant_mask(), [](std::uint8_t flag) { return flag != 0; }));
}

/// True if verdicts ask second derivatives, as in the library.
bool has_few_unknowns(const Problem& problem) {
  return !problem.has_manifolds() &&
         problem.parameter_count() - fixed_count(problem) <= kMostCurved;
}

Derivatives derivatives_for(const Problem& problem, Method method) {
  if (problem.energy_count() == 0)
    return has_few_unknowns(problem) ? Derivatives::curvature : Derivatives::jacobian;
  const bool first = method == Method::lbfgs || problem.has_manifolds();
  return first ? Derivatives::gradient : Derivatives::hessian;
}

/// The header and the body of the file, and the functions that they name.
struct Written {
  ordered_json& header;
  Body body;
  std::vector<PlainFunction> functions;
  Names names;          ///< of arrays and terms
  bool f32 = false;     ///< kernels of f32, too
  std::string shaders;  ///< kernels.wgsl
};

void add_arrays(const Problem& problem, Written& out) {
  out.header["arrays"] = ordered_json::array();
  for (const ParameterArray& array : problem.arrays()) {
    out.header["arrays"].push_back(
        {{"name", out.names.add(array.name.empty() ? "parameters" : array.name)},
         {"offset", array.offset},
         {"width", array.width},
         {"blocks", array.blocks}});
  }
}

/// Most unknowns of an instance whose Hessian is written as one function: its length grows with
/// their square. Beyond, a function for the product with a vector is called for each of them.
constexpr std::size_t kMostOfHessian = 12;

/// Adds the functions for methods that know a scalar cost alone, and second derivatives.
void add_scalar_functions(const runtime::Term& term, const std::string& title,
                          Derivatives derivatives, ordered_json& header, Written& out) {
  const ir::Program& f = term.topology->program;
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
  const std::string number = std::to_string(out.header["terms"].size());
  const auto add = [&](const char* key, const std::string& what, runtime::Pass pass) {
    header[key] = key + number;
    out.functions.push_back(
        {key + number, what + title, pass_program(pass, f, slots, term.energy, term.loss)});
  };
  if (derivatives != Derivatives::curvature)
    add("gradient", "gradient and cost ", runtime::Pass::cost_gradient);
  if (derivatives == Derivatives::gradient) return;
  if (slots.size() <= kMostOfHessian) {
    add("hessian", "upper triangle of the Hessian ", runtime::Pass::hessian);
  } else {
    add("hvp", "product with the Hessian ", runtime::Pass::hvp);
  }
}

/// Adds a kernel that evaluates a program for all instances in f32, and stores output k of instance
/// i at k * out_stride + i. Returns its buffers by binding.
ordered_json add_shader(const std::string& name, const ir::Program& program, Written& out) {
  const codegen::KernelSource kernel =
      codegen::generate({.name = name,
                         .form = codegen::Form::store,
                         .precision = codegen::Precision::f32,
                         .workgroup_size = 64,
                         .program = program,
                         .layout = codegen::general_layout(program.leaves)});
  ordered_json buffers = ordered_json::array();
  for (const codegen::BindingInfo& binding : kernel.bindings)
    buffers.push_back(codegen::name(binding.role));
  out.shaders += "// kernel " + name + "\n" + compiled_source(kernel, "wgsl");
  return buffers;
}

/// Adds the functions of a topology, and a term of the module for each label of its instances.
void add_terms(const Problem& problem, std::size_t topology, const runtime::Term& term,
               Derivatives derivatives, Written& out) {
  const ir::Program& f = term.topology->program;
  if (!f.guards.empty()) {
    refuse_export(
        (term.energy ? "energy \"" : "residual \"") + term.name +
        "\" branches on a Value with `if`; a page cannot trace it again: write the branch with "
        "select()");
  }
  const std::string number = std::to_string(out.header["terms"].size());
  const std::vector<std::uint32_t> slots = autodiff::all_slots(f);
  const std::string title = "of \"" + term.name + "\", topology " + to_string(term.topology->hash);
  ordered_json header = {{"name", ""},
                         {"rows", f.outputs.size()},
                         {"instances", 0},
                         {"parameters", term.batch->parameter_columns()},
                         {"data", term.batch->data_columns()},
                         {"uniforms", term.batch->uniform_columns()},
                         {"cost", "cost" + number}};
  out.functions.push_back({"cost" + number, "cost " + title,
                           pass_program(runtime::Pass::cost, f, slots, term.energy, term.loss)});
  if (!term.energy) {
    header["jacobian"] = "rows" + number;
    out.functions.push_back({"rows" + number, "rows, and their Jacobian, " + title,
                             term.loss == nullptr ? autodiff::residual_and_jacobian(f, slots)
                                                  : autodiff::residual_and_jacobian(
                                                        autodiff::Robust{f, *term.loss}, slots)});
  }
  if (out.f32) {
    ordered_json shaders = {
        {"jacobian", add_shader("rows" + number, out.functions.back().program, out)}};
    // Without a loss the cost is half the square of the rows.
    if (term.loss != nullptr) {
      shaders["cost"] =
          add_shader("cost" + number, out.functions[out.functions.size() - 2].program, out);
    }
    header["shaders"] = std::move(shaders);
  }
  if (derivatives != Derivatives::jacobian)
    add_scalar_functions(term, title, derivatives, header, out);
  for (const auto& [label, instances] : by_label(problem, topology, term)) {
    header["name"] = out.names.add(label);
    header["instances"] = instances.size();
    add_index_columns(*term.batch, instances, header, out.body);
    header["numbers"] = data_columns(*term.batch, instances, out.body);
    out.header["terms"].push_back(header);
  }
}

void add_manifolds(const runtime::Model& model, Written& out) {
  out.header["manifolds"] = ordered_json::array();
  if (model.manifolds == nullptr) return;
  for (const runtime::ManifoldBlocks& one : model.manifolds->all) {
    const std::string number = std::to_string(out.header["manifolds"].size());
    out.functions.push_back({"plus" + number, "a step on a manifold", one.plus});
    out.functions.push_back({"basis" + number, "its derivative", one.basis});
    ordered_json header = {{"width", one.width},
                           {"tangent", one.tangent},
                           {"plus", "plus" + number},
                           {"basis", "basis" + number},
                           {"blocks", out.body.add(one.blocks)}};
    if (out.f32) {
      header["shaders"] = {{"plus", add_shader("plus" + number, one.plus, out)},
                           {"basis", add_shader("basis" + number, one.basis, out)}};
    }
    out.header["manifolds"].push_back(std::move(header));
  }
}

/// Blocks of all arrays, one after the other, in an order of elimination with little fill.
std::vector<std::uint32_t> elimination_order(const runtime::Model& model) {
  std::vector<std::uint32_t> block_of(model.scalars);
  std::uint32_t blocks = 0;
  for (const runtime::ParameterArray& array : model.arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b, ++blocks)
      std::fill_n(block_of.begin() + static_cast<std::ptrdiff_t>(array.offset + b * array.width),
                  array.width, blocks);
  }
  std::vector<Eigen::Triplet<float, int>> pairs;
  for (const runtime::Term& term : model.terms) {
    const std::uint32_t slots = term.batch->parameter_columns();
    std::vector<std::vector<std::uint32_t>> columns(slots);
    for (std::uint32_t s = 0; s < slots; ++s) {
      columns[s].resize(term.batch->size());
      term.batch->copy_index_column(s, 0, columns[s]);
    }
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      std::set<std::uint32_t> met;
      for (const auto& column : columns) met.insert(block_of[column[i]]);
      // An instance that reads very many blocks makes any factor dense.
      if (met.size() > kMostBlocksOfInstance) return {};
      for (const std::uint32_t a : met)
        for (const std::uint32_t b : met) pairs.emplace_back(a, b, 1.0F);
    }
  }
  const auto size = static_cast<int>(blocks);
  Eigen::SparseMatrix<float, Eigen::ColMajor, int> pattern(size, size);
  pattern.setFromTriplets(pairs.begin(), pairs.end());
  Eigen::PermutationMatrix<Eigen::Dynamic, Eigen::Dynamic, int> permutation;
  Eigen::AMDOrdering<int>()(pattern.selfadjointView<Eigen::Lower>(), permutation);
  return {permutation.indices().begin(), permutation.indices().end()};
}

/// True if the library solves for steps by a Schur complement, and corrects those that gain little.
bool corrects_steps(const runtime::Model& model) {
  if (model.manifolds != nullptr || !model.lower.empty() || model.scalars <= kLargestFactorised)
    return false;
  return DirectStep::has_rows_of_cost(model) && find_elimination(model, {}).pays();
}

std::vector<double> present_point(const Problem& problem) {
  std::vector<double> x(problem.parameter_count());
  for (const ParameterArray& array : problem.arrays()) {
    if (array.values == nullptr) continue;
    std::copy_n(array.values, std::size_t{array.blocks} * array.width, x.begin() + array.offset);
  }
  reduce_manifolds(problem, x);
  return x;
}

/// True if a block that is not fixed as a whole lies on a manifold.
bool moves_on_manifolds(const Problem& problem) {
  if (!problem.has_manifolds()) return false;
  const std::span<const std::uint8_t> fixed = problem.constant_mask();
  for (std::size_t a = 0; a < problem.arrays().size(); ++a) {
    const ParameterArray& array = problem.arrays()[a];
    for (std::uint32_t b = 0; b < array.blocks; ++b) {
      if (problem.manifold(a, b) == nullptr) continue;
      const std::size_t first = array.offset + std::size_t{b} * array.width;
      if (fixed.empty() || std::ranges::count(fixed.subspan(first, array.width), 0) > 0)
        return true;
    }
  }
  return false;
}

/// Throws Error{NonFinite} for a start whose cost or gradient is not finite, as a solve does.
void check_finite(const ProblemModel& made, std::span<const double> x) {
  const runtime::Model& model = made.model;
  const auto is_fixed = [](std::uint8_t flag) { return flag != 0; };
  if (model.constant.size() == model.scalars && std::ranges::all_of(model.constant, is_fixed))
    return;
  const std::unique_ptr<runtime::Engine> engine = runtime::cpu::make_cpu_engine(model, {});
  engine->set_point(x);
  std::vector<double> gradient(model.scalars);
  engine->gradient(gradient);
  for (std::size_t k = 0; k < model.constant.size(); ++k)
    if (is_fixed(model.constant[k])) gradient[k] = 0;
  const auto is_finite = [](double number) { return std::isfinite(number); };
  if (is_finite(engine->cost()) && std::ranges::all_of(gradient, is_finite)) return;
  throw Error(ErrorCode::NonFinite, "export web: " + describe_nonfinite(*engine, made));
}

Method method_of(const Problem& problem, Method asked) {
  if (asked != Method::automatic) return asked;
  return problem.energy_count() > 0 ? Method::lbfgs : Method::levenberg_marquardt;
}

/// Conjugate gradients stand in for a factor on WebGPU: in graphs of thousands of poses they take
/// a thousand iterations for what a factor solves at once, and steps that end before are others.
constexpr int kMostLinearIterations = 5000;

int linear_iterations_of(const Problem& problem, const SolverOptions& options) {
  const int asked = options.max_linear_iterations;
  const bool by_default = asked == SolverOptions{}.max_linear_iterations;
  return by_default && problem.energy_count() == 0 ? kMostLinearIterations : asked;
}

/// The linear solver of the module; empty for its own choice.
std::string linear_solver_of(const SolverOptions& options) {
  switch (form_of(options.linear_solver)) {
    case LinearForm::undecided:
      return options.preconditioner == Preconditioner::automatic ? "" : "cg";
    case LinearForm::products: return "cg";
    case LinearForm::factor:
    case LinearForm::elimination:
    case LinearForm::jacobian: break;  // exact steps
  }
  return "factor";
}

/// Defaults of solves; names are those of the module, which knows the library's defaults.
ordered_json options_of(const Problem& problem, const SolverOptions& options) {
  const Method method = method_of(problem, options.method);
  ordered_json out = {{"method", name(method)},
                      {"maxIterations", options.max_iterations},
                      {"functionTolerance", options.function_tolerance},
                      {"gradientTolerance", options.gradient_tolerance},
                      {"parameterTolerance", options.parameter_tolerance},
                      {"linearTolerance", options.linear_tolerance},
                      {"maxLinearIterations", linear_iterations_of(problem, options)}};
  const SolverOptions d;
  const auto add = [&](const char* key, double SolverOptions::*field) {
    if (options.*field != d.*field) out[key] = options.*field;
  };
  add("timeLimitSeconds", &SolverOptions::time_limit_seconds);
  if (problem.energy_count() == 0) {
    out["initialTrustRegionRadius"] = options.initial_trust_region_radius;
    add("minTrustRegionRadius", &SolverOptions::min_trust_region_radius);
    add("maxTrustRegionRadius", &SolverOptions::max_trust_region_radius);
    add("minRelativeDecrease", &SolverOptions::min_relative_decrease);
    add("minLmDiagonal", &SolverOptions::min_lm_diagonal);
    add("maxLmDiagonal", &SolverOptions::max_lm_diagonal);
  } else {
    out["maxEscapes"] = options.max_escapes;
    out["maxLbfgsRank"] = options.max_lbfgs_rank;
  }
  const std::string linear = linear_solver_of(options);
  if (!linear.empty()) out["linearSolver"] = linear;
  if (options.forcing_sequence != ForcingSequence::automatic)
    out["forcing"] = name(options.forcing_sequence);
  return out;
}

void write_problem(const Problem& problem, const WebExportOptions& options, Written& out) {
  check_problem(problem, options);
  const ProblemModel made = make_model("export web", problem);
  const runtime::Model& model = made.model;
  if (model.manifolds == nullptr && moves_on_manifolds(problem))
    refuse_export(
        "a manifold has no traced form, or bounds or fixed coordinates on single numbers");
  const std::vector<double> x = present_point(problem);
  check_start("export web", problem, x);
  check_manifolds("export web", problem, x);
  if (has_bounds(problem)) TangentSpace(problem).check_bounds("export web", x);
  check_finite(made, x);
  out.header["checksum"] = std::string(kChecksumDigits, '0');  // the first field
  out.header["version"] = kFileVersion;
  out.header["topograd"] = version();
  out.header["name"] = options.name;
  out.header["scalars"] = model.scalars;
  add_arrays(problem, out);
  out.header["terms"] = ordered_json::array();
  const Derivatives derivatives = derivatives_for(problem, options.solver.method);
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    const runtime::Term& term = model.terms[t];
    add_terms(problem, made.topologies[t], term, derivatives, out);
    if (derivatives == Derivatives::curvature && has_corners(term.topology->program))
      out.header["corners"] = true;
  }
  add_manifolds(model, out);
  out.header["x"] = out.body.add(x);
  out.header["uniforms"] = out.body.add(model.uniforms);
  if (!model.constant.empty()) {
    const std::vector<std::uint32_t> flags(model.constant.begin(), model.constant.end());
    out.header["constant"] = out.body.add(flags);
  }
  if (!model.lower.empty()) {
    out.header["lower"] = out.body.add(model.lower);
    out.header["upper"] = out.body.add(model.upper);
  }
  if (!options.faces.empty()) {
    std::vector<std::uint32_t> corners;
    for (const auto& face : options.faces) corners.insert(corners.end(), face.begin(), face.end());
    out.header["faces"] = out.body.add(corners);
  }
  const std::vector<std::uint32_t> order = elimination_order(model);
  if (!order.empty()) out.header["order"] = out.body.add(order);
  if (corrects_steps(model)) out.header["corrects"] = true;
  out.header["options"] = options_of(problem, options.solver);
}

/// FNV-1a over all bytes but those of the checksum itself.
std::uint32_t checksum_of(std::string_view text, std::size_t begin, std::size_t end) {
  std::uint32_t sum = 2166136261U;
  for (std::size_t k = 0; k < text.size(); ++k)
    if (k < begin || k >= end) sum = (sum ^ static_cast<unsigned char>(text[k])) * 16777619U;
  return sum;
}

/// Writes the checksum into its place in the header.
void set_checksum(std::string& text) {
  static constexpr std::string_view kField = "{\"checksum\":\"";
  const std::size_t begin = kAlignment * 2 + kField.size(), end = begin + kChecksumDigits;
  std::uint32_t sum = checksum_of(text, begin, end);
  for (std::size_t k = end; k-- > begin; sum >>= 4) text[k] = "0123456789abcdef"[sum & 15];
}

std::string file_of(const Written& written) {
  std::string header = written.header.dump();
  const std::size_t start = kAlignment * 2;
  while ((start + header.size()) % kAlignment != 0) header += ' ';
  std::string text = "TGWEB\n";
  text.resize(kAlignment);
  const std::array words = {kFileVersion, static_cast<std::uint32_t>(header.size())};
  text.append(reinterpret_cast<const char*>(words.data()), sizeof words);
  text += header;
  text.append(written.body.bytes().begin(), written.body.bytes().end());
  set_checksum(text);
  return text;
}

class Folder {
 public:
  explicit Folder(const std::string& path) : path_(path) { make(path_); }
  void write(const std::string& name, std::string_view text, WebExport& done) const {
    const std::filesystem::path path = path_ / name;
    make(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) throw Error(ErrorCode::File, path.string() + ": cannot be written");
    done.files.push_back(name);
    done.bytes += text.size();
  }

 private:
  static void make(const std::filesystem::path& path) {
    std::error_code failed;
    std::filesystem::create_directories(path, failed);
    if (failed)
      throw Error(ErrorCode::File, path.string() + ": cannot be made: " + failed.message());
  }

  std::filesystem::path path_;
};

bool is_wanted(detail::WebPart part, const WebExportOptions& options) {
  switch (part) {
    case detail::WebPart::module: return true;
    case detail::WebPart::page: return options.page;
    case detail::WebPart::f32: return options.f32;
  }
  return false;
}

}  // namespace

WebExport export_web(const Problem& problem, const WebExportOptions& options,
                     const std::string& folder) {
  if (detail::web_files().empty()) {
    refuse_export(
        "this build has no module for web pages; build Topograd where TypeScript's compiler tsc is "
        "installed (Debian: node-typescript)");
  }
  ordered_json header;
  Written written{.header = header,
                  .body = {},
                  .functions = {},
                  .names = {},
                  .f32 = options.f32,
                  .shaders = {}};
  write_problem(problem, options, written);
  const std::string kernels = codegen::javascript_source(written.functions);
  const Folder to(folder);
  WebExport done;
  to.write("problem.bin", file_of(written), done);
  to.write("kernels.js", kernels, done);
  if (options.f32) to.write("kernels.wgsl", written.shaders, done);
  for (const detail::WebFile& file : detail::web_files())
    if (is_wanted(file.part, options)) to.write(std::string(file.name), file.text, done);
  return done;
}

}  // namespace topograd
