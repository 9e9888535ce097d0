// Reads chains of URDF robots.
#include "robot.hpp"

#include "../../ir/error.hpp"

#include <Eigen/Geometry>
#include <pugixml.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

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

}  // namespace topograd::problems
