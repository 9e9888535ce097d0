// Messages of the Vulkan validation layer, collected for the whole process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace topograd::runtime::vulkan {

struct ValidationMessage {
  bool error = false;       ///< false: a warning
  std::string id;           ///< e.g. "SYNC-HAZARD-READ-AFTER-WRITE"
  std::int32_t number = 0;  ///< the layer's message number
  std::string text;
};

using ValidationSink = std::function<void(const ValidationMessage&)>;

/// Sets the function that receives each warning and error (on any thread); returns the previous
/// one. Without one, messages are kept for take_validation_messages().
ValidationSink set_validation_sink(ValidationSink sink);

/// Returns the messages kept since the last call.
std::vector<ValidationMessage> take_validation_messages();

}  // namespace topograd::runtime::vulkan
