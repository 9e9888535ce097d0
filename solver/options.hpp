// Options of a solve or an Evaluator, and the defaults of the process.
#pragma once

#include "../codegen/kernel.hpp"
#include "../codegen/precision.hpp"
#include "../frontend/parameters.hpp"
#include "../ir/enum_table.hpp"
#include "../runtime/linear/choices.hpp"
#include "../runtime/plan/record/plan_record.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

using codegen::Accumulation;
using codegen::Bits;
using codegen::Float64;
using codegen::Precision;

/// The backend for kernels (plan/decide.hpp).
enum class Backend {
#define TG_BACKEND(row, ...) row,
#include "option_values.def"
};
inline constexpr EnumRow<Backend> kBackends[] = {
#define TG_BACKEND(row, ...) {.value = Backend::row, .name = #row, __VA_ARGS__},
#include "option_values.def"
};
TG_ENUM_TABLE(Backend, kBackends)
/// Throws an Error{InvalidArgument} that lists the names, as all these functions do. The enums
/// without one are read by parse_enum<E>().
Backend parse_backend(std::string_view text);

/// Method of the solve.
enum class Method {
#define TG_METHOD(row, ...) row,
#include "option_values.def"
};
struct MethodRow {
  Method value;
  std::string_view name, help = {}, alias = {};
  bool takes_energies = false;     ///< minimises any cost, not only sums of squares
  bool takes_constraints = false;  ///< makes minimisations of another method
};
inline constexpr MethodRow kMethods[] = {
#define TG_METHOD(row, ...) {.value = Method::row, .name = #row, __VA_ARGS__},
#include "option_values.def"
};
TG_ENUM_TABLE(Method, kMethods)
Method parse_method(std::string_view text);
constexpr bool takes_energies(Method method) {
  return kMethods[static_cast<std::size_t>(method)].takes_energies;
}

constexpr bool takes_constraints(Method method) {
  return kMethods[static_cast<std::size_t>(method)].takes_constraints;
}

/// The step of dogleg.
enum class DoglegType {
#define TG_DOGLEG_TYPE(row, ...) row,
#include "option_values.def"
};
inline constexpr EnumRow<DoglegType> kDoglegTypes[] = {
#define TG_DOGLEG_TYPE(row, ...) {.value = DoglegType::row, .name = #row, __VA_ARGS__},
#include "option_values.def"
};
TG_ENUM_TABLE(DoglegType, kDoglegTypes)

/// Tolerance of linear solves by conjugate gradients (step_control/step_rules.hpp).
enum class ForcingSequence {
#define TG_FORCING_SEQUENCE(row, ...) row,
#include "option_values.def"
};
struct ForcingRow {
  ForcingSequence value;
  std::string_view name, help = {}, alias = {};
  double gamma = 0;  ///< tolerance / (ratio of successive gradients)²; 0 = `linear_tolerance` alone
};
inline constexpr ForcingRow kForcingSequences[] = {
#define TG_FORCING_SEQUENCE(row, ...) {.value = ForcingSequence::row, .name = #row, __VA_ARGS__},
#include "option_values.def"
};
TG_ENUM_TABLE(ForcingSequence, kForcingSequences)
constexpr double forcing_gamma(ForcingSequence sequence) {
  return kForcingSequences[static_cast<std::size_t>(sequence)].gamma;
}

/// Solver of the damped normal equations (plan/decide.hpp).
enum class LinearSolver {
#define TG_LINEAR_SOLVER(row, ...) row,
#include "option_values.def"
};
/// Names what a linear solver works on. All that decide about solvers, report on them or name those
/// of other programs ask for this; only the functions that make one ask which solver it is.
enum class LinearForm {
  jacobian,     ///< the Jacobian in tangent spaces, on the host alone (host/tangent_system.hpp)
  products,     ///< products with JᵀJ or the Hessian, with a preconditioner
  factor,       ///< a factor of JᵀJ or the Hessian
  elimination,  ///< the Schur complement of blocks that do not meet
  undecided,    ///< `automatic` alone
};
struct LinearSolverRow {
  LinearSolver value;
  std::string_view name, help = {}, alias = {};
  LinearForm form = LinearForm::jacobian;
};
inline constexpr LinearSolverRow kLinearSolvers[] = {
#define TG_LINEAR_SOLVER(row, ...) {.value = LinearSolver::row, .name = #row, __VA_ARGS__},
#include "option_values.def"
};
TG_ENUM_TABLE(LinearSolver, kLinearSolvers)
LinearSolver parse_linear_solver(std::string_view text);
constexpr LinearForm form_of(LinearSolver solver) {
  return kLinearSolvers[static_cast<std::size_t>(solver)].form;
}

/// The backend on which `cholesky` factorises the normal equations (plan/step_times.hpp). Naming
/// the device selects cholesky if linear_solver is automatic.
enum class FactorPlace {
#define TG_FACTOR(row, ...) row,
#include "option_values.def"
};
inline constexpr EnumRow<FactorPlace> kFactorPlaces[] = {
#define TG_FACTOR(row, ...) {.value = FactorPlace::row, .name = #row, __VA_ARGS__},
#include "option_values.def"
};
TG_ENUM_TABLE(FactorPlace, kFactorPlaces)

/// Preconditioner of conjugate gradients for the damped normal equations
/// (runtime/linear/choices.hpp). Naming one other than `automatic` selects pcg if
/// linear_solver is automatic.
using runtime::Preconditioner;

/// How pcg multiplies by JᵀJ on a device (runtime/linear/choices.hpp); the interpreter has a
/// stored Jacobian.
using runtime::NormalMatrix;

/// Treatment of operands outside the domains of their ops (sqrt, log, acos, ... by the op table,
/// divisors of 0).
enum class DomainPolicy {
#define TG_DOMAIN_POLICY(row, ...) row,
#include "option_values.def"
};
inline constexpr EnumRow<DomainPolicy> kDomainPolicies[] = {
#define TG_DOMAIN_POLICY(row, ...) {.value = DomainPolicy::row, .name = #row, __VA_ARGS__},
#include "option_values.def"
};
TG_ENUM_TABLE(DomainPolicy, kDomainPolicies)

/// Treatment of a problem whose parts share no free unknown (methods.md).
enum class Components {
#define TG_COMPONENTS(row, ...) row,
#include "option_values.def"
};
inline constexpr EnumRow<Components> kComponents[] = {
#define TG_COMPONENTS(row, ...) {.value = Components::row, .name = #row, __VA_ARGS__},
#include "option_values.def"
};
TG_ENUM_TABLE(Components, kComponents)

/// Value of SolverOptions::cross_check for every instance and the gradient.
inline constexpr std::uint64_t kCrossCheckAll = ~std::uint64_t{0};

/// Precision of kernels: "f32" or "f64".
Precision parse_precision(std::string_view text);
/// Precision of solves: also "mixed".
Precision parse_solve_precision(std::string_view text);
Float64 parse_float64(std::string_view text);

/// The line search of lbfgs and newton; defaults are Ceres'.
struct LineSearchOptions {
  double sufficient_decrease = 1e-4;           ///< c₁ of the strong Wolfe conditions, in (0, 1)
  double sufficient_curvature_decrease = 0.9;  ///< c₂ of the strong Wolfe conditions, in (c₁, 1)
  double max_expansion = 10;    ///< growth of a step during the search for a bracket, > 1
  double min_step_size = 1e-9;  ///< width of a bracket, as a share of the step, at which to stop
  int max_evaluations = 20;     ///< evaluations of cost and gradient in one search, >= 1
};

/// Steps of adam, adamw and sgd.
struct FirstOrderOptions {
  double learning_rate = 1e-3;  ///< > 0
  double beta1 = 0.9;           ///< decay of the mean of gradients, in [0, 1)
  double beta2 = 0.999;         ///< decay of the mean of squared gradients, in [0, 1)
  double epsilon = 1e-8;        ///< added to the root of the mean of squared gradients, > 0
  double weight_decay = 1e-2;   ///< adamw: share of x that a step removes, times the rate, >= 0
  double momentum = 0;          ///< sgd: share of the last step that is added, in [0, 1)
};

/// Blocks of unknowns and the group in which they are eliminated.
struct OrderedParameters {
  Parameters array;                       ///< the array of unknowns
  int group = 0;                          ///< group of elimination, >= 0
  std::optional<std::size_t> block = {};  ///< one block of the array; empty: all of them
};

struct IterationSummary;

/// Answer of an iteration callback.
enum class CallbackReturn { SOLVER_CONTINUE, SOLVER_ABORT, SOLVER_TERMINATE_SUCCESSFULLY };
/// Runs on the calling thread after each iteration; the caller's parameters do not change before
/// the end unless SolverOptions::update_state_every_iteration is set.
using IterationCallback = std::function<CallbackReturn(const IterationSummary&)>;

/// Bounds that lower a device's limits (0 leaves a limit) and features that are hidden from us, so
/// that what replaces them can be tried.
struct DeviceRestrictions {
  std::string mask = {};  ///< names of features to hide, with commas, in addition to TOPOGRAD_MASK
  std::uint64_t max_storage_buffer_range = 0;   ///< bytes of one binding
  std::uint64_t max_allocation_size = 0;        ///< bytes of one memory allocation
  std::uint32_t max_workgroup_invocations = 0;  ///< invocations of one workgroup
  std::uint32_t shared_memory_bytes = 0;        ///< bytes of shared memory of one workgroup
};

/// Checkpoints of a solve: files from which SolverOptions::resume continues it.
struct CheckpointOptions {
  std::string file = {};      ///< replaced as a whole by each checkpoint; empty: none is written
  double every_seconds = 60;  ///< least time from one to the next; 0: after each accepted step
};

/// Names, meanings and defaults are Ceres' where there is no reason to differ.
struct SolverOptions {
  Backend backend = Backend::automatic;                  ///< where kernels run
  Precision precision = Precision::f64;                  ///< numbers of kernels; `mixed` for solves
  Method method = Method::automatic;                     ///< how steps are found
  LinearSolver linear_solver = LinearSolver::automatic;  ///< what solves for a step

  /// Parts of the problem that share no free unknown: one minimisation, or one for each of them.
  /// Then max_iterations and the tolerances are each component's, and Summary::components has their
  /// results. A solve throws Error{Unsupported} for `separate` with what it does not know.
  Components components = Components::automatic;
  /// Components that are solved for separately get (JᵀJ)⁻¹ at their ends.
  bool component_covariances = false;

  int max_iterations = 50;           ///< accepted and rejected steps, >= 0
  double time_limit_seconds = 1e9;   ///< wall time, checked between iterations; > 0
  double function_tolerance = 1e-6;  ///< |cost change| / cost of a step at which to stop
  /// A solve stops at this share. Sums of squares: Summary::optimality, the largest cosine between
  /// the residuals and a column of the Jacobian. Other costs: max |g_i| over 1e-4 of its start
  /// value.
  double gradient_tolerance = 1e-10;
  /// Size of an accepted step at which to stop, if the model promised less than
  /// function_tolerance, too. Sums of squares: √Σ (‖J_i‖ δ_i)² / ‖r‖, J_i being column i of the
  /// Jacobian, which does not depend on the origin of coordinates. Other costs: ‖step‖ / ‖x‖.
  double parameter_tolerance = 1e-8;
  /// max |g_i| in the problem's units at which a solve also stops; 0: at no other.
  double absolute_gradient_tolerance = 0;
  /// No decision depends on the units of residuals and unknowns, nor on the size of the unknowns:
  /// both tolerances above are relative, and Jacobi scaling, dogleg's radius and the norm in which
  /// CG stops have no unit (except with ForcingSequence::eisenstat_walker, which uses ‖r‖). A
  /// tolerance ends a solve only if the gradient agrees and the damping hides nothing (methods.md).
  /// false: as in Ceres, the tolerances are for max |g_i| and ‖step‖ <= tolerance (‖x‖ +
  /// tolerance), in the problem's units, and columns are scaled by 1 / (1 + ‖column‖ at the start).
  bool scale_free = true;

  /// Largest violation of a constraint, |c| or max(0, −c), with which augmented_lagrangian and
  /// barrier stop.
  double constraint_tolerance = 1e-10;
  /// Share of the objective's largest gradient entry, in units of the unknowns (at least of 1e-2
  /// of it at the start), to which augmented_lagrangian and barrier reduce the Lagrangian's. It
  /// ends a solve with constraints: function_, gradient_ and parameter_tolerance do not.
  double kkt_tolerance = 1e-10;
  /// μ of augmented_lagrangian's first minimisation, and for the equalities of barrier; 0: chosen.
  double initial_penalty = 0;
  double initial_barrier = 0;  ///< factor of −log c in barrier's first minimisation; 0: chosen
  int max_outer_iterations = 100;  ///< minimisations, each with max_iterations; >= 1

  double initial_trust_region_radius = 1e4;  ///< radius of the first step, > 0
  double min_trust_region_radius = 1e-32;    ///< radius below which a solve ends
  double max_trust_region_radius = 1e16;     ///< largest radius
  double min_relative_decrease = 1e-3;       ///< gain ratio above which a step is accepted
  /// Least entry of diag(JᵀJ) in the damping, after scaling; at least 1 for up to 32 unknowns that
  /// are solved for on the host.
  double min_lm_diagonal = 1e-6;
  double max_lm_diagonal = 1e32;  ///< largest entry of diag(JᵀJ) in the damping, after scaling
  bool jacobi_scaling = true;     ///< columns scaled by 1 / ‖column‖ where it is first not 0
  /// A step that gains more than the model predicted (with loosely solved systems: also less) is
  /// tried once more, at the length where the parabola through model and trial has its minimum. The
  /// better trial is kept: one more evaluation of the cost, no other linear solve. Curved valleys
  /// (rotations) take fewer steps. Ceres does not do this; false gives its steps.
  bool rescale_steps = true;
  DoglegType dogleg_type = DoglegType::traditional;  ///< which step dogleg takes
  /// Steps may raise the cost for a while, compared with the highest of the last ones, as in Ceres;
  /// the result is the best point seen.
  bool use_nonmonotonic_steps = false;
  int max_consecutive_nonmonotonic_steps = 5;  ///< number of steps that may raise the cost, >= 1
  int max_consecutive_invalid_steps =
      5;  ///< steps in a row without a predicted decrease that end a solve with FAILURE

  double linear_tolerance =
      1e-5;  ///< ‖residual of the normal equations‖ / ‖gradient‖ at which CG stops
  int max_linear_iterations = 500;  ///< iterations of CG in one step, >= 1
  /// CG also stops after iteration i if i times its gain in the linear model is less than this
  /// share of the gain so far, in [0, 1); 0: never. Ceres' option of that name. Source: Nash,
  /// Sofer, Assessing a search direction within a truncated-Newton method, Oper. Res. Letters 9
  /// (1990).
  double eta = 0;
  ForcingSequence forcing_sequence = ForcingSequence::automatic;  ///< how exactly CG solves
  /// The backend on which cholesky factorises. A solve throws Error{Unsupported} for `device` if
  /// steps cannot be solved for there, and for `cholmod` in a build without it.
  FactorPlace factor = FactorPlace::automatic;
  Preconditioner preconditioner = Preconditioner::automatic;  ///< preconditioner of pcg
  NormalMatrix normal_matrix = NormalMatrix::automatic;       ///< JᵀJ of pcg on a device

  /// With two or more groups, `schur` eliminates the blocks of the lowest group. No two of them may
  /// share a residual; if two do, that is an error that names them. Blocks that no group names come
  /// last; a block in two groups belongs to the later one. `automatic` then becomes `schur`; other
  /// solvers ignore the groups. With fewer groups the blocks are found. As in Ceres.
  std::vector<OrderedParameters> linear_solver_ordering = {};

  int max_lbfgs_rank = 20;             ///< steps that lbfgs remembers, >= 1
  LineSearchOptions line_search = {};  ///< line search of lbfgs and newton
  /// On problems with energies: how often lbfgs and newton continue from a point where they have
  /// converged, if the cost falls on both sides of it (first_order/descent.hpp), >= 0.
  int max_escapes = 3;
  FirstOrderOptions first_order = {};  ///< steps of adam, adamw and sgd

  int threads = 0;  ///< threads of the CPU interpreter; 0: all
  /// Index or name of a Vulkan device; empty: TOPOGRAD_DEVICE, else the best.
  std::string device = {};
  /// f64 of the device's kernels. `emulated` computes in 32-bit integers with the same bits, also
  /// where the device has float64; `automatic` does so only where it has none. See requirements.md.
  Float64 float64 = Float64::automatic;
  std::optional<Accumulation> accumulation = {};  ///< accumulation strategy; empty: chosen
  /// Choices of an earlier run (Summary::plan, plan_record.hpp), used if topology, pass and size
  /// are the same.
  std::shared_ptr<const runtime::PlanRecord> plan = {};
  /// Number of instances below which `automatic` stays on the CPU; empty: process_defaults().
  std::optional<std::uint64_t> fallback_threshold = {};
  /// Instances of one dispatch; 0: the device's limit; empty: process_defaults().
  std::optional<std::uint64_t> max_instances_per_dispatch = {};
  /// Lower limits and hidden features of the device, for tests.
  DeviceRestrictions restrictions = {};
  bool validation = false;     ///< runs Vulkan with the validation layer
  bool deterministic = false;  ///< layouts and kernels by rules alone, without measurements
  /// `portable`: the answer has the same bits on every machine (portable-bits.md). Sums have the
  /// order of the CPU, also with backend vulkan; `deterministic` is set. A solve throws
  /// Error{Unsupported} for f32 on a device, factor device or cholmod, methods adam and adamw.
  Bits bits = Bits::native;

  DomainPolicy domain = DomainPolicy::mathematical;  ///< operands outside of domains
  double domain_epsilon = 1e-6;  ///< for guarded: distance from the ends of domains and from 0
  /// Number of instances of each topology whose residuals and Jacobians are compared with the
  /// interpreter's at every accepted point of least squares; kCrossCheckAll compares all of them,
  /// the gradient, and JᵀJ·p for one p.
  std::uint64_t cross_check = 0;
  /// Times every kernel on a device, by its timestamps, and every pass on the CPU, within the
  /// steps: Summary::profile. The problem is solved as one, not by components; a solve by several
  /// processes throws Error{Unsupported}.
  bool profile = false;

  CheckpointOptions checkpoint = {};  ///< files that are written during the solve and at its end
  /// Checkpoint of the same problem and options from which the solve continues; empty: it starts at
  /// the parameters' values. With `deterministic` the result has the bits of a solve that was not
  /// interrupted. Limits and tolerances may differ; the time limit is that of this solve alone.
  std::string resume = {};

  IterationCallback callback = {};  ///< called after each iteration
  /// The caller's parameters hold the best accepted point before each callback, not only after the
  /// solve; costs a readback in each iteration.
  bool update_state_every_iteration = false;
};

/// Values of options that are left empty, in this process.
struct ProcessDefaults {
  Backend backend = Backend::automatic;     ///< replaces Backend::automatic
  std::uint64_t fallback_threshold = 1024;  ///< instances below which `automatic` takes the CPU
  std::uint64_t max_instances_per_dispatch = 0;  ///< instances of a dispatch; 0: the device's limit
};

/// The defaults in force: initially from TOPOGRAD_BACKEND, TOPOGRAD_FALLBACK_THRESHOLD and
/// TOPOGRAD_MAX_INSTANCES_PER_DISPATCH, which are read once. Thread-safe.
///
/// Throws Error{InvalidArgument} if one of these variables cannot be read, naming it.
ProcessDefaults process_defaults();
/// Replaces the defaults, for solves and Evaluators that start later. Thread-safe.
void set_process_defaults(const ProcessDefaults& defaults);

/// Checks ranges and fills in the defaults of the process.
///
/// Throws Error{InvalidArgument} that names the field, its range and the value.
SolverOptions resolved(SolverOptions options);

}  // namespace topograd
