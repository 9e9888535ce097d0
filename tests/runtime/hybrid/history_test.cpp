// Robust statistics of times by size, and the first guess for kernels that never ran.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "../../../runtime/hybrid/routing/first_guess.hpp"
#include "../../../runtime/hybrid/routing/history.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;
using Verdict = History::Verdict;

const HybridOptions kOptions;

History filled(std::uint64_t size, double us, int times) {
  History history;
  for (int k = 0; k < times; ++k) history.record(size, us, kOptions);
  return history;
}

TEST(History, FirstSampleCountsOnlyAlone) {
  History history;
  EXPECT_FALSE(history.at(1000));
  EXPECT_EQ(history.record(1000, 5000, kOptions).verdict, Verdict::first);
  EXPECT_FALSE(history.at(1000).known);
  EXPECT_NEAR(history.at(1000).us, 5000, 1e-6);
  EXPECT_EQ(history.record(1000, 20, kOptions).verdict, Verdict::normal);
  EXPECT_TRUE(history.at(1000).known);
  EXPECT_NEAR(history.at(1000).us, 20, 1e-9);
}

TEST(History, MedianIgnoresOneOutlier) {
  History history = filled(1000, 100, 8);
  EXPECT_EQ(history.record(1000, 900, kOptions).verdict, Verdict::outlier);
  EXPECT_NEAR(history.at(1000).us, 100, 1e-9);
  history.record(1000, 100, kOptions);
  EXPECT_EQ(history.record(1000, 900, kOptions).verdict, Verdict::outlier) << "not in a row";
}

TEST(History, OutliersThatStayAreDrift) {
  for (const double changed : {900.0, 10.0}) {
    History history = filled(1000, 100, 40);
    EXPECT_EQ(history.record(1000, changed, kOptions).verdict, Verdict::outlier);
    EXPECT_EQ(history.record(1000, changed, kOptions).verdict, Verdict::outlier);
    EXPECT_EQ(history.record(1000, changed, kOptions).verdict, Verdict::drift);
    EXPECT_NEAR(history.at(1000).us, changed, 1e-6);
    EXPECT_EQ(history.drifts(), 1u);
  }
}

TEST(History, ChangeSeenInSeveralSizesMovesAllThatTakeNotMuchLonger) {
  History history;
  for (const std::uint64_t size : {1000u, 10000u, 20000u, 1000000u})
    for (int k = 0; k < 10; ++k)
      history.record(size, 10 + 0.001 * static_cast<double>(size), kOptions);
  for (int k = 0; k < 5; ++k) {
    const std::uint64_t size = k % 2 == 0 ? 1000 : 10000;
    history.record(size, 4 * (10 + 0.001 * static_cast<double>(size)), kOptions);
  }
  EXPECT_NEAR(history.at(20000).us, 4 * 30, 1) << "never measured since";
  EXPECT_NEAR(history.at(1000000).us, 1010, 1) << "what makes 20 µs slower says nothing of 1,010";
}

TEST(History, OverheadAndRateAreFoundBetweenAndBeyondSizes) {
  const auto time = [](double size) { return 20 + 0.003 * size; };
  History history;
  for (const std::uint64_t size : {100u, 10000u, 1000000u})
    for (int k = 0; k < 4; ++k) history.record(size, time(static_cast<double>(size)), kOptions);
  for (const std::uint64_t size : {10u, 777u, 5000u, 123456u, 10000000u, 100000000u}) {
    SCOPED_TRACE(size);
    EXPECT_TRUE(history.at(size).known);
    EXPECT_NEAR(history.at(size).us / time(static_cast<double>(size)), 1, 1e-6);
  }
  EXPECT_GT(history.at(10000).confidence, history.at(20000).confidence);
  EXPECT_FALSE(history.at(std::uint64_t{1} << 40).known) << "too far to say anything";
}

TEST(History, NeighboursOfNearlyOneSizeGiveNoSlope) {
  // 4,000,000 and 4,400,000 are in different classes; their times differ by noise.
  History history;
  for (int k = 0; k < 8; ++k) {
    history.record(1'000'000, 1000, kOptions);
    history.record(4'000'000, 2500, kOptions);
    history.record(4'400'000, 5000, kOptions);
  }
  // Between 1,000,000 and 4,400,000 the time grows like size^1.09.
  EXPECT_NEAR(history.at(16'000'000).us, 5000 * std::pow(16 / 4.4, std::log(5) / std::log(4.4)), 1);
  History two;
  for (int k = 0; k < 8; ++k) {
    two.record(4'000'000, 2500, kOptions);
    two.record(4'400'000, 5000, kOptions);
  }
  EXPECT_GT(two.at(16'000'000).us, 5000);
  EXPECT_LT(two.at(16'000'000).us, 4 * 5000);
  EXPECT_GT(two.at(500'000).us, 500);
  EXPECT_LT(two.at(500'000).us, 2500);
}

TEST(History, ConfidenceComesFromCountAndSpread) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.5, 2.0);
  History noisy;
  for (int k = 0; k < 30; ++k) noisy.record(1000, 100 * noise(random), kOptions);
  EXPECT_GT(filled(1000, 100, 30).at(1000).confidence, 0.9);
  EXPECT_LT(filled(1000, 100, 3).at(1000).confidence, 0.6);
  EXPECT_LT(noisy.at(1000).confidence, 0.6);
}

TEST(History, PriorsGiveWayToMeasurements) {
  History here;
  here.merge(filled(1000, 400, 30).rows());
  EXPECT_TRUE(here.at(1000).known);
  EXPECT_LT(here.at(1000).confidence, 0.5);
  EXPECT_NEAR(here.at(1000).us, 400, 1e-6);
  for (int k = 0; k < 4; ++k) here.record(1000, 100, kOptions);
  EXPECT_NEAR(here.at(1000).us, 100, 1e-6);
}

/// Rows of a fictional machine whose kernels differ in work and traffic.
std::vector<TrainingRow> rows(int kernels) {
  std::vector<TrainingRow> out;
  for (int k = 0; k < kernels; ++k) {
    Features features{.operations = std::pow(3.0, k), .bytes = 8.0 * (1 + k % 3)};
    for (double size = 100; size < 2e7; size *= 3) {
      const double us = 20 + size * (features.operations * 1e-5 + features.bytes * 1e-6);
      out.push_back({.kernel = {1, static_cast<std::uint64_t>(k)},
                     .operation = "map",
                     .size = static_cast<std::uint64_t>(size),
                     .features = features,
                     .us = us});
    }
  }
  return out;
}

TEST(FirstGuess, PredictsKernelsThatWereLeftOut) {
  const double error = held_out_error(rows(8));
  EXPECT_GT(error, 1);
  EXPECT_LT(error, 2.5) << "wrong by a factor of two and more";
  EXPECT_EQ(held_out_error(rows(3)), 0) << "too few to leave one out";
}

TEST(FirstGuess, SaysNothingBeforeItHasSeenSeveralKernels) {
  FirstGuess guess;
  EXPECT_FALSE(guess.at("map", 1000, {}));
  for (const TrainingRow& row : rows(2)) guess.add(row);
  EXPECT_FALSE(guess.at("map", 1000, {}));
  for (const TrainingRow& row : rows(6)) guess.add(row);
  EXPECT_TRUE(guess.at("map", 1000, {}));
  EXPECT_LE(guess.at("map", 1000, {}).confidence, 0.5);
}

/// Two families, one of which takes a hundred times longer for the same work per item.
std::vector<TrainingRow> families(int kernels) {
  std::vector<TrainingRow> out = rows(kernels);
  for (TrainingRow& row : out) {
    row.features.family = row.kernel.low % 2;
    if (row.features.family == 1) row.us *= 100;
  }
  return out;
}

TEST(FirstGuess, KernelsOfOneFamilyAreAlike) {
  const double error = held_out_error(families(10));
  EXPECT_GT(error, 1);
  EXPECT_LT(error, 3);
  std::vector<TrainingRow> unnamed = families(10);
  for (TrainingRow& row : unnamed) row.features.family = 0;
  EXPECT_GT(held_out_error(unnamed), 4) << "of the two at once";
}

TEST(FirstGuess, WhatIsTakenBackIsForgotten) {
  FirstGuess guess, plain;
  std::vector<TrainingRow> wrong = rows(5);
  for (TrainingRow& row : wrong) {
    row.kernel.high = 2;
    row.features.family = 3;
    row.us *= 1000;
    guess.add(row);
  }
  for (const TrainingRow& row : rows(5)) {
    guess.add(row);
    plain.add(row);
  }
  for (const TrainingRow& row : wrong) guess.remove(row);
  for (const TrainingRow& row : rows(5)) {  // both are fitted again
    for (FirstGuess* one : {&guess, &plain}) {
      one->remove(row);
      one->add(row);
    }
  }
  const Features features{.operations = 10};
  EXPECT_NEAR(guess.at("map", 5000, features).us / plain.at("map", 5000, features).us, 1, 0.05);
}

}  // namespace
}  // namespace topograd::test
