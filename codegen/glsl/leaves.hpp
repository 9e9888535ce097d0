// What a work item reads and adds: leaves of its program, parts of the cost, and rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"
#include "reduction.hpp"

namespace topograd::codegen {

/// From this many loads or stores of one kind on, a loop over an array makes them: the time of
/// drivers' compilers grows with the square of the number of buffer accesses.
inline constexpr std::size_t kLeastLooped = 64;

/// Names of a request's leaves, unique in the shader.
LeafNames leaf_names(const KernelRequest& request, const ir::LeafCounts& leaves);

/// A parameter slot whose value (and direction) is already in a variable.
struct OwnSlot {
  std::uint32_t slot = 0;
  std::string value, direction;
};

/// Location of an instance's leaves.
struct LeafAccess {
  const ColumnLayout& layout;
  std::string_view row;       ///< variable that counts rows of the columns: "i" or "e"
  std::string_view seed_row;  ///< variable that counts rows of the seeds
  std::vector<OwnSlot> own;
  bool fused = false;  ///< tangents are preconditioned + beta * direction
  bool loads_tangents = true;
  // buffers of the columns, and their stride
  BufferRole index_columns = BufferRole::index_columns;
  BufferRole data_columns = BufferRole::data_columns;
  std::string_view stride = "stride";
  std::string_view counter = row;  ///< factor of the steps of flexible index columns
};

/// Entry `position` of the direction of a fused kernel.
std::string fused_direction(std::string_view position, Precision precision, Shader& shader);

/// Writes the loads of all live leaves of `prepared`, and of the index columns that `targets` need.
/// Own slots use their variables. Returns the position in x of each target slot.
std::vector<std::string> write_loads(const Prepared& prepared, const LeafAccess& access,
                                     const std::vector<std::uint32_t>& targets, Precision precision,
                                     LeafNames& names, Shader& shader);

/// Bytes of the columns that write_loads() reads for one row.
std::uint32_t column_bytes(const Prepared& prepared, const LeafAccess& access,
                           const std::vector<std::uint32_t>& targets, Precision precision);

/// Source for KernelRequest::values: every invocation of a workgroup reaches the end. May be empty.
class ValuesText {
 public:
  explicit ValuesText(const KernelRequest& request);

  explicit operator bool() const { return sum_.has_value(); }
  /// Before the first instance.
  void begin(Shader& shader) const;
  /// Opens a loop over the rows of the dispatch in strides of the grid.
  void open_loop(std::string_view variable, Shader& shader) const;
  /// Adds the outputs from `first` on of the instance in `row`.
  void add(const Written& written, std::size_t first, std::string_view row, Shader& shader) const;
  /// After the last instance, where all invocations meet.
  void end(Shader& shader) const;
  /// Bytes written per instance.
  std::uint32_t bytes() const;

 private:
  const KernelRequest& request_;
  Precision sums_;
  std::optional<Summation> sum_;
};

}  // namespace topograd::codegen
