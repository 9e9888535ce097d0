// Solves of problems whose residuals the ranks have divided among them.
#include "../../ir/error.hpp"
#include "../../solver/solve.hpp"
#include "../support/paths.hpp"

#include "cases.hpp"
#include "launch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

class ShareCase : public testing::TestWithParam<std::string> {};

TEST_P(ShareCase, HasTheBitsOfTheOrdinarySolve) {
  const std::string expected = ordinary_share_answer(GetParam());
  for (int ranks = 1; ranks <= most_ranks(); ++ranks) {
    const RankRun run = run_ranks(ranks, GetParam(), {"share"});
    ASSERT_EQ(run.status, 0) << run.err;
    ASSERT_FALSE(run.answer.empty());
    EXPECT_TRUE(run.answer == expected) << ranks << " ranks; expected\n"
                                        << expected.substr(0, 400) << "got\n"
                                        << run.answer.substr(0, 400);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShareCase, testing::ValuesIn(share_case_names()),
                         [](const auto& name) { return name.param; });

/// Without the seconds.
std::string figures(const std::string& report) {
  static const std::regex kSeconds(" +[0-9.]+ s\\b");
  return std::regex_replace(report, kSeconds, "");
}

// Each rank ends with the same part, however the residuals came to it.
TEST(Shares, AreDividedLikeTheWholeProblem) {
  const RankRun whole = run_ranks(most_ranks(), "springs", {"report"});
  const RankRun shares = run_ranks(most_ranks(), "springs", {"share", "report"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  ASSERT_EQ(shares.status, 0) << shares.err;
  EXPECT_NE(whole.answer.find("imbalance"), std::string::npos);
  EXPECT_EQ(figures(shares.answer), figures(whole.answer));
}

TEST(Shares, ACheckpointContinuesOnAnotherNumberOfRanks) {
  for (const std::string name : {"springs", "bounds"}) {
    SCOPED_TRACE(name);
    const TemporaryDir folder;
    const std::string file = folder.path() / "state";
    const RankRun first = run_ranks(2, name, {"share", "checkpoint=" + file, "steps=3"});
    ASSERT_EQ(first.status, 0) << first.err;
    const RankRun rest = run_ranks(1, name, {"share", "resume=" + file});
    ASSERT_EQ(rest.status, 0) << rest.err;
    EXPECT_TRUE(rest.answer == ordinary_share_answer(name));
  }
}

// A solve with all residuals on one process continues where shares ended, and the other way round.
TEST(Shares, ACheckpointIsThatOfTheWholeProblem) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "state";
  const RankRun first = run_ranks(2, "springs", {"share", "checkpoint=" + file, "steps=3"});
  ASSERT_EQ(first.status, 0) << first.err;
  const RankRun rest = run_ranks(2, "springs", {"resume=" + file});
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_TRUE(rest.answer == ordinary_share_answer("springs"));
}

struct Refused {
  std::string test, name;
  std::vector<std::string> words;
  std::string message;
};

class ShareErrors : public testing::TestWithParam<Refused> {};

TEST_P(ShareErrors, AreToldOnce) {
  std::vector<std::string> words = GetParam().words;
  words.insert(words.begin(), "share");
  const RankRun run = run_ranks(2, GetParam().name, words);
  EXPECT_NE(run.status, 0);
  EXPECT_NE(run.err.find(GetParam().message), std::string::npos) << run.err;
  std::size_t told = 0;
  for (std::size_t at = run.err.find("topograd: rank"); at != std::string::npos;
       at = run.err.find("topograd: rank", at + 1))
    ++told;
  EXPECT_EQ(told, 1U) << run.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, ShareErrors,
    testing::Values(
        Refused{"start", "springs", {"data"}, "expected the same start on all ranks"},
        Refused{"array",
                "springs",
                {"width", "steps=6"},
                "number of unknowns and constants on all ranks"},
        Refused{"precision", "springs", {"precision"}, "expected the same precision on all ranks"},
        Refused{"mode",
                "springs",
                {"mode"},
                "expected the same residuals on all ranks, got a share on each rank on rank 0 and "
                "all on every rank on rank 1"},
        Refused{"solver",
                "springs",
                {"solver=cholesky"},
                "expected linear solver pcg, got cholesky; add all residuals on every rank"}),
    [](const auto& of) { return of.param.test; });

// The message is that of the ordinary solve, with the residual's number among those of all ranks.
TEST(Shares, ABadResidualIsNamed) {
  std::string expected;
  try {
    Case of = make_case("not_finite", Share{});
    of.options.backend = Backend::cpu;
    solve(*of.problem, of.options);
  } catch (const Error& error) {
    expected = error.what();
  }
  EXPECT_NE(expected.find("residual \"spring\" #300"), std::string::npos) << expected;
  const RankRun run = run_ranks(2, "not_finite", {"share"});
  EXPECT_NE(run.status, 0);
  EXPECT_NE(run.err.find(expected), std::string::npos) << run.err;
}

}  // namespace
}  // namespace topograd::test
