// Preconditioners of a device by name, and the coarse space of the two-level one.
#include "device_preconditioner.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/state_record.hpp"
#include "../../linear/coarse_plan.hpp"

namespace topograd::runtime::vulkan {
namespace {

/// Pivots that are eliminated at a time, and panels of them in one recorded list.
constexpr std::uint32_t kPivotsOfPanel = 16;
constexpr std::uint32_t kPanelsOfList = 16;
static_assert(kPivotsOfPanel <= codegen::kMaxBlockWidth);

std::uint32_t panels_of(std::uint32_t unknowns) {
  return (unknowns + kPivotsOfPanel - 1) / kPivotsOfPanel;
}

void write_sums(const Context& context, const Buffer& buffer, std::span<const double> values) {
  if (context.scalar_precision() == Precision::f64) {
    context.device->upload<double>(buffer, values);
  } else {
    const std::vector<float> narrow(values.begin(), values.end());
    context.device->upload<float>(buffer, narrow);
  }
}

/// A software device takes as long for an inverse of 1,000 rows as for 1,000 products of a model
/// with 60,000 residuals and unknowns.
std::uint64_t slow_inverse(const Context& context, const Model& model) {
  return context.device->info().software() ? 16 * (model.rows + model.scalars) : 0;
}

/// Vectors, matrix and inverse of a coarse space, made at a point when CoarseControl says so:
/// preconditioned += P (Pᵀ A P)⁻¹ Pᵀ residual.
class CoarseSpace final : public DevicePreconditioner {
 public:
  CoarseSpace(const Part& part, NormalProducts& products, Preconditioner asked)
      : DevicePreconditioner(part),
        products_(products),
        control_(asked, slow_inverse(context_, problem_.source())) {}

  void begin_solve() override { control_.begin_solve(); }
  void model_changed() override { control_.model_changed(); }
  void transfer(ir::StateRecord& record) override;
  void prepare(const Point& x, Lists& lists) override;
  bool in_use() const override { return control_.in_use(); }
  void expect(int iterations) override { control_.expect(problem_.model(), iterations); }
  void settle() override { control_.settle(); }
  bool solved(int iterations) override { return control_.solved(iterations); }
  std::uint32_t most_sums() const override { return kMostCoarse; }
  PreconditionerUse use() const override { return control_.use(); }
  std::uint32_t sums() const override { return control_.plan().unknowns(); }
  void record_correction(CommandList& list, bool predicated) override;

 private:
  bool fits() const;
  void make_buffers();
  void write_centres();
  void make_lists();
  void record_product(CommandList& list, std::uint32_t first);
  void record_vectors(CommandList& list);
  void record_matrix(CommandList& list);
  void record_elimination(CommandList& list, std::uint32_t first, std::uint32_t count);

  NormalProducts& products_;
  CoarseControl control_;
  struct Buffers {
    Buffer vectors, answers, offsets;              // by vector and entry
    Buffer from, scalars, homes, starts, follows;  // u32, see CoarsePlan
    Buffer sources;                                // u32, likewise
    Buffer weights;                                // spread, gather, and the probes
    std::array<Buffer, 2> matrices;                // take turns from panel to panel of pivots
    Buffer panel;                                  // its rows
    Buffer in, out;                                // coarse unknowns
  } b_;
  std::uint64_t version_ = 0, centres_ = 0;  // versions of the plan in the buffers
  Derived<std::vector<Recorded>> lists_{buffers_};
};

bool CoarseSpace::fits() const {
  const CoarsePlan& plan = control_.plan();
  const std::uint64_t n = plan.unknowns();
  const std::uint64_t largest =
      std::max<std::uint64_t>({8 * n * n, 8ull * plan.functions * plan.entries(),
                               8ull * plan.colours * plan.functions * n});
  return largest <= context_.max_range();
}

void CoarseSpace::make_buffers() {
  const CoarsePlan& plan = control_.plan();
  const std::uint64_t numbers = std::uint64_t{plan.functions} * plan.entries();
  b_.vectors = make_numbers(context_, numbers, "coarse_vectors");
  b_.answers = make_numbers(context_, plan.answers ? numbers : 1, "coarse_answers");
  b_.offsets = make_numbers(context_, numbers, "coarse_offsets");
  b_.from = make_buffer(context_, plan.from, "coarse_from");
  b_.scalars = make_buffer(context_, plan.scalars, "coarse_scalars");
  b_.homes = make_buffer(context_, plan.homes, "coarse_homes");
  b_.starts = make_buffer(context_, plan.starts, "coarse_starts");
  const std::vector<std::uint32_t> follows(plan.follows.begin(), plan.follows.end());
  b_.follows = make_buffer(context_, follows, "coarse_follows");
  b_.sources = make_buffer(context_, plan.sources, "coarse_sources");
  b_.weights = make_partials(context_, (2ull + plan.colours) * plan.functions * plan.unknowns());
  const std::uint64_t n = plan.unknowns();
  for (Buffer& matrix : b_.matrices) matrix = make_partials(context_, n * n);
  b_.panel = make_partials(context_, kPivotsOfPanel * n);
  b_.in = make_partials(context_, n);
  b_.out = make_partials(context_, n);
  version_ = control_.plan_version();
  buffers_.changed();
}

void CoarseSpace::write_centres() {
  const CoarsePlan& plan = control_.plan();
  write_numbers(context_, b_.offsets, plan.offsets);
  std::vector<double> weights = plan.spread;
  weights.insert(weights.end(), plan.gather.begin(), plan.gather.end());
  for (std::uint32_t colour = 0; colour < plan.colours; ++colour) {
    for (std::uint32_t f = 0; f < plan.functions; ++f) {
      for (std::uint32_t g = 0; g < plan.aggregates; ++g) {
        for (std::uint32_t h = 0; h < plan.functions; ++h) {
          weights.push_back(plan.colour[g] == colour && h == f ? 1 : 0);
        }
      }
    }
  }
  write_sums(context_, b_.weights, weights);
  centres_ = control_.centre_version();
}

/// direction = the sum of vectors whose weights begin at `first`; product = JᵀJ times it.
void CoarseSpace::record_product(CommandList& list, std::uint32_t first) {
  const CoarsePlan& plan = control_.plan();
  list.barrier();
  v_.ops->record(list,
                 kernel::coarse_expand{{.vectors = b_.vectors,
                                        .weights = b_.weights,
                                        .result = v_.direction,
                                        .entries = b_.scalars,
                                        .aggregates = b_.homes},
                                       {.count = plan.entries(), .first = first, .overwrite = 1}},
                 {.width = plan.functions});
  list.barrier();
  products_.record(list, terms_.operands(v_.x, &v_.direction), v_.product);
  list.barrier();
}

void CoarseSpace::record_vectors(CommandList& list) {
  const CoarsePlan& plan = control_.plan();
  list.barrier();
  v_.record_by_blocks(list, v_.preconditioner());
  list.fill(v_.direction, 0, problem_.model().scalars * context_.element_bytes(), 0);
  const std::uint32_t numbers = plan.functions * plan.entries();
  v_.ops->record(
      list, kernel::coarse_vectors{
                {.point = v_.x, .offsets = b_.offsets, .vectors = b_.vectors, .entries = b_.from},
                {.count = numbers}});
  if (!plan.answers) return;
  const std::uint64_t bytes = std::uint64_t{numbers} * context_.element_bytes();
  list.barrier();
  // Vectors of those that follow stay 0 until all answers are there.
  list.copy(b_.vectors, 0, b_.answers, 0, bytes);
  for (std::uint32_t f = 0; f < plan.functions; ++f) {
    record_product(list, f * plan.unknowns());
    v_.record_by_blocks(list, kernel::apply_preconditioner{
                                  {.vector = v_.product, .result = v_.preconditioned}, {}});
    list.barrier();
    v_.ops->record(list,
                   kernel::coarse_answer{
                       {.answers = v_.preconditioned,
                        .weights = b_.weights,
                        .vectors = b_.answers,
                        .entries = b_.scalars,
                        .aggregates = b_.homes,
                        .follows = b_.follows},
                       {.count = plan.entries(), .first = (plan.functions + f) * plan.unknowns()}},
                   {.width = plan.functions});
  }
  list.barrier();
  list.copy(b_.answers, 0, b_.vectors, 0, bytes);
}

void CoarseSpace::record_matrix(CommandList& list) {
  const CoarsePlan& plan = control_.plan();
  const std::uint64_t n = plan.unknowns();
  list.barrier();
  list.fill(b_.matrices[0], 0, n * n * (context_.scalar_precision() == Precision::f64 ? 8 : 4), 0);
  for (std::uint32_t colour = 0; colour < plan.colours; ++colour) {
    for (std::uint32_t f = 0; f < plan.functions; ++f) {
      record_product(list, (2 * plan.functions + colour * plan.functions + f) * plan.unknowns());
      v_.ops->record(list,
                     kernel::coarse_column{{.vectors = b_.vectors,
                                            .product = v_.product,
                                            .direction = v_.direction,
                                            .damping = v_.damping,
                                            .matrix = b_.matrices[0],
                                            .entries = b_.scalars,
                                            .starts = b_.starts,
                                            .sources = b_.sources},
                                           {.count = plan.entries(),
                                            .first_source = colour * plan.aggregates,
                                            .unknowns = plan.unknowns(),
                                            .function = f}},
                     {.width = plan.functions, .groups = plan.aggregates});
    }
  }
}

void CoarseSpace::record_elimination(CommandList& list, std::uint32_t first, std::uint32_t count) {
  const std::uint32_t n = control_.plan().unknowns();
  for (std::uint32_t panel = first; panel < first + count; ++panel) {
    const std::uint32_t pivot = panel * kPivotsOfPanel;
    const std::uint32_t pivots = std::min(kPivotsOfPanel, n - pivot);
    const Buffer& matrix = b_.matrices[panel % 2];
    list.barrier();
    v_.ops->record(
        list,
        kernel::coarse_panel{{.matrix = matrix, .panel = b_.panel},
                             {.count = n, .first = pivot, .pivots = pivots, .unknowns = n}},
        {.width = kPivotsOfPanel});
    list.barrier();
    v_.ops->record(
        list, kernel::coarse_eliminate{
                  {.matrix = matrix, .panel = b_.panel, .result = b_.matrices[(panel + 1) % 2]},
                  {.count = n * n, .first = pivot, .pivots = pivots, .unknowns = n}});
  }
}

void CoarseSpace::record_correction(CommandList& list, bool predicated) {
  const CoarsePlan& plan = control_.plan();
  const std::uint32_t n = plan.unknowns();
  list.barrier();
  v_.ops->record(list,
                 kernel::coarse_restrict{{.vectors = b_.vectors,
                                          .residual = v_.residual,
                                          .coarse_residual = b_.in,
                                          .entries = b_.scalars,
                                          .starts = b_.starts},
                                         {.count = plan.entries()}},
                 {.width = plan.functions, .predicated = predicated, .groups = plan.aggregates});
  list.barrier();
  v_.ops->record(
      list,
      kernel::coarse_multiply{
          {.inverse_matrix = b_.matrices[panels_of(n) % 2],
           .coarse_residual = b_.in,
           .correction = b_.out,
           .partials = v_.partials},
          {.count = n, .out_first = v_.block_groups(), .out_stride = v_.block_groups() + sums()}},
      {.predicated = predicated, .groups = n});
  list.barrier();
  v_.ops->record(list,
                 kernel::coarse_expand{{.vectors = b_.vectors,
                                        .weights = b_.out,
                                        .result = v_.preconditioned,
                                        .entries = b_.scalars,
                                        .aggregates = b_.homes},
                                       {.count = plan.entries()}},
                 {.width = plan.functions, .predicated = predicated});
}

void CoarseSpace::prepare(const Point& x, Lists& lists) {
  if (!control_.due(problem_.model(), x)) return;
  if (!fits()) return control_.failed(PreconditionerReason::out_of_range);
  if (version_ != control_.plan_version()) make_buffers();
  if (centres_ != control_.centre_version()) write_centres();
  make_lists();
  for (const Recorded& list : *lists_) lists.push_back(&list);
  control_.built();
}

void CoarseSpace::transfer(ir::StateRecord& record) {
  control_.transfer(record, problem_.model());
  if (!control_.in_use()) return;
  if (!fits()) record.refuse("coarse space in use", "does not fit this device");
  if (record.restores()) {
    make_buffers();
    write_centres();
  }
  const auto bytes_of = [&](std::string_view name, const Buffer& buffer) {
    std::vector<std::uint8_t> bytes(buffer.size());
    if (!record.restores()) context_.device->download<std::uint8_t>(buffer, bytes);
    record.list(name, std::span(bytes));
    if (record.restores()) context_.device->upload<std::uint8_t>(buffer, bytes);
  };
  bytes_of("coarse vectors", b_.vectors);
  bytes_of("inverse coarse matrix", b_.matrices[panels_of(control_.plan().unknowns()) % 2]);
}

void CoarseSpace::make_lists() {
  if (!lists_->empty()) return;
  const std::uint32_t panels = panels_of(control_.plan().unknowns());
  const std::uint32_t inverses = (panels + kPanelsOfList - 1) / kPanelsOfList;
  std::vector<Recorded> made(2 + inverses);
  std::vector<Recorder::List> lists = {
      {made[0], "coarse_vectors", [&](CommandList& l) { record_vectors(l); }},
      {made[1], "coarse_matrix", [&](CommandList& l) { record_matrix(l); }}};
  for (std::uint32_t k = 0; k < inverses; ++k) {
    const std::uint32_t first = k * kPanelsOfList;
    const std::uint32_t count = std::min(kPanelsOfList, panels - first);
    lists.push_back({made[2 + k], "coarse_inverse", [this, first, count](CommandList& l) {
                       record_elimination(l, first, count);
                     }});
  }
  recorder_.make_lists(lists);
  *lists_ = std::move(made);
}

}  // namespace

#define TG_PRECONDITIONER(row, ...)                        \
  std::unique_ptr<DevicePreconditioner> make_device_##row( \
      const Part& part, NormalProducts& products, Preconditioner asked);
#include "../../linear/preconditioners.def"

std::unique_ptr<DevicePreconditioner> make_device_preconditioner(const Part& part,
                                                                 NormalProducts& products,
                                                                 Preconditioner asked) {
  // The two-level one begins as block_jacobi.
  if (asked == Preconditioner::automatic) return make_device_two_level(part, products, asked);
#define TG_PRECONDITIONER(row, ...)                                                    \
  if constexpr (PreconditionerRow{.value = {}, .name = {}, __VA_ARGS__}.on_device) {   \
    if (asked == Preconditioner::row) return make_device_##row(part, products, asked); \
  }
#include "../../linear/preconditioners.def"
  throw Error(ErrorCode::Unsupported, "vulkan: the preconditioner exists on the CPU alone");
}

namespace {

class BlocksAlone final : public DevicePreconditioner {
 public:
  using DevicePreconditioner::DevicePreconditioner;

  void prepare(const Point& /*x*/, Lists& /*lists*/) override {}
  bool in_use() const override { return false; }
  PreconditionerUse use() const override { return {.why = {PreconditionerReason::asked_for}}; }
  std::uint32_t most_sums() const override { return 0; }
  std::uint32_t sums() const override { return 0; }
  void record_correction(CommandList& /*list*/, bool /*predicated*/) override {}
};

}  // namespace

std::unique_ptr<DevicePreconditioner> make_device_block_jacobi(const Part& part,
                                                               NormalProducts& /*products*/,
                                                               Preconditioner /*asked*/) {
  return std::make_unique<BlocksAlone>(part);
}

std::unique_ptr<DevicePreconditioner> make_device_two_level(const Part& part,
                                                            NormalProducts& products,
                                                            Preconditioner asked) {
  return std::make_unique<CoarseSpace>(part, products, asked);
}

}  // namespace topograd::runtime::vulkan
