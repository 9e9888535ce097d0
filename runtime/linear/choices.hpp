// Choices of a linear system by name, and their reasons: the form of JᵀJ, and the preconditioner.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "../../ir/enum_table.hpp"

namespace topograd::runtime {

/// `Reason` is the enum of a table of sentences (preconditioners.def, matrix_reasons.def). Reports
/// make the sentence (solver/plan/report.hpp).
template <class Reason>
struct Why {
  Reason reason{};
  std::array<double, 6> numbers{};  ///< {0}, {1}, ... of the sentence

  bool operator==(const Why&) const = default;
};

template <class Reason, class... Numbers>
constexpr Why<Reason> because(Reason reason, Numbers... numbers) {
  return {reason, {static_cast<double>(numbers)...}};
}

/// How conjugate gradients multiply by JᵀJ.
enum class NormalMatrix {
#define TG_NORMAL_MATRIX(row, ...) row,
#include "matrix_reasons.def"
};
inline constexpr EnumRow<NormalMatrix> kNormalMatrices[] = {
#define TG_NORMAL_MATRIX(row, ...) {.value = NormalMatrix::row, .name = #row, __VA_ARGS__},
#include "matrix_reasons.def"
};
TG_ENUM_TABLE(NormalMatrix, kNormalMatrices)

enum class MatrixReason {
#define TG_MATRIX_REASON(reason, sentence) reason,
#include "matrix_reasons.def"
};

/// The method that an engine used.
struct NormalMatrixUse {
  bool assembled = false;
  std::uint64_t blocks = 0;  ///< nonzero blocks of both triangles
  std::uint64_t bytes = 0;   ///< their numbers and positions
  Why<MatrixReason> why = {};
};

/// Facts that a device has about products with JᵀJ.
struct ProductFacts {
  bool strategy_asked_for = false;  ///< an accumulation strategy is: products are evaluated by it
  bool jacobian_fits = true;        ///< the range of a storage buffer
  std::uint64_t operations = 0;     ///< of a product, for the residual that takes most
  std::uint64_t stored_bytes = 0;   ///< that a product from a stored Jacobian reads
  /// The matrix by blocks; expensive: decide_product() asks for it.
  struct Blocks {
    Why<MatrixReason> obstacle;  ///< MatrixReason::none: possible
    std::uint64_t blocks = 0, bytes = 0;
  };
  std::optional<Blocks> blocks;
};

struct ProductChoice {
  enum class Source { evaluation, stored_jacobian, blocks };
  bool asks_for_blocks = false;  ///< ProductFacts::blocks has to be known first
  /// Bytes of blocks that would not be used if there were more.
  std::uint64_t most_bytes = ~std::uint64_t{0};
  Source source = Source::evaluation;
  Why<MatrixReason> why;  ///< for or against blocks
};

/// Decides how products with JᵀJ are made on a device, from facts alone.
ProductChoice decide_product(NormalMatrix asked, const ProductFacts& facts);

/// Preconditioners of conjugate gradients (preconditioners.def).
enum class Preconditioner {
  automatic,
#define TG_PRECONDITIONER(row, ...) row,
#include "preconditioners.def"
};

/// A row of the table; `automatic` comes first.
struct PreconditionerRow {
  Preconditioner value;
  std::string_view name;
  std::string_view help = {};            ///< M⁻¹, where D has A's diagonal blocks
  bool on_cpu = true, on_device = true;  ///< the engines that have it
};
inline constexpr PreconditionerRow kPreconditioners[] = {
    {.value = Preconditioner::automatic,
     .name = "automatic",
     .help = "block-Jacobi until its iterations have cost as many products as the coarse matrix "
             "takes, then two-level if a trial saves a third of them"},
#define TG_PRECONDITIONER(row, ...) {.value = Preconditioner::row, .name = #row, __VA_ARGS__},
#include "preconditioners.def"
};
TG_ENUM_TABLE(Preconditioner, kPreconditioners)

enum class PreconditionerReason {
#define TG_PRECONDITIONER_REASON(reason, sentence) reason,
#include "preconditioners.def"
};

inline constexpr PreconditionerReason kLastPreconditionerReason{0
#define TG_PRECONDITIONER_REASON(reason, sentence) +1
#include "preconditioners.def"
                                                                - 1};

/// The preconditioner of an engine's steps.
struct PreconditionerUse {
  Preconditioner kind = Preconditioner::block_jacobi;  ///< the last one in use
  bool asked_for = false;                              ///< options name the one in use
  Why<PreconditionerReason> why = {};
  int builds = 0;              ///< of coarse matrices in this solve
  std::uint64_t products = 0;  ///< products with JᵀJ for these builds
};

/// Decides which preconditioner an engine is asked for: `asked`, or block_jacobi where the engine
/// lacks it.
constexpr PreconditionerUse decide_preconditioner(Preconditioner asked, bool on_device) {
  for (const PreconditionerRow& row : kPreconditioners) {
    if (row.value == asked && !(on_device ? row.on_device : row.on_cpu))
      return {.why = {on_device ? PreconditionerReason::not_on_device
                                : PreconditionerReason::not_on_cpu}};
  }
  return {.kind = asked, .asked_for = asked != Preconditioner::automatic};
}

}  // namespace topograd::runtime
