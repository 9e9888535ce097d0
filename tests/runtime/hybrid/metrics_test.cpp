// Metrics read back by a parser of Prometheus' text format; traces read back as JSON.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../../../runtime/hybrid/executor.hpp"

#include "device.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

/// name{labels, sorted} -> value; types by family. Throws std::runtime_error with the line.
struct Exposition {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
};

class Parser {
 public:
  explicit Parser(std::string line) : line_(std::move(line)) {}

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) != 0 ||
                                  line_[at_] == '_' || line_[at_] == ':'))
      ++at_;
    if (at_ == begin) fail("a name");
    return line_.substr(begin, at_ - begin);
  }
  std::map<std::string, std::string> labels() {
    std::map<std::string, std::string> out;
    if (!take('{')) return out;
    while (!take('}')) {
      const std::string key = name();
      if (!take('=') || !take('"')) fail("=\"");
      std::string value;
      while (!take('"')) {
        if (take('\\')) {
          value += take('n') ? '\n' : line_.at(at_++);
        } else {
          value += line_.at(at_++);
        }
      }
      if (!out.emplace(key, value).second) fail("a label once");
      if (!take(',') && line_.at(at_) != '}') fail(", or }");
    }
    return out;
  }
  double value() {
    if (!take(' ')) fail("a blank");
    const std::string rest = line_.substr(at_);
    if (rest == "+Inf") return INFINITY;
    std::size_t used = 0;
    const double value = std::stod(rest, &used);
    if (used != rest.size()) fail("nothing after the value");
    return value;
  }
  bool take(char c) {
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw std::runtime_error("expected " + expected + " at " + std::to_string(at_) + ": " + line_);
  }
  std::string line_;
  std::size_t at_ = 0;
};

std::string key_of(const std::string& name, const std::map<std::string, std::string>& labels) {
  std::string key = name;
  for (const auto& [label, value] : labels) key += "|" + label + "=" + value;
  return key;
}

Exposition parse(const std::string& text) {
  Exposition out;
  std::istringstream lines(text);
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      std::istringstream words(line.substr(7));
      std::string type;
      words >> family >> type;
      if (!out.types.emplace(family, type).second) throw std::runtime_error("twice: " + line);
      continue;
    }
    if (line.starts_with("# HELP ")) continue;
    Parser parser(line);
    const std::string name = parser.name();
    if (!name.starts_with(family)) throw std::runtime_error("without a type: " + line);
    const std::string key = key_of(name, parser.labels());
    if (!out.samples.emplace(key, parser.value()).second)
      throw std::runtime_error("twice: " + line);
  }
  return out;
}

/// Four tasks: two on the device, one below the minimum, one that falls back.
struct Played {
  std::shared_ptr<FakeDevice::State> state = std::make_shared<FakeDevice::State>();
  double now = 1000;
  Executor executor;

  explicit Played(HybridOptions options = {.trace_events = 100}, const std::string& device = "fake")
      : executor(std::move(options), [this] { return now += 1e-5; }) {
    executor.add_device(std::make_unique<FakeDevice>(state, device));
    AddTask small(10), large(1000);
    executor.execute(small);
    executor.execute(large);
    executor.execute(large);
    state->failures = 1;
    executor.execute(large);
  }
};

TEST(Metrics, PrometheusTextSaysWhatHappened) {
  const Played played;
  const Exposition e = parse(prometheus_text(played.executor));
  const std::pair<const char*, double> rows[] = {
      {"topograd_tasks_total|device=fake|operation=add|result=success", 2},
      {"topograd_tasks_total|device=fake|operation=add|result=failure", 1},
      {"topograd_tasks_total|device=cpu|operation=add|result=success", 2},
      {"topograd_routing_total|device=cpu|reason=below_minimum", 1},
      {"topograd_routing_total|device=fake|reason=unmeasured", 3},
      {"topograd_fallbacks_total|device=fake|error=device_lost", 1},
      {"topograd_task_duration_seconds_count|device=fake|operation=add", 2},
      {"topograd_task_duration_seconds_sum|device=fake|operation=add", 1e-5},
      {"topograd_task_duration_seconds_bucket|device=fake|le=+Inf|operation=add", 2},
      {"topograd_task_duration_seconds_bucket|device=fake|le=4e-06|operation=add", 0},
      {"topograd_task_duration_seconds_bucket|device=fake|le=8e-06|operation=add", 2},
      {"topograd_batch_size_sum|device=cpu|operation=add", 1010},
      {"topograd_batch_size_bucket|device=cpu|le=16.0|operation=add", 1},
      {"topograd_items_total|device=fake|operation=add", 2000},
      {"topograd_transfer_bytes_total|device=fake|direction=up|operation=add", 16000},
      {"topograd_breaker_state|device=fake", 2},
      {"topograd_breaker_state|device=cpu", 0},
      {"topograd_breaker_openings_total|device=fake", 1},
      {"topograd_coalesced_tasks_total", 0},
  };
  for (const auto& [key, value] : rows) {
    ASSERT_TRUE(e.samples.contains(key)) << key << "\n" << prometheus_text(played.executor);
    EXPECT_NEAR(e.samples.at(key), value, 1e-12) << key;
  }
  EXPECT_EQ(e.types.at("topograd_task_duration_seconds"), "histogram");
  EXPECT_EQ(e.types.at("topograd_tasks_total"), "counter");
  EXPECT_EQ(e.types.at("topograd_breaker_state"), "gauge");
}

TEST(Metrics, BucketsOnlyGrow) {
  Histogram h(1);
  for (const double value : {0.0, 1.0, 1.5, 2.0, 3.0, 1e30}) h.add(value);
  EXPECT_EQ(h.up_to(0), 2u);
  EXPECT_EQ(h.up_to(1), 4u);
  EXPECT_EQ(h.up_to(2), 5u);
  EXPECT_EQ(h.up_to(Histogram::kBuckets - 1), 5u);
  EXPECT_EQ(h.count(), 6u);
  // A value on a bound belongs to its bucket, and the next larger number to the next one.
  for (int k = 0; k < Histogram::kBuckets - 1; ++k) {
    Histogram one(1e-6);
    const double bound = std::ldexp(1e-6, k);
    one.add(bound);
    EXPECT_EQ(one.up_to(k) - (k > 0 ? one.up_to(k - 1) : 0), 1u) << k;
    one.add(std::nextafter(bound, INFINITY));
    EXPECT_EQ(one.up_to(k + 1) - one.up_to(k), 1u) << k;
  }
}

TEST(Metrics, OperationsBeyondALimitAreCountedTogether) {
  constexpr int kNames = 20'000;
  Executor executor{HybridOptions{}};
  const auto count = [&](const std::string& operation) {
    const TaskShape task{.kernel = {1, 1}, .operation = operation, .size = 3};
    const Decision decision = executor.outside_work().decide(task);
    executor.outside_work().record(task, decision, {.times = {.kernel = 1}});
  };
  for (int k = 0; k < kNames; ++k) count("operation " + std::to_string(k));
  count("operation 5");
  const std::string text = prometheus_text(executor);
  EXPECT_LT(text.size(), 3u << 20);
  EXPECT_EQ(executor.statistics("operation 5", "cpu").tasks, 2u);
  const OperationStatistics rest = executor.statistics(Telemetry::kOther, "cpu");
  EXPECT_EQ(rest.tasks, kNames - Telemetry::kMostOperations);
  EXPECT_EQ(rest.items, 3 * rest.tasks);
  const Exposition e = parse(text);
  EXPECT_EQ(e.samples.at("topograd_items_total|device=cpu|operation=other"), 3.0 * rest.tasks);
}

TEST(Metrics, NamesAreEscaped) {
  const Played played({}, "a \"quoted\\ name\"\n");
  const Exposition e = parse(prometheus_text(played.executor));
  EXPECT_TRUE(e.samples.contains("topograd_breaker_state|device=a \"quoted\\ name\"\n"));
}

TEST(Metrics, JsonHoldsKernelsAndCapabilities) {
  const Played played;
  const auto json = nlohmann::json::parse(metrics_json(played.executor));
  ASSERT_EQ(json["capabilities"].size(), 2u);
  EXPECT_EQ(json["capabilities"][1]["kind"], "discrete");
  EXPECT_EQ(json["metrics"]["topograd_batch_size"]["samples"][0]["histogram"]["count"], 2);
  ASSERT_EQ(json["kernels"].size(), 1u);
  EXPECT_EQ(json["kernels"][0]["hash"], "00000000000000010000000000000002");
  const auto& times = json["kernels"][0]["times"];
  ASSERT_EQ(times.size(), 1u) << "first samples do not count: one is left, the device's";
  EXPECT_EQ(times[0]["device"], "fake");
  EXPECT_NEAR(times[0]["us"].get<double>(), 5, 1e-9);
}

TEST(Metrics, TraceHasLanesOnOneClock) {
  const Played played;
  const auto json = nlohmann::json::parse(to_chrome_trace(played.executor.trace().events()));
  std::map<int, std::string> lanes;
  std::map<std::string, int> bars;
  double last = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "M") {
      lanes[event["tid"]] = event["args"]["name"];
      continue;
    }
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["ts"].get<double>(), 0);
    ++bars[lanes.at(event["tid"]) + ": " + event["name"].get<std::string>()];
    last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(bars,
            (std::map<std::string, int>{{"cpu: add", 2}, {"fake: add", 2}, {"fake: kernel", 2}}));
  EXPECT_LT(last, 1e6);
}

TEST(Metrics, OverlappingBarsGetRowsOfTheirOwn) {
  const auto json = nlohmann::json::parse(to_chrome_trace({{"a", "cpu", 0, 10, {}},
                                                           {"b", "cpu", 5, 10, {}},
                                                           {"inside", "cpu", 1, 2, {}},
                                                           {"mark", "cpu", 3, 0, {}}}));
  std::map<std::string, int> threads;
  for (const auto& event : json["traceEvents"])
    if (event["ph"] != "M") threads[event["name"]] = event["tid"];
  EXPECT_EQ(threads["a"], threads["inside"]);
  EXPECT_NE(threads["a"], threads["b"]);
}

TEST(Metrics, TraceIsBounded) {
  TraceLog log(10);
  for (int k = 0; k < 100; ++k) log.add({std::to_string(k), "cpu", k * 1.0, 1, {}});
  ASSERT_EQ(log.events().size(), 10u);
  EXPECT_EQ(log.events()[0].name, "90");
}

TEST(Metrics, ObserverSeesEachTask) {
  Executor executor(HybridOptions{});
  std::vector<std::string> seen;
  executor.set_observer(
      [&](std::string_view operation, std::uint64_t items, const ExecutionStats& stats) {
        seen.push_back(std::string(operation) + " " + std::to_string(items) + " " + stats.device);
      });
  AddTask task(10);
  executor.execute(task);
  EXPECT_EQ(seen, std::vector<std::string>{"add 10 cpu"});
}

TEST(Metrics, ObserverSeesWhatOthersRun) {
  Executor executor(HybridOptions{});
  std::vector<std::string> seen;
  executor.set_observer(
      [&](std::string_view operation, std::uint64_t items, const ExecutionStats& stats) {
        seen.push_back(std::string(operation) + " " + std::to_string(items) + " " + stats.device +
                       " " + std::to_string(stats.times.work()));
      });
  const TaskShape task{.kernel = {1, 2}, .operation = "solve", .size = 10};
  executor.outside_work().record(task, executor.outside_work().decide(task),
                                 {.times = {.kernel = 3}});
  executor.outside_work().record(task, executor.outside_work().decide(task), {.success = false});
  executor.outside_work().ran(task, kCpu, {.times = {.kernel = 500}}, {});
  EXPECT_EQ(seen, (std::vector<std::string>{"solve 10 cpu 3.000000", "solve 10 cpu 500.000000"}));
  const OperationStatistics s = executor.statistics("solve", "cpu");
  EXPECT_EQ(s.tasks, 2u);
  EXPECT_EQ(s.failures, 1u);
  EXPECT_NEAR(s.seconds, 503e-6, 1e-12);
  EXPECT_EQ(executor.scheduler().outcomes_learned(), 1u) << "what ran() is told teaches nothing";
}

}  // namespace
}  // namespace topograd::test
