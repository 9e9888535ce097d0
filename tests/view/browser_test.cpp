// The page in a browser: what it shows, and what dragging does.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "../../tools/view/subjects/subjects.hpp"
#include "../../view/server/server.hpp"
#include "../../view/service.hpp"
#include "../support/browser.hpp"

namespace topograd::test {
namespace {

constexpr int kWidth = 1000, kHeight = 640;
/// The part of the page that has no text: the middle of the view.
constexpr int kLeft = 100, kTop = 90, kPartWidth = 500, kPartHeight = 360;

/// Differences that versions of software rasterisers may have.
bool alike(const PictureDifference& difference) {
  return difference.mean < 3 && difference.share < 0.01;
}

class BrowserTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!view::server_is_built()) GTEST_SKIP() << "built without libwebsockets";
    if (Browser::program().empty()) GTEST_SKIP() << "no Chromium (Debian: chromium)";
    service = std::make_unique<view::Service>(
        view::arap_subject(problems::icosphere(3)),
        view::LiveOptions{.solver = {.backend = Backend::cpu, .max_iterations = 8}});
    server = std::make_unique<view::Server>(view::ServerOptions{}, *service);
    service->set_server(server.get());
    browser = std::make_unique<Browser>(kWidth, kHeight);
    browser->open(server->url());
    ASSERT_TRUE(browser->wait_until("window.view && view.frame && view.frame.settled"));
  }
  void TearDown() override {
    browser.reset();
    if (service != nullptr) service->set_server(nullptr);
    server.reset();
  }

  double cost() { return browser->evaluate("view.frame.cost").get<double>(); }
  /// Waits until the page has drawn the newest frame of the live solver, and this has settled.
  bool settles() {
    for (int k = 0; k < 600; ++k) {
      const auto shown = browser->evaluate("view.frame.settled ? view.frame.frame : -1");
      if (shown == service->live().frame()->number) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }
  /// The place of a handle on the page.
  std::pair<double, double> place(int id) {
    const nlohmann::json at = browser->evaluate(
        "view.project(view.state.handles.find((h) => h.id === " + std::to_string(id) +
        ").position)");
    return {at[0].get<double>(), at[1].get<double>()};
  }
  Picture picture() {
    browser->evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    return browser->screenshot().part(kLeft, kTop, kPartWidth, kPartHeight);
  }
  void press(const std::string& id) {
    browser->evaluate("document.getElementById('" + id + "').click()");
  }

  std::unique_ptr<view::Service> service;
  std::unique_ptr<view::Server> server;
  std::unique_ptr<Browser> browser;
};

TEST_F(BrowserTest, DraggingChangesCostAndPicture) {
  const double before = cost();
  EXPECT_DOUBLE_EQ(before, service->live().frame()->cost);
  EXPECT_NEAR(
      std::stod(
          browser->evaluate("document.getElementById('cost').textContent").get<std::string>()),
      before, 1e-5 * before);

  const Picture start = picture();
  const std::filesystem::path golden = source_dir() / "tests/view/golden/sphere.png";
  if (std::getenv("TOPOGRAD_UPDATE_GOLDEN") != nullptr)
    std::ofstream(golden, std::ios::binary) << png_of(start);
  const PictureDifference same = compare(start, read_png(read_file(golden)));
  EXPECT_TRUE(alike(same)) << "mean " << same.mean << ", share " << same.share;

  // A handle that is there, by the mouse.
  const auto [x, y] = place(2);
  browser->drag(x, y, x + 90, y - 60);
  ASSERT_TRUE(browser->wait_until("view.frame.drag > 0"));
  ASSERT_TRUE(settles());
  EXPECT_GT(cost(), 1.5 * before);
  EXPECT_DOUBLE_EQ(cost(), service->live().frame()->cost);
  const auto [x1, y1] = place(2);
  EXPECT_NEAR(x1, x + 90, 2);
  EXPECT_NEAR(y1, y - 60, 2);
  EXPECT_FALSE(alike(compare(picture(), start))) << "the picture did not change";
  EXPECT_EQ(browser->evaluate("document.getElementById('undo').disabled"), false);

  // A new handle where the surface is, and everything back.
  browser->evaluate("window.before = view.state.handles.length");
  const double middle_x = kLeft + kPartWidth / 2.0, middle_y = kTop + kPartHeight * 0.55;
  browser->drag(middle_x, middle_y, middle_x - 70, middle_y);
  EXPECT_TRUE(browser->wait_until("view.state.handles.length === window.before + 1"));
  press("reset");
  ASSERT_TRUE(browser->wait_until("view.state.handles.length === window.before"));
  ASSERT_TRUE(settles());
  EXPECT_NEAR(cost(), before, 1e-5 * before);
  const PictureDifference back = compare(picture(), start);
  EXPECT_TRUE(alike(back)) << "mean " << back.mean << ", share " << back.share;
}

TEST_F(BrowserTest, ControlsReachTheSession) {
  const view::LiveSolver& live = service->live();
  press("pause");
  EXPECT_TRUE(browser->wait_until("view.state.paused"));
  EXPECT_TRUE(live.state()->paused);
  press("pause");
  EXPECT_TRUE(browser->wait_until("!view.state.paused"));
  browser->evaluate(
      "{ const select = document.getElementById('coloring'); select.value = 'displacement';"
      "  select.dispatchEvent(new Event('change')); }");
  EXPECT_TRUE(browser->wait_until("view.frame.colors"));
  EXPECT_EQ(live.frame()->values.size(), 642u);
  EXPECT_EQ(browser->evaluate("document.getElementById('legend').hidden"), false);
  browser->evaluate(
      "{ const slider = document.getElementById('weight-rigidity'); slider.value = 0;"
      "  slider.dispatchEvent(new Event('input')); }");
  EXPECT_TRUE(browser->wait_until("view.state.weights.rigidity === 0.01"));
  press("inspect");
  EXPECT_TRUE(
      browser->wait_until("document.getElementById('text').textContent.includes('handle')"));
  browser->evaluate("document.querySelector('[data-file=\"kernels.txt\"]').click()");
  EXPECT_TRUE(
      browser->wait_until("document.getElementById('text').textContent.includes('void main')"));
}

TEST_F(BrowserTest, LoadsNothingFromElsewhere) {
  EXPECT_TRUE(browser->errors.empty()) << browser->errors.front();
  EXPECT_GE(browser->requests.size(), 7u);
  for (const std::string& url : browser->requests)
    EXPECT_TRUE(url.starts_with(server->url()) || url.starts_with("data:")) << url;
}

}  // namespace
}  // namespace topograd::test
