// Cutting a rank's part out of a model.
#include "local_model.hpp"

#include "held_blocks.hpp"

#include <algorithm>

namespace topograd::distributed {
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
