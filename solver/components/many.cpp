// Copies of one problem, solved side by side.
#include "../solve_many.hpp"

#include "../../frontend/inspect/problem_use.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
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

/// A group of copies of a model.
class Copies {
 public:
  Copies(const runtime::Model& model, std::size_t count, std::span<const ManyData> data)
      : model_(model), data_(data) {
    out_.count = count;
    ComponentGroup group;
    group.count = count;
    group.numbers = {0, 1, {}};
    add_blocks(group);
    for (const runtime::Term& term : model.terms)
      for (std::size_t i = 0; i < term.batch->size(); ++i) add_rows(group, term, i);
    out_.largest = group.columns;
    std::size_t first = 0;
    while (first + 1 < group.scalars && group.column[first] == ComponentGroup::kFixed) ++first;
    for (std::size_t k = 0; k < count; ++k)
      out_.first.push_back(static_cast<std::uint32_t>(k * group.scalars + first));
    out_.groups.push_back(std::move(group));
  }

  const ComponentGroups& groups() const { return out_; }

 private:
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
      places_.push_back({of->entry, data_[of->array].width, {}});
      return {data_[of->array].numbers, &places_.back()};
    }
    constants_.push_back(value);
    return {&constants_.back(), nullptr};
  }

  const runtime::Model& model_;
  std::span<const ManyData> data_;
  ComponentGroups out_;
  std::deque<Places> places_;
  std::deque<double> constants_;
};

void check_bounds_of(std::span<const double> lower, std::span<const double> upper,
                     std::span<const double> x) {
  for (std::size_t k = 0; k < x.size() && !lower.empty(); ++k) {
    const std::size_t s = k % lower.size();
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

Summary solve_copies(const Problem& prototype, std::size_t count, std::span<double> x,
                     std::span<const ManyData> data, const SolverOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  SolverOptions asked = resolved(options);
  if (asked.method == Method::automatic) asked.method = Method::levenberg_marquardt;
  ProblemUse::settle_long_blocks(prototype, true);
  const ProblemModel model = make_model("solve_many", prototype);
  check_components("solve_many", model, asked);
  if (count == 0 || x.size() != count * model.model.scalars ||
      x.size() >= std::numeric_limits<std::uint32_t>::max())
    throw Error(ErrorCode::InvalidArgument,
                "solve_many: expected " + std::to_string(model.model.scalars) +
                    " starts for each of at least one problem and fewer than 2^32 in all, got " +
                    std::to_string(x.size()) + " for " + std::to_string(count) + " problems");
  check_bounds_of(model.model.lower, model.model.upper, x);
  const Copies copies(model.model, count, data);
  Summary summary;
  summary.components.separate = true;
  summary.components.why = std::to_string(count) + " problems of " +
                           std::to_string(copies.groups().largest) + " unknowns";
  summary.parameters = x.size();
  summary.unknowns = summary.read_unknowns = count * copies.groups().largest;
  summary.residuals = count * model.model.rows;
  summary.method = summary.step_method = asked.method;
  summary.times.plan_seconds = seconds_since(begin);
  minimize_components(copies.groups(), asked, model.model.lower, model.model.upper, x, summary);
  summary.times.total_seconds = seconds_since(begin);
  return summary;
}

struct ManyTrace::Impl {
  std::size_t count = 0;
  std::span<double> starts;
  Loss loss;
  std::vector<double> first;  // memory of the prototype's unknowns
  std::vector<ManyData> data;
  Problem prototype;
};

ManyTrace::ManyTrace(std::size_t count, std::span<double> starts, const ManyOptions& many)
    : impl_(std::make_unique<Impl>()) {
  const auto require = [&](bool ok, const std::string& what, std::size_t got) {
    if (!ok)
      throw Error(ErrorCode::InvalidArgument, "solve_many: expected " + what + " for " +
                                                  std::to_string(count) + " problems, got " +
                                                  std::to_string(got));
  };
  require(count > 0, "at least one problem", count);
  require(!starts.empty() && starts.size() % count == 0, "as many starts", starts.size());
  Impl& s = *impl_;
  s.count = count;
  s.starts = starts;
  s.loss = many.loss;
  const std::size_t n = starts.size() / count;
  s.first.assign(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(n));
  one_.x_ = s.prototype.add_parameters(std::span(s.first), static_cast<int>(n));
  for (std::size_t a = 0; a < many.data.size(); ++a) {
    const std::span<const double> numbers = many.data[a];
    require(!numbers.empty() && numbers.size() % count == 0,
            "as many numbers in array " + std::to_string(a) + " of the data", numbers.size());
    const std::size_t width = numbers.size() / count;
    std::vector<double> codes(width);
    for (std::size_t i = 0; i < width; ++i) codes[i] = code_of(a, i);
    one_.data_.push_back(s.prototype.add_data(codes));
    s.data.push_back({numbers.data(), width});
  }
  for (const std::vector<double>* const bounds : {&many.lower, &many.upper})
    require(bounds->empty() || bounds->size() == n, "bounds for each unknown", bounds->size());
  for (std::size_t k = 0; k < many.lower.size(); ++k)
    s.prototype.set_lower_bound(one_.x_, 0, static_cast<int>(k), many.lower[k]);
  for (std::size_t k = 0; k < many.upper.size(); ++k)
    s.prototype.set_upper_bound(one_.x_, 0, static_cast<int>(k), many.upper[k]);
}
ManyTrace::~ManyTrace() = default;

void ManyTrace::add_block(std::span<const Value> rows) {
  impl_->prototype.add_residual(rows, {.loss = impl_->loss});
}

Summary ManyTrace::solve(const SolverOptions& options) {
  return solve_copies(impl_->prototype, impl_->count, impl_->starts, impl_->data, options);
}

}  // namespace topograd
