// Solving for damped steps: scaling, preconditioner, as many iterations as are expected.
#include "damped_system.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "../../../ir/machine/state_record.hpp"
#include "../../engine/column_scaling.hpp"
#include "../../factor/refinement.hpp"
#include "../recording/recorder.hpp"

namespace topograd::runtime::vulkan {
namespace {

using codegen::Scalar;
using codegen::SolverState;

/// Conjugate gradients take iterations in proportion to the logarithm of the tolerance; how many
/// are expected is kept for a tolerance of e⁻¹⁰.
double times_expected(double tolerance) {
  return std::max(std::log(1 / std::max(tolerance, 1e-300)), 0.1) / 10;
}

}  // namespace

DampedSystem::DampedSystem(const Part& part, NormalProducts& products, PointMoves& moves)
    : Part(part),
      full_(part, products, moves),
      preconditioner_(make_device_preconditioner(part, products, context_.options.preconditioner)),
      elimination_(part, moves) {}

void DampedSystem::transfer(ir::StateRecord& record) {
  record.value("columns scaled", is_scaled_);
  record.in_range("expected iterations", expected_iterations_, 1, 1 << 28);
  if (is_scaled_) {
    std::vector<double> scale(problem_.model().scalars);
    if (!record.restores()) problem_.read(v_.scale, scale);
    record.list("column scaling", std::span(scale));
    if (record.restores()) problem_.write(v_.scale, scale);
  }
  preconditioner_->transfer(record);
  elimination_.transfer(record);
}

void DampedSystem::record_scale(CommandList& list, const StepRequest& request) {
  if (request.jacobi_scaling) {
    const Scalar added = request.scale_free ? Scalar::zero : Scalar::one;
    v_.record_by_blocks(list, kernel::jacobi_scale{{.scale = v_.scale}, {.added = added}});
    return;
  }
  v_.ops->record(list, kernel::fill{{.result = v_.scale},
                                    {.count = static_cast<std::uint32_t>(problem_.model().scalars),
                                     .value = Scalar::one}});
}

SolveLists DampedSystem::make_lists(const char* start, const char* iterations,
                                    ConjugateGradients by) {
  return {.start = recorder_.make_list(start, [&](CommandList& l) { by.record_start(l); }),
          .iterations = recorder_.make_list(
              iterations, [&](CommandList& l) { by.record_iterations(l, kIterationsOfList); })};
}

void DampedSystem::prepare() {
  if (!by_blocks_->start.list) *by_blocks_ = make_lists("solve_start", "iterations", gradients());
}

void DampedSystem::prepare_corrected() {
  if (corrected_->start.list) return;
  ConjugateGradients by = gradients({.correction = preconditioner_.get()});
  Recorder::make([&](CommandList& l) { by.record_all(l); });
  *corrected_ = make_lists("coarse_solve_start", "coarse_iterations", by);
}

int DampedSystem::solve(const StepRequest& request, const Step& step, Lists lists) {
  if (!is_scaled_) {
    const char* const name = !request.jacobi_scaling ? "no_scale"
                             : request.scale_free    ? "column_scale"
                                                     : "jacobi_scale";
    lists.push_back(
        &recorder_.evaluation(name, [&](CommandList& list) { record_scale(list, request); }));
    is_scaled_ = true;
  }
  if (const SolveLists* const eliminates = elimination_.prepare()) {
    const int iterations = run(request, eliminates, step, std::move(lists));
    elimination_.solved(iterations);
    return iterations;
  }
  preconditioner_->prepare(step.point, lists);
  int iterations = run(request, nullptr, step, std::move(lists));
  if (preconditioner_->solved(iterations)) {
    Lists trial;
    preconditioner_->prepare(step.point, trial);
    if (preconditioner_->in_use()) {
      const int again = run(request, nullptr, step, std::move(trial));
      preconditioner_->solved(again);
      iterations += again;
    }
  }
  return iterations;
}

int DampedSystem::run(const StepRequest& request, const SolveLists* eliminates, const Step& step,
                      Lists lists) {
  const bool corrected = eliminates == nullptr && preconditioner_->in_use();
  if (corrected) prepare_corrected();
  const std::pair<Scalar, double> scalars[] = {
      {Scalar::lambda, request.lambda},
      {Scalar::scales_later, scales_later(request)},
      {Scalar::min_diagonal, request.min_diagonal},
      {Scalar::max_diagonal, request.max_diagonal},
      {Scalar::tolerance, request.linear_tolerance},
      {Scalar::max_iterations, static_cast<double>(request.max_linear_iterations)},
      // A residual that a coarse space leaves is small in r·r before the step is any good.
      {Scalar::in_energy, request.energy_norm || corrected ? 1.0 : 0.0},
      {Scalar::eta, request.eta},
      {Scalar::vanished, 0},
      {Scalar::vanishing,
       vanishing_share(problem_.model().scalars, context_.wide()
                                                     ? std::numeric_limits<double>::epsilon()
                                                     : std::numeric_limits<float>::epsilon())}};
  v_.ops->write(scalars);
  const double times = times_expected(request.linear_tolerance);
  const auto scaled = [](double count) {
    return std::max(static_cast<int>(std::lround(count)), 1);
  };
  expected_iterations_ = scaled(times * expected_iterations_);
  const int iterations = iterate(request.max_linear_iterations, eliminates, step, std::move(lists));
  expected_iterations_ = scaled(expected_iterations_ / times);
  return iterations;
}

/// As many iterations as the last solve needed and a few more, then the trial point: most steps
/// take one read-back. If the solver is still running after that, more iterations follow.
int DampedSystem::iterate(int most, const SolveLists* eliminates, const Step& step, Lists lists) {
  const SolveLists& solve = eliminates != nullptr       ? *eliminates
                            : preconditioner_->in_use() ? *corrected_
                                                        : *by_blocks_;
  lists.push_back(&solve.start);
  const struct Settles {
    DevicePreconditioner& preconditioner;
    ~Settles() { preconditioner.settle(); }
  } settles{*preconditioner_};
  int queued = 0, before = 0;
  int want = std::min(most, expected_iterations_ + expected_iterations_ / 8 + 1);
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    queue_iterations(solve.iterations, want, queued, lists);
    if (solve.finish.list) lists.push_back(&solve.finish);
    const AcceptedPoints::Scalars& values = step.run(lists);
    lists.clear();
    const auto state = static_cast<SolverState>(values[codegen::slot(Scalar::state)]);
    const int done = static_cast<int>(values[codegen::slot(Scalar::iterations)]);
    submission_size_.measured(static_cast<std::size_t>(done - before) / kIterationsOfList,
                              std::chrono::steady_clock::now() - begin);
    before = done;
    if (state != SolverState::running || queued >= most) {
      expected_iterations_ = std::max(done, 1);
      return done;
    }
    want = std::min(most, 2 * queued);
    if (eliminates == nullptr) preconditioner_->expect(done);
  }
}

/// Lists beyond those that fit one submission are what is left.
void DampedSystem::queue_iterations(const Recorded& iterations, int want, int& queued,
                                    Lists& lists) {
  // No display hangs on the software device.
  const bool limited = !context_.device->info().software();
  for (std::size_t together = 0; queued < want; queued += kIterationsOfList) {
    if (limited && together == submission_size_.lists()) {
      recorder_.submit(lists);
      lists.clear();
      together = 0;
    }
    lists.push_back(&iterations);
    ++together;
  }
}

SystemVectors FullSystem::vectors() {
  const bool fused = products_.can_fuse();
  return {.gradient = v_.gradient,
          .step = v_.step,
          .residual = v_.residual,
          .product = v_.product,
          .preconditioned = v_.preconditioned,
          .directions = {&v_.direction, fused ? &v_.next_direction : &v_.direction},
          .fixed = v_.not_free(),
          .partials = v_.partials,
          .curvature = v_.curvature,
          .decision = v_.decision,
          .blocks = v_.diagonal_blocks(),
          .unknowns = static_cast<std::uint32_t>(problem_.model().scalars),
          .block_groups = v_.block_groups(),
          .postpones_steps = fused && v_.blocks.size() == 1};
}

void FullSystem::record_begin(CommandList& list) {
  // Fused products write the directions of the blocks that they sum.
  if (terms_.masked())
    list.fill(v_.next_direction, 0, problem_.model().scalars * context_.element_bytes(), 0);
  v_.record_by_blocks(list, v_.preconditioner());
}

std::uint32_t FullSystem::record_product(CommandList& list, const Direction& direction) {
  if (products_.can_fuse()) return record_fused(list, direction);
  const auto n = static_cast<std::uint32_t>(problem_.model().scalars);
  v_.ops->record(list,
                 kernel::cg_direction{
                     {.preconditioned = direction.preconditioned,
                      .direction = direction.now,
                      .partials = v_.partials,
                      .decision = v_.decision},
                     {.count = n, .sums_count = direction.sums, .sums_stride = direction.sums}});
  list.barrier();
  if (DeviceMatrix* const matrix = products_.matrix())
    return matrix->record_product(list, *v_.ops,
                                  {.direction = direction.now,
                                   .damping = v_.damping,
                                   .product = v_.product,
                                   .decision = v_.decision,
                                   .curvature = v_.curvature});
  Operands predicated = terms_.operands(v_.x, &moves_.record_expanded(list, direction.now));
  predicated.scalars = &v_.decision;
  products_.record(list, predicated, v_.product);
  list.barrier();
  moves_.record_contracted(list, v_.product);
  return v_.ops->record(list, kernel::cg_curvature{{.direction = direction.now,
                                                    .damping = v_.damping,
                                                    .product = v_.product,
                                                    .decision = v_.decision,
                                                    .curvature = v_.curvature},
                                                   {.count = n}});
}

std::uint32_t FullSystem::record_fused(CommandList& list, const Direction& direction) {
  Operands with = terms_.operands(v_.x, &direction.before);
  with.scalars = &v_.ops->scalars();
  FusedOperands fused{.preconditioned = &direction.preconditioned,
                      .damping = &v_.damping,
                      .next_direction = &direction.now,
                      .decision = &v_.decision,
                      .partials = &v_.partials,
                      .sums_count = direction.sums,
                      .curvature = &v_.curvature};
  Hazards hazards(list);
  for (const auto& [use, fusion, fused_terms] : products_.fused()) {
    hazards.order(sums_of(use.set->array()));
    fused.fused_terms = fused_terms.get();
    fused.curvature_first += use.set->record_fused(
        list, fusion, with, fused,
        {.out = &v_.product, .first = use.set->x_first(), .overwrite = use.covers});
    ++context_.term_dispatches;
  }
  return fused.curvature_first;
}

}  // namespace topograd::runtime::vulkan
