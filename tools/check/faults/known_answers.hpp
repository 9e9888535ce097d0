// Internal: what self-tests share: tasks and problems with known answers, a temporary folder.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "../../../frontend/problem.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/hybrid/executor.hpp"
#include "../../../solver/solve.hpp"

namespace topograd::check {

/// A private folder for temporary files, removed by the destructor.
class Folder {
 public:
  /// `check` is part of the folder's name. Throws Error{File}.
  explicit Folder(const std::string& check) {
    static std::atomic<int> serial{0};
    std::error_code error;
    path_ = std::filesystem::temp_directory_path(error) /
            ("topograd-check-" + std::to_string(platform::process_id()) + "-" +
             std::to_string(serial++));
    const std::string problem = error ? error.message() : platform::private_folder(path_);
    if (!problem.empty()) throw Error(ErrorCode::File, "check " + check + ": " + problem);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Number of fallbacks that an executor has counted.
inline std::uint64_t fallbacks_of(const runtime::hybrid::Executor& executor) {
  std::uint64_t sum = 0;
  for (const auto& [where, count] : executor.telemetry().counts().fallbacks) sum += count;
  return sum;
}

/// y = 3 x + 1 for integers that floats represent exactly.
class Lines final : public runtime::hybrid::Task {
 public:
  Lines(std::size_t items, runtime::hybrid::Override where)
      : where_(where), x_(items), y_(items, -1) {
    for (std::size_t k = 0; k < items; ++k) x_[k] = number(k);
  }

  runtime::hybrid::TaskShape shape() const override {
    return {.kernel = {0x6c696e6573, 1},
            .operation = "check_lines",
            .size = x_.size(),
            .bytes_in = 4 * x_.size(),
            .bytes_out = 4 * x_.size(),
            .where = where_};
  }
  void run_on_cpu(const runtime::hybrid::CpuThreads&, runtime::hybrid::Items items) override {
    for (std::size_t k = items.begin; k < items.end; ++k) y_[k] = 3 * x_[k] + 1;
  }
  std::optional<runtime::hybrid::DeviceProgram> program(runtime::hybrid::Items items) override {
    const auto part = [&](auto& array) {
      return std::span(array).subspan(items.begin, items.count());
    };
    runtime::hybrid::DeviceProgram program{
        .name = "check_lines", .glsl = kShader, .items = items.count()};
    program.arrays.push_back({.read = {std::as_bytes(part(x_))}});
    program.arrays.push_back({.written = {std::as_writable_bytes(part(y_))}});
    return program;
  }

  /// True if the results are correct and the inputs unchanged.
  bool right() const {
    for (std::size_t k = 0; k < x_.size(); ++k) {
      if (x_[k] != number(k) || y_[k] != 3 * number(k) + 1) return false;
    }
    return true;
  }

 private:
  static constexpr const char* kShader = R"(#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint first; uint items; };
void main() {
  uint i = first + gl_GlobalInvocationID.x;
  if (i < items) y[i] = 3.0 * x[i] + 1.0;
}
)";

  static float number(std::size_t k) { return static_cast<float>(k % 4096); }

  runtime::hybrid::Override where_;
  std::vector<float> x_, y_;
};

/// Coupled valleys: Σ 100 (b − a²)² + (1 − a)² + (a − a')² / 100, with the minimum 0 at the point
/// with all numbers 1.
class Valleys {
 public:
  /// `count` pairs that start at (a, b); the minimum fulfils the constraints.
  Valleys(std::size_t count, double a, double b, bool constrained = false) {
    for (std::size_t k = 0; k < count; ++k) x_.insert(x_.end(), {a, b});
    const Parameters x = problem_.add_parameters(x_, 2);
    for (std::size_t k = 0; k < count; ++k) {
      const Value p = x(k, 0), q = x(k, 1);
      problem_.add_residual(Vec2{10.0 * (q - p * p), 1.0 - p}, {.label = "valley"});
      if (k > 0) problem_.add_residual(0.1 * (x(k - 1, 0) - p), {.label = "neighbours"});
    }
    if (constrained) problem_.add_inequality(x(0, 0) - 0.5, {.label = "above a half"});
  }

  Problem& problem() { return problem_; }
  /// Moves every pair to (a, b).
  void move_to(double a, double b) {
    for (std::size_t k = 0; k < x_.size(); k += 2) {
      x_[k] = a;
      x_[k + 1] = b;
    }
  }
  /// The largest distance of a number from that of another one with as many pairs.
  double distance(const Valleys& other) const {
    double most = 0;
    for (std::size_t k = 0; k < x_.size(); ++k) {
      const double off = std::abs(x_[k] - other.x_[k]);
      most = off <= most ? most : off;
    }
    return most;
  }
  /// The largest distance of a number from the minimum.
  double off() const {
    double most = 0;
    for (const double number : x_)
      most = std::abs(number - 1) <= most ? most : std::abs(number - 1);
    return most;
  }

 private:
  std::vector<double> x_;
  Problem problem_;
};

/// Largest allowed error of a number of Valleys at the minimum, 1, in this precision.
inline double right_within(Precision precision) {
  return precision == Precision::f32 ? 1e-5 : 1e-10;
}

/// Sets tolerances with which only rounding stops the solve, so that right_within() holds.
inline void solve_valleys_to_the_end(SolverOptions& options) {
  options.function_tolerance = options.parameter_tolerance = 1e-14;
  options.gradient_tolerance = 1e-14;
}

}  // namespace topograd::check
