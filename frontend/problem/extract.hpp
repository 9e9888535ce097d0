// Makes a topology from a piece of tape: slots for its leaves, and its canonical form.
#pragma once

#include "../../ir/error.hpp"
#include "../../ir/topology/topology.hpp"
#include "../block_kind.hpp"
#include "../value/raw_tape.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace topograd::detail
