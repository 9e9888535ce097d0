// Device-resident numbers of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::ir {

/// Constant numbers that a backend can read without the host.
class ResidentData {
 public:
  virtual ~ResidentData() = default;
  virtual std::size_t size() const = 0;
  /// Copies the numbers to the host. Safe on any thread. Throws the errors of their device.
  virtual std::vector<double> read() const = 0;
};

/// The rows of a data column: row i is number places[i] of `numbers`.
struct ResidentColumn {
  using Places = std::shared_ptr<const std::vector<std::uint32_t>>;
  std::shared_ptr<const ResidentData> numbers;
  Places places;
  /// For a batch whose rows are those of another batch in another order: the places there.
  Places places_there = nullptr;
};

}  // namespace topograd::ir
