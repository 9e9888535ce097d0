// Camera models of COLMAP and OpenMVG.
#include "camera_model.hpp"

#include "../../ir/error.hpp"

#include <cmath>
#include <string>
#include <type_traits>

namespace topograd {
namespace {

struct Row {
  CameraModelSizes sizes;
  std::string_view parameters;
};
constexpr std::array<Row, kCountOf<CameraModel>> kRows = {{
    {{1, 0}, "f cx cy"},
    {{2, 0}, "fx fy cx cy"},
    {{1, 1}, "f cx cy k"},
    {{1, 2}, "f cx cy k1 k2"},
    {{2, 4}, "fx fy cx cy k1 k2 p1 p2"},
    {{2, 4}, "fx fy cx cy k1 k2 k3 k4"},
    {{2, 8}, "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6"},
    {{2, 1}, "fx fy cx cy omega"},
    {{1, 1}, "f cx cy k"},
    {{1, 2}, "f cx cy k1 k2"},
    {{2, 8}, "fx fy cx cy k1 k2 p1 p2 k3 k4 sx1 sy1"},
    {{2, 12}, "fx fy cx cy k0 k1 k2 k3 k4 k5 p0 p1 s0 s1 s2 s3"},
    {{1, 1}, "f cx cy k"},
    {{2, 1}, "fx fy cx cy k"},
    {{1, 0}, "f cx cy"},
    {{2, 0}, "fx fy cx cy"},
    {{2, 2}, "fx fy cx cy alpha beta"},
    {{1, 3}, "f cx cy k1 k2 k3"},
    {{1, 5}, "f cx cy k1 k2 k3 t1 t2"},
    {{1, 4}, "f cx cy k1 k2 k3 k4"},
}};

const Row& row(CameraModel model) { return kRows[static_cast<std::size_t>(model)]; }

// The functions below take numbers or Values, which have these in common.

template <class T>
T constant(double number) {
  if constexpr (std::is_same_v<T, Value>) {
    return literal(number);
  } else {
    return number;
  }
}
double choose(bool condition, double a, double b) { return condition ? a : b; }
Value choose(const Bool& condition, const Value& a, const Value& b) {
  return select(condition, a, b);
}
template <class T>
T root(const T& x) {
  using std::sqrt;
  return sqrt(x);
}

template <class T>
struct Point2 {
  T x, y;
};

// Squares below which series replace quotients that are 0/0 at 0. Nine terms are exact to 1e-17
// there, and above it a quotient and its derivative lose at most two digits.
constexpr double kSmall = 0.01;

/// Σ c_k x^k.
template <class T, std::size_t N>
T series(const T& x, const std::array<double, N>& c) {
  T sum = constant<T>(c[N - 1]);
  for (std::size_t k = N - 1; k-- > 0;) sum = constant<T>(c[k]) + x * sum;
  return sum;
}

/// atan(√s) / √s for s >= 0.
constexpr std::array kArcTangent = {1.0,       -1.0 / 3, 1.0 / 5,   -1.0 / 7, 1.0 / 9,
                                    -1.0 / 11, 1.0 / 13, -1.0 / 15, 1.0 / 17};
template <class T>
T arc_tangent_ratio(const T& s) {
  using std::atan;
  const auto small = s < constant<T>(kSmall);
  const T r = root(choose(small, constant<T>(1), s));
  return choose(small, series(s, kArcTangent), atan(r) / r);
}

/// tan(√s) / √s for s >= 0.
template <class T>
T tangent_ratio(const T& s) {
  using std::tan;
  // Coefficients of the tangent: OEIS A002430 / A036279.
  constexpr std::array<double, 9> kTangent = {1.0,
                                              1.0 / 3,
                                              2.0 / 15,
                                              17.0 / 315,
                                              62.0 / 2835,
                                              1382.0 / 155925,
                                              21844.0 / 6081075,
                                              929569.0 / 638512875,
                                              6404582.0 / 10854718875};
  const auto small = s < constant<T>(kSmall);
  const T r = root(choose(small, constant<T>(1), s));
  return choose(small, series(s, kTangent), tan(r) / r);
}

/// (x, y) / z.
template <class T>
Point2<T> flat(const T* p) {
  return {p[0] / p[2], p[1] / p[2]};
}

/// The direction of (x, y) with the angle to the axis as its length.
template <class T>
Point2<T> round(const T* p) {
  using std::atan2;
  const T zero = constant<T>(0), one = constant<T>(1);
  const T square = p[0] * p[0] + p[1] * p[1];
  // Near the axis, in front of the camera.
  const auto front = p[2] > zero;
  const T depth = choose(front, p[2], one);
  const T s = square / (depth * depth);
  const T far = choose(front, constant<T>(kSmall) - s, -one);  // > 0: near the axis
  const auto near = far > zero;
  const T r = root(choose(near, one, square));
  const T scale = choose(near, series(choose(near, s, zero), kArcTangent) / depth,
                         atan2(r, choose(near, one, p[2])) / r);
  return {p[0] * scale, p[1] * scale};
}

/// 1 + k[0] s + k[1] s² + ...
template <class T>
T radial(const T& s, const T* k, std::size_t count) {
  T sum = k[count - 1];
  for (std::size_t i = count - 1; i-- > 0;) sum = k[i] + s * sum;
  return constant<T>(1) + s * sum;
}

template <class T>
Point2<T> scaled(const T& factor, const Point2<T>& p) {
  return {factor * p.x, factor * p.y};
}

/// Decentred lenses add this to the image: a to x, b to y.
template <class T>
Point2<T> tangential(const Point2<T>& p, const T& a, const T& b) {
  const T two = constant<T>(2);
  const T xx = p.x * p.x, xy = p.x * p.y, yy = p.y * p.y, s = xx + yy;
  return {two * b * xy + a * (s + two * xx), two * a * xy + b * (s + two * yy)};
}

template <class T>
Point2<T> sum(const Point2<T>& a, const Point2<T>& b) {
  return {a.x + b.x, a.y + b.y};
}

template <class T>
T square_of(const Point2<T>& p) {
  return p.x * p.x + p.y * p.y;
}

/// OPENCV and FULL_OPENCV: k holds k1 k2 p1 p2, then k3 k4 k5 k6.
template <class T>
Point2<T> open_cv(const Point2<T>& p, const T* k, bool full) {
  const T s = square_of(p);
  const std::array<T, 3> above = {k[0], k[1], full ? k[4] : constant<T>(0)};
  T factor = radial(s, above.data(), full ? 3 : 2);
  if (full) factor = factor / radial(s, k + 5, 3);
  return sum(scaled(factor, p), tangential(p, k[3], k[2]));
}

/// k holds k1 k2 p1 p2 k3 k4 sx1 sy1.
template <class T>
Point2<T> thin_prism(const Point2<T>& p, const T* k) {
  const T s = square_of(p);
  const std::array<T, 4> along = {k[0], k[1], k[4], k[5]};
  const Point2<T> prism = {k[6] * s, k[7] * s};
  return sum(scaled(radial(s, along.data(), 4), p), sum(tangential(p, k[3], k[2]), prism));
}

/// k holds k0 to k5, p0 p1, s0 to s3.
template <class T>
Point2<T> tilted_thin_prism(const Point2<T>& p, const T* k) {
  const Point2<T> q = scaled(radial(square_of(p), k, 6), p);
  const T s = square_of(q);
  const Point2<T> prism = {s * (k[8] + s * k[9]), s * (k[10] + s * k[11])};
  return sum(q, sum(tangential(q, k[6], k[7]), prism));
}

/// Devernay and Faugeras, Straight lines have to be straight, 2001:
/// atan(2 r tan(ω / 2)) / (r ω), which is 1 for ω = 0.
template <class T>
T field_of_view(const T& s, const T& omega) {
  const T quarter = constant<T>(0.25) * omega * omega;
  const T h = tangent_ratio(quarter);                         // 2 tan(ω / 2) / ω
  return h * arc_tangent_ratio(s * (omega * omega * h * h));  // (2 r tan(ω / 2))²
}

/// r of a point (r x, r y) with r z = 1 + k r² (x² + y²): Fitzgibbon's division model.
template <class T>
Point2<T> division(const T* p, const T& k) {
  const T square = p[0] * p[0] + p[1] * p[1];
  const T two = constant<T>(2);
  return scaled(two / (p[2] + root(p[2] * p[2] - two * two * square * k)), Point2<T>{p[0], p[1]});
}

/// Khomutenko et al., An enhanced unified camera model, 2016; k holds α and β.
template <class T>
Point2<T> unified(const T* p, const T* k) {
  const T distance = root(k[1] * (p[0] * p[0] + p[1] * p[1]) + p[2] * p[2]);
  const T depth = k[0] * distance + (constant<T>(1) - k[0]) * p[2];
  return {p[0] / depth, p[1] / depth};
}

/// The image for focal lengths of 1 and the principal point 0.
template <class T>
Point2<T> distorted(CameraModel model, const T* k, const T* p) {
  switch (model) {
    case CameraModel::SIMPLE_PINHOLE:
    case CameraModel::PINHOLE: return flat(p);
    case CameraModel::SIMPLE_RADIAL:
    case CameraModel::RADIAL:
    case CameraModel::PINHOLE_RADIAL_K3: {
      const Point2<T> at = flat(p);
      return scaled(radial(square_of(at), k, sizes(model).distortion), at);
    }
    case CameraModel::PINHOLE_BROWN_T2: {
      const Point2<T> at = flat(p);
      return sum(scaled(radial(square_of(at), k, 3), at), tangential(at, k[4], k[3]));
    }
    case CameraModel::OPENCV: return open_cv(flat(p), k, false);
    case CameraModel::FULL_OPENCV: return open_cv(flat(p), k, true);
    case CameraModel::FOV: {
      const Point2<T> at = flat(p);
      return scaled(field_of_view(square_of(at), k[0]), at);
    }
    case CameraModel::OPENCV_FISHEYE:
    case CameraModel::SIMPLE_RADIAL_FISHEYE:
    case CameraModel::RADIAL_FISHEYE:
    case CameraModel::PINHOLE_FISHEYE: {
      const Point2<T> at = round(p);
      return scaled(radial(square_of(at), k, sizes(model).distortion), at);
    }
    case CameraModel::THIN_PRISM_FISHEYE: return thin_prism(round(p), k);
    case CameraModel::RAD_TAN_THIN_PRISM_FISHEYE: return tilted_thin_prism(round(p), k);
    case CameraModel::SIMPLE_DIVISION:
    case CameraModel::DIVISION: return division(p, k[0]);
    case CameraModel::SIMPLE_FISHEYE:
    case CameraModel::FISHEYE: return round(p);
    case CameraModel::EUCM: return unified(p, k);
  }
  return flat(p);
}

template <class T>
Point2<T> image_of(CameraModel model, std::span<const T> c, const T* p) {
  const CameraModelSizes n = sizes(model);
  if (c.size() != n.all())
    throw Error(ErrorCode::Shape, "project: expected " + std::to_string(n.all()) +
                                      " parameters of " + std::string(name(model)) + ", got " +
                                      std::to_string(c.size()));
  const Point2<T> at = distorted(model, c.data() + n.focal + 2, p);
  return {c[0] * at.x + c[n.focal], c[n.focal - 1] * at.y + c[n.focal + 1]};
}

}  // namespace

CameraModelSizes sizes(CameraModel model) { return row(model).sizes; }
std::string_view parameter_names(CameraModel model) { return row(model).parameters; }

bool maps_angles(CameraModel model) {
  switch (model) {
    case CameraModel::OPENCV_FISHEYE:
    case CameraModel::FOV:
    case CameraModel::SIMPLE_RADIAL_FISHEYE:
    case CameraModel::RADIAL_FISHEYE:
    case CameraModel::THIN_PRISM_FISHEYE:
    case CameraModel::RAD_TAN_THIN_PRISM_FISHEYE:
    case CameraModel::SIMPLE_FISHEYE:
    case CameraModel::FISHEYE:
    case CameraModel::PINHOLE_FISHEYE: return true;
    case CameraModel::SIMPLE_PINHOLE:
    case CameraModel::PINHOLE:
    case CameraModel::SIMPLE_RADIAL:
    case CameraModel::RADIAL:
    case CameraModel::OPENCV:
    case CameraModel::FULL_OPENCV:
    case CameraModel::SIMPLE_DIVISION:
    case CameraModel::DIVISION:
    case CameraModel::EUCM:
    case CameraModel::PINHOLE_RADIAL_K3:
    case CameraModel::PINHOLE_BROWN_T2: break;
  }
  return false;
}

Vec2 project(CameraModel model, std::span<const Value> parameters, const Vec3& point) {
  const std::array<Value, 3> p = {point.x, point.y, point.z};
  const Point2<Value> at = image_of(model, parameters, p.data());
  return {at.x, at.y};
}

std::array<double, 2> project(CameraModel model, std::span<const double> parameters,
                              const std::array<double, 3>& point) {
  const Point2<double> at = image_of(model, parameters, point.data());
  return {at.x, at.y};
}

}  // namespace topograd
