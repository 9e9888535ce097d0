// The decision how products with JᵀJ are made on a device.
#include "choices.hpp"

namespace topograd::runtime {
namespace {

/// Evaluating JᵀJ·p again costs more than reading a stored Jacobian from about so many operations
/// on.
constexpr std::uint64_t kRecomputeLimit = 200;

/// A product with JᵀJ by its blocks takes less than one from stored Jacobians where it reads so
/// many times less: planning it and summing it at every step have their price.
constexpr std::uint64_t kTimesSmaller = 2;

}  // namespace

ProductChoice decide_product(NormalMatrix asked, const ProductFacts& facts) {
  using Source = ProductChoice::Source;
  const bool stores =
      !facts.strategy_asked_for && facts.jacobian_fits && facts.operations > kRecomputeLimit;
  ProductChoice out{.source = stores ? Source::stored_jacobian : Source::evaluation,
                    .why = {MatrixReason::not_asked_for}};
  if (asked == NormalMatrix::matrix_free) return out;
  if (asked == NormalMatrix::automatic && !stores) {
    out.why = {MatrixReason::cheap_product};
    return out;
  }
  if (asked == NormalMatrix::automatic) out.most_bytes = facts.stored_bytes / kTimesSmaller;
  out.asks_for_blocks = !facts.blocks;
  if (out.asks_for_blocks) return out;
  const ProductFacts::Blocks& blocks = *facts.blocks;
  if (blocks.obstacle.reason != MatrixReason::none) {
    out.why = blocks.obstacle;
  } else if (blocks.bytes > out.most_bytes) {
    out.why = because(MatrixReason::large_blocks, blocks.bytes, out.most_bytes);
  } else {
    out.source = Source::blocks;
    out.why = because(MatrixReason::assembled, blocks.blocks, blocks.bytes);
  }
  return out;
}

}  // namespace topograd::runtime
