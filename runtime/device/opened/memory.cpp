// The Buffer handle, and checks of arguments.
#include "../memory.hpp"

#include "core.hpp"

namespace topograd::runtime::vulkan {

Buffer::Buffer(std::shared_ptr<Core> core, std::shared_ptr<BufferState> state)
    : core_(std::move(core)), state_(std::move(state)) {}

// The state is destroyed before the device to which it points.
Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  state_ = std::move(other.state_);
  core_ = std::move(other.core_);
  return *this;
}

Buffer::~Buffer() = default;

std::uint64_t Buffer::size() const { return state_ ? state_->size : 0; }

const std::string& Buffer::name() const {
  static const std::string& none = *new std::string;
  return state_ ? state_->name : none;
}

MemoryKind Buffer::kind() const { return state_ ? state_->kind : MemoryKind::Device; }
std::byte* Buffer::mapped() const { return state_ ? state_->mapped : nullptr; }
bool Buffer::cached() const { return state_ && state_->cached; }

void check_range(const char* call, const BufferState& buffer, std::uint64_t offset,
                 std::uint64_t size) {
  if (offset <= buffer.size && size <= buffer.size - offset) return;
  throw Error(ErrorCode::InvalidArgument, std::string(call) + ": bytes " + std::to_string(offset) +
                                              " + " + std::to_string(size) +
                                              " do not lie in buffer \"" + buffer.name + "\" of " +
                                              std::to_string(buffer.size) + " bytes");
}

const std::shared_ptr<BufferState>& checked_state(const char* call, const Core& core,
                                                  const Buffer* buffer) {
  if (buffer == nullptr || !*buffer) {
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": expected a buffer, got none");
  }
  if (buffer->state()->core != &core) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": buffer \"" + buffer->name() + "\" is of another device");
  }
  return buffer->state();
}

}  // namespace topograd::runtime::vulkan
