// tg::view::Session: a program's own problem on a page.
#include "../../view/session.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../ir/error.hpp"
#include "../../view/live/subject.hpp"
#include "../../view/server/server.hpp"
#include "raw_client.hpp"

namespace topograd::test {
namespace {

using view::Connections;
using view::Session;
using view::SessionOptions;

SessionOptions on_cpu() { return {.solver = {.backend = Backend::cpu}}; }

bool eventually(const std::function<bool()>& holds) {
  constexpr auto kPatience = std::chrono::seconds(30);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// A chain of points along x whose neighbours are one apart; the first one is fixed.
struct Chain {
  explicit Chain(int width, std::size_t count = 5)
      : values(count * static_cast<std::size_t>(width)) {
    for (std::size_t k = 0; k < count; ++k) values[k * static_cast<std::size_t>(width)] = double(k);
    x = problem.add_parameters(values, width);
    problem.set_constant(x, 0);
    for (std::size_t k = 0; k + 1 < count; ++k) {
      std::vector<Value> rows;
      for (int c = 0; c < width; ++c) rows.push_back(x(k + 1, c) - x(k, c) - (c == 0 ? 1.0 : 0.0));
      problem.add_residual(rows);
    }
  }
  std::vector<double> values;
  Problem problem;
  Parameters x;
};

/// The page of a session, as a browser has it.
class Page {
 public:
  explicit Page(const std::string& url)
      : host_(url.substr(7, url.find('/', 7) - 7)),
        path_(url.substr(url.find('/', 7))),
        port_(std::stoi(host_.substr(host_.find(':') + 1))),
        socket_(port_),
        is_open_(socket_.upgrade(path_ + "ws", host_, "http://" + host_)) {}
  bool is_open() const { return is_open_; }
  std::string get(const std::string& file) const {
    return RawClient(port_).get(path_ + file, host_);
  }
  bool send(const std::string& text) { return socket_.send_text(text); }

 private:
  std::string host_, path_;
  int port_;
  RawClient socket_;
  bool is_open_;
};

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!view::server_is_built()) GTEST_SKIP() << "built without libwebsockets";
  }
};

// With the weight w of handles, the end of a chain of n unit springs is at (w² t + n⁻¹ e) / (w² +
// n⁻¹), where t is the target and e its end at rest: n springs in a row are one of stiffness 1 / n.
TEST_F(SessionTest, DragsReachTheMemoryOfTheProgram) {
  for (const int width : {1, 2, 3, 5}) {
    Chain chain(width);
    Session session(chain.problem, chain.x, {.triangles = {}, .lines = {{0, 1}}}, on_cpu());
    EXPECT_TRUE(session.is_open());
    Page page(session.url());
    ASSERT_TRUE(page.is_open()) << width;
    EXPECT_NE(page.get("scene.json").find(R"("name":"problem","points":5)"), std::string::npos);
    constexpr double kTarget = 6, kWeight = 10, kLast = 4, kSprings = 4;
    const double expected =
        (kWeight * kWeight * kTarget + kLast / kSprings) / (kWeight * kWeight + 1 / kSprings);
    // Blocks of one are heights.
    const std::string position = width == 1 ? "[8,6,0]" : "[6,0,0]";
    const std::size_t axis = width == 1 ? 1 : 0;
    EXPECT_TRUE(page.send(R"({"do":"grab","handle":7,"vertex":4,"radius":0})"));
    EXPECT_TRUE(page.send(R"({"do":"drag","handle":7,"position":)" + position +
                          R"(,"serial":1,"begins":true})"));
    EXPECT_TRUE(eventually([&] {
      return std::abs(session.positions()[3 * 4 + axis] - expected) < 1e-6;
    })) << "width "
        << width << ": " << session.positions()[3 * 4 + axis] << ", not " << expected << "; "
        << session.message();
    session.close();
    EXPECT_FALSE(session.is_open());
    EXPECT_TRUE(session.wait(0));
    EXPECT_NEAR(chain.values[chain.values.size() - static_cast<std::size_t>(width)], expected,
                1e-6);
    EXPECT_EQ(chain.values[0], 0);
    EXPECT_EQ(chain.problem.residual_count(), 4u * static_cast<std::size_t>(width));
    EXPECT_TRUE(session.positions().empty());
    EXPECT_TRUE(page.get("").empty());
  }
}

TEST_F(SessionTest, WeightsOfTheProgramAreSliders) {
  std::vector<double> values = {1, 0, 0};
  Problem problem;
  const Parameters x = problem.add_parameters(values, 3);
  const Uniform length = problem.add_uniform(2);
  problem.add_residual(x(0, 0) - length.value());
  SessionOptions options = on_cpu();
  options.sliders = {{"length", length, 0, 5}};
  Session session(problem, x, {}, options);
  Page page(session.url());
  EXPECT_NE(page.get("scene.json").find(R"({"name":"length","low":0.0,"high":5.0})"),
            std::string::npos);
  EXPECT_TRUE(page.send(R"({"do":"weigh","name":"length","value":4.5})"));
  EXPECT_TRUE(eventually([&] { return std::abs(session.positions()[0] - 4.5) < 1e-6; }))
      << session.positions()[0] << "; " << session.message();
}

TEST_F(SessionTest, ASecondOneFollowsTheFirst) {
  Chain chain(3);
  std::string first;
  {
    const Session session(chain.problem, chain.x, {}, on_cpu());
    first = session.url();
  }
  Session session(chain.problem, chain.x, {}, on_cpu());
  EXPECT_NE(session.url(), first);
  std::thread closes([&] { session.close(); });
  EXPECT_TRUE(session.wait());
  closes.join();
  session.close();  // does nothing
  EXPECT_EQ(chain.problem.residual_count(), 12u);
}

TEST_F(SessionTest, MistakesLeaveTheProblemAsItWas) {
  Chain chain(3), other(3);
  struct Row {
    const char* what;
    std::function<void()> call;
    ErrorCode code;
    std::string message;
  };
  const auto with = [](auto change) {
    SessionOptions options = on_cpu();
    change(options);
    return options;
  };
  const std::vector<Row> rows = {
      {"no points", [&] { Session(chain.problem, Parameters(), {}, on_cpu()); },
       ErrorCode::InvalidArgument, "view: expected an array with at least one block"},
      {"triangle",
       [&] {
         Session(chain.problem, chain.x, {.triangles = {{0, 1, 5}}, .lines = {}}, on_cpu());
       },
       ErrorCode::InvalidArgument, "view: expected points in 0 .. 5 - 1, got 5 in triangle 0"},
      {"line",
       [&] {
         Session(chain.problem, chain.x, {.triangles = {}, .lines = {{0, 1}, {9, 1}}});
       },
       ErrorCode::InvalidArgument, "view: expected points in 0 .. 5 - 1, got 9 in line 1"},
      {"weight",
       [&] { Session(chain.problem, chain.x, {}, with([](auto& o) { o.handle_weight = -1; })); },
       ErrorCode::InvalidArgument, "view: expected a handle_weight >= 0"},
      {"host",
       [&] { Session(chain.problem, chain.x, {}, with([](auto& o) { o.host = "0.0.0.0"; })); },
       ErrorCode::InvalidArgument, "view: expected --host 127.0.0.1"},
      {"options", [&] { Session(chain.problem, chain.x, {}, with([](auto& o) { o.steps = -1; })); },
       ErrorCode::InvalidArgument, "max_iterations"},
      {"array of another problem", [&] { Session(chain.problem, other.x, {}, on_cpu()); },
       ErrorCode::WrongProblem, ""},
  };
  for (const Row& row : rows) {
    try {
      row.call();
      ADD_FAILURE() << row.what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << row.what << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
          << row.what << ": " << error.what();
    }
    EXPECT_EQ(chain.problem.residual_count(), 12u) << row.what;
  }
}

}  // namespace
}  // namespace topograd::test
