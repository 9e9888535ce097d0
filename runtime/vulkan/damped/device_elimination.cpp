// Plans, buffers and lists of steps by a factor, or through a Schur complement.
#include "device_elimination.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/state_record.hpp"
#include "../../factor/factor_plan.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using codegen::Scalar;

/// Steps of refinement of a factor in f32: each leaves about 1e-7 times the condition of what was
/// left before.
constexpr int kRefinements = 2;

}  // namespace

FactorUse DeviceFactorization::factorize(bool wanted) {
  *solve_ = {};
  wanted_ = wanted;
  if (!wanted) {
    factor_.reset();
    pattern_ = {};
    return {};
  }
  const FactorUse use = plan();
  wanted_ = use.possible;
  return use;
}

DeviceFactorization::Pattern DeviceFactorization::pattern_of(const NormalPlan& plan) const {
  Pattern out;
  const std::vector<int> column_of = number_scalars(out.scalars);
  out.starts.push_back(0);
  std::size_t block = 0;
  for (const ParameterArray& array : problem_.model().arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b, ++block) {
      const BlockRows::Row row = plan.matrix.row(block);
      const auto columns = plan.matrix.columns_of(block);
      for (std::uint32_t k = 0; k < array.width; ++k) {
        if (column_of[array.offset + b * array.width + k] < 0) continue;
        // The row of a symmetric matrix from its diagonal on is a column of the lower triangle.
        for (std::uint32_t c = row.diagonal + k; c < row.length; ++c) {
          if (column_of[columns[c]] < 0) continue;
          out.rows.push_back(column_of[columns[c]]);
          out.positions.push_back(row.values + k * row.length + c);
        }
        out.starts.push_back(static_cast<int>(out.rows.size()));
      }
    }
  }
  return out;
}

/// Columns of the factor by scalar, -1 for none, and scalars by column.
std::vector<int> DeviceFactorization::number_scalars(std::vector<std::uint32_t>& scalars) const {
  const Model& model = problem_.model();
  std::vector<int> column_of(model.scalars, 0);
  const auto leave_out = [&](const ManifoldBlocks& of) {
    for (const std::uint32_t first : of.blocks)
      std::fill_n(column_of.begin() + first + of.tangent, of.width - of.tangent, -1);
  };
  if (model.manifolds) std::ranges::for_each(model.manifolds->all, leave_out);
  for (std::uint32_t k = 0; k < model.scalars; ++k) {
    if (column_of[k] < 0) continue;
    column_of[k] = static_cast<int>(scalars.size());
    scalars.push_back(k);
  }
  return column_of;
}

FactorUse DeviceFactorization::plan() {
  const Model& model = problem_.model();
  const auto start = std::chrono::steady_clock::now();
  NormalPlan normal = plan_normal_matrix(model, terms_.slot_groups());
  if (normal.possible()) normal.why = DeviceMatrix::obstacle(context_, normal, terms_.all());
  if (!normal.possible()) return {.why = normal.why};
  Pattern pattern = pattern_of(normal);
  if (!factor_ || pattern != pattern_) {
    const LowerPattern lower{pattern.starts, pattern.rows};
    LevelPlan levels;
    try {
      levels = make_level_plan(make_factor_plan(lower), lower, DeviceFactor::limits(context_),
                               pattern.positions, pattern.scalars);
      if (const Why<MatrixReason> why = DeviceFactor::obstacle(context_, levels);
          why.reason != MatrixReason::none)
        return {.why = why};
      factor_ = std::make_unique<DeviceFactor>(context_, *v_.ops, levels);
      diagonals_ = make_buffer(context_, v_.diagonal_positions, "factor_words");
      correction_ = make_numbers(context_, context_.wide() ? 1 : model.scalars, "factor_numbers");
    } catch (const Error& error) {
      const bool too_large =
          error.code() == ErrorCode::Unsupported || error.code() == ErrorCode::OutOfDeviceMemory;
      if (!too_large) throw;
      factor_.reset();
      return {.why = {MatrixReason::memory}};
    }
    pattern_ = std::move(pattern);
    use_ = {.possible = true,
            .entries = levels.nonzeros,
            .operations = levels.operations,
            .levels = levels.levels.size(),
            .dispatches = factor_->dispatches(),
            .steps = factor_->steps(),
            .narrow = !context_.wide(),
            .predicted_bytes = factor_->predicted_bytes(),
            .bytes = factor_->bytes()};
  }
  Solve& solve = *solve_;
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    const bool used = terms_.takes_part(t, Pass::stored_jacobian);
    solve.jacobians.push_back(make_numbers(
        context_, used ? terms_[t]->stored_size(Pass::stored_jacobian) : 1, "factor_jacobian"));
  }
  solve.matrix = std::make_unique<DeviceMatrix>(context_, normal, terms_.all(), v_.blocks);
  solve.on_manifolds = moves_.matrix_vectors(normal.matrix);
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return use_;
}

void DeviceFactorization::record_residual(CommandList& list) {
  list.barrier();
  solve_->matrix->record_residual(list, *v_.ops,
                                  {.direction = v_.step,
                                   .damping = v_.damping,
                                   .gradient = v_.gradient,
                                   .residual = v_.residual,
                                   .fixed_scalars = v_.not_free()});
}

void DeviceFactorization::record(CommandList& list) {
  if (!solve_->matrix) return;
  const auto unknowns = static_cast<std::uint32_t>(problem_.model().scalars);
  list.barrier();
  if (moves_.on_manifolds()) {  // no column of the factor sets the rest
    for (const Buffer* vector : {&v_.step, &correction_}) list.fill(*vector, 0, vector->size(), 0);
  }
  v_.ops->record(list, kernel::schur_damping{{.blocks = v_.packed,
                                              .scale = v_.scale,
                                              .damping = v_.damping,
                                              .diagonals = diagonals_,
                                              .fixed_scalars = v_.not_free()},
                                             {.count = unknowns}});
  for (std::size_t t = 0; t < terms_.size(); ++t)
    if (terms_.takes_part(t, Pass::stored_jacobian))
      terms_[t]->record_store(list, Pass::stored_jacobian, terms_.operands(v_.x),
                              solve_->jacobians[t]);
  list.barrier();
  solve_->matrix->record_values(list, *v_.ops, solve_->jacobians, v_.packed);
  moves_.record_matrix_contracted(list, solve_->on_manifolds, solve_->matrix->values());
  factor_->record_factor(
      list, {.values = solve_->matrix->values(), .damping = v_.damping, .fixed = v_.not_free()});
  factor_->record_solve(list, v_.gradient, true, v_.not_free(), v_.step);
  record_residual(list);
  for (int k = 0; !context_.wide() && k < kRefinements; ++k) {
    factor_->record_solve(list, v_.residual, false, v_.not_free(), correction_);
    list.barrier();
    v_.ops->record(
        list, kernel::axpby{{.x = correction_, .y = v_.step},
                            {.count = unknowns, .x_factor = Scalar::one, .y_factor = Scalar::one}});
    record_residual(list);
  }
  factor_->record_finish(list);
}

const SolveLists* DeviceFactorization::prepare() {
  if (!wanted_) return nullptr;
  if (!solve_->matrix && !plan().possible) return nullptr;  // the model has changed
  SolveLists& lists = solve_->lists;
  if (lists.start.list) return &lists;
  recorder_.make_lists({{lists.start, "factor", [&](CommandList& l) { record(l); }},
                        {lists.iterations, "factor_iterations", [](CommandList&) {}}});
  return &lists;
}

EliminationUse DeviceElimination::eliminate(std::span<const std::uint8_t> scalars) {
  *solve_ = {};
  eliminated_.assign(scalars.begin(), scalars.end());
  if (scalars.empty()) return {};
  const Why<MatrixReason> why = plan();
  if (!solve_->schur) eliminated_.clear();
  return {.possible = solve_->schur != nullptr, .why = why};
}

Why<MatrixReason> DeviceElimination::plan() {
  if (eliminated_.size() != problem_.model().scalars) return {MatrixReason::other_unknowns};
  if (moves_.has_bounds_or_manifolds()) return {MatrixReason::bounds_or_manifolds};
  std::vector<std::uint8_t> ordered = eliminated_;
  if (!problem_.order().identity()) {
    for (std::size_t k = 0; k < ordered.size(); ++k)
      ordered[problem_.order().position[k]] = eliminated_[k];
  }
  const auto start = std::chrono::steady_clock::now();
  SchurPlan plan = plan_schur(problem_.model(), ordered, terms_.slot_groups());
  if (plan.possible()) plan.why = DeviceSchur::obstacle(context_, plan, terms_.all());
  if (!plan.possible()) return plan.why;
  const Why<MatrixReason> why =
      because(MatrixReason::eliminated, plan.eliminated.size(), plan.unknowns());
  solve_->schur = std::make_unique<DeviceSchur>(context_, *v_.ops, std::move(plan), terms_.all(),
                                                v_.diagonal_positions);
  context_.plan_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return why;
}

SchurOperands DeviceElimination::operands() const {
  return {.gradient = &v_.gradient,
          .blocks = &v_.packed,
          .scale = &v_.scale,
          .damping = &v_.damping,
          .fixed = &v_.fixed,
          .step = &v_.step,
          .residual = &v_.residual};
}

const SolveLists* DeviceElimination::prepare() {
  if (const SolveLists* const lists = factorization_.prepare()) return lists;
  if (eliminated_.empty()) return nullptr;
  if (!solve_->schur) plan();  // the model has changed
  if (!solve_->schur) return nullptr;
  SolveLists& lists = factorises() ? solve_->factorises : solve_->iterates;
  if (!lists.start.list) lists = make_lists();
  return &lists;
}

void DeviceElimination::record_all(CommandList& list) {
  factorization_.record(list);
  if (!solve_->schur) return;
  DeviceSchur& schur = *solve_->schur;
  schur.record_start(list, terms_.operands(v_.x), operands());
  schur.record_iterations(list, 2);
  if (schur.factor_dispatches() > 0) schur.record_factored(list, terms_.operands(v_.x), operands());
  schur.record_finish(list, operands());
}

SolveLists DeviceElimination::make_lists() {
  DeviceSchur& schur = *solve_->schur;
  Recorder::make([&](CommandList& l) { record_all(l); });
  SolveLists lists;
  if (factorises()) {
    lists.start = recorder_.make_list("schur_factor", [&](CommandList& l) {
      schur.record_factored(l, terms_.operands(v_.x), operands());
    });
    lists.iterations = recorder_.make_list("schur_no_iterations", [](CommandList&) {});
  } else {
    lists.start = recorder_.make_list("schur_start", [&](CommandList& l) {
      schur.record_start(l, terms_.operands(v_.x), operands());
    });
    lists.iterations = recorder_.make_list(
        "schur_iterations", [&](CommandList& l) { schur.record_iterations(l, kIterationsOfList); });
  }
  lists.finish = recorder_.make_list("schur_finish",
                                     [&](CommandList& l) { schur.record_finish(l, operands()); });
  return lists;
}

bool DeviceElimination::factorises() const {
  return factorises_ && solve_->schur->factor_dispatches() > 0;
}

// An iteration has two dispatches and barriers, so a factor takes as long as half of these many.
void DeviceElimination::solved(int iterations) {
  if (!solve_->schur || iterations <= 0) return;
  const std::uint64_t dispatches = solve_->schur->factor_dispatches();
  if (dispatches > 0 && static_cast<std::uint64_t>(iterations) > dispatches) factorises_ = true;
}

void DeviceElimination::transfer(ir::StateRecord& record) {
  record.value("factorises the complement", factorises_);
}

}  // namespace topograd::runtime::vulkan
