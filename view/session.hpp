// Session: a page on which the program's own problem is pulled at while it is solved.
#pragma once

#include "../frontend/problem.hpp"
#include "../solver/options.hpp"
#include "live/content.hpp"

#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace topograd::view {

struct SessionOptions {
  std::string name = "problem";      ///< title of the page
  std::vector<Slider> sliders = {};  ///< weights of the problem, besides that of the handles
  /// max_iterations, max_linear_iterations and the callback are replaced.
  SolverOptions solver = {};
  int steps = kSteps;                         ///< of a solve between two frames, at most
  int linear_iterations = kLinearIterations;  ///< of conjugate gradients in a step, at most
  double budget_ms = 16;           ///< after which a solve ends with its first accepted step
  double handle_weight = 10;       ///< of the residuals of handles, >= 0
  std::string host = "127.0.0.1";  ///< a numeric address of this machine
  int port = 0;                    ///< 0: one that is free
  bool allow_remote = false;       ///< accepts addresses that other machines reach
};

/// Serves the page of `topograd view` for a problem of the program, from its construction until
/// close(): a thread solves the problem again and again while handles are pulled.
///
///   tg::Parameters x = problem.add_parameters(positions, 3);
///   ...
///   tg::view::Session session(problem, x, {.triangles = triangles});
///   std::cout << session.url() << std::endl;
///   session.wait();
///
/// Handles are residuals that the session adds to the problem and removes when it is closed; the
/// data that they read stays, four numbers for each point. While it is open, the session alone uses
/// the problem: the program neither changes nor solves it, nor reads or writes the memory of its
/// unknowns. After close() that memory has the positions of the last frame.
class Session {
 public:
  ///   problem  must outlive the session
  ///   points   an array of its unknowns. The first three numbers of a block are shown; blocks of
  ///            two are points in the plane, and blocks of one are heights along a line.
  ///   shown    triangles and lines between the points; without triangles, points are drawn
  ///
  /// Throws Error{InvalidArgument} for an empty array, connections with points that do not exist,
  /// or options out of range, a host other than loopback without `allow_remote` among them;
  /// Error{WrongProblem} for an array of another problem; Error{File} if the address cannot be
  /// used; Error{Unsupported} in a build without the server. The problem then has its former
  /// residuals.
  Session(Problem& problem, const Parameters& points, const Connections& shown = {},
          const SessionOptions& options = {});
  /// Closes it.
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// "http://127.0.0.1:PORT/TOKEN/", with a random token. Constant, also after close().
  const std::string& url() const;

  /// Waits for the end of the solve under way, ends the server and removes the handles. Does
  /// nothing if the session is closed.
  void close();
  bool is_open() const;
  /// Waits until another thread closes the session; true if it is closed. Programs that serve until
  /// Ctrl-C need not end it.
  bool wait(double seconds = std::numeric_limits<double>::infinity()) const;

  /// The x, y, z of all points in the newest frame; of the start before the first one. From any
  /// thread; empty after close().
  std::vector<double> positions() const;
  /// The cost in the newest frame, with that of the handles; NaN before the first one and after
  /// close().
  double cost() const;
  /// The last error of a solve or a command; empty if there is none.
  std::string message() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace topograd::view
