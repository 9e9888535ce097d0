// Converts a ceres::Problem to a topograd::Problem: collects blocks, traces functors.
#include "lowered_problem.hpp"

#include "../../../frontend/functor.hpp"
#include "../../../frontend/problem/long_block.hpp"
#include "../../../frontend/state/unknowns.hpp"
#include "../../../frontend/value/tape.hpp"
#include "../../../ir/error.hpp"
#include "../cost/cost_function.hpp"
#include "../cost/loss_function.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace ceres::internal {
namespace {

// A problem of more blocks is traced, however long these are: they may be alike.
constexpr std::size_t kMostBlocksOfJets = topograd::detail::LongBlocks::kMostAlike;
constexpr std::size_t kMostScalarsOfJets = 32;

using topograd::Error;
using topograd::ErrorCode;

/// A cost function as opaque code.
class HostCost final : public topograd::HostResidual {
 public:
  ///   preparation  called at each point; may be nullptr
  HostCost(const CostFunction& cost, Preparation* preparation)
      : cost_(cost), preparation_(preparation) {}
  int rows() const override { return cost_.num_residuals(); }
  bool evaluate(const double* const* blocks, double* residuals, double** jacobians) const override {
    return cost_.Evaluate(blocks, residuals, jacobians);
  }
  void prepare(std::span<const double> x, bool derivatives) const override {
    if (preparation_ != nullptr) preparation_->Run(x, derivatives);
  }

 private:
  const CostFunction& cost_;
  Preparation* preparation_;
};

/// Throws if parameter blocks share memory: they would change each other.
void CheckOverlaps(const ProblemImpl& problem) {
  std::vector<const ParameterBlock*> order;  // by address, which is cheapest
  for (const auto& block : problem.parameters()) order.push_back(block.get());
  std::ranges::sort(order, {}, &ParameterBlock::values);
  topograd::detail::MemoryRanges memory;
  for (const ParameterBlock* block : order) {
    const double* begin = memory.add(block->values, static_cast<std::size_t>(block->size));
    if (begin == nullptr) continue;
    const auto [first, second] = std::minmax(problem.Find(begin)->position, block->position);
    throw Error(ErrorCode::InvalidArgument, "Solve: parameter blocks #" + std::to_string(first) +
                                                " and #" + std::to_string(second) +
                                                " share memory");
  }
}

/// Projects a start onto its bounds, as Ceres does. Infeasible bounds are detected later.
void Project(const ParameterBlock& block, double* values) {
  for (std::size_t i = 0; i < block.lower.size(); ++i)
    values[i] = std::max(values[i], block.lower[i]);
  for (std::size_t i = 0; i < block.upper.size(); ++i)
    values[i] = std::min(values[i], block.upper[i]);
}

/// True for errors of a trace after which the cost function runs as opaque code.
bool MeansOpaque(ErrorCode code) {
  return code == ErrorCode::Unsupported || code == ErrorCode::StaleValue ||
         code == ErrorCode::NoParameters;
}

}  // namespace

void Preparation::Run(std::span<const double> x, bool derivatives) {
  const bool is_new = !std::ranges::equal(x, last_);
  last_.assign(x.begin(), x.end());
  problem_.Write(x);
  callback_.PrepareForEvaluation(derivatives, is_new);
}

LoweredProblem::LoweredProblem(const ProblemImpl& problem) {
  if (EvaluationCallback* callback = problem.options().evaluation_callback)
    preparation_ = std::make_unique<Preparation>(*this, *callback);
  if (!problem.options().disable_all_safety_checks) CheckOverlaps(problem);
  Gather(problem);
  Read();
  residual_blocks_ = problem.residuals().size();
  for (const auto& residual : problem.residuals()) Add(*residual);
  leaves_.clear();
}

void LoweredProblem::Gather(const ProblemImpl& problem) {
  std::vector<bool> used(problem.parameters().size(), false);
  for (const auto& residual : problem.residuals())
    for (const ParameterBlock* block : residual->parameters) used[block->position] = true;
  positions_.resize(problem.parameters().size());
  for (const auto& block : problem.parameters()) {
    if (!used[block->position]) continue;
    BlockArray& array = arrays_[block->size];
    positions_[block->position] = {&array, static_cast<std::uint32_t>(array.blocks.size())};
    array.blocks.push_back(block.get());
    variable_blocks_ += block->variable() ? 1 : 0;
  }
  for (auto& [size, array] : arrays_) {
    array.values.resize(array.blocks.size() * static_cast<std::size_t>(size));
    array.handle = problem_.add_parameters(std::span(array.values), size);
    for (std::size_t k = 0; k < array.blocks.size(); ++k) Constrain(array, k);
  }
}

std::vector<topograd::OrderedParameters> LoweredProblem::Ordered(
    const ParameterBlockOrdering& ordering, std::vector<int>& sizes) const {
  std::vector<topograd::OrderedParameters> out;
  std::map<int, int> size_of;
  std::size_t named = 0;
  for (const auto& [size, array] : arrays_) {
    for (std::size_t k = 0; k < array.blocks.size(); ++k) {
      const ParameterBlock& block = *array.blocks[k];
      const bool variable = block.variable();
      int group = ordering.GroupId(block.values);
      if (variable && group >= 0) ++size_of[group], ++named;
      // The position of a constant block makes no difference, unless it is the only one of its
      // group.
      if (group < 0 && ordering.NumGroups() > 0) group = ordering.MinNonZeroGroup();
      out.push_back({array.handle, std::max(group, 0), k});
    }
  }
  if (named < variable_blocks_)
    throw topograd::Error(topograd::ErrorCode::InvalidArgument,
                          "The program has " + std::to_string(variable_blocks_) +
                              " parameter blocks, but the parameter block ordering has " +
                              std::to_string(named) + " parameter blocks.");
  for (const auto& [group, size] : size_of) sizes.push_back(size);
  return out;
}

void LoweredProblem::Constrain(const BlockArray& array, std::size_t k) {
  const ParameterBlock& block = *array.blocks[k];
  if (!block.variable()) {
    problem_.set_constant(array.handle, k);
    return;
  }
  constexpr double kUnbounded = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < block.lower.size(); ++i)
    if (block.lower[i] > -kUnbounded)
      problem_.set_lower_bound(array.handle, k, static_cast<int>(i), block.lower[i]);
  for (std::size_t i = 0; i < block.upper.size(); ++i)
    if (block.upper[i] < kUnbounded)
      problem_.set_upper_bound(array.handle, k, static_cast<int>(i), block.upper[i]);
  if (block.manifold == nullptr) return;
  if (const auto fixed = block.manifold->FixedCoordinates()) {
    if (*fixed != 0) problem_.set_constant(array.handle, k, *fixed);
    return;
  }
  auto at = manifolds_.find(block.manifold);
  if (at == manifolds_.end())
    at = manifolds_.emplace(block.manifold, block.manifold->Lowered()).first;
  problem_.set_manifold(array.handle, k, at->second);
}

void LoweredProblem::Read() {
  for (auto& [size, array] : arrays_) {
    double* to = array.values.data();
    for (const ParameterBlock* block : array.blocks) {
      std::copy_n(block->values, size, to);
      if (!block->constant) Project(*block, to);
      to += size;
    }
  }
}

void LoweredProblem::Write() const {
  for (const auto& [size, array] : arrays_) {
    const double* from = array.values.data();
    for (const ParameterBlock* block : array.blocks) {
      if (!block->constant) std::copy_n(from, size, block->values);
      from += size;
    }
  }
}

void LoweredProblem::Write(std::span<const double> x) const {
  for (const auto& [size, array] : arrays_) {
    const double* from = x.data() + array.handle.offset();
    for (const ParameterBlock* block : array.blocks) {
      if (!block->constant) std::copy_n(from, size, block->values);
      from += size;
    }
  }
}

const std::optional<topograd::Loss>& LoweredProblem::LossOf(const ResidualBlock& residual) {
  const LossFunction* loss = residual.loss;
  const auto [at, is_new] = losses_.try_emplace(loss);
  if (!is_new) return at->second;
  try {
    at->second = loss == nullptr ? topograd::Loss() : loss->Lowered();
  } catch (const Error& error) {
    throw Error(error.code(), "Solve: " + std::string(error.what()) + ", in residual block #" +
                                  std::to_string(residual.position));
  }
  return at->second;
}

void LoweredProblem::Add(const ResidualBlock& residual) {
  const std::optional<topograd::Loss>& loss = LossOf(residual);
  std::string reason;
  if (residual.traceable == nullptr) {
    reason = "the cost function is not one with automatic derivatives";
  } else if (preparation_ != nullptr) {
    reason = "the problem has an evaluation callback";
  } else if (!loss) {
    reason = "the loss function is a class of the user's";
  } else {
    try {
      return Trace(residual, *loss);
    } catch (const Error& error) {
      if (!MeansOpaque(error.code())) throw;
      reason = error.what();
      // The number of the block is removed, because many blocks share a reason.
      reason.resize(std::min(reason.size(), reason.rfind(", in residual ")));
    }
    leaves_.clear();
    topograd::detail::finish_residual();
  }
  ++host_reasons_[reason];
  AddHost(residual, loss);
}

/// True for a functor that may run with Jets if it is long. Few blocks that are long are evaluated
/// on the host anyway (docs/modelling.md), where compiled code needs neither a trace nor an
/// interpreter. With many unknowns the sweeps of a trace are better: they go backward, or over some
/// of the unknowns at a time.
bool LoweredProblem::MayRunAsCode(const ResidualBlock& residual) const {
  if (residual_blocks_ > kMostBlocksOfJets || residual.traceable->IsNoexcept()) return false;
  std::size_t scalars = 0;
  for (const ParameterBlock* block : residual.parameters)
    scalars += static_cast<std::size_t>(block->size);
  return scalars <= kMostScalarsOfJets;
}

void LoweredProblem::Trace(const ResidualBlock& residual, const topograd::Loss& loss) {
  std::optional<topograd::detail::TraceLimit> limit;
  if (MayRunAsCode(residual)) limit.emplace(topograd::detail::LongBlocks::kLeastNodes);
  const auto rows = [this, &residual] { return Rows(residual); };
  problem_.add_residual(rows, {.loss = loss});
}

std::vector<topograd::Value> LoweredProblem::Rows(const ResidualBlock& residual) {
  // Without handles, the nodes of the last residual are recycled.
  leaves_.clear();
  pointers_.clear();
  std::size_t scalars = 0;
  for (const ParameterBlock* block : residual.parameters)
    scalars += static_cast<std::size_t>(block->size);
  leaves_.reserve(scalars);
  for (const ParameterBlock* block : residual.parameters) {
    const Position& at = positions_[block->position];
    pointers_.push_back(leaves_.data() + leaves_.size());
    for (int k = 0; k < block->size; ++k) leaves_.push_back(at.array->handle(at.block, k));
  }
  std::vector<topograd::Value> rows(static_cast<std::size_t>(residual.cost->num_residuals()));
  if (!residual.traceable->Trace(pointers_.data(), rows.data()))
    throw topograd::PointRefused("the functor returned false while it was traced");
  return rows;
}

void LoweredProblem::AddHost(const ResidualBlock& residual,
                             const std::optional<topograd::Loss>& loss) {
  std::vector<topograd::ParameterBlock> blocks;
  for (const ParameterBlock* block : residual.parameters) {
    const Position& at = positions_[block->position];
    blocks.push_back({at.array->handle, at.block});
  }
  topograd::ResidualOptions options;
  std::string label;
  if (loss) {
    options.loss = *loss;
  } else {
    const auto rho = [loss = residual.loss](double s, double* out) { loss->Evaluate(s, out); };
    options.loss = topograd::Loss::host(rho, "LossFunction");
    // Only an evaluation can show that the loss decreases; its error then has this label.
    options.label = label = "residual block " + std::to_string(residual.position);
  }
  problem_.add_residual(std::make_shared<HostCost>(*residual.cost, preparation_.get()),
                        std::span<const topograd::ParameterBlock>(blocks), options);
}

std::vector<std::string> LoweredProblem::host_notes() const {
  std::vector<std::string> notes;
  for (const auto& [reason, count] : host_reasons_)
    notes.push_back(std::to_string(count) + " residual blocks: " + reason);
  return notes;
}

}  // namespace ceres::internal
