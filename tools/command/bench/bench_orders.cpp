// Compares timings with and without a locality order.
#include "bench_orders.hpp"

#include "measure/bench_times.hpp"

#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/order/order.hpp"
#include "../../../runtime/order/order_choice.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../../solver/session/session.hpp"

#include <nlohmann/json.hpp>

namespace topograd::command {
namespace {

using nlohmann::ordered_json;
using runtime::Pass;

constexpr int kSamplesOfOne = 3;

Session open_with(const char* order, const ProblemModel& model, const SolverOptions& options,
                  std::span<const double> x) {
  platform::set_environment(runtime::kOrderVariable, order);
  Session session = open_session(model, options, {.at_once = true});
  session.engine().set_point(x);
  return session;
}

ordered_json time_pairs(runtime::Engine& found, runtime::Engine& kept, Pass pass, int pairs) {
  const auto time = [&](runtime::Engine& engine) {
    return engine.abilities().measurements->time(pass, 1, kSamplesOfOne).device_us;
  };
  time(found), time(kept);  // compiles
  std::vector<double> found_us, kept_us, ratios;
  for (int k = 0; k < pairs; ++k) {
    // The order of the two alternates, because caches and clocks change between timings.
    double of_found = 0;
    if (k % 2 == 0) of_found = time(found);
    const double of_kept = time(kept);
    if (k % 2 != 0) of_found = time(found);
    found_us.push_back(of_found);
    kept_us.push_back(of_kept);
    ratios.push_back(of_found / of_kept);
  }
  return {{"found_us", median(std::move(found_us))},
          {"kept_us", median(std::move(kept_us))},
          {"ratio", median(std::move(ratios))}};
}

}  // namespace

ordered_json compare_orders(const ProblemModel& model, const SolverOptions& options,
                            std::span<const double> x, int pairs) {
  const Session kept = open_with(runtime::kKeptOrder, model, options, x);
  const Session found = open_with(runtime::kFoundOrder, model, options, x);
  ordered_json report;
  // The interpreter does not reorder blocks.
  report["reordered"] = found.engine().backend() == runtime::Backend::vulkan &&
                        !runtime::find_order(model.model).identity();
  report["pairs"] = pairs;
  const bool rows = model.model.rows > 0;
  const auto passes = rows ? std::vector{Pass::residual, Pass::jacobian, Pass::gradient, Pass::jtjp}
                           : std::vector{Pass::cost, Pass::gradient, Pass::hvp};
  for (const Pass pass : passes) {
    if (Interrupts::came()) break;
    report[std::string(runtime::name(pass))] =
        time_pairs(found.engine(), kept.engine(), pass, pairs);
  }
  return report;
}

}  // namespace topograd::command
