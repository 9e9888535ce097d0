// Messages of pages, well-formed and not, and scripts.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <variant>

#include "../../ir/error.hpp"
#include "../../tools/view/film/film.hpp"
#include "../../view/protocol.hpp"

namespace topograd::test {
namespace {

using view::Command;
using view::parse_message;

template <class T>
T read(const std::string& text) {
  return std::get<T>(*parse_message(text).command);
}

TEST(ViewProtocol, ReadsCommands) {
  const auto grab = read<view::Grab>(R"({"do":"grab","handle":3,"vertex":17,"radius":0.5})");
  EXPECT_EQ(grab.handle, 3u);
  EXPECT_EQ(grab.vertex, 17u);
  EXPECT_EQ(grab.radius, 0.5);
  const auto drag = read<view::Drag>(
      R"({"do":"drag","handle":3,"position":[1,2.5,-3],"serial":9,"begins":true})");
  EXPECT_EQ(drag.position, (view::Point{1, 2.5, -3}));
  EXPECT_EQ(drag.serial, 9u);
  EXPECT_TRUE(drag.begins);
  EXPECT_EQ(read<view::Release>(R"({"do":"release","handle":4})").handle, 4u);
  EXPECT_EQ(read<view::Weigh>(R"({"do":"weigh","name":"w","value":2})").value, 2);
  EXPECT_EQ(read<view::Color>(R"({"do":"color","by":"gradient"})").coloring,
            view::Coloring::gradient);
  EXPECT_EQ(read<view::Choose>(R"({"do":"choose","backend":"cpu"})").backend, "cpu");
  EXPECT_FALSE(read<view::Pause>(R"({"do":"pause","paused":false})").paused);
  read<view::Step>(R"({"do":"step"})");
  read<view::Undo>(R"({"do":"undo"})");
  read<view::Reset>(R"({"do":"reset"})");
  EXPECT_EQ(parse_message(R"({"do":"drawn","frame":7})").frame, 7u);
  EXPECT_EQ(parse_message(R"({"do":"claim"})").kind, view::Received::Kind::claim);
}

TEST(ViewProtocol, RefusesOthers) {
  for (const char* text : {"",
                           "null",
                           "7",
                           "[]",
                           "{",
                           R"({"do":7})",
                           R"({"do":"sudo"})",
                           R"({"grab":1})",
                           R"({"do":"grab","handle":-1,"vertex":0})",
                           R"({"do":"grab","handle":1.5,"vertex":0})",
                           R"({"do":"grab","handle":4294967296,"vertex":0})",
                           R"({"do":"grab","handle":1})",
                           R"({"do":"grab","handle":1,"vertex":0,"radius":"1"})",
                           R"({"do":"drag","handle":1,"position":[1,2]})",
                           R"({"do":"drag","handle":1,"position":[1,2,1e999]})",
                           R"({"do":"drag","handle":1,"position":[1,2,null]})",
                           R"({"do":"drag","handle":1,"position":{"x":1}})",
                           R"({"do":"weigh","name":"w","value":"2"})",
                           R"({"do":"color","by":"red"})",
                           R"({"do":"pause","paused":1})",
                           R"({"do":"drawn","frame":"1"})"})
    EXPECT_THROW(parse_message(text), Error) << text;
  EXPECT_THROW(parse_message(std::string(60000, '[')), Error);
  EXPECT_THROW(parse_message("{\"a\":" + std::string(60000, '[')), Error);
}

TEST(ViewProtocol, RandomTextIsRefusedOrRead) {
  std::mt19937 random(3);
  const std::string letters = R"({}[]":,0123456789.eE-+ truefalsnodgabhcipvx\u)";
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = R"({"do":"drag","handle":1,"position":[1,2,3]})";
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      text[random() % text.size()] = letters[random() % letters.size()];
    try {
      parse_message(text);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

TEST(ViewScript, ReadsDragsAndPlaysThem) {
  const view::Script script = view::parse_script(
      R"({"seconds": 2, "frames_per_second": 10, "solves_per_frame": 3, "drags": [
          {"handle": 2, "from": 0, "to": 2, "path": [[0, 0, 0], [1, 0, 0], [1, 4, 0]]},
          {"vertex": 7, "radius": 0.5, "from": 1, "to": 1, "path": [[0, 0, 0], [0, 0, 1]]}]})",
      "drag.json");
  EXPECT_EQ(script.seconds, 2);
  EXPECT_EQ(script.solves_per_frame, 3);
  ASSERT_EQ(script.drags.size(), 2u);
  EXPECT_EQ(script.drags[0].handle, 2u);
  EXPECT_EQ(script.drags[0].offset(-1), (view::Point{0, 0, 0}));
  EXPECT_EQ(script.drags[0].offset(0.5), (view::Point{0.5, 0, 0}));
  EXPECT_EQ(script.drags[0].offset(1.5), (view::Point{1, 2, 0}));
  EXPECT_EQ(script.drags[0].offset(9), (view::Point{1, 4, 0}));
  EXPECT_FALSE(script.drags[1].handle);
  EXPECT_EQ(script.drags[1].vertex, 7u);
  EXPECT_EQ(script.drags[1].offset(0.9), (view::Point{0, 0, 0}));
  EXPECT_EQ(script.drags[1].offset(1), (view::Point{0, 0, 1}));
}

TEST(ViewScript, RefusesOthers) {
  for (const char* text :
       {"", "[]", "{}", R"({"drags": 1})", R"({"drags": [], "other": 1})",
        R"({"drags": [], "seconds": -1})", R"({"drags": [], "frames_per_second": 0})",
        R"({"drags": [{"vertex": 1, "handle": 1, "path": [[0,0,0]]}]})",
        R"({"drags": [{"path": [[0,0,0]]}]})", R"({"drags": [{"vertex": 1, "path": []}]})",
        R"({"drags": [{"vertex": 1, "path": [[0,0]]}]})",
        R"({"drags": [{"vertex": 0.5, "path": [[0,0,0]]}]})",
        R"({"drags": [{"vertex": 1, "from": 2, "to": 1, "path": [[0,0,0]]}]})"}) {
    try {
      view::parse_script(text, "drag.json");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("drag.json: ")) << error.what();
    }
  }
}

}  // namespace
}  // namespace topograd::test
