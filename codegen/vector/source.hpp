// Vector kernels from their GLSL files: types, widths and names filled in, sums and loops written
// out.
#pragma once

#include "../glsl/reduction.hpp"
#include "conjugate_source.hpp"
#include "table.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace topograd::codegen {

/// Writes the body of one kernel into a shader. In a .glsl file `//// NAME` begins the lines of a
/// kernel, or of a part that kernels include. In these lines
///
///   REAL, SUM              types of vectors, and of sums and scalars
///   WIDTH, PACKED, GROUP   width of a block, size of its packed triangle, size of a workgroup
///   RUNNING, ACCEPTED ...  values of SolverState and Verdict
///   1.5_s                  a literal of type SUM
///   #include NAME          the lines of another one
///   #if FLAG, #else, #end  lines for some requests
///   #each LINE             the line once for each coordinate of a block, $ being its number;
///                          at 0, an addition of $u and of `$u * count` is left out
///   #each, #end            the lines between them, in the same way
///   #rest LINE             the same without the first one; $before is the number before
///   ALL(e)                 the sum of an expression over all coordinates
///   GRID(i, count) {       a loop over the whole grid
///   CHUNK(k) {             a loop of the workgroup over the scalars of its chunk
///
/// and the statements of kStatements (source.cpp). Buffers and scalars are declared where they are
/// mentioned.
class VectorSource {
 public:
  VectorSource(const VectorKernelRequest& request, Shader& shader);
  void write();

 private:
  using Arguments = std::span<const std::string>;
  struct Statement {
    std::string_view name;
    void (VectorSource::*write)(Arguments);
  };
  static const Statement kStatements[];

  // text to lines
  void expand(std::span<const std::string_view> lines, std::string_view indent,
              std::optional<std::uint32_t> coordinate, std::vector<std::string>& out) const;
  bool holds(std::string_view flag) const;
  std::string all(std::string line) const;

  // lines to GLSL
  std::string fill(std::string_view line);
  std::string word(std::string_view word);
  void note(std::string_view word);
  void line(std::string_view text);

  void begin_sum(Arguments arguments);
  void add(Arguments arguments);
  void add_number(Arguments arguments);
  void store_sum(Arguments arguments);
  void store_maximum(Arguments arguments);
  void store(std::string_view index, const std::string& value, std::string_view buffer);
  void decide(Arguments arguments);
  void begin_direction(Arguments arguments);
  void apply_inverse(Arguments arguments);
  void fold_row_sums(Arguments arguments);

  const VectorKernelRequest& request_;
  const KernelRow& row_;
  Shader& shader_;
  Summation sums_;
  ConjugateSource conjugate_;
};

}  // namespace topograd::codegen
