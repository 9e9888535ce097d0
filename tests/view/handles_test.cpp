// Handles: who belongs to them, where they pull, what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../../ir/error.hpp"
#include "../../view/live/subject.hpp"

namespace topograd::test {
namespace {

using view::Handles;
using view::Point;

/// Eleven points on the x axis, at 0, 1, .. 10.
std::vector<double> row() {
  std::vector<double> out;
  for (int k = 0; k <= 10; ++k) out.insert(out.end(), {static_cast<double>(k), 0.0, 0.0});
  return out;
}

std::vector<int> pulled(const Handles& handles) {
  std::vector<int> out;
  for (std::size_t v = 0; v < handles.switches().size(); ++v)
    if (handles.switches()[v] != 0) out.push_back(static_cast<int>(v));
  return out;
}

TEST(ViewHandles, TakeWhatIsNearAndFree) {
  const std::vector<double> rest = row();
  Handles handles(rest);
  handles.grab(5, 3, 1.5, rest);
  EXPECT_EQ(pulled(handles), (std::vector<int>{2, 3, 4}));
  handles.grab(6, 5, 1.5, rest);
  EXPECT_EQ(pulled(handles), (std::vector<int>{2, 3, 4, 5, 6}));
  EXPECT_EQ(handles.all().at(6).vertices, (std::vector<std::uint32_t>{5, 6}));
  handles.release(5);
  EXPECT_EQ(pulled(handles), (std::vector<int>{5, 6}));
}

TEST(ViewHandles, MoveAsAWholeFromWhereTheyAre) {
  const std::vector<double> rest = row();
  std::vector<double> present = rest;
  present[3 * 3 + 1] = 0.5;  // vertex 3 has moved
  Handles handles(rest);
  handles.grab(1, 3, 1, present);
  handles.drag(1, {10, 0.5, 2});  // by (7, 0, 2)
  const auto target = [&](std::size_t v) {
    return Point{handles.targets()[3 * v], handles.targets()[3 * v + 1],
                 handles.targets()[3 * v + 2]};
  };
  EXPECT_EQ(target(3), (Point{10, 0.5, 2}));
  EXPECT_EQ(target(2), (Point{9, 0, 2}));
  EXPECT_EQ(target(4), (Point{11, 0, 2}));
}

TEST(ViewHandles, UndoAndReset) {
  const std::vector<double> rest = row();
  Handles handles(rest, {{.anchor = 0, .vertices = {0, 1}, .targets = {{0, 0, 0}, {1, 0, 0}}}});
  handles.remember();
  handles.drag(1, {0, 4, 0});
  handles.remember();
  handles.grab(2, 9, 0, rest);
  EXPECT_EQ(handles.undo_depth(), 2u);
  EXPECT_TRUE(handles.undo());
  EXPECT_EQ(pulled(handles), (std::vector<int>{0, 1}));
  EXPECT_EQ(handles.targets()[4], 4);
  EXPECT_TRUE(handles.undo());
  EXPECT_EQ(handles.targets()[4], 0);
  EXPECT_FALSE(handles.undo());
  handles.release(1);
  handles.reset();
  EXPECT_EQ(pulled(handles), (std::vector<int>{0, 1}));
  EXPECT_TRUE(handles.undo());
  EXPECT_TRUE(pulled(handles).empty());
  for (int k = 0; k < 1000; ++k) handles.remember();
  EXPECT_EQ(handles.undo_depth(), Handles::kMostUndo);
}

TEST(ViewHandles, MistakesChangeNothing) {
  const std::vector<double> rest = row();
  Handles handles(rest);
  handles.grab(1, 3, 0, rest);
  const std::uint64_t version = handles.version();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THROW(handles.grab(2, 11, 0, rest), Error);
  EXPECT_THROW(handles.grab(2, 3, 0, rest), Error);
  EXPECT_THROW(handles.grab(2, 4, -1, rest), Error);
  EXPECT_THROW(handles.grab(2, 4, kInfinity, rest), Error);
  EXPECT_THROW(handles.grab(2, 4, std::nan(""), rest), Error);
  EXPECT_THROW(handles.drag(2, {0, 0, 0}), Error);
  EXPECT_THROW(handles.drag(1, {0, std::nan(""), 0}), Error);
  EXPECT_THROW(handles.drag(1, {0, 1e9, 0}), Error);
  EXPECT_THROW(handles.release(2), Error);
  EXPECT_EQ(handles.version(), version);
  EXPECT_EQ(pulled(handles), std::vector<int>{3});
  EXPECT_EQ(handles.targets()[9], 3);
}

}  // namespace
}  // namespace topograd::test
