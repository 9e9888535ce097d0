// Robots from URDF files, and inverse kinematics of many targets.
#include "../../ir/error.hpp"
#include "../../tools/problems/inverse_kinematics.hpp"
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using problems::Chain;
using problems::InverseKinematics;
using problems::Joint;
using problems::PoseNumbers;
using problems::Targets;

std::string arm_file() { return (source_dir() / "samples/data/arm7.urdf").string(); }
std::string targets_file() { return (source_dir() / "samples/data/arm7_targets.csv").string(); }
Chain arm() { return problems::read_chain(read_file(arm_file()), "arm7.urdf", ""); }

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Two links, and what is in the joint between them.
std::string two_links(const std::string& joint) {
  return "<robot name=\"r\">\n<link name=\"a\"/>\n<link name=\"b\"/>\n" + joint + "\n</robot>\n";
}
std::string joint_of(const std::string& type, const std::string& inside) {
  return "<joint name=\"j\" type=\"" + type + "\"><parent link=\"a\"/><child link=\"b\"/>" +
         inside + "</joint>";
}

TEST(Robot, TipOfTheArmIsWhereItsLengthsPutIt) {
  const Chain chain = arm();
  EXPECT_EQ(chain.unknowns(), 7u);
  EXPECT_EQ(chain.root, "link0");
  EXPECT_EQ(chain.tip, "flange");
  // Stretched: 0.333 + 0.316 + 0.384 − 0.107 up, 0.088 ahead, upside down.
  const std::vector<double> zero(7, 0.0);
  const PoseNumbers stretched = problems::tip_pose(chain, zero.data());
  const PoseNumbers known = {1, 0, 0, 0, -1, 0, 0, 0, -1, 0.088, 0, 0.926};
  for (std::size_t k = 0; k < 12; ++k) EXPECT_NEAR(stretched[k], known[k], 1e-15) << k;
  // Products of SciPy's rotation matrices.
  const double q[7] = {0.3, -0.5, 0.2, -1.5, 0.4, 1.9, -0.7};
  const PoseNumbers bent = problems::tip_pose(chain, q);
  const PoseNumbers scipy = {0.056123016236413525, 0.8567309759698651,   0.5127009282829993,
                             0.6703980905305501,   -0.41286990535473383, 0.616526432089789,
                             0.7398760756109897,   0.30911240037581006,  -0.5975223147903226,
                             0.2630772803493165,   0.2314994441392339,   0.9257601855947784};
  for (std::size_t k = 0; k < 12; ++k) EXPECT_NEAR(bent[k], scipy[k], 1e-14) << k;
}

TEST(Robot, AnyAxisAndOrigin) {
  // A turn by 120° about (1, 1, 1) permutes the axes.
  const Chain turning = problems::read_chain(
      two_links(joint_of("continuous", "<axis xyz=\"1 1 1\"/><origin xyz=\"1 2 3\"/>")), "r", "");
  const double third = 2 * std::numbers::pi / 3;
  const PoseNumbers turned = problems::tip_pose(turning, &third);
  const PoseNumbers permuted = {0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 2, 3};
  for (std::size_t k = 0; k < 12; ++k) EXPECT_NEAR(turned[k], permuted[k], 1e-15) << k;
  // Yaw by 90°, then 2 m along the joint's x: along y.
  const Chain sliding = problems::read_chain(
      two_links(joint_of("prismatic",
                         "<origin xyz=\"0 0 1\" rpy=\"0 0 1.5707963267948966\"/>"
                         "<limit lower=\"-1\" upper=\"3\"/>")),
      "r", "");
  const double two = 2;
  const PoseNumbers moved = problems::tip_pose(sliding, &two);
  const PoseNumbers along = {0, -1, 0, 1, 0, 0, 0, 0, 1, 0, 2, 1};
  for (std::size_t k = 0; k < 12; ++k) EXPECT_NEAR(moved[k], along[k], 1e-15) << k;
}

TEST(Robot, WhatIsNoChainIsRefused) {
  const std::string turn = joint_of("continuous", "");
  const struct {
    std::string text, tip, message;
  } rows[] = {
      {"<robot><link name=\"a\"></robot>", "", "r:1: expected XML, got what is none: "},
      {"<world/>", "", "r:1: expected the element <robot>, got none"},
      {"<robot/>", "", "r:1: expected a <link>, got none"},
      {two_links(turn), "c", "r: expected --tip to be one of the links a, b, got \"c\""},
      {two_links(turn), "a", "r: expected a joint that moves between a and a, got none"},
      {two_links(""), "", "r:1: expected one link that no joint leads to, got a, b"},
      {two_links(joint_of("fixed", "")), "",
       "r: expected a joint that moves between a and b, got none"},
      {two_links(turn + "<joint name=\"k\" type=\"fixed\"><parent link=\"b\"/><child "
                        "link=\"a\"/></joint>"),
       "", "r:1: expected a link that no joint leads to, got a cycle of joints"},
      {two_links(turn + "\n<joint name=\"k\" type=\"fixed\"><parent link=\"a\"/><child "
                        "link=\"b\"/></joint>"),
       "", "r:5: expected one joint that leads to the link \"b\", got \"j\" and \"k\""},
      {two_links("<link name=\"c\"/>" + turn +
                 "<joint name=\"k\" type=\"fixed\"><parent link=\"a\"/><child "
                 "link=\"c\"/></joint>"),
       "", "r: expected --tip LINK, as the robot ends in the links b, c"},
      {two_links("<joint name=\"j\" type=\"fixed\"><parent link=\"a\"/></joint>"), "",
       "r:4: expected <child> in the joint \"j\", got none"},
      {two_links(
           "<joint name=\"j\" type=\"fixed\"><parent link=\"x\"/><child link=\"b\"/></joint>"),
       "", "r:4: expected a link, got \"x\", which is none"},
      {two_links(joint_of("revolute", "")), "",
       "r:4: expected <limit lower=\"...\" upper=\"...\"> in the revolute joint \"j\", got no "
       "lower"},
      {two_links(joint_of("revolute", "<limit lower=\"1\" upper=\"-1\"/>")), "",
       "r:4: expected lower <= upper in the joint \"j\", got 1 and -1"},
      {two_links(joint_of("revolute", "<limit lower=\"nan\" upper=\"1\"/>")), "",
       "r:4: expected a finite number in lower, got \"nan\""},
      {two_links(joint_of("continuous", "<origin xyz=\"0 1\"/>")), "",
       "r:4: expected three numbers in xyz, got \"0 1\""},
      {two_links(joint_of("continuous", "<origin rpy=\"0 ${pi} 0\"/>")), "",
       "r:4: expected a finite number in rpy, got \"${pi}\""},
      {two_links(joint_of("continuous", "<axis xyz=\"0 0 0\"/>")), "",
       "r:4: expected an axis that is not zero in \"j\""},
      {two_links(joint_of("ball", "")), "", "r:4: expected the type of a joint, got \"ball\""},
      {two_links(joint_of("floating", "")), "",
       "r: joint \"j\" is floating: expected revolute, continuous, prismatic or fixed"},
      {two_links(joint_of("continuous", "<mimic joint=\"k\"/>")), "",
       "r: joint \"j\" mimics \"k\": expected joints that move by themselves"}};
  for (const auto& [text, tip, expected] : rows) {
    const std::string got =
        message_of([&, &t = text, &link = tip] { problems::read_chain(t, "r", link); });
    EXPECT_EQ(got.substr(0, expected.size()), expected) << text;
  }
}

TEST(InverseKinematics, ReachesPosesWithinTheLimits) {
  const Chain chain = arm();
  std::mt19937_64 random(5);
  Targets targets;
  for (int t = 0; t < 1000; ++t) {
    std::vector<double> q;
    for (const Joint* joint : chain.moving())
      q.push_back(std::uniform_real_distribution<double>(joint->lower, joint->upper)(random));
    targets.add(problems::tip_pose(chain, q.data()));
  }
  const InverseKinematics result = problems::inverse_kinematics(chain, targets);
  EXPECT_GE(result.solved_count(), 995u);
  const std::vector<const Joint*> joints = chain.moving();
  for (std::size_t t = 0; t < result.count(); ++t) {
    const double* const q = &result.q[7 * t];
    for (std::size_t k = 0; k < 7; ++k) {
      EXPECT_GE(q[k], joints[k]->lower) << t;
      EXPECT_LE(q[k], joints[k]->upper) << t;
    }
    if (result.solved[t] == 0) continue;
    const PoseNumbers pose = problems::tip_pose(chain, q);
    const double* const asked = &targets.poses[12 * t];
    double square = 0, trace = 0;
    for (std::size_t k = 0; k < 3; ++k) square += std::pow(pose[9 + k] - asked[9 + k], 2);
    for (std::size_t k = 0; k < 9; ++k) trace += pose[k] * asked[k];
    EXPECT_LE(std::sqrt(square), 5e-3) << t;
    EXPECT_GE(trace, 1 + 2 * std::cos(0.05) - 1e-12) << t;
  }
}

TEST(InverseKinematics, SolverTakesOneSetOfTargetsAfterTheOther) {
  const Chain chain = arm();
  const Targets all = problems::read_targets(read_file(targets_file()), "targets");
  Targets few;
  few.poses.assign(all.poses.begin(), all.poses.begin() + 5 * 12);
  problems::InverseKinematicsSolver solver(chain, {.starts = 20});
  const std::array<const Targets*, 3> sets = {&all, &few, &all};
  for (const Targets* targets : sets) {
    const InverseKinematics again = solver.solve(*targets);
    const InverseKinematics once = problems::inverse_kinematics(chain, *targets, {.starts = 20});
    EXPECT_EQ(again.q, once.q);
    EXPECT_EQ(again.starts, once.starts);
    EXPECT_EQ(again.solved_count(), targets->count());
  }
}

TEST(InverseKinematics, MoreStartsFindNoWorseResults) {
  const Chain chain = arm();
  const Targets targets = problems::read_targets(read_file(targets_file()), "targets");
  const InverseKinematics one = problems::inverse_kinematics(chain, targets, {.starts = 1});
  const InverseKinematics many = problems::inverse_kinematics(chain, targets, {.starts = 20});
  const auto size = [](const InverseKinematics& r, std::size_t t) {
    return std::max(r.position_error[t] / 5e-3, r.rotation_error[t] / 0.05);
  };
  for (std::size_t t = 0; t < targets.count(); ++t) EXPECT_LE(size(many, t), size(one, t)) << t;
  EXPECT_LT(one.solved_count(), targets.count());
  EXPECT_EQ(many.solved_count(), targets.count());
}

TEST(IkCommand, WritesJointsOfEachTarget) {
  const TemporaryDir folder;
  const std::string csv = folder.path() / "q.csv", json = folder.path() / "q.json";
  const std::string arguments =
      "solve ik --robot '" + arm_file() + "' --targets '" + targets_file() + "'";
  const CommandResult run = topograd(arguments + " --out '" + csv + "' --json '" + json + "'");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_TRUE(run.out.starts_with("40 of 40 targets reached (100.00 %)")) << run.out;
  const nlohmann::json report = read_json(json);
  EXPECT_EQ(report["termination"], "CONVERGENCE");
  EXPECT_EQ(report["targets"], 40);
  EXPECT_EQ(report["solved"], 40);
  EXPECT_EQ(report["tip"], "flange");
  EXPECT_EQ(report["joints"].size(), 7u);
  EXPECT_EQ(report["joints"][3]["upper"], -0.0698);
  EXPECT_LE(report["position_error"]["largest"].get<double>(), 5e-3);
  const std::string text = read_file(csv);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "target,joint1,joint2,joint3,joint4,joint5,joint6,joint7,solved,position_error,"
            "rotation_error,starts");
  EXPECT_EQ(std::ranges::count(text, '\n'), 41);
}

TEST(IkCommand, SaysWhatItCouldNotReach) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "far.csv", json = folder.path() / "q.json";
  const auto run = [&](const std::string& targets, const std::string& options) {
    std::ofstream(file) << targets;
    return topograd("solve ik --robot '" + arm_file() + "' --targets '" + file + "' " + options);
  };
  const std::string far = "x,y,z,qx,qy,qz,qw\n9,0,0,0,0,0,1\n0.3,0.1,0.5,1,0,0,0\n";
  const CommandResult result = run(far, "--starts 4 --json '" + json + "'");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err,
            "topograd: warning: NO_CONVERGENCE: 1 of 2 targets were not reached within both "
            "tolerances\n");
  EXPECT_EQ(read_json(json)["unsolved"], nlohmann::json::array({0}));
  EXPECT_EQ(run(far, "--starts 4 --require-convergence").status, 1);
  const struct {
    std::string targets, options, error;
  } rows[] = {
      {"x,y,z,qx,qy,qz,qw\n0,0,nan,0,0,0,1\n", "", file + ":2: "},
      {"x,y,z,qx,qy,qz,qw\n0,0,0,0,0,0,0\n", "",
       file + ": expected a unit quaternion qx, qy, qz, qw in target 0, got one of length 0"},
      {"x,y,z\n0,0,0\n", "", file + ":"},
      {far, "--tip hand", "one of the links link0, link1, link2"},
      {far, "--position-tolerance 0", "expected tolerances > 0, got 0"},
      {far, "--peer ceres", "ik: --peer expects another problem"},
      {far, "--mesh x.obj", "expected --mesh with "}};
  for (const auto& [targets, options, error] : rows) {
    const CommandResult bad = run(targets, options);
    EXPECT_EQ(bad.status, 2) << options;
    EXPECT_NE(bad.err.find(error), bad.err.npos) << bad.err << "expected: " << error;
  }
}

}  // namespace
}  // namespace topograd::test
