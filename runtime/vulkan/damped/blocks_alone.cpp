// Block-Jacobi on the device: nothing is added to the inverses of the diagonal blocks.
#include "device_preconditioner.hpp"

namespace topograd::runtime::vulkan {
namespace {

class BlocksAlone final : public DevicePreconditioner {
 public:
  using DevicePreconditioner::DevicePreconditioner;

  void prepare(const Point& /*x*/, Lists& /*lists*/) override {}
  bool in_use() const override { return false; }
  PreconditionerUse use() const override { return {.why = {PreconditionerReason::asked_for}}; }
  std::uint32_t most_sums() const override { return 0; }
  std::uint32_t sums() const override { return 0; }
  void record_correction(CommandList& /*list*/, bool /*predicated*/) override {}
};

}  // namespace

std::unique_ptr<DevicePreconditioner> make_device_block_jacobi(const Part& part,
                                                               NormalProducts& /*products*/,
                                                               Preconditioner /*asked*/) {
  return std::make_unique<BlocksAlone>(part);
}

}  // namespace topograd::runtime::vulkan
