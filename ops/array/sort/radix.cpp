// Radix sort in passes over eight bits: each counts digits by shares, scans the counts and moves
// the keys, which each tile has sorted.
#include "radix.hpp"

#include "../../../ir/error.hpp"
#include "../../backend/kernel_store.hpp"
#include "../reduce/scan.hpp"
#include "radix_source.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace topograd::ops {
namespace {

/// The division of the elements among workgroups.
struct Layout {
  RadixKernel kernel;
  std::uint32_t per_group = 0, groups = 0;
};

Layout layout_for(const OpBackend& backend, std::uint64_t count) {
  const LaunchLimits& limits = backend.limits();
  Layout out;
  RadixKernel& kernel = out.kernel;
  kernel.subgroup = limits.subgroup_size;
  kernel.shuffle = limits.subgroup_shuffle;
  if (limits.occupied_by_few) kernel.local = 8 * std::max(limits.subgroup_size, 1u), kernel.per = 8;
  kernel.local = std::min(kernel.local, limits.local_size);
  while (kernel.per > 1 && kernel.shared_bytes() > limits.shared_bytes) kernel.per /= 2;
  const std::uint64_t tile = kernel.tile();
  const std::uint64_t most = limits.occupied_by_few ? 16 : 2112;
  // Loop iterations for one tile; an invocation has a limited number.
  const std::uint64_t digits = 256 / kernel.local + 1;
  const std::uint64_t turns = digits * (3 * kernel.subgroups() + 8) + 16 * kernel.per + 16;
  const std::uint64_t tiles = std::min(limits.loop_iterations, 1u << 24) / turns;
  const std::uint64_t share =
      std::min((count + most - 1) / most, std::max(tiles, std::uint64_t{1}) * tile);
  out.per_group = static_cast<std::uint32_t>((share + tile - 1) / tile * tile);
  out.groups = static_cast<std::uint32_t>((count + out.per_group - 1) / out.per_group);
  return out;
}

ir::Hash128 key_of_kernel(std::string_view what, const RadixKernel& k) {
  return key_of(what, k.local, k.per, k.subgroup, k.shuffle, k.from, k.to, k.keys_out, k.values);
}

/// The passes of one sort, with the slices that each reads and writes.
class Passes {
 public:
  Passes(OpBackend& backend, const RadixSort& sort)
      : backend_(backend),
        sort_(sort),
        layout_(layout_for(backend, sort.keys.size)),
        table_(make_slice(Type::u32, 256ull * layout_.groups, "digit counts")),
        starts_(make_slice(Type::u32, 256ull * layout_.groups, "digit starts")) {
    for (std::size_t k = 0; k < 2; ++k) {
      keys_[k] = make_slice(Type::u32, sort.keys.size, "sorted keys");
      if (sort.to_values) values_[k] = make_slice(Type::u32, sort.keys.size, "sorted values");
    }
  }

  void run() {
    Slice keys = sort_.keys;
    std::optional<Slice> values = sort_.values;
    for (std::uint32_t pass = 0; pass < 4; ++pass) {
      const bool last = pass == 3;
      const std::optional<Slice> to = last ? sort_.to_keys : keys_[pass % 2];
      const std::optional<Slice> to_values = last ? sort_.to_values : values_[pass % 2];
      move(8 * pass, keys, values, to, to_values);
      if (to) keys = *to;
      values = to_values;
    }
  }

 private:
  void launch(const ComputeKernel& kernel, std::span<const Argument> arguments,
              std::uint32_t shift) {
    const std::uint32_t words[] = {static_cast<std::uint32_t>(sort_.keys.size), layout_.per_group,
                                   layout_.groups, shift};
    const std::uint64_t items = std::uint64_t{layout_.groups} * layout_.kernel.local;
    backend_.launch({.kernel = &kernel,
                     .arguments = arguments,
                     .words = words,
                     .groups = linear_groups(backend_, kernel, items)});
  }

  void move(std::uint32_t shift, const Slice& keys, const std::optional<Slice>& values,
            const std::optional<Slice>& to, const std::optional<Slice>& to_values) {
    RadixKernel kernel = layout_.kernel;
    kernel.from = keys.type;
    const Argument counted[] = {keys.reads(backend_), table_.writes(backend_)};
    launch(kernel_for(key_of("radix_count", kernel.local, kernel.from),
                      [&] { return radix_count_kernel(kernel); }),
           counted, shift);
    scan_on(backend_, table_, starts_);
    kernel.to = to ? to->type : Type::u32;
    kernel.keys_out = to.has_value();
    if (to_values) kernel.values = values ? RadixValues::carried : RadixValues::places;
    std::vector<Argument> moved = {keys.reads(backend_), starts_.reads(backend_)};
    if (to_values && values) moved.push_back(values->reads(backend_));
    if (to) moved.push_back(to->writes(backend_));
    if (to_values) moved.push_back(to_values->writes(backend_));
    launch(
        kernel_for(key_of_kernel("radix_move", kernel), [&] { return radix_move_kernel(kernel); }),
        moved, shift);
  }

  OpBackend& backend_;
  const RadixSort& sort_;
  const Layout layout_;
  const Slice table_, starts_;
  Slice keys_[2];
  std::optional<Slice> values_[2];
};

}  // namespace

std::string radix_refusal(const OpBackend& backend, std::uint64_t count) {
  const LaunchLimits& limits = backend.limits();
  if (limits.subgroup_size < 4 || !limits.subgroup_arithmetic) return "expects subgroups";
  if (8 * count > limits.binding_bytes) return "cannot bind so many elements at once";
  return {};
}

void radix_sort(OpBackend& backend, const RadixSort& sort) { Passes(backend, sort).run(); }

void encode_words(OpBackend& backend, const Slice& x, const Slice& keys, bool high) {
  const std::uint32_t local = std::min(256u, backend.limits().local_size);
  const ComputeKernel& kernel = kernel_for(
      KernelFile::sort_encode, Type::u32,
      {{"word", high ? "high" : "low"}, {"positive", high ? "high | 0x80000000u" : "low"}}, local);
  Argument from = x.reads(backend);
  from.element = 4;
  const Argument arguments[] = {std::move(from), keys.writes(backend)};
  const std::uint32_t words[] = {static_cast<std::uint32_t>(x.size)};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = linear_groups(backend, kernel, x.size)});
}

}  // namespace topograd::ops
