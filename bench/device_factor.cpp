// Times of a sparse Cholesky factorisation with one solution, on the host and on a device.
#include "../runtime/vulkan/linear/device_factor.hpp"
#include "../api/formats/mesh/mesh.hpp"
#include "../ir/error.hpp"
#include "../ir/machine/stopwatch.hpp"
#include "../runtime/factor/level_plan.hpp"
#include "../solver/evaluator.hpp"
#include "../solver/linear/factor/factorization.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../tools/problems/arap.hpp"

namespace topograd::bench {
namespace {

using codegen::Precision;
using Lower = Eigen::SparseMatrix<double>;
using Vector = Eigen::VectorXd;

constexpr int kWarmUps = 3, kSamples = 20, kHostSamples = 5;

/// JᵀJ + 1e-4 D of as-rigid-as-possible deformation at its start.
Lower matrix_of(const std::string& mesh) {
  const auto made = problems::arap(read_mesh(mesh));
  Lower lower = Lower(Evaluator(made->problem, {.backend = Backend::cpu}).jtj())
                    .triangularView<Eigen::Lower>();
  for (Eigen::Index k = 0; k < lower.cols(); ++k) {
    double& diagonal = lower.coeffRef(k, k);
    diagonal += 1e-4 * std::max(diagonal, 1e-6);
  }
  lower.makeCompressed();
  return lower;
}

/// ‖b − A x‖ / (‖A‖ ‖x‖), in the largest norms of rows.
double backward_error(const Lower& lower, const Vector& b, const Vector& x) {
  const Vector residual = b - lower.selfadjointView<Eigen::Lower>() * x;
  const Lower sizes = lower.cwiseAbs();
  const Vector rows = sizes.selfadjointView<Eigen::Lower>() * Vector::Ones(b.size());
  return residual.lpNorm<Eigen::Infinity>() / (rows.maxCoeff() * x.lpNorm<Eigen::Infinity>());
}

std::span<const double> span_of(const Vector& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

void row(const std::string& what, double ms, double wall_ms, double error) {
  std::printf("| %s | %.3f | %.3f | %.2g |\n", what.c_str(), ms, wall_ms, error);
  std::fflush(stdout);
}

void measure_host(const Lower& lower, const Vector& b, int threads, FactorPlace backend) {
  const auto factor = make_sparse_factorization(lower, threads, backend);
  std::vector<double> times;
  Vector x;
  for (int k = 0; k <= kHostSamples; ++k) {
    const auto start = std::chrono::steady_clock::now();
    if (!factor->factor(lower)) throw Error(ErrorCode::Internal, "the matrix is not positive");
    x = factor->solve(b);
    if (k > 0) times.push_back(1e3 * seconds_since(start));
  }
  const double ms = median(times);
  row(std::string(name(backend)) + ", " + std::to_string(threads) + " threads", ms, ms,
      backward_error(lower, b, x));
}

runtime::LowerPattern pattern_of(const Lower& lower) {
  return {{lower.outerIndexPtr(), static_cast<std::size_t>(lower.cols()) + 1},
          {lower.innerIndexPtr(), static_cast<std::size_t>(lower.nonZeros())}};
}

/// Times of the symbolic phase on all threads, and of the lists that a device needs beside it.
void measure_plans(const Lower& lower) {
  std::vector<double> host, device;
  for (int k = 0; k < kHostSamples; ++k) {
    auto start = std::chrono::steady_clock::now();
    const runtime::FactorPlan plan = runtime::make_factor_plan(pattern_of(lower));
    host.push_back(1e3 * seconds_since(start));
    start = std::chrono::steady_clock::now();
    runtime::make_level_plan(plan, pattern_of(lower));
    device.push_back(1e3 * seconds_since(start));
  }
  std::printf("plan %.2f ms, lists for a device %.2f ms more\n\n", median(host), median(device));
}

void measure_device(const Lower& lower, const Vector& b, Precision precision) {
  namespace vulkan = runtime::vulkan;
  const runtime::LowerPattern pattern = pattern_of(lower);
  const std::span values(lower.valuePtr(), static_cast<std::size_t>(lower.nonZeros()));
  const char* const device = std::getenv("TOPOGRAD_DEVICE");
  vulkan::HostMatrixFactor factor(
      pattern, runtime::make_factor_plan(pattern),
      {.precision = precision, .device = device != nullptr ? device : ""});
  std::vector<double> times;
  Vector x(b.size());
  int refinements = 0;
  for (int k = 0; k <= kHostSamples; ++k) {
    const auto start = std::chrono::steady_clock::now();
    if (factor.factor(values).end != runtime::FactorEnd::complete)
      throw Error(ErrorCode::Internal, "the matrix is not positive");
    refinements =
        factor.solve(span_of(b), {x.data(), static_cast<std::size_t>(x.size())}).refinements;
    if (k > 0) times.push_back(1e3 * seconds_since(start));
  }
  const bool slow = x.size() > 0 && median(times) > 1e3;  // software
  const runtime::Timing timing = factor.time(slow ? 0 : kWarmUps, slow ? 1 : kSamples);
  row("device, " + std::string(codegen::name(precision)), 1e-3 * timing.device_us, median(times),
      backward_error(lower, b, x));
  std::printf("  %llu dispatches, %llu bytes, %llu predicted, %d refinements\n",
              static_cast<unsigned long long>(factor.dispatches()),
              static_cast<unsigned long long>(factor.bytes()),
              static_cast<unsigned long long>(factor.predicted_bytes()), refinements);
}

int run(const std::string& mesh) {
  const Lower lower = matrix_of(mesh);
  const Vector b = Vector::LinSpaced(lower.cols(), -1, 2);
  std::printf("%s: %lld unknowns, %lld entries of the lower triangle\n", mesh.c_str(),
              static_cast<long long>(lower.cols()), static_cast<long long>(lower.nonZeros()));
  measure_plans(lower);
  std::printf(
      "| factor and solution | on the device, ms | with transfers, ms | backward error |\n"
      "|---|---|---|---|\n");
  const int all = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
  for (const int threads : {1, 2, 16}) {
    if (threads <= std::max(all, 2)) measure_host(lower, b, threads, FactorPlace::host);
  }
  if (used_on_host(FactorPlace::automatic) == FactorPlace::cholmod)
    measure_host(lower, b, all, FactorPlace::cholmod);
  measure_device(lower, b, Precision::f64);
  measure_device(lower, b, Precision::f32);
  return 0;
}

}  // namespace
}  // namespace topograd::bench

int main(int count, char** arguments) try {
  if (count != 2) {
    std::fprintf(stderr, "bench_device_factor: expected a mesh\n");
    return 2;
  }
  return topograd::bench::run(arguments[1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_device_factor: %s\n", error.what());
  return 2;
}
