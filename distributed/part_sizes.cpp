// Counts residuals, ghosts and senders of all parts in one pass.
#include "part_sizes.hpp"

#include "../runtime/model/block_numbers.hpp"

#include <algorithm>

namespace topograd::distributed {
namespace {

/// Sorts, and removes repeated elements.
template <class T>
void make_set(std::vector<T>& list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

class Counter {
 public:
  Counter(const runtime::Model& model, std::span<const runtime::Chunk> chunks,
          std::span<const int> owners, int parts)
      : model_(model), numbers_(model.arrays), owner_(numbers_.count()) {
    sizes_.resize(static_cast<std::size_t>(parts));
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const runtime::Chunk& chunk = chunks[c];
      const auto owner = static_cast<std::uint32_t>(owners[c]);
      std::fill(owner_.begin() + chunk.first_block, owner_.begin() + chunk.end_block, owner);
      PartSize& size = sizes_[owner];
      ++size.chunks;
      size.blocks += chunk.end_block - chunk.first_block;
      size.scalars += chunk.end - chunk.first;
    }
  }

  std::vector<PartSize> count() {
    for (const runtime::Term& term : model_.terms) count_term(term);
    // The engine of a rank without blocks gets one as a ghost.
    for (std::size_t part = 0; part < sizes_.size(); ++part)
      if (sizes_[part].blocks == 0) ghosts_.push_back(pair(static_cast<std::uint32_t>(part), 0));
    make_set(ghosts_);
    std::vector<std::uint64_t> senders;
    for (const std::uint64_t ghost : ghosts_) {
      const auto part = static_cast<std::uint32_t>(ghost >> 32U);
      const auto block = static_cast<std::uint32_t>(ghost);
      ++sizes_[part].ghost_blocks;
      sizes_[part].ghost_scalars += width_of(block);
      senders.push_back(pair(part, owner_[block]));
    }
    make_set(senders);
    for (const std::uint64_t sender : senders) ++sizes_[sender >> 32U].senders;
    return std::move(sizes_);
  }

 private:
  static std::uint64_t pair(std::uint32_t part, std::uint32_t other) {
    return std::uint64_t{part} << 32U | other;
  }

  std::uint32_t width_of(std::uint32_t block) const {
    std::size_t array = model_.arrays.size() - 1;
    while (numbers_.first(array) > block) --array;
    return model_.arrays[array].width;
  }

  void count_term(const runtime::Term& term) {
    const ir::Batch& batch = *term.batch;
    std::vector<std::uint32_t> blocks, parts;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      blocks.clear();
      for (std::uint32_t slot = 0; slot < batch.parameter_columns(); ++slot)
        blocks.push_back(numbers_.at(batch.index(i, slot)));
      if (blocks.empty()) blocks.push_back(0);  // residuals without parameters
      const std::uint32_t counts = owner_[blocks[0]];
      parts.clear();
      for (const std::uint32_t block : blocks) parts.push_back(owner_[block]);
      make_set(parts);
      for (const std::uint32_t part : parts) {
        ++sizes_[part].residuals;
        sizes_[part].again += part == counts ? 0 : 1;
      }
      if (parts.size() > 1) add_ghosts(blocks, parts);
    }
    make_set(ghosts_);
  }

  void add_ghosts(std::vector<std::uint32_t>& blocks, const std::vector<std::uint32_t>& parts) {
    constexpr std::size_t kMany = std::size_t{1} << 26U;
    make_set(blocks);
    for (const std::uint32_t part : parts)
      for (const std::uint32_t block : blocks)
        if (owner_[block] != part) ghosts_.push_back(pair(part, block));
    if (ghosts_.size() >= limit_) {
      make_set(ghosts_);
      limit_ = std::max(kMany, 2 * ghosts_.size());
    }
  }

  const runtime::Model& model_;
  runtime::BlockNumbers numbers_;
  std::vector<std::uint32_t> owner_;   // by block
  std::vector<std::uint64_t> ghosts_;  // part and block, perhaps several times
  std::size_t limit_ = std::size_t{1} << 26U;
  std::vector<PartSize> sizes_;
};

}  // namespace

std::vector<PartSize> part_sizes(const runtime::Model& model,
                                 std::span<const runtime::Chunk> chunks,
                                 std::span<const int> owners, int parts) {
  return Counter(model, chunks, owners, parts).count();
}

}  // namespace topograd::distributed
