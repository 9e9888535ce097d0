// Memory for large arrays, in large pages.
#pragma once

#include "../machine/platform.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

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

}  // namespace topograd::ir
