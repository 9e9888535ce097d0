// Buffers and recorded lists of conjugate gradients with the sums of the CPU.
#include "listed_solver.hpp"

#include "../../../ir/machine/parallel.hpp"
#include "../recording/context.hpp"
#include "../recording/recorder.hpp"
#include "../recording/vector_ops.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;
using codegen::Scalar;

/// Numbers that the host sets before each list: alpha, beta, and from kCoarse on the unknowns of
/// the coarse space, where a binding may begin.
constexpr auto kAlpha = Scalar{0}, kBeta = Scalar{1};
constexpr std::size_t kCoarse = 32;

/// An iteration waits for the device twice, 0.1 ms in all. 16 cores iterate over springs of 2,700
/// unknowns in 0.2 ms, and so does an H200.
constexpr std::uint64_t kLeastUnknowns = 1'000;

/// Entries from which on a workgroup computes the products of a list; one invocation adds them up
/// in any case.
constexpr std::uint32_t kEntriesOfWorkgroup = 64;
/// Products of an entry up to which it does: they stand in its shared memory.
constexpr std::uint32_t kMostProducts = 64;

class DeviceListedSolver final : public ListedSolver {
 public:
  DeviceListedSolver(const EngineOptions& options, std::optional<std::uint64_t> least_unknowns)
      : context_(open_context(options)), ops_(context_, true) {
    const bool software = context_.device->info().software();
    least_unknowns_ = least_unknowns.value_or(software ? ~std::uint64_t{0} : kLeastUnknowns);
  }

  bool follow(const ListedSystem& system) override;
  void set_column(std::size_t term, std::size_t column, std::span<const double> values) override;
  void set_damping(std::span<const double> damping, std::span<const std::uint8_t> held) override;
  void set_coarse(const std::optional<ListedCoarse>& coarse) override;
  std::span<const double> coarse_product(std::span<const double> y) override;
  void begin(std::span<const double> right_side, std::span<const double> inverse) override;
  Residual update(std::optional<double> alpha) override;
  std::span<const double> product(std::optional<double> beta,
                                  std::span<const double> coarse) override;
  void solution(std::span<double> x) override;

 private:
  /// Sums of which each has an invocation, or a workgroup.
  struct Sums {
    std::uint32_t alone = 0, together = 0;
    Buffer of_alone, of_together;
  };
  struct Lists {
    std::uint32_t width = 1, long_lists = 0;
    Sums lists, segments;
    Buffer of_long_lists, partial;
  };
  struct Term {
    std::size_t instances = 0, data = 0, outputs = 0;
    std::uint32_t slot_bits = 0, most_products = 0;
    LoadedKernel kernel;  // of J·p
    Buffer index, columns, rows, entries, slots, starts, products, scales;
    std::vector<Lists> widths;
  };
  struct Coarse {
    std::uint32_t functions = 0, entries = 0, aggregates = 0;
    Buffer starts, scalars, homes, vectors;
    std::uint32_t unknowns() const { return functions * aggregates; }
  };

  bool fits(const ListedTerm& term) const;
  Term make_term(const ListedTerm& term);
  Sums make_sums(std::span<const ListedItem> of, const Term& term);
  Lists make_lists(const ListedWidth& of, const Term& term);
  Buffer items(std::span<const ListedItem> of, std::string_view name);
  Buffer words(std::span<const std::uint32_t> of, std::string_view name) {
    return make_buffer(context_, of, name);
  }
  Buffer on_host(std::size_t count, MemoryKind kind, std::string_view name) {
    return context_.device->buffer(std::max<std::size_t>(count, 1) * sizeof(double), kind, name);
  }
  static std::span<double> numbers_of(const Buffer& buffer, std::size_t count) {
    return {reinterpret_cast<double*>(buffer.mapped()), count};
  }

  void record_given(CommandList& list);
  void record_update(CommandList& list, bool first);
  /// The vectors of the coarse space times a vector, and z (+)= these vectors times given numbers.
  void record_restrict(CommandList& list, const Buffer& vector);
  void record_expand(CommandList& list, bool overwrite);
  /// q = A p for the next p, or p = z.
  void record_product(CommandList& list, bool first);
  void record_sums(CommandList& list, const Term& term, const Lists& lists);
  void record_sums(CommandList& list, const Term& term, std::uint32_t width, const Sums& sums,
                   const Buffer& result, bool overwrite);
  /// A list is recorded once for a system and a coarse space.
  void run(const std::string& name, const Recorder::Record& record);

  Context context_;
  Recorder recorder_{context_};
  VectorOps ops_;
  std::uint64_t least_unknowns_ = 0;
  std::uint32_t scalars_ = 0, chunks_ = 0;
  std::vector<ListedSystem::Blocks> blocks_;
  std::vector<Term> terms_;
  Coarse coarse_;
  Buffer x_, residual_, preconditioned_, direction_, product_, damping_, inverse_, held_, ends_;
  Buffer given_, numbers_;                 // written by the host, and their copy on the device
  Buffer norms_, curvature_, restricted_;  // read by the host
};

bool DeviceListedSolver::fits(const ListedTerm& term) const {
  const std::uint64_t widest =
      std::max<std::uint64_t>({term.data.size() + term.stored, term.scalars.size(),
                               term.rows.outputs.size(), term.slots.size(), 1});
  const std::uint64_t numbers = widest * term.instances;
  return numbers < kListedRow && numbers * sizeof(double) <= context_.max_range();
}

bool DeviceListedSolver::follow(const ListedSystem& system) {
  recorder_.structure.changed();
  terms_.clear();
  coarse_ = {};
  std::uint64_t packed = 0;
  for (const ListedSystem::Blocks& of : system.blocks)
    packed = std::max(packed, of.packed + of.count * of.width * (of.width + 1) / 2);
  const std::uint64_t most = std::max(packed, system.scalars);
  if (system.scalars < least_unknowns_) return false;
  if (most >= kListedRow || most * sizeof(double) > context_.max_range()) return false;
  if (!std::ranges::all_of(system.terms, [&](const ListedTerm& term) { return fits(term); }))
    return false;
  scalars_ = static_cast<std::uint32_t>(system.scalars);
  chunks_ = static_cast<std::uint32_t>(system.chunks.size());
  blocks_ = system.blocks;
  for (Buffer* vector : {&x_, &residual_, &preconditioned_, &direction_, &product_, &damping_})
    *vector = make_numbers(context_, scalars_, "listed vector");
  inverse_ = make_numbers(context_, packed, "inverse");
  ends_ = make_chunk_ends(context_, system.chunks);
  held_ = words(std::vector<std::uint32_t>(scalars_), "held");
  norms_ = on_host(2 * system.chunks.size(), MemoryKind::Readback, "norms");
  curvature_ = on_host(system.chunks.size(), MemoryKind::Readback, "curvature");
  set_coarse({});
  for (const ListedTerm& term : system.terms) terms_.push_back(make_term(term));
  // A driver that refuses a kernel refuses it here.
  Recorder::make([&](CommandList& list) {
    record_update(list, true);
    record_product(list, true);
  });
  return true;
}

Buffer DeviceListedSolver::items(std::span<const ListedItem> of, std::string_view name) {
  std::vector<std::uint32_t> out;
  for (const ListedItem& item : of) out.insert(out.end(), {item.target, item.begin, item.end});
  return words(out, name);
}

DeviceListedSolver::Sums DeviceListedSolver::make_sums(std::span<const ListedItem> of,
                                                       const Term& term) {
  std::vector<ListedItem> alone, together;
  for (const ListedItem& item : of) {
    const bool is_long = item.end - item.begin >= kEntriesOfWorkgroup;
    (is_long && term.most_products <= kMostProducts ? together : alone).push_back(item);
  }
  return {.alone = static_cast<std::uint32_t>(alone.size()),
          .together = static_cast<std::uint32_t>(together.size()),
          .of_alone = items(alone, "lists"),
          .of_together = items(together, "lists of workgroups")};
}

DeviceListedSolver::Lists DeviceListedSolver::make_lists(const ListedWidth& of, const Term& term) {
  return {.width = of.width,
          .long_lists = static_cast<std::uint32_t>(of.long_lists.size()),
          .lists = make_sums(of.lists, term),
          .segments = make_sums(of.segments, term),
          .of_long_lists = items(of.long_lists, "long lists"),
          .partial =
              make_numbers(context_, std::uint64_t{of.segments.size()} * of.width, "segment sums")};
}

DeviceListedSolver::Term DeviceListedSolver::make_term(const ListedTerm& term) {
  const std::size_t n = term.instances;
  Term out{.instances = n,
           .data = term.data.size(),
           .outputs = term.rows.outputs.size(),
           .slot_bits = term.slot_bits};
  codegen::KernelRequest request;
  request.name = "listed_rows";
  request.program = term.rows;
  request.layout = codegen::general_layout(term.rows.leaves);
  out.kernel = vulkan::load_kernel(static_cast<LaunchContext&>(context_), request);
  std::vector<std::uint32_t> index;
  for (const std::vector<std::uint32_t>& slot : term.scalars)
    index.insert(index.end(), slot.begin(), slot.end());
  out.index = words(index, "index");
  out.columns = make_numbers(context_, (term.data.size() + term.stored) * n, "columns");
  for (std::size_t k = 0; k < term.data.size(); ++k)
    write_numbers(context_, out.columns, term.data[k], k * n);
  out.rows = make_numbers(context_, out.outputs * n, "rows");
  out.entries = words(term.entries, "entries");
  std::vector<std::uint32_t> products;
  std::vector<double> scales;
  for (const ListedProduct& product : term.products) {
    products.insert(products.end(), {product.left, product.right});
    scales.push_back(product.scale);
  }
  out.slots = words(term.slots, "slots");
  out.starts = words(term.starts, "starts");
  for (std::size_t k = 1; k < term.starts.size(); ++k)
    out.most_products = std::max(out.most_products, term.starts[k] - term.starts[k - 1]);
  out.most_products = std::max(out.most_products, 1U);
  out.products = words(products, "products");
  out.scales = make_buffer(context_, std::span<const double>(scales), "scales");
  for (const ListedWidth& width : term.widths) out.widths.push_back(make_lists(width, out));
  return out;
}

void DeviceListedSolver::set_coarse(const std::optional<ListedCoarse>& coarse) {
  recorder_.structure.changed();
  coarse_ = {};
  if (coarse) {
    coarse_ = {.functions = coarse->functions,
               .entries = static_cast<std::uint32_t>(coarse->scalars.size()),
               .aggregates = static_cast<std::uint32_t>(coarse->starts.size() - 1),
               .starts = words(coarse->starts, "coarse starts"),
               .scalars = words(coarse->scalars, "coarse entries"),
               .homes = words(coarse->homes, "coarse homes"),
               .vectors = make_buffer(context_, coarse->vectors, "coarse vectors")};
  }
  const std::size_t numbers = kCoarse + coarse_.unknowns();
  given_ = on_host(numbers, MemoryKind::Upload, "given numbers");
  numbers_ = make_numbers(context_, numbers, "numbers");
  restricted_ = on_host(coarse_.unknowns(), MemoryKind::Readback, "restricted");
}

void DeviceListedSolver::set_column(std::size_t term, std::size_t column,
                                    std::span<const double> values) {
  Term& of = terms_[term];
  write_numbers(context_, of.columns, values.first(of.instances),
                (of.data + column) * of.instances);
}

void DeviceListedSolver::set_damping(std::span<const double> damping,
                                     std::span<const std::uint8_t> held) {
  write_numbers(context_, damping_, damping);
  std::vector<std::uint32_t> by_scalar(held.begin(), held.end());
  by_scalar.resize(scalars_);
  context_.device->upload<std::uint32_t>(held_, by_scalar);
}

void DeviceListedSolver::begin(std::span<const double> right_side,
                               std::span<const double> inverse) {
  write_numbers(context_, residual_, right_side);
  // Kernels read entry k of the inverse of block b at k * count + b.
  std::vector<double> by_entry(inverse.size());
  for (const ListedSystem::Blocks& of : blocks_) {
    const std::size_t size = std::size_t{of.width} * (of.width + 1) / 2;
    ir::parallel_pieces(of.count, 1 << 14, [&](std::size_t first, std::size_t end) {
      for (std::size_t b = first; b < end; ++b)
        for (std::size_t k = 0; k < size; ++k)
          by_entry[of.packed + k * of.count + b] = inverse[of.packed + b * size + k];
    });
  }
  write_numbers(context_, inverse_, by_entry);
}

void DeviceListedSolver::record_given(CommandList& list) {
  if (list.declared() == nullptr) list.copy(given_, 0, numbers_, 0, given_.size());
  list.barrier();
}

void DeviceListedSolver::record_update(CommandList& list, bool first) {
  record_given(list);
  for (const ListedSystem::Blocks& of : blocks_)
    ops_.record(list,
                kernel::listed_update{{.product = product_,
                                       .residual = residual_,
                                       .direction = direction_,
                                       .delta = x_,
                                       .preconditioned = preconditioned_,
                                       .inverse_blocks = inverse_},
                                      {.count = static_cast<std::uint32_t>(of.count),
                                       .first = static_cast<std::uint32_t>(of.first),
                                       .inverse_first = static_cast<std::uint32_t>(of.packed),
                                       .overwrite = first ? 1U : 0U,
                                       .alpha = kAlpha}},
                {.width = of.width, .scalars = &numbers_});
  list.barrier();
  ops_.record(list,
              kernel::listed_norms{{.residual = residual_,
                                    .preconditioned = preconditioned_,
                                    .ends = ends_,
                                    .partials = norms_},
                                   {.count = scalars_, .out_stride = chunks_}},
              {.groups = chunks_});
  if (coarse_.unknowns() > 0) record_restrict(list, residual_);
}

void DeviceListedSolver::record_restrict(CommandList& list, const Buffer& vector) {
  ops_.record(list,
              kernel::listed_restrict{{.residual = vector,
                                       .vectors = coarse_.vectors,
                                       .starts = coarse_.starts,
                                       .entries = coarse_.scalars,
                                       .partials = restricted_},
                                      {.count = coarse_.entries}},
              {.width = coarse_.functions, .groups = coarse_.aggregates});
}

void DeviceListedSolver::record_expand(CommandList& list, bool overwrite) {
  ops_.record(list,
              kernel::coarse_expand{
                  {.vectors = coarse_.vectors,
                   .weights = {numbers_, kCoarse * sizeof(double)},
                   .result = preconditioned_,
                   .entries = coarse_.scalars,
                   .aggregates = coarse_.homes},
                  {.count = coarse_.entries, .first = 0, .overwrite = overwrite ? 1U : 0U}},
              {.width = coarse_.functions});
  list.barrier();
}

void DeviceListedSolver::record_sums(CommandList& list, const Term& term, std::uint32_t width,
                                     const Sums& sums, const Buffer& result, bool overwrite) {
  const auto record = [&](auto kernel, std::uint32_t count, const Buffer& items,
                          std::uint32_t groups) {
    if (count == 0) return;
    kernel.buffers = {.columns = term.columns,
                      .rows = term.rows,
                      .scales = term.scales,
                      .result = result,
                      .items = items,
                      .entries = term.entries,
                      .slots = term.slots,
                      .starts = term.starts,
                      .products = term.products};
    kernel.push.count = count;
    kernel.push.instances = static_cast<std::uint32_t>(term.instances);
    kernel.push.slot_bits = term.slot_bits;
    kernel.push.overwrite = overwrite ? 1U : 0U;
    ops_.record(list, kernel, {.width = width, .groups = groups});
  };
  record(kernel::listed_sums{}, sums.alone, sums.of_alone,
         context_.grid(std::uint64_t{sums.alone} * width));
  kernel::listed_sums_together together{};
  together.push.most = term.most_products;
  const std::uint64_t most = context_.device->limits().max_workgroups_x;
  record(together, sums.together, sums.of_together,
         static_cast<std::uint32_t>(std::min(std::uint64_t{sums.together} * width, most)));
}

void DeviceListedSolver::record_sums(CommandList& list, const Term& term, const Lists& lists) {
  record_sums(list, term, lists.width, lists.lists, product_, false);
  record_sums(list, term, lists.width, lists.segments, lists.partial, true);
  if (lists.long_lists == 0) return;
  list.barrier();
  ops_.record(list,
              kernel::listed_segments{
                  {.segments = lists.partial, .result = product_, .items = lists.of_long_lists},
                  {.count = lists.long_lists}},
              {.width = lists.width});
}

void DeviceListedSolver::record_product(CommandList& list, bool first) {
  ops_.record(list,
              kernel::listed_direction{
                  {.preconditioned = preconditioned_, .direction = direction_, .product = product_},
                  {.count = scalars_, .overwrite = first ? 1U : 0U, .beta = kBeta}},
              {.scalars = &numbers_});
  list.barrier();
  for (Term& term : terms_) {
    BindingTable table;
    table.set(BufferRole::x, direction_);
    table.set(BufferRole::direction, direction_);
    table.set(BufferRole::data_columns, term.columns);
    table.set(BufferRole::index_columns, term.index);
    table.set(BufferRole::results, term.rows);
    const auto stride = static_cast<std::uint32_t>(term.instances);
    dispatch_all(context_, list, term.kernel, table, {.stride = stride, .out_stride = stride},
                 term.instances);
  }
  // A block has the sums of one term after the other.
  for (const Term& term : terms_) {
    list.barrier();
    for (const Lists& lists : term.widths) record_sums(list, term, lists);
  }
  list.barrier();
  ops_.record(list,
              kernel::listed_curvature{{.direction = direction_,
                                        .damping = damping_,
                                        .product = product_,
                                        .fixed_scalars = held_,
                                        .ends = ends_,
                                        .partials = curvature_},
                                       {.count = scalars_}},
              {.groups = chunks_});
}

void DeviceListedSolver::run(const std::string& name, const Recorder::Record& record) {
  recorder_.evaluate(name, record);
  recorder_.last().wait();
}

ListedSolver::Residual DeviceListedSolver::update(std::optional<double> alpha) {
  numbers_of(given_, kCoarse)[0] = alpha.value_or(0);
  run(alpha ? "listed_update" : "listed_start",
      [&](CommandList& list) { record_update(list, !alpha); });
  const std::span<const double> norms = numbers_of(norms_, 2 * std::size_t{chunks_});
  return {norms.first(chunks_), norms.last(chunks_), numbers_of(restricted_, coarse_.unknowns())};
}

std::span<const double> DeviceListedSolver::product(std::optional<double> beta,
                                                    std::span<const double> coarse) {
  const std::span<double> given = numbers_of(given_, kCoarse + coarse_.unknowns());
  given[1] = beta.value_or(0);
  std::ranges::copy(coarse, given.subspan(kCoarse).begin());
  run(beta ? "listed_product" : "listed_first_product", [&](CommandList& list) {
    record_given(list);
    if (coarse_.unknowns() > 0) record_expand(list, false);
    record_product(list, !beta);
  });
  return numbers_of(curvature_, chunks_);
}

std::span<const double> DeviceListedSolver::coarse_product(std::span<const double> y) {
  std::ranges::copy(y, numbers_of(given_, kCoarse + coarse_.unknowns()).subspan(kCoarse).begin());
  run("listed_coarse", [&](CommandList& list) {
    if (list.declared() == nullptr) list.fill(preconditioned_, 0, preconditioned_.size(), 0);
    record_given(list);
    record_expand(list, true);
    record_product(list, true);
    list.barrier();
    record_restrict(list, product_);
  });
  return numbers_of(restricted_, coarse_.unknowns());
}

void DeviceListedSolver::solution(std::span<double> x) { read_numbers(context_, x_, x); }

}  // namespace

std::unique_ptr<ListedSolver> make_listed_solver(const EngineOptions& options,
                                                 std::optional<std::uint64_t> least_unknowns) {
  EngineOptions wide = options;
  wide.precision = codegen::Precision::f64;
  return std::make_unique<DeviceListedSolver>(wide, least_unknowns);
}

}  // namespace topograd::runtime::vulkan
