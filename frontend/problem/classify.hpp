// Groups equal keys in parallel.
#pragma once

#include "../../ir/machine/parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace topograd::detail {

/// Elements per piece of a parallel loop over a map's elements; a loop with fewer runs on the
/// caller's thread.
inline constexpr std::size_t kPieceOfElements = 16384;

/// f(piece, begin, end) for consecutive pieces of `count` elements.
template <class F>
void for_pieces(std::size_t count, std::size_t piece, const F& f) {
  const std::size_t pieces = (count + piece - 1) / piece;
  const auto run = [&](std::size_t k) { f(k, k * piece, std::min(count, (k + 1) * piece)); };
  if (pieces < 2) {
    if (pieces == 1) run(0);
    return;
  }
  ir::parallel_for(std::size_t{0}, pieces, run);
}

/// Groups 0 .. count - 1 by their keys. Returns the first position of each class, ascending: class
/// numbers do not depend on the number of threads.
///
///   key_of(k, key)  writes the key of k into `key`, which may hold another one; called on any
///   thread class_of(k)     reference to the class number of k
template <class Key, class KeyOf, class ClassOf>
std::vector<std::size_t> classify(std::size_t count, const KeyOf& key_of, const ClassOf& class_of) {
  struct Piece {
    std::vector<std::pair<Key, std::size_t>> found;  // keys with their first positions
    std::vector<std::uint32_t> classes;              // class number of each key
  };
  std::vector<Piece> pieces((count + kPieceOfElements - 1) / kPieceOfElements);
  for_pieces(count, kPieceOfElements, [&](std::size_t piece, std::size_t begin, std::size_t end) {
    std::map<Key, std::uint32_t> number_of;
    const Key* last = nullptr;  // neighbours usually have equal keys
    std::uint32_t number = 0;
    Key key;
    for (std::size_t k = begin; k < end; ++k) {
      key_of(k, key);
      if (last == nullptr || key != *last) {
        const auto next = static_cast<std::uint32_t>(number_of.size());
        const auto [at, is_new] = number_of.try_emplace(key, next);
        if (is_new) pieces[piece].found.emplace_back(key, k);
        last = &at->first;
        number = at->second;
      }
      class_of(k) = number;
    }
  });
  std::vector<std::size_t> first;
  std::map<Key, std::uint32_t> number_of;
  for (Piece& piece : pieces) {
    for (auto& [key, at] : piece.found) {
      const auto next = static_cast<std::uint32_t>(first.size());
      const auto [known, is_new] = number_of.try_emplace(std::move(key), next);
      if (is_new) first.push_back(at);
      piece.classes.push_back(known->second);
    }
  }
  if (first.size() < 2) return first;  // all have class 0
  for_pieces(count, kPieceOfElements, [&](std::size_t piece, std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) class_of(k) = pieces[piece].classes[class_of(k)];
  });
  return first;
}

}  // namespace topograd::detail
