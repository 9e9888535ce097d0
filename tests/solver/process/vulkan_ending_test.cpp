// The process ends in order during any work of a device, a compiler or another thread.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../runtime/hybrid/executor.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/solve.hpp"

#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd::test {
namespace {

using std::chrono::microseconds;

/// Ways to end a process. All give status 0.
enum class End {
  after_a_solve,         ///< main() returns while kernels are still compiling
  exit_in_a_callback,    ///< in a solve that uses the device
  exception,             ///< thrown by a callback, caught, main() returns
  other_thread_solves,   ///< exit() by the main thread, which never used a device
  other_thread_exits,    ///< exit() by another thread while the main thread solves
  static_objects,        ///< made before and after the device was opened
  evaluations_in_flight  ///< whose results are never read
};
constexpr int kEnds = static_cast<int>(End::evaluations_in_flight) + 1;

/// Doubles numbers on the device.
class Doubling final : public runtime::hybrid::Task {
 public:
  runtime::hybrid::TaskShape shape() const override {
    return {.kernel = {7, 7},
            .operation = "doubling",
            .size = numbers_.size(),
            .bytes_in = 4 * numbers_.size(),
            .bytes_out = 4 * numbers_.size(),
            .admit_software = true};
  }
  void run_on_cpu(const runtime::hybrid::CpuThreads&, runtime::hybrid::Items) override {
    for (std::size_t k = 0; k < numbers_.size(); ++k) out_[k] = 2 * numbers_[k];
  }
  std::optional<runtime::hybrid::DeviceProgram> program(runtime::hybrid::Items items) override {
    runtime::hybrid::DeviceProgram program{
        .name = "doubling",
        .glsl =
            "#version 450\nlayout(local_size_x = 64) in;\n"
            "layout(push_constant) uniform P { uint first; uint items; };\n"
            "layout(binding = 0) readonly buffer A { float a[]; };\n"
            "layout(binding = 1) buffer B { float b[]; };\n"
            "void main() { uint i = gl_GlobalInvocationID.x; if (i < items) b[i] = 2.0 * a[i]; }\n",
        .items = items.count()};
    program.arrays.push_back({.read = {std::as_bytes(std::span(numbers_))}});
    program.arrays.push_back({.written = {std::as_writable_bytes(std::span(out_))}});
    return program;
  }

 private:
  std::vector<float> numbers_ = std::vector<float>(4096, 1.5f), out_ = std::vector<float>(4096);
};

SolverOptions options_for(std::mt19937& random) {
  SolverOptions options{.backend = random() % 2 == 0 ? Backend::automatic : Backend::vulkan,
                        .precision = Precision::f32,  // every device has it
                        .device = "0",
                        .fallback_threshold = 0};
  options.max_iterations = 60;
  return options;
}

void nap(std::mt19937& random, int most_ms) {
  std::this_thread::sleep_for(microseconds(random() % static_cast<unsigned>(1000 * most_ms)));
}

std::uint32_t width(std::mt19937& random) { return 8 + random() % 24; }

/// Solves until the process ends.
void keep_solving(unsigned seed) {
  std::mt19937 random(seed);
  for (;;) {
    const auto springs = problems::springs(width(random));
    solve(springs->problem, options_for(random));
  }
}

struct Statics {
  std::unique_ptr<problems::Springs> springs;
  std::unique_ptr<Solver> solver;
  std::unique_ptr<Evaluator> evaluator;
  std::array<Doubling, 3> tasks;
  std::unique_ptr<runtime::hybrid::Executor> executor;
  std::vector<std::future<runtime::hybrid::ExecutionStats>> submitted;
};

[[noreturn]] void end_with_statics(std::mt19937& random) {
  // Its destructor is registered before the driver is loaded, and so runs after the driver's own.
  static Statics early;
  static const bool opened = [] {
    runtime::vulkan::open();
    return true;
  }();
  static Statics late;
  EXPECT_TRUE(opened);
  for (Statics* one : {&early, &late}) {
    one->springs = problems::springs(width(random));
    one->solver = std::make_unique<Solver>(one->springs->problem, options_for(random));
    one->evaluator = std::make_unique<Evaluator>(one->springs->problem, options_for(random));
    one->executor = std::make_unique<runtime::hybrid::Executor>();
    add_devices(*one->executor, {.device = "0"});
    one->solver->solve();
    one->evaluator->gradient();
    for (Doubling& task : one->tasks) one->submitted.push_back(one->executor->submit(task));
  }
  nap(random, 30);
  std::exit(0);
}

void end(End how, unsigned seed) {
  std::mt19937 random(seed);
  // Half of the processes compile each kernel, the others find some in the driver's cache.
  if (random() % 2 == 0) platform::set_environment("MESA_SHADER_CACHE_DISABLE", "1");
  if (how == End::static_objects) end_with_statics(random);
  if (how == End::other_thread_solves) {
    std::thread([seed] { keep_solving(seed); }).detach();
    nap(random, 250);
    std::exit(0);
  }
  if (how == End::other_thread_exits) {
    std::thread([seed] {
      std::mt19937 own(seed);
      nap(own, 250);
      std::exit(0);
    }).detach();
    keep_solving(seed + 1);
  }
  const auto springs = problems::springs(width(random));
  SolverOptions options = options_for(random);
  if (how == End::evaluations_in_flight) {
    Evaluator evaluator(springs->problem, options);
    std::vector<double> x(springs->problem.parameter_count());
    springs->problem.read_x(x);
    std::vector<Async<Eigen::VectorXd>> begun;
    for (int k = 0; k < 4; ++k) begun.push_back(evaluator.gradient_async(x));
    nap(random, 60);
    if (random() % 2 == 0) std::exit(0);  // otherwise they are destroyed first
    return;
  }
  const auto last = static_cast<int>(random() % 8);
  options.callback = [&](const IterationSummary& step) {
    nap(random, 4);
    if (step.iteration < last) return CallbackReturn::SOLVER_CONTINUE;
    if (how == End::exit_in_a_callback) std::exit(0);
    if (how == End::exception) throw std::runtime_error("enough");
    return CallbackReturn::SOLVER_TERMINATE_SUCCESSFULLY;
  };
  try {
    solve(springs->problem, options);
  } catch (const std::exception&) {
  }
}

/// Body of the processes that the next test starts.
TEST(EndOfProcess, DISABLED_Child) {
  const std::string asked = platform::environment("TOPOGRAD_TEST_END").value_or("0 0");
  const std::size_t space = asked.find(' ');
  end(static_cast<End>(std::stoi(asked)), static_cast<unsigned>(std::stoul(asked.substr(space))));
}

TEST(EndOfProcess, IsOrderlyWhateverIsInFlight) {
  try {
    if (runtime::vulkan::devices().empty()) GTEST_SKIP();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto number = [](const char* name, int otherwise) {
    const auto given = platform::environment(name);
    return given ? std::stoi(*given) : otherwise;
  };
  // TOPOGRAD_TEST_ENDS=2000 is the longer run.
  const int runs = number("TOPOGRAD_TEST_ENDS", 42), first = number("TOPOGRAD_TEST_FIRST_END", 0);
  for (int seed = first; seed < first + runs; ++seed) {
    // A process that ends in the middle of work does not free the work's memory: that is no leak.
    const std::string command =
        "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" TOPOGRAD_VALIDATION=0 TOPOGRAD_TEST_END=\"" +
        std::to_string(seed % kEnds) + " " + std::to_string(seed) + "\" timeout 120 \"" + program +
        "\" --gtest_also_run_disabled_tests --gtest_filter=EndOfProcess.DISABLED_Child "
        ">/dev/null 2>&1";
    const int status = std::system(command.c_str());
    EXPECT_EQ(status, 0) << "of end " << seed % kEnds << " with seed " << seed
                         << ": 124 is a time-out, 128 and more a signal: " << WEXITSTATUS(status);
  }
}

}  // namespace
}  // namespace topograd::test
