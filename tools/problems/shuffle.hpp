// Permutations that are the same on every machine.
#pragma once

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace topograd::problems {

/// The shuffle of Fisher and Yates, because std::shuffle differs between libraries.
template <class T>
void shuffle_in_place(std::vector<T>& items, std::mt19937_64& random) {
  for (std::size_t k = items.size(); k > 1; --k) std::swap(items[k - 1], items[random() % k]);
}

}  // namespace topograd::problems
