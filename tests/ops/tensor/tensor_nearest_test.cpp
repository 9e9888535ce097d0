// Nearest neighbours on the CPU: results, reproducible graphs, errors.
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/tensor/search/nearest.hpp"

#include "../../support/paths.hpp"

#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

TEST(TensorNearest, OnTheCpu) { check_nearest(Device::cpu()); }
TEST(TensorNearest, Runs) { check_nearest_runs(Device::cpu()); }

TEST(TensorNearest, OfOneThreadIsTheSame) {
  const Tensor targets = sample({3000, 12}, 1), queries = sample({40, 12}, 2);
  const auto search = [&](std::uint64_t seed) {
    const NearestIndex index(targets, {.search_width = 10, .seed = seed, .deterministic = true});
    return held(index.search(queries, 10).indices);
  };
  EXPECT_EQ(search(1), search(1));
}

struct Answer {
  std::vector<double> distances, indices;
  bool operator==(const Answer&) const = default;
};
Answer answer(const NearestIndex& index, const Tensor& queries, std::int64_t k = 10) {
  const Nearest found = index.search(queries, k);
  return {held(found.distances), held(found.indices)};
}

TEST(TensorNearest, AddedTargetsAreFoundAsIfTheyHadBeenThere) {
  for (const Distance distance : {Distance::euclidean, Distance::cosine}) {
    for (const bool exact : {true, false}) {
      const NearestOptions options{
          .distance = distance, .exact = exact, .search_width = 20, .deterministic = true};
      // A device's distances round otherwise, so all stages stay on the CPU.
      const Tensor all = sample({900, 6}, 1).to(Device::cpu()),
                   queries = sample({30, 6}, 2).to(Device::cpu());
      const NearestIndex whole(all, options);
      NearestIndex grown(all.slice(0, 0, 500), options);
      const NearestIndex copy = grown;
      grown.search(queries, 3);
      grown.add(all.slice(0, 500, 501).reshape({6}));
      grown.add(all.slice(0, 501, 900));
      grown.add(sample({0, 6}));
      EXPECT_EQ(grown.size(), 900);
      EXPECT_EQ(copy.size(), 900);
      EXPECT_EQ(answer(grown, queries), answer(whole, queries));
      EXPECT_EQ(answer(copy, queries), answer(whole, queries));
      EXPECT_EQ(message([&] {
                  grown.add(sample({2, 5}));
                }),
                "nearest: expected targets (6) or (m, 6) to add, got (2, 5)");
      EXPECT_EQ(message([&] {
                  grown.add(sample({2, 6}, 1, Type::f64));
                }),
                "nearest: expected tensors of one type, got f64 and f32");
      EXPECT_EQ(answer(grown, queries), answer(whole, queries)) << "errors change nothing";
    }
  }
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(TensorNearest, SavedIndicesAnswerAlike) {
  const topograd::test::TemporaryDir folder;
  const std::string path = folder.path().string() + "/index";
  for (const Type type : {Type::f32, Type::f64}) {
    for (const bool exact : {true, false}) {
      const Tensor queries = sample({30, 6}, 2, type);
      NearestIndex index(sample({400, 6}, 1, type), {.distance = Distance::cosine,
                                                     .exact = exact,
                                                     .links = 8,
                                                     .search_width = 15,
                                                     .seed = 5});
      index.save(path);
      NearestIndex loaded = NearestIndex::load(path);
      EXPECT_EQ(loaded.size(), 400);
      EXPECT_EQ(loaded.is_approximate(), index.is_approximate());
      EXPECT_EQ(loaded.options().links, 8);
      EXPECT_EQ(answer(loaded, queries), answer(index, queries));
      const std::string bytes = file_text(path);
      loaded.save(path);
      EXPECT_EQ(file_text(path), bytes);
      loaded.add(sample({50, 6}, 3, type));
      EXPECT_EQ(loaded.size(), 450);
      answer(loaded, queries);
    }
  }
}

TEST(TensorNearest, DamagedFilesAreRefused) {
  const topograd::test::TemporaryDir folder;
  const std::string path = folder.path().string() + "/index";
  NearestIndex(sample({60, 4}), {.links = 4}).save(path);
  const std::string bytes = file_text(path);
  const auto code_of = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    try {
      NearestIndex::load(path);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(code_of(bytes), ErrorCode::Internal) << "an undamaged file is read";
  EXPECT_EQ(code_of(""), ErrorCode::Parse);
  EXPECT_EQ(code_of("something else"), ErrorCode::Parse);
  for (std::size_t k = 0; k < bytes.size(); k += 1 + bytes.size() / 200) {
    std::string damaged = bytes;
    damaged[k] = static_cast<char>(damaged[k] ^ 0x10);
    EXPECT_EQ(code_of(damaged), ErrorCode::Parse) << k;
    EXPECT_EQ(code_of(bytes.substr(0, k)), ErrorCode::Parse) << k;
  }
  EXPECT_EQ(message([&] { NearestIndex::load(folder.path().string() + "/none"); }),
            folder.path().string() + "/none: the index cannot be read");
  EXPECT_NE(message([&] {
              NearestIndex(sample({7, 4})).save(folder.path().string() + "/no/index");
            }).find("the index cannot be written"),
            std::string::npos);
}

TEST(TensorNearest, StatisticsSayWhereBothStagesRan) {
  const NearestIndex index(sample({300, 4}), {.search_width = 25});
  index.search(sample({12, 4}), 5);
  const NearestStatistics& statistics = index.statistics();
  EXPECT_EQ(statistics.queries, 12);
  EXPECT_EQ(statistics.candidates, index.is_approximate() ? 25 : 300);
  EXPECT_EQ(statistics.graph.device, index.is_approximate() ? "cpu" : "");
  if (index.is_approximate()) {
    EXPECT_GT(statistics.graph.times.kernel, 0);
  }
  EXPECT_EQ(statistics.distances.device, "cpu");
}

TEST(TensorNearest, Refuses) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const NearestIndex index(sample({7, 4}));
  const Tensor holed = tensor({1, 2, 3, kInfinity, 5, 6}, {3, 2});
  struct Row {
    std::function<void()> call;
    std::string expected;
  };
  std::vector<Row> rows = {{[] { NearestIndex{sample({7})}; },
                            "nearest: expected targets (n, d), n > 0 and d > 0, got (7)"},
                           {[] {
                              NearestIndex{sample({0, 4})};
                            },
                            "nearest: expected targets (n, d), n > 0 and d > 0, got (0, 4)"},
                           {[] {
                              NearestIndex(sample({7, 4}), {.links = 1});
                            },
                            "nearest: expected 2 <= links <= 256, got 1"},
                           {[] {
                              NearestIndex(sample({7, 4}), {.build_width = 0});
                            },
                            "nearest: expected build_width > 0, got 0"},
                           {[] {
                              NearestIndex(sample({7, 4}), {.search_width = -1});
                            },
                            "nearest: expected search_width > 0, got -1"},
                           {[&] {
                              index.search(sample({2, 3}), 1);
                            },
                            "nearest: expected queries (4) or (q, 4), got (2, 3)"},
                           {[&] {
                              index.search(sample({2, 4}), 8);
                            },
                            "nearest: expected 0 < k <= 7, got 8"},
                           {[&] {
                              index.search(sample({2, 4}, 1, Type::f64), 2);
                            },
                            "nearest: expected tensors of one type, got f64 and f32"}};
  if (index.is_approximate()) {
    rows.push_back({[&] { NearestIndex{holed}; },
                    "nearest: expected finite numbers (of cosines, also rows of a length > 0), got "
                    "inf in target 1"});
    rows.push_back({[&] {
                      index.search(tensor({1, 2, 3, kInfinity}, {4}), 2);
                    },
                    "nearest: expected finite numbers (of cosines, also rows of a length > 0), got "
                    "inf in query 0"});
  }
  for (const Row& row : rows) EXPECT_EQ(message(row.call), row.expected);
  // All are compared; NaN comes last.
  const Nearest found = NearestIndex(holed, {.exact = true}).search(tensor({5, 6}, {2}), 3);
  EXPECT_EQ(found.indices.values(), (std::vector<double>{2, 0, 1}));
  EXPECT_EQ(found.distances.values()[2], kInfinity);
}

}  // namespace
}  // namespace topograd::ops::test
