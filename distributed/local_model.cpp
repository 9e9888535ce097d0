// Cuts the part of a rank out of a model, and numbers its blocks.
#include "local_model.hpp"

#include "../runtime/model/model.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

namespace topograd::distributed {
namespace {

constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();

/// Adds a run, or lengthens the last one.
void add_run(std::vector<Run>& runs, std::uint64_t whole, std::uint64_t here, std::uint64_t count) {
  const bool goes_on = !runs.empty() && runs.back().whole + runs.back().count == whole &&
                       runs.back().here + runs.back().count == here;
  if (goes_on) {
    runs.back().count += count;
  } else {
    runs.push_back({whole, here, count});
  }
}

}  // namespace

HeldBlocks::HeldBlocks(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
                       std::span<const int> owners, int rank)
    : model_(model),
      chunks_(chunks),
      owners_(owners),
      rank_(rank),
      numbers_(model.arrays),
      owner_(numbers_.count()),
      kept_(numbers_.count()),
      first_here_(numbers_.count(), kAbsent) {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const auto begin = owner_.begin() + chunks[c].first_block;
    std::fill(begin, owner_.begin() + chunks[c].end_block, owners[c]);
  }
  for (std::size_t b = 0; b < owner_.size(); ++b) kept_[b] = owner_[b] == rank ? 1 : 0;
}

void HeldBlocks::number(LocalModel& out) {
  // An engine has unknowns, also on a rank that owns none.
  if (std::ranges::find(kept_, 1) == kept_.end()) kept_[0] = 1;
  number_blocks(out);
  number_chunks(out);
  number_manifolds(out);
}

void HeldBlocks::number_blocks(LocalModel& out) {
  std::uint32_t block = 0;
  for (const runtime::ParameterArray& array : model_.arrays) {
    runtime::ParameterArray here{.offset = out.model.scalars, .width = array.width};
    for (std::uint64_t k = 0; k < array.blocks; ++k, ++block) {
      if (kept_[block] == 0) continue;
      const std::uint64_t whole = array.offset + k * array.width;
      const bool own = is_own(block);
      first_here_[block] = static_cast<std::uint32_t>(out.model.scalars);
      add_run(own ? out.own : out.ghosts, whole, out.model.scalars, array.width);
      ++(own ? out.blocks : out.ghost_blocks);
      copy_scalars(whole, array.width, out);
      out.model.scalars += array.width;
      ++here.blocks;
    }
    if (here.blocks > 0) out.model.arrays.push_back(here);
  }
}

/// Flags and bounds of a block's scalars.
void HeldBlocks::copy_scalars(std::uint64_t first, std::uint32_t count, LocalModel& out) const {
  const auto copy = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(first);
    to.insert(to.end(), begin, begin + count);
  };
  copy(model_.constant, out.model.constant);
  copy(model_.lower, out.model.lower);
  copy(model_.upper, out.model.upper);
}

void HeldBlocks::number_chunks(LocalModel& out) const {
  std::vector<std::uint32_t> number(kept_.size());
  std::uint32_t next = 0;
  for (std::size_t b = 0; b < kept_.size(); ++b) {
    number[b] = next;
    next += kept_[b];
  }
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (owners_[c] != rank_) continue;
    const runtime::Chunk& whole = chunks_[c];
    const std::uint32_t first_block = number[whole.first_block];
    const std::uint64_t first = first_here_[whole.first_block];
    out.chunks.push_back({.first_block = first_block,
                          .end_block = first_block + (whole.end_block - whole.first_block),
                          .first = first,
                          .end = first + (whole.end - whole.first)});
    out.chunk_numbers.push_back(c);
  }
}

void HeldBlocks::number_manifolds(LocalModel& out) const {
  if (model_.manifolds == nullptr) return;
  auto here = std::make_shared<runtime::Manifolds>();
  for (const runtime::ManifoldBlocks& whole : model_.manifolds->all) {
    std::vector<std::uint32_t> blocks;
    for (const std::uint32_t first : whole.blocks)
      if (kept_[block_of(first)] != 0) blocks.push_back(scalar_here(first));
    if (blocks.empty()) continue;
    here->all.push_back({.width = whole.width,
                         .tangent = whole.tangent,
                         .plus = whole.plus,
                         .basis = whole.basis,
                         .blocks = std::move(blocks)});
  }
  if (!here->all.empty()) out.model.manifolds = std::move(here);
}

std::uint32_t HeldBlocks::scalar_here(std::uint32_t whole) const {
  const std::size_t array = numbers_.array_of_scalar(whole);
  const runtime::ParameterArray& of = model_.arrays[array];
  const auto coordinate = static_cast<std::uint32_t>((whole - of.offset) % of.width);
  return first_here_[numbers_.of(array, whole)] + coordinate;
}

namespace {

/// Finds the residuals and blocks of a rank, then copies them.
class Cutter {
 public:
  Cutter(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
         std::span<const int> owners, int rank)
      : model_(model), blocks_(model, chunks, owners, rank) {}

  LocalModel cut() {
    for (std::size_t t = 0; t < model_.terms.size(); ++t) choose_instances(t);
    blocks_.number(out_);
    for (const LocalModel::LocalTerm& term : out_.terms) copy_term(term);
    out_.model.rows = model_.rows;
    out_.model.uniforms = model_.uniforms;
    out_.model.revision = model_.revision;
    return std::move(out_);
  }

 private:
  void choose_instances(std::size_t t) {
    const ir::Batch& batch = *model_.terms[t].batch;
    LocalModel::LocalTerm term{.whole = t};
    std::vector<std::uint32_t> blocks(std::max<std::uint32_t>(batch.parameter_columns(), 1));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot)
        blocks[slot] = blocks_.block_of(batch.index(i, slot));
      const auto is_own = [&](std::uint32_t b) { return blocks_.is_own(b); };
      if (std::ranges::none_of(blocks, is_own)) continue;
      for (const std::uint32_t b : blocks) blocks_.keep(b);
      term.instances.push_back(static_cast<std::uint32_t>(i));
      term.counted.push_back(is_own(blocks[0]) ? 1 : 0);
      out_.again += is_own(blocks[0]) ? 0 : 1;
    }
    out_.residuals += term.instances.size();
    if (!term.instances.empty()) out_.terms.push_back(std::move(term));
  }

  void copy_term(const LocalModel::LocalTerm& chosen) {
    const runtime::Term& term = model_.terms[chosen.whole];
    const ir::Batch& batch = *term.batch;
    auto here = std::make_unique<ir::Batch>(batch.parameter_columns(), batch.uniform_columns(),
                                            batch.data_columns());
    std::vector<std::uint32_t> indices(batch.index_columns());
    std::vector<double> data(batch.data_columns());
    for (const std::uint32_t i : chosen.instances) {
      for (std::uint32_t c = 0; c < indices.size(); ++c) {
        const std::uint32_t index = batch.index(i, c);
        indices[c] = c < batch.parameter_columns() ? blocks_.scalar_here(index) : index;
      }
      for (std::uint32_t c = 0; c < data.size(); ++c) data[c] = batch.data(i, c);
      here->append(indices, data, batch.residual_row(i));
    }
    runtime::Term copy = term;
    copy.batch = here.get();
    out_.model.terms.push_back(std::move(copy));
    out_.batches.push_back(std::move(here));
  }

  const runtime::Model& model_;
  HeldBlocks blocks_;
  LocalModel out_;
};

}  // namespace

void LocalModel::narrow(std::span<const double> whole, std::span<double> here) const {
  for (const std::vector<Run>* runs : {&own, &ghosts})
    for (const Run& run : *runs)
      std::copy_n(whole.data() + run.whole, run.count, here.data() + run.here);
}

void LocalModel::widen(std::span<const double> here, std::span<double> whole) const {
  std::ranges::fill(whole, 0.0);
  for (const Run& run : own)
    std::copy_n(here.data() + run.here, run.count, whole.data() + run.whole);
}

LocalModel local_model(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
                       std::span<const int> owners, int rank) {
  return Cutter(model, chunks, owners, rank).cut();
}

}  // namespace topograd::distributed
