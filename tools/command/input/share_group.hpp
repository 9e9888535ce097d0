// Processes that run the same command, each with a share of the problem's residuals.
#pragma once

#include "../../../ir/share.hpp"

#include <span>
#include <string>
#include <vector>

namespace topograd::command {

/// All functions but share() and speaks() are collective: all processes call them in the same
/// order.
class ShareGroup {
 public:
  virtual ~ShareGroup() = default;
  virtual Share share() const = 0;
  /// True for the one process, the first, that prints and writes files.
  virtual bool speaks() const = 0;
  /// Numbers of all processes, in their order; empty on all but the first.
  virtual std::vector<double> gather_at_first(std::span<const double> numbers) const = 0;
  /// Bytes of all processes, in their order, on all of them.
  virtual std::vector<std::string> gather(const std::string& bytes) const = 0;
  /// Writes a file of all processes' parts: the first text of each process in their order, then the
  /// second ones. Every process gives as many texts. Throws Error{File} on all.
  virtual void write(const std::string& path, std::span<const std::string> texts) const = 0;
};

}  // namespace topograd::command
