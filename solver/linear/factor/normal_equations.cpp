// JᵀJ or the Hessian of a whole problem as a sparse matrix with a fixed pattern.
#include "normal_equations.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/linear/dense.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

namespace topograd {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::size_t kMostEntries = std::size_t{1} << 31;
constexpr std::size_t kUsesPerRange = 2048;
/// Rows are asked for so many uses before they are read: those of one scalar lie far apart.
constexpr std::size_t kUsesAhead = 6;
constexpr std::size_t kMostExpected = 64;  ///< numbers of a use

std::size_t pair_count(std::size_t slots) { return slots * (slots + 1) / 2; }

/// Position of (s, t), s <= t, in a triangle packed by rows.
std::size_t packed(std::size_t s, std::size_t t, std::size_t slots) {
  return s * slots - s * (s + 1) / 2 + t;
}

/// Free index of each parameter slot of each instance of a term: [instance * slots + slot].
std::vector<std::uint32_t> free_indices(const runtime::Term& term,
                                        std::span<const std::uint32_t> to_free) {
  const std::size_t instances = term.batch->size();
  const std::uint32_t slots = term.batch->parameter_columns();
  std::vector<std::uint32_t> out(instances * slots);
  std::vector<std::uint32_t> column(instances);
  for (std::uint32_t s = 0; s < slots; ++s) {
    term.batch->copy_index_column(s, 0, column);
    for (std::size_t i = 0; i < instances; ++i) out[i * slots + s] = to_free[column[i]];
  }
  return out;
}

}  // namespace

JacobianRows::JacobianRows(const runtime::Model& model) : values_(model.terms.size()) {
  for (const runtime::Term& term : model.terms) {
    const std::size_t rows = term.energy ? 0 : term.topology->program.outputs.size();
    sizes_.push_back(term.batch->size() * rows * term.batch->parameter_columns());
  }
}

void JacobianRows::refresh(runtime::Engine& engine) {
  for (std::size_t t = 0; t < sizes_.size(); ++t) {
    if (sizes_[t] == 0) continue;
    if (!values_[t]) values_[t] = std::make_unique_for_overwrite<double[]>(sizes_[t]);
    engine.jacobian(t, {values_[t].get(), sizes_[t]});
  }
}

NormalEquations::NormalEquations(const runtime::Model& model, bool with_energies, int threads,
                                 std::span<const std::uint8_t> left_out)
    : jacobians_(model), pool_(threads) {
  std::vector<std::uint32_t> to_free(model.scalars, kNone);
  for (std::uint32_t k = 0; k < model.scalars; ++k) {
    if (!model.constant.empty() && model.constant[k]) continue;
    if (!left_out.empty() && left_out[k] != 0) continue;
    to_free[k] = static_cast<std::uint32_t>(free_.size());
    free_.push_back(k);
  }
  std::vector<std::vector<std::uint32_t>> indices;
  for (const runtime::Term& term : model.terms) {
    if (term.energy && !with_energies) {
      indices.emplace_back();
      terms_.emplace_back();
      continue;
    }
    indices.push_back(free_indices(term, to_free));
    const std::uint32_t slots = term.batch->parameter_columns();
    if (pair_count(slots) >= kMostEntries && term.batch->size() > 0) {
      throw Error(ErrorCode::Unsupported,
                  "cholesky: " + term.name + " reads " + std::to_string(slots) +
                      " unknowns, whose part of JᵀJ has 2^31 entries or more; use pcg");
    }
    const auto rows = static_cast<std::uint32_t>(term.topology->program.outputs.size());
    terms_.push_back({.rows = rows, .slots = slots, .instances = term.batch->size()});
  }
  if (with_energies) find_partly_free(indices);
  find_groups(indices);
  find_pattern(indices);
  find_ranges();
  values_.assign(rows_.size(), 0.0);
}

void NormalEquations::find_partly_free(const std::vector<std::vector<std::uint32_t>>& indices) {
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    const std::uint32_t slots = terms_[t].slots;
    for (std::size_t i = 0; i < terms_[t].instances; ++i) {
      std::vector<std::uint32_t> free;
      for (std::uint32_t s = 0; s < slots; ++s)
        if (indices[t][i * slots + s] != kNone) free.push_back(s);
      if (!free.empty() && free.size() != slots) partly_free_.push_back({t, i, std::move(free)});
    }
  }
}

void NormalEquations::find_groups(const std::vector<std::vector<std::uint32_t>>& indices) {
  std::vector<std::size_t> starts(free_.size() + 1, 0);  // of the uses of a column
  for (const std::vector<std::uint32_t>& term : indices)
    for (const std::uint32_t c : term)
      if (c != kNone) ++starts[c + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::vector<Use> uses(starts.back());
  std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
  for (std::uint32_t t = 0; t < indices.size(); ++t) {
    const std::uint32_t slots = terms_[t].slots;
    for (std::size_t k = 0; k < indices[t].size(); ++k) {
      const std::uint32_t c = indices[t][k];
      if (c != kNone) uses[next[c]++] = {t, static_cast<std::uint32_t>(k / slots), 0, 0, 0};
    }
  }
  const auto of = [&](std::size_t c) {
    return std::span(uses).subspan(starts[c], starts[c + 1] - starts[c]);
  };
  const auto same = [](const Use& a, const Use& b) {
    return a.term == b.term && a.instance == b.instance;
  };
  const auto joins = [&](std::uint32_t c) {  // column c to the group of c − 1
    const std::span<const Use> its = of(c);
    return c > 0 && groups_.back().width < Panel::kMostColumns && !its.empty() &&
           std::ranges::equal(of(c - 1), its, same) &&
           std::ranges::adjacent_find(its, same) == its.end();
  };
  for (std::uint32_t c = 0; c < free_.size(); ++c) {
    if (joins(c)) {
      ++groups_.back().width;
    } else {
      groups_.push_back({c, 1, uses_.size(), 0});
      uses_.insert(uses_.end(), of(c).begin(), of(c).end());
    }
  }
  groups_.push_back({static_cast<std::uint32_t>(free_.size()), 0, uses_.size(), 0});
}

void NormalEquations::add_columns(const Group& group, std::span<const std::uint32_t> rows) {
  if (rows_.size() + rows.size() * group.width >= kMostEntries)
    throw Error(ErrorCode::Unsupported, "cholesky: JᵀJ has 2^31 entries or more; use pcg");
  for (std::uint32_t j = 0; j < group.width; ++j) {
    starts_.push_back(static_cast<std::int32_t>(rows_.size()));
    rows_.insert(rows_.end(), rows.begin() + j, rows.end());
  }
}

std::uint32_t NormalEquations::number_of(const Order& order, OrderNumbers& known) {
  const auto [entry, is_new] = known.try_emplace(order, static_cast<std::uint32_t>(known.size()));
  if (is_new) {
    orders_.items.insert(orders_.items.end(), order.begin(), order.end());
    orders_.close();
    const auto follows = [](std::uint16_t a, std::uint16_t b) { return b == a + 1; };
    const auto gap = std::ranges::adjacent_find(order, std::not_fn(follows));
    adjacent_.push_back(gap == order.end() ? 1 : 0);
  }
  return entry->second;
}

std::uint16_t NormalEquations::add_runs(std::span<const std::uint32_t> scalars, const Order& order,
                                        std::span<const std::uint32_t> row) {
  const std::size_t before = runs_.size();
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::uint32_t r = row[scalars[order[k]]];
    if (runs_.size() > before && runs_.back().row + runs_.back().count == r) {
      ++runs_.back().count;
    } else {
      runs_.push_back({r, static_cast<std::uint16_t>(k), 1});
    }
  }
  return static_cast<std::uint16_t>(runs_.size() - before);
}

void NormalEquations::find_pattern(const std::vector<std::vector<std::uint32_t>>& indices) {
  std::vector<std::uint32_t> seen(free_.size(), kNone), row(free_.size()), rows;
  Order order;
  OrderNumbers known;
  const auto scalars_of = [&](const Use& use) {
    const std::uint32_t slots = terms_[use.term].slots;
    return std::span(indices[use.term].data() + std::size_t{use.instance} * slots, slots);
  };
  const auto add_rows = [&](const Use& use, std::uint32_t c) {
    for (const std::uint32_t r : scalars_of(use)) {
      if (r == kNone || r <= c || std::exchange(seen[r], c) == c) continue;
      rows.push_back(r);
    }
  };
  const auto set_order = [&](std::span<const std::uint32_t> scalars, std::uint32_t c) {
    order.clear();
    for (std::uint32_t s = 0; s < scalars.size(); ++s)
      if (scalars[s] != kNone && scalars[s] >= c) order.push_back(static_cast<std::uint16_t>(s));
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return scalars[a] < scalars[b]; });
  };
  for (std::size_t g = 0; g + 1 < groups_.size(); ++g) {
    Group& group = groups_[g];
    const std::uint32_t c = group.first;
    const std::span uses(uses_.data() + group.use, groups_[g + 1].use - group.use);
    rows.assign(1, c);
    for (const Use& use : uses) add_rows(use, c);
    std::sort(rows.begin(), rows.end());
    add_columns(group, rows);
    for (std::uint32_t k = 0; k < rows.size(); ++k) row[rows[k]] = k;
    group.run = runs_.size();
    for (std::size_t u = 0; u < uses.size(); ++u) {
      Use& use = uses[u];
      const std::span<const std::uint32_t> scalars = scalars_of(use);
      set_order(scalars, c);
      use.order = number_of(order, known);
      // An instance that reads the scalar in several slots has a use for each, one after the other.
      if (u > 0 && uses[u - 1].term == use.term && uses[u - 1].instance == use.instance)
        use.at = static_cast<std::uint16_t>(uses[u - 1].at + 1);
      use.runs = add_runs(scalars, order, row);
    }
  }
  starts_.push_back(static_cast<std::int32_t>(rows_.size()));
}

void NormalEquations::find_ranges() {
  for (std::size_t g = 0; g + 1 < groups_.size(); ++g) {
    if (g == 0 || groups_[g].use - groups_[ranges_.back()].use >= kUsesPerRange)
      ranges_.push_back(g);
  }
  ranges_.push_back(groups_.size() - 1);
}

template <class F, class Expect>
void NormalEquations::sum_groups(const F& add, const Expect& expect) {
  pool_.for_ranges(ranges_.size() - 1, 1, [&](std::size_t begin, std::size_t end) {
    Panel panel;
    std::vector<double> scratch;
    for (std::size_t g = ranges_[begin]; g < ranges_[end]; ++g) {
      const Group& group = groups_[g];
      const auto rows = static_cast<std::uint32_t>(starts_[group.first + 1] - starts_[group.first]);
      panel.open(rows, group.width);
      const Run* run = runs_.data() + group.run;
      for (std::size_t u = group.use; u < groups_[g + 1].use; ++u) {
        if (u + kUsesAhead < groups_[g + 1].use) expect(uses_[u + kUsesAhead]);
        add(uses_[u], std::span(run, uses_[u].runs), panel, scratch);
        run += uses_[u].runs;
      }
      std::array<double*, Panel::kMostColumns> columns;  // from the row of the group's first one
      for (std::uint32_t j = 0; j < group.width; ++j)
        columns[j] = values_.data() + starts_[group.first + j] - j;
      for (std::uint32_t r = 0; r < rows; ++r) {
        const double* const row = panel.row(r);
        for (std::uint32_t j = 0; j < std::min(group.width, r + 1); ++j) columns[j][r] = row[j];
        panel.clear(r);
      }
    }
  });
}

void NormalEquations::refresh(runtime::Engine& engine) {
  jacobians_.refresh(engine);
  refresh(jacobians_);
}

void NormalEquations::refresh(const JacobianRows& jacobians) {
  sum_groups(
      [&](const Use& use, std::span<const Run> runs, Panel& panel, std::vector<double>& scratch) {
        const TermValues& term = terms_[use.term];
        const double* J =
            jacobians[use.term].data() + std::size_t{use.instance} * term.rows * term.slots;
        const std::span<const std::uint16_t> order = orders_[use.order];
        const double* rows = J + order[0];
        std::size_t n = term.slots;
        if (adjacent_[use.order] == 0) {  // gathered, in the order of their scalars
          n = order.size();
          scratch.resize(term.rows * n);
          for (std::uint32_t i = 0; i < term.rows; ++i, J += term.slots)
            for (std::size_t k = 0; k < n; ++k) scratch[i * n + k] = J[order[k]];
          rows = scratch.data();
        }
        panel.set_right({rows + use.at, n, 1}, term.rows, 1);
        panel.add(runs, {rows, n, 1});
      },
      [&](const Use& use) {
        const TermValues& term = terms_[use.term];
        const std::size_t size = std::size_t{term.rows} * term.slots;
        expect_numbers(jacobians[use.term].data() + use.instance * size,
                       std::min(size, kMostExpected));
      });
}

void NormalEquations::refresh_hessian(runtime::Engine& engine, bool project) {
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    terms_[t].hessians.resize(terms_[t].instances * pair_count(terms_[t].slots));
    runtime::second_derivatives(engine).hessian(t, project, terms_[t].hessians);
    if (project) project_free_parts(engine, t);
  }
  sum_groups(
      [&](const Use& use, std::span<const Run> runs, Panel& panel, std::vector<double>&) {
        const TermValues& term = terms_[use.term];
        const double* H = term.hessians.data() + use.instance * pair_count(term.slots);
        const std::span<const std::uint16_t> order = orders_[use.order];
        for (const Run& run : runs)
          for (std::uint32_t k = 0; k < run.count; ++k)
            for (std::uint32_t j = 0; j < panel.columns(); ++j) {
              const auto [s, t] = std::minmax({order[use.at + j], order[run.at + k]});
              panel.at(run.row + k, j) += H[packed(s, t, term.slots)];
            }
      },
      [](const Use&) {});
}

void NormalEquations::project_free_parts(runtime::Engine& engine, std::size_t t) {
  const auto in_term = [&](const PartlyFree& one) { return one.term == t; };
  if (std::none_of(partly_free_.begin(), partly_free_.end(), in_term)) return;
  TermValues& term = terms_[t];
  std::vector<double> whole(term.hessians.size());
  runtime::second_derivatives(engine).hessian(t, false, whole);
  std::vector<std::size_t> places;  // places of the packed free part in the instances' numbers
  std::vector<double> part;
  runtime::SymmetricEigen eigen;
  for (const PartlyFree& one : partly_free_) {
    if (!in_term(one)) continue;
    places.clear();
    part.clear();
    const std::size_t first = one.instance * pair_count(term.slots);
    for (auto s = one.slots.begin(); s != one.slots.end(); ++s)
      for (auto other = s; other != one.slots.end(); ++other)
        places.push_back(first + packed(*s, *other, term.slots));
    for (const std::size_t place : places) part.push_back(whole[place]);
    runtime::remove_negative_part(static_cast<Eigen::Index>(one.slots.size()), part.data(), eigen);
    for (std::size_t k = 0; k < places.size(); ++k) term.hessians[places[k]] = part[k];
  }
}

}  // namespace topograd
