// Recording of eliminations, and of the way back.
#include "device_schur.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "../../factor/factor_plan.hpp"
#include "device_matrix.hpp"

namespace topograd::runtime::vulkan {
namespace {

/// Unknowns of a complement that may be factorised.
constexpr std::uint32_t kMostFactorised = 2'000;

/// A factor of the lower triangle of the complement. Null if it is too large, or in f32: a system
/// of points and cameras is too ill-conditioned for that.
std::unique_ptr<DeviceFactor> make_factor(Context& context, VectorOps& vectors,
                                          const SchurPlan& plan) {
  if (!context.wide() || plan.unknowns() > kMostFactorised || plan.unknowns() == 0) return nullptr;
  std::vector<int> starts{0}, rows;
  std::vector<std::uint32_t> positions;
  for (const SchurPlan::Blocks& range : plan.kept_widths) {
    for (std::uint32_t k = range.first; k < range.first + range.count; ++k) {
      const BlockRows::Row row = plan.complement.row(k);
      const auto columns = plan.complement.columns_of(k);
      for (std::uint32_t a = 0; a < range.width; ++a) {
        // The row of a symmetric matrix from its diagonal on is a column of the lower triangle.
        for (std::uint32_t c = row.diagonal + a; c < row.length; ++c) {
          rows.push_back(static_cast<int>(columns[c]));
          positions.push_back(row.values + a * row.length + c);
        }
        starts.push_back(static_cast<int>(rows.size()));
      }
    }
  }
  const LowerPattern lower{starts, rows};
  const LevelPlan levels =
      make_level_plan(make_factor_plan(lower), lower, DeviceFactor::limits(context), positions);
  if (DeviceFactor::obstacle(context, levels).reason != MatrixReason::none) return nullptr;
  return std::make_unique<DeviceFactor>(context, vectors, levels);
}

}  // namespace

Why<MatrixReason> DeviceSchur::obstacle(const Context& context, const SchurPlan& plan,
                                        Terms terms) {
  for (const BlockProducts& products : plan.products) {
    if (!jacobian_fits(context, *terms[products.term]))
      return {MatrixReason::jacobian_out_of_range};
  }
  const std::uint64_t numbers =
      std::max({plan.meeting_values, plan.piece_values, plan.complement.values()});
  const std::uint64_t words = std::max({plan.piece_entries.size(), plan.back_entries.size(),
                                        plan.block_words.size(), plan.complement.columns().size()});
  if (numbers * context.element_bytes() > context.max_range() || words * 4 > context.max_range())
    return {MatrixReason::out_of_range};
  return {};
}

DeviceSchur::DeviceSchur(Context& context, VectorOps& vectors, SchurPlan plan, Terms terms,
                         std::span<const std::uint32_t> diagonal_positions)
    : context_(context),
      vectors_(vectors),
      plan_(std::move(plan)),
      terms_(terms),
      reduced_(context, vectors, plan_),
      factor_(make_factor(context, vectors, plan_)) {
  gradient_lanes_ = lanes_of_rows(context, plan_.row_entries.size() / 3, plan_.kept.size());
  const auto words = [&](const std::vector<std::uint32_t>& list) {
    return make_buffer(context, list, "schur_words");
  };
  const auto numbers = [&](std::uint64_t count) {
    return make_numbers(context, count, "schur_numbers");
  };
  diagonal_ = make_buffer(context, diagonal_positions, "schur_words");
  std::vector<std::uint32_t> positions;
  for (const std::uint32_t first : plan_.eliminated)
    positions.insert(positions.end(), {first, diagonal_positions[first]});
  eliminated_positions_ = words(positions);
  eliminated_ = words(plan_.eliminated);
  coupling_words_ = words(plan_.coupling_words);
  kept_scalars_ = words(plan_.kept_scalar);
  back_lists_ = {words(plan_.back_starts), words(plan_.back_entries), {}};
  row_lists_ = {words(plan_.row_starts), words(plan_.row_entries), {}};
  piece_lists_ = {words(plan_.piece_starts), words(plan_.piece_entries),
                  words(plan_.piece_outputs)};
  block_lists_ = {words(plan_.block_starts), words(plan_.block_pieces), words(plan_.block_words)};
  for (const BlockProducts& products : plan_.products) {
    const DeviceTerm& term = *terms[products.term];
    products_.emplace_back(context, products, term, "schur_words");
    jacobians_.push_back(
        make_numbers(context, term.stored_size(Pass::stored_jacobian), "schur_jacobian"));
  }
  values_.meetings = numbers(plan_.meeting_values);
  values_.couplings = numbers(plan_.meeting_values);
  values_.inverses = numbers(plan_.inverses);
  values_.pieces = numbers(plan_.piece_values);
  plan_.products.clear();  // the device has these lists now
  plan_.piece_entries = plan_.back_entries = plan_.block_words = {};
  plan_.complement = {};
}

template <class Kernel>
void DeviceSchur::record_group(CommandList& list, Kernel kernel, const BlockShape& group) {
  kernel.push.count = group.count * group.rows * group.columns;
  kernel.push.first = group.first;
  kernel.push.block_rows = group.rows;
  kernel.push.block_columns = group.columns;
  vectors_.record(list, kernel);
}

void DeviceSchur::record_meetings(CommandList& list, const Operands& at,
                                  const SchurOperands& with) {
  for (std::size_t k = 0; k < products_.size(); ++k)
    terms_[products_[k].term]->record_store(list, Pass::stored_jacobian, at, jacobians_[k]);
  const bool several = products_.size() > 1;
  if (several) list.fill(values_.meetings, 0, plan_.meeting_values * context_.element_bytes(), 0);
  for (std::size_t k = 0; k < products_.size(); ++k) {
    list.barrier();
    products_[k].record(
        list, vectors_,
        kernel::schur_meetings{
            {.jacobian = jacobians_[k], .meetings = values_.meetings, .fixed_scalars = *with.fixed},
            {.overwrite = several ? 0u : 1u}});
  }
}

/// C⁻¹ and E C⁻¹, from damping and meetings.
void DeviceSchur::record_elimination(CommandList& list, const SchurOperands& with) {
  list.barrier();
  record_inverses(list, vectors_, plan_.eliminated_widths,
                  {.blocks = *with.blocks,
                   .damping = *with.damping,
                   .inverse_blocks = values_.inverses,
                   .places = eliminated_positions_,
                   .fixed_scalars = *with.fixed});
  list.barrier();
  for (const BlockShape& group : plan_.couplings) {
    const auto range =
        std::ranges::find(plan_.eliminated_widths, group.columns, &SchurPlan::Blocks::width);
    record_group(
        list,
        kernel::schur_coupling{{.meetings = values_.meetings,
                                .inverse_blocks = values_.inverses,
                                .couplings = values_.couplings,
                                .entries = coupling_words_},
                               {.inverse_first = range->inverse, .inverses = range->count}},
        group);
  }
}

/// S and the right-hand side.
void DeviceSchur::record_complement(CommandList& list, const SchurOperands& with) {
  list.barrier();
  for (const BlockShape& group : plan_.pieces) {
    record_group(list,
                 kernel::schur_pieces{{.couplings = values_.couplings,
                                       .meetings = values_.meetings,
                                       .pieces = values_.pieces,
                                       .starts = piece_lists_.starts,
                                       .entries = piece_lists_.entries,
                                       .outputs = piece_lists_.outputs},
                                      {.inner = group.inner}},
                 group);
  }
  vectors_.record(
      list,
      kernel::schur_gradient{{.couplings = values_.couplings,
                              .gradient = *with.gradient,
                              .reduced_gradient = reduced_.input().gradient,
                              .starts = row_lists_.starts,
                              .entries = row_lists_.entries,
                              .row_words = reduced_.rows(),
                              .kept_scalars = kept_scalars_},
                             {.count = plan_.unknowns()}},
      {.width = gradient_lanes_,
       .groups = context_.product_grid(std::uint64_t{plan_.unknowns()} * gradient_lanes_)});
  list.barrier();
  for (const BlockShape& group : plan_.blocks) {
    record_group(list,
                 kernel::schur_blocks{{.pieces = values_.pieces,
                                       .meetings = values_.meetings,
                                       .blocks = *with.blocks,
                                       .damping = *with.damping,
                                       .complement = reduced_.input().complement,
                                       .packed_blocks = reduced_.input().packed_blocks,
                                       .starts = block_lists_.starts,
                                       .entries = block_lists_.entries,
                                       .outputs = block_lists_.outputs,
                                       .diagonals = diagonal_,
                                       .fixed_scalars = *with.fixed},
                                      {}},
                 group);
  }
}

void DeviceSchur::record_eliminated(CommandList& list, const Operands& at,
                                    const SchurOperands& with) {
  list.barrier();
  vectors_.record(
      list, kernel::schur_damping{{.blocks = *with.blocks,
                                   .scale = *with.scale,
                                   .damping = *with.damping,
                                   .diagonals = diagonal_,
                                   .fixed_scalars = *with.fixed},
                                  {.count = static_cast<std::uint32_t>(diagonal_.size() / 4)}});
  record_meetings(list, at, with);
  record_elimination(list, with);
  record_complement(list, with);
}

void DeviceSchur::record_start(CommandList& list, const Operands& at, const SchurOperands& with) {
  record_eliminated(list, at, with);
  list.barrier();
  gradients().record_start(list);
}

void DeviceSchur::record_factored(CommandList& list, const Operands& at,
                                  const SchurOperands& with) {
  record_eliminated(list, at, with);
  const Buffer& fixed = reduced_.none_fixed();
  factor_->record_factor(
      list,
      {.values = reduced_.input().complement, .damping = reduced_.no_damping(), .fixed = fixed});
  factor_->record_solve(list, reduced_.input().gradient, true, fixed, reduced_.step());
  list.fill(reduced_.residual(), 0, reduced_.residual().size(), 0);  // a rounding of the gradient
  factor_->record_finish(list);
}

void DeviceSchur::record_finish(CommandList& list, const SchurOperands& with) {
  const std::uint64_t bytes = diagonal_.size() / 4 * context_.element_bytes();
  list.barrier();
  list.fill(*with.step, 0, bytes, 0);
  list.fill(*with.residual, 0, bytes, 0);
  list.barrier();
  vectors_.record(list, kernel::schur_scatter{{.kept_step = reduced_.step(),
                                               .kept_residual = reduced_.residual(),
                                               .delta = *with.step,
                                               .residual = *with.residual,
                                               .kept_scalars = kept_scalars_},
                                              {.count = plan_.unknowns()}});
  for (const SchurPlan::Blocks& range : plan_.eliminated_widths) {
    vectors_.record(list, kernel::schur_back{{.kept_step = reduced_.step(),
                                              .couplings = values_.couplings,
                                              .inverse_blocks = values_.inverses,
                                              .gradient = *with.gradient,
                                              .delta = *with.step,
                                              .starts = back_lists_.starts,
                                              .entries = back_lists_.entries,
                                              .eliminated_scalars = eliminated_},
                                             {.count = range.count * range.width,
                                              .first = range.first,
                                              .block_columns = range.width,
                                              .inverse_first = range.inverse,
                                              .inverses = range.count}});
  }
}

std::uint32_t lanes_of_rows(const Context& context, std::uint64_t entries, std::uint64_t rows) {
  constexpr std::uint64_t kEntriesOfLane = 8;  // that an invocation adds up, about
  if (context.device->info().software() || rows == 0) return 1;
  const std::uint64_t wanted = std::bit_ceil(entries / rows / kEntriesOfLane + 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, context.workgroup_size));
}

void record_inverses(CommandList& list, VectorOps& vectors,
                     std::span<const SchurPlan::Blocks> widths,
                     const kernel::schur_invert::Buffers& with) {
  for (const SchurPlan::Blocks& range : widths) {
    const kernel::schur_invert::Push part = {
        .count = range.count, .first = range.first, .inverse_first = range.inverse};
    vectors.record(list, kernel::schur_invert{with, part}, {.width = range.width});
  }
}

namespace {

/// By kept position: its values, columns, length, kept block and coordinate.
std::vector<std::uint32_t> scalar_rows(const SchurPlan& plan) {
  std::vector<std::uint32_t> words;
  for (const SchurPlan::Blocks& range : plan.kept_widths) {
    for (std::uint32_t k = range.first; k < range.first + range.count; ++k) {
      const BlockRows::Row row = plan.complement.row(k);
      for (std::uint32_t a = 0; a < range.width; ++a)
        words.insert(words.end(), {row.values + a * row.length, row.columns, row.length, k, a});
    }
  }
  return words;
}

}  // namespace

ReducedSystem::ReducedSystem(Context& context, VectorOps& vectors, const SchurPlan& plan)
    : context_(context), vectors_(vectors), plan_(plan) {
  const std::uint32_t n = plan.unknowns();
  lanes_ = lanes_of_rows(context, plan.complement.values(), n);
  const auto words = [&](std::span<const std::uint32_t> list) {
    return make_buffer(context, list, "schur_words");
  };
  const auto numbers = [&](std::uint64_t count) {
    return make_numbers(context, count, "schur_numbers");
  };
  std::vector<std::uint32_t> positions;
  for (const SchurPlan::Blocks& range : plan.kept_widths) {
    for (std::uint32_t b = 0; b < range.count; ++b)
      positions.insert(positions.end(), {range.position + b * range.width,
                                         range.inverse + b * range.width * (range.width + 1) / 2});
  }
  block_positions_ = words(positions);
  rows_ = words(scalar_rows(plan));
  columns_ = words(plan.complement.columns());
  input_ = {numbers(plan.complement.values()), numbers(plan.packed), numbers(n)};
  inverse_blocks_ = numbers(plan.packed);
  no_damping_ = make_buffer(context, std::vector<double>(n), "schur_numbers");
  none_fixed_ = words(std::vector<std::uint32_t>(n));
  for (Buffer* vector : {&v_.step, &v_.residual, &v_.product, &v_.preconditioned, &v_.directions[0],
                         &v_.directions[1]}) {
    *vector = numbers(n);
  }
  for (const SchurPlan::Blocks& range : plan.kept_widths) {
    blocks_.push_back({.count = range.count,
                       .width = range.width,
                       .first = range.position,
                       .packed = input_.packed_blocks,
                       .inverse = inverse_blocks_,
                       .inverse_first = range.inverse});
    block_groups_ += context.update_grid(range.count);
  }
  v_.partials = make_partials(context, 2ull * block_groups_);
  v_.curvature = make_partials(context, row_groups());
  v_.decision = make_partials(context, codegen::kScalarCount);
}

std::uint32_t ReducedSystem::row_groups() const {
  return context_.product_grid(std::uint64_t{plan_.unknowns()} * lanes_);
}

SystemVectors ReducedSystem::vectors() {
  return {.gradient = input_.gradient,
          .step = v_.step,
          .residual = v_.residual,
          .product = v_.product,
          .preconditioned = v_.preconditioned,
          .directions = {&v_.directions[0], &v_.directions[1]},
          .fixed = none_fixed_,
          .partials = v_.partials,
          .curvature = v_.curvature,
          .decision = v_.decision,
          .blocks = blocks_,
          .unknowns = plan_.unknowns(),
          .block_groups = block_groups_};
}

void ReducedSystem::record_begin(CommandList& list) {
  record_inverses(list, vectors_, plan_.kept_widths,
                  {.blocks = input_.packed_blocks,
                   .damping = no_damping_,
                   .inverse_blocks = inverse_blocks_,
                   .places = block_positions_,
                   .fixed_scalars = none_fixed_});
}

std::uint32_t ReducedSystem::record_product(CommandList& list, const Direction& direction) {
  return vectors_.record(
      list,
      kernel::schur_product{
          {.complement = input_.complement,
           .preconditioned = direction.preconditioned,
           .direction = direction.before,
           .next_direction = direction.now,
           .product = v_.product,
           .row_words = rows_,
           .column_numbers = columns_,
           .partials = v_.partials,
           .curvature = v_.curvature,
           .decision = v_.decision},
          {.count = plan_.unknowns(), .sums_count = direction.sums, .sums_stride = direction.sums}},
      {.width = lanes_, .groups = row_groups()});
}

}  // namespace topograd::runtime::vulkan
