// Learned data survive the process; damaged files mean a cold start and a count.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/hybrid/routing/knowledge.hpp"
#include "../../../runtime/hybrid/stored_knowledge.hpp"

#include "device.hpp"

namespace topograd::test {
namespace {

namespace fs = std::filesystem;
using namespace runtime::hybrid;

class StateTest : public testing::Test {
 protected:
  StateTest() {
    std::string pattern = (fs::temp_directory_path() / "topograd_state_XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~StateTest() override {
    std::error_code ignored;
    fs::permissions(folder, fs::perms::owner_all, ignored);
    fs::remove_all(folder, ignored);
  }

  std::unique_ptr<Executor> make(const std::string& device = "fake") {
    auto executor =
        std::make_unique<Executor>(HybridOptions{.state = folder}, [this] { return now += 1e-6; });
    executor->add_device(
        std::make_unique<FakeDevice>(std::make_shared<FakeDevice::State>(), device));
    return executor;
  }
  static Reason reason(Executor& executor) {
    AddTask task(4096);
    const Decision decision = executor.outside_work().decide(task.shape());
    executor.scheduler().cancel(decision);
    return decision.reason;
  }
  void learn() {
    AddTask task(4096);
    task.after_cpu = [this] { now += 1e-3; };
    Task* const list[] = {&task};
    make()->warm_up(list, 5);
  }

  std::string folder;
  double now = 0;
};

TEST(TrainingData, IsALineARunWithTextsInQuotes) {
  Knowledge knowledge;
  knowledge.training["gpu, \"big\""] = {
      {{1, 2}, "map", 1000, {.operations = 3, .bytes = 8, .pattern = MemoryPattern::gather}, 12.5}};
  knowledge.training["cpu"] = {};
  EXPECT_EQ(
      training_csv(knowledge),
      "target,kernel,operation,size,operations,bytes,parallelism,reuse,pattern,family,us\n"
      "\"gpu, \"\"big\"\"\",\"00000000000000010000000000000002\",\"map\",1000,3.0,8.0,1.0,1.0,"
      "\"gather\",0,12.5\n");
  EXPECT_EQ(training_json(knowledge), R"([
 {
  "target": "gpu, \"big\"",
  "kernel": "00000000000000010000000000000002",
  "operation": "map",
  "size": 1000,
  "operations": 3.0,
  "bytes": 8.0,
  "parallelism": 1.0,
  "reuse": 1.0,
  "pattern": "gather",
  "family": 0,
  "us": 12.5
 }
]
)");
  EXPECT_EQ(training_json({}), "[]\n");
}

TEST_F(StateTest, NextProcessKnowsWhatThisOneLearned) {
  EXPECT_EQ(reason(*make()), Reason::unmeasured);
  learn();
  const auto next = make();
  EXPECT_EQ(reason(*next), Reason::faster);
  EXPECT_EQ(next->telemetry().counts().state_loads, 1u);
  EXPECT_EQ(next->telemetry().counts().state_rejected, 0u);
}

TEST_F(StateTest, IsNotReadWhereItDecidesNothing) {
  learn();
  const auto loads = [](const Executor& one) { return one.telemetry().counts().state_loads; };
  Executor executor(HybridOptions{.state = folder}, [this] { return now += 1e-6; });
  EXPECT_EQ(reason(executor), Reason::no_device);
  EXPECT_EQ(loads(executor), 0u);
  executor.add_device(std::make_unique<FakeDevice>(std::make_shared<FakeDevice::State>(), "fake"));
  EXPECT_EQ(loads(executor), 1u);
  EXPECT_EQ(reason(executor), Reason::faster);
}

TEST_F(StateTest, OutcomesWaitForWhatWasLearnedBefore) {
  const auto shape = [](std::uint64_t kernel) {
    return TaskShape{.kernel = {kernel, 7}, .operation = "map", .size = 4096};
  };
  const auto record = [&](Executor& executor, std::uint64_t kernel, double us) {
    std::string operation = "map";  // not there any more when it is learned
    TaskShape task = shape(kernel);
    task.operation = operation;
    executor.scheduler().record(task, kCpu, {.times = {.kernel = us}, .settled = true});
  };
  const auto fresh = [&] {
    return std::make_unique<Executor>(HybridOptions{.state = folder},
                                      [this] { return now += 1e-6; });
  };
  {
    const auto before = fresh();
    for (int k = 0; k < 9; ++k) record(*before, 1, 100);
  }
  // As if the file had been read first: one outlier beside it does not count, whenever it is read.
  for (const bool at_once : {true, false}) {
    SCOPED_TRACE(at_once);
    const auto executor = fresh();
    const Scheduler& scheduler = executor->scheduler();
    if (at_once) {
      EXPECT_EQ(scheduler.samples(shape(1), kCpu), 0u);
    }
    record(*executor, 1, 900);
    record(*executor, 2, 50);
    EXPECT_EQ(executor->telemetry().counts().state_loads, at_once ? 1u : 0u);
    EXPECT_EQ(scheduler.outcomes_learned(), 2u);
    EXPECT_NEAR(scheduler.predict(shape(1), kCpu).terms.kernel, 100, 1);
    EXPECT_NEAR(scheduler.predict(shape(2), kCpu).terms.kernel, 50, 1);
    EXPECT_EQ(scheduler.outcomes_learned(), 2u);
    EXPECT_EQ(executor->telemetry().counts().state_loads, 1u);
  }
  const auto executor = fresh();
  for (int k = 0; k < 200; ++k) record(*executor, 3, 70);
  EXPECT_EQ(executor->telemetry().counts().state_loads, 1u) << "outcomes do not wait without end";
}

TEST_F(StateTest, OtherDevicesLearnForThemselves) {
  learn();
  EXPECT_EQ(reason(*make("other")), Reason::unmeasured);
  EXPECT_EQ(reason(*make("fake")), Reason::faster) << "kept while it was away";
}

TEST_F(StateTest, AnotherDriverIsMeasuredAgain) {
  learn();
  const auto updated = [&] {
    auto executor =
        std::make_unique<Executor>(HybridOptions{.state = folder}, [this] { return now += 1e-6; });
    executor->add_device(
        std::make_unique<FakeDevice>(std::make_shared<FakeDevice::State>(), "fake", "test 2"));
    return executor;
  };
  {
    const auto executor = updated();
    EXPECT_EQ(reason(*executor), Reason::unmeasured);
    AddTask task(4096);
    task.after_cpu = [this] { now += 1e-3; };
    Task* const list[] = {&task};
    executor->warm_up(list, 5);
  }
  EXPECT_EQ(KnowledgeFile(folder).load().value().drivers.at("fake"), "test 2");
  EXPECT_EQ(reason(*updated()), Reason::faster);
  EXPECT_EQ(reason(*make()), Reason::unmeasured);
}

TEST_F(StateTest, MergingLeavesOutWhatAnotherDriverMeasured) {
  Knowledge a, b;
  a.drivers["gpu"] = "1";
  b.drivers["gpu"] = "2";
  b.kernels = {{{1, 1}, "map", {{"gpu", {{3, 9, 7, 0, 4}}}, {"cpu", {{3, 9, 8, 0, 4}}}}}};
  b.transfers["gpu"]["upload"] = {{20, 1.5e6, 120, 0, 9}};
  b.training["gpu"] = {{.kernel = {3, 4}, .operation = "scan", .size = 7, .us = 5}};
  merge(a, b);
  EXPECT_EQ(a.drivers.at("gpu"), "1");
  EXPECT_EQ(a.kernels.at(0).targets.count("gpu"), 0u);
  EXPECT_EQ(a.kernels.at(0).targets.count("cpu"), 1u);
  EXPECT_TRUE(a.transfers.empty());
  EXPECT_TRUE(a.training.empty());
  b.drivers.clear();  // a prior
  merge(a, b);
  EXPECT_EQ(a.kernels.at(0).targets.count("gpu"), 1u);
  EXPECT_EQ(a.transfers.size(), 1u);
}

TEST_F(StateTest, JsonGoesRound) {
  Knowledge knowledge;
  knowledge.kernels.push_back({{1, 2}, "map", {{"cpu", {{3, 9.5, 17.25, 0.125, 4}}}}});
  knowledge.transfers["gpu"]["upload"] = {{20, 1.5e6, 120, 0, 9}};
  knowledge.thresholds["map"] = 96;
  knowledge.training["cpu"] = {{.kernel = {3, 4},
                                .operation = "scan",
                                .size = 77,
                                .features = {.reuse = 2, .pattern = MemoryPattern::gather},
                                .us = 5}};
  knowledge.drivers["gpu"] = "made-up 1.2";
  const std::string text = to_json(knowledge);
  const Knowledge again = parse_knowledge(text);
  EXPECT_EQ(to_json(again), text);
  EXPECT_EQ(again.kernels[0].targets.at("cpu")[0].us, 17.25);
  EXPECT_EQ(again.training.at("cpu")[0].features.pattern, MemoryPattern::gather);
}

TEST_F(StateTest, MergingKeepsWhatIsThere) {
  Knowledge a, b;
  a.kernels = {{{1, 1}, "map", {{"cpu", {{3, 9, 100, 0, 4}}}}}};
  b.kernels = {{{1, 1}, "map", {{"cpu", {{3, 9, 7, 0, 4}, {5, 40, 8, 0, 4}}}}},
               {{2, 2}, "map", {}},
               {{3, 3}, "map", {}}};
  b.thresholds["map"] = 5;
  merge(a, b, 2);
  ASSERT_EQ(a.kernels.size(), 2u);
  const auto& rows = a.kernels[0].targets.at("cpu");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].us, 100);
  EXPECT_EQ(rows[1].us, 8);
  EXPECT_EQ(a.thresholds.at("map"), 5);
}

TEST_F(StateTest, TwoExecutorsKeepWhatBothLearned) {
  const auto record = [](Executor& executor, std::uint64_t kernel) {
    const TaskShape shape{.kernel = {kernel, kernel}, .operation = "map", .size = 4096};
    Outcome outcome;
    outcome.times.kernel = 100;
    for (int k = 0; k < 3; ++k) executor.scheduler().record(shape, kCpu, outcome);
  };
  auto one = make(), other = make();  // both before either has written
  record(*one, 1);
  record(*other, 2);
  one.reset();
  other.reset();
  EXPECT_EQ(KnowledgeFile(folder).load().value().kernels.size(), 2u);
}

/// Data that one process learns about eight kernels.
void learn_eight(Executor& executor) {
  for (std::uint64_t kernel = 1; kernel <= 8; ++kernel) {
    for (int k = 0; k < 4; ++k) {
      executor.scheduler().record({.kernel = {kernel, 7}, .operation = "map", .size = 4096}, kCpu,
                                  {.times = {.kernel = 10.0 * static_cast<double>(kernel)}});
    }
  }
}

TEST_F(StateTest, TrainingRowsAreOneForEachKernelAndSize) {
  std::uintmax_t bytes = 0;
  for (int process = 0; process < 8; ++process) {
    {
      const auto executor = make();
      learn_eight(*executor);
      executor->save_state();
      executor->save_state();
    }
    KnowledgeFile file(folder);
    EXPECT_EQ(file.load().value().training.at("cpu").size(), 8u) << process;
    const std::uintmax_t now_bytes = fs::file_size(file.path());
    EXPECT_NEAR(static_cast<double>(now_bytes),
                static_cast<double>(process > 0 ? bytes : now_bytes), 64);
    bytes = now_bytes;
  }
  EXPECT_LT(bytes, 4096u);
}

TEST_F(StateTest, ANewTimeTakesTheOldOnesPlace) {
  const auto record = [&](double us, int times) {
    const auto executor = make();
    for (int k = 0; k < times; ++k) {
      executor->scheduler().record({.kernel = {1, 7}, .operation = "map", .size = 4096}, kCpu,
                                   {.times = {.kernel = us}});
    }
  };
  record(100, 9);
  record(900, 40);
  const auto rows = KnowledgeFile(folder).load().value().training.at("cpu");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NEAR(rows[0].us, 900, 1);
}

TEST_F(StateTest, AFullFileKeepsWhatWasUsedLast) {
  Knowledge many;
  for (std::uint64_t k = 0; k < kMostKernelsOfFile + 100; ++k)
    many.kernels.push_back({{k, 1}, "map", {}, k % 2 == 0 ? 0 : k});
  KnowledgeFile file(folder);
  ASSERT_TRUE(file.store(many));
  const std::vector<Knowledge::Kernel> kept = file.load().value().kernels;
  ASSERT_EQ(kept.size(), kMostKernelsOfFile);
  std::size_t used = 0;
  for (const Knowledge::Kernel& kernel : kept) used += kernel.hash.high % 2;
  EXPECT_EQ(used, (kMostKernelsOfFile + 100) / 2);
}

TEST_F(StateTest, MergingTwiceIsMergingOnce) {
  Knowledge a, b;
  for (std::uint64_t k = 0; k < 5; ++k) {
    b.training["cpu"].push_back({.kernel = {k, 1}, .operation = "map", .size = 1000 + k, .us = 5});
  }
  b.training["cpu"].push_back({.kernel = {0, 1}, .operation = "map", .size = 1023, .us = 6});
  b.training["cpu"].push_back({.kernel = {0, 1}, .operation = "map", .size = 1024, .us = 7});
  for (int k = 0; k < 3; ++k) merge(a, b);
  EXPECT_EQ(a.training.at("cpu").size(), 6u) << "1000 and 1023 are of one power of two";
}

#if !defined(TOPOGRAD_SANITIZED)
TEST_F(StateTest, AFullModelIsReadInTwoMilliseconds) {
  Knowledge full;
  for (std::uint64_t k = 0; k < kMostKernelsOfFile; ++k) {
    Knowledge::Kernel& kernel =
        full.kernels.emplace_back(Knowledge::Kernel{{k, k * 0x9e3779b97f4a7c15}, "solve", {}});
    for (const char* target : {"cpu", "NVIDIA H200"})
      kernel.targets[target] = {{12, 5321, 1234.5678 + static_cast<double>(k), 0.0625, 33}};
  }
  for (const char* target : {"cpu", "NVIDIA H200"}) {
    for (std::uint64_t k = 0; k < kMaxTrainingRows; ++k) {
      full.training[target].push_back({.kernel = {k, k * 0x9e3779b97f4a7c15},
                                       .operation = "solve",
                                       .size = 5321,
                                       .features = {.operations = 12.5, .bytes = 40.125},
                                       .us = 1234.5678 + static_cast<double>(k)});
    }
  }
  KnowledgeFile file(folder);
  ASSERT_TRUE(file.store(full));
  double least = 1e9;
  for (int k = 0; k < 20; ++k) {
    const std::clock_t begin = std::clock();
    ASSERT_EQ(file.load().value().kernels.size(), full.kernels.size());
    least = std::min(least, 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  RecordProperty("milliseconds", std::to_string(least));
  EXPECT_LT(least, 2.0) << fs::file_size(file.path()) << " bytes";
}
#endif

TEST_F(StateTest, RefusesWhatIsNoModel) {
  const char* rows[] = {
      "",
      "[]",
      "{\"format\": 2}",
      R"({"format":1,"kernels":[{"hash":"12","operation":"a","targets":{}}],"transfers":{},"thresholds":{},"training":{}})",
      R"({"format":1,"kernels":[],"transfers":{"a":{"upload":[[99,1,1,0,1]]}},"thresholds":{},"training":{}})",
      R"({"format":1,"kernels":[],"transfers":{"a":{"upload":[[1,1,-1,0,1]]}},"thresholds":{},"training":{}})",
      R"({"format":1e300,"kernels":[],"transfers":{},"thresholds":{},"training":{}})",
      R"({"format":1,"kernels":[],"transfers":{"a":{"upload":[[1e300,1,1,0,1]]}},"thresholds":{},"training":{}})",
      R"({"format":1,"kernels":[],"transfers":{"a":{"upload":[[1,1,1,0,-1]]}},"thresholds":{},"training":{}})",
      R"({"format":1,"kernels":[],"transfers":{"a":{"upload":[[1,1]]}},"thresholds":{},"training":{}})"};
  for (const char* row : rows) {
    SCOPED_TRACE(row);
    try {
      parse_knowledge(row);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Parse);
    }
  }
}

struct Damage {
  const char* what;
  std::function<void(std::string&)> change;
};

TEST_F(StateTest, DamageIsAColdStartAndACounter) {
  learn();
  const std::string path = KnowledgeFile(folder).path();
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  ASSERT_GT(whole.size(), 200u);
  std::vector<Damage> rows = {{"empty", [](std::string& s) { s.clear(); }},
                              {"longer", [](std::string& s) { s += "x"; }}};
  for (const double share : {0.01, 0.3, 0.99})
    rows.push_back({"truncated", [share](std::string& s) {
                      s.resize(static_cast<std::size_t>(share * static_cast<double>(s.size())));
                    }});
  // Magic, format, pointer size, generator, identity, key, size, checksum, payload.
  for (const std::size_t at : {0u, 8u, 16u, 24u, 40u, 56u, 72u, 80u, 96u, 150u})
    rows.push_back({"flipped", [at](std::string& s) { s[at] = static_cast<char>(s[at] ^ 1); }});
  for (const Damage& row : rows) {
    SCOPED_TRACE(row.what);
    std::string damaged = whole;
    row.change(damaged);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    const auto executor = make();
    EXPECT_EQ(reason(*executor), Reason::unmeasured);
    EXPECT_EQ(executor->telemetry().counts().state_rejected, 1u);
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << whole;
  EXPECT_EQ(reason(*make()), Reason::faster) << "whole again";
}

TEST_F(StateTest, FolderThatCannotBeUsedIsAColdStart) {
  learn();
  fs::permissions(folder, fs::perms::owner_all | fs::perms::others_all);
  auto executor = make();
  EXPECT_EQ(reason(*executor), Reason::unmeasured);
  EXPECT_EQ(executor->telemetry().counts().state_rejected, 1u);
  EXPECT_FALSE(executor->save_state());
  EXPECT_EQ(executor->telemetry().counts().state_write_failures, 1u);
}

TEST_F(StateTest, TwoWritersLeaveAWholeFile) {
  learn();
  KnowledgeFile one(folder);
  const Knowledge knowledge = one.load().value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      KnowledgeFile own(folder);
      for (int k = 0; k < 50; ++k) {
        own.store(knowledge);
        EXPECT_TRUE(own.load().has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(one.rejected(), 0u);
}

}  // namespace
}  // namespace topograd::test
