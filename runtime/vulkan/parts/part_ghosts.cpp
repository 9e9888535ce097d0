// Packing of borders, and unpacking of ghosts.
#include "part_ghosts.hpp"

namespace topograd::runtime::vulkan {

PartGhosts::PartGhosts(const Part& part, PartLink& link, PartWork& work)
    : Part(part),
      link_(link),
      work_(work),
      borders_(static_cast<std::uint32_t>(link.borders().size())),
      ghosts_(static_cast<std::uint32_t>(link.ghosts().size())),
      border_places_(make_buffer(context_, link.borders(), "borders")),
      ghost_places_(make_buffer(context_, link.ghosts(), "ghosts")),
      packed_(make_numbers(context_, borders_, "packed")),
      received_(make_numbers(context_, ghosts_, "received")),
      out_(borders_),
      in_(ghosts_) {}

void PartGhosts::need(Needs& needs) { v_.ops->need<kernel::pack, kernel::unpack>(needs); }

void PartGhosts::record_pack(CommandList& list, const Buffer& v) {
  if (borders_ == 0) return;
  v_.ops->record(list, kernel::pack{{.source = v, .result = packed_, .places = border_places_},
                                    {.count = borders_}});
}

void PartGhosts::record_read(CommandList& list) {
  if (borders_ > 0) readback_.record(context_, list, packed_, true);
}

void PartGhosts::exchange() {
  if (borders_ > 0) {
    work_.run([&] { readback_.read(context_, recorder_.last(), packed_, context_.wide(), out_); });
  }
  link_.exchange(out_, in_);
  if (ghosts_ > 0) work_.run([&] { write_numbers(context_, received_, in_); });
}

void PartGhosts::record_unpack(CommandList& list, const Buffer& v) {
  if (ghosts_ == 0) return;
  v_.ops->record(list, kernel::unpack{{.source = received_, .result = v, .places = ghost_places_},
                                      {.count = ghosts_}});
}

}  // namespace topograd::runtime::vulkan
