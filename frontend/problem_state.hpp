// What a Problem holds: arrays, topologies with their batches, raw shapes, labels.
#pragma once

#include <topograd/frontend/problem.hpp>
#include <topograd/frontend/raw_shape.hpp>
#include <topograd/ir/hash.hpp>

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

namespace topograd::detail {

/// What an instance carries besides its row; instances from `id` on carry it, up to the next run.
struct Run {
  std::uint64_t id = 0;
  std::uint32_t label = 0;  ///< number in ProblemState::labels
  Loss loss = {};
};

/// A topology, its instances and what only the frontend needs to know of them.
struct Group {
  ir::Topology topology;
  bool energy = false;  ///< of energies; an equal topology of residuals is another group
  ir::Batch batch;
  std::vector<Run> runs;  ///< ascending by id
  std::vector<std::uint32_t>
      sources;                     ///< one for each number, row by row; empty if all are kNoSource
  std::vector<std::uint64_t> ids;  ///< of each instance, once a residual has been removed

  std::uint32_t outputs() const {
    return static_cast<std::uint32_t>(topology.program.outputs.size());
  }
};

/// The instance that a block's id stands for.
struct Location {
  std::uint32_t group = ~std::uint32_t{0};
  std::uint32_t instance = 0;
};

/// The blocks of one kind, residuals or energies, in the order of adding. Each kind numbers its
/// rows (an energy has one) and its ids on its own.
struct Ledger {
  std::uint64_t blocks = 0;         ///< that are there
  std::uint64_t rows = 0;           ///< that are there
  std::uint64_t next_id = 0;        ///< ids count the rows that were ever added
  bool removed_any = false;         ///< then `locations` and Group::ids are kept
  bool rows_moved = false;          ///< rows are to be numbered again before they are read
  std::vector<Location> locations;  ///< by id
};

struct ProblemState {
  std::uint32_t serial = 0;
  std::vector<ParameterArray> arrays;
  std::uint32_t scalars = 0;  ///< in x
  std::vector<double> data;   ///< all data arrays, one after the other
  std::vector<double> uniforms;
  std::vector<std::uint8_t> constants;  ///< one a scalar; empty if nothing is constant
  std::size_t constant_count = 0;

  std::deque<Group> groups;
  std::unordered_multimap<ir::Hash128, std::uint32_t> group_of_hash;
  std::deque<std::string> labels{std::string()};
  std::unordered_map<std::string_view, std::uint32_t> label_numbers;

  Ledger residuals, energies;
  Ledger& ledger(bool energy) { return energy ? energies : residuals; }
  const Ledger& ledger(bool energy) const { return energy ? energies : residuals; }

  RawShapes residual_shapes, energy_shapes;
  RawShapes& shapes(bool energy) { return energy ? energy_shapes : residual_shapes; }
  Row row;
  std::vector<std::uint32_t> raw_rows;
  CompactTape compact;
  Versions versions;
  TraceStatistics statistics;

  /// For the texts of errors about the next residual block or energy.
  Caller caller(std::string_view call, std::string_view label, bool energy = false) const;
  /// The group of an equal topology of that kind, which is added if there is none.
  std::uint32_t group_of(const ir::Canonical& canonical, bool energy);
  std::uint32_t label_number(std::string_view label);
  /// Appends an instance; returns its id.
  std::uint64_t append(std::uint32_t group, const Row& values, std::uint32_t label, Loss loss);

  void remove(std::uint64_t id, bool energy);
  /// Numbers the rows in the order of ids, if a removal has moved them.
  void number_rows();
  std::uint64_t id_of(const Group& group, std::size_t instance) const;
  Run run_of(const Group& group, std::size_t instance) const;

 private:
  void index_blocks(bool energy);
};

/// Nodes of this thread's tape that the rows are. Throws Error{Shape} and Error{StaleValue}.
std::vector<std::uint64_t> row_nodes(std::span<const Value> rows, const Caller& caller);

/// Adds the residual block that `rows` are, or the energy that its one row is: by its raw shape, or
/// in canonical form. Returns its id.
std::uint64_t trace_block(ProblemState& state, std::span<const Value> rows,
                          const ResidualOptions& options, bool energy);

/// Throws unless what is to be an energy has one row and no robust loss.
void check_energy(std::size_t rows, const Loss& loss, const Caller& caller);

}  // namespace topograd::detail
