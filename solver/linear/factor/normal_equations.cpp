// JᵀJ or the Hessian of a whole problem as a sparse matrix with a fixed pattern, and its factors.
#include "normal_equations.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/linear/dense.hpp"
#include "undetermined_blocks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace topograd {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::size_t kMostEntries = std::size_t{1} << 31;
constexpr std::size_t kUsesPerRange = 2048;
/// Sums of more uses are made in parts of this many: those of a camera that many images share.
constexpr std::size_t kMostUsesOfPiece = 8192;
/// Rows are asked for so many uses before they are read: those of one scalar lie far apart.
constexpr std::size_t kUsesAhead = 6;
constexpr std::size_t kMostExpected = 64;  ///< numbers of a use

std::size_t pair_count(std::size_t slots) { return slots * (slots + 1) / 2; }

/// Position of (s, t), s <= t, in a triangle packed by rows.
std::size_t packed(std::size_t s, std::size_t t, std::size_t slots) {
  return s * slots - s * (s + 1) / 2 + t;
}

/// Free index of each parameter slot of each instance of a term: [instance * slots + slot].
ir::PagedVector<std::uint32_t> free_indices(const runtime::Term& term,
                                            std::span<const std::uint32_t> to_free) {
  constexpr std::size_t kTile = 256;
  const std::size_t instances = term.batch->size();
  const std::uint32_t slots = term.batch->parameter_columns();
  ir::PagedVector<std::uint32_t> out(instances * slots);
  std::array<std::uint32_t, kTile> column;
  for (std::size_t first = 0; first < instances; first += kTile) {
    const std::size_t n = std::min(kTile, instances - first);
    for (std::uint32_t s = 0; s < slots; ++s) {
      term.batch->copy_index_column(s, first, std::span(column).first(n));
      for (std::size_t i = 0; i < n; ++i) out[(first + i) * slots + s] = to_free[column[i]];
    }
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
    if (values_[t].data() == nullptr) values_[t] = RawNumbers(sizes_[t]);
    engine.jacobian(t, {values_[t].data(), sizes_[t]});
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
  Indices indices;
  std::size_t row = 0;
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
    terms_.push_back(
        {.rows = rows, .slots = slots, .instances = term.batch->size(), .first_row = row});
    if (!term.energy) row += rows * term.batch->size();
  }
  if (with_energies) find_partly_free(indices);
  find_groups(indices);
  find_pattern(indices);
  find_ranges();
  values_.assign(rows_.size(), 0.0);
}

void NormalEquations::find_partly_free(const Indices& indices) {
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

std::vector<std::uint8_t> NormalEquations::find_joined(const Indices& indices) const {
  // By column: instances that read it, those that read the one before, too, and the last one.
  std::vector<std::uint32_t> reads(free_.size(), 0), both(free_.size(), 0);
  std::vector<std::uint64_t> last(free_.size(), 0);
  std::vector<std::uint8_t> twice(free_.size(), 0);
  std::uint64_t instance = 0;
  for (std::uint32_t t = 0; t < indices.size(); ++t) {
    const std::uint32_t slots = terms_[t].slots;
    for (std::size_t first = 0; first < indices[t].size(); first += slots) {
      const std::span scalars(indices[t].data() + first, slots);
      ++instance;
      for (const std::uint32_t c : scalars) {
        if (c == kNone) continue;
        if (std::exchange(last[c], instance) == instance) twice[c] = 1;
        ++reads[c];
      }
      for (const std::uint32_t c : scalars)
        if (c != kNone && c > 0 && last[c - 1] == instance) ++both[c];
    }
  }
  std::vector<std::uint8_t> joined(free_.size(), 0);
  for (std::size_t c = 1; c < joined.size(); ++c) {
    const bool once = twice[c] == 0 && twice[c - 1] == 0;
    joined[c] = once && reads[c] > 0 && reads[c] == both[c] && reads[c] == reads[c - 1];
  }
  return joined;
}

void NormalEquations::find_groups(const Indices& indices) {
  const std::vector<std::uint8_t> joined = find_joined(indices);
  std::vector<std::uint32_t> group_of(free_.size(), kNone);  // by first column
  for (std::uint32_t c = 0; c < free_.size(); ++c) {
    if (joined[c] != 0 && groups_.back().width < Panel::kMostColumns) {
      ++groups_.back().width;
    } else {
      group_of[c] = static_cast<std::uint32_t>(groups_.size());
      groups_.push_back({c, 1, 0, 0});
    }
  }
  groups_.push_back({static_cast<std::uint32_t>(free_.size()), 0, 0, 0});
  const auto for_uses = [&](const auto& use) {
    for (std::uint32_t t = 0; t < indices.size(); ++t) {
      const std::uint32_t slots = terms_[t].slots;
      const std::uint32_t* scalar = indices[t].data();
      for (std::uint32_t i = 0; i < terms_[t].instances && slots > 0 && !indices[t].empty(); ++i)
        for (std::uint32_t s = 0; s < slots; ++s, ++scalar)
          if (*scalar != kNone && group_of[*scalar] != kNone) use(group_of[*scalar], t, i);
    }
  };
  std::vector<std::size_t> next(groups_.size(), 0);  // the next use of a group
  for_uses([&](std::uint32_t g, std::uint32_t, std::uint32_t) { ++next[g + 1]; });
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].use = next[g];
  uses_.resize(next.back());
  for_uses([&](std::uint32_t g, std::uint32_t t, std::uint32_t i) {
    uses_[next[g]++] = {t, i, 0, 0, 0};
  });
}

void NormalEquations::add_columns(const Group& group, std::span<const std::uint32_t> rows) {
  if (rows_.size() + rows.size() * group.width >= kMostEntries)
    throw Error(ErrorCode::Unsupported, "cholesky: JᵀJ has 2^31 entries or more; use pcg");
  for (std::uint32_t j = 0; j < group.width; ++j) {
    starts_.push_back(static_cast<std::int32_t>(rows_.size()));
    rows_.insert(rows_.end(), rows.begin() + j, rows.end());
  }
}

std::uint32_t NormalEquations::number_of(const Order& order, std::uint32_t last,
                                         OrderNumbers& known) {
  if (last < known.size() && std::ranges::equal(orders_[last], order)) return last;
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

void NormalEquations::find_pattern(const Indices& indices) {
  std::vector<std::uint32_t> seen(free_.size(), kNone), row(free_.size()), rows;
  Order order;
  OrderNumbers known;
  std::uint32_t last = 0;  // of the use before
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
    const auto before = [&](auto a, auto b) { return scalars[a] < scalars[b]; };
    if (!std::is_sorted(order.begin(), order.end(), before))
      std::stable_sort(order.begin(), order.end(), before);
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
      last = use.order = number_of(order, last, known);
      // An instance that reads the scalar in several slots has a use for each, one after the other.
      if (u > 0 && uses[u - 1].term == use.term && uses[u - 1].instance == use.instance)
        use.at = static_cast<std::uint16_t>(uses[u - 1].at + 1);
      use.runs = add_runs(scalars, order, row);
    }
  }
  starts_.push_back(static_cast<std::int32_t>(rows_.size()));
}

void NormalEquations::find_ranges() {
  const auto begin_range = [&] { ranges_.push_back(pieces_.size()); };
  std::size_t uses = kUsesPerRange;  // of the range
  for (std::uint32_t g = 0; g + 1 < groups_.size(); ++g) {
    const std::size_t first = groups_[g].use, end = groups_[g + 1].use;
    if (end - first <= kMostUsesOfPiece) {
      if (uses >= kUsesPerRange) {
        begin_range();
        uses = 0;
      }
      pieces_.push_back({g, first, end, groups_[g].run, 0});
      uses += end - first;
    } else {
      std::size_t run = groups_[g].run;
      for (std::size_t use = first; use < end; use += kMostUsesOfPiece) {
        begin_range();
        const std::size_t stop = std::min(end, use + kMostUsesOfPiece);
        pieces_.push_back({g, use, stop, run, parts_++});
        for (std::size_t u = use; u < stop; ++u) run += uses_[u].runs;
      }
      uses = kUsesPerRange;
    }
  }
  ranges_.push_back(pieces_.size());
}

/// Calls sum(piece, partial) for all pieces, which adds to the numbers of its group, and
/// join(piece, partial) in order for those of groups that have several pieces.
template <class Sum, class Join>
void NormalEquations::for_pieces(const Sum& sum, const Join& join) const {
  std::vector<std::vector<double>> partial(parts_);
  pool_.for_ranges(ranges_.size() - 1, 1, [&](std::size_t begin, std::size_t end) {
    Panel panel;
    std::vector<double> scratch, none;
    for (std::size_t p = ranges_[begin]; p < ranges_[end]; ++p)
      sum(pieces_[p], panel, scratch, is_part(pieces_[p]) ? partial[pieces_[p].part] : none);
  });
  if (parts_ == 0) return;
  for (const Piece& piece : pieces_)
    if (is_part(piece)) join(piece, partial[piece.part]);
}

bool NormalEquations::is_part(const Piece& piece) const {
  return piece.end - piece.use < groups_[piece.group + 1].use - groups_[piece.group].use;
}

/// Writes the rows of a panel to the values of its group, and clears them.
void NormalEquations::write(const Group& group, Panel& panel) {
  std::array<double*, Panel::kMostColumns> columns;  // from the row of the group's first one
  for (std::uint32_t j = 0; j < group.width; ++j)
    columns[j] = values_.data() + starts_[group.first + j] - j;
  for (std::uint32_t r = 0; r < rows_of(group); ++r) {
    const double* const row = panel.row(r);
    for (std::uint32_t j = 0; j < std::min(group.width, r + 1); ++j) columns[j][r] = row[j];
    panel.clear(r);
  }
}

template <class F, class Expect>
void NormalEquations::sum_groups(const F& add, const Expect& expect) {
  const auto sum = [&](const Piece& piece, Panel& panel, std::vector<double>& scratch,
                       std::vector<double>& partial) {
    const Group& group = groups_[piece.group];
    panel.open(rows_of(group), group.width);
    const Run* run = runs_.data() + piece.run;
    for (std::size_t u = piece.use; u < piece.end; ++u) {
      if (u + kUsesAhead < piece.end) expect(uses_[u + kUsesAhead]);
      add(uses_[u], std::span(run, uses_[u].runs), panel, scratch);
      run += uses_[u].runs;
    }
    if (!is_part(piece)) return write(group, panel);
    for (std::uint32_t r = 0; r < rows_of(group); ++r) {
      partial.insert(partial.end(), panel.row(r), panel.row(r) + group.width);
      panel.clear(r);
    }
  };
  Panel whole;  // of the group of several pieces
  const auto join = [&](const Piece& piece, const std::vector<double>& partial) {
    const Group& group = groups_[piece.group];
    if (piece.use == group.use) whole.open(rows_of(group), group.width);
    const double* from = partial.data();
    for (std::uint32_t r = 0; r < rows_of(group); ++r)
      for (std::uint32_t j = 0; j < group.width; ++j) whole.at(r, j) += *from++;
    if (piece.end == groups_[piece.group + 1].use) write(group, whole);
  };
  for_pieces(sum, join);
}

void NormalEquations::subtract_products(const JacobianRows& jacobians, std::span<const double> w,
                                        std::span<double> out) const {
  const auto sum = [&](const Piece& piece, Panel&, std::vector<double>&,
                       std::vector<double>& partial) {
    const Group& group = groups_[piece.group];
    std::array<double, Panel::kMostColumns> sums{};
    for (std::size_t u = piece.use; u < piece.end; ++u) {
      const Use& use = uses_[u];
      const TermValues& term = terms_[use.term];
      const std::uint16_t* const slot = orders_.begin(use.order) + use.at;
      const double* J =
          jacobians[use.term].data() + std::size_t{use.instance} * term.rows * term.slots;
      const double* const factor =
          w.data() + term.first_row + std::size_t{use.instance} * term.rows;
      for (std::uint32_t i = 0; i < term.rows; ++i, J += term.slots)
        for (std::uint32_t j = 0; j < group.width; ++j) sums[j] -= J[slot[j]] * factor[i];
    }
    if (is_part(piece)) {
      partial.assign(sums.begin(), sums.begin() + group.width);
    } else {
      std::copy_n(sums.begin(), group.width, out.begin() + group.first);
    }
  };
  std::ranges::fill(out, 0.0);
  for_pieces(sum, [&](const Piece& piece, const std::vector<double>& partial) {
    for (std::size_t j = 0; j < partial.size(); ++j)
      out[groups_[piece.group].first + j] += partial[j];
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
  std::vector<std::size_t>
      positions;  // positions of the packed free part in the instances' numbers
  std::vector<double> part;
  runtime::SymmetricEigen eigen;
  for (const PartlyFree& one : partly_free_) {
    if (!in_term(one)) continue;
    positions.clear();
    part.clear();
    const std::size_t first = one.instance * pair_count(term.slots);
    for (auto s = one.slots.begin(); s != one.slots.end(); ++s)
      for (auto other = s; other != one.slots.end(); ++other)
        positions.push_back(first + packed(*s, *other, term.slots));
    for (const std::size_t position : positions) part.push_back(whole[position]);
    runtime::remove_negative_part(static_cast<Eigen::Index>(one.slots.size()), part.data(), eigen);
    for (std::size_t k = 0; k < positions.size(); ++k) term.hessians[positions[k]] = part[k];
  }
}

namespace {

class MatrixSystem final : public NormalSystem {
 public:
  MatrixSystem(const runtime::Model& model, int threads)
      : normal_(model, false, threads), undetermined_(model, normal_), damped_(view()) {}

  /// The lower triangle, whose pattern factorisations are made for.
  const SparseMatrix& pattern() const { return damped_; }
  ///   vanishing  share of its diagonal entry at which a pivot vanishes
  ///   strict     factor() fails then
  void use(std::unique_ptr<Factorization> factorization, double vanishing = 0,
           bool strict = false) {
    factor_ = std::move(factorization);
    vanishing_ = vanishing;
    strict_ = strict;
  }

  std::span<const std::uint32_t> free_scalars() const override { return normal_.free_scalars(); }
  void refresh(runtime::Engine& engine) override { normal_.refresh(engine); }
  double diagonal(std::size_t k) const override { return normal_.diagonal(k); }
  void damping_diagonal(std::vector<double>& out) const override {
    undetermined_.diagonal(normal_, out);
  }

  bool factor(std::span<const double> damping, const Eigen::VectorXd& right) override {
    std::ranges::copy(normal_.values(), damped_.valuePtr());
    for (std::size_t k = 0; k < normal_.size(); ++k)
      damped_.valuePtr()[normal_.starts()[k]] += damping[k];
    right_ = right;
    return factor_->factor(damped_) && !(strict_ && factor_->vanished() > 0);
  }
  void stop_at(const SchurIteration& rule) override { factor_->stop_at(rule); }
  Eigen::VectorXd solve() override { return factor_->solve(right_); }
  double square(const Eigen::VectorXd& v) const override {
    return v.dot(view().selfadjointView<Eigen::Lower>() * v);
  }

  int iterations() const override { return factor_->iterations(); }
  double entries() const override { return factor_->entries(); }
  double flops() const override { return factor_->flops(); }
  std::uint64_t vanished() const override { return factor_->vanished(); }
  double hidden_decrease(const Eigen::VectorXd& solution) const override {
    if (vanished() == 0) return 0;
    const Eigen::VectorXd left = right_ - damped_.selfadjointView<Eigen::Lower>() * solution;
    double hidden = 0;
    for (std::size_t k = 0; k < normal_.size(); ++k) {
      const double entry = normal_.diagonal(k);
      const double component = left[static_cast<Eigen::Index>(k)];
      if (entry > 0) hidden += component * component / (2 * vanishing_ * entry);
    }
    return hidden;
  }

 private:
  /// The lower triangle of JᵀJ as Eigen sees it.
  Eigen::Map<const SparseMatrix> view() const {
    const auto n = static_cast<Eigen::Index>(normal_.size());
    return {n,
            n,
            static_cast<Eigen::Index>(normal_.values().size()),
            normal_.starts().data(),
            normal_.rows().data(),
            normal_.values().data()};
  }

  NormalEquations normal_;
  UndeterminedBlocks undetermined_;
  SparseMatrix damped_;  // JᵀJ + D, lower triangle
  Eigen::VectorXd right_;
  std::unique_ptr<Factorization> factor_;
  double vanishing_ = 0;
  bool strict_ = false;
};

}  // namespace

std::unique_ptr<NormalSystem> make_matrix_system(const runtime::Model& model,
                                                 const runtime::cpu::CpuWork& work,
                                                 FactorPlace factor, std::uint64_t strict_up_to,
                                                 double units) {
  auto system = std::make_unique<MatrixSystem>(model, work.threads);
  const std::size_t unknowns = system->size();
  const bool strict = unknowns <= strict_up_to;
  const double share = runtime::vanishing_share(unknowns, std::numeric_limits<double>::epsilon());
  const double vanishing = strict ? units * share : share;
  system->use(make_sparse_factorization(system->pattern(), work, factor, {vanishing}), vanishing,
              strict);
  return system;
}

std::unique_ptr<NormalSystem> make_iterative_system(const runtime::Model& model,
                                                    const runtime::cpu::CpuWork& work,
                                                    const Elimination& elimination,
                                                    const SchurIteration& limits) {
  auto system = std::make_unique<MatrixSystem>(model, work.threads);
  system->use(make_iterative_schur(system->pattern(), elimination, limits, work));
  return system;
}

}  // namespace topograd
