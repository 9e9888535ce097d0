// Memory for large arrays, in large pages.
#pragma once

#include "../machine/platform.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace topograd::ir {

/// Memory of map_pages() with one owner; empty, or `size()` bytes.
class Pages {
 public:
  Pages() = default;
  explicit Pages(std::size_t bytes) : memory_(platform::map_pages(bytes), {bytes}) {}

  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  std::size_t size() const { return memory_ == nullptr ? 0 : memory_.get_deleter().bytes; }

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(void* pages) const { platform::unmap_pages(pages, bytes); }
  };
  std::unique_ptr<void, Unmap> memory_;
};

/// Allocates arrays of several large pages as such, and others as new does.
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
  // At most a quarter is lost to rounding up.
  static bool is_large(std::size_t n) { return n >= 4 * platform::kLargePage / sizeof(T); }
};

/// A vector whose memory is in large pages where that is worth it.
template <class T>
using PagedVector = std::vector<T, PageAllocator<T>>;

}  // namespace topograd::ir
