// Recording the Schur complement: elimination, conjugate gradients on what remains, and back.
#include "device_schur.hpp"

#include "jacobian_columns.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace topograd::runtime::vulkan {

namespace {

/// Entries of a row that an invocation adds up, about.
constexpr std::uint64_t kEntriesOfLane = 8;

/// As many invocations for a row as its length asks for; on a software device they run in turn.
std::uint32_t lanes(const Context& context, std::uint64_t entries, std::uint64_t rows) {
  if (context.device->info().software() || rows == 0) return 1;
  const std::uint64_t wanted = std::bit_ceil(entries / rows / kEntriesOfLane + 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, context.workgroup_size));
}

}  // namespace

std::string DeviceSchur::obstacle(const Context& context, const SchurPlan& plan, Terms terms) {
  for (const SchurPlan::Products& products : plan.products) {
    if (!jacobian_fits(context, *terms[products.term]))
      return "a Jacobian does not fit the range of a storage buffer";
  }
  const std::uint64_t numbers = std::max({plan.meeting_values, plan.piece_values, plan.values});
  const std::uint64_t words = std::max({plan.piece_entries.size(), plan.back_entries.size(),
                                        plan.block_words.size(), plan.columns.size()});
  if (numbers * context.element_bytes() > context.max_range() || words * 4 > context.max_range())
    return "it does not fit the range of a storage buffer";
  return {};
}

DeviceSchur::DeviceSchur(Context& context, VectorOps& vectors, SchurPlan plan, Terms terms,
                         std::span<const std::uint32_t> diagonal_positions)
    : context_(context), vectors_(vectors), plan_(std::move(plan)), terms_(terms) {
  const std::uint32_t n = plan_.unknowns();
  gradient_lanes_ = lanes(context, plan_.row_entries.size() / 3, plan_.kept.size());
  product_lanes_ = lanes(context, plan_.values, n);
  const auto words = [&](const std::vector<std::uint32_t>& list) {
    return make_buffer(context, list, "schur_words");
  };
  const auto numbers = [&](std::uint64_t count) {
    return make_numbers(context, count, "schur_numbers");
  };
  diagonal_ = make_buffer(context, diagonal_positions, "schur_words");
  std::vector<std::uint32_t> places;
  for (const std::uint32_t first : plan_.eliminated)
    places.insert(places.end(), {first, diagonal_positions[first]});
  eliminated_places_ = words(std::exchange(places, {}));
  for (const SchurPlan::Blocks& range : plan_.kept_widths) {
    for (std::uint32_t b = 0; b < range.count; ++b)
      places.insert(places.end(), {range.position + b * range.width,
                                   range.inverse + b * range.width * (range.width + 1) / 2});
  }
  kept_places_ = words(places);
  eliminated_ = words(plan_.eliminated);
  back_starts_ = words(plan_.back_starts);
  back_entries_ = words(plan_.back_entries);
  coupling_words_ = words(plan_.coupling_words);
  kept_scalars_ = words(plan_.kept_scalar);
  row_starts_ = words(plan_.row_starts);
  row_entries_ = words(plan_.row_entries);
  rows_ = words(plan_.rows);
  columns_ = words(plan_.columns);
  piece_starts_ = words(plan_.piece_starts);
  piece_entries_ = words(plan_.piece_entries);
  piece_outputs_ = words(plan_.piece_outputs);
  block_words_ = words(plan_.block_words);
  block_starts_ = words(plan_.block_starts);
  block_pieces_ = words(plan_.block_pieces);
  for (const SchurPlan::Products& products : plan_.products)
    add_products(products, *terms[products.term]);
  meetings_ = numbers(plan_.meeting_values);
  couplings_ = numbers(plan_.meeting_values);
  inverses_ = numbers(plan_.inverses);
  pieces_ = numbers(plan_.piece_values);
  values_ = numbers(plan_.values);
  packed_ = numbers(plan_.packed);
  packed_inverses_ = numbers(plan_.packed);
  none_ = make_buffer(context, std::vector<double>(n), "schur_numbers");
  free_ = words(std::vector<std::uint32_t>(n));
  for (Buffer* vector : {&gradient_, &step_, &residual_, &product_, &preconditioned_,
                         &directions_[0], &directions_[1]}) {
    *vector = numbers(n);
  }
  partials_ = make_partials(context_, 2ull * block_groups());
  curvature_ = make_partials(context_, row_groups());
  decision_ = make_partials(context_, codegen::kScalarCount);
  plan_.products.clear();  // the device has these lists now
  plan_.piece_entries = plan_.back_entries = plan_.block_words = plan_.columns = {};
}

void DeviceSchur::add_products(const SchurPlan::Products& products, const DeviceTerm& term) {
  const JacobianColumns columns = jacobian_columns(term.shape());
  const auto words = [&](const std::vector<std::uint32_t>& list) {
    return make_buffer(context_, list, "schur_words");
  };
  products_.push_back({.term = products.term,
                       .groups = products.groups,
                       .meetings = words(products.meetings),
                       .starts = words(products.starts),
                       .entries = words(products.entries),
                       .slots = words(columns.by_group),
                       .jacobian = make_numbers(context_, term.stored_size(Pass::stored_jacobian),
                                                "schur_jacobian"),
                       .columns = columns.count});
}

std::uint32_t DeviceSchur::block_groups() const {
  std::uint32_t groups = 0;
  for (const SchurPlan::Blocks& range : plan_.kept_widths)
    groups += context_.update_grid(range.count);
  return groups;
}

std::uint32_t DeviceSchur::row_groups() const {
  return context_.product_grid(std::uint64_t{plan_.unknowns()} * product_lanes_);
}

template <class Kernel>
void DeviceSchur::record_group(CommandList& list, Kernel kernel, const SchurPlan::Group& group) {
  kernel.push.count = group.count * group.rows * group.columns;
  kernel.push.first = group.first;
  kernel.push.block_rows = group.rows;
  kernel.push.block_columns = group.columns;
  vectors_.record(list, kernel);
}

void DeviceSchur::need(Needs& needs) const {
  for (const Products& products : products_)
    terms_[products.term]->need_store(needs, Pass::stored_jacobian);
  vectors_.need<kernel::schur_damping, kernel::schur_meetings, kernel::schur_coupling,
                kernel::schur_pieces, kernel::schur_blocks, kernel::schur_scatter,
                kernel::schur_back, kernel::cg_start, kernel::cg_finish>(needs);
  vectors_.need<kernel::schur_gradient>(needs, {.width = gradient_lanes_});
  vectors_.need<kernel::schur_product>(needs, {.width = product_lanes_});
  for (const SchurPlan::Blocks& range : plan_.eliminated_widths)
    vectors_.need<kernel::schur_invert>(needs, {.width = range.width});
  for (const SchurPlan::Blocks& range : plan_.kept_widths) {
    const bool decides = &range == &plan_.kept_widths.front();
    vectors_.need<kernel::schur_invert, kernel::cg_init>(needs, {.width = range.width});
    vectors_.need<kernel::cg_update>(needs, {.width = range.width, .decides = decides});
  }
}

void DeviceSchur::record_meetings(CommandList& list, const Operands& at,
                                  const SchurOperands& with) {
  for (const Products& products : products_)
    terms_[products.term]->record_store(list, Pass::stored_jacobian, at, products.jacobian);
  const bool several = products_.size() > 1;
  if (several) list.fill(meetings_, 0, plan_.meeting_values * context_.element_bytes(), 0);
  for (const Products& products : products_) {
    list.barrier();
    const DeviceTerm& term = *terms_[products.term];
    const kernel::schur_meetings meetings{
        {.jacobian = products.jacobian,
         .meetings = meetings_,
         .starts = products.starts,
         .entries = products.entries,
         .outputs = products.meetings,
         .column_numbers = products.slots,
         .fixed_scalars = *with.fixed},
        {.residuals = term.outputs(),
         .columns = products.columns,
         .instances = static_cast<std::uint32_t>(term.instances()),
         .overwrite = several ? 0u : 1u}};
    for (const SchurPlan::Group& group : products.groups) record_group(list, meetings, group);
  }
}

/// C⁻¹ and E C⁻¹, from damping and meetings.
void DeviceSchur::record_elimination(CommandList& list, const SchurOperands& with) {
  list.barrier();
  for (const SchurPlan::Blocks& range : plan_.eliminated_widths) {
    vectors_.record(
        list,
        kernel::schur_invert{
            {.blocks = *with.blocks,
             .damping = *with.damping,
             .inverse_blocks = inverses_,
             .places = eliminated_places_,
             .fixed_scalars = *with.fixed},
            {.count = range.count, .first = range.first, .inverse_first = range.inverse}},
        {.width = range.width});
  }
  list.barrier();
  for (const SchurPlan::Group& group : plan_.couplings) {
    const auto range =
        std::ranges::find(plan_.eliminated_widths, group.columns, &SchurPlan::Blocks::width);
    record_group(
        list,
        kernel::schur_coupling{{.meetings = meetings_,
                                .inverse_blocks = inverses_,
                                .couplings = couplings_,
                                .entries = coupling_words_},
                               {.inverse_first = range->inverse, .inverses = range->count}},
        group);
  }
}

/// S and the right-hand side.
void DeviceSchur::record_complement(CommandList& list, const SchurOperands& with) {
  list.barrier();
  for (const SchurPlan::Group& group : plan_.pieces) {
    record_group(list,
                 kernel::schur_pieces{{.couplings = couplings_,
                                       .meetings = meetings_,
                                       .pieces = pieces_,
                                       .starts = piece_starts_,
                                       .entries = piece_entries_,
                                       .outputs = piece_outputs_},
                                      {.inner = group.inner}},
                 group);
  }
  vectors_.record(
      list,
      kernel::schur_gradient{{.couplings = couplings_,
                              .gradient = *with.gradient,
                              .reduced_gradient = gradient_,
                              .starts = row_starts_,
                              .entries = row_entries_,
                              .row_words = rows_,
                              .kept_scalars = kept_scalars_},
                             {.count = plan_.unknowns()}},
      {.width = gradient_lanes_,
       .groups = context_.product_grid(std::uint64_t{plan_.unknowns()} * gradient_lanes_)});
  list.barrier();
  for (const SchurPlan::Group& group : plan_.blocks) {
    record_group(list,
                 kernel::schur_blocks{{.pieces = pieces_,
                                       .meetings = meetings_,
                                       .blocks = *with.blocks,
                                       .damping = *with.damping,
                                       .complement = values_,
                                       .packed_blocks = packed_,
                                       .starts = block_starts_,
                                       .entries = block_pieces_,
                                       .outputs = block_words_,
                                       .diagonals = diagonal_,
                                       .fixed_scalars = *with.fixed},
                                      {}},
                 group);
  }
}

template <class Kernel>
std::uint32_t DeviceSchur::record_by_blocks(CommandList& list, Kernel kernel) {
  constexpr bool kInverts = Kernel::kOp == codegen::VectorOp::schur_invert;
  constexpr bool kUpdates = Kernel::kOp == codegen::VectorOp::cg_update;
  std::uint32_t groups = 0;
  for (const SchurPlan::Blocks& range : plan_.kept_widths) {
    kernel.push.count = range.count;
    kernel.push.first = kInverts ? range.first : range.position;
    kernel.push.inverse_first = range.inverse;
    if constexpr (requires { kernel.push.out_first; }) kernel.push.out_first = groups;
    groups +=
        vectors_.record(list, kernel, {.width = range.width, .decides = !kUpdates || groups == 0});
  }
  return groups;
}

void DeviceSchur::record_start(CommandList& list, const Operands& at, const SchurOperands& with) {
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
  list.barrier();
  record_by_blocks(list, kernel::schur_invert{{.blocks = packed_,
                                               .damping = none_,
                                               .inverse_blocks = packed_inverses_,
                                               .places = kept_places_,
                                               .fixed_scalars = free_},
                                              {}});
  list.barrier();
  const std::uint32_t groups = block_groups();
  record_by_blocks(list, kernel::cg_init{{.gradient = gradient_,
                                          .inverse_blocks = packed_inverses_,
                                          .delta = step_,
                                          .residual = residual_,
                                          .direction = directions_[0],
                                          .preconditioned = preconditioned_,
                                          .fixed_scalars = free_,
                                          .partials = partials_},
                                         {.out_stride = groups}});
  list.barrier();
  vectors_.record(list, kernel::cg_start{{.partials = partials_},
                                         {.sums_count = groups, .sums_stride = groups}});
}

void DeviceSchur::record_iterations(CommandList& list, int count) {
  const std::uint32_t groups = block_groups();
  for (int k = 0; k < count; ++k) {
    const Buffer& next_direction = directions_[1 - k % 2];
    list.barrier();
    const std::uint32_t sums = vectors_.record(
        list,
        kernel::schur_product{
            {.complement = values_,
             .preconditioned = preconditioned_,
             .direction = directions_[k % 2],
             .next_direction = next_direction,
             .product = product_,
             .row_words = rows_,
             .column_numbers = columns_,
             .partials = partials_,
             .curvature = curvature_,
             .decision = decision_},
            {.count = plan_.unknowns(), .sums_count = groups, .sums_stride = groups}},
        {.width = product_lanes_, .groups = row_groups()});
    list.barrier();
    record_by_blocks(list, kernel::cg_update{{.product = product_,
                                              .residual = residual_,
                                              .direction = next_direction,
                                              .delta = step_,
                                              .inverse_blocks = packed_inverses_,
                                              .preconditioned = preconditioned_,
                                              .fixed_scalars = free_,
                                              .partials = partials_,
                                              .curvature = curvature_,
                                              .decision = decision_},
                                             {.out_stride = groups, .sums_count = sums}});
  }
  list.barrier();
  vectors_.record(list, kernel::cg_finish{{.partials = partials_},
                                          {.sums_count = groups, .sums_stride = groups}});
}

void DeviceSchur::record_finish(CommandList& list, const SchurOperands& with) {
  const std::uint64_t bytes = diagonal_.size() / 4 * context_.element_bytes();
  list.barrier();
  list.fill(*with.step, 0, bytes, 0);
  list.fill(*with.residual, 0, bytes, 0);
  list.barrier();
  vectors_.record(list, kernel::schur_scatter{{.kept_step = step_,
                                               .kept_residual = residual_,
                                               .delta = *with.step,
                                               .residual = *with.residual,
                                               .kept_scalars = kept_scalars_},
                                              {.count = plan_.unknowns()}});
  for (const SchurPlan::Blocks& range : plan_.eliminated_widths) {
    vectors_.record(list, kernel::schur_back{{.kept_step = step_,
                                              .couplings = couplings_,
                                              .inverse_blocks = inverses_,
                                              .gradient = *with.gradient,
                                              .delta = *with.step,
                                              .starts = back_starts_,
                                              .entries = back_entries_,
                                              .eliminated_scalars = eliminated_},
                                             {.count = range.count * range.width,
                                              .first = range.first,
                                              .block_columns = range.width,
                                              .inverse_first = range.inverse,
                                              .inverses = range.count}});
  }
}

}  // namespace topograd::runtime::vulkan
