// Memory of a batch's rows: blocks of columns that share large pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "../machine/platform.hpp"

namespace topograd::ir {

/// Owner of memory from map_pages(): empty, or `size()` bytes.
class Pages {
 public:
  Pages() : memory_(nullptr, {0}) {}
  explicit Pages(std::size_t bytes) : memory_(platform::map_pages(bytes), {bytes}) {}

  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  std::size_t size() const { return memory_ == nullptr ? 0 : memory_.get_deleter().bytes; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(void* pages) const { platform::unmap_pages(pages, bytes); }
  };
  std::unique_ptr<void, Unmap> memory_;
};

/// Allocator that uses large pages for arrays of several large pages, and operator new for others.
template <class T>
struct PageAllocator {
  using value_type = T;
  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}  // NOLINT: as the standard's allocators

  T* allocate(std::size_t n) {
    if (is_large(n)) return static_cast<T*>(platform::map_pages(n * sizeof(T)));
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* memory, std::size_t n) {
    if (is_large(n)) return platform::unmap_pages(memory, n * sizeof(T));
    std::allocator<T>().deallocate(memory, n);
  }
  friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }

 private:
  // From four pages on, rounding up to whole pages wastes at most a quarter.
  static bool is_large(std::size_t n) { return n >= 4 * platform::kLargePage / sizeof(T); }
};

/// A vector that uses large pages if it is long enough.
template <class T>
using PagedVector = std::vector<T, PageAllocator<T>>;

/// Blocks of kRows rows, by column. Only the first one grows, from a few rows on; the others never
/// move, and those of a long batch share large pages. The user counts the rows in use.
class RowStorage {
 public:
  static constexpr std::size_t kRows = 4096;

  struct Block {
    std::size_t rows = 0;                // capacity
    std::size_t stride = 0;              // elements from one column to the next
    std::uint64_t* row = nullptr;        // start of the block's memory: rows, data, indices
    double* data = nullptr;              // column-major
    std::uint32_t* index = nullptr;      // column-major
    std::unique_ptr<std::byte[]> owned;  // null if the block is in large pages
  };

  RowStorage(std::uint32_t index_columns, std::uint32_t data_columns)
      : index_columns_(index_columns), data_columns_(data_columns) {}

  std::uint32_t index_columns() const { return index_columns_; }
  std::uint32_t data_columns() const { return data_columns_; }

  /// The block of a row, which is row % kRows of it.
  const Block& of(std::size_t row) const { return blocks_[row / kRows]; }
  const Block& operator[](std::size_t block) const { return blocks_[block]; }
  /// Makes room for one row or more after `used` rows: all `rows` if they fit in the first block,
  /// which moves as it grows.
  void make_room(std::size_t used, std::size_t rows);
  /// Bytes of all blocks, unused capacity included.
  std::size_t bytes() const;

 private:
  std::size_t bytes_of(std::size_t stride) const;
  std::byte* take_from_pages(std::size_t bytes);
  Block make_block(std::size_t rows);

  std::uint32_t index_columns_, data_columns_;
  std::vector<Block> blocks_;
  std::vector<Pages> pages_;
  std::size_t used_ = 0;  // bytes in use in the last page
};

}  // namespace topograd::ir
