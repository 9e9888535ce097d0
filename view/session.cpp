// A session: a live solver of the caller's problem, behind a server.
#include "session.hpp"

#include "../ir/error.hpp"
#include "service.hpp"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace topograd::view {

struct Session::Impl {
  Impl(Problem& chosen, const Parameters& points, const Connections& shown,
       const SessionOptions& options)
      : problem(&chosen) {
    if (points.size() == 0)
      throw Error(ErrorCode::InvalidArgument, "view: expected an array with at least one block");
    if (!(options.handle_weight >= 0) || !std::isfinite(options.handle_weight))
      throw Error(ErrorCode::InvalidArgument, "view: expected a handle_weight >= 0");
    if (!(options.budget_ms > 0))
      throw Error(ErrorCode::InvalidArgument, "view: expected a budget_ms > 0");
    SolverOptions solver = options.solver;
    solver.max_iterations = options.steps;
    solver.max_linear_iterations = options.linear_iterations;
    Subject subject = make_subject(chosen, points, shown, options.handle_weight);
    pulls = subject.pulls.residuals;
    try {
      subject.name = options.name;
      subject.sliders.insert(subject.sliders.end(), options.sliders.begin(), options.sliders.end());
      service.emplace(std::move(subject),
                      LiveOptions{.solver = solver, .budget_ms = options.budget_ms});
      server.emplace(
          ServerOptions{
              .host = options.host, .port = options.port, .allow_remote = options.allow_remote},
          *service);
    } catch (...) {
      end();
      throw;
    }
    service->set_server(&*server);
    url = server->url();
  }
  ~Impl() {
    try {
      close();
    } catch (...) {  // NOLINT(bugprone-empty-catch): a destructor has nobody to tell
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void close() {
    const std::lock_guard lock(mutex);
    if (!open) return;
    open = false;
    end();
    closed.notify_all();
  }

  /// Ends the threads, the server's first, and removes the handles.
  void end() {
    if (server) {
      service->set_server(nullptr);
      server.reset();
    }
    service.reset();
    for (const Residual& pull : pulls) problem->remove(pull);
    pulls.clear();
  }

  Problem* problem;
  std::string url;
  std::vector<Residual> pulls;
  mutable std::mutex mutex;
  mutable std::condition_variable closed;
  bool open = true;
  std::optional<Service> service;
  std::optional<Server> server;
};

Session::Session(Problem& problem, const Parameters& points, const Connections& shown,
                 const SessionOptions& options)
    : impl_(std::make_unique<Impl>(problem, points, shown, options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const std::string& Session::url() const {
  return require_not_moved_from(impl_, "view::Session").url;
}
void Session::close() { require_not_moved_from(impl_, "view::Session").close(); }

bool Session::is_open() const {
  const std::lock_guard lock(require_not_moved_from(impl_, "view::Session").mutex);
  return require_not_moved_from(impl_, "view::Session").open;
}

bool Session::wait(double seconds) const {
  std::unique_lock lock(require_not_moved_from(impl_, "view::Session").mutex);
  const auto is_closed = [this] { return !require_not_moved_from(impl_, "view::Session").open; };
  if (std::isinf(seconds)) {
    require_not_moved_from(impl_, "view::Session").closed.wait(lock, is_closed);
    return true;
  }
  return require_not_moved_from(impl_, "view::Session")
      .closed.wait_for(lock, std::chrono::duration<double>(seconds), is_closed);
}

std::vector<double> Session::positions() const {
  const std::lock_guard lock(require_not_moved_from(impl_, "view::Session").mutex);
  if (!require_not_moved_from(impl_, "view::Session").open) return {};
  const LiveSolver& live = require_not_moved_from(impl_, "view::Session").service->live();
  const std::shared_ptr<const Frame> frame = live.frame();
  return frame == nullptr ? live.start() : frame->positions;
}

double Session::cost() const {
  const std::lock_guard lock(require_not_moved_from(impl_, "view::Session").mutex);
  const std::shared_ptr<const Frame> frame =
      require_not_moved_from(impl_, "view::Session").open
          ? require_not_moved_from(impl_, "view::Session").service->live().frame()
          : nullptr;
  return frame == nullptr ? std::numeric_limits<double>::quiet_NaN() : frame->cost;
}

std::string Session::message() const {
  const std::lock_guard lock(require_not_moved_from(impl_, "view::Session").mutex);
  return require_not_moved_from(impl_, "view::Session").open
             ? require_not_moved_from(impl_, "view::Session").service->live().state()->message
             : std::string();
}

}  // namespace topograd::view
