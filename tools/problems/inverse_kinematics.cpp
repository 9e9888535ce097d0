// Reads chains of URDF robots; inverse kinematics of many targets as copies of one problem.
#include "inverse_kinematics.hpp"

#include "../../api/problem_file/csv.hpp"
#include "../../frontend/value/math.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../runtime/cpu/tiles/pool.hpp"
#include "../../solver/interrupts.hpp"

#include <Eigen/Geometry>
#include <pugixml.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace topograd::problems {
namespace {

using ByRows = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

/// A joint of the file with the links that it connects.
struct Connection {
  pugi::xml_node node;
  std::string name, parent, child;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {
    const pugi::xml_parse_result result = document_.load_buffer(text.data(), text.size());
    if (!result)
      fail_at(result.offset,
              "expected XML, got what is none: " + std::string(result.description()));
    robot_ = document_.child("robot");
    if (!robot_) fail_at(0, "expected the element <robot>, got none");
  }

  Chain chain(const std::string& tip) {
    read_links();
    read_connections();
    Chain chain{.robot = robot_.attribute("name").as_string(), .root = root()};
    chain.tip = tip.empty() ? only_tip() : tip;
    if (links_.find(chain.tip) == links_.end())
      throw Error(ErrorCode::InvalidArgument, name_ + ": expected --tip to be one of the links " +
                                                  listed(names_) + ", got \"" + tip + "\"");
    std::set<std::string> seen;
    for (std::string link = chain.tip; parent_of_.count(link) > 0;) {
      const Connection& to = connections_[parent_of_.at(link)];
      if (!seen.insert(link).second) fail(to.node, "joint \"" + to.name + "\" closes a cycle");
      chain.joints.push_back(read_joint(to));
      link = to.parent;
    }
    std::ranges::reverse(chain.joints);
    if (chain.unknowns() == 0)
      throw Error(ErrorCode::InvalidArgument, name_ + ": expected a joint that moves between " +
                                                  chain.root + " and " + chain.tip + ", got none");
    return chain;
  }

 private:
  [[noreturn]] void fail_at(std::ptrdiff_t offset, const std::string& what) const {
    const std::string_view before =
        text_.substr(0, static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset)));
    const auto line = 1 + std::ranges::count(before, '\n');
    throw Error(ErrorCode::Parse, name_ + ":" + std::to_string(line) + ": " + what);
  }
  [[noreturn]] void fail(const pugi::xml_node& node, const std::string& what) const {
    fail_at(node.offset_debug(), what);
  }

  static std::string listed(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
  }

  std::string required(const pugi::xml_node& node, const char* attribute) const {
    const std::string value = node.attribute(attribute).as_string();
    if (value.empty())
      fail(node, "expected the attribute " + std::string(attribute) + " of <" + node.name() +
                     ">, got none");
    return value;
  }

  void read_links() {
    for (const pugi::xml_node& link : robot_.children("link")) {
      const std::string name = required(link, "name");
      if (!links_.insert(name).second) fail(link, "the link \"" + name + "\" is there twice");
      names_.push_back(name);
    }
    if (links_.empty()) fail(robot_, "expected a <link>, got none");
  }

  std::string end_of(const pugi::xml_node& joint, const char* which) const {
    const pugi::xml_node end = joint.child(which);
    if (!end)
      fail(joint, "expected <" + std::string(which) + "> in the joint \"" +
                      joint.attribute("name").as_string() + "\", got none");
    const std::string link = required(end, "link");
    if (links_.count(link) == 0) fail(end, "expected a link, got \"" + link + "\", which is none");
    return link;
  }

  void read_connections() {
    std::set<std::string> seen;
    for (const pugi::xml_node& joint : robot_.children("joint")) {
      Connection c{joint, required(joint, "name"), end_of(joint, "parent"), end_of(joint, "child")};
      if (!seen.insert(c.name).second) fail(joint, "the joint \"" + c.name + "\" is there twice");
      if (!parent_of_.emplace(c.child, connections_.size()).second)
        fail(joint, "expected one joint that leads to the link \"" + c.child + "\", got \"" +
                        connections_[parent_of_.at(c.child)].name + "\" and \"" + c.name + "\"");
      connections_.push_back(std::move(c));
    }
  }

  /// The only link that no joint leads to.
  std::string root() const {
    std::vector<std::string> roots;
    for (const std::string& link : names_)
      if (parent_of_.count(link) == 0) roots.push_back(link);
    if (roots.size() == 1) return roots.front();
    if (roots.empty())
      fail(robot_, "expected a link that no joint leads to, got a cycle of joints");
    fail(robot_, "expected one link that no joint leads to, got " + listed(roots));
  }

  std::string only_tip() const {
    std::vector<std::string> tips;
    for (const std::string& link : names_)
      if (std::ranges::none_of(connections_, [&](const Connection& c) { return c.parent == link; }))
        tips.push_back(link);
    if (tips.size() == 1) return tips.front();
    throw Error(ErrorCode::InvalidArgument,
                name_ + ": expected --tip LINK, as the robot ends in the links " + listed(tips));
  }

  double number(const pugi::xml_node& node, std::string_view word, const std::string& what) const {
    double value = 0;
    const char* const end = word.data() + word.size();
    const auto [rest, code] =
        std::from_chars(word.data() + (word.starts_with('+') ? 1 : 0), end, value);
    if (code != std::errc() || rest != end || !std::isfinite(value))
      fail(node, "expected a finite number in " + what + ", got \"" + std::string(word) + "\"");
    return value;
  }

  /// Three numbers of an attribute; `otherwise` without it.
  std::array<double, 3> three(const pugi::xml_node& node, const char* attribute,
                              std::array<double, 3> otherwise) const {
    if (!node.attribute(attribute)) return otherwise;
    const std::string text = node.attribute(attribute).as_string();
    std::array<double, 3> out{};
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find_first_not_of(" \t\r\n", at)) != text.npos; ++count) {
      const std::size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
      if (count < 3)
        out[count] = number(node, std::string_view(text).substr(at, end - at), attribute);
      at = end;
    }
    if (count != 3)
      fail(node, "expected three numbers in " + std::string(attribute) + ", got \"" + text + "\"");
    return out;
  }

  double limit(const pugi::xml_node& node, const char* attribute, const Connection& c) const {
    if (!node.attribute(attribute))
      fail(c.node, "expected <limit lower=\"...\" upper=\"...\"> in the " +
                       std::string(c.node.attribute("type").as_string()) + " joint \"" + c.name +
                       "\", got no " + attribute);
    return number(node, node.attribute(attribute).as_string(), attribute);
  }

  static std::array<double, 9> rotation_of(const std::array<double, 3>& rpy) {
    // What remains of a quarter turn's sine or cosine is rounding of π.
    const auto clean = [](double v) { return std::fabs(v) < 1e-15 ? 0 : v; };
    const double cr = clean(std::cos(rpy[0])), sr = clean(std::sin(rpy[0]));
    const double cp = clean(std::cos(rpy[1])), sp = clean(std::sin(rpy[1]));
    const double cy = clean(std::cos(rpy[2])), sy = clean(std::sin(rpy[2]));
    return {cy * cp,
            cy * sp * sr - sy * cr,
            cy * sp * cr + sy * sr,
            sy * cp,
            sy * sp * sr + cy * cr,
            sy * sp * cr - cy * sr,
            -sp,
            cp * sr,
            cp * cr};
  }

  Joint::Kind kind_of(const Connection& c) const {
    const std::string type = required(c.node, "type");
    if (type == "fixed") return Joint::Kind::fixed;
    if (c.node.child("mimic"))
      throw Error(ErrorCode::Unsupported, name_ + ": joint \"" + c.name + "\" mimics \"" +
                                              c.node.child("mimic").attribute("joint").as_string() +
                                              "\": expected joints that move by themselves");
    if (type == "revolute") return Joint::Kind::revolute;
    if (type == "continuous") return Joint::Kind::continuous;
    if (type == "prismatic") return Joint::Kind::prismatic;
    if (type == "floating" || type == "planar")
      throw Error(ErrorCode::Unsupported,
                  name_ + ": joint \"" + c.name + "\" is " + type +
                      ": expected revolute, continuous, prismatic or fixed");
    fail(c.node, "expected the type of a joint, got \"" + type + "\"");
  }

  Joint read_joint(const Connection& c) const {
    Joint joint{.name = c.name, .kind = kind_of(c)};
    const pugi::xml_node origin = c.node.child("origin");
    joint.xyz = three(origin, "xyz", {0, 0, 0});
    joint.rotation = rotation_of(three(origin, "rpy", {0, 0, 0}));
    if (!joint.moves()) return joint;
    const pugi::xml_node axis = c.node.child("axis");
    joint.axis = three(axis, "xyz", {1, 0, 0});
    const double length = std::hypot(joint.axis[0], joint.axis[1], joint.axis[2]);
    if (!(length > 1e-6)) fail(axis, "expected an axis that is not zero in \"" + c.name + "\"");
    if (std::fabs(length - 1) > 1e-15)
      for (double& a : joint.axis) a /= length;
    if (joint.kind == Joint::Kind::continuous) return joint;
    const pugi::xml_node range = c.node.child("limit");
    joint.lower = limit(range, "lower", c);
    joint.upper = limit(range, "upper", c);
    if (!(joint.lower <= joint.upper))
      fail(range, "expected lower <= upper in the joint \"" + c.name + "\", got " +
                      range.attribute("lower").as_string() + " and " +
                      range.attribute("upper").as_string());
    return joint;
  }

  std::string_view text_;
  const std::string& name_;
  pugi::xml_document document_;
  pugi::xml_node robot_;
  std::set<std::string> links_;
  std::vector<std::string> names_;  // of links, in the order of the file
  std::vector<Connection> connections_;
  std::map<std::string, std::size_t> parent_of_;  // by child link
};

}  // namespace

std::size_t Chain::unknowns() const {
  return static_cast<std::size_t>(std::ranges::count_if(joints, &Joint::moves));
}

std::vector<const Joint*> Chain::moving() const {
  std::vector<const Joint*> out;
  for (const Joint& joint : joints)
    if (joint.moves()) out.push_back(&joint);
  return out;
}

Chain read_chain(std::string_view urdf, const std::string& name, const std::string& tip) {
  return Reader(urdf, name).chain(tip);
}

PoseNumbers tip_pose(const Chain& chain, const double* q) {
  Eigen::Matrix3d rotation = Eigen::Matrix3d::Identity();
  Eigen::Vector3d position = Eigen::Vector3d::Zero();
  for (const Joint& joint : chain.joints) {
    const Eigen::Map<const Eigen::Vector3d> axis(joint.axis.data());
    position += rotation * Eigen::Map<const Eigen::Vector3d>(joint.xyz.data());
    rotation *= Eigen::Map<const ByRows>(joint.rotation.data());
    if (!joint.moves()) continue;
    const double by = *q++;
    if (joint.kind == Joint::Kind::prismatic) {
      position += by * (rotation * axis);
    } else {
      rotation *= Eigen::AngleAxisd(by, axis).toRotationMatrix();
    }
  }
  PoseNumbers out{};
  Eigen::Map<ByRows>(out.data()) = rotation;
  Eigen::Map<Eigen::Vector3d>(out.data() + 9) = position;
  return out;
}

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

void require(bool ok, const std::string& what, const std::string& got) {
  if (!ok)
    throw Error(ErrorCode::InvalidArgument,
                "inverse_kinematics: expected " + what + ", got " + got);
}

void check(const InverseKinematicsOptions& options) {
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

/// Joint values at which a target's solve starts.
void write_ik_start(std::span<const Joint* const> joints, std::size_t target, std::size_t start,
                    std::uint64_t seed, double* q) {
  for (std::size_t k = 0; k < joints.size(); ++k) {
    const bool limited = joints[k]->kind != Joint::Kind::continuous;
    const double lower = limited ? joints[k]->lower : -std::numbers::pi;
    const double upper = limited ? joints[k]->upper : std::numbers::pi;
    const std::uint64_t number = ((seed << 48U) ^ (start << 40U) ^ target) * 64 + k;
    const double share = start == 0 ? 0.5 : uniform(number);
    q[k] = std::clamp(lower + share * (upper - lower), lower, upper);
  }
}

void append(std::string& text, double value) {
  std::array<char, 32> digits;  // NOLINT(*-member-init): what is read is set
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  text.append(digits.data(), end);
}

/// Targets whose starts and errors a thread computes at once.
constexpr std::size_t kTargetsAtOnce = 256;

/// Starts that all open targets get in one round. A device solves from many in the time of one, so
/// there three times as many as before; those after the first that reaches its target are not used.
std::size_t starts_of_round(std::size_t first, const InverseKinematicsOptions& options) {
  const std::size_t left = static_cast<std::size_t>(options.starts) - first;
  return options.solver.backend == Backend::vulkan ? std::clamp<std::size_t>(3 * first, 1, left)
                                                   : 1;
}

}  // namespace

/// Starts and targets of the solves of a round.
struct InverseKinematicsSolver::Memory {
  std::vector<double> x, poses;
};

/// The solves of all targets, round by round.
class InverseKinematicsSolver::Rounds {
 public:
  Rounds(const Chain& chain, const Targets& targets, const InverseKinematicsOptions& options,
         ManySolver& solver, Memory& memory)
      : chain_(chain),
        targets_(targets),
        options_(options),
        solver_(solver),
        memory_(memory),
        pool_(options.solver.threads),
        joints_(chain.moving()),
        open_(targets.count()) {
    std::iota(open_.begin(), open_.end(), std::size_t{0});
    out_.q.resize(targets.count() * joints_.size());
    out_.position_error.assign(targets.count(), std::numeric_limits<double>::infinity());
    out_.rotation_error = out_.position_error;
    out_.solved.assign(targets.count(), 0);
    out_.starts.assign(targets.count(), 0);
  }

  bool done() const { return open_.empty() || first_ >= static_cast<std::size_t>(options_.starts); }

  void run() {
    const std::size_t n = joints_.size(), open = open_.size();
    const std::size_t starts = starts_of_round(first_, options_), solves = starts * open;
    std::vector<double>& x = memory_.x;
    x.resize(n * solves);
    memory_.poses.resize(kPose * solves);
    for_all(solves, [&](std::size_t k) {
      const std::size_t target = open_[k % open];
      write_ik_start(joints_, target, first_ + k / open, options_.seed, &x[n * k]);
      std::copy_n(&targets_.poses[kPose * target], kPose, &memory_.poses[kPose * k]);
    });
    Summary summary = solver_.solve(x, std::array{std::span<const double>(memory_.poses)});
    out_.solves += solves;
    for (const auto* steps :
         {&summary.components.successful_steps, &summary.components.unsuccessful_steps})
      out_.steps += std::accumulate(steps->begin(), steps->end(), std::uint64_t{0});
    for_all(open, [&](std::size_t k) {
      const std::size_t target = open_[k];
      for (std::size_t s = k; s < solves && out_.solved[target] == 0; s += open)
        judge(target, errors_at(target, &x[n * s]), &x[n * s]);
    });
    std::erase_if(open_, [&](std::size_t t) { return out_.solved[t] != 0; });
    if (first_ == 0) out_.first = std::move(summary);
    first_ += starts;
  }

  InverseKinematics take() { return std::move(out_); }

 private:
  template <class F>
  void for_all(std::size_t count, const F& f) {
    pool_.for_ranges(count, kTargetsAtOnce, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = begin; k < end; ++k) f(k);
    });
  }
  /// Brings joints without limits within half a turn, too.
  Errors errors_at(std::size_t target, double* q) const {
    for (std::size_t k = 0; k < joints_.size(); ++k)
      if (joints_[k]->kind == Joint::Kind::continuous)
        q[k] = std::remainder(q[k], 2 * std::numbers::pi);
    return errors_between(tip_pose(chain_, q).data(), &targets_.poses[kPose * target]);
  }
  /// Keeps the better one of what was there and these joint values.
  void judge(std::size_t target, const Errors& errors, const double* q) {
    ++out_.starts[target];
    if (out_.starts[target] > 1 &&
        !(size(errors) < size({out_.position_error[target], out_.rotation_error[target]})))
      return;
    out_.position_error[target] = errors.position;
    out_.rotation_error[target] = errors.rotation;
    out_.solved[target] = errors.position <= options_.position_tolerance &&
                          errors.rotation <= options_.rotation_tolerance;
    std::copy_n(q, joints_.size(), &out_.q[target * joints_.size()]);
  }
  /// 1 at both tolerances: the larger of the errors in units of them.
  double size(const Errors& errors) const {
    return std::max(errors.position / options_.position_tolerance,
                    errors.rotation / options_.rotation_tolerance);
  }

  const Chain& chain_;
  const Targets& targets_;
  const InverseKinematicsOptions& options_;
  ManySolver& solver_;
  Memory& memory_;
  runtime::cpu::Pool pool_;
  std::vector<const Joint*> joints_;
  std::vector<std::size_t> open_;
  std::size_t first_ = 0;  // start of the next round
  InverseKinematics out_;
};

namespace {

ManySolver solver_for(const Chain& chain, const InverseKinematicsOptions& options) {
  check(options);
  ManyShape limits{.checks_ends = false};  // the errors are
  for (const Joint* joint : chain.moving()) {
    limits.lower.push_back(joint->lower);
    limits.upper.push_back(joint->upper);
  }
  const std::size_t unknowns = limits.lower.size();
  return {unknowns,
          {kPose},
          [&](const One& one) {
            return rows_of(chain, one, 1 / options.position_tolerance,
                           1 / options.rotation_tolerance);
          },
          limits,
          options.solver};
}

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
  const std::vector<const Joint*> joints = chain.moving();
  std::vector<double> q(joints.size());
  write_ik_start(joints, target, start, seed, q.data());
  return q;
}

InverseKinematicsSolver::InverseKinematicsSolver(const Chain& chain,
                                                 const InverseKinematicsOptions& options)
    : chain_(chain),
      options_(options),
      solver_(solver_for(chain, options)),
      memory_(std::make_unique<Memory>()) {}
InverseKinematicsSolver::~InverseKinematicsSolver() = default;

InverseKinematics InverseKinematicsSolver::solve(const Targets& targets) {
  require(targets.count() > 0, "at least one target", "none");
  const auto begin = std::chrono::steady_clock::now();
  Rounds rounds(chain_, targets, options_, solver_, *memory_);
  do {
    rounds.run();
  } while (!rounds.done() && !Interrupts::came());
  InverseKinematics out = rounds.take();
  out.seconds = seconds_since(begin);
  return out;
}

InverseKinematics inverse_kinematics(const Chain& chain, const Targets& targets,
                                     const InverseKinematicsOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  InverseKinematics out = InverseKinematicsSolver(chain, options).solve(targets);
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
