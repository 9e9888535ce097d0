// COLMAP's models: camera models against long arithmetic, files, and problems against those of
// Bundle Adjustment in the Large.
#include "../../../api/formats/bal.hpp"
#include "../../../api/formats/bundle_adjustment.hpp"
#include "../../../api/formats/colmap_problem.hpp"
#include "../../../api/formats/retriangulation.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"
#include "../../support/paths.hpp"

#include <gtest/gtest.h>
#include <Eigen/Geometry>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using Complex = std::complex<long double>;
using Pair = std::array<Complex, 2>;

// The camera models as COLMAP documents them, in complex numbers of 64 bits of precision.

Pair fisheye(const Pair& p) {
  const Complex r = std::sqrt(p[0] * p[0] + p[1] * p[1]);
  return {p[0] * std::atan(r) / r, p[1] * std::atan(r) / r};
}

/// Radial polynomial and tangential distortion.
Pair lens(const Pair& p, const std::vector<Complex>& k, const Complex& p1 = 0,
          const Complex& p2 = 0) {
  const Complex u = p[0], v = p[1], s = u * u + v * v, two = 2;
  Complex radial = 1, power = 1;
  for (const Complex& c : k) radial += c * (power *= s);
  return {u * radial + two * p1 * u * v + p2 * (s + two * u * u),
          v * radial + two * p2 * u * v + p1 * (s + two * v * v)};
}

Pair distorted(CameraModel model, const Complex* k, const Pair& flat, const Complex* P) {
  const Pair round = fisheye(flat);
  const Complex s = flat[0] * flat[0] + flat[1] * flat[1],
                t = round[0] * round[0] + round[1] * round[1];
  const Complex one = 1, two = 2, four = 4;
  switch (model) {
    case CameraModel::SIMPLE_PINHOLE:
    case CameraModel::PINHOLE: return flat;
    case CameraModel::SIMPLE_RADIAL: return lens(flat, {k[0]});
    case CameraModel::RADIAL: return lens(flat, {k[0], k[1]});
    case CameraModel::OPENCV: return lens(flat, {k[0], k[1]}, k[2], k[3]);
    case CameraModel::OPENCV_FISHEYE: return lens(round, {k[0], k[1], k[2], k[3]});
    case CameraModel::FULL_OPENCV: {
      const Complex ratio = (one + k[0] * s + k[1] * s * s + k[4] * s * s * s) /
                            (one + k[5] * s + k[6] * s * s + k[7] * s * s * s);
      const Pair more = lens(flat, {}, k[2], k[3]);
      return {more[0] + flat[0] * (ratio - one), more[1] + flat[1] * (ratio - one)};
    }
    case CameraModel::FOV: {
      const Complex r = std::sqrt(s);
      const Complex factor = std::atan(two * r * std::tan(k[0] / two)) / (r * k[0]);
      return {flat[0] * factor, flat[1] * factor};
    }
    case CameraModel::PINHOLE_RADIAL_K3: return lens(flat, {k[0], k[1], k[2]});
    case CameraModel::PINHOLE_BROWN_T2: return lens(flat, {k[0], k[1], k[2]}, k[3], k[4]);
    case CameraModel::PINHOLE_FISHEYE: return lens(round, {k[0], k[1], k[2], k[3]});
    case CameraModel::SIMPLE_RADIAL_FISHEYE: return lens(round, {k[0]});
    case CameraModel::RADIAL_FISHEYE: return lens(round, {k[0], k[1]});
    case CameraModel::THIN_PRISM_FISHEYE: {
      const Pair at = lens(round, {k[0], k[1], k[4], k[5]}, k[2], k[3]);
      return {at[0] + k[6] * t, at[1] + k[7] * t};
    }
    case CameraModel::RAD_TAN_THIN_PRISM_FISHEYE: {
      const Pair q = lens(round, {k[0], k[1], k[2], k[3], k[4], k[5]});
      const Complex w = q[0] * q[0] + q[1] * q[1];
      const Pair at = lens(q, {}, k[7], k[6]);
      return {at[0] + k[8] * w + k[9] * w * w, at[1] + k[10] * w + k[11] * w * w};
    }
    case CameraModel::SIMPLE_DIVISION:
    case CameraModel::DIVISION: {
      const Complex r =
          two / (P[2] + std::sqrt(P[2] * P[2] - four * k[0] * (P[0] * P[0] + P[1] * P[1])));
      return {r * P[0], r * P[1]};
    }
    case CameraModel::SIMPLE_FISHEYE:
    case CameraModel::FISHEYE: return round;
    case CameraModel::EUCM: {
      const Complex d =
          k[0] * std::sqrt(k[1] * (P[0] * P[0] + P[1] * P[1]) + P[2] * P[2]) + (one - k[0]) * P[2];
      return {P[0] / d, P[1] / d};
    }
  }
  return flat;
}

/// x has the parameters, then the point.
Pair reference(CameraModel model, const std::vector<Complex>& x) {
  const CameraModelSizes n = sizes(model);
  const Complex* P = x.data() + n.all();
  const Pair at = distorted(model, x.data() + n.focal + 2, {P[0] / P[2], P[1] / P[2]}, P);
  return {x[0] * at[0] + x[n.focal], x[n.focal - 1] * at[1] + x[n.focal + 1]};
}

/// Parameters of a model, with distortions of ordinary lenses.
std::vector<double> some_parameters(CameraModel model, double strength) {
  const CameraModelSizes n = sizes(model);
  std::vector<double> out = {712.5};
  if (n.focal == 2) out.push_back(698.25);
  out.insert(out.end(), {320.75, 239.5});
  for (std::size_t k = 0; k < n.distortion; ++k)
    out.push_back(strength * 0.03 * std::cos(1.0 + 2.3 * static_cast<double>(k)));
  // Below 1e-5 the long arithmetic loses the derivative by ω.
  if (model == CameraModel::FOV) out.back() = 0.9 * std::max(strength, 1e-5);
  if (model == CameraModel::EUCM) out[4] = 0.6 * strength, out[5] = 1.1;
  return out;
}

/// An image, and its derivatives by the parameters and the point.
struct Image {
  Eigen::VectorXd at;
  Eigen::MatrixXd J;
};

///   x  the parameters, then the point
Image image_of(CameraModel model, std::vector<double> x) {
  const std::size_t count = sizes(model).all();
  Problem problem;
  const Parameters c = problem.add_parameters(std::span(x).first(count), static_cast<int>(count));
  const Parameters p = problem.add_parameters(std::span(x).subspan(count), 3);
  std::vector<Value> values;
  for (std::size_t k = 0; k < count; ++k) values.push_back(c(0, static_cast<int>(k)));
  problem.add_residual(project(model, values, p.vec3(0)));
  Evaluator evaluator(problem, {.backend = Backend::cpu});
  return {evaluator.residuals(), evaluator.jacobian()};
}

/// The image and its derivatives by the parameters and the point, where a camera sees a point.
void compare_with_reference(CameraModel model, std::vector<double> x,
                            const std::array<double, 3>& point) {
  const std::size_t count = x.size();
  x.insert(x.end(), point.begin(), point.end());
  const auto [r, J] = image_of(model, x);
  const std::vector<Complex> at(x.begin(), x.end());
  const Pair image = reference(model, at);
  const std::array<double, 2> number = project(model, std::span(x).first(count), point);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto expected = static_cast<double>(image[i].real());
    const double tolerance = 1e-12 * std::max(1.0, std::abs(expected));
    EXPECT_NEAR(r[static_cast<Eigen::Index>(i)], expected, tolerance);
    EXPECT_NEAR(number[i], expected, tolerance);
  }
  const double scale = J.cwiseAbs().maxCoeff();
  for (std::size_t k = 0; k < x.size(); ++k) {
    constexpr long double kStep = 1e-30L;
    std::vector<Complex> moved = at;
    moved[k] += Complex(0, kStep);
    const Pair there = reference(model, moved);
    const auto column = static_cast<Eigen::Index>(k);
    EXPECT_NEAR(J(0, column), static_cast<double>(there[0].imag() / kStep), 1e-12 * scale) << k;
    EXPECT_NEAR(J(1, column), static_cast<double>(there[1].imag() / kStep), 1e-12 * scale) << k;
  }
}

TEST(CameraModels, DerivativesAreThoseOfLongArithmetic) {
  // On the axis but for rounding, on both sides of where series end, and far from the axis.
  constexpr std::array<double, 3> kPoints[] = {
      {0.3, -0.2, 1.1}, {1e-12, -2e-12, 2}, {1e-5, 3e-6, 1}, {0.08, 0.0589, 1}, {0.09, 0.05, 1},
      {-1.4, 0.9, 0.8}, {3.1, -2.2, 1.7},   {0, 0.25, 1.5},  {-0.099, 0.0, 1}};
  for (const auto& row : rows_of(CameraModel{})) {
    for (const double strength : {1.0, 0.222, 1e-3, 1e-9}) {
      for (const auto& point : kPoints) {
        SCOPED_TRACE(std::string(row.name) + ", distortion " + std::to_string(strength) +
                     ", point " + std::to_string(point[0]));
        compare_with_reference(row.value, some_parameters(row.value, strength), point);
      }
    }
  }
}

// Each derivative by itself, to 1e-12 of the longer one of its number, so that units play no part.
// Numbers whose whole size moves the image by less than its rounding have no derivative to compare.
TEST(CameraModels, DerivativesAreThoseOf50Digits) {
  std::istringstream table(read_file(source_dir() / "tests/api/data/camera_models.txt"));
  std::set<CameraModel> seen;
  for (std::string line; std::getline(table, line);) {
    SCOPED_TRACE(line);
    std::istringstream words(line);
    std::string name;
    words >> name;
    const CameraModel model = parse_enum<CameraModel>("camera model", name);
    std::vector<double> x(sizes(model).all() + 3), expected(2 + 2 * x.size());
    for (double& value : x) words >> value;
    for (double& value : expected) words >> value;
    ASSERT_TRUE(words);
    const auto [at, J] = image_of(model, x);
    for (Eigen::Index i = 0; i < 2; ++i) {
      const double value = expected[static_cast<std::size_t>(i)];
      EXPECT_NEAR(at[i], value, 1e-12 * std::abs(value));
    }
    for (std::size_t k = 0; k < x.size(); ++k) {
      const auto column = static_cast<Eigen::Index>(k);
      const double u = expected[2 + k], v = expected[2 + x.size() + k];
      const double hidden = 0x1p-52 * at.cwiseAbs().maxCoeff() / std::abs(x[k]);
      const double tolerance = 1e-12 * std::max({std::abs(u), std::abs(v), hidden});
      EXPECT_NEAR(J(0, column), u, tolerance) << k;
      EXPECT_NEAR(J(1, column), v, tolerance) << k;
    }
    seen.insert(model);
  }
  EXPECT_EQ(seen.size(), kCountOf<CameraModel>);
}

TEST(CameraModels, FieldOfViewOfZeroIsAPinhole) {
  const std::array<double, 3> point = {0.3, -0.2, 1.1};
  EXPECT_EQ(project(CameraModel::FOV, std::vector<double>{100, 90, 10, 20, 0}, point),
            project(CameraModel::PINHOLE, std::vector<double>{100, 90, 10, 20}, point));
}

TEST(CameraModels, FisheyesSeeBehindTheirPlane) {
  const std::vector<double> camera = {100, 10, 20};
  const auto at = project(CameraModel::SIMPLE_FISHEYE, camera, {0, 2, -2});
  EXPECT_NEAR(at[0], 10, 1e-12);
  EXPECT_NEAR(at[1], 20 + 100 * 0.75 * 3.14159265358979323846, 1e-12);
  const auto axis = project(CameraModel::OPENCV_FISHEYE,
                            std::vector<double>{100, 100, 10, 20, 1, 1, 1, 1}, {0, 0, 3});
  EXPECT_EQ(axis, (std::array<double, 2>{10, 20}));
}

/// A model of two cameras and three points, text and binary with the same numbers.
ColmapFiles text_files() {
  ColmapFiles files;
  files.cameras = {"cameras.txt",
                   "# cameras\n3 SIMPLE_RADIAL 640 480 500.50 320 240 +0.01\n"
                   "7 PINHOLE 640 480 510 500 320 240\n"};
  files.images = {"images.txt",
                  "# images\n1 2 0 0 0 0 0 0 3 first image.jpg\n"
                  "360 240 40 10 10 -1 320 290 41\n"
                  "2 1.0 0 0 0 -1 0 0 7 #second.jpg\n\n"
                  "5 1 0 0 0 0 -1.00 0 7 third.jpg\n330 200 41 1 1 42"};
  files.points = {"points3D.txt",
                  "40 0.8 0 10 1 2 3 -1 1 0\r\n41 0 1 10.0 4 5 255 0.5 1 2 5 0\n\n"
                  "42 1e-1 0.1 5 0 0 0 nan\n43 1 1 1 0 0 0 0\n"};
  return files;
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int k = 0; k < bytes; ++k) out += static_cast<char>(k < 8 ? value >> (8 * k) & 0xff : 0);
}
void put(std::string& out, std::initializer_list<double> values) {
  for (const double value : values) put(out, std::bit_cast<std::uint64_t>(value), 8);
}

ColmapFiles binary_files() {
  ColmapFiles files{.binary = true};
  files.cameras.name = "cameras.bin";
  std::string& c = files.cameras.text;
  put(c, 1, 8);
  put(c, 3, 4), put(c, 2, 4), put(c, 640, 8), put(c, 480, 8);
  put(c, {500.5, 320, 240, 0.01});
  files.images.name = "images.bin";
  std::string& i = files.images.text;
  put(i, 1, 8);
  put(i, 1, 4), put(i, {2, 0, 0, 0, 0, 0, 0}), put(i, 3, 4);
  i += std::string("a b\0", 4);
  put(i, 2, 8);
  put(i, {360, 240}), put(i, 40, 8), put(i, {10, 10}), put(i, ~std::uint64_t{0}, 8);
  files.points.name = "points3D.bin";
  std::string& p = files.points.text;
  put(p, 1, 8);
  put(p, 40, 8), put(p, {0.8, 0, 10}), p += std::string("\1\2\3", 3), put(p, {-1});
  put(p, 1, 8), put(p, 1, 4), put(p, 0, 4);
  return files;
}

TEST(Colmap, ReadsTextAndBinary) {
  const ColmapModel model = parse_colmap(text_files(), "sparse");
  ASSERT_EQ(model.cameras.size(), 2u);
  EXPECT_EQ(model.cameras[0].model, CameraModel::SIMPLE_RADIAL);
  EXPECT_EQ(model.cameras[0].parameters, (std::vector<double>{500.5, 320, 240, 0.01}));
  ASSERT_EQ(model.images.size(), 3u);
  EXPECT_EQ(model.images[0].name, "first image.jpg");
  EXPECT_EQ(model.images[1].name, "#second.jpg");
  EXPECT_EQ(model.images[2].camera, 1u);
  EXPECT_EQ(model.center(2), (std::array<double, 3>{0, 1, 0}));
  EXPECT_EQ(shown_scene(model).cameras.size(), 3u * 9);
  ASSERT_EQ(model.observations.size(), 4u);
  EXPECT_EQ(model.observations[1].point, 1u);
  EXPECT_EQ(model.tracks_differ, 0u);
  // u = 0.08, s = 0.0064: 320 + 500.5 u (1 + 0.01 s).
  EXPECT_NEAR(model.project(model.observations[0])[0], 320 + 40.04 * 1.000064, 1e-12);
  // A record may follow a byte order mark at once.
  ColmapFiles marked = text_files();
  marked.cameras.text = "\xef\xbb\xbf" + marked.cameras.text.substr(10);
  marked.images.text = "\xef\xbb\xbf" + marked.images.text;
  marked.points.text = "\xef\xbb\xbf" + marked.points.text;
  const ColmapModel again = parse_colmap(marked, "sparse");
  EXPECT_EQ(again.cameras[0].parameters, model.cameras[0].parameters);
  EXPECT_EQ(again.observations.size(), 4u);
  const ColmapModel binary = parse_colmap(binary_files(), "sparse");
  EXPECT_EQ(binary.images[0].name, "a b");
  ASSERT_EQ(binary.observations.size(), 1u);
  EXPECT_EQ(binary.project(binary.observations[0]), model.project(model.observations[0]));
}

// COLMAP's sensor types are 0 for cameras and 1 for others, which follow in the binary form with
// the same numbers.
TEST(Colmap, ReadsBinaryRigs) {
  ColmapFiles files = binary_files();
  files.rigs.name = "rigs.bin";
  std::string& r = files.rigs.text;
  put(r, 1, 8);
  put(r, 7, 4), put(r, 2, 4);  // rig 7 of two sensors
  put(r, 0, 4), put(r, 3, 4);  // the first one is camera 3
  put(r, 1, 4), put(r, 9, 4);  // an IMU, whose pose is known
  r += '\1';
  put(r, {1, 0, 0, 0, 0.5, 0, 0});
  files.frames.name = "frames.bin";
  std::string& f = files.frames.text;
  put(f, 1, 8);
  put(f, 1, 4), put(f, 7, 4), put(f, {1, 0, 0, 0, 0, 0, 0}), put(f, 2, 4);
  put(f, 0, 4), put(f, 3, 4), put(f, 1, 8);
  put(f, 1, 4), put(f, 9, 4), put(f, 123456789012345, 8);
  const ColmapModel model = parse_colmap(files, "sparse");
  ASSERT_EQ(model.images.size(), 1u);
  EXPECT_EQ(model.images[0].name, "a b");
  EXPECT_EQ(model.observations.size(), 1u);
  EXPECT_EQ(colmap_files(model).rigs.text, files.rigs.text);
}

// Two rigs of the same two cameras, which stand apart differently.
TEST(Colmap, RigsHavePosesOfTheirOwn) {
  ColmapFiles files;
  files.cameras = {"cameras.txt", "1 PINHOLE 64 48 50 50 32 24\n2 PINHOLE 64 48 50 50 32 24\n"};
  files.points = {"points3D.txt", ""};
  files.rigs = {
      "rigs.txt",
      "1 2 CAMERA 1 CAMERA 2 1 1 0 0 0 0.5 0 0\n2 2 CAMERA 1 CAMERA 2 1 1 0 0 0 -3 0 0\n"};
  files.frames.name = "frames.txt";
  files.images.name = "images.txt";
  for (int frame = 1; frame <= 2; ++frame) {
    const std::string id = std::to_string(frame);
    const int first = 2 * frame - 1;
    files.frames.text += id + " " + id + " 1 0 0 0 0 0 0 2";
    for (int camera = 1; camera <= 2; ++camera) {
      const std::string image = std::to_string(first + camera - 1), c = std::to_string(camera);
      files.frames.text += " CAMERA " + c + " " + image;
      files.images.text += image + " 1 0 0 0 0 0 0 " + c + " image" + image + "\n\n";
    }
    files.frames.text += "\n";
  }
  const ColmapModel model = parse_colmap(files, "sparse");
  ASSERT_EQ(model.images.size(), 4u);
  EXPECT_EQ(model.pose(1).position[0], 0.5);
  EXPECT_EQ(model.pose(3).position[0], -3);
  const ColmapModel again = parse_colmap(colmap_files(model), "again");
  EXPECT_EQ(again.pose(1).position[0], 0.5);
  EXPECT_EQ(again.pose(3).position[0], -3);
}

// A point that no image sees has a track of length 0.
TEST(Colmap, ReadsBinaryPointsWithoutTracks) {
  ColmapFiles files = binary_files();
  std::string& p = files.points.text;
  p.clear();
  put(p, 2, 8);
  for (const int id : {40, 41}) {
    put(p, id, 8), put(p, {0.8, 0, 10}), p += std::string("\1\2\3", 3), put(p, {-1});
    put(p, 0, 8);
  }
  std::string& i = files.images.text;
  i.resize(i.size() - 48);
  put(i, {360, 240}), put(i, ~std::uint64_t{0}, 8), put(i, {10, 10}), put(i, ~std::uint64_t{0}, 8);
  const ColmapModel model = parse_colmap(files, "sparse");
  EXPECT_EQ(model.point_count(), 2u);
  EXPECT_TRUE(model.observations.empty());
}

// A name of one character and no observations: the smallest image that a file has but for one byte.
TEST(Colmap, ReadsSmallImages) {
  ColmapFiles files = binary_files();
  constexpr int kImages = 40;
  std::string& i = files.images.text;
  i.clear();
  put(i, kImages, 8);
  for (int k = 0; k < kImages; ++k) {
    put(i, k + 1, 4), put(i, {1, 0, 0, 0, 0, 0, 0}), put(i, 3, 4);
    i += static_cast<char>('0' + k);
    put(i, 0, 1 + 8);
  }
  std::string& p = files.points.text;
  p.clear();
  put(p, 0, 8);
  EXPECT_EQ(parse_colmap(files, "sparse").images.size(), std::size_t{kImages});
}

TEST(Colmap, ReadsFoldersOfEitherKind) {
  for (const ColmapFiles& files : {text_files(), binary_files()}) {
    const TemporaryDir folder;
    const std::string path = folder.path().string();
    const ColmapModel model = parse_colmap(files, "sparse");
    write_colmap(path, model);
    const ColmapModel again = read_colmap(path);
    EXPECT_EQ(again.points, model.points);
    EXPECT_EQ(colmap_files(again).images.text, files.images.text);
  }
}

TEST(Colmap, WritesWhatItRead) {
  for (const ColmapFiles& files : {text_files(), binary_files()}) {
    ColmapModel model = parse_colmap(files, "sparse");
    const ColmapFiles same = colmap_files(model);
    EXPECT_EQ(same.cameras.text, files.cameras.text);
    EXPECT_EQ(same.images.text, files.images.text);
    EXPECT_EQ(same.points.text, files.points.text);
    model.cameras[0].parameters[2] = 241.25;
    model.frames[0].pose.position[1] = 1.0 / 3;
    model.points[0] = 0.81;
    const ColmapFiles other = colmap_files(model);
    const ColmapModel again = parse_colmap(other, "again");
    EXPECT_EQ(again.cameras[0].parameters, model.cameras[0].parameters);
    EXPECT_EQ(again.frames[0].pose.position, model.frames[0].pose.position);
    EXPECT_EQ(again.points, model.points);
    if (files.binary) {
      EXPECT_EQ(other.points.text.size(), files.points.text.size());
      continue;
    }
    EXPECT_NE(other.cameras.text.find("480 500.50 320 241.25 +0.01\n"), std::string::npos);
    EXPECT_NE(other.images.text.find("1 2 0 0 0 0 0.3333333333333333 0 3 first image.jpg\n"),
              std::string::npos)
        << other.images.text;
    EXPECT_NE(other.points.text.find("40 0.81 0 10 1 2 3 "), std::string::npos);
    EXPECT_NE(other.points.text.find(" 1 0\r\n41 0 1 10.0 4 5 255 0.5 1 2 5 0\n\n"),
              std::string::npos);
  }
  EXPECT_THROW(colmap_files(ColmapModel()), Error);
}

struct Bad {
  std::function<void(ColmapFiles&)> spoil;
  const char* expected;
};

std::string message_of(const ColmapFiles& files) {
  try {
    (void)parse_colmap(files, "sparse");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Parse);
    return error.what();
  }
  return "no error";
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST(Colmap, RefusesTextThatIsWrong) {
  const auto change = [](ColmapFiles::File ColmapFiles::*file, const char* from, const char* to) {
    return [=](ColmapFiles& files) { replace((files.*file).text, from, to); };
  };
  constexpr auto kCameras = &ColmapFiles::cameras, kImages = &ColmapFiles::images,
                 kPoints = &ColmapFiles::points;
  const Bad rows[] = {
      {change(kCameras, "SIMPLE_RADIAL", "SIMPLE_RADIALS"),
       "sparse/cameras.txt:2: expected a camera model, one of SIMPLE_PINHOLE, PINHOLE"},
      // A model of OpenMVG.
      {change(kCameras, "SIMPLE_RADIAL", "PINHOLE_FISHEYE"), "FISHEYE, EUCM, got \"PINHOLE_FI"},
      {change(kCameras, " +0.01", ""), "a parameter of SIMPLE_RADIAL, which has f cx cy k, as a"},
      {change(kCameras, " +0.01", " 0 1"),
       "cameras.txt:2: expected the end of the line, got \"1\""},
      {change(kCameras, "320", "nan"), "as a finite number, got nan"},
      {change(kCameras, "7 P", "3 P"), "cameras.txt:3: expected another id, got camera 3 again"},
      {change(kCameras, "500.50", "0"),
       "cameras.txt:2: expected a focal length that is not 0, got 0 of camera 3"},
      {change(kCameras, "640", "-640"), "expected the width of a camera as a whole number"},
      {change(kImages, "7 #", "8 #"), "images.txt:4: expected a camera that is there, got 8"},
      {change(kImages, "2 1.0", "1 1.0"), "expected another id, got image 1 again"},
      {change(kImages, "1 2 0 0 0", "1 0 0 0 0"), "expected a quaternion that is not 0"},
      {change(kImages, "240 40", "240 39"),
       "images.txt:3: expected a 3D point that is there, got 39"},
      {change(kImages, "1 1 42", "1 1"),
       "expected the id of a 3D point, or -1, got the end of the"},
      {change(kImages, "240 40", "240 -2"), "expected the id of a 3D point, or -1, got \"-2\""},
      {change(kImages, " third.jpg", ""), "expected the name of an image, got the end of the line"},
      {change(kImages, "360", "inf"), "expected a coordinate of a 2D point as a finite number"},
      {change(kPoints, "-1 1 0", "-1 1 3"),
       "points3D.txt:1: expected one of the 3 2D points of image 1 in a track, got number 3"},
      {change(kPoints, "5 0\n", "6 0\n"), "expected an image that is there in a track, got 6"},
      {change(kPoints, "5 0\n", "5\n"), "expected the number of a 2D point as a whole number"},
      {change(kPoints, "43 ", "42 "), "points3D.txt:5: expected another id, got point 42 again"},
      {change(kPoints, "255", "256"), "expected a colour below 256, got \"256\""},
      {[](ColmapFiles& files) {
         files.rigs = {"rigs.txt", "1 1 CAMERA 3\n"};
       },
       "sparse/rigs.txt: expected files of rigs and of frames, got one"},
  };
  for (const Bad& row : rows) {
    ColmapFiles files = text_files();
    row.spoil(files);
    const std::string message = message_of(files);
    EXPECT_NE(message.find(row.expected), std::string::npos) << row.expected << "\n" << message;
  }
}

TEST(Colmap, RefusesBinaryThatIsWrong) {
  const Bad rows[] = {
      {[](ColmapFiles& files) { files.cameras.text[12] = 99; },
       "sparse/cameras.bin: byte 16: expected the number of a camera model in 0 .. 16, got 99"},
      {[](ColmapFiles& files) { files.cameras.text[12] = 17; },
       "expected the number of a camera model in 0 .. 16, got 17"},
      {[](ColmapFiles& files) { files.cameras.text[0] = 2; },
       "cameras.bin: byte 8: expected at most 1 records, for which the file has room"},
      {[](ColmapFiles& files) { files.cameras.text += "x"; },
       "expected the end of the file, got 1 more byte"},
      {[](ColmapFiles& files) { files.cameras.text.resize(40); }, "cameras.bin: byte 8"},
      {[](ColmapFiles& files) { files.cameras.text.clear(); },
       "cameras.bin: byte 0: expected records, got the end of the file"},
      {[](ColmapFiles& files) { replace(files.images.text, "a b", std::string("a\0b", 3)); },
       "images.bin: byte"},
      {[](ColmapFiles& files) { files.points.text.back() = 100; },
       "expected one of the 2 2D points"},
      {[](ColmapFiles& files) { files.points.text[51] = 9; },
       "expected at most 1 elements of a track, for which the file has room, got the count 9"},
  };
  for (const Bad& row : rows) {
    ColmapFiles files = binary_files();
    row.spoil(files);
    const std::string message = message_of(files);
    EXPECT_NE(message.find(row.expected), std::string::npos) << row.expected << "\n" << message;
  }
  for (std::size_t size = 0; size < binary_files().images.text.size(); ++size) {
    ColmapFiles files = binary_files();
    files.images.text.resize(size);
    EXPECT_NE(message_of(files), "no error") << size;
  }
}

/// A scene of Snavely's cameras and the same for COLMAP: half a turn about x, and y downwards.
BundleScene snavely() {
  BundleScene scene;
  constexpr std::uint32_t kCameras = 6, kPoints = 50;
  for (std::uint32_t c = 0; c < kCameras; ++c)
    scene.cameras.insert(scene.cameras.end(), {0.01 * c, 0.02 * c, 0.1, -0.5 * c, 0.1,
                                               -1.0 - 0.1 * c, 400.0 + c, 0.01, 0.001});
  for (std::uint32_t k = 0; k < kPoints; ++k) {
    const double angle = 2.4 * k;
    scene.points.insert(scene.points.end(),
                        {1.5 + std::sin(angle), std::cos(1.3 * angle), -5 + std::sin(2.9 * angle)});
  }
  for (std::uint32_t c = 0; c < kCameras; ++c)
    for (std::uint32_t k = 0; k < kPoints; ++k) {
      BundleScene::Observation o{c, k, scene.project(c, k)};
      o.seen[0] += 0.5 * std::sin(7.1 * k + c);
      o.seen[1] += 0.5 * std::cos(3.7 * k - c);
      scene.observations.push_back(o);
    }
  for (std::size_t k = 0; k < scene.points.size(); ++k)
    scene.points[k] += 0.02 * std::sin(3.0 * static_cast<double>(k));
  return scene;
}

std::string text(std::initializer_list<double> numbers) {
  std::string out;
  for (const double x : numbers) {
    char word[40];
    std::snprintf(word, sizeof word, " %.17g", x);
    out += word;
  }
  return out;
}

/// Text files of a scene. With `rig` each two cameras are a frame; the second one is its sensor.
ColmapFiles files_of(const BundleScene& scene, bool rig = false) {
  ColmapFiles files;
  files.cameras.name = "cameras.txt";
  files.images.name = "images.txt";
  files.points.name = "points3D.txt";
  std::vector<Pose> poses;
  for (std::size_t c = 0; c < scene.camera_count(); ++c) {
    const double* n = &scene.cameras[9 * c];
    const double angle = std::hypot(n[0], n[1], n[2]), half = std::sin(angle / 2) / angle;
    const Pose turn{{0, 0, 0}, {0, 1, 0, 0}};
    poses.push_back(turn * Pose{{n[3], n[4], n[5]},
                                {std::cos(angle / 2), half * n[0], half * n[1], half * n[2]}});
    const Pose& p = poses.back();
    const std::string id = std::to_string(c + 1);
    files.cameras.text += id + " RADIAL 640 480" + text({n[6], 0, 0, n[7], n[8]}) + "\n";
    files.images.text += id +
                         text({p.rotation[0], p.rotation[1], p.rotation[2], p.rotation[3],
                               p.position[0], p.position[1], p.position[2]}) +
                         " " + id + " image" + id + "\n";
    for (const BundleScene::Observation& o : scene.observations)
      if (o.camera == c)
        files.images.text += text({o.seen[0], -o.seen[1]}) + " " + std::to_string(o.point + 10);
    files.images.text += "\n";
  }
  for (std::size_t k = 0; k < scene.point_count(); ++k)
    files.points.text +=
        std::to_string(k + 10) +
        text({scene.points[3 * k], scene.points[3 * k + 1], scene.points[3 * k + 2]}) +
        " 1 2 3 0\n";
  if (!rig) return files;
  files.rigs.name = "rigs.txt";
  files.frames.name = "frames.txt";
  const auto numbers = [](const Pose& p) {
    return text({p.rotation[0], p.rotation[1], p.rotation[2], p.rotation[3], p.position[0],
                 p.position[1], p.position[2]});
  };
  for (std::size_t c = 0; c < poses.size(); c += 2) {
    const std::string left = std::to_string(c + 1), right = std::to_string(c + 2);
    files.rigs.text += left + " 3 CAMERA " + left + " IMU 9 0 CAMERA " + right + " 1" +
                       numbers(poses[c + 1] * poses[c].inverse()) + "\n";
    files.frames.text += left + " " + left + numbers(poses[c]) + " 3 CAMERA " + left + " " + left +
                         " IMU 9 12345678901 CAMERA " + right + " " + right + "\n";
  }
  return files;
}

double minimum_of(Problem& problem) {
  const Summary summary =
      solve(problem, {.backend = Backend::cpu, .max_iterations = 200, .function_tolerance = 1e-14});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  return summary.final_cost;
}

TEST(ColmapProblem, HasTheMinimumOfBundleAdjustmentInTheLarge) {
  BundleAdjustment adjustment(snavely());
  Evaluator expected(adjustment.problem(), {.backend = Backend::cpu});
  const double start = expected.cost(), minimum = minimum_of(adjustment.problem());
  for (const bool rig : {false, true}) {
    ColmapProblem colmap(parse_colmap(files_of(snavely(), rig), "sparse"));
    EXPECT_NEAR(Evaluator(colmap.problem(), {.backend = Backend::cpu}).cost(), start, 1e-9 * start);
    EXPECT_NEAR(minimum_of(colmap.problem()), minimum, 1e-9 * minimum);
    const ColmapModel model = parse_colmap(colmap_files(colmap.model()), "again");
    double sum = 0;
    for (const double distance : model.distances()) sum += distance * distance;
    EXPECT_NEAR(sum / 2, minimum, 1e-9 * minimum);
    if (!rig) continue;
    // Poses in the file of images repeat those of frames and sensors.
    ColmapFiles images = colmap_files(colmap.model());
    images.rigs = images.frames = {};
    double repeated = 0;
    for (const double distance : parse_colmap(images, "images").distances())
      repeated += distance * distance;
    EXPECT_NEAR(repeated / 2, minimum, 1e-9 * minimum);
  }
}

// The files repeat what a model says: poses of images follow those of frames, and the error of a
// point is the mean of its distances.
TEST(Colmap, WritesPosesAndErrorsThatFollow) {
  ColmapModel model = parse_colmap(files_of(snavely(), true), "sparse");
  for (ColmapModel::Frame& frame : model.frames) frame.pose.position[1] += 0.25;
  for (double& x : model.points) x += 0.001;  // points that stay keep their errors
  ColmapFiles files = colmap_files(model);
  std::vector<double> sums(model.point_count()), counts(model.point_count());
  const std::vector<double> distances = model.distances();
  for (std::size_t k = 0; k < distances.size(); ++k) {
    sums[model.observations[k].point] += distances[k];
    counts[model.observations[k].point] += 1;
  }
  std::istringstream lines(files.points.text);
  std::string line;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream words(line);
    std::vector<double> numbers;
    for (double x = 0; words >> x;) numbers.push_back(x);
    ASSERT_GE(numbers.size(), 8u);
    EXPECT_NEAR(numbers[7], sums[k] / counts[k], 1e-9) << k;
  }
  files.rigs = files.frames = {};
  const ColmapModel images = parse_colmap(files, "images");
  ASSERT_EQ(images.images.size(), model.images.size());
  for (std::size_t k = 0; k < model.images.size(); ++k)
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(images.pose(k).position[c], model.pose(k).position[c], 1e-12) << k;
}

// Seven coordinates stay: of the first point, of the one farthest from it, and one of the point
// farthest from their line, in which a turn about the line moves it most.
TEST(ColmapProblem, ThreePointsKeepSevenCoordinates) {
  ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
  const std::array<double, 3> shift = {40, -90, 15};
  for (std::size_t k = 0; k < model.points.size(); ++k) model.points[k] += shift[k % 3];
  for (ColmapModel::Frame& frame : model.frames)
    frame.pose.position = (frame.pose * Pose{{-shift[0], -shift[1], -shift[2]}}).position;
  using Vector = Eigen::Vector3d;
  const auto at = [&](std::size_t k) { return Vector(&model.points[3 * k]); };
  const auto farthest = [&](const auto& measure) {
    std::size_t best = 0;
    for (std::size_t k = 0; k < model.point_count(); ++k)
      if (measure(at(k)) > measure(at(best))) best = k;
    return best;
  };
  const std::size_t a = model.observations[0].point;
  const std::size_t b = farthest([&](const Vector& x) { return (x - at(a)).norm(); });
  const Vector along = (at(b) - at(a)).normalized();
  const auto beside = [&](const Vector& x) -> Vector {
    return x - at(a) - along * along.dot(x - at(a));
  };
  const std::size_t c = farthest([&](const Vector& x) { return beside(x).norm(); });
  Eigen::Index coordinate = 0;
  along.cross(beside(at(c))).cwiseAbs().maxCoeff(&coordinate);
  std::set<std::size_t> expected = {3 * c + static_cast<std::size_t>(coordinate)};
  for (std::size_t k = 0; k < 3; ++k) expected.insert({3 * a + k, 3 * b + k});
  ColmapProblem colmap(model, {.refine = {"poses", "points"}, .gauge = ColmapGauge::three_points});
  solve(colmap.problem(), {.backend = Backend::cpu, .max_iterations = 5});
  const ColmapModel now = colmap.model();
  std::set<std::size_t> stayed;
  for (std::size_t k = 0; k < model.points.size(); ++k)
    if (now.points[k] == model.points[k]) stayed.insert(k);
  EXPECT_EQ(stayed, expected);
}

// The first solve ends by a looser tolerance, and the rest goes on to the caller's.
TEST(ColmapProblem, AdjustmentsEndAtTheToleranceOfTheirOptions) {
  BundleAdjustment reference(snavely());
  const double minimum = minimum_of(reference.problem());
  ColmapProblem colmap(parse_colmap(files_of(snavely()), "sparse"));
  const Adjustment out =
      adjust(colmap, {.backend = Backend::cpu, .max_iterations = 200, .function_tolerance = 1e-14});
  EXPECT_EQ(out.summary.termination, Termination::CONVERGENCE) << out.summary.message;
  EXPECT_NEAR(out.summary.final_cost, minimum, 1e-12 * minimum);
}

// The limit of steps is that of all solves together, and each of them is taken.
TEST(ColmapProblem, AdjustmentsTakeAllTheirSteps) {
  const ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
  const auto steps = [&](int most) {
    ColmapProblem colmap(model);
    const SolverOptions options{
        .backend = Backend::cpu, .max_iterations = most, .function_tolerance = 1e-14};
    return adjust(colmap, options).summary.num_iterations();
  };
  const int all = steps(200);
  ASSERT_LT(all, 200);
  for (int most = 1; most <= all; ++most) EXPECT_EQ(steps(most), most);
}

TEST(ColmapProblem, GaugesHaveOneMinimum) {
  BundleAdjustment adjustment(snavely());
  const double minimum = minimum_of(adjustment.problem());
  for (const ColmapGauge gauge : {ColmapGauge::none, ColmapGauge::camera, ColmapGauge::two_cameras,
                                  ColmapGauge::three_points}) {
    ColmapProblem colmap(parse_colmap(files_of(snavely()), "sparse"), {.gauge = gauge});
    EXPECT_EQ(colmap.gauge(), gauge);
    EXPECT_NEAR(minimum_of(colmap.problem()), minimum, 1e-9 * minimum) << name(gauge);
  }
  // The scale of a rig that is not refined.
  ColmapProblem rig(parse_colmap(files_of(snavely(), true), "sparse"),
                    {.refine = {"poses", "points"}});
  EXPECT_EQ(rig.gauge(), ColmapGauge::camera);
}

TEST(ColmapProblem, KeepsWhatIsNotRefined) {
  const ColmapFiles files = files_of(snavely(), true);
  struct Row {
    std::vector<std::string> refine;
    bool cameras, images, points, rigs, frames;  ///< files that change
  };
  const Row rows[] = {{{"focal"}, true, false, false, false, false},
                      {{"principal"}, true, false, false, false, false},
                      {{"distortion"}, true, false, false, false, false},
                      {{"poses"}, false, true, false, false, true},
                      {{"rigs"}, false, true, false, true, false},
                      {{"points"}, false, false, true, false, false}};
  for (const Row& row : rows) {
    ColmapProblem colmap(parse_colmap(files, "sparse"), {.refine = row.refine});
    solve(colmap.problem(), {.backend = Backend::cpu, .max_iterations = 3});
    const ColmapFiles out = colmap_files(colmap.model());
    EXPECT_EQ(out.cameras.text != files.cameras.text, row.cameras) << row.refine[0];
    EXPECT_EQ(out.images.text != files.images.text, row.images) << row.refine[0];
    EXPECT_EQ(out.points.text != files.points.text, row.points) << row.refine[0];
    EXPECT_EQ(out.rigs.text != files.rigs.text, row.rigs) << row.refine[0];
    EXPECT_EQ(out.frames.text != files.frames.text, row.frames) << row.refine[0];
    const ColmapModel model = parse_colmap(out, "again");
    const ColmapModel old = parse_colmap(files, "sparse");
    for (std::size_t c = 0; c < old.cameras.size(); ++c) {
      const auto& now = model.cameras[c].parameters;
      const auto& before = old.cameras[c].parameters;
      EXPECT_EQ(now[0] != before[0], row.refine[0] == "focal");
      EXPECT_EQ(now[1] != before[1], row.refine[0] == "principal");
      EXPECT_EQ(now[3] != before[3], row.refine[0] == "distortion");
    }
  }
}

// A fisheye model near what it saw has first steps of the default length. What the cameras see here
// is computed by their own model.
TEST(ColmapProblem, ShortensFirstStepsOfFisheyeCamerasThatAreFarFromWhatTheySaw) {
  struct Row {
    CameraModel model;
    double shift;  ///< pixels between what was seen and the image
    double radius;
    std::size_t axis = 0;  ///< of the shift
    double wide = 500;     ///< the first focal length
  };
  const double usual = SolverOptions().initial_trust_region_radius;
  const Row rows[] = {{CameraModel::OPENCV_FISHEYE, 2, usual},
                      {CameraModel::OPENCV_FISHEYE, 20, 100},
                      {CameraModel::FOV, 20, 100},
                      {CameraModel::OPENCV, 20, usual},
                      // Each axis counts by its own focal length.
                      {CameraModel::FISHEYE, 20, usual, 0, 5000},
                      {CameraModel::FISHEYE, 20, 100, 1, 5000}};
  for (const Row& row : rows) {
    ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
    for (ColmapModel::Camera& camera : model.cameras) {
      camera.model = row.model;
      camera.parameters.assign(sizes(row.model).all(), 0.01);
      for (std::size_t k = 0; k < sizes(row.model).focal; ++k)
        camera.parameters[k] = k == 0 ? row.wide : 500;
    }
    for (ColmapModel::Observation& o : model.observations) {
      o.seen = model.project(o);
      o.seen[row.axis] += row.shift;
    }
    const ColmapProblem colmap(model);
    EXPECT_EQ(colmap.solver_options().initial_trust_region_radius, row.radius)
        << name(row.model) << " " << row.shift;
  }
}

/// The scene without noise, with its first points far behind all cameras, where the cost falls on
/// for ever.
BundleScene with_lost_points(std::size_t count = 1) {
  BundleScene scene = snavely();
  for (std::size_t k = 0; k < scene.observations.size(); ++k) {
    BundleScene::Observation& o = scene.observations[k];
    o.seen = scene.project(o.camera, o.point);
  }
  for (std::size_t k = 0; k < 3 * count; ++k) scene.points[k] *= -1000;
  return scene;
}

// The scene is exact: the minimum is 0, at the place that the point has in it.
TEST(ColmapProblem, MovesPointsToLowerMinima) {
  const std::vector<double> truth = snavely().points;
  const ColmapModel model = parse_colmap(files_of(with_lost_points()), "sparse");
  for (const Retriangulation kind :
       {Retriangulation::off, Retriangulation::front, Retriangulation::anywhere}) {
    ColmapProblem colmap(model, {.refine = {"points"}, .retriangulation = kind});
    SolverOptions options = colmap.solver_options();
    options.backend = Backend::cpu;
    const Adjustment adjustment = adjust(colmap, options);
    EXPECT_EQ(adjustment.moved_points, kind == Retriangulation::off ? 0u : 1u) << name(kind);
    if (kind == Retriangulation::off) {
      EXPECT_GT(adjustment.summary.final_cost, 1);
      continue;
    }
    EXPECT_LT(adjustment.summary.final_cost, 1e-9) << name(kind);
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(colmap.model().points[k], truth[k], 1e-4);
  }
}

TEST(ColmapProblem, RetriangulationKeepsFixedPointsAndPointsThatAreNotRefined) {
  const ColmapModel model = parse_colmap(files_of(with_lost_points()), "sparse");
  ColmapProblem poses(model, {.refine = {"poses"}});
  EXPECT_EQ(poses.retriangulate(), 0u);
  ColmapProblem fixed(model, {.refine = {"points"}});
  fixed.problem().set_constant(fixed.points(), 0);
  EXPECT_EQ(fixed.retriangulate(), 0u);
  EXPECT_EQ(fixed.model().points[0], model.points[0]);
  // Poses come first among the unknowns here.
  const ColmapModel two = parse_colmap(files_of(with_lost_points(2)), "sparse");
  for (const std::size_t kept : {0, 1}) {
    ColmapProblem one(two, {.refine = {"poses", "points"}});
    one.problem().set_constant(one.points(), kept);
    EXPECT_EQ(one.retriangulate(), 1u);
    EXPECT_EQ(one.model().points[3 * kept], two.points[3 * kept]);
    EXPECT_NE(one.model().points[3 - 3 * kept], two.points[3 - 3 * kept]);
  }
}

// Rays of all camera models: each leads to what was seen.
TEST(Retriangulation, FindsDirectionsOfAllCameraModels) {
  const std::array<double, 3> point = {0.3, -0.2, 1.1};
  for (const auto& row : rows_of(CameraModel{})) {
    std::vector<double> parameters(sizes(row.value).all(), 0.01);
    for (std::size_t k = 0; k < sizes(row.value).focal; ++k) parameters[k] = 500;
    if (row.value == CameraModel::EUCM) parameters = {500, 500, 0, 0, 0.5, 1};
    const auto d = direction_of(row.value, parameters, project(row.value, parameters, point));
    ASSERT_TRUE(d) << row.name;
    const Eigen::Vector3d expected = Eigen::Vector3d(0.3, -0.2, 1.1).normalized();
    EXPECT_LT((*d - expected).norm(), 1e-5) << row.name;
  }
}

// A point of one image has a distance that nothing determines: it kept solves from an end.
TEST(ColmapProblem, KeepsTheDistanceOfAPointOfOneImage) {
  BundleScene scene = snavely();
  std::erase_if(scene.observations,
                [](const BundleScene::Observation& o) { return o.point == 0 && o.camera != 0; });
  const ColmapModel model = parse_colmap(files_of(scene), "sparse");
  ColmapProblem colmap(model);
  const std::span<const std::uint8_t> fixed = colmap.problem().constant_mask();
  const auto at = fixed.subspan(colmap.points().offset(), 6);
  EXPECT_EQ(std::ranges::count(at.first(3), 1), 1);
  EXPECT_EQ(std::ranges::count(at.last(3), 1), 0);
}

// The coordinate that stays is the one in which the point is farthest from its camera.
TEST(ColmapProblem, KeepsTheCoordinateAlongTheRay) {
  BundleScene scene = snavely();
  std::erase_if(scene.observations,
                [](const BundleScene::Observation& o) { return o.point == 0 && o.camera != 0; });
  ColmapModel model = parse_colmap(files_of(scene), "sparse");
  const std::array<double, 3> camera = model.center(0);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (std::size_t k = 0; k < 3; ++k)
      model.points[k] = camera[k] + (k == axis ? 0.2 : 0.1) * (camera[k] < 0 ? 1 : -1);
    ColmapProblem colmap(model);
    const auto at = colmap.problem().constant_mask().subspan(colmap.points().offset(), 3);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(at[k], k == axis ? 1 : 0) << axis;
  }
}

// Positions that are exact give the scale, and the model moves to them.
TEST(ColmapProblem, MovesToPriors) {
  const ColmapModel model = parse_colmap(files_of(snavely(), true), "sparse");
  std::string priors = "# name x y z\n";
  for (std::size_t k = 0; k < model.images.size(); ++k) {
    const auto c = model.center(k);
    priors += model.images[k].name + text({100 - 3 * c[1], 3 * c[0], 3 * c[2] + 20});
    if (k == 1) priors += " 0.1 0.1 0.2";
    if (k == 2) priors += " 0.01 0.001 0 0.02 0 0.01";
    priors += "\n";
  }
  const auto read = parse_position_priors(priors, "priors.txt", model);
  ASSERT_EQ(read.size(), 6u);
  EXPECT_DOUBLE_EQ(read[1].covariance[8], 0.04);
  EXPECT_EQ(read[2].covariance[1], read[2].covariance[3]);
  ColmapProblem colmap(model, {.priors = read});
  EXPECT_TRUE(colmap.aligned());
  EXPECT_EQ(colmap.gauge(), ColmapGauge::none);
  // Half the squares of the reprojection errors at the start, and nothing from priors.
  double start = 0;
  for (const double distance : model.distances()) start += distance * distance / 2;
  EXPECT_NEAR(Evaluator(colmap.problem(), {.backend = Backend::cpu}).cost(), start, 1e-8 * start);
  solve(colmap.problem(), {.backend = Backend::cpu, .max_iterations = 50});
  EXPECT_LT(position_rmse(colmap.model(), read), 0.5);
}

/// The model turned by a right angle, scaled by 3 and moved.
std::array<double, 3> elsewhere(const std::array<double, 3>& x,
                                const std::array<double, 3>& origin) {
  return {origin[0] - 3 * x[1], origin[1] + 3 * x[0], origin[2] + 3 * x[2]};
}

std::vector<PositionPrior> priors_of(const ColmapModel& model, std::vector<std::uint32_t> images,
                                     const std::array<double, 3>* origin) {
  std::vector<PositionPrior> out;
  for (const std::uint32_t image : images) {
    PositionPrior prior{.image = image, .position = model.center(image)};
    if (origin != nullptr) {
      prior.position = elsewhere(prior.position, *origin);
      for (double& x : prior.covariance) x *= 9;
    }
    out.push_back(prior);
  }
  return out;
}

/// What observations of the scene determine well.
const std::vector<std::string> kScene = {"poses", "points"};

double start_of(ColmapProblem& colmap) {
  return Evaluator(colmap.problem(), {.backend = Backend::cpu}).cost();
}

// Priors that leave turns open: of one camera, of two, and of cameras on a line. A similarity of
// the priors changes no minimum, wherever it leads.
TEST(ColmapProblem, MovesToPriorsOfOneCameraAndOnALine) {
  BundleScene scene = snavely();
  for (std::size_t c = 0; c < scene.camera_count(); ++c) {  // with parallel axes: on a line
    double* n = &scene.cameras[9 * c];
    n[0] = n[1] = 0;
    n[2] = 0.1;
  }
  for (BundleScene::Observation& o : scene.observations) {
    o.seen = scene.project(o.camera, o.point);
    o.seen[o.point % 2] += 0.5 * std::sin(1.7 * o.point + o.camera);
  }
  const ColmapModel model = parse_colmap(files_of(scene), "sparse");
  ColmapProblem without(model, {.refine = kScene});
  const double free = minimum_of(without.problem());
  const std::array<double, 3> origins[] = {{100, -20, 7}, {4e5, 5e6, 300}};
  for (const std::vector<std::uint32_t>& images :
       {std::vector<std::uint32_t>{3}, {1, 4}, {0, 1, 2, 3, 4, 5}}) {
    ColmapProblem here(model, {.refine = kScene, .priors = priors_of(model, images, nullptr)});
    const double start = start_of(here), expected = minimum_of(here.problem());
    if (images.size() < 3) {
      EXPECT_NEAR(expected, free, 1e-7 * free);
    }
    for (const auto& origin : origins) {
      ColmapProblem there(model, {.refine = kScene, .priors = priors_of(model, images, &origin)});
      EXPECT_TRUE(there.aligned());
      // Priors agree with the cameras of the start, up to rounding of coordinates.
      EXPECT_NEAR(start_of(there), start, 1e-6 * start);
      EXPECT_NEAR(minimum_of(there.problem()), expected, 1e-7 * expected) << images.size();
    }
  }
}

// Coordinates of a country: a pose that is a translation would turn about an origin far away.
TEST(ColmapProblem, HasTheSameMinimumFarFromTheOrigin) {
  ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
  ColmapProblem near(model, {.refine = kScene});
  const double expected = minimum_of(near.problem());
  const std::array<double, 3> shift = {4e5, 5e6, 100};
  for (std::size_t k = 0; k < model.points.size(); ++k) model.points[k] += shift[k % 3];
  for (ColmapModel::Frame& frame : model.frames)
    frame.pose.position = (frame.pose * Pose{{-shift[0], -shift[1], -shift[2]}}).position;
  for (const ColmapGauge gauge : {ColmapGauge::none, ColmapGauge::camera, ColmapGauge::two_cameras,
                                  ColmapGauge::three_points}) {
    ColmapProblem colmap(model, {.refine = kScene, .gauge = gauge});
    const Summary summary = solve(colmap.problem(), {.backend = Backend::cpu});
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << name(gauge);
    EXPECT_NEAR(summary.final_cost, expected, 1e-5 * expected) << name(gauge);
  }
}

TEST(ColmapProblem, PriorsNameImagesWithBlanks) {
  ColmapModel model;
  for (const char* name : {"my image", "my image 2", "my", "my image 2 0.5", "her image"})
    model.images.push_back({.name = name});
  const std::vector<PositionPrior> priors = parse_position_priors(
      "my image 1 2 3\n  my image 2 4 5 6 \t\r\nmy 7 8 9 2 3 4\nmy image 2 0.5 1 2 3 2 0 0 2 0 2\n"
      "her image 5 6 7 1 2 3\n",
      "priors.txt", model);
  const std::pair<std::uint32_t, double> expected[] = {{0, 1}, {1, 4}, {2, 7}, {3, 1}, {4, 5}};
  ASSERT_EQ(priors.size(), std::size(expected));
  for (std::size_t k = 0; k < priors.size(); ++k) {
    EXPECT_EQ(priors[k].image, expected[k].first);
    EXPECT_EQ(priors[k].position[0], expected[k].second);
  }
  EXPECT_EQ(priors[2].covariance, (std::array<double, 9>{4, 0, 0, 0, 9, 0, 0, 0, 16}));
  try {
    parse_position_priors("my pictures 1 2 3\n", "priors.txt", model);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "priors.txt:1: expected a coordinate of a position as a finite number, got \"pictures\"");
  }
}

// The best similarity onto a mirror image turns by nothing and shrinks: cameras at ±3, ±2 and ±1 on
// the axes, mirrored at z = 0, have the scale (9 + 4 − 1) / (9 + 4 + 1) of Umeyama's (42).
TEST(ColmapProblem, AlignsWithPriorsThatAreMirrored) {
  ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
  std::vector<PositionPrior> priors;
  for (std::uint32_t c = 0; c < 6; ++c) {
    std::array<double, 3> at = {};
    at[c / 2] = (c % 2 == 0 ? 1 : -1) * (3.0 - c / 2);
    model.frames[c].pose = Pose{{-at[0], -at[1], -at[2]}};
    ASSERT_EQ(model.center(c), at);
    priors.push_back({.image = c, .position = {at[0], at[1], -at[2]}});
  }
  const ColmapProblem moved(model, {.priors = priors});
  ASSERT_TRUE(moved.aligned());
  for (std::uint32_t c = 0; c < 6; ++c)
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(moved.model().center(c)[k], 12.0 / 14 * model.center(c)[k], 1e-12) << c;
}

TEST(ColmapProblem, WeighsPriorsByTheirCovariance) {
  const ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
  PositionPrior prior{.image = 1, .covariance = {4, 1, 0.5, 1, 3, 0.2, 0.5, 0.2, 2}};
  const auto c = model.center(1);
  prior.position = {c[0] - 1, c[1] + 2, c[2] - 0.5};
  ColmapProblem with(model, {.priors = {prior}, .align_to_priors = false}), without(model);
  const double cost = Evaluator(with.problem(), {.backend = Backend::cpu}).cost() -
                      Evaluator(without.problem(), {.backend = Backend::cpu}).cost();
  // ½ dᵀ C⁻¹ d for d = (1, −2, 0.5), in fractions.
  EXPECT_NEAR(cost, 4661.0 / 4258, 1e-9);
}

// A position that is wrong, and said to be uncertain, moves the model as little as it says.
TEST(ColmapProblem, AlignsByTheCovarianceOfPriors) {
  const ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
  const std::array<double, 3> origin = {100, -20, 7};
  std::vector<PositionPrior> priors = priors_of(model, {0, 1, 2, 3, 4, 5}, &origin);
  priors[2].position[0] += 50;
  for (double& x : priors[2].covariance) x *= 1e12;
  const ColmapProblem moved(model, {.priors = priors});
  ASSERT_TRUE(moved.aligned());
  for (std::uint32_t c = 0; c < 6; ++c) {
    const std::array<double, 3> expected = elsewhere(model.center(c), origin);
    const auto center = moved.model().center(c);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(center[k], expected[k], 1e-8) << c;
  }
}

// q and −q are one rotation; programs that compare files see two.
TEST(ColmapProblem, QuaternionsKeepTheirSign) {
  const ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
  ColmapProblem colmap(model, {.refine = {"poses"}});
  solve(colmap.problem(), {.backend = Backend::cpu, .max_iterations = 3});
  const ColmapModel now = colmap.model();
  ASSERT_EQ(now.frames.size(), model.frames.size());
  for (std::size_t k = 0; k < model.frames.size(); ++k) {
    const auto &a = model.frames[k].pose.rotation, &b = now.frames[k].pose.rotation;
    EXPECT_GT(a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3], 0.9) << k;
  }
}

TEST(ColmapProblem, RefusesWhatItCannotDo) {
  const ColmapModel model = parse_colmap(files_of(snavely()), "sparse");
  const auto message = [&](const ColmapOptions& options) -> std::string {
    try {
      const ColmapProblem colmap(model, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({.refine = {"focals"}}).find("points to refine, got \"focals\""),
            std::string::npos);
  EXPECT_NE(message({.refine = {}}).find("expected something to refine"), std::string::npos);
  EXPECT_NE(message({.priors = {{.image = 6}}}).find("a prior of an image below 6, got 6"),
            std::string::npos);
  EXPECT_NE(
      message({.priors = {{.covariance = {1, 0, 0, 0, -1, 0, 0, 0, 1}}}})
          .find("expected a positive definite covariance of the prior of image \"image1\", got "
                "one with the eigenvalue -1"),
      std::string::npos);
  // A matrix that has one of the three pairs differ.
  for (const auto& [above, below] : {std::pair{1, 3}, std::pair{2, 6}, std::pair{5, 7}}) {
    PositionPrior skew{.covariance = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    skew.covariance[static_cast<std::size_t>(above)] = 0.5;
    skew.covariance[static_cast<std::size_t>(below)] = 0.25;
    EXPECT_NE(
        message({.priors = {skew}}).find("got one that has 0.25 below the diagonal and 0.5 above"),
        std::string::npos)
        << message({.priors = {skew}});
  }
  EXPECT_NE(message({.refine = {"rigs"}}).find("to refine that the model has, got \"rigs\""),
            std::string::npos);
  ColmapModel blind = model;
  blind.observations.clear();
  EXPECT_THROW(ColmapProblem{blind}, Error);
  const char* texts[] = {"image9 0 0 0\n",
                         "image1 0 0\n",
                         "image1 0 0 0 1\n",
                         "image1 0 0 0 0 1 1\n",
                         "image1 0 0 0\nimage1 0 0 0\n",
                         "image1 0 nan 0\n",
                         "image1 0 0 0 0.1 -0.1 0.1\n",
                         "image1 0 0 0 0.1 0.1 0\n",
                         "# none\n",
                         ""};
  for (const char* bad : texts)
    EXPECT_THROW(parse_position_priors(bad, "priors.txt", model), Error) << bad;
  const auto got = [&](const char* priors) -> std::string {
    try {
      parse_position_priors(priors, "priors.txt", model);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(got("image1 0 0 0\nimage2 0 0 0 2 3 0 2 0 1\n"),
            "priors.txt:2: expected a covariance that is positive definite, got one with the "
            "eigenvalue -1");
  EXPECT_EQ(
      got("image1 0 0 0 1 1e200 1\n"),
      "priors.txt:1: expected a covariance that is positive definite, got one with the number "
      "inf");
}

}  // namespace
}  // namespace topograd::test
