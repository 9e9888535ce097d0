// Ghosts of vectors on a device.
#pragma once

#include "../../model/model_part.hpp"
#include "../terms/part.hpp"
#include "part_work.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime::vulkan {

/// Gives ghosts on the device the numbers of their owners. Only numbers at borders come to the
/// host: a list packs them, exchange() sends them, and a later list unpacks those that came.
class PartGhosts : Part {
 public:
  ///   link, work  outlive it
  PartGhosts(const Part& part, PartLink& link, PartWork& work);

  /// To memory of the host. A barrier must precede it.
  void record_pack(CommandList& list, const Buffer& v);
  /// Waits for the last submission, whose list has packed. Collective.
  void exchange();
  /// Begins and ends with barriers to come.
  void record_unpack(CommandList& list, const Buffer& v);

 private:
  void exchange_narrow();

  PartLink& link_;
  PartWork& work_;
  std::uint32_t borders_, ghosts_;
  Buffer border_places_, ghost_places_;  // scalars of the part
  Buffer packed_, received_;             // in memory of the host
  std::vector<double> out_, in_;         // copies for numbers in f32
};

}  // namespace topograd::runtime::vulkan
