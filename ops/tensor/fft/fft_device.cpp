// Internal: Fourier transforms on devices: passes for products of 2, 3, 5 and 7, Bluestein's
// algorithm for other lengths.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <numbers>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "../../../codegen/glsl/text.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/formatted.hpp"
#include "../../backend/compute_kernel.hpp"
#include "../../backend/kernel_store.hpp"
#include "fft_run.hpp"

namespace topograd::ops::detail {

// Complex numbers are vec2 (dvec2). If a word `swapped` is 1, real and imaginary parts are swapped
// on input and output, which gives the inverse transform except for its factor.

/// One of Stockham's passes: transforms of `radix` strided numbers, in shared memory.
struct FftPass {
  std::uint32_t radix = 8;  ///< a product of 2, 3, 5 and 7
  std::uint32_t jobs = 1;   ///< transforms per workgroup
  bool wide = false;        ///< f64
  /// True if neighbouring jobs, instead of neighbouring numbers of a job, are adjacent in memory:
  /// in the source, in the target.
  bool near_load = false, near_store = false;
  /// Real and imaginary parts alternate in shared memory, which then holds twice as many numbers.
  bool halves = false;
  /// The source has 2 radix real numbers per row; the target receives the first radix + 1 complex
  /// numbers of their transform. Only for single passes, whose roots then have m = 2 radix.
  bool real = false;
  std::uint32_t widest = 16;  ///< maximum of numbers per invocation: 16 or 32
  /// For long transforms: length of a row, product of the previous radices. 0: they are words.
  std::uint64_t length = 0, span = 0;

  /// Sizes of the butterflies, one after the other.
  std::vector<std::uint32_t> stages() const;
  std::uint32_t lanes() const;  ///< invocations per transform
  std::uint32_t invocations() const { return lanes() * jobs; }
  /// Size of a transform in shared memory, with padding against bank conflicts. Neighbouring lines
  /// begin at such banks that simultaneous accesses of lanes and jobs differ: 2 apart (twice an odd
  /// number), or by the number of jobs.
  std::uint32_t line() const;
  std::uint32_t pad_shift() const;  ///< log2 of the number of numbers between gaps
  std::uint32_t shared_bytes() const {
    return jobs * line() * (wide ? 16u : 8u) / (halves ? 2 : 1);
  }
  std::string key() const;
};

/// Arguments source, target, roots; words: total number of jobs; without FftPass::length the length
/// of a row, stride (length / radix), span (product of the previous radices); swapped, factor (two
/// words). Workgroups: jobs / FftPass::jobs, in x and y.
///
/// roots: e^(-2πi k/radix) for k < radix; then e^(-2πi k/m) for k < 1024 and e^(-2πi 1024 k/m) for
/// k <= m/1024, m = span * radix.
/// Source: Govindaraju et al., High performance discrete Fourier transforms on graphics processors,
/// SC 2008.
ComputeKernel fft_pass_kernel(const FftPass& pass);

namespace {

using Numbers = std::vector<std::complex<double>>;

// Lengths up to this without passes use the definition.
constexpr std::uint64_t kShort = 64;
constexpr std::uint64_t kFineRoots = 1024;  // as read by fft_pass_kernel()
// Longest transforms of a workgroup: of a contiguous row, of strided numbers, and the number of
// adjacent ones (of the longest).
constexpr std::uint64_t kLongestRow = 4096;
constexpr std::uint32_t kLongestPass = 256, kNeighbours = 16, kFewNeighbours = 8;
// With 32 numbers per invocation, if there are enough numbers for large workgroups to fill a
// device.
constexpr std::uint32_t kLongestWidePass = 1024;
constexpr std::uint64_t kManyNumbers = std::uint64_t{1} << 25;

/// e^(-2πi k/n), computed in the octant where the functions are most accurate.
std::complex<double> root(std::uint64_t k, std::uint64_t n) {
  const std::uint64_t eighth = 8 * (k % n) / n;
  const double full = 2 * std::numbers::pi / static_cast<double>(n);
  const double angle = full * (static_cast<double>(k % n) -
                               static_cast<double>(n) * static_cast<double>(eighth) / 8);
  // The remaining angle is in [0, π/4); multiples of π/4 are known.
  static constexpr double kHalf = 0.70710678118654752440;
  static constexpr double kCos[] = {1, kHalf, 0, -kHalf, -1, -kHalf, 0, kHalf};
  static constexpr double kSin[] = {0, -kHalf, -1, -kHalf, 0, kHalf, 1, kHalf};
  return std::complex<double>(kCos[eighth], kSin[eighth]) *
         std::complex<double>(std::cos(angle), -std::sin(angle));
}

View stored(const Numbers& numbers, Type type) {
  View view{std::make_shared<Storage>(2 * numbers.size() * size_of(type), "roots"), 0, {}};
  const auto write = [&](auto* to) {
    for (const std::complex<double>& z : numbers) {
      *to++ = static_cast<std::remove_pointer_t<decltype(to)>>(z.real());
      *to++ = static_cast<std::remove_pointer_t<decltype(to)>>(z.imag());
    }
  };
  type == Type::f64 ? write(host_write<double>(view)) : write(host_write<float>(view));
  return view;
}

enum class Table { pass, roots, chirp, chirp_transform };

/// Tables for a length (and a radix), made once per process.
View table(Table kind, std::uint64_t length, std::uint64_t radix, Type type) {
  using Key = std::tuple<Table, std::uint64_t, std::uint64_t, Type>;
  static std::mutex& mutex = *new std::mutex;
  static auto& tables = *new std::map<Key, View>;
  const std::lock_guard lock(mutex);
  const Key key{kind, length, radix, type};
  const auto found = tables.find(key);
  if (found != tables.end()) return found->second;
  Numbers numbers;
  const auto add = [&](std::uint64_t count, std::uint64_t step, std::uint64_t of) {
    for (std::uint64_t k = 0; k < count; ++k) numbers.push_back(root(k * step, of));
  };
  const auto chirp = [&](std::uint64_t k) { return root(k * k % (2 * length), 2 * length); };
  switch (kind) {
    case Table::pass:
      add(radix, 1, radix);
      add(kFineRoots, 1, length);
      add(length / kFineRoots + 1, kFineRoots, length);
      break;
    case Table::roots: add(length, 1, length); break;
    case Table::chirp:
      for (std::uint64_t k = 0; k < length; ++k) numbers.push_back(chirp(k));
      break;
    case Table::chirp_transform:
      numbers.assign(radix, 0);  // for this table, the length of the convolution
      for (std::uint64_t k = 0; k < length; ++k) {
        numbers[k] = std::conj(chirp(k));
        if (k > 0) numbers[radix - k] = numbers[k];
      }
      numbers = fft_of(numbers);
      break;
  }
  return tables.emplace(key, stored(numbers, type)).first->second;
}

Argument complex_argument(OpBackend& backend, const View& view, std::uint64_t count, Type type,
                          Access access) {
  Argument out = argument(backend, view, 2 * count, type, access);
  out.element *= 2;
  return out;
}

LaunchGroups item_groups(const OpBackend& backend, std::uint64_t count) {
  const std::uint64_t most = std::min(backend.limits().groups, 1u << 16);
  return {word(std::min((count + 255) / 256, most))};
}

/// True for products of 2, 3, 5 and 7, for which there are passes.
bool smooth(std::uint64_t length) {
  for (const std::uint64_t p : {2, 3, 5, 7}) {
    while (length > 0 && length % p == 0) length /= p;
  }
  return length == 1;
}

/// Splits a smooth length into `count` divisors of similar size, none above `most`: each is the
/// nearest to the root of the rest. Empty if there are none.
std::vector<std::uint32_t> equal_parts(std::uint64_t length, std::uint32_t count,
                                       std::uint32_t most) {
  if (count == 1) {
    if (length > most) return {};
    return {static_cast<std::uint32_t>(length)};
  }
  const double wanted = std::pow(static_cast<double>(length), 1.0 / count);
  std::vector<std::uint32_t> divisors;
  for (std::uint32_t d = 2; d <= most; ++d) {
    if (length % d == 0) divisors.push_back(d);
  }
  const auto distance = [&](std::uint32_t d) { return std::abs(std::log(d / wanted)); };
  std::ranges::sort(divisors, {}, distance);
  for (const std::uint32_t d : divisors) {
    std::vector<std::uint32_t> rest = equal_parts(length / d, count - 1, most);
    if (rest.empty()) continue;
    rest.insert(rest.begin(), d);
    return rest;
  }
  return {};
}

bool fits(const FftPass& pass, const LaunchLimits& limits) {
  return pass.invocations() <= limits.local_size && pass.shared_bytes() <= limits.shared_bytes;
}

/// Sets the largest number of adjacent transforms that fits, at most `most`.
FftPass fitted(FftPass pass, const LaunchLimits& limits, std::uint32_t most) {
  pass.jobs = 1;
  for (FftPass more = pass; more.jobs <= most && fits(more, limits); more.jobs *= 2)
    pass.jobs = more.jobs;
  return pass;
}

/// Two passes with powers of two, for many numbers. Empty if they do not fit.
std::vector<FftPass> wide_passes(const LaunchLimits& limits, std::uint64_t length) {
  std::vector<FftPass> passes;
  for (const std::uint32_t radix : equal_parts(length, 2, kLongestWidePass)) {
    const FftPass pass{.radix = radix, .halves = true, .widest = 32};
    const std::uint32_t neighbours = radix > 512 ? kFewNeighbours : kNeighbours;
    passes.push_back(fitted(pass, limits, neighbours));
    if (!fits(passes.back(), limits) || passes.back().jobs < neighbours) return {};
  }
  return passes;
}

/// As many passes as `count`, with radices up to `most`. Empty if they do not fit.
std::vector<FftPass> equal_passes(const LaunchLimits& limits, FftPass pass, std::uint64_t length,
                                  std::uint32_t count, std::uint32_t most) {
  std::vector<FftPass> passes;
  for (const std::uint32_t radix : equal_parts(length, count, most)) {
    pass.radix = radix;
    passes.push_back(fitted(pass, limits, radix < kLongestPass ? kNeighbours : kFewNeighbours));
    if (!fits(passes.back(), limits)) return {};
  }
  return passes;
}

std::vector<FftPass> plan_of(const LaunchLimits& limits, const FftRows& fft) {
  const std::uint64_t length = fft.length;
  const bool wide = fft.type == Type::f64;
  FftPass pass{.wide = wide};
  if (length <= kLongestRow) {
    pass.radix = word(length);
    // Contiguous rows need no neighbours, and small workgroups hide each other's latency.
    if (fits(pass, limits)) return {fitted(pass, limits, std::max(1u, 1024 / pass.radix))};
  }
  const std::uint64_t many = limits.occupied_by_few ? 0 : kManyNumbers;
  const bool two = length > kLongestPass * kLongestPass && fft.rows * length > many;
  if (two && !wide && std::has_single_bit(length)) {
    std::vector<FftPass> passes = wide_passes(limits, length);
    if (!passes.empty()) return passes;
  }
  // The fewest passes with enough neighbours to read memory in long pieces.
  pass.halves = true;
  for (std::uint32_t most = kLongestPass;; most /= 2) {
    for (std::uint32_t count = 2; count < 8; ++count) {
      std::vector<FftPass> passes = equal_passes(limits, pass, length, count, most);
      if (!passes.empty()) return passes;
    }
  }
}

/// Roots of m as read by fft_pass_kernel().
Argument pass_roots(OpBackend& backend, std::uint64_t m, std::uint64_t radix, Type type) {
  return complex_argument(backend, table(Table::pass, m, radix, type),
                          radix + kFineRoots + m / kFineRoots + 1, type, Access::read);
}

void run_pass(OpBackend& backend, const FftRows& fft, const View& from, const View& to,
              FftPass pass, std::uint64_t span, double factor) {
  const bool wide = fft.type == Type::f64;
  const std::uint64_t radix = pass.radix;
  pass.near_load = radix < fft.length;
  pass.near_store = span > 1;
  if (pass.near_load) {
    pass.length = fft.length;
    pass.span = span;
  }
  const ComputeKernel& kernel = kernel_for(pass.key(), [&] { return fft_pass_kernel(pass); });
  const std::uint64_t numbers = fft.rows * fft.length, jobs = numbers / radix;
  const std::uint64_t rooted = (pass.real ? 2 : span) * radix;
  const Argument arguments[] = {
      complex_argument(backend, from, numbers, fft.type, Access::read),
      complex_argument(backend, to, numbers + (pass.real ? fft.rows : 0), fft.type, Access::write),
      pass_roots(backend, rooted, radix, fft.type)};
  const auto [low, high] = number_words(factor, wide);
  std::vector<std::uint32_t> words = {word(jobs), fft.inverse, low, high};
  if (pass.length == 0)
    words.insert(words.begin() + 1, {word(fft.length), word(fft.length / radix), word(span)});
  const std::uint64_t groups = (jobs + pass.jobs - 1) / pass.jobs;
  const std::uint64_t across =
      std::min<std::uint64_t>(groups, std::min(backend.limits().groups, 32768u));
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = {word(across), word((groups + across - 1) / across)}});
}

View scratch(const FftRows& fft) {
  return {std::make_shared<Storage>(2 * fft.rows * fft.length * size_of(fft.type), "fft"), 0, {}};
}

void by_passes(OpBackend& backend, const FftRows& fft) {
  const std::vector<FftPass> passes = plan_of(backend.limits(), fft);
  View from = fft.source;
  std::uint64_t span = 1;
  for (std::size_t k = 0; k < passes.size(); ++k) {
    const bool last = k + 1 == passes.size();
    const View to = last ? fft.target : scratch(fft);
    run_pass(backend, fft, from, to, passes[k], span, last ? fft.factor : 1);
    span *= passes[k].radix;
    from = to;
  }
}

void run_chirp(OpBackend& backend, const FftRows& from, const FftRows& to, const View& chirp,
               std::uint64_t valid, bool swap_in, bool swap_out, double factor) {
  const bool wide = from.type == Type::f64;
  const ComputeKernel& kernel =
      kernel_for(KernelFile::fft_chirp, from.type, {{"F", number_source("factor", wide)}});
  const std::uint64_t count = to.rows * to.length;
  const Argument arguments[] = {
      complex_argument(backend, from.source, from.rows * from.length, from.type, Access::read),
      complex_argument(backend, chirp, valid, from.type, Access::read),
      complex_argument(backend, to.target, count, to.type, Access::write)};
  const auto [low, high] = number_words(factor, wide);
  const std::uint32_t words[] = {
      word(count), word(to.length), word(from.length), word(valid), swap_in, swap_out, low, high};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = item_groups(backend, count)});
}

/// A convolution with a chirp, by transforms of the next sufficient power of two.
/// Source: Bluestein, A linear filtering approach to the computation of the DFT, 1970.
void bluestein(OpBackend& backend, const FftRows& fft) {
  const std::uint64_t length = std::bit_ceil(2 * fft.length - 1);
  FftRows padded{.type = fft.type, .rows = fft.rows, .length = length};
  if (padded.rows * length > (std::uint64_t{1} << 31)) {
    throw Error(ErrorCode::Unsupported,
                "fft: expected fewer numbers of a length that is no power "
                "of two on a device, got a length of " +
                    std::to_string(fft.length));
  }
  const View chirp = table(Table::chirp, fft.length, 0, fft.type);
  const View transform = table(Table::chirp_transform, fft.length, length, fft.type);
  const auto through = [&](const View& from, bool inverse, double factor) {
    FftRows step = padded;
    step.source = from;
    step.target = scratch(padded);
    step.inverse = inverse;
    step.factor = factor;
    by_passes(backend, step);
    return step.target;
  };
  FftRows to = padded;
  to.target = scratch(padded);
  run_chirp(backend, fft, to, chirp, fft.length, fft.inverse, false, 1);
  FftRows spectrum = padded;
  spectrum.source = through(to.target, false, 1);
  to.target = scratch(padded);
  run_chirp(backend, spectrum, to, transform, length, false, false, 1);
  FftRows convolved = padded;
  convolved.source = through(to.target, true, 1 / static_cast<double>(length));
  run_chirp(backend, convolved, fft, chirp, fft.length, false, fft.inverse, fft.factor);
}

void short_dft(OpBackend& backend, const FftRows& fft) {
  const bool wide = fft.type == Type::f64;
  const ComputeKernel& kernel =
      kernel_for(KernelFile::fft_short, fft.type, {{"F", number_source("factor", wide)}});
  const std::uint64_t count = fft.rows * fft.length;
  const Argument arguments[] = {
      complex_argument(backend, fft.source, count, fft.type, Access::read),
      complex_argument(backend, fft.target, count, fft.type, Access::write),
      complex_argument(backend, table(Table::roots, fft.length, 0, fft.type), fft.length, fft.type,
                       Access::read)};
  const auto [low, high] = number_words(fft.factor, wide);
  const std::uint32_t words[] = {word(count), word(fft.length), fft.inverse, low, high};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = item_groups(backend, count)});
}

}  // namespace

void rfft_on_device(OpBackend& backend, const FftRows& fft) {
  if (smooth(fft.length) && fft.length >= 8) {
    std::vector<FftPass> passes = plan_of(backend.limits(), fft);
    if (passes.size() == 1) {
      passes[0].real = true;
      return run_pass(backend, fft, fft.source, fft.target, passes[0], 1, 1);
    }
  }
  FftRows whole = fft;
  whole.target = scratch(fft);
  fft_on_device(backend, whole);
  const ComputeKernel& kernel = kernel_for(KernelFile::fft_unpack, fft.type);
  constexpr std::uint64_t kRadix = 8;
  const std::uint64_t numbers = fft.rows * fft.length, count = fft.rows * (fft.length / 2 + 1);
  const Argument arguments[] = {
      complex_argument(backend, whole.target, numbers, fft.type, Access::read),
      complex_argument(backend, fft.target, numbers + fft.rows, fft.type, Access::write),
      pass_roots(backend, 2 * fft.length, kRadix, fft.type)};
  const std::uint32_t words[] = {word(count), word(fft.length)};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = item_groups(backend, count)});
}

void fft_on_device(OpBackend& backend, const FftRows& fft) {
  if (smooth(fft.length) && fft.length >= 8) return by_passes(backend, fft);
  if (fft.length <= kShort) return short_dft(backend, fft);
  bluestein(backend, fft);
}

namespace {

using codegen::substitute;
using codegen::text;

constexpr std::string_view kComplex = R"(
{V} times({V} a, {V} b) { return {V}(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
)";

// Butterflies of the forward transform, in place.
constexpr std::string_view kPowers = R"(
{V} turned({V} a) { return {V}(a.y, -a.x); }  // times -i
void fft2(inout {V} a, inout {V} b) {
  {V} sum = a + b;
  b = a - b;
  a = sum;
}
void fft4(inout {V} a, inout {V} b, inout {V} c, inout {V} d) {
  fft2(a, c);
  fft2(b, d);
  d = turned(d);
  fft2(a, b);
  fft2(c, d);
  {V} second = c;
  c = b;
  b = second;
}
void fft8(inout {V} a, inout {V} b, inout {V} c, inout {V} d, inout {V} e, inout {V} f, inout {V} g,
          inout {V} h) {
  const {S} half_root = {S}({root});
  fft4(a, c, e, g);
  fft4(b, d, f, h);
  d = half_root * {V}(d.x + d.y, d.y - d.x);
  f = turned(f);
  h = half_root * {V}(h.y - h.x, -h.x - h.y);
  {V} x0 = a + b, x1 = c + d, x2 = e + f, x3 = g + h;
  {V} x4 = a - b, x5 = c - d, x6 = e - f, x7 = g - h;
  a = x0; b = x1; c = x2; d = x3; e = x4; f = x5; g = x6; h = x7;
}
)";

// Four transforms of four numbers across, twiddles, four along; then reordering.
constexpr std::string_view kSixteen = R"(
void fft16(inout {V} v0, inout {V} v1, inout {V} v2, inout {V} v3, inout {V} v4, inout {V} v5,
           inout {V} v6, inout {V} v7, inout {V} v8, inout {V} v9, inout {V} v10, inout {V} v11,
           inout {V} v12, inout {V} v13, inout {V} v14, inout {V} v15) {
  const {V} w1 = {V}({cosine}, -{sine}), w3 = {V}({sine}, -{cosine});
  const {S} half_root = {S}({root});
  fft4(v0, v4, v8, v12);
  fft4(v1, v5, v9, v13);
  fft4(v2, v6, v10, v14);
  fft4(v3, v7, v11, v15);
  v5 = times(v5, w1);
  v9 = half_root * {V}(v9.x + v9.y, v9.y - v9.x);
  v13 = times(v13, w3);
  v6 = half_root * {V}(v6.x + v6.y, v6.y - v6.x);
  v10 = turned(v10);
  v14 = half_root * {V}(v14.y - v14.x, -v14.x - v14.y);
  v7 = times(v7, w3);
  v11 = half_root * {V}(v11.y - v11.x, -v11.x - v11.y);
  v15 = -times(v15, w1);
  fft4(v0, v1, v2, v3);
  fft4(v4, v5, v6, v7);
  fft4(v8, v9, v10, v11);
  fft4(v12, v13, v14, v15);
  {V} other;
  other = v1; v1 = v4; v4 = other;
  other = v2; v2 = v8; v8 = other;
  other = v3; v3 = v12; v12 = other;
  other = v6; v6 = v9; v9 = other;
  other = v7; v7 = v13; v13 = other;
  other = v11; v11 = v14; v14 = other;
}
)";

/// Transforms of four numbers across, twiddles, and of eight along.
std::string fft32_source(bool wide) {
  const std::string v = wide ? "dvec2" : "vec2";
  const char* suffix = wide ? "lf" : "";
  const auto number = [&](double x) { return platform::formatted("%.17f", x) + suffix; };
  std::string out = "void fft32(";
  for (std::uint32_t k = 0; k < 32; ++k) out += text(k > 0 ? ", " : "", "inout ", v, " v", k);
  out += ") {\n";
  for (std::uint32_t k = 0; k < 8; ++k)
    out += text("  fft4(v", k, ", v", k + 8, ", v", k + 16, ", v", k + 24, ");\n");
  for (std::uint32_t row = 1; row < 4; ++row) {
    for (std::uint32_t k = 1; k < 8; ++k) {
      const double angle = -2 * std::numbers::pi * row * k / 32;
      out += text("  v", 8 * row + k, " = times(v", 8 * row + k, ", ", v, "(",
                  number(std::cos(angle)), ", ", number(std::sin(angle)), "));\n");
    }
  }
  for (std::uint32_t row = 0; row < 4; ++row) {
    out += "  fft8(";
    for (std::uint32_t k = 0; k < 8; ++k) out += text(k > 0 ? ", v" : "v", 8 * row + k);
    out += ");\n";
  }
  for (std::uint32_t k = 0; k < 32; ++k) out += text("  ", v, " x", k, " = v", k, ";\n");
  for (std::uint32_t k = 0; k < 32; ++k) out += text("  v", k, " = x", 8 * (k % 4) + k / 4, ";\n");
  return out + "}\n";
}

/// Butterfly of an odd prime size p, in place: combines inputs k and p - k to sums and differences.
std::string odd_butterfly(std::uint32_t p, bool wide) {
  const std::string v = wide ? "dvec2" : "vec2", s = wide ? "double" : "float";
  const char* suffix = wide ? "lf" : "";
  std::string out = text("void fft", p, "(");
  for (std::uint32_t k = 0; k < p; ++k) out += text(k > 0 ? ", " : "", "inout ", v, " a", k);
  out += ") {\n";
  const std::uint32_t half = p / 2;
  const auto number = [&](double x) { return platform::formatted("%.17f", x) + suffix; };
  for (std::uint32_t k = 1; k <= half; ++k)
    out +=
        text("  ", v, " s", k, " = a", k, " + a", p - k, ", d", k, " = a", k, " - a", p - k, ";\n");
  for (std::uint32_t k = 1; k <= half; ++k) {
    std::string even = "a0", odd;
    for (std::uint32_t j = 1; j <= half; ++j) {
      const double angle = 2 * std::numbers::pi * (j * k % p) / p;
      even += text(" + ", number(std::cos(angle)), " * s", j);
      odd += text(j > 1 ? " + " : "", number(std::sin(angle)), " * d", j);
    }
    out += text("  ", v, " e", k, " = ", even, ";\n  ", v, " o", k, " = turned(", odd, ");\n");
  }
  out += "  a0 +=";
  for (std::uint32_t k = 1; k <= half; ++k) out += text(k > 1 ? " + s" : " s", k);
  out += ";\n";
  for (std::uint32_t k = 1; k <= half; ++k)
    out += text("  a", k, " = e", k, " + o", k, ";\n  a", p - k, " = e", k, " - o", k, ";\n");
  return out + "}\n";
}

/// The source for f32 or f64, from its second byte on.
std::string fft_filled(std::string_view pattern, bool wide) {
  return substitute(pattern.substr(1),
                    {{"V", wide ? "dvec2" : "vec2"},
                     {"S", wide ? "double" : "float"},
                     {"root", wide ? "0.70710678118654752440lf" : "0.70710678118654752440"},
                     {"cosine", wide ? "0.92387953251128675613lf" : "0.92387953251128675613"},
                     {"sine", wide ? "0.38268343236508977173lf" : "0.38268343236508977173"}});
}

/// Source of times(a, b) for complex numbers, turned(a), and fft2(a, b) etc.: forward transforms in
/// place, of powers of two up to 8 and of the requested other sizes: 3, 5, 7, 16.
std::string butterflies(std::span<const std::uint32_t> sizes, bool wide) {
  const auto has = [&](std::uint32_t size) {
    return std::ranges::find(sizes, size) != sizes.end();
  };
  std::string out = fft_filled(kComplex, wide) + fft_filled(kPowers, wide);
  if (has(32)) out += fft32_source(wide);
  if (has(16)) out += fft_filled(kSixteen, wide);
  for (const std::uint32_t p : {3u, 5u, 7u}) {
    if (has(p)) out += odd_butterfly(p, wide);
  }
  return out;
}

using codegen::Lines;

class PassWriter {
 public:
  explicit PassWriter(const FftPass& pass)
      : pass_(pass), stages_(pass.stages()), lanes_(pass.lanes()) {}

  ComputeKernel write() {
    KernelParts parts{.name = text("fft_", pass_.radix, "x", pass_.jobs, pass_.wide ? "_f64" : ""),
                      .local_size = {pass_.invocations(), 1, 1}};
    const std::string type = vector();
    parts.arguments = {{"source", type, Access::read},
                       {"target", type, Access::write},
                       {"roots", type, Access::read}};
    parts.words = {"jobs", "swapped", "factor_low", "factor_high"};
    if (pass_.length > 0) {
      parts.functions =
          text("const uint row_length = ", pass_.length, "u, stride = ", pass_.length / pass_.radix,
               "u, span = ", pass_.span, "u;\n");
    } else {
      parts.words.insert(parts.words.begin() + 1, {"row_length", "stride", "span"});
    }
    parts.functions += butterflies(stages_, pass_.wide);
    const std::string_view held = pass_.halves ? scalar() : std::string_view(type);
    parts.functions += text("shared ", held, " tile[", pass_.jobs * pass_.line(), "];\n");
    // Numbers of a butterfly are in different banks.
    parts.functions +=
        text("uint padded(uint e) { return e + (e >> ", pass_.pad_shift(), "u); }\n");
    load();
    std::uint32_t done = 1;
    for (std::size_t k = 0; k < stages_.size(); ++k) {
      const std::uint32_t radix = stages_[k];
      if (k > 0) turn_stage(radix, done);
      for (std::uint32_t u = 0; u < turns(radix); ++u) butterfly(radix, u);
      if (k + 1 < stages_.size()) exchange(radix, done, stages_[k + 1], k > 0);
      if (k + 1 < stages_.size()) done *= radix;
    }
    if (pass_.real) {
      store_real(done);
    } else {
      pass_.near_store == pass_.near_load ? store(done) : store_across(done);
    }
    parts.body = out_.text();
    return make_kernel(parts);
  }

 private:
  std::string vector() const { return pass_.wide ? "dvec2" : "vec2"; }
  std::string_view scalar() const { return pass_.wide ? "double" : "float"; }
  std::string word(std::uint32_t value) const { return text(value, "u"); }
  std::string v(std::uint32_t k) const { return text("v", k); }
  /// Butterflies per invocation in a stage; if some invocations have no last one.
  std::uint32_t turns(std::uint32_t radix) const {
    return (pass_.radix / radix + lanes_ - 1) / lanes_;
  }
  bool partial(std::uint32_t radix, std::uint32_t u) const {
    return (u + 1) * lanes_ > pass_.radix / radix;
  }
  /// Index of butterfly u within a stage.
  std::string number(std::uint32_t u) const { return text("(lane + ", word(u * lanes_), ")"); }
  void open_partial(std::uint32_t radix, std::uint32_t u) {
    if (partial(radix, u)) out_.open("if (", number(u), " < ", word(pass_.radix / radix), ")");
  }
  void close_partial(std::uint32_t radix, std::uint32_t u) {
    if (partial(radix, u)) out_.close();
  }

  /// Multiplies numbers 1, 2, ... of a butterfly by powers of w1.
  void turn(std::uint32_t count, std::uint32_t first, std::string_view w) {
    // Factors of the powers, chosen so that no power is a long product.
    static constexpr std::array<std::uint32_t, 16> kFactor = {0, 0, 1, 2, 2, 4, 3, 4,
                                                              4, 8, 5, 8, 6, 8, 7, 8};
    for (std::uint32_t q = 1; q < count; ++q) {
      const std::uint32_t factor = q < 16 ? kFactor[q] : q == 16 ? 8 : 16;
      if (q > 1) out_.line(vector(), " ", w, q, " = times(", w, factor, ", ", w, q - factor, ");");
      out_.line(v(first + q), " = times(", v(first + q), ", ", w, q, ");");
    }
  }

  std::string long_root(std::string_view k) const {
    return text("times(roots(", word(pass_.radix), " + (", k, " & 1023u)), roots(",
                word(pass_.radix + 1024), " + (", k, " >> 10u)))");
  }

  void load() {
    const std::string jobs = word(pass_.jobs), lanes = word(lanes_);
    out_.line("uint self = gl_LocalInvocationID.x;");
    out_.line("uint first = linear_group() * ", jobs, ";");
    out_.line("uint job = self ", pass_.near_load ? text("% ", jobs) : text("/ ", lanes), ";");
    out_.line("uint lane = self ", pass_.near_load ? text("/ ", jobs) : text("% ", lanes), ";");
    out_.line("uint base = job * ", word(pass_.line()), ";");
    out_.line("uint number = first + job;");
    out_.line("uint j = number % stride;");
    out_.line("uint from = number / stride * row_length + j;");
    std::uint32_t most = 0;
    for (const std::uint32_t radix : stages_) most = std::max(most, radix * turns(radix));
    for (std::uint32_t q = 0; q < most; ++q)
      out_.line(vector(), " ", v(q), " = ", vector(), "(0.0);");
    const std::uint32_t radix = stages_[0], apart = pass_.radix / radix;
    for (std::uint32_t u = 0; u < turns(radix); ++u) {
      out_.open("if (number < jobs",
                partial(radix, u) ? text(" && ", number(u), " < ", word(apart)) : std::string(),
                ")");
      for (std::uint32_t q = 0; q < radix; ++q)
        out_.line(v(u * radix + q), " = source(from + (", number(u), " + ", word(q * apart),
                  ") * stride);");
      out_.close();
    }
    out_.open("if (swapped != 0u)");
    for (std::uint32_t q = 0; q < radix * turns(radix); ++q) out_.line(v(q), " = ", v(q), ".yx;");
    out_.close();
    out_.open("if (span > 1u)");
    out_.line("uint inner = j % span;");
    out_.line(vector(), " s1 = ", long_root(text("(", word(apart), " * inner)")), ";");
    // Powers of powers lose accuracy: every second one is read from the table.
    for (std::uint32_t k = 2; k < radix; k *= 2) {
      const std::string half = text("s", k / 2);
      out_.line(vector(), " s", k, " = ",
                k == 4 || k == 16 ? long_root(text("(", word(k * apart), " * inner)"))
                                  : text("times(", half, ", ", half, ")"),
                ";");
    }
    for (std::uint32_t u = 0; u < turns(radix); ++u) {
      out_.line("{");
      // Beyond the last butterfly the root is unused, but its address must be valid.
      const std::string at =
          partial(radix, u) ? text("min(", number(u), ", ", word(apart - 1), ")") : number(u);
      out_.line(vector(), " t0 = ", long_root(text("(", at, " * inner)")), ";");
      for (std::uint32_t q = 0; q < radix; ++q) {
        const std::uint32_t high = std::bit_floor(q);
        if (q > 0) out_.line(vector(), " t", q, " = times(t", q - high, ", s", high, ");");
        out_.line(v(u * radix + q), " = times(", v(u * radix + q), ", t", q, ");");
      }
      out_.line("}");
    }
    out_.close();
  }

  void butterfly(std::uint32_t radix, std::uint32_t u) {
    std::string call = text("fft", radix, "(");
    for (std::uint32_t q = 0; q < radix; ++q) call += text(q > 0 ? ", " : "", v(u * radix + q));
    out_.line(call, ");");
  }

  /// Multiplies the numbers of a stage by the roots of their position in transforms of `done`.
  void turn_stage(std::uint32_t radix, std::uint32_t done) {
    for (std::uint32_t u = 0; u < turns(radix); ++u) {
      const std::string w = text("w", done, "_", u, "_");
      out_.line(vector(), " ", w, "1 = roots(", number(u), " % ", word(done), " * ",
                word(pass_.radix / (done * radix)), ");");
      turn(radix, u * radix, w);
    }
  }

  /// Position of number q of butterfly u after a stage with distance `done`.
  std::string written(std::uint32_t radix, std::uint32_t done, std::uint32_t u,
                      std::uint32_t q) const {
    if (done == 1) return text(number(u), " * ", word(radix), " + ", word(q));
    return text(number(u), " / ", word(done), " * ", word(done * radix), " + ", number(u), " % ",
                word(done), " + ", word(q * done));
  }

  void write_tile(std::uint32_t radix, std::uint32_t done, std::string_view part) {
    for (std::uint32_t u = 0; u < turns(radix); ++u) {
      open_partial(radix, u);
      for (std::uint32_t q = 0; q < radix; ++q)
        out_.line("tile[base + padded(", written(radix, done, u, q), ")] = ", v(u * radix + q),
                  part, ";");
      close_partial(radix, u);
    }
  }
  void read_tile(std::uint32_t radix, std::string_view part) {
    for (std::uint32_t u = 0; u < turns(radix); ++u) {
      open_partial(radix, u);
      for (std::uint32_t q = 0; q < radix; ++q)
        out_.line(v(u * radix + q), part, " = tile[base + padded(", number(u), " + ",
                  word(q * (pass_.radix / radix)), ")];");
      close_partial(radix, u);
    }
  }

  /// Exchanges numbers between stages through shared memory.
  void exchange(std::uint32_t radix, std::uint32_t done, std::uint32_t next, bool used) {
    if (used) out_.line("barrier();");
    if (!pass_.halves) {
      write_tile(radix, done, "");
      out_.line("barrier();");
      return read_tile(next, "");
    }
    write_tile(radix, done, ".x");
    out_.line("barrier();");
    // The imaginary parts are still those of this stage, independent of the real parts.
    for (std::uint32_t q = 0; q < next * turns(next); ++q)
      out_.line(scalar(), " x", done, "_", q, " = 0.0;");
    read_half(next, text("x", done, "_"), "");
    out_.line("barrier();");
    write_tile(radix, done, ".y");
    out_.line("barrier();");
    read_half(next, "v", ".y");
    for (std::uint32_t q = 0; q < next * turns(next); ++q)
      out_.line(v(q), ".x = x", done, "_", q, ";");
  }
  void read_half(std::uint32_t radix, std::string_view name, std::string_view part) {
    for (std::uint32_t u = 0; u < turns(radix); ++u) {
      open_partial(radix, u);
      for (std::uint32_t q = 0; q < radix; ++q)
        out_.line(name, u * radix + q, part, " = tile[base + padded(", number(u), " + ",
                  word(q * (pass_.radix / radix)), ")];");
      close_partial(radix, u);
    }
  }

  /// Stores number e of job `j` of a row; results of the last stage are `done` apart.
  void put(std::string_view e, std::string_view value) {
    out_.line("target(to + (", e, ") * span) = swapped != 0u ? ", value, ".yx * factor : ", value,
              " * factor;");
  }
  void find_target() {
    out_.line(scalar(), " factor = ", number_source("factor", pass_.wide), ";");
    out_.line("uint inside = j % span;");
    out_.line("uint to = number / stride * row_length + (j - inside) * ", word(pass_.radix),
              " + inside;");
  }

  void store(std::uint32_t done) {
    const std::uint32_t radix = stages_.back();
    find_target();
    out_.open("if (number < jobs)");
    for (std::uint32_t u = 0; u < turns(radix); ++u) {
      open_partial(radix, u);
      for (std::uint32_t q = 0; q < radix; ++q)
        put(text(number(u), " + ", word(q * done)), v(u * radix + q));
      close_partial(radix, u);
    }
    out_.close();
  }

  /// Stores numbers k and radix - k of the transform of real numbers; see unpack_kernel().
  void store_real(std::uint32_t done) {
    const std::uint32_t pairs = pass_.radix / 2 + 1, all = pass_.jobs * pairs;
    if (stages_.size() > 1) out_.line("barrier();");
    write_tile(stages_.back(), done, "");
    out_.line("barrier();");
    const std::string fine = text("roots(", word(pass_.radix), " + (k & 1023u))");
    const std::string w = pairs <= 1024 ? fine
                                        : text("times(", fine, ", roots(", word(pass_.radix + 1024),
                                               " + (k >> 10u)))");
    out_.open("for (uint e = self; e < ", word(all), "; e += ", word(pass_.invocations()), ")");
    out_.line("uint own = e / ", word(pairs), ", k = e % ", word(pairs), ";");
    out_.line("if (first + own >= jobs) break;");
    const auto tile = [&](std::string_view at) {
      return text("tile[own * ", word(pass_.line()), " + padded(", at, ")]");
    };
    out_.line(vector(), " z = ", tile("k"),
              ", other = ", tile(text("k == 0u ? 0u : ", word(pass_.radix), " - k")), ";");
    out_.line(vector(), " even = ", scalar(), "(0.5) * ", vector(),
              "(z.x + other.x, z.y - other.y);");
    out_.line(vector(), " odd = times(", w, ", ", scalar(), "(0.5) * ", vector(),
              "(z.y + other.y, other.x - z.x));");
    out_.line("uint to = (first + own) * ", word(pass_.radix + 1), ";");
    out_.line("target(to + k) = even + odd;");
    out_.line("target(to + ", word(pass_.radix), " - k) = ", vector(),
              "(even.x - odd.x, odd.y - even.y);");
    out_.close();
  }

  /// Stores through the tile, so that neighbours write neighbouring numbers.
  void store_across(std::uint32_t done) {
    const std::uint32_t radix = stages_.back(), numbers = pass_.jobs * pass_.radix;
    const std::uint32_t rounds = (numbers + pass_.invocations() - 1) / pass_.invocations();
    if (stages_.size() > 1) out_.line("barrier();");
    if (pass_.halves) {
      write_tile(radix, done, ".x");
      out_.line("barrier();");
      for (std::uint32_t k = 0; k < rounds; ++k) {
        out_.line(scalar(), " real_", k, " = tile[min(", at_round(k), " / ", word(pass_.radix),
                  ", ", word(pass_.jobs - 1), ") * ", word(pass_.line()), " + padded(", at_round(k),
                  " % ", word(pass_.radix), ")];");
      }
      out_.line("barrier();");
    }
    write_tile(radix, done, pass_.halves ? ".y" : "");
    out_.line("barrier();");
    out_.line(scalar(), " factor = ", number_source("factor", pass_.wide), ";");
    // Numbers of the first pass are in the order of its jobs.
    out_.line("uint to = first * ", word(pass_.radix), ";");
    out_.line("uint end = min(", word(pass_.jobs), ", max(jobs, first) - first) * ",
              word(pass_.radix), ";");
    for (std::uint32_t k = 0; k < rounds; ++k) {
      out_.open("if (", at_round(k), " < end)");
      out_.line("uint at = ", at_round(k), ";");
      const std::string tile_element =
          text("tile[at / ", word(pass_.radix), " * ", word(pass_.line()), " + padded(at % ",
               word(pass_.radix), ")]");
      out_.line(vector(), " z = ",
                pass_.halves ? text(vector(), "(real_", k, ", ", tile_element, ")") : tile_element,
                ";");
      out_.line("target(to + at) = swapped != 0u ? z.yx * factor : z * factor;");
      out_.close();
    }
  }
  std::string at_round(std::uint32_t k) const {
    return text("(self + ", word(k * pass_.invocations()), ")");
  }

  const FftPass& pass_;
  const std::vector<std::uint32_t> stages_;
  const std::uint32_t lanes_;
  Lines out_{1};
};

}  // namespace

std::vector<std::uint32_t> FftPass::stages() const {
  std::vector<std::uint32_t> out;
  const int twos = std::countr_zero(radix);
  std::uint32_t left = radix >> twos;
  // The fewest stages of powers of two, of similar size; 16 numbers per invocation if that saves a
  // stage and registers suffice, 32 for wide passes.
  const int most = widest == 32 ? 5 : !wide && left == 1 && twos >= 7 ? 4 : 3;
  for (int done = 0, count = (twos + most - 1) / most; count > 0; --count) {
    const int bits = (twos - done + count - 1) / count;
    out.push_back(1u << bits);
    done += bits;
  }
  for (const std::uint32_t size : {7u, 5u, 3u}) {
    for (; left % size == 0; left /= size) out.push_back(size);
  }
  std::ranges::sort(out, std::greater());
  return out;
}

std::uint32_t FftPass::pad_shift() const { return stages().front() == 32 ? 5 : 3; }

std::uint32_t FftPass::line() const {
  if (pad_shift() == 3) return (radix + radix / 8 + 2) / 4 * 4 + 2;
  return (radix + radix / 32 + 31) / 32 * 32 + 32 / std::min(jobs, 32u);
}

std::uint32_t FftPass::lanes() const {
  const std::vector<std::uint32_t> sizes = stages();
  return radix / *std::ranges::max_element(sizes);
}

std::string FftPass::key() const {
  return text("fft ", radix, " ", jobs, wide ? " f64" : " f32", near_load ? " near" : "",
              near_store ? " near" : " far", halves ? " halves" : "", real ? " real" : "", " ",
              length, " ", span, " ", widest);
}

ComputeKernel fft_pass_kernel(const FftPass& pass) { return PassWriter(pass).write(); }

}  // namespace topograd::ops::detail
