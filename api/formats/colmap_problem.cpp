// Bundle adjustment of COLMAP's models.
#include "colmap_problem.hpp"

#include "../../frontend/mat.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/stopwatch.hpp"
#include "../../runtime/cpu/tiles/pool.hpp"
#include "../../runtime/linear/dense.hpp"
#include "../../solver/solve.hpp"
#include "../../solver/step_control/step_rules.hpp"
#include "../../solver/summary.hpp"
#include "packed_text.hpp"
#include "retriangulation.hpp"
#include "word_reader.hpp"

#include <Eigen/Dense>
#include <Eigen/Geometry>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

namespace topograd {
namespace {

constexpr std::size_t kPose = 6;
constexpr double kLeastGain = 1e-6;  // of a point's mean cost: what moving a point must gain
constexpr std::size_t kPointsPerRange = 64, kObservationsPerRange = 1024;
constexpr double kSettled = 1e-6;  // of the cost: points are looked at where steps gain no more
constexpr double kRough = 0.01;    // of focal lengths: errors (RMS) of a start that is far
constexpr double kFlat = 1e-9;     // of an extent: what is smaller is on a line, or at one point

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::InvalidArgument, "colmap: " + what);
}

Eigen::Quaterniond quaternion(const Pose& pose) {
  const auto& [w, x, y, z] = pose.rotation;
  Eigen::Quaterniond q(w, x, y, z);
  q.coeffs().stableNormalize();
  return q;
}

Pose unit(Pose pose) {
  const Eigen::Quaterniond q = quaternion(pose);
  pose.rotation = {q.w(), q.x(), q.y(), q.z()};
  return pose;
}

Eigen::Vector3d vector3(std::span<const double> x) { return {x[0], x[1], x[2]}; }

void append_rotation(const Pose& pose, std::vector<double>& out) {
  const Eigen::AngleAxisd turn(quaternion(pose));
  const Eigen::Vector3d a = turn.angle() * turn.axis();
  out.insert(out.end(), {a.x(), a.y(), a.z()});
}

/// Writes a rotation vector to the pose that began from `first`: what is as it was stays.
void store_rotation(std::span<const double> now, std::span<const double> first, Pose& pose) {
  if (std::ranges::equal(now.first(3), first.first(3))) return;
  const Eigen::Vector3d a = vector3(now);
  const double angle = a.norm();
  Eigen::Quaterniond q = Eigen::Quaterniond::Identity();
  if (angle > 0) q = Eigen::AngleAxisd(angle, a / angle);
  if (q.coeffs().dot(quaternion(pose).coeffs()) < 0) q.coeffs() = -q.coeffs();
  pose.rotation = {q.w(), q.x(), q.y(), q.z()};
}

/// The six numbers of a frame: the position is that of the frame in the world. A translation would
/// be nearly a function of the rotation far from the origin, as in coordinates of a country.
void append_frame(const Pose& pose, std::vector<double>& out) {
  append_rotation(pose, out);
  const std::array<double, 3> center = unit(pose).inverse().position;
  out.insert(out.end(), center.begin(), center.end());
}

void store_frame(std::span<const double> now, std::span<const double> first, Pose& pose) {
  if (std::ranges::equal(now, first)) return;
  store_rotation(now, first, pose);
  const Eigen::Vector3d t = -(quaternion(pose) * vector3(now.subspan(3)));
  pose.position = {t.x(), t.y(), t.z()};
}

/// The six numbers of a sensor: a rotation vector and a translation.
void append_sensor(const Pose& pose, std::vector<double>& out) {
  append_rotation(pose, out);
  out.insert(out.end(), pose.position.begin(), pose.position.end());
}

void store_sensor(std::span<const double> now, std::span<const double> first, Pose& pose) {
  std::ranges::copy(now.subspan(3), pose.position.begin());
  store_rotation(now, first, pose);
}

std::array<Value, kPose> pose_of(const Element& e, const Parameters& poses, int column) {
  std::array<Value, kPose> out;
  for (std::size_t k = 0; k < kPose; ++k) out[k] = poses(e.index(column), static_cast<int>(k));
  return out;
}

/// R(a) (point − c), of a frame.
Vec3 in_frame(const std::array<Value, kPose>& pose, const Vec3& point) {
  return rotate(Vec3{pose[0], pose[1], pose[2]}, point - Vec3{pose[3], pose[4], pose[5]});
}

/// R(a) point + t, of a sensor.
Vec3 moved(const std::array<Value, kPose>& pose, const Vec3& point) {
  return rotate(Vec3{pose[0], pose[1], pose[2]}, point) + Vec3{pose[3], pose[4], pose[5]};
}

/// R(a)ᵀ v.
Vec3 turned_back(const std::array<Value, kPose>& pose, const Vec3& v) {
  return rotate(Vec3{-pose[0], -pose[1], -pose[2]}, v);
}

std::string text_of(double number) {
  std::string text;
  append_number(text, number);
  return text;
}

Eigen::Matrix3d matrix_of(const std::array<double, 9>& rows) {
  return Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(rows.data());
}

/// The lower triangular W with Wᵀ W = C⁻¹, row by row; none if C is not positive definite.
std::optional<std::array<double, 6>> whitening(const std::array<double, 9>& covariance) {
  const Eigen::Matrix3d C = matrix_of(covariance);
  if (!C.allFinite() || C != C.transpose()) return std::nullopt;
  const Eigen::LLT<Eigen::Matrix3d> factor(C);
  if (factor.info() != Eigen::Success) return std::nullopt;
  const Eigen::Matrix3d W = factor.matrixL().solve(Eigen::Matrix3d::Identity());
  if (!W.allFinite()) return std::nullopt;
  return std::array<double, 6>{W(0, 0), W(1, 0), W(1, 1), W(2, 0), W(2, 1), W(2, 2)};
}

/// Why a matrix has no whitening().
std::string fault_of(const std::array<double, 9>& covariance) {
  for (const double number : covariance)
    if (!std::isfinite(number)) return "one with the number " + text_of(number);
  const Eigen::Matrix3d C = matrix_of(covariance);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < i; ++j)
      if (C(i, j) != C(j, i))
        return "one that has " + text_of(C(i, j)) + " below the diagonal and " + text_of(C(j, i)) +
               " above";
  const double least =
      Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d>(C, Eigen::EigenvaluesOnly).eigenvalues()[0];
  return "one with the eigenvalue " + text_of(least);
}

/// x becomes scale (turn x) + shift.
struct Similarity {
  double scale = 1;
  Eigen::Matrix3d turn = Eigen::Matrix3d::Identity();
  Eigen::Vector3d shift = Eigen::Vector3d::Zero();
};

/// The turn by the least angle that takes one unit vector to another.
Eigen::Matrix3d nearest_turn(const Eigen::Vector3d& from, const Eigen::Vector3d& to) {
  const Eigen::Vector3d cross = from.cross(to);
  const double sine = cross.norm();
  const Eigen::Vector3d axis = sine > 0 ? Eigen::Vector3d(cross / sine) : from.unitOrthogonal();
  return Eigen::AngleAxisd(std::atan2(sine, from.dot(to)), axis).toRotationMatrix();
}

/// The similarity that takes points `from` as near as possible to points `to`, in columns, by
/// weighted squares. Points on a line leave open how it turns about the line, and one point leaves
/// open how it turns and scales: then it turns by the least angle, and keeps the scale.
/// Source: Umeyama, Least-squares estimation of transformation parameters, 1991.
Similarity nearest_similarity(Eigen::Matrix3Xd from, Eigen::Matrix3Xd to,
                              const Eigen::VectorXd& weights, bool scales) {
  const double sum = weights.sum();
  const Eigen::Vector3d start = from * weights / sum, end = to * weights / sum;
  from.colwise() -= start;
  to.colwise() -= end;
  const double of_from = weights.dot(from.colwise().squaredNorm()),
               of_to = weights.dot(to.colwise().squaredNorm());
  const runtime::Svd svd = runtime::accurate_svd(to * weights.asDiagonal() * from.transpose(),
                                                 runtime::SvdVectors::both);
  Similarity out;
  if (!svd.complete) return out;  // products beyond the range of numbers
  const Eigen::Matrix3d u = svd.u, v = svd.v;
  Eigen::Array3d d = svd.values;
  if (d[0] > kFlat * std::sqrt(of_from * of_to)) {
    if (d[1] > kFlat * d[0]) {
      const double sign = u.determinant() * v.determinant() < 0 ? -1 : 1;
      out.turn = u * Eigen::Vector3d(1, 1, sign).asDiagonal() * v.transpose();
      d[2] *= sign;
    } else {
      out.turn = nearest_turn(v.col(0), u.col(0));
      d[1] = d[2] = 0;
    }
    if (scales) out.scale = d.sum() / of_from;
  }
  out.shift = end - out.scale * (out.turn * start);
  return out;
}

struct Name {
  std::string_view name;
  bool* target;
};

}  // namespace

ColmapGauge parse_colmap_gauge(std::string_view text) {
  return parse_enum<ColmapGauge>("gauge", text);
}

Retriangulation parse_retriangulation(std::string_view text) {
  return parse_enum<Retriangulation>("retriangulate", text);
}

std::array<Value, 2> reprojection(CameraModel model, std::span<const Value> parameters,
                                  const std::array<Value, 6>& pose, const Vec3& point,
                                  const Vec2& seen) {
  const Vec2 at = project(model, parameters, in_frame(pose, point));
  return {at.x - seen.x, at.y - seen.y};
}

ColmapProblem::ColmapProblem(ColmapModel model, const ColmapOptions& options)
    : model_(std::move(model)), options_(options) {
  if (model_.observations.empty()) refuse("expected observations of 3D points, got none");
  read_refined();
  align();
  rough_ = is_rough();
  add_parameters();
  add_observations();
  add_priors(false);
  add_priors(true);
  fix_unread();
  fix_distances();
  fix_cameras();
  fix_gauge();
}

bool ColmapProblem::is_rough() const {
  if (std::ranges::none_of(model_.cameras, maps_angles, &ColmapModel::Camera::model)) return false;
  const std::vector<std::array<double, 2>> errors = model_.errors();
  double sum = 0;
  for (std::size_t k = 0; k < errors.size(); ++k) {
    const ColmapModel::Camera& camera =
        model_.cameras[model_.images[model_.observations[k].image].camera];
    const double u = errors[k][0] / camera.parameters[0],
                 v = errors[k][1] / camera.parameters[sizes(camera.model).focal - 1];
    sum += u * u + v * v;
  }
  return !(sum < kRough * kRough * static_cast<double>(errors.size()));
}

void ColmapProblem::read_refined() {
  const Name names[] = {{"focal", &refined_.focal},
                        {"principal", &refined_.principal},
                        {"distortion", &refined_.distortion},
                        {"poses", &refined_.poses},
                        {"rigs", &refined_.rigs},
                        {"points", &refined_.points}};
  for (const std::string& asked : options_.refine) {
    const auto* found = std::ranges::find(names, asked, &Name::name);
    if (found == std::end(names))
      refuse("expected focal, principal, distortion, poses, rigs or points to refine, got \"" +
             asked + "\"");
    *found->target = true;
  }
  if (options_.refine.empty()) refuse("expected something to refine, got nothing");
  const bool has_lenses = std::ranges::any_of(
      model_.cameras, [](const ColmapModel::Camera& c) { return sizes(c.model).distortion > 0; });
  const bool any = refined_.focal || refined_.principal || refined_.poses || refined_.points;
  if (!any && !(refined_.distortion && has_lenses) && !(refined_.rigs && !model_.sensors.empty()))
    refuse("expected something to refine that the model has, got \"" + options_.refine.front() +
           "\", of which it has nothing");
  for (const PositionPrior& prior : options_.priors) {
    if (prior.image >= model_.images.size())
      refuse("expected a prior of an image below " + std::to_string(model_.images.size()) +
             ", got " + std::to_string(prior.image));
    if (!whitening(prior.covariance))
      refuse("expected a positive definite covariance of the prior of image \"" +
             model_.images[prior.image].name + "\", got " + fault_of(prior.covariance));
  }
}

void ColmapProblem::align() {
  if (!options_.align_to_priors || !refined_.poses || !refined_.points) return;
  const auto count = static_cast<Eigen::Index>(options_.priors.size());
  if (count == 0) return;
  Eigen::Matrix3Xd from(3, count), to(3, count);
  Eigen::VectorXd weights(count);
  for (Eigen::Index k = 0; k < count; ++k) {
    const PositionPrior& prior = options_.priors[static_cast<std::size_t>(k)];
    from.col(k) = vector3(model_.center(prior.image));
    to.col(k) = vector3(prior.position);
    const auto& C = prior.covariance;
    weights[k] = 1 / (C[0] + C[4] + C[8]);
  }
  weights /= weights.maxCoeff();
  // Rigs whose poses stay have a scale.
  const bool scales =
      refined_.rigs || std::ranges::all_of(model_.sensors, [](const ColmapModel::Sensor& sensor) {
        return vector3(sensor.pose.position).isZero(0);
      });
  const auto [scale, turn, shift] =
      nearest_similarity(std::move(from), std::move(to), weights, scales);
  for (std::size_t k = 0; k < model_.points.size(); k += 3) {
    Eigen::Map<Eigen::Vector3d> point(&model_.points[k]);
    point = scale * (turn * point) + shift;
  }
  for (ColmapModel::Frame& frame : model_.frames) {
    const Eigen::Quaterniond q(quaternion(frame.pose).toRotationMatrix() * turn.transpose());
    const Eigen::Vector3d t = scale * vector3(frame.pose.position) - q * shift;
    frame.pose = {{t.x(), t.y(), t.z()}, {q.w(), q.x(), q.y(), q.z()}};
  }
  for (ColmapModel::Sensor& sensor : model_.sensors)
    for (double& x : sensor.pose.position) x *= scale;
  aligned_ = true;
}

void ColmapProblem::add_parameters() {
  for (const ColmapModel::Frame& frame : model_.frames) append_frame(frame.pose, pose_values_);
  for (const ColmapModel::Sensor& sensor : model_.sensors)
    append_sensor(sensor.pose, sensor_values_);
  first_poses_ = pose_values_;
  first_sensors_ = sensor_values_;
  for (const ColmapModel::Camera& camera : model_.cameras) {
    std::vector<double>& values = camera_values_[static_cast<std::size_t>(camera.model)];
    camera_blocks_.push_back(static_cast<std::uint32_t>(values.size() / sizes(camera.model).all()));
    values.insert(values.end(), camera.parameters.begin(), camera.parameters.end());
  }
  poses_ = problem_.add_parameters(pose_values_, kPose, "poses");
  if (!sensor_values_.empty()) sensors_ = problem_.add_parameters(sensor_values_, kPose, "sensors");
  for (std::size_t k = 0; k < camera_values_.size(); ++k) {
    if (camera_values_[k].empty()) continue;
    const auto model = static_cast<CameraModel>(k);
    cameras_[k] = problem_.add_parameters(camera_values_[k], static_cast<int>(sizes(model).all()),
                                          name(model));
  }
  points_ = problem_.add_parameters(model_.points, 3, "points");
}

void ColmapProblem::add_observations() {
  std::array<std::array<Group, 2>, kCountOf<CameraModel>> groups;
  for (const ColmapModel::Observation& o : model_.observations) {
    const ColmapModel::Image& image = model_.images[o.image];
    const bool of_sensor = image.sensor != ColmapModel::kNoSensor;
    const auto model = static_cast<std::size_t>(model_.cameras[image.camera].model);
    Group& group = groups[model][of_sensor ? 1 : 0];
    group.indices.insert(group.indices.end(), {image.frame, camera_blocks_[image.camera], o.point});
    if (of_sensor) group.indices.push_back(image.sensor);
    group.seen.insert(group.seen.end(), o.seen.begin(), o.seen.end());
  }
  for (std::size_t k = 0; k < groups.size(); ++k)
    for (const bool of_sensors : {false, true})
      add_group(static_cast<CameraModel>(k), of_sensors, groups[k][of_sensors ? 1 : 0]);
}

void ColmapProblem::add_group(CameraModel model, bool of_sensors, const Group& group) {
  if (group.seen.empty()) return;
  const auto residual = [model, of_sensors, poses = poses_, sensors = sensors_, points = points_,
                         cameras = this->cameras(model)](const Element& e) {
    std::array<Value, kMostCameraParameters> parameters;
    const std::size_t count = sizes(model).all();
    for (std::size_t k = 0; k < count; ++k)
      parameters[k] = cameras(e.index(1), static_cast<int>(k));
    Vec3 point = in_frame(pose_of(e, poses, 0), e.vec3(points, 2));
    if (of_sensors) point = moved(pose_of(e, sensors, 3), point);
    const Vec2 at = project(model, std::span<const Value>(parameters.data(), count), point);
    return Vec2{at.x - e.data(0), at.y - e.data(1)};
  };
  problem_.add_residuals(group.seen.size() / 2, residual,
                         {.indices = group.indices,
                          .data = group.seen,
                          .loss = options_.loss,
                          .label = "observation"});
}

/// Numbers of an element: the measured position, and W.
void ColmapProblem::add_priors(bool of_sensors) {
  std::vector<std::uint32_t> indices;
  std::vector<double> data;
  for (const PositionPrior& prior : options_.priors) {
    const ColmapModel::Image& image = model_.images[prior.image];
    if ((image.sensor != ColmapModel::kNoSensor) != of_sensors) continue;
    indices.push_back(image.frame);
    if (of_sensors) indices.push_back(image.sensor);
    data.insert(data.end(), prior.position.begin(), prior.position.end());
    const std::array<double, 6> weights = *whitening(prior.covariance);
    data.insert(data.end(), weights.begin(), weights.end());
  }
  if (data.empty()) return;
  const auto residual = [of_sensors, poses = poses_, sensors = sensors_](const Element& e) {
    const std::array<Value, kPose> pose = pose_of(e, poses, 0);
    Vec3 off = Vec3{pose[3], pose[4], pose[5]} - e.data_vec3(0);
    if (of_sensors) {
      const std::array<Value, kPose> sensor = pose_of(e, sensors, 1);
      off = off - turned_back(pose, turned_back(sensor, {sensor[3], sensor[4], sensor[5]}));
    }
    return Vec3{e.data(3) * off.x, e.data(4) * off.x + e.data(5) * off.y,
                e.data(6) * off.x + e.data(7) * off.y + e.data(8) * off.z};
  };
  problem_.add_residuals(
      data.size() / 9, residual,
      {.indices = indices, .data = data, .loss = options_.prior_loss, .label = "prior"});
}

/// Nothing moves what no residual reads, or what is not refined.
void ColmapProblem::fix_unread() {
  std::vector<bool> frames(model_.frames.size()), sensors(model_.sensors.size()),
      points(model_.point_count());
  const auto read_image = [&](const ColmapModel::Image& image) {
    frames[image.frame] = true;
    if (image.sensor != ColmapModel::kNoSensor) sensors[image.sensor] = true;
  };
  for (const ColmapModel::Observation& o : model_.observations) {
    read_image(model_.images[o.image]);
    points[o.point] = true;
  }
  for (const PositionPrior& prior : options_.priors) read_image(model_.images[prior.image]);
  const auto fix = [&](const Parameters& x, const std::vector<bool>& read, bool refined) {
    for (std::size_t k = 0; k < read.size(); ++k)
      if (!refined || !read[k]) problem_.set_constant(x, k);
  };
  fix(poses_, frames, refined_.poses);
  fix(sensors_, sensors, refined_.rigs);
  fix(points_, points, refined_.points);
}

/// A point that one image shows keeps a coordinate: its distance changes no residual.
void ColmapProblem::fix_distances() {
  if (!refined_.points) return;
  constexpr std::uint32_t kNone = ~std::uint32_t{0}, kSeveral = kNone - 1;
  std::vector<std::uint32_t> images(model_.point_count(), kNone);
  for (const ColmapModel::Observation& o : model_.observations) {
    std::uint32_t& image = images[o.point];
    image = image == kNone || image == o.image ? o.image : kSeveral;
  }
  for (std::size_t k = 0; k < images.size(); ++k) {
    if (images[k] >= kSeveral) continue;
    Eigen::Index along = 0;
    (vector3(std::span(model_.points).subspan(3 * k, 3)) - vector3(model_.center(images[k])))
        .cwiseAbs()
        .maxCoeff(&along);
    problem_.set_constant(points_, k, 1u << along);
  }
}

void ColmapProblem::fix_cameras() {
  std::vector<bool> read(model_.cameras.size());
  for (const ColmapModel::Observation& o : model_.observations)
    read[model_.images[o.image].camera] = true;
  for (std::size_t k = 0; k < read.size(); ++k) {
    const CameraModel model = model_.cameras[k].model;
    const CameraModelSizes n = sizes(model);
    const std::uint32_t focal = (1u << n.focal) - 1, principal = 3u << n.focal,
                        distortion = ((1u << n.distortion) - 1) << (n.focal + 2);
    std::uint32_t fixed = 0;
    if (!refined_.focal || !read[k]) fixed |= focal;
    if (!refined_.principal || !read[k]) fixed |= principal;
    if (!refined_.distortion || !read[k]) fixed |= distortion;
    if (fixed != 0) problem_.set_constant(cameras(model), camera_blocks_[k], fixed);
  }
}

void ColmapProblem::fix_gauge() {
  gauge_ = options_.gauge;
  if (gauge_ == ColmapGauge::automatic)
    gauge_ = options_.priors.empty() ? ColmapGauge::two_cameras : ColmapGauge::none;
  if (!refined_.poses || !refined_.points) gauge_ = ColmapGauge::none;  // what stays fixes it
  if (gauge_ == ColmapGauge::none) return;
  if (gauge_ == ColmapGauge::three_points) return fix_three_points();
  const std::size_t first = model_.images[model_.observations[0].image].frame;
  if (gauge_ == ColmapGauge::two_cameras && !fix_scale(first)) return fix_three_points();
  problem_.set_constant(poses_, first);
}

/// Fixes one coordinate of the position of the farthest frame, or finds that rigs have the scale;
/// false if there is no frame elsewhere.
bool ColmapProblem::fix_scale(std::size_t first) {
  for (const ColmapModel::Observation& o : model_.observations) {
    const std::uint32_t sensor = model_.images[o.image].sensor;
    if (refined_.rigs || sensor == ColmapModel::kNoSensor) continue;
    if (vector3(model_.sensors[sensor].pose.position).isZero(0)) continue;
    gauge_ = ColmapGauge::camera;
    return true;
  }
  const auto center = [&](std::size_t frame) {
    return vector3(std::span(pose_values_).subspan(kPose * frame + 3, 3));
  };
  // The position changes along the baseline when the scale about the first frame does.
  Eigen::Vector3d baseline = Eigen::Vector3d::Zero();
  std::size_t farthest = first;
  for (const ColmapModel::Observation& o : model_.observations) {
    const std::size_t other = model_.images[o.image].frame;
    const Eigen::Vector3d way = center(other) - center(first);
    if (!(way.squaredNorm() > baseline.squaredNorm())) continue;
    baseline = way;
    farthest = other;
  }
  Eigen::Index along = 0;
  if (baseline.cwiseAbs().maxCoeff(&along) <= kFlat * center(farthest).norm()) return false;
  problem_.set_constant(poses_, farthest, 8u << along);
  return true;
}

/// Seven coordinates: two points, and of a third one how far it turns about the line of these.
void ColmapProblem::fix_three_points() {
  gauge_ = ColmapGauge::three_points;
  const auto at = [&](std::uint32_t point) {
    return vector3(std::span(model_.points).subspan(3 * std::size_t{point}, 3));
  };
  /// The observed point for which `measure` is largest.
  const auto farthest = [&](const auto& measure) {
    std::pair<double, std::uint32_t> best = {0, model_.observations[0].point};
    for (const ColmapModel::Observation& o : model_.observations)
      if (const double size = measure(at(o.point)); size > best.first) best = {size, o.point};
    return best.second;
  };
  const std::uint32_t a = model_.observations[0].point;
  const Eigen::Vector3d from = at(a);
  const std::uint32_t b = farthest([&](const Eigen::Vector3d& x) { return (x - from).norm(); });
  const Eigen::Vector3d line = at(b) - from;
  const std::uint32_t c =
      farthest([&](const Eigen::Vector3d& x) { return line.cross(x - from).norm(); });
  const Eigen::Vector3d turning = line.cross(at(c) - from);
  if (!(turning.norm() > kFlat * line.squaredNorm()))
    refuse("expected three points that are not on a line for the gauge three_points");
  Eigen::Index along = 0;
  turning.cwiseAbs().maxCoeff(&along);
  problem_.set_constant(points_, a);
  problem_.set_constant(points_, b);
  problem_.set_constant(points_, c, 1u << along);
}

SolverOptions ColmapProblem::solver_options() const {
  SolverOptions options{.max_iterations = 100};
  if (rough_) options.initial_trust_region_radius = 100;
  const bool more = refined_.focal || refined_.principal || refined_.distortion || refined_.poses;
  if (refined_.points && more) options.linear_solver_ordering = {{points_, 0}, {poses_, 1}};
  return options;
}

ColmapModel ColmapProblem::model() const {
  ColmapModel out = without_observations();
  out.point_ids = model_.point_ids;
  out.points = model_.points;
  out.observations = model_.observations;
  return out;
}

/// Returns the model with the present numbers of cameras, sensors, frames and images, without
/// points.
ColmapModel ColmapProblem::without_observations() const {
  ColmapModel out;
  out.cameras = model_.cameras;
  out.sensors = model_.sensors;
  out.frames = model_.frames;
  out.images = model_.images;
  out.tracks_differ = model_.tracks_differ;
  out.files = model_.files;
  const auto block = [](const std::vector<double>& values, std::size_t k) {
    return std::span(values).subspan(kPose * k, kPose);
  };
  for (std::size_t k = 0; k < out.frames.size(); ++k)
    store_frame(block(pose_values_, k), block(first_poses_, k), out.frames[k].pose);
  for (std::size_t k = 0; k < out.sensors.size(); ++k)
    store_sensor(block(sensor_values_, k), block(first_sensors_, k), out.sensors[k].pose);
  for (std::size_t k = 0; k < out.cameras.size(); ++k) {
    std::vector<double>& parameters = out.cameras[k].parameters;
    const auto& values = camera_values_[static_cast<std::size_t>(out.cameras[k].model)];
    std::copy_n(&values[camera_blocks_[k] * parameters.size()], parameters.size(),
                parameters.begin());
  }
  return out;
}

/// True if none of the point's coordinates is fixed.
bool ColmapProblem::is_free(std::size_t point) const {
  const std::span<const std::uint8_t> fixed = problem_.constant_mask();
  return fixed.empty() ||
         std::ranges::count(fixed.subspan(points_.offset() + 3 * point, 3), 0) == 3;
}

std::size_t ColmapProblem::retriangulate(int threads) {
  if (!refined_.points || options_.retriangulation == Retriangulation::off) return 0;
  const bool behind = options_.retriangulation == Retriangulation::anywhere;
  // Observations in the order of their points: first[k] to first[k + 1] are those of point k.
  const std::size_t points = model_.point_count();
  std::vector<std::size_t> first(points + 1), order(model_.observations.size());
  for (const ColmapModel::Observation& o : model_.observations) ++first[o.point + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::size_t> next = first;
  for (std::size_t k = 0; k < order.size(); ++k) order[next[model_.observations[k].point]++] = k;
  const ColmapModel now = without_observations();
  std::vector<Sight> images;
  for (std::size_t k = 0; k < now.images.size(); ++k) {
    const Pose pose = now.pose(k);
    const ColmapModel::Camera& camera = now.cameras[now.images[k].camera];
    images.push_back({camera.model, camera.parameters, quaternion(pose).toRotationMatrix(),
                      vector3(pose.inverse().position)});
  }
  const auto sight_of = [&](const ColmapModel::Observation& o) {
    Sight sight = images[o.image];
    sight.seen = o.seen;
    return sight;
  };
  runtime::cpu::Pool pool(threads);
  std::vector<double> costs(order.size());
  pool.for_ranges(costs.size(), kObservationsPerRange, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      const ColmapModel::Observation& o = model_.observations[k];
      const Sight sight = sight_of(o);
      costs[k] = cost_of({&sight, 1},
                         vector3(std::span(model_.points).subspan(3 * std::size_t{o.point}, 3)),
                         options_.loss);
    }
  });
  const double cost = std::accumulate(costs.begin(), costs.end(), 0.0);
  const double least_gain = kLeastGain * cost / static_cast<double>(points);
  std::atomic<std::size_t> moved = 0;
  pool.for_ranges(points, kPointsPerRange, [&](std::size_t begin, std::size_t end) {
    std::vector<Sight> sights;
    for (std::size_t k = begin; k < end; ++k) {
      if (!is_free(k)) continue;
      sights.clear();
      for (std::size_t i = first[k]; i < first[k + 1]; ++i)
        sights.push_back(sight_of(model_.observations[order[i]]));
      Eigen::Map<Eigen::Vector3d> point(&model_.points[3 * k]);
      const auto at = lower_minimum(sights, point, options_.loss, behind, least_gain);
      if (!at) continue;
      point = *at;
      ++moved;
    }
  });
  return moved;
}

namespace {

/// Adds the part of a solve that followed.
void append(Summary& total, Summary part) {
  const IterationSummary last =
      total.iterations.empty() ? IterationSummary{} : total.iterations.back();
  for (IterationSummary& iteration : part.iterations) {
    iteration.iteration += last.iteration;
    iteration.cumulative_time_in_seconds += last.cumulative_time_in_seconds;
    if (iteration.iteration > last.iteration) total.iterations.push_back(iteration);
  }
  part.iterations = std::move(total.iterations);
  part.initial_cost = total.initial_cost;
  add_counts(part, total);
  total = std::move(part);
}

/// The options of a solve that goes on after others; none if a limit is reached. A checkpoint is
/// that of the first one: with it, what follows is done again.
std::optional<SolverOptions> rest_of(SolverOptions options, const Summary& summary) {
  if (!summary.components.separate)  // else they are each component's
    options.max_iterations -= summary.num_iterations();
  options.time_limit_seconds -= summary.times.total_seconds;
  options.checkpoint = {};
  options.resume.clear();
  if (options.max_iterations < 1 || !(options.time_limit_seconds > 0)) return std::nullopt;
  return options;
}

/// Solves on with the options of rest_of(). A message about a limit names that of `all`.
Summary solve_rest(ColmapProblem& problem, const SolverOptions& rest, const SolverOptions& all) {
  Summary part = solve(problem.problem(), rest);
  if (part.termination != Termination::NO_CONVERGENCE || part.components.separate) return part;
  if (part.times.total_seconds >= rest.time_limit_seconds) {
    part.message = text({End::time}, all);
  } else if (part.num_iterations() >= rest.max_iterations) {
    part.message = text({End::iterations}, all);
  }
  return part;
}

/// True for a solve that has converged, or has met a valley that leads to infinity, as points
/// behind cameras do. One that has met a limit has no rest_of().
bool ended_by_itself(const Summary& summary) {
  return summary.termination == Termination::CONVERGENCE ||
         summary.termination == Termination::NO_CONVERGENCE;
}

/// Moves points to lower minima and solves again, as long as the cost falls by more than
/// `least_gain`.
void follow_moves(ColmapProblem& problem, const SolverOptions& options, double least_gain,
                  Adjustment& out) {
  std::vector<double> before(problem.problem().parameter_count());
  while (ended_by_itself(out.summary)) {
    const std::optional<SolverOptions> rest = rest_of(options, out.summary);
    if (!rest) break;
    const auto begin = std::chrono::steady_clock::now();
    problem.problem().read_x(before);
    const double cost = out.summary.final_cost;
    const std::size_t moved = problem.retriangulate(options.threads);
    out.summary.times.total_seconds += seconds_since(begin);
    if (moved == 0) break;
    Summary more = solve_rest(problem, *rest, options);
    if (!(cost - more.final_cost > least_gain)) {
      problem.problem().write_x(before);
      break;
    }
    append(out.summary, std::move(more));
    out.moved_points += moved;
  }
}

}  // namespace

Adjustment adjust(ColmapProblem& problem, const SolverOptions& options) {
  SolverOptions first = options;
  if (options.checkpoint.file.empty())  // which holds one solve
    first.function_tolerance = std::max(options.function_tolerance, kSettled);
  Adjustment out{.summary = solve(problem.problem(), first)};
  // The cost at the first end counts: later ones of an exact model are rounding.
  const double cost = out.summary.final_cost;
  follow_moves(problem, first, first.function_tolerance * cost, out);
  if (first.function_tolerance == options.function_tolerance || !ended_by_itself(out.summary))
    return out;
  std::optional<SolverOptions> rest = rest_of(options, out.summary);
  if (!rest) return out;
  const double radius =
      out.summary.iterations.empty() ? 0 : out.summary.iterations.back().trust_region_radius;
  if (radius > 0)
    rest->initial_trust_region_radius = std::min(radius, options.max_trust_region_radius);
  append(out.summary, solve_rest(problem, *rest, options));
  follow_moves(problem, options, options.function_tolerance * cost, out);
  return out;
}

double position_rmse(const ColmapModel& model, const std::vector<PositionPrior>& priors) {
  if (priors.empty()) return 0;
  double sum = 0;
  for (const PositionPrior& prior : priors)
    sum += (vector3(model.center(prior.image)) - vector3(prior.position)).squaredNorm();
  return std::sqrt(sum / static_cast<double>(priors.size()));
}

namespace {

/// The covariance of nothing, three standard deviations or six numbers.
std::array<double, 9> covariance_of(const std::vector<double>& n, const WordReader& reader) {
  if (n.empty()) return {1, 0, 0, 0, 1, 0, 0, 0, 1};
  if (n.size() == 3) {
    const auto bad = std::ranges::find_if(n, [](double x) { return !(x > 0); });
    if (bad != n.end()) reader.fail("expected standard deviations > 0, got " + text_of(*bad));
    return {n[0] * n[0], 0, 0, 0, n[1] * n[1], 0, 0, 0, n[2] * n[2]};
  }
  if (n.size() == 6) return {n[0], n[1], n[2], n[1], n[3], n[4], n[2], n[4], n[5]};
  reader.fail(
      "expected no more numbers, three standard deviations or six of a covariance after a "
      "position, got " +
      std::to_string(n.size()));
}

using ImagesByName = std::unordered_map<std::string_view, std::uint32_t>;

/// The name of an image at the beginning of a line, which may have blanks in it: the longest one
/// that leaves as many numbers as a prior has, or else the first word.
std::string_view name_of_image(std::string_view line, const ImagesByName& images) {
  line.remove_prefix(std::min(line.find_first_not_of(WordReader::kBlanks), line.size()));
  std::vector<std::size_t> ends;  // of words
  for (std::size_t at = 0; at < line.size(); at = line.find_first_not_of(WordReader::kBlanks, at)) {
    at = std::min(line.find_first_of(WordReader::kBlanks, at), line.size());
    ends.push_back(at);
  }
  for (std::size_t k = ends.size(); k-- > 0;) {
    const std::size_t numbers = ends.size() - 1 - k;
    if ((numbers == 3 || numbers == 6 || numbers == 9) && images.contains(line.substr(0, ends[k])))
      return line.substr(0, ends[k]);
  }
  return ends.empty() ? line : line.substr(0, ends[0]);
}

}  // namespace

std::vector<PositionPrior> parse_position_priors(std::string_view text, const std::string& file,
                                                 const ColmapModel& model) {
  ImagesByName images;
  for (std::size_t k = 0; k < model.images.size(); ++k)
    images.emplace(model.images[k].name, static_cast<std::uint32_t>(k));
  std::vector<PositionPrior> priors;
  std::vector<bool> there(model.images.size());
  WordReader reader(text, file, {.comments = false});
  for (bool more = reader.left() > 0; more; more = reader.next_line()) {
    const std::string_view name = name_of_image(reader.rest_of_line(), images);
    if (name.empty() || name.starts_with('#')) continue;
    std::string_view word = reader.word_of_line();
    while (word.end() < name.end()) word = reader.word_of_line();
    const auto image = images.find(name);
    if (image == images.end()) reader.fail_expected("the name of an image of the model", name);
    if (there[image->second]) reader.fail_expected("an image that has no prior yet", name);
    there[image->second] = true;
    PositionPrior prior{.image = image->second};
    for (double& x : prior.position) x = reader.number_of_line("a coordinate of a position");
    std::vector<double> rest;
    while (reader.rest_of_line().find_first_not_of(" \t\r\v\f") != std::string_view::npos)
      rest.push_back(reader.number_of_line("a number of a covariance"));
    prior.covariance = covariance_of(rest, reader);
    if (!whitening(prior.covariance))
      reader.fail("expected a covariance that is positive definite, got " +
                  fault_of(prior.covariance));
    priors.push_back(prior);
  }
  if (priors.empty()) reader.fail("expected priors, got none");
  return priors;
}

std::vector<PositionPrior> read_position_priors(const std::string& path, const ColmapModel& model) {
  return parse_position_priors(read_packed_text(path), path, model);
}

}  // namespace topograd
