// Rows of the table of vector kernels, and their bodies in GLSL.
#pragma once

#include "../glsl/shader.hpp"
#include "kernels.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace topograd::codegen {

/// Elements of a buffer: numbers as wide as vectors, as wide as sums, or u32.
enum class Numbers { vectors, sums, words };

struct BufferRow {
  std::string_view name;  ///< in GLSL
  Numbers numbers;
  Access access;
  BufferRole role;
  std::vector<Scalar> places = {};  ///< of a buffer of scalars: those that are named in the body
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

}  // namespace topograd::codegen
