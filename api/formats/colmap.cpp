// Reading and writing of COLMAP's models.
#include "colmap.hpp"

#include "../../ir/error.hpp"
#include "packed_text.hpp"
#include "word_reader.hpp"

#include <Eigen/Geometry>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace topograd {
namespace {

constexpr std::uint64_t kNoId = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kNoPoint = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kLongestQuote = 40;
constexpr std::size_t kPoseNumbers = 7;

bool is_blank(char c) { return WordReader::is_blank(c); }

std::string counted(std::uint64_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

/// The fields of a file's records, as text or as binary numbers.
class Fields {
 public:
  enum class Width : std::uint8_t { bits8 = 1, bits32 = 4, bits64 = 8 };

  Fields(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}
  virtual ~Fields() = default;
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  /// Goes to the next record; false at the end of the file.
  virtual bool next() = 0;
  /// Ends a record: there is nothing more in it.
  virtual void end_record() = 0;
  /// A whole number below `limit`.
  virtual std::uint64_t whole(const char* what, Width width, std::uint64_t limit) = 0;
  /// A number, finite or not.
  virtual double any_number(const char* what) = 0;
  virtual CameraModel camera_model() = 0;
  /// True for the type of a camera, false for that of another sensor.
  virtual bool is_camera() = 0;
  virtual std::string image_name() = 0;
  /// The id of a 2D point's 3D point; kNoPoint for none.
  virtual std::uint64_t point_of_image() = 0;
  /// Begins the list at the end of a record; each element has at least `bytes` bytes.
  ///
  ///   own_line  in a text it has a line of its own, which may be empty
  virtual void open_list(const char* what, std::size_t bytes, bool own_line) = 0;
  /// True while the list has an element.
  virtual bool goes_on() = 0;
  /// Returns the byte at which the next field begins.
  virtual std::size_t offset() = 0;
  /// Throws Error{Parse} with the line or the offset.
  [[noreturn]] virtual void fail(const std::string& what) const = 0;

  double number(const char* what) {
    const double value = any_number(what);
    if (!std::isfinite(value))
      fail(std::string("expected ") + what + " as a finite number, got " + std::to_string(value));
    return value;
  }
  std::uint32_t id(const char* what) {
    return static_cast<std::uint32_t>(whole(what, Width::bits32, kNoId));
  }
  /// Seven numbers: a quaternion, first w, and a translation.
  Pose pose() {
    Pose out;
    for (double& x : out.rotation) x = number("a number of a quaternion");
    for (double& x : out.position) x = number("a number of a translation");
    return out;
  }
  /// A pose whose quaternion has a direction.
  Pose real_pose() {
    const Pose out = pose();
    double square = 0;
    for (const double x : out.rotation) square += x * x;
    if (!(square > 0) || !std::isfinite(square))
      fail("expected a quaternion that is not 0, got one of length " +
           std::to_string(std::sqrt(square)));
    return out;
  }

 protected:
  std::string_view text_;
  std::string name_;
  std::size_t at_ = 0;
};

class TextFields final : public Fields {
 public:
  TextFields(std::string_view text, std::string name)
      : Fields(text, std::move(name)), begin_(text_begin(text_, name_)) {}

  bool next() override {
    while (next_line()) {
      skip_blanks();
      if (at_ < end_ && text_[at_] != '#') return true;
    }
    return false;
  }
  void end_record() override {
    if (const std::string_view more = word(); !more.empty()) expected("the end of the line", more);
  }
  std::uint64_t whole(const char* what, Width /*width*/, std::uint64_t limit) override {
    const std::string_view text = word();
    std::uint64_t value = 0;
    if (!reads_as(text, value)) expected(std::string(what) + " as a whole number", text);
    if (value >= limit) expected(std::string(what) + " below " + std::to_string(limit), text);
    return value;
  }
  double any_number(const char* what) override {
    const std::string_view text = word();
    double value = 0;
    if (!topograd::reads_as(text, value)) expected(std::string(what) + " as a number", text);
    return value;
  }
  CameraModel camera_model() override {
    const std::string_view text = word();
    std::string names;
    for (const auto& row : std::span(rows_of(CameraModel{})).first(kColmapModels)) {
      if (row.name == text) return row.value;
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
    expected("a camera model, one of " + names, text);
  }
  bool is_camera() override {
    const std::string_view text = word();
    if (text.empty()) expected("the type of a sensor", text);
    return text == "CAMERA";
  }
  std::string image_name() override {
    skip_blanks();
    std::size_t end = end_;
    while (end > at_ && is_blank(text_[end - 1])) --end;
    if (end == at_) expected("the name of an image", "");
    const std::size_t begin = std::exchange(at_, end_);
    return std::string(text_.substr(begin, end - begin));
  }
  std::uint64_t point_of_image() override {
    const std::string_view text = word();
    std::uint64_t value = kNoPoint;
    if (text != "-1" && (!reads_as(text, value) || value == kNoPoint))
      expected("the id of a 3D point, or -1", text);
    return value;
  }
  void open_list(const char* /*what*/, std::size_t /*bytes*/, bool own_line) override {
    if (!own_line) return;
    end_record();
    next_line();  // none at the end of the file: then the list is empty
  }
  bool goes_on() override {
    skip_blanks();
    return at_ < end_;
  }
  std::size_t offset() override {
    skip_blanks();
    return at_;
  }
  [[noreturn]] void fail(const std::string& what) const override {
    throw Error(ErrorCode::Parse, name_ + ":" + std::to_string(line_) + ": " + what);
  }

 private:
  bool next_line() {
    if (line_ > 0 && end_ >= text_.size()) {
      at_ = end_;
      return false;
    }
    at_ = line_ == 0 ? begin_ : end_ + 1;
    ++line_;
    end_ = std::min(text_.find('\n', at_), text_.size());
    return at_ < text_.size();
  }
  void skip_blanks() {
    while (at_ < end_ && is_blank(text_[at_])) ++at_;
  }
  std::string_view word() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < end_ && !is_blank(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  template <class T>
  static bool reads_as(std::string_view text, T& value) {
    if (text.starts_with('+')) text.remove_prefix(1);
    const char* const end = text.data() + text.size();
    const auto [rest, code] = std::from_chars(text.data(), end, value);
    return code == std::errc() && rest == end;
  }
  [[noreturn]] void expected(const std::string& what, std::string_view got) const {
    std::string quote(got.substr(0, kLongestQuote));
    std::ranges::replace_if(
        quote, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
    fail("expected " + what + ", got " +
         (got.empty() ? "the end of the line" : "\"" + quote + "\""));
  }

  std::size_t begin_, line_ = 0, end_ = 0;  // of the text; the line, and where it ends
};

class BinaryFields final : public Fields {
 public:
  /// The file begins with the number of its records, each of at least `bytes` bytes.
  BinaryFields(std::string_view text, std::string name, std::size_t bytes)
      : Fields(text, std::move(name)), bytes_(bytes) {}

  bool next() override {
    if (!begun_) records_ = count("records", bytes_);
    begun_ = true;
    if (records_ > 0) return records_-- > 0;
    if (at_ < text_.size())
      fail("expected the end of the file, got " + counted(text_.size() - at_, "more byte"));
    return false;
  }
  void end_record() override {}
  std::uint64_t whole(const char* what, Width width, std::uint64_t limit) override {
    const std::uint64_t value = take(what, static_cast<std::size_t>(width));
    if (value >= limit)
      fail(std::string("expected ") + what + " below " + std::to_string(limit) + ", got " +
           std::to_string(value));
    return value;
  }
  double any_number(const char* what) override {
    return std::bit_cast<double>(take(what, sizeof(double)));
  }
  CameraModel camera_model() override {
    const auto number = static_cast<std::int32_t>(take("the number of a camera model", 4));
    if (number < 0 || static_cast<std::size_t>(number) >= kColmapModels)
      fail("expected the number of a camera model in 0 .. " + std::to_string(kColmapModels - 1) +
           ", got " + std::to_string(number));
    return static_cast<CameraModel>(number);
  }
  bool is_camera() override { return take("the type of a sensor", 4) == 0; }
  std::string image_name() override {
    const std::size_t end = text_.find('\0', at_);
    if (end == std::string_view::npos) fail("expected the name of an image, got no end of it");
    const std::size_t begin = std::exchange(at_, end + 1);
    return std::string(text_.substr(begin, end - begin));
  }
  std::uint64_t point_of_image() override { return take("the id of a 3D point", 8); }
  void open_list(const char* what, std::size_t bytes, bool /*own_line*/) override {
    elements_ = count(what, bytes);
  }
  bool goes_on() override {
    if (elements_ == 0) return false;
    --elements_;
    return true;
  }
  std::size_t offset() override { return at_; }
  [[noreturn]] void fail(const std::string& what) const override {
    throw Error(ErrorCode::Parse, name_ + ": byte " + std::to_string(at_) + ": " + what);
  }

 private:
  /// Little-endian.
  std::uint64_t take(const char* what, std::size_t bytes) {
    if (text_.size() - at_ < bytes)
      fail(std::string("expected ") + what + ", got the end of the file");
    std::uint64_t value = 0;
    for (std::size_t k = bytes; k-- > 0;)
      value = value << 8 | static_cast<unsigned char>(text_[at_ + k]);
    at_ += bytes;
    return value;
  }
  /// A count of things of at least `bytes` bytes for which the file has room.
  std::uint64_t count(const char* what, std::size_t bytes) {
    const std::uint64_t number = take(what, 8);
    const std::uint64_t most = (text_.size() - at_) / bytes;
    if (number > most)
      fail("expected at most " + std::to_string(most) + " " + what +
           ", for which the file has room, got the count " + std::to_string(number));
    return number;
  }

  std::size_t bytes_;
  bool begun_ = false;
  std::uint64_t records_ = 0, elements_ = 0;
};

/// Numbers of things by their ids.
template <class Id>
class Numbers {
 public:
  /// False if the id is there already.
  bool add(Id id) {
    return numbers_.emplace(id, static_cast<std::uint32_t>(numbers_.size())).second;
  }
  std::optional<std::uint32_t> find(Id id) const {
    const auto found = numbers_.find(id);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::unordered_map<Id, std::uint32_t> numbers_;
};

/// Cameras of rigs, and the images of frames.
struct Rigs {
  /// In place of a sensor's number: the reference of its rig, and a sensor without a pose.
  static constexpr std::uint32_t kReference = ColmapModel::kNoSensor, kNoPose = kReference - 1;
  struct SensorImage {
    std::uint32_t frame = 0, camera = 0;  ///< number, id
    std::uint32_t sensor = kReference;
  };

  static std::uint64_t key(std::uint32_t rig, std::uint32_t camera) {
    return std::uint64_t{rig} << 32 | camera;
  }

  Numbers<std::uint32_t> ids;
  std::unordered_map<std::uint64_t, std::uint32_t> sensors;  ///< by rig and camera
  std::unordered_map<std::uint32_t, SensorImage> images;     ///< by id
};

class Parser {
 public:
  Parser(std::shared_ptr<ColmapFiles> files, std::string folder)
      : files_(std::move(files)), folder_(std::move(folder)) {}

  ColmapModel parse() {
    read_file(files_->cameras, 24 + 3 * 8, [&](Fields& fields) { camera(fields); });
    if (files_->rigs.name.empty() != files_->frames.name.empty()) refuse_halves();
    has_rigs_ = !files_->rigs.name.empty();
    if (has_rigs_) {
      read_file(files_->rigs, 8, [&](Fields& fields) { rig(fields); });
      read_file(files_->frames, 8 + kPoseNumbers * 8 + 4, [&](Fields& fields) { frame(fields); });
    }
    read_file(files_->points, 8 + 3 * 8 + 3 + 8 + 8, [&](Fields& fields) { point(fields); });
    read_file(files_->images, 4 + kPoseNumbers * 8 + 4 + 1 + 8,
              [&](Fields& fields) { image(fields); });
    check_tracks();
    model_.files = std::move(files_);
    return std::move(model_);
  }

 private:
  using Width = Fields::Width;

  std::string path(const ColmapFiles::File& file) const { return folder_ + "/" + file.name; }

  [[noreturn]] void refuse_halves() const {
    const ColmapFiles::File& there = files_->rigs.name.empty() ? files_->frames : files_->rigs;
    throw Error(ErrorCode::Parse, path(there) + ": expected files of rigs and of frames, got one");
  }

  template <class Read>
  void read_file(const ColmapFiles::File& file, std::size_t bytes, Read read) const {
    const auto all = [&](Fields& fields) {
      while (fields.next()) read(fields);
    };
    if (files_->binary) {
      BinaryFields fields(file.text, path(file), bytes);
      all(fields);
    } else {
      TextFields fields(file.text, path(file));
      all(fields);
    }
  }

  void camera(Fields& fields) {
    ColmapModel::Camera& camera = model_.cameras.emplace_back();
    camera.id = fields.id("the id of a camera");
    if (!camera_numbers_.add(camera.id))
      fields.fail("expected another id, got camera " + std::to_string(camera.id) + " again");
    camera.model = fields.camera_model();
    camera.width = fields.whole("the width of a camera", Width::bits64, kNoPoint);
    camera.height = fields.whole("the height of a camera", Width::bits64, kNoPoint);
    files_->cameras.places.push_back(fields.offset());
    const std::string what = "a parameter of " + std::string(name(camera.model)) + ", which has " +
                             std::string(parameter_names(camera.model)) + ",";
    camera.parameters.resize(sizes(camera.model).all());
    for (double& x : camera.parameters) x = fields.number(what.c_str());
    for (std::size_t k = 0; k < sizes(camera.model).focal; ++k)
      if (camera.parameters[k] == 0)
        fields.fail("expected a focal length that is not 0, got 0 of camera " +
                    std::to_string(camera.id));
    fields.end_record();
  }

  void rig(Fields& fields) {
    const std::uint32_t rig = fields.id("the id of a rig");
    if (!rigs_.ids.add(rig))
      fields.fail("expected another id, got rig " + std::to_string(rig) + " again");
    const std::uint64_t count = fields.whole("the number of sensors", Width::bits32, kNoId);
    for (std::uint64_t k = 0; k < count; ++k) sensor(fields, rig, k == 0);
    fields.end_record();
  }

  void sensor(Fields& fields, std::uint32_t rig, bool is_reference) {
    const bool is_camera = fields.is_camera();
    const std::uint32_t id = fields.id("the id of a sensor");
    std::uint32_t number = is_reference ? Rigs::kReference : Rigs::kNoPose;
    if (!is_reference &&
        fields.whole("whether a sensor has a pose, 0 or 1,", Width::bits8, 2) == 1) {
      const std::size_t offset = fields.offset();
      const Pose pose = is_camera ? fields.real_pose() : fields.pose();
      if (!is_camera) return;
      number = static_cast<std::uint32_t>(model_.sensors.size());
      model_.sensors.push_back({rig, id, pose});
      files_->rigs.places.push_back(offset);
    }
    if (is_camera && !rigs_.sensors.emplace(Rigs::key(rig, id), number).second)
      fields.fail("expected another sensor, got camera " + std::to_string(id) + " again in rig " +
                  std::to_string(rig));
  }

  void frame(Fields& fields) {
    ColmapModel::Frame frame;
    frame.id = fields.id("the id of a frame");
    if (!frame_numbers_.add(frame.id))
      fields.fail("expected another id, got frame " + std::to_string(frame.id) + " again");
    const std::uint32_t rig = fields.id("the id of a rig");
    if (!rigs_.ids.find(rig))
      fields.fail("expected a rig that is there, got " + std::to_string(rig));
    files_->frames.places.push_back(fields.offset());
    frame.pose = fields.real_pose();
    const std::uint64_t count = fields.whole("the number of a frame's data", Width::bits32, kNoId);
    for (std::uint64_t k = 0; k < count; ++k) datum(fields, rig);
    fields.end_record();
    model_.frames.push_back(frame);
  }

  /// An image of a frame, or the data of another sensor.
  void datum(Fields& fields, std::uint32_t rig) {
    const bool is_camera = fields.is_camera();
    const std::uint32_t camera = fields.id("the id of a sensor");
    const std::uint64_t image =
        fields.whole("the id of an image", Width::bits64, is_camera ? kNoId : kNoPoint);
    if (!is_camera) return;
    const auto found = rigs_.sensors.find(Rigs::key(rig, camera));
    if (found == rigs_.sensors.end())
      fields.fail("expected a camera of rig " + std::to_string(rig) + ", got " +
                  std::to_string(camera));
    if (found->second == Rigs::kNoPose)
      fields.fail("expected a camera whose rig has its pose, got camera " + std::to_string(camera) +
                  " of rig " + std::to_string(rig));
    const Rigs::SensorImage found_image{static_cast<std::uint32_t>(model_.frames.size()), camera,
                                        found->second};
    if (!rigs_.images.emplace(static_cast<std::uint32_t>(image), found_image).second)
      fields.fail("expected another image, got image " + std::to_string(image) +
                  ", which is in a frame already");
  }

  void image(Fields& fields) {
    ColmapModel::Image image;
    image.id = fields.id("the id of an image");
    if (!image_numbers_.add(image.id))
      fields.fail("expected another id, got image " + std::to_string(image.id) + " again");
    files_->images.places.push_back(fields.offset());
    const Pose pose = has_rigs_ ? fields.pose() : fields.real_pose();
    const std::uint32_t camera = fields.id("the id of a camera");
    const std::optional<std::uint32_t> number = camera_numbers_.find(camera);
    if (!number) fields.fail("expected a camera that is there, got " + std::to_string(camera));
    image.camera = *number;
    if (has_rigs_) {
      put_into_frame(fields, image, camera);
    } else {
      image.frame = static_cast<std::uint32_t>(model_.frames.size());
      model_.frames.push_back({image.id, pose});
    }
    image.name = fields.image_name();
    fields.open_list("2D points", 24, true);
    std::uint64_t count = 0;
    for (; fields.goes_on(); ++count) observation(fields);
    points_of_images_.push_back(count);
    fields.end_record();
    model_.images.push_back(std::move(image));
  }

  void put_into_frame(Fields& fields, ColmapModel::Image& image, std::uint32_t camera) const {
    const auto found = rigs_.images.find(image.id);
    if (found == rigs_.images.end())
      fields.fail("expected an image of a frame, got image " + std::to_string(image.id));
    const Rigs::SensorImage& known = found->second;
    if (known.camera != camera)
      fields.fail("expected camera " + std::to_string(known.camera) + " as in the frame of image " +
                  std::to_string(image.id) + ", got " + std::to_string(camera));
    image.frame = known.frame;
    image.sensor = known.sensor;
  }

  void observation(Fields& fields) {
    ColmapModel::Observation out;
    for (double& x : out.seen) x = fields.number("a coordinate of a 2D point");
    const std::uint64_t id = fields.point_of_image();
    if (id == kNoPoint) return;
    const std::optional<std::uint32_t> point = point_numbers_.find(id);
    if (!point) fields.fail("expected a 3D point that is there, got " + std::to_string(id));
    out.point = *point;
    out.image = static_cast<std::uint32_t>(model_.images.size());
    model_.observations.push_back(out);
  }

  void point(Fields& fields) {
    const std::uint64_t id = fields.whole("the id of a 3D point", Width::bits64, kNoPoint);
    if (!point_numbers_.add(id))
      fields.fail("expected another id, got point " + std::to_string(id) + " again");
    model_.point_ids.push_back(id);
    files_->points.places.push_back(fields.offset());
    for (int k = 0; k < 3; ++k) model_.points.push_back(fields.number("a coordinate of a point"));
    rest_of_point(fields, [](std::uint32_t, std::uint64_t) {});
  }

  /// Colour, error and track, with a call for each of its elements.
  template <class Element>
  static void rest_of_point(Fields& fields, Element element) {
    for (int k = 0; k < 3; ++k) fields.whole("a colour", Width::bits8, 256);
    fields.any_number("the error of a point");
    fields.open_list("elements of a track", 8, false);
    while (fields.goes_on()) {
      const std::uint32_t image = fields.id("the id of an image");
      element(image, fields.whole("the number of a 2D point", Width::bits32, kNoId));
    }
    fields.end_record();
  }

  /// Tracks name images, which are read after points.
  void check_tracks() {
    std::vector<std::uint32_t> seen(model_.point_count());
    for (const ColmapModel::Observation& o : model_.observations) ++seen[o.point];
    std::size_t number = 0;
    read_file(files_->points, 1, [&](Fields& fields) {
      fields.whole("the id of a 3D point", Width::bits64, kNoPoint);
      for (int k = 0; k < 3; ++k) fields.any_number("a coordinate of a point");
      std::uint64_t elements = 0;
      rest_of_point(fields, [&](std::uint32_t id, std::uint64_t index) {
        const std::optional<std::uint32_t> image = image_numbers_.find(id);
        if (!image)
          fields.fail("expected an image that is there in a track, got " + std::to_string(id));
        if (index >= points_of_images_[*image])
          fields.fail("expected one of the " + counted(points_of_images_[*image], "2D point") +
                      " of image " + std::to_string(id) + " in a track, got number " +
                      std::to_string(index));
        ++elements;
      });
      if (elements != 0 && elements != seen[number]) ++model_.tracks_differ;
      ++number;
    });
  }

  std::shared_ptr<ColmapFiles> files_;
  std::string folder_;
  ColmapModel model_;
  Numbers<std::uint32_t> camera_numbers_, image_numbers_, frame_numbers_;
  Numbers<std::uint64_t> point_numbers_;
  std::vector<std::uint64_t> points_of_images_;
  Rigs rigs_;
  bool has_rigs_ = false;
};

/// A file with other numbers at some offsets.
class Patched {
 public:
  Patched(const ColmapFiles::File& file, bool binary) : file_(file), binary_(binary) {}

  /// Goes on to an offset; offsets ascend.
  void go_to(std::size_t offset) {
    text_.append(file_.text, done_, offset - done_);
    done_ = offset;
  }
  /// Replaces the numbers from here on; true if one of them differs.
  bool put(std::span<const double> numbers) {
    bool differs = false;
    for (const double x : numbers) differs = (binary_ ? put_bits(x) : put_word(x)) || differs;
    return differs;
  }
  /// Keeps the next numbers, of `bytes` bytes each in a binary file.
  void keep(std::size_t count, std::size_t bytes) {
    if (binary_) return go_to(done_ + count * bytes);
    for (std::size_t k = 0; k < count; ++k) go_to(word().second);
  }
  std::string text() {
    go_to(file_.text.size());
    return std::move(text_);
  }

 private:
  bool put_bits(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    std::string bytes;
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(bits >> shift & 0xff);
    const bool differs = file_.text.compare(done_, bytes.size(), bytes) != 0;
    text_ += bytes;
    done_ += bytes.size();
    return differs;
  }
  bool put_word(double x) {
    const auto [begin, end] = word();
    const char* const text = file_.text.data();
    const char* const first = text + begin + (file_.text[begin] == '+' ? 1 : 0);
    double value = 0;
    std::from_chars(first, text + end, value);
    go_to(begin);
    if (std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(x)) {
      go_to(end);
      return false;
    }
    append_number(text_, x);
    done_ = end;
    return true;
  }
  /// The next word of the line.
  std::pair<std::size_t, std::size_t> word() const {
    const std::string& text = file_.text;
    std::size_t begin = done_;
    while (begin < text.size() && is_blank(text[begin])) ++begin;
    std::size_t end = begin;
    while (end < text.size() && !is_blank(text[end]) && text[end] != '\n') ++end;
    return {begin, end};
  }

  const ColmapFiles::File& file_;
  bool binary_;
  std::string text_;
  std::size_t done_ = 0;
};

std::array<double, kPoseNumbers> numbers_of(const Pose& pose) {
  const auto& q = pose.rotation;
  const auto& t = pose.position;
  return {q[0], q[1], q[2], q[3], t[0], t[1], t[2]};
}

Pose unit(Pose pose) {
  Eigen::Map<Eigen::Vector4d> q(pose.rotation.data());
  q.stableNormalize();
  return pose;
}

std::array<double, 3> moved(const Pose& pose, const double* point) {
  const auto& [w, x, y, z] = pose.rotation;
  const Eigen::Vector3d at =
      Eigen::Quaterniond(w, x, y, z) * Eigen::Vector3d(point[0], point[1], point[2]) +
      Eigen::Vector3d(pose.position.data());
  return {at.x(), at.y(), at.z()};
}

void check_count(const char* what, std::size_t there, std::size_t in_file) {
  if (there == in_file) return;
  throw Error(ErrorCode::InvalidArgument, "colmap: expected " + std::to_string(in_file) + " " +
                                              what + " as in the files, got " +
                                              std::to_string(there));
}

std::vector<double> mean_distances(const ColmapModel& model) {
  std::vector<double> sums(model.point_count()), counts(model.point_count());
  const std::vector<double> distances = model.distances();
  for (std::size_t k = 0; k < distances.size(); ++k) {
    sums[model.observations[k].point] += distances[k];
    counts[model.observations[k].point] += 1;
  }
  for (std::size_t k = 0; k < sums.size(); ++k) sums[k] /= counts[k];
  return sums;
}

std::string patched_points(const ColmapModel& model) {
  const ColmapFiles::File& file = model.files->points;
  std::vector<double> errors;
  Patched out(file, model.files->binary);
  for (std::size_t k = 0; k < file.places.size(); ++k) {
    out.go_to(file.places[k]);
    if (!out.put({&model.points[3 * k], 3})) continue;
    if (errors.empty()) errors = mean_distances(model);
    out.keep(3, 1);
    if (std::isfinite(errors[k])) out.put({&errors[k], 1});
  }
  return out.text();
}

/// The file with the numbers of each record; `changed` says of which they differ.
template <class NumbersOf>
std::string patched(const ColmapFiles::File& file, bool binary, NumbersOf numbers,
                    std::vector<bool>& changed) {
  Patched out(file, binary);
  for (std::size_t k = 0; k < file.places.size(); ++k) {
    out.go_to(file.places[k]);
    changed.push_back(out.put(numbers(k)));
  }
  return out.text();
}

/// The file of images of a model with rigs, whose poses repeat those of frames and sensors.
std::string patched_images(const ColmapModel& model, const std::vector<bool>& frames,
                           const std::vector<bool>& sensors) {
  const ColmapFiles::File& file = model.files->images;
  Patched out(file, model.files->binary);
  for (std::size_t k = 0; k < file.places.size(); ++k) {
    const ColmapModel::Image& image = model.images[k];
    const bool of_sensor = image.sensor != ColmapModel::kNoSensor;
    if (!frames[image.frame] && !(of_sensor && sensors[image.sensor])) continue;
    out.go_to(file.places[k]);
    out.put(numbers_of(model.pose(k)));
  }
  return out.text();
}

bool is_there(const std::string& folder, const std::string& name) {
  std::error_code failed;
  return std::filesystem::exists(folder + "/" + name, failed);
}

/// True for the kind of which all three files are there; .bin goes first, as in COLMAP.
bool find_kind(const std::string& folder) {
  for (const bool binary : {true, false}) {
    const std::string ending = binary ? ".bin" : ".txt";
    bool all = true;
    for (const char* name : {"cameras", "images", "points3D"})
      all = all && is_there(folder, name + ending);
    if (all) return binary;
  }
  throw Error(ErrorCode::File, folder +
                                   ": expected a folder with cameras, images and points3D, "
                                   "all .bin or all .txt, got one without them");
}

}  // namespace

Pose ColmapModel::pose(std::size_t image) const {
  const Image& at = images[image];
  const Pose frame = unit(frames[at.frame].pose);
  return at.sensor == kNoSensor ? frame : unit(sensors[at.sensor].pose) * frame;
}

std::array<double, 3> ColmapModel::center(std::size_t image) const {
  return pose(image).inverse().position;
}

std::array<double, 2> ColmapModel::project(const Observation& observation) const {
  const Camera& camera = cameras[images[observation.image].camera];
  return topograd::project(
      camera.model, camera.parameters,
      moved(pose(observation.image), &points[3 * std::size_t{observation.point}]));
}

std::vector<std::array<double, 2>> ColmapModel::errors() const {
  std::vector<Pose> poses;
  poses.reserve(images.size());
  for (std::size_t k = 0; k < images.size(); ++k) poses.push_back(pose(k));
  std::vector<std::array<double, 2>> out;
  out.reserve(observations.size());
  for (const Observation& o : observations) {
    const Camera& camera = cameras[images[o.image].camera];
    const std::array<double, 2> at = topograd::project(
        camera.model, camera.parameters, moved(poses[o.image], &points[3 * std::size_t{o.point}]));
    out.push_back({at[0] - o.seen[0], at[1] - o.seen[1]});
  }
  return out;
}

std::vector<double> ColmapModel::distances() const {
  std::vector<double> out;
  out.reserve(observations.size());
  for (const auto& [x, y] : errors()) {
    const double distance = std::hypot(x, y);
    out.push_back(std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance);
  }
  return out;
}

ColmapModel parse_colmap(ColmapFiles files, const std::string& folder) {
  return Parser(std::make_shared<ColmapFiles>(std::move(files)), folder).parse();
}

ColmapModel read_colmap(const std::string& folder) {
  ColmapFiles files;
  files.binary = find_kind(folder);
  const std::string ending = files.binary ? ".bin" : ".txt";
  const auto read = [&](ColmapFiles::File& file, const char* name) {
    file = {name + ending, read_packed_text(folder + "/" + name + ending)};
  };
  read(files.cameras, "cameras");
  read(files.images, "images");
  read(files.points, "points3D");
  if (is_there(folder, "rigs" + ending)) read(files.rigs, "rigs");
  if (is_there(folder, "frames" + ending)) read(files.frames, "frames");
  return parse_colmap(std::move(files), folder);
}

ColmapFiles colmap_files(const ColmapModel& model) {
  if (!model.files)
    throw Error(ErrorCode::InvalidArgument,
                "colmap: expected a model that was read, got one without files");
  const ColmapFiles& old = *model.files;
  const bool has_rigs = !old.frames.name.empty();
  check_count("cameras", model.cameras.size(), old.cameras.places.size());
  check_count("images", model.images.size(), old.images.places.size());
  check_count("points", model.point_count(), old.points.places.size());
  check_count("frames", model.frames.size(), (has_rigs ? old.frames : old.images).places.size());
  check_count("sensors", model.sensors.size(), old.rigs.places.size());
  const auto frame = [&](std::size_t k) { return numbers_of(model.frames[k].pose); };
  const auto sensor = [&](std::size_t k) { return numbers_of(model.sensors[k].pose); };
  const auto camera = [&](std::size_t k) { return std::span(model.cameras[k].parameters); };
  std::vector<bool> cameras, frames, sensors;
  ColmapFiles out{.binary = old.binary,
                  .cameras = {old.cameras.name, patched(old.cameras, old.binary, camera, cameras)},
                  .images = {old.images.name, {}},
                  .points = {old.points.name, patched_points(model)},
                  .rigs = {old.rigs.name, patched(old.rigs, old.binary, sensor, sensors)},
                  .frames = {old.frames.name, {}}};
  (has_rigs ? out.frames : out.images).text =
      patched(has_rigs ? old.frames : old.images, old.binary, frame, frames);
  if (has_rigs) out.images.text = patched_images(model, frames, sensors);
  return out;
}

void write_colmap(const std::string& folder, const ColmapModel& model) {
  const ColmapFiles files = colmap_files(model);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw Error(ErrorCode::File, folder + ": cannot be made: " + failed.message());
  for (const ColmapFiles::File* file :
       {&files.cameras, &files.images, &files.points, &files.rigs, &files.frames})
    if (!file->name.empty()) write_text_file(folder + "/" + file->name, file->text);
}

BundleScene shown_scene(const ColmapModel& model) {
  BundleScene scene;
  scene.points = model.points;
  for (std::size_t k = 0; k < model.images.size(); ++k) {
    const Pose pose = model.pose(k);
    const auto& [w, x, y, z] = pose.rotation;
    const Eigen::AngleAxisd turn(Eigen::Quaterniond(w, x, y, z));
    const Eigen::Vector3d a = turn.angle() * turn.axis();
    scene.cameras.insert(scene.cameras.end(), {a.x(), a.y(), a.z()});
    scene.cameras.insert(scene.cameras.end(), pose.position.begin(), pose.position.end());
    scene.cameras.insert(scene.cameras.end(), {1, 0, 0});
  }
  return scene;
}

}  // namespace topograd
