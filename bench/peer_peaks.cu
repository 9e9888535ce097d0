// The peaks of `bench_components peaks` by a plain CUDA kernel: one thread fits one peak. Damping,
// acceptance and ends are those of Topograd's walks; derivatives are written by hand.
//
//   scripts/bench-peaks-peer [COUNT]
//
// Prints for each precision, with pixels that are read in each step or held in registers: time of
// the kernel, fits per second of it, how many converged, steps, and median errors.
#include "peaks.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace topograd::bench;

constexpr int N = kPeakUnknowns, kSide = kPeakSide;
constexpr int kPairs = N * (N + 1) / 2;
constexpr int kThreads = 128;
constexpr int kWarmUps = 5, kSamples = 15;

#define CHECK(call) check(call, #call)
void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  std::exit(1);
}

/// The defaults of SolverOptions.
template <class T>
struct Rules {
  T initial_radius = T(1e4), most_radius = T(1e16), least_radius = T(1e-30);
  T function_tolerance = T(1e-6), gradient_tolerance = T(1e-10);
  T least_diagonal = T(1e-6), most_diagonal = T(1e32);
  T least_gain = T(1e-3);
  int most_steps = 50;
};

enum End { kNone, kGradient, kCostChange, kSteps, kPredictedChange };

/// Number of (i, j), i <= j, in an upper triangle by rows.
__device__ constexpr int entry(int i, int j) { return i * N - i * (i + 1) / 2 + j; }
/// Number of (i, j), j <= i, in a lower triangle by rows.
__device__ constexpr int lower(int i, int j) { return i * (i + 1) / 2 + j; }

/// Twice the cost, its gradient, and JᵀJ.
template <class T>
struct Sums {
  T square, g[N], h[kPairs];

  __device__ bool are_finite() const {
    bool out = isfinite(square);
#pragma unroll
    for (int i = 0; i < N; ++i) out = out && isfinite(g[i]);
#pragma unroll
    for (int e = 0; e < kPairs; ++e) out = out && isfinite(h[e]);
    return out;
  }
};

/// Rows of the image are a loop, or are written out.
template <int kUnrolled, class T, class Pixel>
__device__ Sums<T> evaluate(const T (&x)[N], const Pixel& pixel) {
  Sums<T> out{};
  const T inverse = T(1) / x[3], half = T(0.5) * inverse * inverse;
#pragma unroll kUnrolled
  for (int v = 0; v < kSide; ++v) {
#pragma unroll
    for (int u = 0; u < kSide; ++u) {
      const T dx = T(u) - x[1], dy = T(v) - x[2];
      const T square = dx * dx + dy * dy;
      const T e = exp(-square * half);
      const T slope = x[0] * e * inverse * inverse;
      const T r = x[0] * e + x[4] - pixel(v * kSide + u);
      const T row[N] = {e, slope * dx, slope * dy, slope * square * inverse, T(1)};
      out.square += r * r;
#pragma unroll
      for (int a = 0; a < N; ++a) {
        out.g[a] += row[a] * r;
#pragma unroll
        for (int b = a; b < N; ++b) out.h[entry(a, b)] += row[a] * row[b];
      }
    }
  }
  return out;
}

/// The step d by Cholesky's factor of the scaled and damped matrix. False if it is not positive
/// definite or promises no decrease.
template <class T>
__device__ bool find_step(const Sums<T>& sums, const T (&scale)[N], T radius, const Rules<T>& rules,
                          T (&d)[N], T& expected) {
  T L[kPairs];
  bool definite = true;
#pragma unroll
  for (int j = 0; j < N; ++j) {
#pragma unroll
    for (int i = j; i < N; ++i) {
      T sum = scale[i] * scale[j] * sums.h[entry(j, i)];
      if (i == j) sum += min(max(sum, rules.least_diagonal), rules.most_diagonal) / radius;
#pragma unroll
      for (int m = 0; m < j; ++m) sum -= L[lower(i, m)] * L[lower(j, m)];
      if (i == j) {
        definite = definite && sum > T(0) && isfinite(sum);
        L[lower(i, i)] = T(1) / sqrt(sum);
      } else {
        L[lower(i, j)] = sum * L[lower(j, j)];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    T sum = -scale[i] * sums.g[i];
#pragma unroll
    for (int j = 0; j < i; ++j) sum -= L[lower(i, j)] * d[j];
    d[i] = sum * L[lower(i, i)];
  }
#pragma unroll
  for (int i = N - 1; i >= 0; --i) {
    T sum = d[i];
#pragma unroll
    for (int j = i + 1; j < N; ++j) sum -= L[lower(j, i)] * d[j];
    d[i] = sum * L[lower(i, i)];
  }
  T slope = T(0), square = T(0);
#pragma unroll
  for (int i = 0; i < N; ++i) d[i] *= scale[i];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    slope += sums.g[i] * d[i];
    T product = sums.h[entry(i, i)] * d[i];
#pragma unroll
    for (int j = i + 1; j < N; ++j) product += T(2) * sums.h[entry(i, j)] * d[j];
    square += d[i] * product;
  }
  expected = -slope - square / T(2);
  return definite && expected > T(0);
}

/// max |g_i| / ‖J_i‖
template <class T>
__device__ T size_of_gradient(const Sums<T>& sums) {
  T largest = T(0);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const T h = sums.h[entry(i, i)];
    if (h > T(0)) largest = max(largest, abs(sums.g[i]) / sqrt(h));
  }
  return largest;
}

/// Numbers of peak k: array[i * count + k].
template <class T, bool kHoldsPixels>
__global__ void __launch_bounds__(kThreads)
    fit(const T* __restrict__ starts, const T* __restrict__ pixels, int count, Rules<T> rules,
        T* __restrict__ fits, int* __restrict__ steps, int* __restrict__ ends) {
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= count) return;
  T held[kHoldsPixels ? kPixels : 1];
  if constexpr (kHoldsPixels) {
#pragma unroll
    for (int i = 0; i < int(kPixels); ++i) held[i] = pixels[i * count + k];
  }
  const auto pixel = [&](int i) {
    if constexpr (kHoldsPixels) {
      return held[i];
    } else {
      return pixels[i * count + k];
    }
  };
  constexpr int kUnrolled = kHoldsPixels ? kSide : 1;
  T x[N], t[N], d[N], scale[N] = {};
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = t[i] = starts[i * count + k];
  Sums<T> sums{};
  T cost = T(0), expected = T(0), radius = rules.initial_radius, shrink = T(2);
  int accepted = 0, rejected = 0, invalid = 0, by = kNone;
  bool begun = false, done = false;
  while (!done) {
    const Sums<T> trial = evaluate<kUnrolled>(t, pixel);
    const T after = trial.square / T(2), change = cost - after, gain = change / expected;
    const bool finite = trial.are_finite();
    const bool takes = finite && (!begun || gain > rules.least_gain);
    if (!begun) {
      done = !finite;
    } else if (takes) {
      const T bend = T(2) * gain - T(1);
      radius = min(rules.most_radius, radius / max(T(1) / T(3), T(1) - bend * bend * bend));
      shrink = T(2);
      ++accepted;
      done = change <= rules.function_tolerance * cost;
      if (done) by = kCostChange;
    } else {
      radius /= shrink;
      shrink *= T(2);
      ++rejected;
      done = expected <= rules.function_tolerance * cost;
      if (done) by = kPredictedChange;
      done = done || !(radius > rules.least_radius);
    }
    if (takes) {
      cost = after;
      sums = trial;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        x[i] = t[i];
        const T h = sums.h[entry(i, i)];
        if (!(scale[i] > T(0)) && h > T(0)) scale[i] = T(1) / sqrt(h);
      }
      if (size_of_gradient(sums) <= rules.gradient_tolerance * sqrt(T(2) * cost)) {
        done = true;
        by = kGradient;
      }
    }
    begun = true;
    while (!done) {
      done = accepted + rejected >= rules.most_steps;
      if (done) {
        by = kSteps;
        break;
      }
      if (find_step(sums, scale, radius, rules, d, expected)) {
        invalid = 0;
        break;
      }
      radius /= T(2);
      ++rejected;
      done = ++invalid > 5;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) t[i] = x[i] + d[i];
  }
#pragma unroll
  for (int i = 0; i < N; ++i) fits[i * count + k] = x[i];
  steps[k] = accepted + rejected;
  ends[k] = by;
}

template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t size) : size_(size) { CHECK(cudaMalloc(&at_, size * sizeof(T))); }
  explicit OnDevice(const std::vector<T>& from) : OnDevice(from.size()) {
    CHECK(cudaMemcpy(at_, from.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(at_); }

  T* at() const { return at_; }
  std::vector<T> read() const {
    std::vector<T> out(size_);
    CHECK(cudaMemcpy(out.data(), at_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  T* at_ = nullptr;
  std::size_t size_;
};

/// Rows to columns.
template <class T>
std::vector<T> columns(const std::vector<double>& rows, std::size_t width) {
  const std::size_t count = rows.size() / width;
  std::vector<T> out(rows.size());
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t i = 0; i < width; ++i)
      out[i * count + k] = static_cast<T>(rows[k * width + i]);
  return out;
}

template <class T, bool kHoldsPixels>
void measure(const char* name, const PeakImages& peaks) {
  const std::size_t count = peaks.starts.size() / kPeakUnknowns;
  const OnDevice<T> starts(columns<T>(peaks.starts, kPeakUnknowns));
  const OnDevice<T> pixels(columns<T>(peaks.pixels, kPixels));
  const OnDevice<T> fits(count * kPeakUnknowns);
  const OnDevice<int> steps(count), ends(count);
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int sample = -kWarmUps; sample < kSamples; ++sample) {
    CHECK(cudaEventRecord(begin));
    fit<T, kHoldsPixels><<<unsigned((count + kThreads - 1) / kThreads), kThreads>>>(
        starts.at(), pixels.at(), int(count), Rules<T>{}, fits.at(), steps.at(), ends.at());
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (sample >= 0) times.push_back(ms);
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  const std::vector<T> found = fits.read();
  std::vector<double> x(found.size());
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t i = 0; i < kPeakUnknowns; ++i)
      x[k * kPeakUnknowns + i] = double(found[i * count + k]);
  std::size_t converged = 0;
  for (const int by : ends.read()) converged += by != kNone && by != kSteps;
  double sum = 0;
  for (const int s : steps.read()) sum += s;
  const auto errors = median_errors(x, peaks.truth);
  std::printf(
      "  %-28s %8.3f ms of the kernel (%.3f to %.3f)  %6.1f million fits a second\n"
      "    %zu converged, %.2f steps each; median errors: amplitude %.4g, centre %.4g and %.4g, "
      "width %.4g, background %.4g\n",
      name, ms, double(times.front()), double(times.back()), 1e-3 * double(count) / ms, converged,
      sum / double(count), errors[0], errors[1], errors[2], errors[3], errors[4]);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  if (argc > 2 || count == 0 || count > 50'000'000) {
    std::fprintf(stderr, "usage: %s [COUNT]\n", argv[0]);
    return 2;
  }
  cudaDeviceProp device{};
  CHECK(cudaGetDeviceProperties(&device, 0));
  std::printf("%zu peaks in CUDA on %s\n", count, device.name);
  const PeakImages peaks = make_peaks(count);
  measure<float, false>("f32, reads pixels", peaks);
  measure<float, true>("f32, holds pixels", peaks);
  measure<double, false>("f64, reads pixels", peaks);
  measure<double, true>("f64, holds pixels", peaks);
}
