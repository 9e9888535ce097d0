// The Jacobian of a whole problem in tangent coordinates.
#include "tangent_jacobian.hpp"

#include "../../ir/error.hpp"

#include <algorithm>
#include <limits>

namespace topograd {
namespace {

std::vector<std::uint32_t> scalars_of(const HostBlock& block) {
  std::vector<std::uint32_t> out;
  for (std::size_t b = 0; b < block.offsets.size(); ++b)
    for (std::uint32_t k = 0; k < block.widths[b]; ++k) out.push_back(block.offsets[b] + k);
  return out;
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
  for (const HostBlock& block : host.blocks()) add_block(block.row, block.rows, scalars_of(block));
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
  values_.resize(values_.size() + std::size_t{rows} * block.count);
  blocks_.push_back(block);
}

/// Adds ∂(row)/∂(scalar) times the scalar's row of P.
void TangentJacobian::add_entry(const Block& block, std::uint32_t row, std::uint32_t scalar,
                                double value, std::span<const double> basis) {
  const std::uint32_t first = space_.column(scalar);
  if (first == TangentSpace::kNone) return;
  const auto begin = column_.begin() + static_cast<std::ptrdiff_t>(block.columns);
  const auto at = std::lower_bound(begin, begin + block.count, first) - begin;
  double* out = &values_[block.values + std::size_t{row} * block.count] + at;
  const TangentSpace::Block* on = space_.block_of(scalar);
  if (on == nullptr) {
    *out += value;
    return;
  }
  const double* tangents = &basis[on->basis + std::size_t{scalar - on->offset} * on->tangent];
  for (std::uint32_t t = 0; t < on->tangent; ++t) out[t] += value * tangents[t];
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
    for (std::size_t i = 0; i < term.batch->size(); ++i, ++block)
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t s = 0; s < slots; ++s)
          add_entry(*block, r, term.batch->index(i, s), *entry++, basis);
  }
  for (std::size_t k = 0; k < host_.blocks().size(); ++k, ++block) {
    const HostBlock& from = host_.blocks()[k];
    const double* entry = host_.jacobian().data() + host_.first_entry(k);
    for (std::size_t b = 0; b < from.offsets.size(); ++b)
      for (std::uint32_t r = 0; r < from.rows; ++r)
        for (std::uint32_t c = 0; c < from.widths[b]; ++c)
          add_entry(*block, r, from.offsets[b] + c, *entry++, basis);
  }
}

void TangentJacobian::find_pattern() {
  std::vector<std::vector<std::int32_t>> below(columns_);
  std::size_t pairs = 0;
  for (Block& block : blocks_) {
    block.pairs = pairs;
    pairs += std::size_t{block.count} * (block.count + 1) / 2;
    const std::span<const std::uint32_t> c(column_.data() + block.columns, block.count);
    for (std::size_t s = 0; s < c.size(); ++s)
      for (std::size_t t = s; t < c.size(); ++t)
        below[c[s]].push_back(static_cast<std::int32_t>(c[t]));
  }
  const auto n = static_cast<Eigen::Index>(columns_);
  std::vector<int> sizes(columns_);
  std::size_t entries = 0;
  for (std::size_t c = 0; c < columns_; ++c) {
    below[c].push_back(static_cast<std::int32_t>(c));
    std::sort(below[c].begin(), below[c].end());
    below[c].erase(std::unique(below[c].begin(), below[c].end()), below[c].end());
    sizes[c] = static_cast<int>(below[c].size());
    entries += below[c].size();
  }
  if (entries >= std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorCode::Unsupported, "solve: JᵀJ on the host has 2^31 entries or more");
  normal_.resize(n, n);
  normal_.reserve(sizes);
  for (std::size_t c = 0; c < columns_; ++c)
    for (const std::int32_t r : below[c]) normal_.insert(r, static_cast<Eigen::Index>(c)) = 0;
  normal_.makeCompressed();
  pair_.reserve(pairs);
  for (const Block& block : blocks_) {
    const std::span<const std::uint32_t> c(column_.data() + block.columns, block.count);
    for (std::size_t s = 0; s < c.size(); ++s) {
      const int* begin = normal_.innerIndexPtr() + normal_.outerIndexPtr()[c[s]];
      const int* end = normal_.innerIndexPtr() + normal_.outerIndexPtr()[c[s] + 1];
      for (std::size_t t = s; t < c.size(); ++t)
        pair_.push_back(static_cast<std::uint32_t>(
            std::lower_bound(begin, end, static_cast<int>(c[t])) - normal_.innerIndexPtr()));
    }
  }
}

const Eigen::SparseMatrix<double>& TangentJacobian::normal() {
  if (static_cast<std::size_t>(normal_.rows()) != columns_ || columns_ == 0) find_pattern();
  if (summed_) return normal_;
  std::fill_n(normal_.valuePtr(), normal_.nonZeros(), 0.0);
  for (const Block& block : blocks_) {
    const std::uint32_t* position = pair_.data() + block.pairs;
    const double* values = values_.data() + block.values;
    for (std::uint32_t s = 0; s < block.count; ++s) {
      for (std::uint32_t t = s; t < block.count; ++t) {
        double sum = 0;
        for (std::uint32_t r = 0; r < block.rows; ++r)
          sum += values[r * block.count + s] * values[r * block.count + t];
        normal_.valuePtr()[*position++] += sum;
      }
    }
  }
  summed_ = true;
  return normal_;
}

Eigen::VectorXd TangentJacobian::column_norms() const {
  Eigen::VectorXd squares = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(columns_));
  for (const Block& block : blocks_)
    for (std::uint32_t r = 0; r < block.rows; ++r)
      for (std::uint32_t c = 0; c < block.count; ++c) {
        const double entry = values_[block.values + std::size_t{r} * block.count + c];
        squares[column_[block.columns + c]] += entry * entry;
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
