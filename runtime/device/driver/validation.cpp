// Collects the messages of the validation layer.
#include "validation.hpp"
#include "instance.hpp"

namespace topograd::runtime::vulkan {
namespace {

struct Messages {
  std::mutex mutex;
  ValidationSink sink;
  std::vector<ValidationMessage> kept;
};

// Never destroyed: drivers may report while the process ends.
Messages& messages() {
  static Messages& store = *new Messages;
  return store;
}

VKAPI_ATTR VkBool32 VKAPI_CALL receive(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                       VkDebugUtilsMessageTypeFlagsEXT,
                                       const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  const ValidationMessage message{
      .error = severity == VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
      .id = data->pMessageIdName != nullptr ? data->pMessageIdName : "",
      .number = data->messageIdNumber,
      .text = data->pMessage != nullptr ? data->pMessage : ""};
  ValidationSink sink;
  {
    const std::lock_guard lock(messages().mutex);
    sink = messages().sink;
    if (!sink) messages().kept.push_back(message);
  }
  if (sink) sink(message);
  return VK_FALSE;
}

}  // namespace

vk::DebugUtilsMessengerCreateInfoEXT messenger_info() {
  using Severity = vk::DebugUtilsMessageSeverityFlagBitsEXT;
  using Type = vk::DebugUtilsMessageTypeFlagBitsEXT;
  return {{},
          Severity::eWarning | Severity::eError,
          Type::eValidation | Type::ePerformance,
          &receive,
          nullptr};
}

ValidationSink set_validation_sink(ValidationSink sink) {
  const std::lock_guard lock(messages().mutex);
  return std::exchange(messages().sink, std::move(sink));
}

std::vector<ValidationMessage> take_validation_messages() {
  const std::lock_guard lock(messages().mutex);
  return std::exchange(messages().kept, {});
}

}  // namespace topograd::runtime::vulkan
