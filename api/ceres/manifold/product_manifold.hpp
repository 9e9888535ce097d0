// ProductManifold: the product of manifolds in one parameter block.
#pragma once

#include "manifold.hpp"

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ceres {
namespace internal {

template <class M>
const Manifold& AsManifold(const M& manifold) {
  if constexpr (std::is_base_of_v<Manifold, M>) {
    return manifold;
  } else {
    return *manifold;
  }
}

}  // namespace internal

/// The product of manifolds, given by value or as smart pointers.
template <typename Manifold0, typename Manifold1, typename... Manifolds>
class ProductManifold final : public internal::KnownManifold {
 public:
  ProductManifold() : ProductManifold(Manifold0{}, Manifold1{}, Manifolds{}...) {}
  template <class M0, class M1, class... Ms>
  requires(sizeof...(Ms) == sizeof...(Manifolds)) ProductManifold(M0&& m0, M1&& m1, Ms&&... ms)
      : ProductManifold(std::make_unique<Parts>(std::forward<M0>(m0), std::forward<M1>(m1),
                                                std::forward<Ms>(ms)...)) {}

 private:
  using Parts = std::tuple<Manifold0, Manifold1, Manifolds...>;

  explicit ProductManifold(std::unique_ptr<Parts> parts)
      : KnownManifold(Product(*parts)), parts_(std::move(parts)) {}
  static topograd::Manifold Product(const Parts& parts) {
    return std::apply(
        [](const auto&... part) {
          return topograd::Manifold::product(internal::AsManifold(part).Lowered()...);
        },
        parts);
  }

  std::unique_ptr<Parts> parts_;  // fixed address: opaque manifolds are referred to
};

template <typename Manifold0, typename Manifold1, typename... Manifolds>
ProductManifold(Manifold0&&, Manifold1&&, Manifolds&&...)
    -> ProductManifold<std::decay_t<Manifold0>, std::decay_t<Manifold1>,
                       std::decay_t<Manifolds>...>;

}  // namespace ceres
