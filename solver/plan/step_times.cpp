// Times of steps from sizes alone, and rules for the backend of a factor, from facts alone.
#include "step_times.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>
#include <vector>

#include "../../ir/program.hpp"

namespace topograd {
namespace {

// Seconds on one core of an EPYC with AVX-512, fitted to the problems of bench/automatic.cpp.
constexpr double kPairSeconds = 2.5e-8;     ///< a pair of blocks of an instance in JᵀJ
constexpr double kProductSeconds = 3e-10;   ///< one of the products that it sums
constexpr double kPlanSeconds = 1.5e-7;     ///< a pair of blocks of an instance in the plan of it
constexpr double kUnknownSeconds = 8e-8;    ///< damping, permutation and solution
constexpr double kEntrySeconds = 4e-9;      ///< an entry of the factor, in factor and solution
constexpr double kInstanceSeconds = 8e-9;   ///< an instance in a product with JᵀJ
constexpr double kNumberSeconds = 2.1e-9;   ///< a number of the stored Jacobian there
constexpr double kVectorSeconds = 6e-9;     ///< an unknown in the vectors of an iteration
constexpr double kCubeSeconds = 1.2e-9;     ///< n³ of the eigenvectors of a Hessian
constexpr double kOperationSeconds = 1e-9;  ///< an operation of the interpreter
/// Operations of a derivative along one direction, in those of the function.
constexpr double kDerivative = 3;
/// More threads than these find little to do beside each other.
constexpr int kMostThreads = kMostFactorThreads;

/// Iterations that reduce a system to 1e-5, for each √reach of a mesh, with two levels.
constexpr double kIterationsPerReach = 6;
constexpr double kMostIterations = 500;
/// Share of these iterations that a step takes whose system is solved as exactly as the gradient
/// falls. A linear problem has few steps, which are nearly exact.
constexpr double kLoose = 0.4, kNearlyExact = 0.8;
/// A step stores the Jacobian and makes a preconditioner in the time of so many iterations.
constexpr double kSetup = 2;
/// Exact steps are fewer than loose ones by this factor.
constexpr double kMoreSteps = 1.2;
/// Products in a step of Newton's method.
constexpr double kCurvedProducts = 20;
/// Steps among which the time of a plan is divided.
constexpr double kLinearSteps = 2, kNonlinearSteps = 10;
/// Steps of a solve, and iterations in each, where nothing is known.
constexpr double kSteps = 20, kIterations = 50;

double share_of(double seconds, int threads) {
  return seconds / std::clamp(threads, 1, kMostThreads);
}

/// Highest power of the parameters that a node has: 0, 1, or 2 for all others.
int degree_of(const ir::Node& node, const std::vector<std::uint8_t>& degrees) {
  std::array<int, 3> d = {0, 0, 0};
  int most = 0;
  for (std::size_t k = 0; k < node.operands().size(); ++k) {
    d[k] = degrees[node.operands()[k]];
    most = std::max(most, d[k]);
  }
  switch (node.op) {
    case ir::Op::Parameter: return 1;
    case ir::Op::Add:
    case ir::Op::Sub:
    case ir::Op::Neg: return most;
    case ir::Op::Mul: return std::min(d[0] + d[1], 2);
    case ir::Op::Div: return d[1] == 0 ? d[0] : 2;
    case ir::Op::Fma: return std::max(std::min(d[0] + d[1], 2), d[2]);
    default: return most == 0 ? 0 : 2;
  }
}

bool is_affine(const ir::Program& program) {
  std::vector<std::uint8_t> degrees(program.nodes.size(), 0);
  for (std::size_t k = 0; k < program.nodes.size(); ++k)
    degrees[k] = static_cast<std::uint8_t>(degree_of(program.nodes[k], degrees));
  const auto high = [&](ir::Id node) { return degrees[node] > 1; };
  const auto branches = [&](const ir::Guard& guard) { return degrees[guard.condition] > 0; };
  return std::ranges::none_of(program.outputs, high) &&
         std::ranges::none_of(program.guards, branches);
}

/// The array of blocks that has this scalar.
const runtime::ParameterArray& array_of(const runtime::Model& model, std::uint32_t scalar) {
  const auto after = std::ranges::upper_bound(model.arrays, std::uint64_t{scalar}, {},
                                              &runtime::ParameterArray::offset);
  return *std::prev(after);
}

/// Blocks that an instance reads; where these are many, runs of neighbouring ones, none longer than
/// a panel of JᵀJ.
double parts_of(const runtime::Model& model, const runtime::Term& term, std::size_t instance) {
  constexpr std::uint32_t kPanel = 16, kFewBlocks = 8;
  const std::uint32_t columns = term.batch->parameter_columns();
  std::vector<std::uint32_t> scalars(columns);
  for (std::uint32_t c = 0; c < columns; ++c)
    term.batch->copy_index_column(c, instance, std::span(scalars).subspan(c, 1));
  std::ranges::sort(scalars);
  double blocks = 0, runs = 0;
  std::uint64_t end = 0;  // of the block before
  for (std::uint32_t k = 0, length = 0; k < columns; ++k) {
    const bool follows = k > 0 && scalars[k] <= scalars[k - 1] + 1 && length < kPanel;
    length = follows ? length + 1 : 1;
    if (!follows) ++runs;
    if (scalars[k] < end) continue;
    const runtime::ParameterArray& array = array_of(model, scalars[k]);
    end = scalars[k] + array.width - (scalars[k] - array.offset) % array.width;
    ++blocks;
  }
  return blocks > kFewBlocks ? runs : blocks;
}

}  // namespace

double device_factor_seconds(const runtime::FactorUse& use) {
  return use.operations / (use.narrow ? kNarrowFactorRate : kDeviceFactorRate) +
         kFactorStepSeconds * static_cast<double>(use.steps) +
         kDispatchSeconds * static_cast<double>(use.dispatches);
}

FactorChoice decide_factor(const FactorBackendFacts& facts) {
  using Next = FactorChoice::Fact;
  if (facts.asked == FactorPlace::host || facts.asked == FactorPlace::cholmod)
    return {.backend = facts.asked, .reason = FactorReason::asked_for};
  if (facts.asked == FactorPlace::device) {
    FactorChoice out{.backend = FactorPlace::device, .reason = FactorReason::no_device};
    if (!facts.on_device) return out;
    if (!facts.device) return {.next = Next::device};
    out.reason = facts.device->possible ? FactorReason::asked_for : FactorReason::not_possible;
    return out;
  }
  if (!facts.on_device) return {.reason = FactorReason::no_device};
  if (facts.software) return {.reason = FactorReason::software};
  if (facts.unknowns < kLeastUnknowns) return {.reason = FactorReason::few};
  if (!facts.factor) return {.next = Next::factor};
  if (facts.factor->operations < kLeastOnDevice) return {.reason = FactorReason::few};
  if (!facts.device) return {.next = Next::device};
  if (!facts.device->possible) return {.reason = FactorReason::not_possible};
  FactorChoice out{
      .host_seconds = facts.factor->operations /
                      (kHostFactorRate * std::clamp(facts.threads, 1, kMostFactorThreads)),
      .device_seconds = device_factor_seconds(*facts.device)};
  const bool faster = out.device_seconds < out.host_seconds;
  out.backend = faster ? FactorPlace::device : FactorPlace::host;
  out.reason = faster ? FactorReason::faster : FactorReason::slower;
  return out;
}

StepWork step_work(const runtime::Model& model) {
  StepWork out{.unknowns = static_cast<double>(model.scalars), .linear = true};
  out.unknowns -= static_cast<double>(std::ranges::count(model.constant, 1));
  for (const runtime::Term& term : model.terms) {
    const auto size = static_cast<double>(term.batch->size());
    if (size == 0) continue;
    const ir::Program& program = term.topology->program;
    const auto n = static_cast<double>(term.batch->parameter_columns());
    const auto rows = static_cast<double>(program.outputs.size());
    const auto operations = static_cast<double>(ir::operation_count(program));
    const double parts = parts_of(model, term, term.batch->size() / 2);
    out.instances += size;
    out.operations += size * operations;
    out.block_pairs += size * parts * (parts + 1) / 2;
    out.cubes += size * n * n * n;
    out.columns += size * n * operations;
    out.linear = out.linear && !term.energy && term.loss == nullptr && is_affine(program);
    if (term.energy) continue;
    out.numbers += size * rows * n;
    out.products += size * rows * n * (n + 1) / 2;
  }
  return out;
}

double sum_seconds(const StepWork& work, int threads) {
  return share_of(kPairSeconds * work.block_pairs + kProductSeconds * work.products, threads);
}

double factor_seconds(const StepWork& work, const FactorFacts& factor, int threads) {
  return sum_seconds(work, threads) +
         share_of(factor.operations / kHostFactorRate + kEntrySeconds * factor.entries +
                      kUnknownSeconds * work.unknowns,
                  threads);
}

double plan_seconds_of_step(const StepWork& work) {
  return kPlanSeconds * work.block_pairs / (work.linear ? kLinearSteps : kNonlinearSteps);
}

double iteration_seconds(const StepWork& work, int threads) {
  return share_of(kInstanceSeconds * work.instances + kNumberSeconds * work.numbers +
                      kVectorSeconds * work.unknowns,
                  threads);
}

double expected_iterations(const StepWork& work, const IterationFacts& facts) {
  double most = std::min(work.unknowns, kMostIterations);
  if (work.penalties) return most;
  if (facts.reach)
    most = std::min(most, kIterationsPerReach * std::sqrt(static_cast<double>(*facts.reach)));
  if (facts.tried) most = std::min(most, static_cast<double>(*facts.tried));
  return kSetup + std::max(1.0, most * kMoreSteps * (work.linear ? kNearlyExact : kLoose));
}

double projection_seconds(const StepWork& work, int threads) {
  return share_of(kCubeSeconds * work.cubes + kOperationSeconds * kDerivative * work.columns,
                  threads);
}

double curved_products_seconds(const StepWork& work, int threads) {
  return share_of(kCurvedProducts * kOperationSeconds * kDerivative * work.operations, threads);
}

double solve_seconds(const StepWork& work, int threads) {
  const double evaluation = kOperationSeconds * (work.operations + kDerivative * work.columns);
  return kSteps * (share_of(evaluation, threads) + kIterations * iteration_seconds(work, threads));
}

}  // namespace topograd
