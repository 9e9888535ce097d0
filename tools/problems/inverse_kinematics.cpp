// Inverse kinematics of many targets as copies of one problem.
#include "inverse_kinematics.hpp"

#include "../../api/problem_file/csv.hpp"
#include "../../frontend/value/math.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../solver/interrupts.hpp"
#include "../../solver/solve_many.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

namespace topograd::problems {
namespace {

constexpr std::size_t kPose = std::tuple_size_v<PoseNumbers>;

struct Errors {
  double position = 0, rotation = 0;
};

/// The rotation's error is the angle between the two, in [0, π].
Errors errors_between(const double* a, const double* b) {
  double turned = 0;
  for (std::size_t k = 0; k < 9; ++k) turned += (a[k] - b[k]) * (a[k] - b[k]);
  const double half_sine = std::min(1.0, std::sqrt(turned / 8));
  return {std::hypot(a[9] - b[9], a[10] - b[10], a[11] - b[11]), 2 * std::asin(half_sine)};
}

void check(const Targets& targets, const InverseKinematicsOptions& options) {
  const auto require = [](bool ok, const std::string& what, const std::string& got) {
    if (!ok)
      throw Error(ErrorCode::InvalidArgument,
                  "inverse_kinematics: expected " + what + ", got " + got);
  };
  require(targets.count() > 0, "at least one target", "none");
  require(options.starts > 0, "at least one start", std::to_string(options.starts));
  for (const double tolerance : {options.position_tolerance, options.rotation_tolerance})
    require(tolerance > 0 && std::isfinite(tolerance), "tolerances > 0", std::to_string(tolerance));
}

/// Rows of one target: 12 numbers of data, a pose.
std::array<std::array<Value, kPose>, 1> rows_of(const Chain& chain, const One& one,
                                                double per_meter, double per_radian) {
  const auto known = [](double c) { return literal(c); };
  const ForwardKinematics<Value, decltype(known)> forward(chain, known);
  std::vector<Value> q;
  for (std::size_t k = 0; k < one.size(); ++k) q.push_back(one.x(k));
  const Frame<Value> tip = forward(q);
  std::array<std::array<Value, kPose>, 1> rows;
  const double turn = per_radian / std::numbers::sqrt2;
  for (std::size_t k = 0; k < 9; ++k)
    rows[0][k] = literal(turn) * (forward.value(tip.rotation[k]) - one.data(0, k));
  for (std::size_t k = 0; k < 3; ++k)
    rows[0][9 + k] = literal(per_meter) * (forward.value(tip.position[k]) - one.data(0, 9 + k));
  return rows;
}

/// A number in [0, 1) by splitmix64.
double uniform(std::uint64_t seed) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  z ^= z >> 31U;
  return static_cast<double>(z >> 11U) * 0x1p-53;
}

void append(std::string& text, double value) {
  std::array<char, 32> digits;  // NOLINT(*-member-init): what is read is set
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  text.append(digits.data(), end);
}

/// The solves of all targets, round by round.
class Rounds {
 public:
  Rounds(const Chain& chain, const Targets& targets, const InverseKinematicsOptions& options)
      : chain_(chain),
        targets_(targets),
        options_(options),
        joints_(chain.moving()),
        open_(targets.count()) {
    for (const Joint* joint : joints_) {
      many_.lower.push_back(joint->lower);
      many_.upper.push_back(joint->upper);
    }
    std::iota(open_.begin(), open_.end(), std::size_t{0});
    out_.q.resize(targets.count() * joints_.size());
    out_.position_error.assign(targets.count(), std::numeric_limits<double>::infinity());
    out_.rotation_error = out_.position_error;
    out_.solved.assign(targets.count(), 0);
    out_.starts.assign(targets.count(), 0);
  }

  bool done() const { return open_.empty(); }

  void run(std::size_t start) {
    const std::size_t n = joints_.size();
    std::vector<double> x, poses;
    for (const std::size_t t : open_) {
      const std::vector<double> from = ik_start(chain_, t, start, options_.seed);
      x.insert(x.end(), from.begin(), from.end());
      const double* const pose = targets_.poses.data() + kPose * t;
      poses.insert(poses.end(), pose, pose + kPose);
    }
    many_.data = {poses};
    Summary summary = solve_many(
        open_.size(),
        [&](const One& one) {
          return rows_of(chain_, one, 1 / options_.position_tolerance,
                         1 / options_.rotation_tolerance);
        },
        x, many_, options_.solver);
    out_.solves += open_.size();
    for (const auto* steps :
         {&summary.components.successful_steps, &summary.components.unsuccessful_steps})
      out_.steps += std::accumulate(steps->begin(), steps->end(), std::uint64_t{0});
    for (std::size_t k = 0; k < open_.size(); ++k) judge(open_[k], x.data() + n * k);
    std::erase_if(open_, [&](std::size_t t) { return out_.solved[t] != 0; });
    if (start == 0) out_.first = std::move(summary);
  }

  InverseKinematics take() { return std::move(out_); }

 private:
  /// Keeps the better one of what was there and these joint values.
  void judge(std::size_t target, double* q) {
    for (std::size_t k = 0; k < joints_.size(); ++k)
      if (joints_[k]->kind == Joint::Kind::continuous)
        q[k] = std::remainder(q[k], 2 * std::numbers::pi);
    const PoseNumbers pose = tip_pose(chain_, q);
    const Errors errors = errors_between(pose.data(), targets_.poses.data() + kPose * target);
    ++out_.starts[target];
    if (out_.starts[target] > 1 &&
        !(size(errors) < size({out_.position_error[target], out_.rotation_error[target]})))
      return;
    out_.position_error[target] = errors.position;
    out_.rotation_error[target] = errors.rotation;
    out_.solved[target] = errors.position <= options_.position_tolerance &&
                          errors.rotation <= options_.rotation_tolerance;
    std::copy_n(q, joints_.size(),
                out_.q.begin() + static_cast<std::ptrdiff_t>(target * joints_.size()));
  }
  /// 1 at both tolerances: the larger of the errors in units of them.
  double size(const Errors& errors) const {
    return std::max(errors.position / options_.position_tolerance,
                    errors.rotation / options_.rotation_tolerance);
  }

  const Chain& chain_;
  const Targets& targets_;
  const InverseKinematicsOptions& options_;
  std::vector<const Joint*> joints_;
  std::vector<std::size_t> open_;
  ManyOptions many_;
  InverseKinematics out_;
};

}  // namespace

Targets read_targets(const std::string& text, const std::string& name) {
  const std::array<std::string, 7> names = {"x", "y", "z", "qx", "qy", "qz", "qw"};
  const CsvPicks by_name{.names = {names.begin(), names.end()}};
  CsvTable table(text, name, by_name);
  std::array<std::vector<double>, 7> columns;
  for (std::size_t k = 0; k < 7; ++k)
    columns[k] = table.has_header() ? table.column(names[k]) : table.column(k);
  Targets targets;
  for (std::size_t t = 0; t < table.rows(); ++t) {
    std::array<double, 4> q{};
    double square = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      q[k] = columns[3 + k][t];
      square += q[k] * q[k];
    }
    const double length = std::sqrt(square);
    if (!(std::fabs(length - 1) <= 1e-3))
      throw Error(ErrorCode::Parse,
                  name + ": expected a unit quaternion qx, qy, qz, qw in target " +
                      std::to_string(t) + ", got one of length " + std::to_string(length));
    for (double& k : q) k /= length;
    const auto [x, y, z, w] = q;
    targets.add({1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
                 2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
                 2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), columns[0][t],
                 columns[1][t], columns[2][t]});
  }
  return targets;
}

std::size_t InverseKinematics::solved_count() const {
  return static_cast<std::size_t>(std::ranges::count(solved, 1));
}

std::vector<double> ik_start(const Chain& chain, std::size_t target, std::size_t start,
                             std::uint64_t seed) {
  std::vector<double> q;
  for (const Joint* joint : chain.moving()) {
    const bool limited = joint->kind != Joint::Kind::continuous;
    const double lower = limited ? joint->lower : -std::numbers::pi;
    const double upper = limited ? joint->upper : std::numbers::pi;
    const std::uint64_t number = ((seed << 48U) ^ (start << 40U) ^ target) * 64 + q.size();
    const double share = start == 0 ? 0.5 : uniform(number);
    q.push_back(std::clamp(lower + share * (upper - lower), lower, upper));
  }
  return q;
}

InverseKinematics inverse_kinematics(const Chain& chain, const Targets& targets,
                                     const InverseKinematicsOptions& options) {
  check(targets, options);
  const auto begin = std::chrono::steady_clock::now();
  Rounds rounds(chain, targets, options);
  for (int s = 0; s < options.starts && !rounds.done() && !(s > 0 && Interrupts::came()); ++s)
    rounds.run(static_cast<std::size_t>(s));
  InverseKinematics out = rounds.take();
  out.seconds = seconds_since(begin);
  return out;
}

std::string to_csv(const Chain& chain, const InverseKinematics& result) {
  std::string text = "target";
  const std::vector<const Joint*> joints = chain.moving();
  for (const Joint* joint : joints) {
    std::string name = joint->name;
    if (name.find_first_of(",\"\n") != name.npos) {
      for (std::size_t at = 0; (at = name.find('"', at)) != name.npos; at += 2)
        name.insert(at, 1, '"');
      name = '"' + name + '"';
    }
    text += "," + name;
  }
  text += ",solved,position_error,rotation_error,starts\n";
  for (std::size_t t = 0; t < result.count(); ++t) {
    text += std::to_string(t);
    for (std::size_t k = 0; k < joints.size(); ++k) {
      text += ',';
      append(text, result.q[t * joints.size() + k]);
    }
    text += result.solved[t] != 0 ? ",1," : ",0,";
    append(text, result.position_error[t]);
    text += ',';
    append(text, result.rotation_error[t]);
    text += "," + std::to_string(result.starts[t]) + "\n";
  }
  return text;
}

}  // namespace topograd::problems
