// Internal: the parameter blocks that share an instance.
#pragma once

#include "../../ir/batch/unset_vector.hpp"
#include "order.hpp"

#include <cstdint>
#include <span>

namespace topograd::runtime {

/// A block with more neighbours than this is a hub: it connects nothing.
inline constexpr std::uint32_t kHub = 512;

/// Blocks that share an instance, as lists by block; hubs have empty lists.
class Neighbours {
 public:
  /// Lists are in the order of terms and instances for any number of threads.
  Neighbours(std::span<const TouchedBlocks> terms, std::uint32_t blocks);

  std::span<const std::uint32_t> of(std::uint32_t block) const {
    return std::span(list_).subspan(start_[block], start_[block + 1] - start_[block]);
  }
  bool have_hubs() const { return hubs_; }

  void expect_start(std::uint32_t block) const { __builtin_prefetch(&start_[block]); }
  void expect_list(std::uint32_t block) const { __builtin_prefetch(list_.data() + start_[block]); }

 private:
  ir::PagedVector<std::uint32_t> start_;
  ir::UnsetPagedVector<std::uint32_t> list_;
  bool hubs_ = false;
};

}  // namespace topograd::runtime
