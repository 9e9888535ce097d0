// Reading and writing of OpenMVG's scenes.
#include "openmvg.hpp"

#include "../../ir/error.hpp"
#include "../../runtime/cache/json_values.hpp"
#include "packed_text.hpp"
#include "word_reader.hpp"

#include <Eigen/Geometry>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace topograd {
namespace {

using Json = runtime::Json;

constexpr double kNoId = std::numeric_limits<std::uint32_t>::max();
constexpr double kOrthogonal = 1e-3;  // of R Rᵀ: files of other programs have few digits
constexpr std::size_t kDeepest = 64;  // lists and objects inside of each other
constexpr std::uint32_t kFirstOfName = 0x80000000;  // of a polymorphic id: the name is beside it

struct CameraKind {
  std::string_view name;
  CameraModel model;
  const char* distortion;  ///< key of its numbers
};
constexpr CameraKind kKinds[] = {
    {"pinhole", CameraModel::SIMPLE_PINHOLE, nullptr},
    {"pinhole_radial_k1", CameraModel::SIMPLE_RADIAL, "disto_k1"},
    {"pinhole_radial_k3", CameraModel::PINHOLE_RADIAL_K3, "disto_k3"},
    {"pinhole_brown_t2", CameraModel::PINHOLE_BROWN_T2, "disto_t2"},
    {"fisheye", CameraModel::PINHOLE_FISHEYE, "fisheye"},
};

/// The bytes at which the numbers of a JSON text begin.
std::vector<std::size_t> offsets_of_numbers(std::string_view text) {
  std::vector<std::size_t> offsets;
  bool in_string = false, in_number = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    const bool digit = c >= '0' && c <= '9';
    if (!in_number && (digit || c == '-')) offsets.push_back(at);
    in_number = digit || c == '-' || (in_number && (c == '.' || c == 'e' || c == 'E' || c == '+'));
  }
  return offsets;
}

/// The number that begins at a byte, as the JSON library reads it, and where it ends.
std::pair<double, std::size_t> number_at(std::string_view text, std::size_t offset) {
  double value = text[offset] == '-' ? -0.0 : 0.0;  // stays if it is too small
  const char* const begin = text.data() + offset;
  const char* const end = std::from_chars(begin, text.data() + text.size(), value).ptr;
  const std::string_view word(begin, end);
  if (word.find_first_of(".eE") == std::string_view::npos) value += 0.0;  // -0 is a whole number
  return {value, offset + word.size()};
}

class Parser {
 public:
  Parser(std::string text, std::string name)
      : file_(std::make_shared<OpenMvgFile>()), name_(std::move(name)) {
    file_->text = std::move(text);
  }

  OpenMvgScene parse() {
    read_elements();
    for (const char* section : {"views", "intrinsics", "extrinsics", "structure"})
      if (std::ranges::find(seen_, section) == seen_.end())
        fail_in({}, std::string("expected ") + section + ", got none");
    join_images();
    join_observations();
    to_bytes();
    return {std::move(model_), std::move(file_)};
  }

 private:
  struct View {
    std::uint32_t id = 0;
    double camera = kNoId, pose = kNoId;
    std::string name;
  };
  /// Numbers of things by their keys.
  using Numbers = std::unordered_map<std::uint32_t, std::uint32_t>;

  [[noreturn]] void fail_in(std::string_view where, const std::string& what) const {
    throw Error(ErrorCode::Parse,
                name_ + ": " + std::string(where) + (where.empty() ? "" : ": ") + what);
  }
  [[noreturn]] void fail(const std::string& what) const {
    fail_in(section_ + "[" + std::to_string(element_) + "]", what);
  }

  /// Reads the elements of the lists one by one, so that the memory is that of one of them.
  void read_elements() {
    if (runtime::find_too_deep(file_->text, kDeepest) != std::string_view::npos)
      fail_in({}, "expected a scene, got more than " + std::to_string(kDeepest) +
                      " lists and objects inside of each other");
    try {
      const Json rest =
          Json::parse(file_->text, [this](int depth, Json::parse_event_t event, Json& value) {
            return look(depth, event, value);
          });
      if (!rest.is_object()) fail_in({}, "expected an object, got " + runtime::shown(rest));
    } catch (const Json::exception& error) {
      fail_in({}, runtime::json_error_text(error.what(), true));
    }
  }

  /// Follows the parser. A number is replaced by its number among all numbers of the text, so that
  /// it can be found there again.
  bool look(int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::key && depth == 1) begin_section(value.get<std::string>());
    if (event == Event::value && value.is_number()) {
      numbers_.push_back(value.get<double>());
      value = count_++;
    }
    const bool ends =
        event == Event::object_end || event == Event::array_end || event == Event::value;
    if (depth != 2 || !ends) return true;
    element(value);
    ++element_;
    first_ = count_;
    numbers_.clear();
    return false;
  }

  void begin_section(std::string name) {
    if (std::ranges::find(seen_, name) != seen_.end())
      fail_in({}, "expected another key, got \"" + name + "\" again");
    section_ = name;
    seen_.push_back(std::move(name));
    element_ = 0;
    first_ = count_;
    numbers_.clear();
  }

  void element(const Json& json) {
    if (section_ == "views") return view(json);
    if (section_ == "intrinsics") return camera(json);
    if (section_ == "extrinsics") return pose(json);
    if (section_ == "structure") return point(json);
  }

  // Parts of an element.

  static const Json* find(const Json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }
  const Json& field(const Json& object, const char* key) const {
    const Json* found = find(object, key);
    if (found == nullptr) fail(std::string("expected \"") + key + "\", got none");
    return *found;
  }
  /// A field of a class or of the classes that it extends, which are objects inside of each other.
  const Json& inherited(const Json& object, const char* key) const {
    const Json* in = &object;
    while (find(*in, key) == nullptr && find(*in, "value0") != nullptr) in = find(*in, "value0");
    return field(*in, key);
  }
  double number(const Json& json, const char* what) const {
    if (!json.is_number()) {
      const std::string got = json.is_string() ? "a text" : runtime::shown(json);
      fail(std::string("expected a number as \"") + what + "\", got " + got);
    }
    return numbers_[json.get<std::size_t>() - first_];
  }
  /// A number of 32 bits.
  double id(const Json& json, const char* what) const {
    const double value = number(json, what);
    if (!(value >= 0 && value <= kNoId) || value != std::floor(value))
      fail(std::string("expected a whole number of 32 bits as \"") + what + "\", got " +
           std::to_string(value));
    return value;
  }
  std::uint32_t key(const Json& json) const {
    return static_cast<std::uint32_t>(id(field(json, "key"), "key"));
  }
  /// Reads a list of numbers; `offsets` gets their ordinals in the text, which become
  /// offsets in bytes later.
  void list(const Json& json, const char* what, std::span<double> out, std::size_t* offsets) const {
    if (!json.is_array() || json.size() != out.size())
      fail("expected " + std::to_string(out.size()) + " numbers as \"" + what + "\", got " +
           (json.is_number()   ? "a number"
            : json.is_string() ? "a text"
                               : runtime::shown(json)));
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k] = number(json[k], what);
      if (offsets != nullptr) offsets[k] = json[k].get<std::size_t>();
    }
  }
  /// The name of the class of a value with a pointer, which stands beside the first one alone;
  /// empty for one that is exactly what it is declared as.
  std::string class_of(const Json& value) {
    const Json* json = find(value, "polymorphic_id");
    if (json == nullptr) return {};
    const auto id = static_cast<std::uint32_t>(this->id(*json, "polymorphic_id"));
    const Json* name = find(value, "polymorphic_name");
    if (name != nullptr && name->is_string())
      classes_[id & ~kFirstOfName] = name->get<std::string>();
    const auto found = classes_.find(id & ~kFirstOfName);
    return found == classes_.end() ? std::string() : found->second;
  }
  void add(Numbers& numbers, std::uint32_t id) const {
    if (!numbers.emplace(id, static_cast<std::uint32_t>(numbers.size())).second)
      fail("expected another key, got " + std::to_string(id) + " again");
  }

  void view(const Json& json) {
    const std::uint32_t id = key(json);
    add(view_numbers_, id);
    const Json& value = field(json, "value");
    class_of(value);
    const Json& data = field(field(value, "ptr_wrapper"), "data");
    const Json& name = inherited(data, "filename");
    views_.push_back({.id = id,
                      .camera = this->id(inherited(data, "id_intrinsic"), "id_intrinsic"),
                      .pose = this->id(inherited(data, "id_pose"), "id_pose"),
                      .name = name.is_string() ? name.get<std::string>() : std::string()});
  }

  void camera(const Json& json) {
    ColmapModel::Camera& camera = model_.cameras.emplace_back();
    camera.id = key(json);
    add(camera_numbers_, camera.id);
    const Json& value = field(json, "value");
    const std::string name = class_of(value);
    const auto* kind = std::ranges::find(kKinds, name, &CameraKind::name);
    if (kind == std::end(kKinds)) {
      std::string names;
      for (const CameraKind& one : kKinds)
        names += (names.empty() ? "" : ", ") + std::string(one.name);
      fail("expected a camera that is one of " + names + ", got \"" + shown_name(name) + "\"");
    }
    const Json& data = field(field(value, "ptr_wrapper"), "data");
    camera.model = kind->model;
    camera.width = static_cast<std::uint64_t>(id(inherited(data, "width"), "width"));
    camera.height = static_cast<std::uint64_t>(id(inherited(data, "height"), "height"));
    camera.parameters.resize(sizes(kind->model).all());
    std::vector<std::size_t>& offsets = file_->cameras.emplace_back(camera.parameters.size());
    const std::span<double> x = camera.parameters;
    const Json& focal = inherited(data, "focal_length");
    x[0] = number(focal, "focal_length");
    if (x[0] == 0) fail("expected a focal length that is not 0, got 0");
    offsets[0] = focal.get<std::size_t>();
    list(inherited(data, "principal_point"), "principal_point", x.subspan(1, 2), &offsets[1]);
    if (kind->distortion == nullptr) return;
    list(inherited(data, kind->distortion), kind->distortion, x.subspan(3), &offsets[3]);
  }

  static std::string shown_name(const std::string& name) {
    std::string out = name.substr(0, 40);
    std::ranges::replace_if(
        out, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
    return out;
  }

  void pose(const Json& json) {
    ColmapModel::Frame frame{.id = key(json), .pose = {}};
    add(frame_numbers_, frame.id);
    const Json& value = field(json, "value");
    const Json& rows = field(value, "rotation");
    if (!rows.is_array() || rows.size() != 3)
      fail("expected three rows as \"rotation\", got " +
           (rows.is_array() ? runtime::shown(rows) : "none"));
    std::array<std::size_t, 12>& offsets = file_->frames.emplace_back();
    std::array<double, 9> R{};
    std::array<double, 3> c{};
    for (std::size_t i = 0; i < 3; ++i)
      list(rows[i], "rotation", std::span(R).subspan(3 * i, 3), &offsets[3 * i]);
    list(field(value, "center"), "center", c, &offsets[9]);
    const Eigen::Matrix3d turn =
        Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(R.data());
    if (!(turn * turn.transpose()).isIdentity(kOrthogonal) || turn.determinant() < 0)
      fail("expected the matrix of a rotation, got one that is none");
    const Eigen::Quaterniond q = Eigen::Quaterniond(turn).normalized();
    const Eigen::Vector3d t = -(q * Eigen::Vector3d(c.data()));
    frame.pose = {{t.x(), t.y(), t.z()}, {q.w(), q.x(), q.y(), q.z()}};
    file_->poses.push_back(frame.pose);
    model_.frames.push_back(frame);
  }

  void point(const Json& json) {
    const std::uint32_t id = key(json);
    add(point_numbers_, id);
    const auto number = static_cast<std::uint32_t>(model_.point_ids.size());
    model_.point_ids.push_back(id);
    const Json& value = field(json, "value");
    std::array<double, 3> x{};
    std::array<std::size_t, 3> offsets{};
    list(field(value, "X"), "X", x, offsets.data());
    model_.points.insert(model_.points.end(), x.begin(), x.end());
    file_->points.insert(file_->points.end(), offsets.begin(), offsets.end());
    const Json& observations = field(value, "observations");
    if (!observations.is_array())
      fail("expected a list as \"observations\", got " + runtime::shown(observations));
    for (const Json& one : observations) {
      ColmapModel::Observation o{.image = key(one), .point = number};
      list(field(field(one, "value"), "x"), "x", o.seen, nullptr);
      model_.observations.push_back(o);
    }
  }

  // References from one element to another.

  static std::optional<std::uint32_t> look_up(const Numbers& numbers, double id) {
    const auto found = numbers.find(static_cast<std::uint32_t>(id));
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
  }

  void join_images() {
    view_numbers_.clear();  // now the numbers of images
    for (View& view : views_) {
      const auto camera = look_up(camera_numbers_, view.camera);
      const auto frame = look_up(frame_numbers_, view.pose);
      if (!camera || !frame) continue;
      view_numbers_.emplace(view.id, static_cast<std::uint32_t>(model_.images.size()));
      model_.images.push_back(
          {.id = view.id, .name = std::move(view.name), .camera = *camera, .frame = *frame});
    }
  }

  void join_observations() {
    for (ColmapModel::Observation& o : model_.observations) {
      const auto image = look_up(view_numbers_, o.image);
      if (!image)
        fail_in("structure[" + std::to_string(o.point) + "]",
                "expected observations of views with a pose and a camera, got one of view " +
                    std::to_string(o.image));
      o.image = *image;
    }
  }

  void to_bytes() {
    const std::vector<std::size_t> offsets = offsets_of_numbers(file_->text);
    for (auto& camera : file_->cameras)
      for (std::size_t& offset : camera) offset = offsets[offset];
    for (auto& frame : file_->frames)
      for (std::size_t& offset : frame) offset = offsets[offset];
    for (std::size_t& offset : file_->points) offset = offsets[offset];
  }

  std::shared_ptr<OpenMvgFile> file_;
  std::string name_;
  ColmapModel model_;
  std::vector<View> views_;
  Numbers view_numbers_, camera_numbers_, frame_numbers_, point_numbers_;
  std::unordered_map<std::uint32_t, std::string> classes_;  ///< by polymorphic id
  // The path of the parser in the scene.
  std::vector<std::string> seen_;  ///< keys of the scene
  std::string section_;
  std::size_t element_ = 0, count_ = 0, first_ = 0;  ///< of numbers: all, and before the element
  std::vector<double> numbers_;                      ///< of the element
};

void check_count(const char* what, std::size_t there, std::size_t in_file) {
  if (there == in_file) return;
  throw Error(ErrorCode::InvalidArgument, "openmvg: expected " + std::to_string(in_file) + " " +
                                              what + " as in the file, got " +
                                              std::to_string(there));
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// The rows of the matrix, and the centre.
std::array<double, 12> numbers_of(const Pose& pose) {
  const auto& [w, x, y, z] = pose.rotation;
  const Eigen::Matrix3d R = Eigen::Quaterniond(w, x, y, z).normalized().toRotationMatrix();
  const Eigen::Vector3d c = -(R.transpose() * Eigen::Vector3d(pose.position.data()));
  return {R(0, 0), R(0, 1), R(0, 2), R(1, 0), R(1, 1), R(1, 2),
          R(2, 0), R(2, 1), R(2, 2), c.x(),   c.y(),   c.z()};
}

bool is_same(const Pose& a, const Pose& b) {
  return std::ranges::equal(a.rotation, b.rotation, same_bits) &&
         std::ranges::equal(a.position, b.position, same_bits);
}

}  // namespace

OpenMvgScene parse_openmvg(std::string text, const std::string& name) {
  text_begin(text, name);
  return Parser(std::move(text), name).parse();
}

OpenMvgScene read_openmvg(const std::string& path) {
  return parse_openmvg(read_packed_text(path), path);
}

std::string openmvg_text(const ColmapModel& model, const OpenMvgFile& file) {
  check_count("cameras", model.cameras.size(), file.cameras.size());
  check_count("frames", model.frames.size(), file.frames.size());
  check_count("coordinates of points", model.points.size(), file.points.size());
  std::vector<std::pair<std::size_t, double>> numbers;  // and where they go
  const auto put = [&](std::span<const std::size_t> offsets, std::span<const double> values) {
    for (std::size_t k = 0; k < offsets.size(); ++k)
      if (!same_bits(number_at(file.text, offsets[k]).first, values[k]))
        numbers.emplace_back(offsets[k], values[k]);
  };
  for (std::size_t k = 0; k < file.cameras.size(); ++k) {
    check_count("parameters of a camera", model.cameras[k].parameters.size(),
                file.cameras[k].size());
    put(file.cameras[k], model.cameras[k].parameters);
  }
  for (std::size_t k = 0; k < file.frames.size(); ++k)
    if (!is_same(model.frames[k].pose, file.poses[k]))
      put(file.frames[k], numbers_of(model.frames[k].pose));
  put(file.points, model.points);
  std::ranges::sort(numbers);
  std::string out;
  std::size_t done = 0;
  for (const auto& [offset, value] : numbers) {
    out.append(file.text, done, offset - done);
    append_number(out, value);
    done = number_at(file.text, offset).second;
  }
  return out.append(file.text, done);
}

}  // namespace topograd
