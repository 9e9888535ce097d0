// Vectors whose elements have no value until they are written.
#pragma once

#include "row_storage.hpp"

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::ir {

/// Allocator of vectors that do not clear new elements.
///
/// A std::vector clears its elements on one thread, which takes longer for large arrays than
/// writing them on all threads.
template <class T, class Base>
struct UnsetAllocator : Base {
  static_assert(std::is_trivially_copyable_v<T>);
  using value_type = T;
  template <class U>
  struct rebind {  // NOLINT(readability-identifier-naming): the standard's name
    using other = UnsetAllocator<U, typename std::allocator_traits<Base>::template rebind_alloc<U>>;
  };

  UnsetAllocator() = default;
  template <class U, class Other>
  UnsetAllocator(const UnsetAllocator<U, Other>&) {}  // NOLINT: as the standard's allocators

  void construct(T*) {}
  template <class... Arguments>
  void construct(T* at, Arguments&&... arguments) {
    std::construct_at(at, std::forward<Arguments>(arguments)...);
  }
};

/// A vector for whose elements the user writes values before reading them.
template <class T>
using UnsetVector = std::vector<T, UnsetAllocator<T, std::allocator<T>>>;

/// The same in large pages, if it is long enough.
template <class T>
using UnsetPagedVector = std::vector<T, UnsetAllocator<T, PageAllocator<T>>>;

}  // namespace topograd::ir
