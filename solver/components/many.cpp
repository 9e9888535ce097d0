// Copies of one problem, solved side by side.
#include "../solve_many.hpp"

#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "component_route.hpp"
#include "separate.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace topograd {
namespace {

// A quiet NaN with a mark, 8 bits of the array and 24 bits of the entry.
constexpr std::uint64_t kMark = 0x7FFC0DE500000000U, kMarked = 0xFFFFFFFF00000000U;
constexpr std::size_t kMostArrays = 1U << 8, kMostEntries = 1U << 24;

struct Entry {
  std::size_t array = 0, entry = 0;
};

std::optional<Entry> entry_of(double number) {
  const auto bits = std::bit_cast<std::uint64_t>(number);
  if ((bits & kMarked) != kMark) return std::nullopt;
  return Entry{(bits >> 24U) & 0xFFU, bits & 0xFFFFFFU};
}

void check_bounds_of(std::span<const double> lower, std::span<const double> upper,
                     std::span<const double> x) {
  for (std::size_t k = 0, s = 0; k < x.size() && !lower.empty(); ++k, ++s) {
    if (s == lower.size()) s = 0;
    if (x[k] >= lower[s] && x[k] <= upper[s]) continue;
    throw Error(ErrorCode::InvalidArgument,
                "solve_many: unknown " + std::to_string(s) + " of problem " +
                    std::to_string(k / lower.size()) + " starts at " + std::to_string(x[k]) +
                    ", outside its bounds [" + std::to_string(lower[s]) + ", " +
                    std::to_string(upper[s]) + "]");
  }
}

}  // namespace

double code_of(std::size_t array, std::size_t entry) {
  if (array >= kMostArrays || entry >= kMostEntries)
    throw Error(ErrorCode::InvalidArgument,
                "solve_many: expected at most " + std::to_string(kMostArrays) +
                    " arrays of data and " + std::to_string(kMostEntries) +
                    " numbers of each in a problem, got number " + std::to_string(entry) +
                    " of array " + std::to_string(array));
  return std::bit_cast<double>(kMark | (std::uint64_t{array} << 24U) | entry);
}

/// A group of copies of a model; of none at first.
class CopiesSolver::Copies {
 public:
  ///   widths  numbers of each array of data, of one copy
  Copies(const runtime::Model& model, std::span<const std::size_t> widths, codegen::Bits bits)
      : model_(model), widths_(widths) {
    ComponentGroup& group = out_.groups.emplace_back();
    group.numbers = {0, 1, {}};
    add_blocks(group);
    for (const auto& [term, i] : rows_of(model, bits)) add_rows(group, *term, i);
    out_.largest = group.columns;
    while (first_ + 1 < group.scalars && group.column[first_] == ComponentGroup::kFixed) ++first_;
  }

  /// From now on so many copies, with these numbers of each array of data.
  void set(std::size_t count, std::span<const double* const> data) {
    ComponentGroup& group = out_.groups.front();
    out_.count = group.count = count;
    out_.first.resize(count);
    for (std::size_t k = 0; k < count; ++k)
      out_.first[k] = static_cast<std::uint32_t>(k * group.scalars + first_);
    std::size_t next = 0;
    for (ComponentRows& rows : group.residuals)
      for (ComponentNumbers& numbers : rows.data)
        if (numbers.positions != nullptr) numbers.from = data[arrays_[next++]];
  }

  const ComponentGroups& groups() const { return out_; }

 private:
  using Row = std::pair<const runtime::Term*, std::size_t>;

  /// Portable bits: in the order in which they were added, as ComponentSearch::groups().
  static std::vector<Row> rows_of(const runtime::Model& model, codegen::Bits bits) {
    std::vector<Row> rows;
    for (const runtime::Term& term : model.terms)
      for (std::size_t i = 0; i < term.batch->size(); ++i) rows.emplace_back(&term, i);
    const auto number = [](const Row& row) { return row.first->batch->residual_row(row.second); };
    if (bits == codegen::Bits::portable) std::ranges::sort(rows, {}, number);
    return rows;
  }

  bool is_constant(std::size_t scalar) const {
    return !model_.constant.empty() && model_.constant[scalar] != 0;
  }

  void add_blocks(ComponentGroup& group) {
    for (const runtime::ParameterArray& array : model_.arrays)
      for (std::uint64_t b = 0; b < array.blocks; ++b) add_block(group, array.width);
    set_manifolds(group);
    for (ComponentBlock& block : group.blocks) {
      block.column = group.columns;
      for (std::uint32_t s = block.first; s < block.first + block.width; ++s) {
        const bool fixed = block.columns == 0 || is_constant(s);
        group.column.push_back(fixed ? ComponentGroup::kFixed : group.columns);
        if (!fixed && block.manifold == nullptr) ++group.columns;
        group.bounded |= !fixed && has_bound(s);
      }
      if (block.manifold != nullptr) group.columns += block.columns;
    }
    for (std::uint32_t s = 0; s < group.scalars; ++s) group.x.push_back({s, group.scalars, {}});
  }

  bool has_bound(std::size_t s) const {
    return !model_.lower.empty() && (model_.lower[s] > -std::numeric_limits<double>::infinity() ||
                                     model_.upper[s] < std::numeric_limits<double>::infinity());
  }

  void add_block(ComponentGroup& group, std::uint32_t width) const {
    ComponentBlock block{.first = group.scalars, .width = width};
    for (std::uint32_t k = 0; k < width; ++k)
      block.columns += is_constant(group.scalars + k) ? 0 : 1;
    group.scalars += width;
    group.blocks.push_back(block);
  }

  void set_manifolds(ComponentGroup& group) const {
    if (model_.manifolds == nullptr) return;
    for (const runtime::ManifoldBlocks& on : model_.manifolds->all) {
      for (const std::uint32_t first : on.blocks) {
        for (ComponentBlock& block : group.blocks) {
          if (block.first != first || block.columns == 0) continue;
          block.manifold = &on;
          block.columns = on.tangent;
          group.on_manifolds = true;
        }
      }
    }
  }

  void add_rows(ComponentGroup& group, const runtime::Term& term, std::size_t i) {
    const ir::Batch& batch = *term.batch;
    ComponentRows rows;
    ComponentKernel kernel{.term = &term};
    for (std::uint32_t s = 0; s < batch.parameter_columns(); ++s) {
      const std::uint32_t scalar = batch.index(i, s);
      const auto found = std::ranges::find(rows.unknowns, scalar);
      kernel.parameter_of_slot.push_back(static_cast<std::uint32_t>(found - rows.unknowns.begin()));
      if (found != rows.unknowns.end()) continue;
      rows.unknowns.push_back(scalar);
      kernel.free.push_back(group.column[scalar] == ComponentGroup::kFixed ? 0 : 1);
    }
    for (std::uint32_t d = 0; d < batch.data_columns(); ++d)
      rows.data.push_back(number(batch.data(i, d)));
    for (std::uint32_t u = 0; u < batch.uniform_columns(); ++u)
      rows.data.push_back(
          {model_.uniforms.data() + batch.index(i, batch.parameter_columns() + u), nullptr});
    rows.kernel = group.number_of(std::move(kernel));
    group.rows += static_cast<std::uint32_t>(term.topology->program.outputs.size());
    group.residuals.push_back(std::move(rows));
  }

  ComponentNumbers number(double value) {
    if (const std::optional<Entry> of = entry_of(value)) {
      positions_.push_back({of->entry, widths_[of->array], {}});
      arrays_.push_back(of->array);
      return {nullptr, &positions_.back()};
    }
    constants_.push_back(value);
    return {&constants_.back(), nullptr};
  }

  const runtime::Model& model_;
  std::span<const std::size_t> widths_;
  ComponentGroups out_;
  std::size_t first_ = 0;  // free scalar of a copy
  std::deque<Positions> positions_;
  std::vector<std::size_t> arrays_;  // by number that differs among the copies
  std::deque<double> constants_;
};

struct CopiesSolver::Impl {
  /// Options of a solve of copies, which `automatic` choices become here.
  static SolverOptions options_of(const SolverOptions& options) {
    SolverOptions out = resolved(options);
    if (out.method == Method::automatic) out.method = Method::levenberg_marquardt;
    return out;
  }
  static ProblemModel model_of(const Problem& prototype, const SolverOptions& options) {
    ProblemUse::settle_long_blocks(prototype, true);
    ProblemModel model = make_model("solve_many", prototype);
    check_components("solve_many", model, options);
    return model;
  }

  const SolverOptions options;
  const std::vector<std::size_t> widths;
  const ProblemModel model;
  const bool checks_ends;
  Copies copies{model.model, widths, options.bits};
  ComponentRoute route{copies.groups(), options, checks_ends};
  std::optional<ComponentSolver> on_cpu = {}, on_device = {};

  /// Minimises where the route says, or on the CPU where a device fails that it chose.
  void run(std::span<double> x, Summary& summary) {
    const MinimizerDevice* const device = route.decide();
    try {
      run_on(device, x, summary);
    } catch (const Error& failure) {
      if (!route.take_over(failure)) throw;
      run_on(nullptr, x, summary);
    }
    route.describe(summary);
  }

 private:
  void run_on(const MinimizerDevice* device, std::span<double> x, Summary& summary) {
    std::optional<ComponentSolver>& solver = device != nullptr ? on_device : on_cpu;
    const auto begin = std::chrono::steady_clock::now();
    const bool cold = !solver;
    try {
      if (cold)
        solver.emplace(
            copies.groups(), options, model.model.lower, model.model.upper,
            ComponentSolver::Runs::again, device,
            checks_ends ? ComponentSolver::Verdicts::host : ComponentSolver::Verdicts::device);
      solver->run(x, summary);
    } catch (...) {
      solver.reset();  // a device that was lost is opened anew
      throw;
    }
    route.ended(seconds_since(begin), cold);
  }
};

CopiesSolver::CopiesSolver(const Problem& prototype, std::vector<std::size_t> widths,
                           const SolverOptions& options, bool checks_ends) {
  SolverOptions asked = Impl::options_of(options);
  ProblemModel model = Impl::model_of(prototype, asked);
  impl_.reset(new Impl{std::move(asked), std::move(widths), std::move(model), checks_ends});
}
CopiesSolver::~CopiesSolver() = default;

Summary CopiesSolver::solve(std::size_t count, std::span<double> x,
                            std::span<const double* const> data) {
  const auto begin = std::chrono::steady_clock::now();
  Impl& s = *impl_;
  const runtime::Model& model = s.model.model;
  if (count == 0 || x.size() != count * model.scalars ||
      x.size() >= std::numeric_limits<std::uint32_t>::max())
    throw Error(ErrorCode::InvalidArgument,
                "solve_many: expected " + std::to_string(model.scalars) +
                    " starts for each of at least one problem and fewer than 2^32 in all, got " +
                    std::to_string(x.size()) + " for " + std::to_string(count) + " problems");
  check_bounds_of(model.lower, model.upper, x);
  s.copies.set(count, data);
  const ComponentGroups& groups = s.copies.groups();
  Summary summary;
  summary.components.separate = true;
  summary.components.why =
      std::to_string(count) + " problems of " + std::to_string(groups.largest) + " unknowns";
  summary.parameters = x.size();
  summary.unknowns = summary.read_unknowns = count * groups.largest;
  summary.residuals = count * model.rows;
  summary.method = summary.step_method = s.options.method;
  summary.times.plan_seconds = seconds_since(begin);
  s.run(x, summary);
  summary.times.total_seconds = seconds_since(begin);
  return summary;
}

Summary solve_copies(const Problem& prototype, std::size_t count, std::span<double> x,
                     std::span<const ManyData> data, const SolverOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::size_t> widths;
  std::vector<const double*> numbers;
  for (const ManyData& array : data) {
    widths.push_back(array.width);
    numbers.push_back(array.numbers);
  }
  CopiesSolver solver(prototype, std::move(widths), options);
  const double planned = seconds_since(begin);
  Summary summary = solver.solve(count, x, numbers);
  summary.times.plan_seconds += planned;
  summary.times.total_seconds += planned;
  return summary;
}

struct ManySolver::Impl {
  std::vector<double> first;  // memory of the prototype's unknowns
  std::vector<std::size_t> entries;
  Loss loss;
  bool checks_ends;
  SolverOptions options;
  Problem prototype;
  std::vector<Value> rows = {};  // that are to be added
  std::unique_ptr<CopiesSolver> solver = {};
};

ManySolver::ManySolver(std::size_t unknowns, std::vector<std::size_t> entries,
                       const ManyShape& shape, const SolverOptions& options)
    : impl_(new Impl{.first = std::vector<double>(unknowns),
                     .entries = std::move(entries),
                     .loss = shape.loss,
                     .checks_ends = shape.checks_ends,
                     .options = options,
                     .prototype = {}}) {
  Impl& s = *impl_;
  if (unknowns == 0)
    throw Error(ErrorCode::InvalidArgument, "solve_many: expected at least one unknown, got 0");
  for (const std::vector<double>* const bounds : {&shape.lower, &shape.upper})
    if (!bounds->empty() && bounds->size() != unknowns)
      throw Error(ErrorCode::InvalidArgument, "solve_many: expected bounds for each of " +
                                                  std::to_string(unknowns) + " unknowns, got " +
                                                  std::to_string(bounds->size()));
  for (std::size_t k = 0; k < unknowns; ++k) {
    if (!shape.lower.empty()) s.first[k] = std::max(s.first[k], shape.lower[k]);
    if (!shape.upper.empty()) s.first[k] = std::min(s.first[k], shape.upper[k]);
  }
  one_.x_ = s.prototype.add_parameters(std::span(s.first), static_cast<int>(unknowns));
  for (std::size_t a = 0; a < s.entries.size(); ++a) {
    std::vector<double> codes(s.entries[a]);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = code_of(a, i);
    one_.data_.push_back(s.prototype.add_data(codes));
  }
  for (std::size_t k = 0; k < shape.lower.size(); ++k)
    s.prototype.set_lower_bound(one_.x_, 0, static_cast<int>(k), shape.lower[k]);
  for (std::size_t k = 0; k < shape.upper.size(); ++k)
    s.prototype.set_upper_bound(one_.x_, 0, static_cast<int>(k), shape.upper[k]);
}
ManySolver::~ManySolver() = default;
ManySolver::ManySolver(ManySolver&&) noexcept = default;
ManySolver& ManySolver::operator=(ManySolver&&) noexcept = default;

void ManySolver::add(const Value& row) {
  if (!impl_->loss.is_trivial()) return add_block({&row, 1});
  impl_->rows.push_back(row);
}

void ManySolver::add_block(std::span<const Value> rows) {
  add_rest();
  impl_->prototype.add_residual(rows, {.loss = impl_->loss});
}

/// Adds the rows that were collected.
void ManySolver::add_rest() {
  ProblemUse::add_any(impl_->prototype, impl_->rows);
  impl_->rows.clear();
}

Summary ManySolver::solve(std::span<double> starts, std::span<const std::span<const double>> data) {
  const auto begin = std::chrono::steady_clock::now();
  Impl& s = *impl_;
  const std::size_t unknowns = s.first.size(), count = starts.size() / unknowns;
  const auto require = [&](std::size_t got, std::size_t expected, const std::string& what) {
    if (got == expected) return;
    throw Error(ErrorCode::InvalidArgument, "solve_many: expected " + std::to_string(expected) +
                                                " " + what + " for " + std::to_string(count) +
                                                " problems, got " + std::to_string(got));
  };
  require(starts.size(), std::max<std::size_t>(count, 1) * unknowns, "starts");
  require(data.size(), s.entries.size(), "arrays of data");
  std::vector<const double*> numbers;
  for (std::size_t a = 0; a < data.size(); ++a) {
    require(data[a].size(), count * s.entries[a], "numbers in array " + std::to_string(a));
    numbers.push_back(data[a].data());
  }
  if (!s.solver)
    s.solver = std::make_unique<CopiesSolver>(s.prototype, s.entries, s.options, s.checks_ends);
  Summary summary = s.solver->solve(count, starts, numbers);
  summary.times.total_seconds = seconds_since(begin);
  return summary;
}

namespace detail {

std::size_t share_of(std::size_t numbers, std::size_t count, const std::string& what) {
  if (count == 0)
    throw Error(ErrorCode::InvalidArgument,
                "solve_many: expected at least one problem for 0 problems, got 0");
  if (numbers == 0 || numbers % count != 0)
    throw Error(ErrorCode::InvalidArgument, "solve_many: expected as many " + what + " for " +
                                                std::to_string(count) + " problems, got " +
                                                std::to_string(numbers));
  return numbers / count;
}

}  // namespace detail

}  // namespace topograd
