// Choices between two ways to record something: what a record says, what was measured before.
#pragma once

#include <topograd/runtime/content_hash.hpp>
#include <topograd/runtime/disk_cache.hpp>
#include <topograd/runtime/plan_record.hpp>

#include <optional>

namespace topograd::runtime::vulkan {

/// What a measurement leaves on disk: the times of the two.
struct TimesOfTwo {
  double first_us = 0, second_us = 0;
};
std::optional<TimesOfTwo> recall_times(DiskCache& disk, const char* kind, Hash128 key);

/// The choice that a record has for the same topology, pass and size; null if there is none.
const PlanChoice* find_choice(const PlanRecord* record, const PlanChoice& wanted);

}  // namespace topograd::runtime::vulkan
