// Raw shapes: tapes that were seen before, so that their like need not be brought into canonical
// form.
#pragma once

#include "../value/raw_tape.hpp"
#include "extract.hpp"

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace topograd::detail {

/// One row of a batch on its way from the tape.
struct Row {
  std::vector<std::uint32_t> indices;  ///< parameter slots, then uniform slots
  std::vector<double> data;
  /// Entries of data arrays that `data` came from, or kNoSource; empty if none came from there.
  std::vector<std::uint32_t> sources;
};

/// The number came from the user's expression and is not set later.
inline constexpr std::uint32_t kNoSource = ~std::uint32_t{0};

/// A tape with what differs between residuals masked out, and where its leaves go.
class RawShape {
 public:
  RawShape(const RawTape& raw, LeafMap leaves, std::uint32_t topology);

  /// Whether the tape has the ops, wiring and kinds of leaves of this shape. Cost: reading it.
  bool same_structure(const RawTape& raw) const;

  /// Copies indices and numbers out in canonical order; false if leaves coincide otherwise than
  /// here.
  ///
  ///   entries  the problem's data arrays
  bool read(const RawTape& raw, std::span<const double> entries, Row& row) const;

  const LeafMap& leaves() const { return leaves_; }
  std::uint32_t topology() const { return topology_; }
  std::size_t bytes() const;

  /// The shape that followed this one last time: a guess at what comes next.
  RawShape* next = nullptr;

 private:
  std::vector<TapeNode> pattern_, mask_;
  std::vector<std::uint32_t> rows_;
  std::vector<RawGuard> guards_;
  LeafMap leaves_;
  bool bound_ = false;  // some data come from arrays
  std::uint32_t topology_;
};

/// Finds the raw shape of a tape: first by guess, then by hash.
class RawShapes {
 public:
  /// The shape that the tape has, with `row` filled, or nullptr.
  const RawShape* match(const RawTape& raw, std::span<const double> entries, Row& row);

  /// Remembers a shape of that tape, up to a bound on their number.
  void add(const RawTape& raw, const LeafMap& leaves, std::uint32_t topology);

  std::size_t bytes() const;

 private:
  void follow(RawShape* shape);

  std::deque<RawShape> shapes_;
  std::unordered_multimap<std::uint64_t, RawShape*> by_hash_;
  RawShape* last_ = nullptr;
  std::size_t largest_ = 0;  // nodes
};

}  // namespace topograd::detail
