// Rows of the Jacobian by the eliminated block that they read.
#include "eliminated_rows.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace topograd {
namespace {

/// Instances whose indices are copied together.
constexpr std::size_t kTile = 256;
constexpr std::uint32_t kFixed = ~std::uint32_t{0};

}  // namespace

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

}  // namespace topograd
