// Sizes of parts against the parts themselves, and the cost model against sums by hand.
#include "../../distributed/cost_model.hpp"
#include "../../distributed/local_model.hpp"
#include "../../solver/model/model.hpp"
#include "../../tools/problems/arap.hpp"
#include "../../tools/problems/bundle.hpp"
#include "../../tools/problems/mesh.hpp"
#include "../../tools/problems/springs.hpp"
#include "../support/paths.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace topograd::distributed {
namespace {

using test::program_dir;
using test::read_file;
using test::TemporaryDir;

/// MPI and PETSc, once for all tests.
const Communicator& self() {
  static const Session session = [] {
    static int count = 0;
    static char** words = nullptr;
    return Session(&count, &words, {});
  }();
  static const Communicator one(MPI_COMM_SELF);
  return one;
}

/// A problem in its memory, as a model with chunks.
struct Whole {
  std::shared_ptr<void> memory;
  ProblemModel made;
  std::vector<runtime::Chunk> chunks;
  std::vector<double> x;

  template <class Made>
  explicit Whole(std::shared_ptr<Made> from)
      : memory(from),
        made(make_model("test", from->problem)),
        chunks(runtime::chunks_of(made.model.arrays)),
        x(made.model.scalars) {
    from->problem.read_x(x);
  }
  const runtime::Model& model() const { return made.model; }
  Divided divide(int parts) const {
    const ChunkGraph graph = chunk_graph(model(), chunks);
    const std::vector<int> rank_of_chunk = partition(self(), graph, parts, PartitionMethod::scotch);
    return {.parts = part_sizes(model(), chunks, rank_of_chunk, parts), .chunks = chunks.size()};
  }
};

Whole springs(std::uint32_t width) {
  return Whole(std::shared_ptr<problems::Springs>(problems::springs(width)));
}
Whole arap(int subdivisions) {
  return Whole(std::shared_ptr<problems::Arap>(
      problems::arap(problems::icosphere(static_cast<std::uint32_t>(subdivisions)))));
}
Whole bundle(std::uint32_t cameras, std::uint32_t points, std::uint32_t observations) {
  return Whole(std::shared_ptr<problems::Bundle>(
      problems::bundle({.cameras = cameras, .points = points, .observations = observations})));
}

std::uint64_t largest(const Divided& divided, std::uint64_t PartSize::*of) {
  std::uint64_t most = 0;
  for (const PartSize& part : divided.parts) most = std::max(most, part.*of);
  return most;
}

TEST(PartSizes, AreThoseOfTheParts) {
  for (const Whole& whole : {springs(40), arap(3), bundle(30, 400, 2000)}) {
    for (const int parts : {1, 3, 7}) {
      std::vector<int> rank_of_chunk;  // neither connected nor equal; the last part has nothing
      for (std::size_t c = 0; c < whole.chunks.size(); ++c)
        rank_of_chunk.push_back(
            static_cast<int>(c * c / 3 % static_cast<std::size_t>(std::max(1, parts - 1))));
      const std::vector<PartSize> sizes =
          part_sizes(whole.model(), whole.chunks, rank_of_chunk, parts);
      ASSERT_EQ(sizes.size(), static_cast<std::size_t>(parts));
      for (int rank = 0; rank < parts; ++rank) {
        SCOPED_TRACE(std::to_string(rank) + " of " + std::to_string(parts));
        const LocalModel local = local_model(whole.model(), whole.chunks, rank_of_chunk, rank);
        const PartSize& size = sizes[static_cast<std::size_t>(rank)];
        EXPECT_EQ(size.chunks, local.chunks.size());
        EXPECT_EQ(size.blocks, local.blocks);
        EXPECT_EQ(size.ghost_blocks, local.ghost_blocks);
        EXPECT_EQ(size.residuals, local.residuals);
        EXPECT_EQ(size.again, local.again);
        EXPECT_EQ(size.scalars + size.ghost_scalars, local.model.scalars);
        std::set<int> senders;
        for (const distributed::Run& run : local.ghosts)
          for (std::size_t c = 0; c < whole.chunks.size(); ++c)
            if (whole.chunks[c].first < run.whole + run.count && run.whole < whole.chunks[c].end)
              senders.insert(rank_of_chunk[c]);
        EXPECT_EQ(size.senders, senders.size());
      }
    }
  }
}

struct Family {
  std::string name;
  Whole small, large;
  double factor = 4, surface = 0.5;
};

// Divisions of a problem predict those of one that is four times as large.
TEST(PartSizes, OfLargerProblemsAreSimilar) {
  const std::vector<Family> families = [] {
    std::vector<Family> out;
    out.push_back({.name = "springs", .small = springs(128), .large = springs(256)});
    out.push_back({.name = "arap", .small = arap(5), .large = arap(6)});
    out.push_back({.name = "bundle",
                   .small = bundle(100, 5000, 25000),
                   .large = bundle(400, 20000, 100000),
                   .surface = 1});
    return out;
  }();
  for (const Family& family : families) {
    for (const int parts : {4, 16}) {
      SCOPED_TRACE(family.name + " in " + std::to_string(parts));
      const Divided predicted = similar(family.small.divide(parts), family.factor, family.surface);
      const Divided counted = family.large.divide(parts);
      const auto near = [&](std::uint64_t PartSize::*of, double bound) {
        const auto is = static_cast<double>(largest(counted, of));
        EXPECT_NEAR(static_cast<double>(largest(predicted, of)), is, bound * is);
      };
      near(&PartSize::residuals, 0.15);
      near(&PartSize::scalars, 0.25);
      near(&PartSize::ghost_blocks, 0.4);
    }
  }
}

// Few cameras are read by as many residuals as many points. With chunks as long as those of
// points, one rank would have all cameras and all residuals.
TEST(PartSizes, OfScenesWithFewCamerasAreEqual) {
  constexpr int kParts = 64;
  const Whole whole = bundle(1000, 20000, 100000);
  const Divided divided = whole.divide(kParts);
  // A residual is evaluated by the ranks of its camera and of its point.
  EXPECT_LT(largest(divided, &PartSize::residuals), 3 * 100000 / kParts);
}

PartSize part(std::uint64_t scalars, std::uint64_t residuals, std::uint64_t ghosts,
              std::uint64_t senders) {
  return {.scalars = scalars, .ghost_scalars = ghosts, .residuals = residuals, .senders = senders};
}

TEST(CostModel, IsASumOverTheSlowestRank) {
  const KernelRates rates{.product_seconds = 1e-6,
                          .vector_seconds = 1e-7,
                          .step_seconds = 2e-6,
                          .number_seconds = 1e-9,
                          .iteration_overhead = 5e-6,
                          .step_overhead = 7e-6,
                          .exchange_overhead = 3e-5};
  const Network network{.latency_seconds = 1e-4, .seconds_per_byte = 1e-8};
  const Divided divided{.parts = {part(100, 1000, 50, 1), part(200, 900, 20, 2), part(0, 0, 0, 0)},
                        .chunks = 10};
  // The second rank: 900 µs of kernels, 20 µs of vectors, and 2 messages with 160 bytes, are more
  // than the first one's 1000 + 10 + 104.
  Time time = predict_iteration(divided, rates, network);
  EXPECT_NEAR(time[TimePart::kernels], 900e-6, 1e-12);
  EXPECT_NEAR(time[TimePart::vectors], 20e-6, 1e-12);
  EXPECT_NEAR(time[TimePart::ghosts], 2e-4 + 1.6e-6, 1e-12);
  // 30 numbers are added; two gathers have two messages each and bring two thirds of 240 bytes.
  EXPECT_NEAR(time[TimePart::sums], 30e-9 + 4e-4 + 1.6e-6, 1e-12);
  EXPECT_NEAR(time[TimePart::overhead], 5e-6 + 9e-5, 1e-12);
  EXPECT_NEAR(time.total(), 900e-6 + 20e-6 + 201.6e-6 + 401.63e-6 + 95e-6, 1e-12);

  const double iterations = predict_step(divided, rates, network, 12).total() -
                            predict_step(divided, rates, network, 2).total();
  EXPECT_NEAR(iterations, 10 * time.total(), 1e-9);
  // One rank exchanges nothing.
  const Divided one{.parts = {part(100, 1000, 0, 0)}, .chunks = 10};
  EXPECT_NEAR(predict_iteration(one, rates, network).total(), 1000e-6 + 10e-6 + 30e-9 + 5e-6,
              1e-12);
}

TEST(CostModel, RingsWaitForEveryRank) {
  const Network doubling{.latency_seconds = 1e-6};
  const Network ring{.latency_seconds = 1e-6, .allgather = Allgather::ring};
  struct Row {
    std::size_t ranks;
    double doubling, ring;  // messages of two gathers
  };
  for (const Row& row :
       {Row{2, 2, 2}, Row{3, 4, 4}, Row{8, 6, 14}, Row{9, 8, 16}, Row{1024, 20, 2046}}) {
    SCOPED_TRACE(row.ranks);
    const Divided divided{.parts = std::vector<PartSize>(row.ranks), .chunks = 1};
    EXPECT_NEAR(predict_iteration(divided, {}, doubling).total(), row.doubling * 1e-6, 1e-12);
    EXPECT_NEAR(predict_iteration(divided, {}, ring).total(), row.ring * 1e-6, 1e-12);
  }
}

TEST(CostModel, FindsWhereScalingEnds) {
  const auto point = [](int ranks, double kernels, double sums) {
    ScalingPoint out{.ranks = ranks};
    out.time[TimePart::kernels] = kernels;
    out.time[TimePart::sums] = sums;
    return out;
  };
  // Efficiency 1, 0.9, 0.8, 0.52, 0.32; the last is slower than the one before.
  const std::vector<ScalingPoint> strong = {point(1, 8, 0), point(2, 4, 0.44), point(4, 2, 0.5),
                                            point(8, 1, 0.92), point(16, 0.5, 1.5)};
  const ScalingEnd end = scaling_end(strong, false);
  EXPECT_EQ(end.fastest, 8);
  EXPECT_EQ(end.efficient, 8);
  EXPECT_EQ(end.limit, TimePart::sums);
  const std::vector<ScalingPoint> weak = {point(1, 8, 0), point(2, 9, 0), point(4, 12, 1)};
  EXPECT_EQ(scaling_end(weak, true).fastest, 4);
  EXPECT_EQ(scaling_end(weak, true).efficient, 4);
  EXPECT_EQ(scaling_end(weak, true).limit, TimePart::kernels);
}

// The exchanges that the model counts are those that a solve makes.
TEST(CostModel, CountsTheExchangesOfASolve) {
  for (const Whole& whole : {springs(30), arap(2), bundle(8, 120, 700)}) {
    const MeasuredTimes times = measure_times(self(), whole.model(), whole.x);
    EXPECT_EQ(times.iteration.ghosts, kIterationExchanges.ghosts);
    EXPECT_EQ(times.iteration.sums, kIterationExchanges.sums);
    EXPECT_EQ(times.iteration.numbers, kIterationExchanges.numbers);
    EXPECT_EQ(times.step.ghosts, kStepExchanges.ghosts);
    EXPECT_EQ(times.step.sums, kStepExchanges.sums);
    EXPECT_EQ(times.step.numbers, kStepExchanges.numbers);
    EXPECT_GT(times.iteration_seconds + times.step_seconds, 0);
  }
}

// One rank's rates explain one rank's time.
TEST(CostModel, RatesExplainTheMeasurementTheyComeFrom) {
  const Whole whole = springs(30);
  const MeasuredTimes times{.iteration_seconds = 1e-3, .step_seconds = 4e-3};
  const MeasuredTimes tiny{.iteration_seconds = 1e-5, .step_seconds = 1e-4};
  const KernelRates rates = rates_of(whole.model(), whole.chunks.size(), times, tiny);
  const Divided one = whole.divide(1);
  EXPECT_NEAR(predict_iteration(one, rates, {}).total(), 1e-3, 1e-9);
  EXPECT_NEAR(predict_step(one, rates, {}, 10).total(), 14e-3, 1e-8);
}

TEST(CheckScaling, PredictsCurvesForEachMachine) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "report.json";
  const std::string command = (program_dir() / "topograd").string() +
                              " check scaling springs --width 24 --ranks 8 --json " + file +
                              " >/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto report = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(report["check"], "scaling");
  EXPECT_EQ(report["ranks"], 1);
  const auto& row = report["problems"].at(0);
  EXPECT_EQ(row["unknowns"], 3 * 24 * 24);
  EXPECT_EQ(row["residuals"], 2 * 24 * 23 + 23 * 23 + 4);
  EXPECT_EQ(row["divisions"].size(), 4U);
  ASSERT_EQ(row["curves"].size(), 6U);
  for (const auto& curve : row["curves"]) {
    ASSERT_EQ(curve["points"].size(), 4U);
    EXPECT_EQ(curve["points"].at(3)["ranks"], 8);
    EXPECT_DOUBLE_EQ(curve["points"].at(0)["efficiency"], 1);
    EXPECT_LT(curve["points"].at(3)["efficiency"], 1);
  }
}

}  // namespace
}  // namespace topograd::distributed
