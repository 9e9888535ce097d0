// Construction of a device's preconditioners by name.
#include "device_preconditioner.hpp"

#include "../../../ir/error.hpp"

namespace topograd::runtime::vulkan {

#define TG_PRECONDITIONER(row, ...)                        \
  std::unique_ptr<DevicePreconditioner> make_device_##row( \
      const Part& part, NormalProducts& products, Preconditioner asked);
#include "../../linear/preconditioners.def"

std::unique_ptr<DevicePreconditioner> make_device_preconditioner(const Part& part,
                                                                 NormalProducts& products,
                                                                 Preconditioner asked) {
  // The two-level one begins as block_jacobi.
  if (asked == Preconditioner::automatic) return make_device_two_level(part, products, asked);
#define TG_PRECONDITIONER(row, ...)                                                    \
  if constexpr (PreconditionerRow{.value = {}, .name = {}, __VA_ARGS__}.on_device) {   \
    if (asked == Preconditioner::row) return make_device_##row(part, products, asked); \
  }
#include "../../linear/preconditioners.def"
  throw Error(ErrorCode::Unsupported, "vulkan: the preconditioner exists on the CPU alone");
}

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
