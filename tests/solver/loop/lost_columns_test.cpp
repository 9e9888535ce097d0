// Ends at which columns have vanished.
#include <gtest/gtest.h>

#include "../../../solver/step_control/lost_columns.hpp"

namespace topograd {
namespace {

TEST(LostColumns, AreNoneOfUnitsOrOrigins) {
  // ‖column‖, way, ‖r‖: the column has vanished if it changes r by less than 1e-12 along the way.
  const struct {
    double norm, moved, residuals;
    bool expected;
  } rows[] = {{0, 1e5, 1, true},     {0, 0, 1, false},        {1, 1, 1, false},
              {1e-20, 1e5, 1, true}, {1e-20, 1e10, 1, false}, {1e-100, 1e85, 1, true},
              {1, 0.9e-12, 1, true}, {1, 1.1e-12, 1, false},  {1e-3, 1e5, 1e20, true}};
  for (const auto& row : rows) {
    for (const double unit : {1.0, 1e9, 1e-9}) {
      for (const double size : {1.0, 1e6, 1e-6}) {
        SCOPED_TRACE(testing::Message()
                     << row.norm << " " << row.moved << " " << unit << " " << size);
        const double norm = row.norm * size / unit, r = row.residuals * size;
        EXPECT_EQ(LostColumns::may_be_lost(norm * norm, row.moved * unit, r * r / 2), row.expected);
      }
    }
  }
  EXPECT_TRUE(LostColumns::has_vanished(0, 0, 1));
  EXPECT_TRUE(LostColumns::has_vanished(1e-34, 1e-17, 1));
  EXPECT_FALSE(LostColumns::has_vanished(1, 0, 1));
  EXPECT_TRUE(LostColumns::is_lost(0, 1));
  EXPECT_TRUE(LostColumns::is_lost(1e-30, 1));
  EXPECT_FALSE(LostColumns::is_lost(1e-20, 1));
  EXPECT_FALSE(LostColumns::is_lost(0, 0));
}

TEST(LostColumns, TheBetterEndCounts) {
  const double share = 1e-6;
  const End flat = End::gradient, other = End::cost_change, none = End::none;
  const struct {
    const char* what;
    End first;
    double cost;
    End end;
    bool lost, counts;
    End verdict;
  } rows[] = {
      {"lower", flat, 0.5, other, false, true, other},
      {"lower, at a limit", flat, 0.5, End::iterations, false, true, End::iterations},
      {"lower, but no number", flat, 0.5, End::nonfinite, false, false, End::lost_columns},
      {"the same plateau, which shorter steps may avoid", flat, 1, other, true, true, other},
      {"the same within the tolerance", flat, 1 + 1e-7, other, true, true, other},
      {"another minimum", flat, 2, other, false, false, flat},
      {"another plateau", flat, 2, other, true, false, End::lost_columns},
      {"stuck", flat, 2, End::kink, false, false, End::lost_columns},
      {"a limit", flat, 2, End::iterations, false, false, End::iterations},
      {"a signal", flat, 2, End::interrupted, false, false, End::interrupted},
      {"stopped from outside", flat, 0.5, none, false, true, none},
      {"stopped from outside above", flat, 2, none, false, false, none},
      {"stuck before, the same now", End::lost_columns, 1, other, false, true, other},
      {"stuck before, above now", End::lost_columns, 2, other, false, false, End::lost_columns},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    for (const double unit : {1.0, 1e6}) {
      LostColumns columns;
      EXPECT_TRUE(columns.may_turn());
      columns.turn(unit, {row.first}, false);
      EXPECT_TRUE(columns.is_open());
      EXPECT_EQ(columns.settle(unit * row.cost, {row.end}, row.lost, share), row.counts);
      EXPECT_EQ(columns.verdict().end, row.verdict);
      EXPECT_FALSE(columns.is_open());
    }
  }
}

// A fourth plateau, each lower than the one before, is no minimum either.
TEST(LostColumns, TurnsEnd) {
  LostColumns columns;
  double cost = 1;
  for (int k = 0; k < 3; ++k) {
    ASSERT_TRUE(columns.may_turn());
    columns.turn(cost, {End::gradient}, false);
    EXPECT_TRUE(columns.settle(cost /= 2, {End::gradient}, true, 1e-6));
  }
  EXPECT_FALSE(columns.may_turn());
  EXPECT_EQ(columns.verdict().end, End::lost_columns);
  EXPECT_EQ(termination(columns.verdict().end), Termination::NO_CONVERGENCE);
}

// A plateau to which ever shorter steps lead back may be a flat minimum.
TEST(LostColumns, OnePlateauAsksForShorterSteps) {
  for (const bool at_start : {false, true}) {
    LostColumns columns;
    EXPECT_EQ(columns.shortness(), 0);
    for (int k = 0; k < 3; ++k) {
      ASSERT_TRUE(columns.may_turn());
      columns.turn(1, {End::gradient}, at_start);
      EXPECT_EQ(columns.shortness(), k + (at_start ? 1 : 0));
      EXPECT_EQ(columns.settle(1, {End::cost_change}, true, 1e-6), k < 2);
    }
    EXPECT_FALSE(columns.may_turn());
    EXPECT_EQ(termination(columns.verdict().end), Termination::CONVERGENCE);
  }
}

}  // namespace
}  // namespace topograd
