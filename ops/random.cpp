// Philox 4x32-10 on the CPU and on devices.
#include <topograd/ops/random.hpp>

#include <topograd/ops/blocks.hpp>
#include <topograd/ops/kernel_store.hpp>

#include <algorithm>
#include <array>

namespace topograd::ops {
namespace {

// The generator's constants.
constexpr std::uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

std::array<std::uint32_t, 4> philox(std::uint64_t counter, std::uint64_t seed) {
  std::array<std::uint32_t, 4> c = {static_cast<std::uint32_t>(counter),
                                    static_cast<std::uint32_t>(counter >> 32), 0, 0};
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{kMultiply0} * c[0], b = std::uint64_t{kMultiply1} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

constexpr std::string_view kPhilox = R"(  uint i = linear_item();
  uint low = counter_low + i;
  uint c0 = low, c1 = counter_high + (low < i ? 1u : 0u), c2 = 0u, c3 = 0u;
  uint k0 = seed_low, k1 = seed_high;
  for (uint round = 0u; round < 10u; ++round) {
    uint a_high, a_low, b_high, b_low;
    umulExtended(0xD2511F53u, c0, a_high, a_low);
    umulExtended(0xCD9E8D57u, c2, b_high, b_low);
    c0 = b_high ^ c1 ^ k0;
    c2 = a_high ^ c3 ^ k1;
    c1 = b_low;
    c3 = a_low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  uint at = 4u * i;
  if (at < count) y(at) = c0;
  if (at + 1u < count) y(at + 1u) = c1;
  if (at + 2u < count) y(at + 2u) = c2;
  if (at + 3u < count) y(at + 3u) = c3;
)";

void words_on_device(Backend& backend, const Slice& output, std::uint64_t seed,
                     std::uint64_t first) {
  const std::uint32_t local = std::min(256u, backend.limits().local_size);
  const KernelText& kernel = kernel_for(key_of("philox", local), [&] {
    return make_kernel({.name = "philox",
                        .local_size = {local, 1, 1},
                        .arguments = {{"y", "uint", Access::write}},
                        .words = {"count", "counter_low", "counter_high", "seed_low", "seed_high"},
                        .body = std::string(kPhilox)});
  });
  const std::uint64_t chunk =
      std::min<std::uint64_t>(backend.limits().binding_bytes / 4, 1u << 30) / 1024 * 1024;
  for (std::uint64_t begin = 0; begin < output.size; begin += chunk) {
    const std::uint64_t items = std::min(chunk, output.size - begin);
    const std::uint64_t counter = (first + begin) / 4;
    const Argument arguments[] = {output.writes(backend, begin, items, begin > 0)};
    const std::uint32_t words[] = {
        static_cast<std::uint32_t>(items), static_cast<std::uint32_t>(counter),
        static_cast<std::uint32_t>(counter >> 32), static_cast<std::uint32_t>(seed),
        static_cast<std::uint32_t>(seed >> 32)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = linear_groups(backend, kernel, (items + 3) / 4)});
  }
}

}  // namespace

ExecutionStats random_words_into(const Slice& output, std::uint64_t seed, std::uint64_t first,
                                 const OpOptions& options) {
  if (first % 4 != 0) {
    throw Error(
        ErrorCode::InvalidArgument,
        "random_words: expected a first place in multiples of 4, got " + std::to_string(first));
  }
  expect_type("random_words", "results", Type::u32, output.type);
  const std::shared_ptr<Storage> out[] = {output.storage};
  const OpCall call{
      .op = Op::Random,
      .kernel = key_of("philox"),
      .size = output.size,
      .features = {.operations = 20, .bytes = 4},
      .outputs = out,
      .on_cpu =
          [&] {
            std::uint32_t* to = output.write<std::uint32_t>();
            for_blocks(output.size, [&](std::size_t, std::size_t begin, std::size_t n) {
              for (std::size_t i = begin; i < begin + n; i += 4) {
                const auto words = philox((first + i) / 4, seed);
                std::copy_n(words.begin(), std::min<std::size_t>(4, begin + n - i), to + i);
              }
            });
          },
      .on_device = [&](Backend& backend) { words_on_device(backend, output, seed, first); }};
  return run(call, options);
}

Array<std::uint32_t> random_words(std::uint64_t count, std::uint64_t seed, std::uint64_t first,
                                  const OpOptions& options) {
  Array<std::uint32_t> out(count);
  random_words_into(out.untyped(), seed, first, options);
  return out;
}

}  // namespace topograd::ops
