// SHA-256 of many messages as one task, on the CPU or on a device.
#include <topograd/api/hybrid.hpp>

#include "sample.hpp"
#include "task_times.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tg = topograd;

using Digest = std::array<std::uint32_t, 8>;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS
// 180-4, 4.2.2).
constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
// From the square roots of the first eight primes (5.3.3).
constexpr Digest kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// Messages, one after the other, each padded to complete blocks of sixteen words (5.1.1).
struct Messages {
  std::vector<std::uint32_t> words;
  std::vector<std::uint32_t> first_block = {0};  // of each message, then the end

  std::size_t size() const { return first_block.size() - 1; }
  void add(std::string_view text) {
    const std::size_t begin = words.size(), blocks = (text.size() + 9 + 63) / 64;
    words.resize(begin + 16 * blocks);
    const auto put = [&](std::size_t k, std::uint8_t byte) {
      words[begin + k / 4] |= std::uint32_t{byte} << (24 - 8 * (k % 4));
    };
    for (std::size_t k = 0; k < text.size(); ++k) put(k, static_cast<std::uint8_t>(text[k]));
    put(text.size(), 0x80);
    const std::uint64_t bits = 8 * std::uint64_t{text.size()};
    words[words.size() - 2] = static_cast<std::uint32_t>(bits >> 32);
    words[words.size() - 1] = static_cast<std::uint32_t>(bits);
    first_block.push_back(first_block.back() + static_cast<std::uint32_t>(blocks));
  }
};

// One round of the compression for each word of a block (6.2.2).
void compress(Digest& h, const std::uint32_t* block) {
  using std::rotr;
  std::array<std::uint32_t, 64> w;
  std::copy_n(block, 16, w.begin());
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = s1 + w[t - 7] + s0 + w[t - 16];
  }
  Digest v = h;  // a, b, ..., h
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t S1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
    const std::uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    const std::uint32_t t1 = v[7] + S1 + choice + kRounds[t] + w[t];
    const std::uint32_t S0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
    const std::uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    v = {t1 + S0 + majority, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
  }
  for (std::size_t k = 0; k < 8; ++k) h[k] += v[k];
}

// Each item is one message.
class Sha256 final : public tg::hybrid::Task {
 public:
  Sha256(const Messages& messages, std::span<Digest> digests,
         tg::hybrid::Override where = tg::hybrid::Override::none, std::uint64_t threads = 0)
      : messages_(messages), digests_(digests), where_(where), threads_(threads) {}

  tg::hybrid::TaskShape shape() const override {
    const double blocks = static_cast<double>(messages_.first_block.back()) /
                          static_cast<double>(std::max<std::size_t>(1, messages_.size()));
    return {.kernel = {0x736861, threads_},  // a history for each number of threads
            .operation = "sha256",
            .size = messages_.size(),
            .bytes_in = 4 * (messages_.words.size() + messages_.first_block.size()),
            .bytes_out = digests_.size_bytes(),
            .features = {.operations = 2900 * blocks, .bytes = 64 * blocks + 40},
            .where = where_};
  }
  std::uint64_t threads() const override { return threads_; }

  void run_on_cpu(const tg::hybrid::CpuThreads& threads, tg::hybrid::Items items) override {
    threads.for_ranges(items.count(), 64, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = items.begin + begin; k < items.begin + end; ++k) {
        Digest h = kStart;
        for (std::uint32_t b = messages_.first_block[k]; b < messages_.first_block[k + 1]; ++b)
          compress(h, &messages_.words[16 * std::size_t{b}]);
        digests_[k] = h;
      }
    });
  }

  std::optional<tg::hybrid::DeviceProgram> program(tg::hybrid::Items items) override {
    tg::hybrid::DeviceProgram hash{.name = "sha256", .glsl = kShader, .items = items.count()};
    const std::span<const std::uint32_t> first_blocks(messages_.first_block);
    hash.arrays.push_back({.read = {std::as_bytes(std::span(messages_.words))}});
    hash.arrays.push_back(
        {.read = {std::as_bytes(first_blocks.subspan(items.begin, items.count() + 1))}});
    hash.arrays.push_back({.read = {std::as_bytes(std::span(kRounds))}});
    hash.arrays.push_back(
        {.written = {std::as_writable_bytes(digests_.subspan(items.begin, items.count()))}});
    return hash;
  }

 private:
  static constexpr const char* kShader = R"(#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Words { uint words[]; };
layout(set = 0, binding = 1) readonly buffer Places { uint first_block[]; };
layout(set = 0, binding = 2) readonly buffer Rounds { uint rounds[64]; };
layout(set = 0, binding = 3) writeonly buffer Digests { uint digests[]; };
layout(push_constant) uniform Push { uint first; uint items; };
uint rotr(uint x, int n) { return (x >> n) | (x << (32 - n)); }
// Round t. Written out 64 times, so that `w`, the last sixteen words of the schedule, lies in
// registers.
#define ROUND(t) { \
    if (t < 16) { \
      w[t & 15] = words[16 * block + t]; \
    } else { \
      uint x = w[(t + 1) & 15], y = w[(t + 14) & 15]; \
      w[t & 15] += (rotr(x, 7) ^ rotr(x, 18) ^ (x >> 3)) + (rotr(y, 17) ^ rotr(y, 19) ^ (y >> 10)) + \
                   w[(t + 9) & 15]; \
    } \
    uint t1 = z + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + rounds[t] + \
              w[t & 15]; \
    uint t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c)); \
    z = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2; \
  }
#define ROUNDS4(t) ROUND((t)) ROUND((t + 1)) ROUND((t + 2)) ROUND((t + 3))
#define ROUNDS16(t) ROUNDS4((t)) ROUNDS4((t + 4)) ROUNDS4((t + 8)) ROUNDS4((t + 12))
void main() {
  uint i = first + gl_GlobalInvocationID.x;
  if (i >= items) return;
  uint h[8] = uint[8](0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu,
                      0x1f83d9abu, 0x5be0cd19u);
  uint w[16];
  for (uint block = first_block[i]; block < first_block[i + 1]; ++block) {
    uint a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], z = h[7];
    ROUNDS16(0) ROUNDS16(16) ROUNDS16(32) ROUNDS16(48)
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e, h[5] += f, h[6] += g, h[7] += z;
  }
  for (int k = 0; k < 8; ++k) digests[8 * i + k] = h[k];
}
)";

  const Messages& messages_;
  std::span<Digest> digests_;
  tg::hybrid::Override where_;
  std::uint64_t threads_;
};

// Messages and digests published with FIPS 180-4 (one and two blocks, empty, a million letters).
bool knows_published_digests(tg::hybrid::Executor& executor, tg::hybrid::Override where) {
  Messages messages;
  messages.add("abc");
  messages.add("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");
  messages.add("");
  messages.add(std::string(1'000'000, 'a'));
  const std::vector<Digest> expected = {{0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223, 0xb00361a3,
                                         0x96177a9c, 0xb410ff61, 0xf20015ad},
                                        {0x248d6a61, 0xd20638b8, 0xe5c02693, 0x0c3e6039, 0xa33ce459,
                                         0x64ff2167, 0xf6ecedd4, 0x19db06c1},
                                        {0xe3b0c442, 0x98fc1c14, 0x9afbf4c8, 0x996fb924, 0x27ae41e4,
                                         0x649b934c, 0xa495991b, 0x7852b855},
                                        {0xcdc76e5c, 0x9914fb92, 0x81a1c7e2, 0x84d73e67, 0xf1809a48,
                                         0xa497200e, 0x046d39cc, 0xc7112cd0}};
  std::vector<Digest> digests(messages.size());
  Sha256 task(messages, digests, where);
  executor.execute(task);
  return digests == expected;
}

// sha256 [messages]
static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::size_t>(10'000);
  // Includes the software device, so that both backends run on any machine.
  tg::hybrid::Executor executor(tg::hybrid::environment_hybrid_options({.admit_software = true}));
  const bool device = tg::add_devices(executor) > 0;

  Messages messages;
  for (std::size_t k = 0; k < count; ++k)
    messages.add(std::string(100 + k % 900, static_cast<char>('a' + k % 26)));
  std::printf("%zu messages, %u blocks of 64 bytes\n", count, messages.first_block.back());

  std::vector<Digest> expected;
  double one_thread_us = 0;
  for (const sample::Way& way : sample::ways(device)) {
    if (!knows_published_digests(executor, way.where)) {
      std::printf("%s: a published digest is wrong\n", way.name);
      return 1;
    }
    std::vector<Digest> digests(count);
    Sha256 task(messages, digests, way.where, way.threads);
    const double us = sample::median_us(executor, 7, [&] { executor.execute(task); });
    if (expected.empty()) expected = digests, one_thread_us = us;
    if (digests != expected) return 1;
    std::printf("%-17s %9.1f µs, %6.2f x\n", way.name, us, one_thread_us / us);
  }
  Sha256 task(messages, expected);
  std::printf("%s", executor.explain(executor.execute(task).decision).c_str());
  return 0;
}

int main(int argc, char** argv) { return sample::run(argc, argv, "sha256 [MESSAGES]", program); }
