// Options of the hybrid executor: JSON, environment, ranges; errors name the field.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <string>

#include "../../../ir/error.hpp"
#include "../../../runtime/hybrid/routing/options.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;

TEST(HybridOptions, DefaultsAreThePublishedOnes) {
  const HybridOptions options;
  EXPECT_EQ(options.min_batch, 64u);
  EXPECT_EQ(options.min_success_rate, 0.95);
  EXPECT_EQ(options.success_window, 100u);
  EXPECT_EQ(options.success_samples, 20u);
  EXPECT_EQ(options.speed_up_unsure, 1.5);
  EXPECT_EQ(options.speed_up_sure, 1.1);
  EXPECT_EQ(options.margin, 1.2);
  EXPECT_EQ(options.step, 1.5);
  EXPECT_EQ(options.explore_every, 64u);
}

TEST(HybridOptions, JsonGoesRound) {
  const std::string text =
      R"({"min_batch": 7, "min_batch_of": {"map": 9, "scan": 11}, "force": "device",
          "telemetry": false, "explore_share": 0.125, "state": "/x y"})";
  const HybridOptions options = parse_hybrid_options(text);
  EXPECT_EQ(options.min_batch, 7u);
  EXPECT_EQ(minimum_batch(options, "map"), 9u);
  EXPECT_EQ(minimum_batch(options, "sort"), 7u);
  EXPECT_EQ(options.force, Force::device);
  EXPECT_FALSE(options.telemetry);
  EXPECT_EQ(options.explore_share, 0.125);
  EXPECT_EQ(options.state, "/x y");
  EXPECT_EQ(options.step, 1.5) << "left out";
  EXPECT_EQ(to_json(parse_hybrid_options(to_json(options))), to_json(options));
}

struct Refusal {
  const char* json;
  ErrorCode code;
  const char* words;  ///< in the message
};

TEST(HybridOptions, RefusesByName) {
  const Refusal rows[] = {
      {"{", ErrorCode::Parse, "line 1"},
      {"[]", ErrorCode::InvalidArgument, "a JSON object"},
      {R"({"min_bach": 1})", ErrorCode::InvalidArgument, "\"min_bach\""},
      {R"({"min_batch": -1})", ErrorCode::InvalidArgument, "min_batch: expected a whole number"},
      {R"({"min_success_rate": 1.5})", ErrorCode::InvalidArgument, "[0.0, 1.0], got 1.5"},
      {R"({"margin": 0.5})", ErrorCode::InvalidArgument, "margin"},
      {R"({"force": "gpu"})", ErrorCode::InvalidArgument,
       "force: expected one of none, cpu, device, got"},
      {R"({"telemetry": 1})", ErrorCode::InvalidArgument, "telemetry: expected true or false"},
      {R"({"min_batch_of": {"map": "x"}})", ErrorCode::InvalidArgument, "min_batch_of.map"},
      {R"({"drift_samples": 65})", ErrorCode::InvalidArgument, "drift_samples"},
  };
  for (const Refusal& row : rows) {
    SCOPED_TRACE(row.json);
    try {
      parse_hybrid_options(row.json);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code);
      EXPECT_NE(std::string(error.what()).find(row.words), std::string::npos) << error.what();
    }
  }
}

struct Variable {
  const char* name;
  const char* text;
  std::function<bool(const HybridOptions&)> holds;
};

TEST(HybridOptions, NamesTheFileAndWhatIsNoNumber) {
  const std::string path = testing::TempDir() + "hybrid_options.json";
  std::ofstream(path) << R"({"min_bach": 1})";
  setenv("TOPOGRAD_HYBRID", path.c_str(), 1);
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(message([] { environment_hybrid_options(); }).find("TOPOGRAD_HYBRID: " + path), 0u);
  unsetenv("TOPOGRAD_HYBRID");
  HybridOptions options;
  options.margin = std::nan("");
  EXPECT_EQ(message([&] { check(options); }),
            "hybrid options: margin: expected a value in [1.0, 1000000.0], got nan");
}

TEST(HybridOptions, MisspeltVariablesAreErrors) {
  setenv("TOPOGRAD_HYBRID_MIN_BACH", "1", 1);
  try {
    environment_hybrid_options();
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_STREQ(error.what(),
                 "TOPOGRAD_HYBRID_MIN_BACH: expected a name from docs/hybrid.md after "
                 "TOPOGRAD_HYBRID_, got \"MIN_BACH\"");
  }
  setenv("TOPOGRAD_HYBRID_MIN_BACH", "", 1);
  environment_hybrid_options();
  unsetenv("TOPOGRAD_HYBRID_MIN_BACH");
}

TEST(HybridOptions, EnvironmentSetsEachKind) {
  const Variable rows[] = {
      {"TOPOGRAD_HYBRID_MIN_BATCH", "128", [](auto& o) { return o.min_batch == 128; }},
      {"TOPOGRAD_HYBRID_STEP", "2.5", [](auto& o) { return o.step == 2.5; }},
      {"TOPOGRAD_HYBRID_FORCE", "cpu", [](auto& o) { return o.force == Force::cpu; }},
      {"TOPOGRAD_HYBRID_ADMIT_SOFTWARE", "1", [](auto& o) { return o.admit_software; }},
      {"TOPOGRAD_HYBRID_STATE", "a.state", [](auto& o) { return o.state == "a.state"; }},
      {"TOPOGRAD_HYBRID_MIN_BATCH_OF", "map=3,scan=5",
       [](auto& o) { return minimum_batch(o, "scan") == 5 && minimum_batch(o, "map") == 3; }},
  };
  for (const Variable& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_FALSE(row.holds(environment_hybrid_options()));
    setenv(row.name, row.text, 1);
    EXPECT_TRUE(row.holds(environment_hybrid_options()));
    setenv(row.name, "?=?", 1);
    if (std::string(row.name).ends_with("STATE")) {
      unsetenv(row.name);
      continue;
    }
    try {
      environment_hybrid_options();
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_EQ(std::string(error.what()).find(row.name), 0u) << error.what();
    }
    unsetenv(row.name);
  }
}

}  // namespace
}  // namespace topograd::test
