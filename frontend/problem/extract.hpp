// Makes a topology from a piece of tape, unless its raw shape is one that was seen before.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../../ir/error.hpp"
#include "../../ir/topology/topology.hpp"
#include "../block_kind.hpp"
#include "../state/blocks.hpp"
#include "../value/tape.hpp"

namespace topograd::detail {

struct ProblemState;

/// The call that traces a residual, for the texts of errors.
struct Caller {
  std::string_view call;   ///< "add_residual"
  std::string_view label;  ///< label of the residual; may be empty
  std::uint64_t number;    ///< number of the block among those of its kind
  std::uint32_t problem;   ///< serial
  std::uint32_t map = 0;   ///< serial of the map being traced
  std::size_t parameters = 0, uniforms = 0, data = 0;  ///< sizes of the problem
  BlockKind block = BlockKind::residual;
  const ProblemState* state = nullptr;  ///< finds removed unknowns; may be null

  std::string_view kind() const { return noun(block); }

  /// Throws an Error whose message begins with the call and ends with the block.
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const;
  [[noreturn]] void fail_removed(std::uint32_t parameter) const;
};

/// Another leaf that reads what an existing slot reads.
struct Alias {
  std::uint32_t node;
  std::uint32_t slot;
};

/// The nodes of a tape that the slots of a topology stand for, in canonical order.
struct LeafMap {
  std::vector<std::uint32_t> parameters, uniforms, data;
  std::vector<Alias> parameter_aliases, uniform_aliases;

  /// The same leaves on a tape on which node k of this tape is node ids[k] - begin.
  LeafMap moved(std::span<const std::uint64_t> ids, std::uint64_t begin) const;
};

struct Extraction {
  ir::Canonical canonical;
  LeafMap leaves;
};

/// Index in x of a parameter leaf.
using IndexOf = std::function<std::uint32_t(const TapeNode&)>;

/// A tape as a program, as it is written.
struct PlainProgram {
  ir::Program program;
  std::vector<std::uint32_t> parameters;  ///< index in x of each slot, ascending
  std::vector<std::uint32_t> uniforms;    ///< number of each slot, ascending
  std::vector<std::uint32_t> data;        ///< node of each slot
};

/// The program of a tape whose nodes are all needed, by slots that extract() begins with. Errors
/// are those of Problem::add_residual.
PlainProgram plain_program(const RawTape& raw, const IndexOf& index_of, const Caller& caller);

/// The canonical form of a tape whose nodes are all needed.
///
/// Leaves that read the same unknown or uniform share one slot; parameter slots are numbered by
/// ascending index before they are brought into canonical order. Errors are those of
/// Problem::add_residual.
Extraction extract(const RawTape& raw, const IndexOf& index_of, const Caller& caller);

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
