// Raw shapes: tapes seen before. A tape of a known shape need not be brought into canonical form.
#pragma once

#include "../state/blocks.hpp"
#include "../value/raw_tape.hpp"
#include "extract.hpp"

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace topograd::detail {

/// A hash of a tape's ops, wiring and kinds of leaves.
std::uint64_t shape_hash(const RawTape& raw);

/// A tape with masks for what differs between residuals, and the slots of its leaves.
class RawShape {
 public:
  RawShape(const RawTape& raw, LeafMap leaves, std::uint32_t topology);

  /// True if the tape has this shape's ops, wiring and kinds of leaves. Cost: one read of the tape.
  bool same_structure(const RawTape& raw) const;

  /// Copies indices and numbers in canonical order; returns false if other leaves coincide than
  /// here.
  ///
  ///   entries  numbers of the problem's data arrays
  bool read(const RawTape& raw, std::span<const double> entries, Row& row) const;

  const LeafMap& leaves() const { return leaves_; }
  std::uint32_t topology() const { return topology_; }
  std::size_t bytes() const;

  /// The shape that followed this one last time: a guess for the next shape.
  RawShape* next = nullptr;

 private:
  std::vector<TapeNode> pattern_, mask_;
  std::vector<std::uint32_t> rows_;
  std::vector<RawGuard> guards_;
  LeafMap leaves_;
  bool bound_ = false;  // some data come from arrays
  std::uint32_t topology_;
};

/// Finds the raw shape of a tape: by guess, then by hash.
class RawShapes {
 public:
  /// The shape of the tape, with `row` filled; nullptr if it is unknown.
  const RawShape* match(const RawTape& raw, std::span<const double> entries, Row& row);

  /// Stores the shape of the tape, up to a maximum number of shapes.
  void add(const RawTape& raw, const LeafMap& leaves, std::uint32_t topology);

  std::size_t bytes() const;

 private:
  void follow(RawShape* shape);

  std::deque<RawShape> shapes_;
  std::unordered_multimap<std::uint64_t, RawShape*> by_hash_;
  RawShape* last_ = nullptr;
  std::size_t largest_ = 0;  // in nodes
};

}  // namespace topograd::detail
