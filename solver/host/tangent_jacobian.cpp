// The Jacobian of a whole problem in tangent coordinates.
#include "tangent_jacobian.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <compare>
#include <limits>

namespace topograd {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// Rows of a block from which on its part of JᵀJ is a product of matrices, in tiles that stay in a
/// cache.
constexpr std::uint32_t kManyRows = 32;

std::vector<std::uint32_t> scalars_of(const HostTerms::Run& run) {
  std::vector<std::uint32_t> out;
  for (std::size_t b = 0; b < run.offsets.size(); ++b)
    for (std::uint32_t k = 0; k < run.widths[b]; ++k) out.push_back(run.offsets[b] + k);
  return out;
}

/// Sorts the rows of each column, with the diagonal, and removes duplicates.
void sort_columns(std::vector<std::vector<std::int32_t>>& rows) {
  for (std::size_t c = 0; c < rows.size(); ++c) {
    std::vector<std::int32_t>& column = rows[c];
    const auto diagonal = static_cast<std::int32_t>(c);
    if (column.empty() || column.front() != diagonal) column.insert(column.begin(), diagonal);
    // Runs mostly come in order already.
    if (!std::is_sorted(column.begin(), column.end())) std::sort(column.begin(), column.end());
    column.erase(std::unique(column.begin(), column.end()), column.end());
  }
}

}  // namespace

TangentJacobian::TangentJacobian(const runtime::Model& model, const TangentSpace& space,
                                 const HostTerms& host)
    : model_(model), space_(space), host_(host), columns_(space.size()), rows_(model.rows) {
  std::vector<std::uint32_t> scalars;
  for (const runtime::Term& term : model.terms) {
    if (term.energy) continue;
    const auto rows = static_cast<std::uint32_t>(term.topology->program.outputs.size());
    scalars.resize(term.batch->parameter_columns());
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      for (std::uint32_t s = 0; s < scalars.size(); ++s) scalars[s] = term.batch->index(i, s);
      add_block(term.batch->residual_row(i), rows, scalars);
    }
  }
  for (const HostTerms::Run& run : host.runs()) add_block(run.row, run.rows, scalars_of(run));
}

void TangentJacobian::add_block(std::uint64_t row, std::uint32_t rows,
                                std::span<const std::uint32_t> scalars) {
  Block block{.first_row = row, .rows = rows, .columns = column_.size(), .values = values_.size()};
  for (const std::uint32_t scalar : scalars) {
    const std::uint32_t first = space_.column(scalar);
    if (first == TangentSpace::kNone) continue;
    const TangentSpace::Block* on = space_.block_of(scalar);
    for (std::uint32_t t = 0; t < (on == nullptr ? 1 : on->tangent); ++t)
      column_.push_back(first + t);
  }
  const auto begin = column_.begin() + static_cast<std::ptrdiff_t>(block.columns);
  std::sort(begin, column_.end());
  column_.erase(std::unique(begin, column_.end()), column_.end());
  block.count = static_cast<std::uint32_t>(column_.size() - block.columns);
  if (!blocks_.empty() && has_columns_of(blocks_.back(), block)) {
    column_.resize(block.columns);
    block.columns = blocks_.back().columns;
  }
  values_.resize(values_.size() + std::size_t{rows} * block.count);
  blocks_.push_back(block);
}

/// True if both are over the same columns: then the second needs no list of its own.
bool TangentJacobian::has_columns_of(const Block& first, const Block& second) const {
  return first.count == second.count &&
         std::equal(column_.begin() + static_cast<std::ptrdiff_t>(second.columns), column_.end(),
                    column_.begin() + static_cast<std::ptrdiff_t>(first.columns));
}

/// Adds ∂(rows)/∂(scalar) times the scalar's row of P.
///
///   entry, stride  of the block's first row, from it to the next
void TangentJacobian::add_column(const Block& block, std::uint32_t scalar, const double* entry,
                                 std::size_t stride, std::span<const double> basis) {
  const std::uint32_t first = space_.column(scalar);
  if (first == TangentSpace::kNone) return;
  const auto begin = column_.begin() + static_cast<std::ptrdiff_t>(block.columns);
  const auto at = std::lower_bound(begin, begin + block.count, first) - begin;
  double* out = values_.data() + block.values + at;
  const TangentSpace::Block* on = space_.block_of(scalar);
  if (on == nullptr) {
    for (std::uint32_t r = 0; r < block.rows; ++r, out += block.count, entry += stride)
      *out += *entry;
    return;
  }
  const double* tangents = &basis[on->basis + std::size_t{scalar - on->offset} * on->tangent];
  for (std::uint32_t r = 0; r < block.rows; ++r, out += block.count, entry += stride)
    for (std::uint32_t t = 0; t < on->tangent; ++t) out[t] += *entry * tangents[t];
}

void TangentJacobian::refresh(runtime::Engine& engine, std::span<const double> basis) {
  std::fill(values_.begin(), values_.end(), 0.0);
  summed_ = false;
  auto block = blocks_.begin();
  std::vector<double> jacobian;
  for (std::size_t t = 0; t < model_.terms.size(); ++t) {
    const runtime::Term& term = model_.terms[t];
    if (term.energy) continue;
    const std::uint32_t slots = term.batch->parameter_columns();
    const auto rows = static_cast<std::uint32_t>(term.topology->program.outputs.size());
    jacobian.resize(term.batch->size() * rows * slots);
    engine.jacobian(t, jacobian);
    const double* entry = jacobian.data();
    for (std::size_t i = 0; i < term.batch->size();
         ++i, ++block, entry += std::size_t{rows} * slots)
      for (std::uint32_t s = 0; s < slots; ++s)
        add_column(*block, term.batch->index(i, s), entry + s, slots, basis);
  }
  for (const HostTerms::Run& from : host_.runs()) {
    const double* entry = host_.jacobian().data() + from.entry;
    for (std::size_t b = 0; b < from.offsets.size(); ++b) {
      const std::size_t width = from.widths[b];
      for (std::uint32_t c = 0; c < width; ++c)
        add_column(*block, from.offsets[b] + c, entry + c, width, basis);
      entry += from.rows * width;
    }
    ++block;
  }
}

/// Splits a residual block's columns into runs of adjacent columns of one parameter block.
std::vector<TangentJacobian::Run> TangentJacobian::runs_of(
    const Block& block, const std::vector<std::uint32_t>& block_of) const {
  std::vector<Run> out;
  for (std::uint32_t k = 0; k < block.count; ++k) {
    const std::uint32_t c = column_[block.columns + k];
    const bool continues =
        !out.empty() && out.back().first + out.back().count == c && block_of[c] == block_of[c - 1];
    if (continues) {
      ++out.back().count;
    } else {
      out.push_back({c, 1});
    }
  }
  return out;
}

std::vector<std::vector<std::int32_t>> TangentJacobian::rows_by_column(
    const std::vector<std::uint32_t>& block_of) const {
  // Pairs of runs are far fewer than pairs of columns, and many blocks have the same ones.
  struct RunPair {
    std::uint32_t columns;  // from the list's own column on
    Run rows;
    auto operator<=>(const RunPair&) const = default;
  };
  std::vector<std::vector<RunPair>> pairs_at(columns_);
  for (const Block& block : blocks_) {
    if (continues_columns(block)) continue;
    const std::vector<Run> runs = runs_of(block, block_of);
    for (std::size_t a = 0; a < runs.size(); ++a) {
      std::vector<RunPair>& at = pairs_at[runs[a].first];
      for (std::size_t b = a; b < runs.size(); ++b) {
        const RunPair pair{runs[a].count, runs[b]};
        if (at.empty() || at.back() != pair) at.push_back(pair);
      }
    }
  }
  std::vector<std::vector<std::int32_t>> rows(columns_);
  const auto add = [&](std::uint32_t column, const Run& run) {
    for (std::uint32_t r = std::max(column, run.first); r < run.first + run.count; ++r)
      rows[column].push_back(static_cast<std::int32_t>(r));
  };
  for (std::uint32_t first = 0; first < columns_; ++first) {
    std::vector<RunPair>& at = pairs_at[first];
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    for (const RunPair& pair : at)
      for (std::uint32_t c = first; c < first + pair.columns; ++c) add(c, pair.rows);
  }
  sort_columns(rows);
  return rows;
}

void TangentJacobian::set_pattern(const std::vector<std::vector<std::int32_t>>& rows) {
  std::size_t entries = 0;
  for (const std::vector<std::int32_t>& column : rows) entries += column.size();
  if (entries >= std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorCode::Unsupported, "solve: JᵀJ on the host has 2^31 entries or more");
  const auto n = static_cast<Eigen::Index>(columns_);
  normal_.resize(n, n);
  normal_.resizeNonZeros(static_cast<Eigen::Index>(entries));
  int* to = normal_.innerIndexPtr();
  for (std::size_t c = 0; c < columns_; ++c) {
    to = std::copy(rows[c].begin(), rows[c].end(), to);
    normal_.outerIndexPtr()[c + 1] = static_cast<int>(to - normal_.innerIndexPtr());
  }
}

void TangentJacobian::find_positions(const std::vector<Run>& runs) {
  // The rows of a run are adjacent entries of a column.
  for (std::size_t a = 0; a < runs.size(); ++a) {
    for (std::uint32_t c = runs[a].first; c < runs[a].first + runs[a].count; ++c) {
      const int* begin = normal_.innerIndexPtr() + normal_.outerIndexPtr()[c];
      const int* end = normal_.innerIndexPtr() + normal_.outerIndexPtr()[c + 1];
      for (std::size_t b = a; b < runs.size(); ++b) {
        const std::uint32_t row = std::max(c, runs[b].first);
        const int* const found = std::lower_bound(begin, end, static_cast<int>(row));
        const auto at = static_cast<std::uint32_t>(found - normal_.innerIndexPtr());
        for (std::uint32_t r = row; r < runs[b].first + runs[b].count; ++r)
          pair_.push_back(at + (r - row));
        begin = found;
      }
    }
  }
}

void TangentJacobian::find_pattern() {
  const std::vector<std::uint32_t> block_of = block_of_column();
  std::size_t pairs = 0;
  for (Block& block : blocks_) {
    const std::size_t own = std::size_t{block.count} * (block.count + 1) / 2;
    if (!continues_columns(block)) pairs += own;
    block.pairs = pairs - own;
  }
  set_pattern(rows_by_column(block_of));
  pair_.reserve(pairs);
  for (const Block& block : blocks_)
    if (!continues_columns(block)) find_positions(runs_of(block, block_of));
}

const Eigen::SparseMatrix<double>& TangentJacobian::normal() {
  if (static_cast<std::size_t>(normal_.rows()) != columns_ || columns_ == 0) find_pattern();
  if (summed_) return normal_;
  std::fill_n(normal_.valuePtr(), normal_.nonZeros(), 0.0);
  for (std::size_t k = 0; k < blocks_.size();) {
    const Block& block = blocks_[k++];
    std::uint32_t rows = block.rows;
    // The rows of wide blocks over the same columns, whose values are adjacent, are one matrix.
    for (; block.count >= kManyRows && k < blocks_.size() && continues_columns(blocks_[k]); ++k)
      rows += blocks_[k].rows;
    add_square(block, rows);
  }
  summed_ = true;
  return normal_;
}

/// Adds JᵀJ of so many rows from the block's first one on.
void TangentJacobian::add_square(const Block& block, std::uint32_t rows) {
  const std::uint32_t* position = pair_.data() + block.pairs;
  const double* values = values_.data() + block.values;
  if (rows >= kManyRows) {
    const Eigen::Map<const RowMajor> J(values, rows, block.count);
    RowMajor square = RowMajor::Zero(block.count, block.count);
    square.selfadjointView<Eigen::Upper>().rankUpdate(J.transpose());
    for (std::uint32_t s = 0; s < block.count; ++s)
      for (std::uint32_t t = s; t < block.count; ++t)
        normal_.valuePtr()[*position++] += square(s, t);
    return;
  }
  for (std::uint32_t s = 0; s < block.count; ++s) {
    for (std::uint32_t t = s; t < block.count; ++t) {
      double sum = 0;
      for (std::uint32_t r = 0; r < rows; ++r)
        sum += values[r * block.count + s] * values[r * block.count + t];
      normal_.valuePtr()[*position++] += sum;
    }
  }
}

Eigen::VectorXd TangentJacobian::column_norms() const {
  Eigen::VectorXd squares = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(columns_));
  for (const Block& block : blocks_) {
    if (block.rows >= kManyRows) {
      const Eigen::Map<const RowMajor> J(values_.data() + block.values, block.rows, block.count);
      const Eigen::VectorXd sums = J.colwise().squaredNorm();
      for (std::uint32_t c = 0; c < block.count; ++c)
        squares[column_[block.columns + c]] += sums[c];
      continue;
    }
    for (std::uint32_t r = 0; r < block.rows; ++r)
      for (std::uint32_t c = 0; c < block.count; ++c) {
        const double entry = values_[block.values + std::size_t{r} * block.count + c];
        squares[column_[block.columns + c]] += entry * entry;
      }
  }
  return squares.cwiseSqrt();
}

std::vector<std::uint32_t> TangentJacobian::block_of_column() const {
  std::vector<std::uint32_t> out(columns_);
  std::uint32_t number = 0;
  for (const runtime::ParameterArray& array : model_.arrays) {
    for (std::uint64_t b = 0; b < array.blocks; ++b, ++number) {
      for (std::uint32_t k = 0; k < array.width; ++k) {
        const auto scalar = static_cast<std::uint32_t>(array.offset + b * array.width + k);
        const TangentSpace::Block* manifold = space_.block_of(scalar);
        const std::uint32_t first = space_.column(scalar);
        if (first == TangentSpace::kNone) continue;
        std::fill_n(out.begin() + first, manifold != nullptr ? manifold->tangent : 1, number);
      }
    }
  }
  return out;
}

Eigen::MatrixXd TangentJacobian::dense() const {
  Eigen::MatrixXd out =
      Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(rows_), static_cast<Eigen::Index>(columns_));
  for (const Block& block : blocks_)
    for (std::uint32_t r = 0; r < block.rows; ++r)
      for (std::uint32_t c = 0; c < block.count; ++c)
        out(static_cast<Eigen::Index>(block.first_row + r), column_[block.columns + c]) =
            values_[block.values + std::size_t{r} * block.count + c];
  return out;
}

Eigen::SparseMatrix<double> TangentJacobian::sparse() const {
  std::vector<Eigen::Triplet<double>> entries;
  for (const Block& block : blocks_)
    for (std::uint32_t r = 0; r < block.rows; ++r)
      for (std::uint32_t c = 0; c < block.count; ++c)
        entries.emplace_back(static_cast<int>(block.first_row + r),
                             static_cast<int>(column_[block.columns + c]),
                             values_[block.values + std::size_t{r} * block.count + c]);
  Eigen::SparseMatrix<double> out(static_cast<Eigen::Index>(rows_),
                                  static_cast<Eigen::Index>(columns_));
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

}  // namespace topograd
