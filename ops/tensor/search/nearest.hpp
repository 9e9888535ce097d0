// Nearest neighbours: a graph on the CPU proposes some, exact distances rank them.
#pragma once

#include "../../run/run.hpp"
#include "../tensor.hpp"

#include <cstdint>
#include <memory>

namespace topograd::ops {

enum class Distance {
  euclidean,  ///< |q - t|
  cosine      ///< 1 - q · t / (|q| |t|), made as |q / |q| - t / |t||² / 2
};

/// The graph is that of Malkov & Yashunin, Efficient and robust approximate nearest neighbor search
/// using hierarchical navigable small world graphs (2018).
struct NearestOptions {
  Distance distance = Distance::euclidean;
  /// Compares each query with all targets, and makes no graph.
  bool exact = false;
  std::int64_t links = 16;          ///< of a target in the graph, 2 to 256; more for wide targets
  std::int64_t build_width = 200;   ///< targets that are looked at for those links; > 0
  std::int64_t search_width = 100;  ///< targets that a search proposes, > 0: recall against time
  std::uint64_t seed = 1;           ///< of the levels of the graph
  /// The graph is made on one thread, so that it is the same in every run.
  bool deterministic = false;
};

struct Nearest {
  Tensor distances;  ///< (q, k), the smallest first, of equal ones in no fixed order
  Tensor indices;    ///< (q, k) rows of the targets, as numbers of the tensor's type
};

/// Finds the rows of a table that are nearest to queries.
///
/// The graph (hnswlib) lies in the host's memory and is searched by all threads of the CPU. What it
/// proposes is ranked by distances in the tensors' type, where the targets lie, or where the
/// executor expects that to be fastest: distances are exact, and a neighbour can be missing.
/// Without a graph, because `exact` is set or the library was built without hnswlib, none is
/// missing. Derivatives do not go through.
///
/// A handle; one thread at a time uses it and its copies.
class NearestIndex {
 public:
  ///   targets  (n, d), n and d > 0; f16 is read as f32. Its numbers as they are now.
  ///
  /// Throws Error{Shape}; Error{InvalidArgument} for options out of range, for more than 2^24
  /// targets of f32, whose indices f32 does not hold, and, where a graph is made, for targets that
  /// are not finite, of cosine also of length 0; Error{OutOfHostMemory}. Cost of a graph: n times
  /// `build_width` comparisons and more, and 4 (d + 2 links) bytes a target.
  explicit NearestIndex(const Tensor& targets, const NearestOptions& options = {});

  /// The k nearest of `search_width` targets that the graph proposes, or of more where k is larger.
  ///
  ///   queries  (d) or (q, d), of the targets' type    result  (k) or (q, k)
  ///
  /// Without a graph, targets whose distance is no number come last, at infinity. With options: on
  /// their device, or it throws; the graph is searched on the CPU all the same.
  ///
  /// Throws Error{Shape} "nearest: expected queries (4) or (q, 4), got (2, 3)";
  /// Error{InvalidArgument} "nearest: expected 0 < k <= 7, got 9", and, where
  /// there is a graph, for queries that are not finite, of cosine also of length 0.
  Nearest search(const Tensor& queries, std::int64_t k) const;
  Nearest search(const Tensor& queries, std::int64_t k, const OpOptions& options) const;

  /// There is a graph: neighbours can be missing.
  bool is_approximate() const;
  const NearestOptions& options() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace topograd::ops
