// Scans in one pass: a tile is reduced some hundred tiles before it is scanned.
#include "scan_ahead.hpp"

#include "../../backend/kernel_store.hpp"
#include "scan_ahead_source.hpp"

#include <algorithm>

namespace topograd::ops {
namespace {

// Tiles of 16 KiB between reducing and scanning: more than run concurrently, but less than fill a
// cache. The best of 200 to 1,600 on an H200, where 10^8 elements of f32 take 249 us.
constexpr std::uint32_t kAhead = 400;
// Two launches are faster for fewer bytes.
constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 20;

}  // namespace

bool scans_ahead(const OpBackend& backend, const FoldForm& form, const Slice& x,
                 const Slice& output) {
  const LaunchLimits& limits = backend.limits();
  const std::uint64_t all = x.size * state_words(form.monoid);
  return limits.groups_progress && limits.subgroup_shuffle && limits.subgroup_size >= 16 &&
         limits.local_size >= 256 && x.bytes() >= kLeastBytes &&
         x.bytes() <= limits.binding_bytes && all < (std::uint64_t{1} << 31) &&
         x.byte_offset() % 16 == 0 && output.byte_offset() % 16 == 0;
}

void scan_ahead(OpBackend& backend, const FoldForm& form, const Slice& x, const Slice& output,
                bool exclusive) {
  const Monoid& monoid = form.monoid;
  const std::uint32_t lanes = backend.limits().subgroup_size;
  const AheadKernel kernel{x.type, std::min(256u, lanes * std::min(lanes, 8u)), lanes};
  const auto key = [&](const char* what) {
    return key_of(what, monoid.key.high, monoid.key.low, x.type, kernel.local, kernel.subgroup);
  };
  const std::uint64_t vectors = x.size / kernel.width(), rest = x.size % kernel.width();
  const auto word = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const std::uint32_t tiles = word((vectors + kernel.tile() - 1) / kernel.tile());
  const std::uint32_t total = tiles + tiles / lanes + 1 + tiles / (lanes * lanes) + 1;
  const Slice memory = make_slice(Type::u32, 2 + 2ull * (total + 1) * state_words(monoid), "sums");
  Argument told = memory.writes(backend);
  told.element = 8;
  backend.fill(told.memory, told.offset, told.bytes, 0);
  told.access = Access::read_write;
  const auto in_vectors = [](Argument argument) {
    argument.element = 16;
    return argument;
  };
  const auto launch = [&](const ComputeKernel& text, std::span<const Argument> arguments,
                          std::vector<std::uint32_t> words, const LaunchGroups& groups) {
    words.insert(words.end(), monoid.words.begin(), monoid.words.end());
    backend.launch({.kernel = &text, .arguments = arguments, .words = words, .groups = groups});
  };
  if (vectors > 0) {
    const std::uint64_t elements = vectors * kernel.width();
    const Argument arguments[] = {in_vectors(x.reads(backend, 0, elements)), told,
                                  in_vectors(output.writes(backend, 0, elements, rest > 0))};
    const ComputeKernel& text =
        kernel_for(key("scan_ahead"), [&] { return ahead_source(form, kernel); });
    launch(text, arguments, {word(vectors), tiles, kAhead, exclusive ? 1u : 0u}, {tiles + kAhead});
  }
  if (rest > 0) {
    const std::uint64_t first = vectors * kernel.width();
    const Argument arguments[] = {x.reads(backend, first, rest), told,
                                  output.writes(backend, first, rest, true)};
    const ComputeKernel& text =
        kernel_for(key("scan_rest"), [&] { return rest_source(form, kernel); });
    launch(text, arguments, {word(rest), total, exclusive ? 1u : 0u}, {});
  }
}

}  // namespace topograd::ops
