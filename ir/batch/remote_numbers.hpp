// Numbers of a batch that lie elsewhere than on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::ir {

/// Numbers that do not change, where a backend may reach them without the host.
class RemoteNumbers {
 public:
  virtual ~RemoteNumbers() = default;
  virtual std::size_t size() const = 0;
  /// Brings them to the host. Any thread may call. Throws what the device throws that holds them.
  virtual std::vector<double> read() const = 0;
};

/// The rows of a data column: row i is number places[i] of `numbers`.
struct RemoteColumn {
  using Places = std::shared_ptr<const std::vector<std::uint32_t>>;
  std::shared_ptr<const RemoteNumbers> numbers;
  Places places;
  /// Of a batch whose rows are those of another one in another order: the places there.
  Places places_there = nullptr;
};

}  // namespace topograd::ir
