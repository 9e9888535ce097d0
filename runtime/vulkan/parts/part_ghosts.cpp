// Packing of borders, and unpacking of ghosts.
#include "part_ghosts.hpp"

#include <algorithm>
#include <string_view>

namespace topograd::runtime::vulkan {
namespace {

Buffer host_numbers(const Context& context, std::uint32_t count, MemoryKind kind,
                    std::string_view name) {
  return context.device->buffer(std::max(count, 1U) * context.element_bytes(), kind, name);
}

}  // namespace

PartGhosts::PartGhosts(const Part& part, PartLink& link, PartWork& work)
    : Part(part),
      link_(link),
      work_(work),
      borders_(static_cast<std::uint32_t>(link.borders().size())),
      ghosts_(static_cast<std::uint32_t>(link.ghosts().size())),
      border_places_(make_buffer(context_, link.borders(), "borders")),
      ghost_places_(make_buffer(context_, link.ghosts(), "ghosts")),
      packed_(host_numbers(context_, borders_, MemoryKind::Readback, "packed")),
      received_(host_numbers(context_, ghosts_, MemoryKind::Upload, "received")),
      out_(context_.wide() ? 0 : borders_),
      in_(context_.wide() ? 0 : ghosts_) {}

void PartGhosts::record_pack(CommandList& list, const Buffer& v) {
  if (borders_ == 0) return;
  v_.ops->record(list, kernel::pack{{.source = v, .result = packed_, .places = border_places_},
                                    {.count = borders_}});
}

void PartGhosts::exchange() {
  work_.run([&] { recorder_.last().wait(); });
  if (!context_.wide()) return exchange_narrow();
  const auto numbers = [](const Buffer& buffer, std::uint32_t count) {
    return std::span(reinterpret_cast<double*>(buffer.mapped()), count);
  };
  link_.exchange(numbers(packed_, borders_), numbers(received_, ghosts_));
}

void PartGhosts::exchange_narrow() {
  const auto* const packed = reinterpret_cast<const float*>(packed_.mapped());
  std::copy_n(packed, borders_, out_.begin());
  link_.exchange(out_, in_);
  std::ranges::copy(in_, reinterpret_cast<float*>(received_.mapped()));
}

void PartGhosts::record_unpack(CommandList& list, const Buffer& v) {
  if (ghosts_ == 0) return;
  v_.ops->record(list, kernel::unpack{{.source = received_, .result = v, .places = ghost_places_},
                                      {.count = ghosts_}});
}

}  // namespace topograd::runtime::vulkan
