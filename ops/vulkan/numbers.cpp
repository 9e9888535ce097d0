// Memory that solvers on the same device read.
#include "numbers.hpp"

#include "../../runtime/vulkan/gather/columns_in_place.hpp"
#include "backend.hpp"
#include "recorder.hpp"

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace topograd::ops {
namespace {

namespace vk = runtime::vulkan;

class VulkanNumbers final : public vk::DeviceNumbers {
 public:
  VulkanNumbers(std::shared_ptr<OpBackend> backend, std::shared_ptr<Memory> memory, Type type,
                std::uint64_t count)
      : backend_(std::move(backend)), memory_(std::move(memory)), type_(type), count_(count) {}

  std::size_t size() const override { return count_; }
  std::vector<double> read() const override {
    return type_ == Type::f64 ? read_as<double>() : read_as<float>();
  }
  std::optional<View> view(const vk::Device& device) const override {
    if (device.core() != vulkan_device(*backend_)->core()) return std::nullopt;
    backend_->flush();
    const VulkanMemory& memory = as_vulkan(memory_);
    return View{memory_, &memory.buffer(), memory.front() / size_of(type_), type_ == Type::f64};
  }

 private:
  template <class T>
  std::vector<double> read_as() const {
    std::vector<T> numbers(count_);
    backend_->download(memory_, 0, std::as_writable_bytes(std::span(numbers)));
    return {numbers.begin(), numbers.end()};
  }

  const std::shared_ptr<OpBackend> backend_;
  const std::shared_ptr<Memory> memory_;
  const Type type_;
  const std::uint64_t count_;
};

}  // namespace

std::shared_ptr<const ir::ResidentData> numbers_of(std::shared_ptr<OpBackend> backend,
                                                   std::shared_ptr<Memory> memory, Type type,
                                                   std::uint64_t count) {
  return std::make_shared<VulkanNumbers>(std::move(backend), std::move(memory), type, count);
}

}  // namespace topograd::ops
