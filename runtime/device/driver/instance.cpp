// Opens the loader, makes instances with their validation messages, and shares one while it is in
// use.
#include "instance.hpp"

#include "../../../ir/machine/foreign_call.hpp"
#include "validation.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

constexpr const char* kQueueSubmitValidation =
    "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT";

template <class List, class Name>
bool contains(const List& list, Name&& name_of, std::string_view name) {
  return std::ranges::any_of(list, [&](const auto& item) { return name_of(item) == name; });
}

bool has_layer(Driver& driver, const vk::raii::Context& context, std::string_view name) {
  return contains(
      driver.call("vkEnumerateInstanceLayerProperties",
                  [&] { return context.enumerateInstanceLayerProperties(); }),
      [](const auto& layer) { return std::string_view(layer.layerName.data()); }, name);
}

bool has_extension(Driver& driver, const vk::raii::Context& context, std::string_view name) {
  return contains(
      driver.call("vkEnumerateInstanceExtensionProperties",
                  [&] { return context.enumerateInstanceExtensionProperties(); }),
      [](const auto& extension) { return std::string_view(extension.extensionName.data()); }, name);
}

// Hazards between submissions have a separate switch, which the layer reads only from the
// environment.
void enable_queue_submit_validation() {
  constexpr const char* kVariable = "VK_LAYER_ENABLES";
  const std::string set = platform::environment(kVariable).value_or("");
  if (set.find(kQueueSubmitValidation) != std::string::npos) return;
  platform::set_environment(kVariable, set + (set.empty() ? "" : ":") + kQueueSubmitValidation);
}

std::string driver_variables() {
  std::string text;
  for (const char* variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
    if (auto value = platform::environment(variable)) {
      text += std::string(text.empty() ? " (" : ", ") + variable + "=" + *value;
    }
  }
  return text.empty() ? text : text + ")";
}

}  // namespace

Loader open_loader(const std::string& path) {
  const std::vector<std::string> names =
      path.empty() ? platform::vulkan_loader_names() : std::vector<std::string>{path};
  std::string tried;
  for (const std::string& name : names) {
    const platform::SharedLibrary library(name);
    void* entry = library.symbol("vkGetInstanceProcAddr");
    if (entry != nullptr)
      return {name, watched(reinterpret_cast<PFN_vkGetInstanceProcAddr>(entry))};
    tried += (tried.empty() ? "" : "; ") + name + " (" +
             (library.ok() ? "it has no vkGetInstanceProcAddr" : library.error()) + ")";
  }
  throw Error(ErrorCode::NoLoader,
              "vulkan: cannot open the Vulkan loader: tried " + tried +
                  "; install the package libvulkan1, or set TOPOGRAD_VULKAN_LOADER to its path");
}

Instance::Instance(const std::string& loader_path, bool validation)
    : loader_(open_loader(loader_path)), context_(loader_.entry) {
  if (context_.getDispatcher()->vkEnumerateInstanceVersion != nullptr) {
    api_version_ = driver_.call("vkEnumerateInstanceVersion",
                                [&] { return context_.enumerateInstanceVersion(); });
  }
  if (api_version_ < VK_API_VERSION_1_2) {
    throw Error(ErrorCode::Unsupported,
                "vulkan: the loader " + loader_.path + " is older than Vulkan 1.2");
  }
  if (validation && !has_layer(driver_, context_, kValidationLayer)) {
    throw Error(ErrorCode::Unsupported,
                "vulkan: validation was asked for, but the loader does not find " +
                    std::string(kValidationLayer) +
                    "; install the package vulkan-validationlayers");
  }
  if (validation) enable_queue_submit_validation();
  create(validation);
}

void Instance::create(bool validation) {
  const vk::ApplicationInfo application("topograd", 1, "topograd", 1, VK_API_VERSION_1_2);
  std::vector<const char*> layers;
  std::vector<const char*> extensions;
  debug_utils_ = validation || has_extension(driver_, context_, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  if (debug_utils_) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  if (validation) {
    layers.push_back(kValidationLayer);
    extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
  }
  const vk::ValidationFeatureEnableEXT synchronisation[] = {
      vk::ValidationFeatureEnableEXT::eSynchronizationValidation};
  const vk::ValidationFeaturesEXT checks(synchronisation);
  vk::InstanceCreateInfo info({}, &application, layers, extensions);
  if (validation) info.pNext = &checks;
  try {
    instance_ =
        driver_.call("vkCreateInstance", [&] { return vk::raii::Instance(context_, info); });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::NoDriver) throw;
    throw Error(ErrorCode::NoDriver,
                "vulkan: the loader " + loader_.path + " finds no Vulkan driver" +
                    driver_variables() +
                    "; install the driver of the graphics card, or the package "
                    "mesa-vulkan-drivers");
  }
  if (!validation) return;
  messenger_ = driver_.call("vkCreateDebugUtilsMessengerEXT", [&] {
    return instance_.createDebugUtilsMessengerEXT(messenger_info());
  });
}

std::vector<vk::raii::PhysicalDevice> Instance::physical_devices() {
  std::optional<LoadingLibraries> loading;  // a software device starts its compiler here
  if (!enumerated_.exchange(true)) loading.emplace();
  std::vector<vk::raii::PhysicalDevice> found;
  try {
    found = driver_.call("vkEnumeratePhysicalDevices",
                         [&] { return instance_.enumeratePhysicalDevices(); });
    const ForeignCall permission("dlopen");  // exit() must not unload the libraries meanwhile
    platform::keep_loaded_libraries();
  } catch (const Error& error) {
    // A driver without a device may report it this way.
    if (error.code() != ErrorCode::Unsupported) throw;
  }
  if (!found.empty()) return found;
  throw Error(ErrorCode::NoDevice, "vulkan: there is a Vulkan driver, but it finds no device" +
                                       driver_variables() +
                                       "; the package mesa-vulkan-drivers has a software device");
}

std::shared_ptr<Instance> shared_instance(const DeviceOptions& options) {
  static std::mutex& mutex = *new std::mutex;
  using Key = std::tuple<std::string, bool, std::string>;
  static auto& instances = *new std::map<Key, std::weak_ptr<Instance>>;
  const ForeignCall permission("vkCreateInstance");
  const std::lock_guard lock(mutex);
  // Other driver variables lead to other devices, even while an older instance is in use.
  std::weak_ptr<Instance>& slot =
      instances[{options.loader, options.validation, driver_variables()}];
  if (auto instance = slot.lock()) return instance;
  const LoadingLibraries loading;
  auto instance = make_driver_object<Instance>(options.loader, options.validation);
  slot = instance;
  return instance;
}

DeviceOptions resolved(DeviceOptions options) {
  if (options.timeout_seconds <= 0) {
    throw Error(ErrorCode::InvalidArgument, "vulkan: timeout_seconds must be positive, got " +
                                                std::to_string(options.timeout_seconds));
  }
  const std::string mask = platform::environment("TOPOGRAD_MASK").value_or("");
  options.mask = mask_text(parse_mask(options.mask) | parse_mask(mask));
  if (options.device.empty()) {
    options.device = platform::environment("TOPOGRAD_DEVICE").value_or("");
  }
  if (options.loader.empty()) {
    options.loader = platform::environment("TOPOGRAD_VULKAN_LOADER").value_or("");
  }
  if (platform::environment("TOPOGRAD_VALIDATION") == "1") options.validation = true;
  if (options.float64 == codegen::Float64::automatic) {
    if (const auto given = platform::environment("TOPOGRAD_FLOAT64"))
      options.float64 = parse_enum<codegen::Float64>("TOPOGRAD_FLOAT64", *given);
  }
  return options;
}

bool has_validation_layer(const Loader& loader) {
  Driver driver;
  return has_layer(driver, vk::raii::Context(loader.entry), kValidationLayer);
}

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
