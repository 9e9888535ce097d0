// Bundle adjustment of COLMAP's models.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../solver/options.hpp"
#include "../../solver/summary.hpp"
#include "colmap.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// How the coordinates of a model are fixed, which observations leave open.
///
///   automatic    none with priors, else two_cameras
///   none         nothing: damped steps cope
///   camera       the pose of the first frame
///   two_cameras  the pose of the first frame, and one coordinate of the position of the frame that
///                is farthest from it, which gives the scale. Poses in rigs that are not refined
///                give it, too; then it is `camera`
///   three_points three points that are not on a line
enum class ColmapGauge : std::uint8_t { automatic, none, camera, two_cameras, three_points };
TG_ENUM_NAMES(ColmapGauge)
ColmapGauge parse_colmap_gauge(std::string_view text);

/// Says what adjust() does with points that have a lower minimum of their own.
///
///   off       nothing
///   front     moves them there, but none behind a camera that it is in front of
///   anywhere  moves them there, also behind cameras: the lowest cost
enum class Retriangulation : std::uint8_t { off, front, anywhere };
TG_ENUM_NAMES(Retriangulation)
Retriangulation parse_retriangulation(std::string_view text);

/// A measured position of an image's camera, for example by satellites.
struct PositionPrior {
  std::uint32_t image = 0;              ///< number in ColmapModel::images
  std::array<double, 3> position = {};  ///< in the world
  std::array<double, 9> covariance = {1, 0, 0, 0, 1,
                                      0, 0, 0, 1};  ///< row by row, positive definite
};

/// Reads priors, a line for each image, of its name, its position and its covariance: nothing for
/// that of the identity, three standard deviations, or the six numbers C11 C12 C13 C22 C23 C33.
/// Lines that begin with # are comments. Images are named as in the model.
///
/// Throws Error{File}, and Error{Parse} for a file without priors, an image that is not in the
/// model or is there twice, another number of numbers, a standard deviation that is not positive,
/// and a covariance that is not positive definite.
std::vector<PositionPrior> read_position_priors(const std::string& path, const ColmapModel& model);
std::vector<PositionPrior> parse_position_priors(std::string_view text, const std::string& name,
                                                 const ColmapModel& model);

/// √(Σ d² / priors) of the distances between cameras and their priors; 0 without priors.
double position_rmse(const ColmapModel& model, const std::vector<PositionPrior>& priors);

struct ColmapOptions {
  Loss loss = {};  ///< of each observation's two rows, in pixels
  /// Names of what is refined: "focal", "principal", "distortion", "poses" of frames, "rigs" (poses
  /// of sensors in rigs) and "points". The default is COLMAP's.
  std::vector<std::string> refine = {"focal", "distortion", "poses", "rigs", "points"};
  ColmapGauge gauge = ColmapGauge::automatic;
  Retriangulation retriangulation = Retriangulation::front;
  std::vector<PositionPrior> priors = {};
  Loss prior_loss = {};  ///< of each prior's three rows, in standard deviations
  /// Moves the model by the similarity with which its cameras are nearest to their priors, by
  /// squares over the traces of covariances; where priors leave open how it turns, by the least
  /// angle.
  bool align_to_priors = true;
};

/// A model and the least-squares problem of its reprojection errors, two residuals in pixels for
/// each observation, and of its priors. Neither copied nor moved, because the problem refers to
/// its numbers.
///
///   ColmapProblem adjustment(read_colmap("sparse/0"));
///   adjust(adjustment, adjustment.solver_options());
///   write_colmap("adjusted", adjustment.model());
class ColmapProblem {
 public:
  /// Throws Error{InvalidArgument} for a model without observations, an unknown name in `refine`,
  /// nothing to refine that the model has, and a prior of an image that is not there or whose
  /// covariance is not positive definite. Cost: linear in the observations; one trace for each
  /// camera model, and one for each that rigs have.
  explicit ColmapProblem(ColmapModel model, const ColmapOptions& options = {});
  ColmapProblem(const ColmapProblem&) = delete;
  ColmapProblem& operator=(const ColmapProblem&) = delete;

  /// Takes further residuals on the arrays below.
  Problem& problem() { return problem_; }
  const Problem& problem() const { return problem_; }
  /// Blocks of 6, one for each of ColmapModel::frames: the rotation vector a (radians) and the
  /// position c of the frame in the world: R(a) (x − c) is a point x of the world in the frame.
  const Parameters& poses() const { return poses_; }
  /// Blocks of 6, one for each of ColmapModel::sensors: a rotation vector and a translation t, from
  /// the frame to the sensor, R(a) y + t; only in a model with such.
  const Parameters& sensors() const { return sensors_; }
  /// The parameters of all cameras of one model; only of a model that cameras have.
  const Parameters& cameras(CameraModel model) const {
    return cameras_[static_cast<std::size_t>(model)];
  }
  /// The block of a camera in cameras() of its model.
  std::uint32_t camera_block(std::size_t camera) const { return camera_blocks_[camera]; }
  /// Blocks of 3, one for each point.
  const Parameters& points() const { return points_; }

  /// The model with the present numbers. What is not refined has the numbers that it was given.
  ColmapModel model() const;
  /// Never `automatic`.
  ColmapGauge gauge() const { return gauge_; }
  /// True if it was moved to its priors.
  bool aligned() const { return aligned_; }
  const std::vector<PositionPrior>& priors() const { return options_.priors; }
  /// Moves each point that has a lower minimum of its own, with the cameras as they are, there
  /// (lower_minimum() of retriangulation.hpp), as the options allow, and returns their number.
  /// Points that are fixed, or of which a coordinate is, stay. Residuals of the program's own are
  /// not looked at. The result does not depend on the number of threads, 0 = all.
  std::size_t retriangulate(int threads = 0);
  /// Returns at most 100 damped steps. Points are eliminated: a program that adds residuals between
  /// two points clears linear_solver_ordering. With cameras that map angles, fisheye ones and FOV,
  /// the first radius is 100 if errors were larger than 0.01 of the focal lengths (RMS): longer
  /// first steps ended at worse minima, where points lay past 90°.
  SolverOptions solver_options() const;

 private:
  struct Refined {
    bool focal = false, principal = false, distortion = false, poses = false, rigs = false,
         points = false;
  };
  /// The observations of one camera model, in rigs' sensors or not.
  struct Group {
    std::vector<std::uint32_t> indices;
    std::vector<double> seen;
  };

  void read_refined();
  void align();
  void add_parameters();
  void add_observations();
  void add_group(CameraModel model, bool of_sensors, const Group& group);
  void add_priors(bool of_sensors);
  void fix_unread();
  void fix_distances();
  void fix_cameras();
  void fix_gauge();
  bool fix_scale(std::size_t first);
  ColmapModel without_observations() const;
  bool is_free(std::size_t point) const;
  bool is_rough() const;
  void fix_three_points();

  ColmapModel model_;
  ColmapOptions options_;
  Refined refined_;
  ColmapGauge gauge_ = ColmapGauge::none;
  bool aligned_ = false;
  bool rough_ = false;  ///< cameras map angles, and the model was far from what they saw
  std::vector<double> pose_values_, sensor_values_, first_poses_, first_sensors_;
  std::array<std::vector<double>, kCountOf<CameraModel>> camera_values_;
  std::vector<std::uint32_t> camera_blocks_;
  Problem problem_;
  Parameters poses_, sensors_, points_;
  std::array<Parameters, kCountOf<CameraModel>> cameras_;
};

/// A solve with retriangulation between its parts.
struct Adjustment {
  Summary summary;               ///< of all parts: `iterations` and times go on
  std::size_t moved_points = 0;  ///< by retriangulation that was kept
};

/// Solves a model's problem. Where the solve has converged, points that have a lower minimum of
/// their own are moved there (ColmapProblem::retriangulate()), and it goes on, as long as the cost
/// falls by more than function_tolerance. A move after which it does not is undone. All steps count
/// for max_iterations. The callback sees the first step after a move as step 1 again.
///
/// With a function_tolerance below 1e-6 this is first done with one of 1e-6, unless checkpoints are
/// written: steps that gain less go on for long where points in wrong minima hold them up.
/// Checkpoints are those of the first solve. After `resume` what followed it is done again.
///
/// Throws what solve() throws.
Adjustment adjust(ColmapProblem& problem, const SolverOptions& options);

/// Returns the image of a point of the world minus `seen`: the two residuals of an observation,
/// for rows of one's own.
///
///   pose  as a block of ColmapProblem::poses()
std::array<Value, 2> reprojection(CameraModel model, std::span<const Value> parameters,
                                  const std::array<Value, 6>& pose, const Vec3& point,
                                  const Vec2& seen);

}  // namespace topograd
