// Does `automatic` choose the fastest linear solver? Solves problems on the CPU by `automatic` and
// by every linear solver, and prints the time of each over that of the fastest one.
//
//   bench_automatic [--threads N] [--repeats N] [--only TEXT] [FOLDER]
//
// FOLDER has *.obj, bal/*.txt and *.g2o, which add problems. With one thread (the default) times
// are those of the processor, which other work of the machine does not lengthen; with more, of the
// clock.
#include "../api/formats/bal.hpp"
#include "../api/formats/bundle_adjustment.hpp"
#include "../api/formats/g2o.hpp"
#include "../api/formats/mesh/mesh.hpp"
#include "../api/formats/pose_graph_problem.hpp"
#include "../api/formats/pose_graph_start.hpp"
#include "../frontend/manifold.hpp"
#include "../frontend/problem.hpp"
#include "../frontend/value/math.hpp"
#include "../solver/solve.hpp"
#include "../tools/problems/arap.hpp"
#include "../tools/problems/bundle.hpp"
#include "../tools/problems/developable.hpp"
#include "../tools/problems/made_pose_graph.hpp"
#include "../tools/problems/mgh.hpp"
#include "../tools/problems/smooth.hpp"
#include "../tools/problems/springs.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace topograd::bench {
namespace {

using Options = SolverOptions;

/// A problem and its memory.
struct Case {
  std::vector<std::vector<double>> x;
  std::shared_ptr<void> keeps_alive;
  std::unique_ptr<Problem> own;
  Problem* problem = nullptr;

  explicit Case(std::vector<std::vector<double>> start) : x(std::move(start)) {
    own = std::make_unique<Problem>();
    problem = own.get();
  }
  template <class Made>
  explicit Case(std::shared_ptr<Made> made) : keeps_alive(made), problem(&made->problem) {}
};
using Make = std::function<std::unique_ptr<Case>()>;

struct Row {
  std::string name;
  Make make;
  Method method = Method::automatic;
};

std::unique_ptr<Case> fresh(std::vector<std::vector<double>> start) {
  return std::make_unique<Case>(std::move(start));
}
template <class Made>
std::unique_ptr<Case> around(std::unique_ptr<Made> made) {
  return std::make_unique<Case>(std::shared_ptr<Made>(std::move(made)));
}

using Indices = std::vector<std::uint32_t>;

/// Differences of neighbouring pixels, with a constant frame, or a weak pull to data.
std::unique_ptr<Case> poisson(std::uint32_t width, bool framed) {
  auto out = fresh({std::vector<double>(std::size_t{width} * width)});
  std::vector<double>& f = out->x[0];
  const auto source = [](double i, double j) {
    return std::sin(0.11 * i) * std::cos(0.07 * j) + 0.3 * std::sin(1.3 * i + j);
  };
  Problem& problem = *out->problem;
  const Parameters x = problem.add_parameters(f);
  Indices pairs, own;
  std::vector<double> steps, values;
  const auto at = [&](std::uint32_t i, std::uint32_t j) { return i * width + j; };
  const auto inside = [&](std::uint32_t i) { return i > 0 && i + 1 < width; };
  for (std::uint32_t i = 0; i < width; ++i) {
    for (std::uint32_t j = 0; j < width; ++j) {
      own.push_back(at(i, j));
      values.push_back(source(i, j));
      if (framed && !(inside(i) && inside(j))) problem.set_constant(x, at(i, j));
      for (const auto& [a, b] : {std::pair{i + 1, j}, std::pair{i, j + 1}}) {
        if (a >= width || b >= width) continue;
        if (framed && !(inside(i) && inside(j)) && !(inside(a) && inside(b))) continue;
        pairs.insert(pairs.end(), {at(i, j), at(a, b)});
        steps.push_back(source(i, j) - source(a, b));
      }
    }
  }
  problem.add_residuals(steps.size(),
                        [=](Element e) { return e.scalar(x, 0) - e.scalar(x, 1) - e.data(0); },
                        {.indices = pairs, .data = steps});
  if (!framed)
    problem.add_residuals(own.size(), [=](Element e) { return 0.1 * (e.scalar(x, 0) - e.data(0)); },
                          {.indices = own, .data = values});
  return out;
}

/// Robust total variation of a volume.
std::unique_ptr<Case> volume(std::uint32_t width) {
  const std::size_t n = std::size_t{width} * width * width;
  std::vector<double> measured(n);
  for (std::size_t k = 0; k < n; ++k)
    measured[k] = std::sin(0.01 * double(k)) + 0.2 * std::sin(7.0 * double(k));
  auto out = fresh({measured});
  const Parameters x = out->problem->add_parameters(out->x[0]);
  Indices own(n), pairs;
  for (std::uint32_t k = 0; k < n; ++k) {
    own[k] = k;
    if (k % width + 1 < width) pairs.insert(pairs.end(), {k, k + 1});
    if (k / width % width + 1 < width) pairs.insert(pairs.end(), {k, k + width});
    if (k + width * width < n) pairs.insert(pairs.end(), {k, k + width * width});
  }
  out->problem->add_residuals(n, [=](Element e) { return e.scalar(x, 0) - e.data(0); },
                              {.indices = own, .data = measured});
  out->problem->add_residuals(pairs.size() / 2,
                              [=](Element e) { return 2.0 * (e.scalar(x, 0) - e.scalar(x, 1)); },
                              {.indices = pairs, .loss = huber(0.1)});
  return out;
}

/// Smoothing of a signal by second differences, weakly tied to data.
std::unique_ptr<Case> signal(std::uint32_t n) {
  std::vector<double> measured(n);
  for (std::uint32_t k = 0; k < n; ++k) measured[k] = std::sin(1e-3 * k) + 0.3 * std::sin(7.0 * k);
  auto out = fresh({measured});
  const Parameters x = out->problem->add_parameters(out->x[0]);
  Indices own(n), three;
  for (std::uint32_t k = 0; k < n; ++k) {
    own[k] = k;
    if (k + 2 < n) three.insert(three.end(), {k, k + 1, k + 2});
  }
  out->problem->add_residuals(n, [=](Element e) { return e.scalar(x, 0) - e.data(0); },
                              {.indices = own, .data = measured});
  out->problem->add_residuals(
      three.size() / 3,
      [=](Element e) { return 30.0 * (e.scalar(x, 0) - 2.0 * e.scalar(x, 1) + e.scalar(x, 2)); },
      {.indices = three});
  return out;
}

/// Rows that read all unknowns: a fit of n coefficients.
std::unique_ptr<Case> dense_fit(std::uint32_t n, std::uint32_t rows, bool curved) {
  auto out = fresh({std::vector<double>(n, 0.1)});
  std::mt19937 random(3);
  std::normal_distribution<> normal;
  const Parameters x = out->problem->add_parameters(out->x[0]);
  std::vector<double> data(std::size_t{rows} * (n + 1));
  for (double& number : data) number = normal(random);
  out->problem->add_residuals(rows,
                              [=](Element e) {
                                Value sum = e.data(0) * x[0];
                                for (std::uint32_t k = 1; k < n; ++k)
                                  sum = sum + e.data(static_cast<int>(k)) * x[k];
                                return (curved ? tanh(sum) : sum) - e.data(static_cast<int>(n));
                              },
                              {.data = data});
  return out;
}

/// Each row reads 20 of n unknowns, anywhere.
std::unique_ptr<Case> scattered_fit(std::uint32_t n, std::uint32_t rows, std::uint32_t reads) {
  auto out = fresh({std::vector<double>(n, 0.1)});
  std::mt19937 random(5);
  std::normal_distribution<> normal;
  const Parameters x = out->problem->add_parameters(out->x[0]);
  Indices indices;
  std::vector<double> data;
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t k = 0; k < reads; ++k) {
      indices.push_back(random() % n);
      data.push_back(normal(random));
    }
    data.push_back(normal(random));
  }
  out->problem->add_residuals(rows,
                              [=](Element e) {
                                Value sum = e.data(0) * e.scalar(x, 0);
                                for (std::uint32_t k = 1; k < reads; ++k)
                                  sum = sum + e.data(static_cast<int>(k)) *
                                                  e.scalar(x, static_cast<int>(k));
                                return sum + 0.1 * square(sum) - e.data(static_cast<int>(reads));
                              },
                              {.indices = indices, .data = data});
  return out;
}

/// Two decaying exponentials, as in NIST's Lanczos sets, over many observations.
std::unique_ptr<Case> decay(std::uint32_t rows, bool robust) {
  auto out = fresh({{1.2, 0.3, 5.6, 5.5}});
  const Parameters b = out->problem->add_parameters(out->x[0]);
  std::vector<double> data;
  for (std::uint32_t k = 0; k < rows; ++k) {
    const double t = 3.0 * k / rows;
    const double noise = 0.01 * std::sin(997.0 * k) + (k % 17 == 0 ? 0.5 : 0.0);
    data.insert(data.end(), {t, 0.9 * std::exp(-t) + 1.5 * std::exp(-3 * t) + noise});
  }
  out->problem->add_residuals(rows,
                              [=](Element e) {
                                return b[0] * exp(-b[1] * e.data(0)) +
                                       b[2] * exp(-b[3] * e.data(0)) - e.data(1);
                              },
                              {.data = data, .loss = robust ? cauchy(0.05) : Loss{}});
  return out;
}

/// Point to plane: a rotation and a translation for all rows.
std::unique_ptr<Case> icp(std::uint32_t rows, bool quaternion) {
  auto out = quaternion ? fresh({{1, 0, 0, 0}, {0, 0, 0}}) : fresh({{0, 0, 0}, {0, 0, 0}});
  Problem& problem = *out->problem;
  const Parameters q = problem.add_parameters(out->x[0], quaternion ? 4 : 3);
  const Parameters t = problem.add_parameters(out->x[1], 3);
  if (quaternion) problem.set_manifold(q, Manifold::quaternion());
  std::mt19937 random(4);
  std::uniform_real_distribution<> uniform(-1.5, 1.5);
  std::vector<double> data;
  for (std::uint32_t k = 0; k < rows; ++k) {
    const double x = uniform(random), y = uniform(random);
    const double z = 0.3 * std::sin(2 * x) * std::cos(1.5 * y);
    const double a = -0.6 * std::cos(2 * x) * std::cos(1.5 * y);
    const double b = 0.45 * std::sin(2 * x) * std::sin(1.5 * y);
    const double length = std::sqrt(a * a + b * b + 1);
    // A small rotation about z and a shift lead to the target.
    data.insert(data.end(), {x + 0.08 * y - 0.03, y - 0.08 * x + 0.02, z - 0.05, x, y, z,
                             a / length, b / length, 1 / length});
  }
  problem.add_residuals(
      rows,
      [=](Element e) {
        const Vec3 from = e.data_vec3(0), to = e.data_vec3(3), normal = e.data_vec3(6);
        const Vec3 turned = quaternion ? rotate(q.quat(0), from) : rotate(q.vec3(0), from);
        return dot(normal, turned + t.vec3(0) - to);
      },
      {.data = data});
  return out;
}

/// A robot drives to and fro over a grid.
std::unique_ptr<Case> pose_grid(int dimension, std::uint32_t width) {
  auto out = std::make_unique<Case>(std::vector<std::vector<double>>{});
  auto graph =
      std::make_shared<PoseGraphProblem>(problems::made_pose_graph(dimension, width, 0.02));
  out->problem = &graph->problem();
  out->keeps_alive = graph;
  return out;
}

/// Logistic regression as energies.
std::unique_ptr<Case> logistic(std::uint32_t n, std::uint32_t rows) {
  auto out = fresh({std::vector<double>(n, 0.0)});
  std::mt19937 random(11);
  std::normal_distribution<> normal;
  const Parameters w = out->problem->add_parameters(out->x[0]);
  std::vector<double> data(std::size_t{rows} * n);
  for (std::uint32_t r = 0; r < rows; ++r) {
    double* const row = data.data() + std::size_t{r} * n;
    for (std::uint32_t k = 0; k < n; ++k) row[k] = normal(random);
    const double sign = 2 * row[0] - row[1] + normal(random) > 0 ? -1 : 1;
    for (std::uint32_t k = 0; k < n; ++k) row[k] *= sign;
  }
  out->problem->add_energies(rows,
                             [=](Element e) {
                               Value sum = e.data(0) * w[0];
                               for (std::uint32_t k = 1; k < n; ++k)
                                 sum = sum + e.data(static_cast<int>(k)) * w[k];
                               return softplus(sum);
                             },
                             {.data = data});
  Indices own(n);
  for (std::uint32_t k = 0; k < n; ++k) own[k] = k;
  out->problem->add_energies(n, [=](Element e) { return square(e.scalar(w, 0)); },
                             {.indices = own});
  return out;
}

/// A net of springs that hangs at two sides: energies of springs and weights.
std::unique_ptr<Case> hanging(std::uint32_t width) {
  const std::size_t n = std::size_t{width} * width;
  std::vector<double> start;
  for (std::size_t k = 0; k < n; ++k)
    start.insert(start.end(), {double(k % width), double(k / width), 0.01 * std::sin(double(k))});
  auto out = fresh({start});
  Problem& problem = *out->problem;
  const Parameters x = problem.add_parameters(out->x[0], 3);
  Indices pairs, own;
  for (std::uint32_t k = 0; k < n; ++k) {
    own.push_back(k);
    if (k % width == 0 || k % width + 1 == width) problem.set_constant(x, k);
    if (k % width + 1 < width) pairs.insert(pairs.end(), {k, k + 1});
    if (k + width < n) pairs.insert(pairs.end(), {k, k + width});
  }
  problem.add_energies(
      pairs.size() / 2,
      [=](Element e) { return 50.0 * square(norm(e.vec3(x, 0) - e.vec3(x, 1)) - 1.0); },
      {.indices = pairs});
  problem.add_energies(n, [=](Element e) { return e.vec3(x, 0).z; }, {.indices = own});
  return out;
}

/// A smooth signal with bounded second differences: a convex QP.
std::unique_ptr<Case> quadratic_program(std::uint32_t n) {
  std::vector<double> y(n);
  const double dt = 0.05, most = 1.5;
  for (std::uint32_t i = 0; i < n; ++i)
    y[i] = 2 * std::sin(1.3 * dt * i) + (i > n / 2 ? 1 : 0) + 0.05 * std::sin(91.0 * i);
  auto out = fresh({y});
  Problem& p = *out->problem;
  const Parameters x = p.add_parameters(out->x[0]);
  for (std::uint32_t i = 0; i < n; ++i) p.add_residual(x[i] - y[i]);
  for (std::uint32_t i = 0; i + 2 < n; ++i) {
    const Value a = (x[i + 2] - 2.0 * x[i + 1] + x[i]) / (dt * dt);
    p.add_inequality(most - a, {.label = "upper"});
    p.add_inequality(most + a, {.label = "lower"});
  }
  p.add_equality(x[0] - y[0]);
  return out;
}

struct Run {
  Summary summary;
  double seconds = HUGE_VAL;
};

double processor_seconds() {
  std::timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Alternative {
  const char* name;
  LinearSolver linear;
  ForcingSequence forcing = ForcingSequence::automatic;
};
constexpr Alternative kSteps[] = {
    {"automatic", LinearSolver::automatic},
    {"cholesky", LinearSolver::cholesky},
    {"schur", LinearSolver::schur},
    {"pcg constant", LinearSolver::pcg, ForcingSequence::constant},
    {"pcg eisenstat_walker", LinearSolver::pcg, ForcingSequence::eisenstat_walker},
};
constexpr Alternative kNewton[] = {
    {"automatic", LinearSolver::automatic},
    {"cholesky", LinearSolver::cholesky},
    {"pcg", LinearSolver::pcg},
};

class Table {
 public:
  Table(int threads, int repeats) : threads_(threads), repeats_(repeats) {}

  void row(const Row& row) {
    if (row.method == Method::newton) {
      row_of(row, kNewton);
    } else {
      row_of(row, kSteps);
    }
  }
  void summary() const {
    if (rows_ > 0)
      std::printf("%d of %d problems within 1.3 of the fastest: %.0f %%\n", good_, rows_,
                  100.0 * good_ / rows_);
  }

 private:
  void run(const Row& row, const Alternative& one, double limit, Run& best) const {
    const std::unique_ptr<Case> made = row.make();
    Options options;
    options.backend = Backend::cpu;
    options.threads = threads_;
    options.method = row.method;
    options.linear_solver = one.linear;
    options.forcing_sequence = one.forcing;
    options.max_iterations = 200;
    options.time_limit_seconds = limit;
    const auto clock = threads_ == 1 ? processor_seconds : clock_seconds;
    const double begin = clock();
    Summary summary = solve(*made->problem, options);
    const double seconds = clock() - begin;
    if (seconds >= best.seconds) return;
    best.seconds = seconds;
    best.summary = std::move(summary);
  }

  template <std::size_t N>
  void row_of(const Row& row, const Alternative (&alternatives)[N]) {
    std::vector<Run> runs(N);
    double total = 0;
    for (int k = 0; k < repeats_ && total < 20; ++k) {
      for (std::size_t a = 0; a < N; ++a) {
        const double limit = std::max(2.0, 10 * runs[0].seconds);
        if (k > 0 && runs[a].seconds > 3 * runs[0].seconds) continue;
        run(row, alternatives[a], std::min(limit, 60.0), runs[a]);
        total += runs[a].seconds;
      }
    }
    double lowest = HUGE_VAL;
    for (const Run& one : runs) lowest = std::min(lowest, one.summary.final_cost);
    const double scale = 1e-2 * std::abs(lowest) + 1e-7 * std::abs(runs[0].summary.initial_cost);
    const auto solved = [&](const Run& one) { return one.summary.final_cost <= lowest + scale; };
    double fastest = HUGE_VAL;
    for (const Run& one : runs)
      if (solved(one)) fastest = std::min(fastest, one.seconds);
    std::printf("%s: %llu unknowns, %llu rows\n", row.name.c_str(),
                static_cast<unsigned long long>(runs[0].summary.unknowns),
                static_cast<unsigned long long>(runs[0].summary.residuals));
    for (std::size_t a = 0; a < N; ++a) {
      const Summary& s = runs[a].summary;
      std::printf(
          "  %-21s %9.2f ms %6.2f  %3d steps %6d CG  linear %8.2f plan %7.2f ms  cost %.6e%s\n",
          alternatives[a].name, 1e3 * runs[a].seconds, runs[a].seconds / fastest,
          s.num_iterations(), s.num_linear_iterations, 1e3 * s.times.linear_solver_seconds,
          1e3 * s.times.plan_seconds, s.final_cost, solved(runs[a]) ? "" : "  not solved");
    }
    const double ratio = solved(runs[0]) ? runs[0].seconds / fastest : HUGE_VAL;
    std::printf("  %s: %s\n", std::string(linear_solver_name(runs[0].summary)).c_str(),
                runs[0].summary.linear_solver_note.c_str());
    std::fflush(stdout);
    ++rows_;
    good_ += ratio <= 1.3;
  }

  int threads_, repeats_, rows_ = 0, good_ = 0;
};

std::vector<Row> made_problems() {
  using problems::icosphere;
  const Method newton = Method::newton;
  std::vector<Row> rows = {
      {"springs 12", [] { return around(problems::springs(12)); }},
      {"springs 30", [] { return around(problems::springs(30)); }},
      {"springs 60", [] { return around(problems::springs(60)); }},
      {"springs 120", [] { return around(problems::springs(120)); }},
      {"arap sphere 162", [] { return around(problems::arap(icosphere(2))); }},
      {"arap sphere 642", [] { return around(problems::arap(icosphere(3))); }},
      {"arap sphere 2562", [] { return around(problems::arap(icosphere(4))); }},
      {"smooth sphere 642", [] { return around(problems::smooth(icosphere(3))); }},
      {"smooth sphere 2562", [] { return around(problems::smooth(icosphere(4))); }},
      {"bundle 6 x 300",
       [] {
         return around(
             problems::bundle({.cameras = 6, .points = 300, .observations = 1200, .noise = 0.5}));
       }},
      {"bundle 20 x 2000",
       [] {
         return around(
             problems::bundle({.cameras = 20, .points = 2000, .observations = 9000, .noise = 0.5}));
       }},
      {"poses in the plane 40", [] { return pose_grid(2, 40); }},
      {"poses in the plane 90", [] { return pose_grid(2, 90); }},
      {"poses in space 20", [] { return pose_grid(3, 20); }},
      {"poses in space 45", [] { return pose_grid(3, 45); }},
      {"Poisson 50, framed", [] { return poisson(50, true); }},
      {"Poisson 120, framed", [] { return poisson(120, true); }},
      {"Poisson 200, framed", [] { return poisson(200, true); }},
      {"Poisson 200, weak data", [] { return poisson(200, false); }},
      {"Poisson 500, framed", [] { return poisson(500, true); }},
      {"volume 20, Huber", [] { return volume(20); }},
      {"volume 40, Huber", [] { return volume(40); }},
      {"signal 100000", [] { return signal(100'000); }},
      {"linear fit of 60", [] { return dense_fit(60, 3000, false); }},
      {"curved fit of 200", [] { return dense_fit(200, 2000, true); }},
      {"linear fit of 600", [] { return dense_fit(600, 2000, false); }},
      {"scattered fit of 300", [] { return scattered_fit(300, 10'000, 10); }},
      {"scattered fit of 1500", [] { return scattered_fit(1500, 10'000, 6); }},
      {"scattered fit of 5000", [] { return scattered_fit(5000, 20'000, 5); }},
      {"decay", [] { return decay(30'000, false); }},
      {"decay, Cauchy", [] { return decay(30'000, true); }},
      {"icp by quaternion", [] { return icp(100'000, true); }},
      {"icp by axis and angle", [] { return icp(100'000, false); }},
      {"newton: logistic 30", [] { return logistic(30, 2000); }, newton},
      {"newton: logistic 120", [] { return logistic(120, 2000); }, newton},
      {"newton: hanging net 12", [] { return hanging(12); }, newton},
      {"newton: hanging net 40", [] { return hanging(40); }, newton},
      {"newton: developable 162", [] { return around(problems::developable(icosphere(2))); },
       newton},
      {"quadratic program 300", [] { return quadratic_program(300); }},
  };
  for (const char* name : {"broyden_banded", "broyden_tridiagonal", "extended_powell",
                           "discrete_boundary", "variably_dimensioned"}) {
    const std::uint32_t count = std::min(problems::largest_mgh(name), 8000U);
    rows.push_back({std::string(name) + " " + std::to_string(count),
                    [name, count] { return around(problems::large_mgh(name, count)); }});
  }
  return rows;
}

void add_files(std::vector<Row>& rows, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const std::string path = file.string(), name = file.stem().string();
    if (file.extension() == ".obj") {
      rows.push_back({"arap " + name, [=] { return around(problems::arap(read_mesh(path))); }});
      rows.push_back({"smooth " + name, [=] { return around(problems::smooth(read_mesh(path))); }});
    } else if (file.extension() == ".g2o") {
      rows.push_back({name,
                      [=] {
                        auto out = std::make_unique<Case>(std::vector<std::vector<double>>{});
                        auto graph = std::make_shared<PoseGraphProblem>(
                            with_start(read_g2o(path), PoseStart::chordal));
                        out->problem = &graph->problem();
                        out->keeps_alive = graph;
                        return out;
                      },
                      Method::gauss_newton});
    } else if (file.parent_path().filename() == "bal") {
      rows.push_back({name, [=] {
                        auto out = std::make_unique<Case>(std::vector<std::vector<double>>{});
                        auto scene = std::make_shared<BundleAdjustment>(read_bal(path));
                        out->problem = &scene->problem();
                        out->keeps_alive = scene;
                        return out;
                      }});
    }
  }
}

}  // namespace
}  // namespace topograd::bench

int main(int argc, char** argv) {
  using namespace topograd;
  int threads = 1, repeats = 3;
  std::string only, folder;
  for (int k = 1; k < argc; ++k) {
    const std::string argument = argv[k];
    if (argument == "--threads" && k + 1 < argc) {
      threads = std::max(std::atoi(argv[++k]), 0);
    } else if (argument == "--repeats" && k + 1 < argc) {
      repeats = std::max(std::atoi(argv[++k]), 1);
    } else if (argument == "--only" && k + 1 < argc) {
      only = argv[++k];
    } else if (argument.starts_with("--")) {
      std::fprintf(stderr,
                   "usage: bench_automatic [--threads N] [--repeats N] [--only TEXT] [FOLDER]\n");
      return 2;
    } else {
      folder = argument;
    }
  }
  try {
    std::vector<bench::Row> rows = bench::made_problems();
    if (!folder.empty()) bench::add_files(rows, folder);
    bench::Table table(threads, repeats);
    for (const bench::Row& row : rows)
      if (only.empty() || row.name.find(only) != std::string::npos) table.row(row);
    table.summary();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
