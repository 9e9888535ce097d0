// Nearest neighbours: a graph on the CPU proposes candidates, which exact distances rank.
#pragma once

#include "../../run/run.hpp"
#include "../tensor.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace topograd::ops {

enum class Distance {
  euclidean,  ///< |q - t|
  cosine      ///< 1 - q · t / (|q| |t|), computed as |q / |q| - t / |t||² / 2
};

/// The graph is from Malkov & Yashunin, Efficient and robust approximate nearest neighbor search
/// using hierarchical navigable small world graphs (2018).
struct NearestOptions {
  Distance distance = Distance::euclidean;
  /// Compares each query with all targets, without a graph.
  bool exact = false;
  std::int64_t links = 16;          ///< per target of the graph, 2 to 256; more for wide targets
  std::int64_t build_width = 200;   ///< candidates for these links; > 0
  std::int64_t search_width = 100;  ///< candidates per search, > 0: recall against time
  std::uint64_t seed = 1;           ///< of the levels of the graph
  /// Builds the graph on one thread, so that it is the same in every run.
  bool deterministic = false;
};

/// Where the last search ran. The times of both stages are those of all queries.
struct NearestStatistics {
  ExecutionStats graph;      ///< of the search of the graph; without a graph, no device
  ExecutionStats distances;  ///< of the exact distances; 0 for times of a device that are unknown
  std::int64_t queries = 0;
  std::int64_t candidates = 0;  ///< of each query: all targets without a graph
};

struct Nearest {
  Tensor distances;  ///< (q, k), ascending; ties are in no fixed order
  Tensor indices;    ///< (q, k) rows of the targets, as numbers of the tensor's type
};

/// Finds the rows of a table that are nearest to queries.
///
/// The graph (hnswlib) is in host memory; all threads of the CPU search it. Its candidates are
/// ranked by distances in the tensors' type, on the device of the targets or where the executor
/// expects that to be fastest. Distances are exact, but neighbours can be missing. Without a graph
/// (if `exact` is set or the library was built without hnswlib) none is missing. Not
/// differentiable.
///
/// A handle; it and its copies are not thread-safe.
class NearestIndex {
 public:
  ///   targets  (n, d), n and d > 0; f16 is read as f32. Later changes have no effect.
  ///
  /// Throws Error{Shape}; Error{InvalidArgument} for options out of range, for more than 2^24
  /// targets of f32, whose indices f32 cannot represent, and, with a graph, for targets that are
  /// not finite or, for cosine, have length 0; Error{OutOfHostMemory}. Cost of a graph: at least n
  /// times `build_width` comparisons, and 4 (d + 2 links) bytes per target.
  explicit NearestIndex(const Tensor& targets, const NearestOptions& options = {});

  /// The k nearest of the graph's candidates: `search_width`, or k if that is larger.
  ///
  ///   queries  (d) or (q, d), of the targets' type    result  (k) or (q, k)
  ///
  /// Without a graph, targets whose distance is NaN come last, at infinity. With options: on their
  /// device, or it throws; the graph is always searched on the CPU.
  ///
  /// Throws Error{Shape} "nearest: expected queries (4) or (q, 4), got (2, 3)";
  /// Error{InvalidArgument} "nearest: expected 0 < k <= 7, got 9", and, with a graph, for queries
  /// that are not finite or, for cosine, have length 0.
  Nearest search(const Tensor& queries, std::int64_t k) const;
  Nearest search(const Tensor& queries, std::int64_t k, const OpOptions& options) const;

  /// Adds targets behind the present ones; copies of the handle have them, too.
  ///
  ///   targets  (d) or (m, d), of the same type; m = 0 changes nothing
  ///
  /// Throws the errors of the constructor; the index is then unchanged unless memory ran out in the
  /// middle of a graph. Cost: that of building with these targets, and a copy of all targets.
  void add(const Tensor& targets);

  /// Writes targets, options and graph to a file, which it replaces as a whole. Throws Error{File}.
  void save(const std::string& path) const;
  /// Reads a file of save() of a machine with the same byte order: searches give the same results.
  /// The graph is read, not built.
  ///
  ///   device  where the targets are placed; empty: nowhere
  ///
  /// Throws Error{File}; Error{Parse} for other files and damaged ones.
  static NearestIndex load(const std::string& path, const std::optional<Device>& device = {});

  /// Number of targets.
  std::int64_t size() const;
  /// True if there is a graph: neighbours can be missing.
  bool is_approximate() const;
  const NearestOptions& options() const;
  /// Statistics of the last search, by any copy of the handle.
  const NearestStatistics& statistics() const;

 private:
  struct State;
  explicit NearestIndex(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace topograd::ops
