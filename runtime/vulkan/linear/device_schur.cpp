// Recording the Schur complement: elimination, conjugate gradients on what remains, and back.
#include "device_schur.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace topograd::runtime::vulkan {

using codegen::BufferRole;
using codegen::VectorConstants;

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
    if (!terms[products.term]->jacobian_fits())
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
  plan_.products.clear();  // what the device has now
  plan_.piece_entries = plan_.back_entries = plan_.block_words = plan_.columns = {};
}

void DeviceSchur::add_products(const SchurPlan::Products& products, const DeviceTerm& term) {
  const DeviceTerm::JacobianColumns columns = term.jacobian_columns();
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

void DeviceSchur::record_group(CommandList& list, Op op, const SchurPlan::Group& group,
                               VectorConstants constants, const BindingTable& table) {
  constants.count = group.count * group.rows * group.columns;
  constants.first = group.first;
  constants.a = group.rows;
  constants.b = group.columns;
  vectors_.record(list, {.op = op, .constants = constants}, table);
}

void DeviceSchur::record_meetings(CommandList& list, const Operands& at,
                                  const SchurOperands& with) {
  for (const Products& products : products_)
    terms_[products.term]->record_store(list, Pass::stored_jacobian, at, products.jacobian);
  const bool several = products_.size() > 1;
  if (several) list.fill(meetings_, 0, plan_.meeting_values * context_.element_bytes(), 0);
  for (const Products& products : products_) {
    list.barrier();
    BindingTable table;
    table.set(BufferRole::first_operand, products.jacobian);
    table.set(BufferRole::result, meetings_);
    table.set(BufferRole::starts, products.starts);
    table.set(BufferRole::entries, products.entries);
    table.set(BufferRole::outputs, products.meetings);
    table.set(BufferRole::owners, products.slots);
    table.set(BufferRole::fixed, *with.fixed);
    const DeviceTerm& term = *terms_[products.term];
    for (const SchurPlan::Group& group : products.groups) {
      record_group(list, Op::schur_meetings, group,
                   {.out_first = products.columns,
                    .out_stride = static_cast<std::uint32_t>(term.instances()),
                    .blocks_first = term.outputs(),
                    .overwrite = several ? 0u : 1u},
                   table);
    }
  }
}

/// C⁻¹ and E C⁻¹, from damping and meetings.
void DeviceSchur::record_elimination(CommandList& list, const SchurOperands& with) {
  BindingTable table;
  table.set(BufferRole::blocks, *with.blocks);
  table.set(BufferRole::damping, *with.damping);
  table.set(BufferRole::fixed, *with.fixed);
  table.set(BufferRole::entries, eliminated_places_);
  table.set(BufferRole::inverse, inverses_);
  list.barrier();
  for (const SchurPlan::Blocks& range : plan_.eliminated_widths) {
    vectors_.record(
        list,
        {.op = Op::schur_invert,
         .width = range.width,
         .constants = {.count = range.count, .first = range.first, .blocks_first = range.inverse}},
        table);
  }
  list.barrier();
  table.set(BufferRole::entries, coupling_words_);
  table.set(BufferRole::first_operand, meetings_);
  table.set(BufferRole::result, couplings_);
  for (const SchurPlan::Group& group : plan_.couplings) {
    const auto range =
        std::ranges::find(plan_.eliminated_widths, group.columns, &SchurPlan::Blocks::width);
    record_group(list, Op::schur_coupling, group,
                 {.out_stride = range->count, .blocks_first = range->inverse}, table);
  }
}

/// S and the right-hand side.
void DeviceSchur::record_complement(CommandList& list, const SchurOperands& with) {
  BindingTable table;
  table.set(BufferRole::first_operand, couplings_);
  table.set(BufferRole::second_operand, meetings_);
  table.set(BufferRole::result, pieces_);
  table.set(BufferRole::starts, piece_starts_);
  table.set(BufferRole::entries, piece_entries_);
  table.set(BufferRole::outputs, piece_outputs_);
  list.barrier();
  for (const SchurPlan::Group& group : plan_.pieces)
    record_group(list, Op::schur_pieces, group, {.out_stride = group.inner}, table);
  BindingTable right = table;
  right.set(BufferRole::gradient, *with.gradient);
  right.set(BufferRole::result, gradient_);
  right.set(BufferRole::starts, row_starts_);
  right.set(BufferRole::entries, row_entries_);
  right.set(BufferRole::outputs, rows_);
  right.set(BufferRole::owners, kept_scalars_);
  vectors_.record(
      list,
      {.op = Op::schur_gradient,
       .width = gradient_lanes_,
       .constants = {.count = plan_.unknowns()},
       .groups = context_.product_grid(std::uint64_t{plan_.unknowns()} * gradient_lanes_)},
      right);
  table.set(BufferRole::first_operand, pieces_);
  table.set(BufferRole::blocks, *with.blocks);
  table.set(BufferRole::damping, *with.damping);
  table.set(BufferRole::fixed, *with.fixed);
  table.set(BufferRole::result, values_);
  table.set(BufferRole::rotated, packed_);
  table.set(BufferRole::starts, block_starts_);
  table.set(BufferRole::entries, block_pieces_);
  table.set(BufferRole::outputs, block_words_);
  table.set(BufferRole::owners, diagonal_);
  list.barrier();
  for (const SchurPlan::Group& group : plan_.blocks)
    record_group(list, Op::schur_blocks, group, {}, table);
}

BindingTable DeviceSchur::solver_table() const {
  BindingTable table;
  table.set(BufferRole::gradient, gradient_);
  table.set(BufferRole::step, step_);
  table.set(BufferRole::residual, residual_);
  table.set(BufferRole::product, product_);
  table.set(BufferRole::preconditioned, preconditioned_);
  table.set(BufferRole::inverse, packed_inverses_);
  table.set(BufferRole::direction, directions_[0]);
  table.set(BufferRole::partials, partials_);
  table.set(BufferRole::curvature, curvature_);
  table.set(BufferRole::decision, decision_);
  table.set(BufferRole::fixed, free_);
  return table;
}

std::uint32_t DeviceSchur::record_by_blocks(CommandList& list, VectorOps::Run run,
                                            BindingTable table) {
  std::uint32_t groups = 0;
  for (const SchurPlan::Blocks& range : plan_.kept_widths) {
    run.width = range.width;
    run.decides = run.op != Op::cg_update || groups == 0;
    run.constants.count = range.count;
    run.constants.first = run.op == Op::schur_invert ? range.first : range.position;
    run.constants.out_first = groups;
    run.constants.blocks_first = range.inverse;
    groups += vectors_.record(list, run, table);
  }
  return groups;
}

void DeviceSchur::record_start(CommandList& list, const Operands& at, const SchurOperands& with) {
  BindingTable damping;
  damping.set(BufferRole::blocks, *with.blocks);
  damping.set(BufferRole::scale, *with.scale);
  damping.set(BufferRole::damping, *with.damping);
  damping.set(BufferRole::fixed, *with.fixed);
  damping.set(BufferRole::entries, diagonal_);
  list.barrier();
  vectors_.record(list,
                  {.op = Op::schur_damping,
                   .constants = {.count = static_cast<std::uint32_t>(diagonal_.size() / 4)}},
                  damping);
  record_meetings(list, at, with);
  record_elimination(list, with);
  record_complement(list, with);
  BindingTable inverse = solver_table();
  inverse.set(BufferRole::blocks, packed_);
  inverse.set(BufferRole::damping, none_);
  inverse.set(BufferRole::entries, kept_places_);
  list.barrier();
  record_by_blocks(list, {.op = Op::schur_invert}, inverse);
  list.barrier();
  const std::uint32_t groups = block_groups();
  record_by_blocks(list, {.op = Op::cg_init, .constants = {.out_stride = groups}}, solver_table());
  list.barrier();
  vectors_.record(list,
                  {.op = Op::cg_start, .constants = {.sums_count = groups, .sums_stride = groups}},
                  solver_table());
}

void DeviceSchur::record_iterations(CommandList& list, int count) {
  const std::uint32_t groups = block_groups();
  BindingTable table = solver_table();
  table.set(BufferRole::first_operand, values_);
  table.set(BufferRole::outputs, rows_);
  table.set(BufferRole::entries, columns_);
  for (int k = 0; k < count; ++k) {
    table.set(BufferRole::direction, directions_[k % 2]);
    table.set(BufferRole::next_direction, directions_[1 - k % 2]);
    list.barrier();
    const std::uint32_t sums = vectors_.record(
        list,
        {.op = Op::schur_product,
         .width = product_lanes_,
         .constants = {.count = plan_.unknowns(), .sums_count = groups, .sums_stride = groups},
         .groups = row_groups()},
        table);
    list.barrier();
    BindingTable update = table;
    update.set(BufferRole::direction, directions_[1 - k % 2]);
    record_by_blocks(list,
                     {.op = Op::cg_update, .constants = {.out_stride = groups, .sums_count = sums}},
                     update);
  }
  list.barrier();
  vectors_.record(list,
                  {.op = Op::cg_finish, .constants = {.sums_count = groups, .sums_stride = groups}},
                  table);
}

void DeviceSchur::record_finish(CommandList& list, const SchurOperands& with) {
  const std::uint64_t bytes = diagonal_.size() / 4 * context_.element_bytes();
  list.barrier();
  list.fill(*with.step, 0, bytes, 0);
  list.fill(*with.residual, 0, bytes, 0);
  list.barrier();
  BindingTable table;
  table.set(BufferRole::first_operand, step_);
  table.set(BufferRole::second_operand, residual_);
  table.set(BufferRole::step, *with.step);
  table.set(BufferRole::residual, *with.residual);
  table.set(BufferRole::owners, kept_scalars_);
  vectors_.record(list, {.op = Op::schur_scatter, .constants = {.count = plan_.unknowns()}}, table);
  table.set(BufferRole::second_operand, couplings_);
  table.set(BufferRole::gradient, *with.gradient);
  table.set(BufferRole::inverse, inverses_);
  table.set(BufferRole::starts, back_starts_);
  table.set(BufferRole::entries, back_entries_);
  table.set(BufferRole::outputs, eliminated_);
  for (const SchurPlan::Blocks& range : plan_.eliminated_widths) {
    vectors_.record(list,
                    {.op = Op::schur_back,
                     .constants = {.count = range.count * range.width,
                                   .first = range.first,
                                   .out_stride = range.count,
                                   .blocks_first = range.inverse,
                                   .b = range.width}},
                    table);
  }
}

}  // namespace topograd::runtime::vulkan
