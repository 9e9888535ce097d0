// A process knows this of residuals that other processes have.
#pragma once

#include "../../ir/hash.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace topograd {

/// The residuals of a problem that several processes solve, where each process has added a share of
/// them. The order of all instances of a term is that of the processes, then that of adding.
class ModelShares {
 public:
  virtual ~ModelShares() = default;

  /// Instances of a term in all processes.
  virtual std::uint64_t instances(std::size_t term) const = 0;
  /// Instances of a term in the processes before this one.
  virtual std::uint64_t first_instance(std::size_t term) const = 0;
  /// Rows of residuals, or of energies, in the processes before this one.
  virtual std::uint64_t first_row(bool energies) const = 0;

  // Collective: all processes call them in the same order.

  /// The first text that is not empty, in the order of the processes, on all of them.
  virtual std::string first_text(const std::string& here) const = 0;
  /// Sets each flag that is set in one process.
  virtual void join(std::span<std::uint8_t> flags) const = 0;
  /// The sums of both halves, modulo 2^64.
  virtual ir::Hash128 sum(ir::Hash128 here) const = 0;
};

}  // namespace topograd
