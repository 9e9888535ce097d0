// Elimination of blocks straight from the rows of the Jacobian.
#include "complement.hpp"

#include "../../../runtime/model/model.hpp"
#include "lists.hpp"
#include "normal_equations.hpp"
#include "panel.hpp"
#include "undetermined_blocks.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace topograd {
namespace {

/// For each eliminated block, the instances that read it and kept columns, in the order of terms
/// and instances. No instance reads two eliminated blocks.
class EliminatedRows {
 public:
  ///   free    scalars that are the columns, ascending
  ///   blocks  eliminated ones, ascending
  EliminatedRows(const runtime::Model& model, std::span<const std::uint32_t> free,
                 const std::vector<Elimination::Block>& blocks);

  const SchurLayout& layout() const { return layout_; }
  /// Adds JₖᵀJₑ of the kept and the block's columns to a panel: a row for each neighbour.
  ///
  ///   scratch  kept between calls, so that its memory is used again
  void add_coupling(const JacobianRows& jacobians, std::uint32_t block, Panel& panel,
                    std::vector<double>& scratch) const;

 private:
  struct EliminatedSlot {
    std::uint16_t slot, at;  // column of the block
    friend auto operator<=>(const EliminatedSlot&, const EliminatedSlot&) = default;
  };
  /// Free slots of an instance: those of the block, and kept ones, ascending by their columns.
  struct Shape {
    std::vector<EliminatedSlot> eliminated;
    std::vector<std::uint16_t> kept;
    bool in_order = false;  // slots follow one another, and are the whole block in its order

    bool is_in_order(std::uint32_t width) const;
    friend auto operator<=>(const Shape&, const Shape&) = default;
  };
  struct Use {
    std::uint32_t term, instance, shape, runs;
  };
  /// Kept slots of a use, in Shape::kept, whose neighbours are adjacent.
  using Run = Panel::Run;
  struct Found;
  struct TermSize {
    std::uint32_t rows, slots;
  };

  void add_use(std::span<const SchurLayout::Position> positions,
               const std::vector<Elimination::Block>& blocks, Use use, Found& found);
  void find_uses(const runtime::Model& model, const std::vector<SchurLayout::Position>& positions,
                 const std::vector<Elimination::Block>& blocks, Found& found);
  SchurLayout find_layout(const runtime::Model& model, std::span<const std::uint32_t> free,
                          const std::vector<Elimination::Block>& blocks);
  ///   neighbour_of  by column: of its block's neighbours
  void add_runs(std::span<const std::uint32_t> columns, std::span<const std::uint32_t> neighbour_of,
                Use& use);

  std::vector<TermSize> terms_;
  std::vector<Shape> shapes_;
  Lists<Use> uses_;  // by block
  Lists<Run> runs_;  // by block
  SchurLayout layout_;
};

/// Instances whose indices are copied together.
constexpr std::size_t kTile = 256;
constexpr std::uint32_t kFixed = ~std::uint32_t{0};

/// Uses in the order of terms and instances.
struct EliminatedRows::Found {
  ir::PagedVector<Use> uses;
  std::vector<std::uint32_t> block;  // of each use
  Lists<std::uint32_t> columns;      // of each use: kept ones, in the order of Shape::kept
  std::map<Shape, std::uint32_t> known;
  // The use that is being added has this shape, and these kept columns with their slots.
  Shape shape;
  std::vector<std::pair<std::uint32_t, std::uint16_t>> kept;
};

EliminatedRows::EliminatedRows(const runtime::Model& model, std::span<const std::uint32_t> free,
                               const std::vector<Elimination::Block>& blocks)
    : layout_(find_layout(model, free, blocks)) {}

bool EliminatedRows::Shape::is_in_order(std::uint32_t width) const {
  const auto follows = [](std::uint16_t a, std::uint16_t b) { return b == a + 1; };
  if (eliminated.size() != width ||
      std::ranges::adjacent_find(kept, std::not_fn(follows)) != kept.end())
    return false;
  for (std::size_t k = 0; k < eliminated.size(); ++k)
    if (eliminated[k].at != k || eliminated[k].slot != eliminated[0].slot + k) return false;
  return true;
}

/// Adds an instance if it reads an eliminated block and kept columns.
///
///   positions  by slot
void EliminatedRows::add_use(std::span<const SchurLayout::Position> positions,
                             const std::vector<Elimination::Block>& blocks, Use use, Found& found) {
  std::uint32_t block = SchurLayout::kNone;
  Shape& shape = found.shape;
  shape.eliminated.clear();
  shape.kept.clear();
  found.kept.clear();
  for (std::size_t s = 0; s < positions.size(); ++s) {
    const auto slot = static_cast<std::uint16_t>(s);
    const auto [in, at] = positions[s];
    if (at == kFixed) continue;
    if (in == SchurLayout::kNone) {
      found.kept.emplace_back(at, slot);
    } else {
      block = in;
      shape.eliminated.push_back({slot, static_cast<std::uint16_t>(at)});
    }
  }
  if (found.kept.empty() || shape.eliminated.empty()) return;
  if (!std::ranges::is_sorted(found.kept)) std::ranges::sort(found.kept);
  for (const auto& [column, slot] : found.kept) {
    shape.kept.push_back(slot);
    found.columns.items.push_back(column);
  }
  found.columns.close();
  shape.in_order = shape.is_in_order(blocks[block].width);
  if (found.uses.empty() || shapes_[found.uses.back().shape] != shape) {
    const auto next = static_cast<std::uint32_t>(found.known.size());
    const auto [known, is_new] = found.known.try_emplace(shape, next);
    if (is_new) shapes_.push_back(shape);
    use.shape = known->second;
  } else {
    use.shape = found.uses.back().shape;
  }
  found.uses.push_back(use);
  found.block.push_back(block);
}

void EliminatedRows::find_uses(const runtime::Model& model,
                               const std::vector<SchurLayout::Position>& positions,
                               const std::vector<Elimination::Block>& blocks, Found& found) {
  std::vector<std::uint32_t> tile;  // scalars, by slot
  std::vector<SchurLayout::Position> slots;
  std::size_t instances = 0, indices = 0;
  for (const runtime::Term& term : model.terms) {
    if (term.energy) continue;
    instances += term.batch->size();
    indices += term.batch->size() * term.batch->parameter_columns();
  }
  found.uses.reserve(instances);
  found.block.reserve(instances);
  found.columns.starts.reserve(instances + 1);
  found.columns.items.reserve(indices);
  for (std::uint32_t t = 0; t < model.terms.size(); ++t) {
    const runtime::Term& term = model.terms[t];
    slots.resize(term.batch->parameter_columns());
    terms_.push_back({static_cast<std::uint32_t>(term.topology->program.outputs.size()),
                      static_cast<std::uint32_t>(slots.size())});
    if (term.energy) continue;
    tile.resize(slots.size() * kTile);
    for (std::size_t first = 0; first < term.batch->size(); first += kTile) {
      const std::size_t n = std::min(kTile, term.batch->size() - first);
      for (std::uint32_t s = 0; s < slots.size(); ++s)
        term.batch->copy_index_column(s, first, std::span(tile).subspan(s * kTile, n));
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t s = 0; s < slots.size(); ++s) slots[s] = positions[tile[s * kTile + i]];
        add_use(slots, blocks, {t, static_cast<std::uint32_t>(first + i), 0, 0}, found);
      }
    }
  }
}

SchurLayout EliminatedRows::find_layout(const runtime::Model& model,
                                        std::span<const std::uint32_t> free,
                                        const std::vector<Elimination::Block>& blocks) {
  std::vector<SchurLayout::Position> positions(model.scalars, {SchurLayout::kNone, kFixed});
  const auto by_column = SchurLayout::positions_of(blocks, free.size());
  for (std::size_t k = 0; k < free.size(); ++k) positions[free[k]] = by_column[k];
  Found found;
  find_uses(model, positions, blocks, found);

  std::vector<std::size_t>& starts = uses_.starts;
  starts.assign(blocks.size() + 1, 0);
  for (const std::uint32_t b : found.block) ++starts[b + 1];
  for (std::size_t b = 0; b < blocks.size(); ++b) starts[b + 1] += starts[b];
  std::vector<std::size_t> order(found.uses.size()), next = starts;
  for (std::size_t u = 0; u < order.size(); ++u) order[next[found.block[u]]++] = u;

  Lists<std::uint32_t> neighbours;
  std::vector<std::uint32_t> columns;
  std::vector<std::uint32_t> met_by(free.size(), SchurLayout::kNone);  // by column: the last block
  std::vector<std::uint32_t> neighbour_of(free.size());                // by column, of the block
  uses_.items.reserve(found.uses.size());
  runs_.items.reserve(2 * found.uses.size());  // of a pose and a camera, usually
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    const std::span<const std::size_t> uses(order.data() + starts[b], starts[b + 1] - starts[b]);
    columns.clear();
    for (const std::size_t u : uses)
      for (const std::uint32_t column : found.columns[u])
        if (std::exchange(met_by[column], b) != b) columns.push_back(column);
    std::ranges::sort(columns);
    for (std::uint32_t k = 0; k < columns.size(); ++k) neighbour_of[columns[k]] = k;
    for (const std::size_t u : uses) {
      add_runs(found.columns[u], neighbour_of, found.uses[u]);
      uses_.items.push_back(found.uses[u]);
    }
    runs_.close();
    neighbours.items.insert(neighbours.items.end(), columns.begin(), columns.end());
    neighbours.close();
  }
  return {blocks, free.size(), std::move(neighbours)};
}

void EliminatedRows::add_runs(std::span<const std::uint32_t> columns,
                              std::span<const std::uint32_t> neighbour_of, Use& use) {
  const std::size_t before = runs_.items.size();
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const std::uint32_t at = neighbour_of[columns[k]];
    if (runs_.items.size() > before && runs_.items.back().row + runs_.items.back().count == at) {
      ++runs_.items.back().count;
    } else {
      runs_.items.push_back({at, static_cast<std::uint16_t>(k), 1});
    }
  }
  use.runs = static_cast<std::uint32_t>(runs_.items.size() - before);
}

void EliminatedRows::add_coupling(const JacobianRows& jacobians, std::uint32_t block, Panel& panel,
                                  std::vector<double>& scratch) const {
  const std::uint32_t width = layout_.blocks[block].width;
  const Run* run = runs_.begin(block);
  for (const Use& use : uses_[block]) {
    const auto [rows, slots] = terms_[use.term];
    const Shape& shape = shapes_[use.shape];
    const double* const J = jacobians[use.term].data() + std::size_t{use.instance} * rows * slots;
    Strided eliminated{J + shape.eliminated[0].slot, slots, 1}, kept{J + shape.kept[0], slots, 1};
    if (!shape.in_order) {
      const std::size_t n = shape.kept.size();
      scratch.assign(rows * (width + n), 0.0);
      double* const of_block = scratch.data();
      double* const others = of_block + std::size_t{rows} * width;
      for (std::uint32_t i = 0; i < rows; ++i) {
        for (const EliminatedSlot& from : shape.eliminated)
          of_block[i * width + from.at] += J[i * slots + from.slot];
        for (std::size_t k = 0; k < n; ++k) others[i * n + k] = J[i * slots + shape.kept[k]];
      }
      eliminated = {of_block, width, 1};
      kept = {others, n, 1};
    }
    panel.set_right(eliminated, rows, 1);
    panel.add({run, use.runs}, {kept.data, kept.row, 1});
    run += use.runs;
  }
}

using Vector = Eigen::VectorXd;

constexpr std::size_t kBlocksPerRange = 64;
constexpr std::size_t kInstancesPerTile = 256;
constexpr std::uint64_t kMostRowsAtATime = 4'000'000;

std::vector<std::uint32_t> free_scalars_of(const runtime::Model& model) {
  std::vector<std::uint32_t> free;
  for (std::uint32_t k = 0; k < model.scalars; ++k)
    if (model.constant.empty() || model.constant[k] == 0) free.push_back(k);
  return free;
}

/// By scalar: 1 = a free one, of an eliminated block or kept.
std::vector<std::uint8_t> flags_of(const runtime::Model& model, std::span<const std::uint32_t> free,
                                   const Elimination& elimination, bool eliminated) {
  std::vector<std::uint8_t> flags(model.scalars, 0);
  const auto positions = SchurLayout::positions_of(elimination.blocks, free.size());
  for (std::size_t k = 0; k < free.size(); ++k)
    flags[free[k]] = (positions[k].block != SchurLayout::kNone) == eliminated ? 1 : 0;
  return flags;
}

Lists<Complement::Entry> entries_of(const NormalEquations& kept) {
  Lists<Complement::Entry> out;
  for (std::size_t c = 0; c < kept.size(); ++c) {
    for (auto k = static_cast<std::uint32_t>(kept.starts()[c]);
         k < static_cast<std::uint32_t>(kept.starts()[c + 1]); ++k)
      out.items.push_back({static_cast<std::uint32_t>(kept.rows()[k]), k});
    out.close();
  }
  return out;
}

/// Lower triangle of a block by columns, with the reciprocals of the diagonal in its place.
/// `fixed` is the width if it is known at compile time, else 0.
template <std::uint32_t fixed>
bool factor_block(double* L, std::uint32_t any) {
  const std::uint32_t w = fixed > 0 ? fixed : any;
  for (std::uint32_t j = 0; j < w; ++j) {
    for (std::uint32_t q = 0; q < j; ++q)
      for (std::uint32_t i = j; i < w; ++i) L[j * w + i] -= L[q * w + j] * L[q * w + i];
    const double pivot = L[j * w + j];
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const double reciprocal = 1 / std::sqrt(pivot);
    for (std::uint32_t i = j + 1; i < w; ++i) L[j * w + i] *= reciprocal;
    L[j * w + j] = reciprocal;
  }
  return true;
}

/// out := L⁻¹ right.
template <std::uint32_t fixed>
void forward(const double* L, std::uint32_t any, const double* right, double* out) {
  const std::uint32_t w = fixed > 0 ? fixed : any;
  for (std::uint32_t i = 0; i < w; ++i) {
    double sum = right[i];
    for (std::uint32_t q = 0; q < i; ++q) sum -= L[q * w + i] * out[q];
    out[i] = sum * L[i * w + i];
  }
}

/// y := L⁻ᵀ y.
void backward(const double* L, std::uint32_t w, double* y) {
  for (std::uint32_t i = w; i-- > 0;) {
    for (std::uint32_t q = i + 1; q < w; ++q) y[i] -= L[i * w + q] * y[q];
    y[i] *= L[i * w + i];
  }
}

/// Lists that are made from the index columns alone.
struct RowLists {
  std::unique_ptr<NormalEquations> kept, eliminated;  // of the columns of either kind alone
  std::unique_ptr<EliminatedRows> rows;

  /// Makes all three at a time if there are so few rows that their memory meanwhile matters little.
  RowLists(const runtime::Model& model, std::span<const std::uint32_t> free,
           const Elimination& elimination, runtime::cpu::Pool& pool) {
    const auto normal = [&](bool of_eliminated) {
      return std::make_unique<NormalEquations>(model, false, pool.threads(),
                                               flags_of(model, free, elimination, !of_eliminated));
    };
    const auto make = [&](std::size_t part) {
      if (part == 0) kept = normal(false);
      if (part == 1) eliminated = normal(true);
      if (part == 2) rows = std::make_unique<EliminatedRows>(model, free, elimination.blocks);
    };
    const std::size_t at_a_time = model.rows > kMostRowsAtATime ? 3 : 1;
    pool.for_ranges(3, at_a_time, [&](std::size_t begin, std::size_t end) {
      for (std::size_t part = begin; part < end; ++part) make(part);
    });
  }
};

class RowSchur final : public NormalSystem {
 public:
  RowSchur(const runtime::Model& model, const Elimination& elimination,
           const runtime::cpu::CpuWork& work)
      : model_(model),
        jacobians_(model),
        free_(free_scalars_of(model)),
        pool_(work.threads),
        lists_(model, free_, elimination, pool_),
        undetermined_kept_(model, kept_),
        undetermined_eliminated_(model, eliminated_),
        complement_(layout(), entries_of(kept_), work),
        W_(layout().E.back()),
        L_(layout().C.back()),
        y_(eliminated_.size()) {
    std::uint32_t first = 0;
    for (const Elimination::Block& block : layout().blocks) {
      first_.push_back(first);
      for (std::uint32_t k = 0; k < block.width; ++k) column_.push_back(block.first + k);
      first += block.width;
    }
    diagonal_.resize(free_.size());
  }

  std::span<const std::uint32_t> free_scalars() const override { return free_; }
  double diagonal(std::size_t k) const override { return diagonal_[k]; }

  void refresh(runtime::Engine& engine) override {
    jacobians_.refresh(engine);
    kept_.refresh(jacobians_);
    eliminated_.refresh(jacobians_);
    for (std::size_t c = 0; c < kept_.size(); ++c) diagonal_[kept_column(c)] = kept_.diagonal(c);
    for (std::size_t c = 0; c < column_.size(); ++c)
      diagonal_[column_[c]] = eliminated_.diagonal(c);
  }

  void damping_diagonal(std::vector<double>& out) const override {
    out.resize(free_.size());
    std::vector<double> part;
    undetermined_kept_.diagonal(kept_, part);
    for (std::size_t c = 0; c < part.size(); ++c) out[kept_column(c)] = part[c];
    undetermined_eliminated_.diagonal(eliminated_, part);
    for (std::size_t c = 0; c < part.size(); ++c) out[column_[c]] = part[c];
  }

  bool factor(std::span<const double> damping, const Vector& right) override {
    if (!eliminate(damping, right)) return false;
    B_.assign(kept_.values().begin(), kept_.values().end());
    right_.resize(static_cast<Eigen::Index>(kept_.size()));
    for (std::size_t c = 0; c < kept_.size(); ++c) {
      B_[kept_.starts()[c]] += damping[kept_column(c)];
      right_[static_cast<Eigen::Index>(c)] = right[kept_column(c)];
    }
    const Complement::RightSide reduced{y_.data(), right_};
    return complement_.factor(B_.data(), {W_.data(), W_.data()}, &reduced);
  }

  Vector solve() override {
    const Vector kept = complement_.solve(right_);
    Vector out(static_cast<Eigen::Index>(free_.size()));
    for (std::size_t c = 0; c < kept_.size(); ++c)
      out[kept_column(c)] = kept[static_cast<Eigen::Index>(c)];
    const std::size_t blocks = layout().blocks.size();
    pool_.for_ranges(blocks, kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
      for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) expand(b, kept, out);
    });
    return out;
  }

  /// ‖J v‖², by the rows.
  double square(const Vector& v) const override {
    double sum = 0;
    for (const double row : rows_along(v)) sum += row * row;
    return sum;
  }

  std::vector<double> rows_along(const Vector& v) const override {
    std::vector<double> by_scalar(model_.scalars, 0.0), out(model_.rows, 0.0);
    for (std::size_t k = 0; k < free_.size(); ++k)
      by_scalar[free_[k]] = v[static_cast<Eigen::Index>(k)];
    std::size_t row = 0;  // the first one of a term
    for (std::size_t t = 0; t < model_.terms.size(); ++t) {
      const runtime::Term& term = model_.terms[t];
      if (term.energy) continue;
      pool_.for_ranges(term.batch->size(), kInstancesPerTile,
                       [&](std::size_t begin, std::size_t end) {
                         add_rows_along(t, begin, end, by_scalar, std::span(out).subspan(row));
                       });
      row += term.batch->size() * term.topology->program.outputs.size();
    }
    return out;
  }

  Vector correct(std::span<const double> w) override {
    Vector right(static_cast<Eigen::Index>(free_.size()));
    std::vector<double> part(kept_.size());
    kept_.subtract_products(jacobians_, w, part);
    for (std::size_t c = 0; c < part.size(); ++c)
      right_[static_cast<Eigen::Index>(c)] = right[kept_column(c)] = part[c];
    part.resize(eliminated_.size());
    eliminated_.subtract_products(jacobians_, w, part);
    for (std::size_t c = 0; c < part.size(); ++c) right[column_[c]] = part[c];
    reduce(right);
    return solve();
  }

  double entries() const override {
    return static_cast<double>(layout().E.back()) + complement_.entries();
  }
  double flops() const override { return complement_.products() + complement_.flops(); }

 private:
  const SchurLayout& layout() const { return rows_.layout(); }
  std::uint32_t kept_column(std::size_t c) const { return layout().column[c]; }

  bool eliminate(std::span<const double> damping, const Vector& right) {
    std::atomic<bool> definite = true;
    pool_.for_ranges(
        layout().blocks.size(), kBlocksPerRange, [&](std::size_t begin, std::size_t end) {
          Panel panel;
          std::vector<double> scratch;
          for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
            const bool in_space = layout().blocks[b].width == 3;  // points
            const bool positive = in_space ? eliminate_block<3>(b, damping, right, panel, scratch)
                                           : eliminate_block<0>(b, damping, right, panel, scratch);
            if (!positive) definite = false;
          }
        });
    return definite;
  }

  /// L of the block's own part, W = L⁻¹E and y = L⁻¹ right.
  template <std::uint32_t fixed>
  bool eliminate_block(std::uint32_t b, std::span<const double> damping, const Vector& right,
                       Panel& panel, std::vector<double>& scratch) {
    const auto [column, width] = layout().blocks[b];
    const std::uint32_t first = first_[b];
    double* const L = L_.data() + layout().C[b];
    std::fill_n(L, std::size_t{width} * width, 0.0);
    for (std::uint32_t j = 0; j < width; ++j) {
      const std::int32_t* const starts = eliminated_.starts().data() + first + j;
      for (std::int32_t k = starts[0]; k < starts[1]; ++k)
        L[j * width + static_cast<std::uint32_t>(eliminated_.rows()[k]) - first] =
            eliminated_.values()[k];
      L[j * width + j] += damping[column + j];
    }
    if (!factor_block<fixed>(L, width)) return false;
    forward<fixed>(L, width, right.data() + column, y_.data() + first);

    const std::size_t neighbours = layout().neighbours.size(b);
    panel.open(neighbours, width);
    rows_.add_coupling(jacobians_, b, panel, scratch);
    double* W = W_.data() + layout().E[b];
    for (std::size_t k = 0; k < neighbours; ++k, W += width) {
      forward<fixed>(L, width, panel.row(k), W);
      panel.clear(k);
    }
    return true;
  }

  /// y = L⁻¹ right of the blocks, and the kept part of the right side less Wᵀ y.
  void reduce(const Vector& right) {
    pool_.for_ranges(layout().blocks.size(), kBlocksPerRange,
                     [&](std::size_t begin, std::size_t end) {
                       for (auto b = static_cast<std::uint32_t>(begin); b < end; ++b) {
                         const auto [column, width] = layout().blocks[b];
                         forward<0>(L_.data() + layout().C[b], width, right.data() + column,
                                    y_.data() + first_[b]);
                       }
                     });
    const std::vector<std::uint32_t>& panels = layout().panels;
    pool_.for_ranges(panels.size() - 1, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t p = begin; p < end; ++p) reduce_panel(panels[p], panels[p + 1]);
    });
  }

  /// Subtracts Wᵀ y from kept columns that meet the same blocks.
  void reduce_panel(std::uint32_t first, std::uint32_t last) {
    for (const SchurLayout::Use& use : layout().uses[first]) {
      const std::uint32_t width = layout().blocks[use.block].width;
      const double* W = W_.data() + layout().E[use.block] + std::size_t{use.at} * width;
      const double* const y = y_.data() + first_[use.block];
      for (std::uint32_t c = first; c < last; ++c)
        for (std::uint32_t i = 0; i < width; ++i) right_[c] -= *W++ * y[i];
    }
  }

  /// Adds J v of some instances to the rows of their term.
  void add_rows_along(std::size_t t, std::size_t begin, std::size_t end,
                      std::span<const double> by_scalar, std::span<double> out) const {
    const ir::Batch& batch = *model_.terms[t].batch;
    const std::size_t slots = batch.parameter_columns(), n = end - begin;
    const std::size_t outputs = model_.terms[t].topology->program.outputs.size();
    std::vector<std::uint32_t> scalars(slots * n);
    for (std::size_t s = 0; s < slots; ++s)
      batch.copy_index_column(static_cast<std::uint32_t>(s), begin,
                              std::span(scalars).subspan(s * n, n));
    const double* entry = jacobians_[t].data() + begin * outputs * slots;
    for (std::size_t k = 0; k < n * outputs; ++k)
      for (std::size_t s = 0; s < slots; ++s)
        out[begin * outputs + k] += *entry++ * by_scalar[scalars[s * n + k / outputs]];
  }

  /// The block's part of the solution: L⁻ᵀ (y − W x).
  void expand(std::uint32_t b, const Vector& kept, Vector& out) const {
    const auto [column, width] = layout().blocks[b];
    double* const x = out.data() + column;
    std::copy_n(y_.data() + first_[b], width, x);
    const double* W = W_.data() + layout().E[b];
    for (const std::uint32_t neighbour : layout().neighbours[b]) {
      const double factor = kept[neighbour];
      for (std::uint32_t i = 0; i < width; ++i) x[i] -= factor * *W++;
    }
    backward(L_.data() + layout().C[b], width, x);
  }

  const runtime::Model& model_;
  JacobianRows jacobians_;
  std::vector<std::uint32_t> free_;
  mutable runtime::cpu::Pool pool_;
  RowLists lists_;
  NormalEquations &kept_ = *lists_.kept, &eliminated_ = *lists_.eliminated;
  EliminatedRows& rows_ = *lists_.rows;
  UndeterminedBlocks undetermined_kept_, undetermined_eliminated_;
  Complement complement_;
  std::vector<std::uint32_t> first_;   // by block: its first column among eliminated ones
  std::vector<std::uint32_t> column_;  // by eliminated column: the free scalar
  RawNumbers W_;                       // by columns; elimination writes all of it first
  std::vector<double> L_, y_;          // L by columns
  std::vector<double> B_, diagonal_;   // B with damping; of JᵀJ
  Vector right_;                       // reduced, by kept column
};

}  // namespace

std::unique_ptr<NormalSystem> make_row_schur(const runtime::Model& model,
                                             const Elimination& elimination,
                                             const runtime::cpu::CpuWork& work) {
  return std::make_unique<RowSchur>(model, elimination, work);
}

}  // namespace topograd
