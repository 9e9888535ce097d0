// The table of vector kernels, and their source from GLSL files with types and names filled in.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../glsl/reduction.hpp"
#include "../glsl/shader.hpp"
#include "kernels.hpp"

namespace topograd::codegen {

/// Elements of a buffer: numbers as wide as vectors, as wide as sums, or u32.
enum class Numbers { vectors, sums, words };

struct BufferRow {
  std::string_view name;  ///< in GLSL
  Numbers numbers;
  Access access;
  BufferRole role;
  std::vector<Scalar> named_scalars =
      {};  ///< of a buffer of scalars: those that are named in the body
};

struct PushRow {
  std::string_view name;  ///< in GLSL
  std::uint32_t VectorConstants::*word;
};

enum class Width {
  block,  ///< 1 to kMaxBlockWidth
  any,
  lanes  ///< of a row: a power of two up to the workgroup size
};

/// Workgroups that a dispatch has.
enum class GroupCount {
  elements,  ///< as many as a grid-stride loop over `count` asks for
  one,
  few,    ///< and large: every workgroup of a later kernel reads all of their partial sums
  items,  ///< one for each item, the caller's number
  tiles   ///< the same, of kTileInvocations
};

struct KernelRow {
  std::string_view name;
  std::vector<BufferRow> buffers;
  std::vector<PushRow> push;
  bool predicates = false;  ///< may return at once where Scalar::state is not 0
  Width width = Width::block;
  GroupCount groups = GroupCount::elements;
};
const KernelRow& row(VectorOp op);

/// The body of a kernel, or lines that several have.
struct SourceText {
  std::string_view name, text;
};
std::span<const SourceText> source_texts();

/// Name of its constant in GLSL: RZ.
std::string constant_name(Scalar scalar);

/// Notes the use of a scalar buffer, and declares constants named after the scalars: RZ, THRESHOLD.
void use_scalars(Shader& shader, BufferRole role, Precision precision,
                 std::initializer_list<Scalar> named_scalars, Access access = Access::read);

/// Writes the statements that every workgroup runs before its own work. Returns in them are the
/// same for all invocations of a dispatch.
class ConjugateSource {
 public:
  ConjugateSource(Shader& shader, Precision scalars, std::uint32_t workgroup_size,
                  bool use_subgroups = false)
      : shader_(shader), scalars_(scalars), sums_(scalars, workgroup_size, use_subgroups) {}

  /// Declares rz, rr, state and beta; returns where state is not running. One invocation of the
  /// dispatch writes state, rz, rr to the decision buffer if it `decides`.
  void open_direction(bool decides);
  /// Declares rz and rr, and changes state where these end the solve.
  void decide();

 private:
  /// {S} and state names in `pattern` filled in.
  void lines(std::string_view pattern);

  Shader& shader_;
  Precision scalars_;
  Summation sums_;
};

/// Writes the body of one kernel into a shader. In a .glsl file `//// NAME` begins the lines of a
/// kernel, or of a part that kernels include. In these lines
///
///   REAL, SUM              types of vectors, and of sums and scalars
///   WIDTH, PACKED, GROUP   width of a block, size of its packed triangle, size of a workgroup
///   RUNNING, ACCEPTED ...  values of SolverState and Verdict
///   1.5_s                  a literal of type SUM
///   workgroup_products     total of a sum of begin_products() without a size
///   row_real, row_sum      conversion of a sum of begin_row() to such a number
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
  std::string sum_word(std::string_view word);
  void note(std::string_view word);
  void line(std::string_view text);

  void begin_sum(Arguments arguments);
  void add(Arguments arguments);
  void total(Arguments arguments);
  void store_sum(Arguments arguments);
  void begin_products(Arguments arguments);
  void add_products(Arguments arguments);
  void add_products(Arguments arguments, bool exact);
  void add_rounded(Arguments arguments);
  void store_products(Arguments arguments);
  void begin_row(Arguments arguments);
  void add_row(Arguments arguments);
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
  ProductSum products_;
  ConjugateSource conjugate_;
};

}  // namespace topograd::codegen
