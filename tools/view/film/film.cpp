// Reads and plays scripts, and draws their frames by the rasteriser of tools/draw.
#include "film.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../draw/canvas.hpp"
#include "../../draw/scene.hpp"

namespace topograd::view {
namespace {

using nlohmann::json;

/// A JSON object of a script; every member that is not read is an error.
class Members {
 public:
  Members(const json& object, std::string where) : object_(&object), where_(std::move(where)) {
    if (!object.is_object()) fail("expected an object");
    unread_ = object.size();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::Parse, where_ + ": " + what);
  }
  const json* find(const char* key) {
    const auto found = object_->find(key);
    if (found == object_->end()) return nullptr;
    --unread_;
    return &*found;
  }
  double number(const char* key, double missing, double low, double high) {
    const json* value = find(key);
    if (value == nullptr) return missing;
    if (!value->is_number() || !(value->get<double>() >= low) || !(value->get<double>() <= high))
      fail(std::string("expected a number in ") + text(low) + " .. " + text(high) + " as \"" + key +
           "\"");
    return value->get<double>();
  }
  std::uint32_t whole(const char* key, std::uint32_t missing) {
    constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
    const double value = number(key, missing, 0, kMost);
    if (value != std::floor(value)) fail(std::string("expected a whole number as \"") + key + "\"");
    return static_cast<std::uint32_t>(value);
  }
  void end() const {
    if (unread_ != 0) fail("expected no other names (docs/viewing.md lists them)");
  }

 private:
  static std::string text(double x) { return json(x).dump(); }

  const json* object_;
  std::string where_;
  std::size_t unread_ = 0;
};

constexpr double kLongest = 3600, kFastest = 1000;
constexpr std::uint32_t kMostSolves = 1000;

ScriptedDrag read_drag(const json& object, const std::string& where) {
  Members members(object, where);
  ScriptedDrag drag;
  if (object.contains("handle") == object.contains("vertex"))
    members.fail("expected \"handle\" or \"vertex\"");
  if (object.contains("handle")) drag.handle = members.whole("handle", 0);
  drag.vertex = members.whole("vertex", 0);
  constexpr double kMost = std::numeric_limits<double>::max();
  drag.radius = members.number("radius", 0, 0, kMost);
  drag.from = members.number("from", 0, 0, kLongest);
  drag.to = members.number("to", drag.from, drag.from, kLongest);
  const json* path = members.find("path");
  if (path == nullptr || !path->is_array() || path->empty())
    members.fail("expected a list of points as \"path\"");
  for (const json& point : *path) {
    Point& out = drag.path.emplace_back();
    bool good = point.is_array() && point.size() == 3;
    for (std::size_t k = 0; good && k < 3; ++k) {
      good = point[k].is_number();
      if (good) out[k] = point[k].get<double>();
    }
    if (!good) members.fail("expected points of three numbers in \"path\"");
  }
  members.end();
  return drag;
}

namespace fs = std::filesystem;

/// The frame after `number`. Throws Error{Internal} if a solve or a command of the script fails.
std::shared_ptr<const Frame> next_frame(const LiveSolver& live, std::uint64_t number) {
  constexpr double kLook = 0.5;
  for (;;) {
    std::shared_ptr<const Frame> frame = live.wait(number, kLook);
    if (const std::string message = live.state()->message; !message.empty())
      throw Error(ErrorCode::Internal, "view: " + message);
    if (frame != nullptr) return frame;
  }
}

/// The path of a program that PATH names; empty if there is none.
std::string find_program(std::string_view program) {
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? std::string_view() : variable;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, end)) / program;
    if (access(file.c_str(), X_OK) == 0) return file.string();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

/// Runs a program to its end, without input; true if it succeeded.
bool succeeds(const std::string& program, std::vector<std::string> arguments) {
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, words.data(), environ) != 0)
    return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Makes meshes of a subject: its triangles, or marks for its points and lines.
class Shapes {
 public:
  Shapes(const Connections& connections, std::span<const double> start)
      : connections_(&connections) {
    constexpr double kRadius = 0.006;  // of the diagonal of the bounding box
    Point low, high;
    low.fill(std::numeric_limits<double>::infinity());
    high.fill(-std::numeric_limits<double>::infinity());
    for (std::size_t k = 0; k < start.size(); ++k) {
      low[k % 3] = std::min(low[k % 3], start[k]);
      high[k % 3] = std::max(high[k % 3], start[k]);
    }
    flat_ = connections.triangles.empty() && low[2] == high[2];
    radius_ = kRadius * std::hypot(high[0] - low[0], high[1] - low[1], high[2] - low[2]);
  }

  draw::Mesh operator()(std::span<const double> positions) const {
    if (!connections_->triangles.empty())
      return draw::make_mesh(positions, connections_->triangles);
    if (!flat_) return draw::make_marks(positions, connections_->lines, radius_);
    // Points of a plane are looked at from the front.
    std::vector<double> sheet;
    for (std::size_t k = 0; k + 2 < positions.size(); k += 3)
      for (const double x : draw::on_sheet(positions[k], positions[k + 1])) sheet.push_back(x);
    return draw::make_marks(sheet, connections_->lines, radius_);
  }

 private:
  const Connections* connections_;
  double radius_ = 0;
  bool flat_ = false;  // points and lines of one z
};

void write_png_film(const std::vector<draw::Sheet>& sheets, double frames_per_second,
                    const std::string& path) {
  const int milliseconds = static_cast<int>(std::lround(1000 / frames_per_second));
  const std::string bytes = draw::animated_png(sheets, std::max(milliseconds, 1));
  if (!platform::write_output_file(path, std::as_bytes(std::span(bytes))))
    throw Error(ErrorCode::File, path + ": cannot be written");
}

void write_mp4(const std::vector<draw::Sheet>& sheets, double frames_per_second,
               const std::string& path) {
  std::string folder = (fs::temp_directory_path() / "topograd-film-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw Error(ErrorCode::File, folder + ": cannot be made");
  for (std::size_t k = 0; k < sheets.size(); ++k) {
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "%06zu.png", k);
    draw::write_png(sheets[k], fs::path(folder) / name.data());
  }
  const bool good = succeeds(find_program("ffmpeg"),
                             {"-loglevel", "error", "-nostdin", "-y", "-framerate",
                              std::to_string(frames_per_second), "-i", folder + "/%06d.png",
                              "-pix_fmt", "yuv420p", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", path});
  fs::remove_all(folder);
  if (!good) throw Error(ErrorCode::Unsupported, path + ": ffmpeg failed");
}

}  // namespace

Point ScriptedDrag::offset(double time) const {
  const double share =
      to > from ? std::clamp((time - from) / (to - from), 0.0, 1.0) : (time < from ? 0.0 : 1.0);
  const double at = share * static_cast<double>(path.size() - 1);
  const auto low = static_cast<std::size_t>(at), high = std::min(low + 1, path.size() - 1);
  Point out{};
  for (std::size_t k = 0; k < 3; ++k)
    out[k] = path[low][k] + (at - static_cast<double>(low)) * (path[high][k] - path[low][k]);
  return out;
}

Script parse_script(std::string_view text, std::string_view name) {
  const json parsed = json::parse(text, nullptr, false);
  const std::string where(name);
  if (parsed.is_discarded()) throw Error(ErrorCode::Parse, where + ": expected JSON");
  Members members(parsed, where);
  Script script;
  script.seconds = members.number("seconds", script.seconds, 0, kLongest);
  script.frames_per_second =
      members.number("frames_per_second", script.frames_per_second, 1, kFastest);
  const std::uint32_t solves = members.whole("solves_per_frame", 1);
  if (solves < 1 || solves > kMostSolves)
    members.fail("expected 1 to " + std::to_string(kMostSolves) + " as \"solves_per_frame\"");
  script.solves_per_frame = static_cast<int>(solves);
  const json* drags = members.find("drags");
  if (drags == nullptr || !drags->is_array()) members.fail("expected a list as \"drags\"");
  for (const json& drag : *drags)
    script.drags.push_back(
        read_drag(drag, where + ": drag " + std::to_string(script.drags.size() + 1)));
  members.end();
  return script;
}

Script turning_script(const LiveSolver& live, double seconds) {
  const std::vector<double>& start = live.start();
  const double size = diagonal_of(start);
  ScriptedDrag drag{.from = 0, .to = seconds};
  const std::size_t handles = live.subject().handles.size();
  if (handles > 0) {
    drag.handle = static_cast<HandleId>(handles);
  } else {
    for (std::size_t v = 0; v < live.subject().points.size(); ++v)
      if (start[3 * v + 1] > start[3 * drag.vertex + 1])
        drag.vertex = static_cast<std::uint32_t>(v);
    constexpr double kShare = 0.05;
    drag.radius = kShare * size;
  }
  constexpr int kPieces = 96;
  constexpr double kOut = 0.2, kUp = 0.15;
  for (int k = 0; k <= kPieces; ++k) {
    const double share = static_cast<double>(k) / kPieces;
    const double pull = std::sin(std::numbers::pi * share) * size,
                 turn = 4 * std::numbers::pi * share;
    drag.path.push_back({kOut * pull * std::cos(turn), kUp * pull, kOut * pull * std::sin(turn)});
  }
  return {.seconds = seconds, .drags = {std::move(drag)}};
}

Drags::Drags(LiveSolver& live, const Script& script) : live_(&live) {
  const std::shared_ptr<const State> state = live.state();
  const std::size_t movable = live.subject().points.size();
  constexpr HandleId kFirstOfScripts = 1'000'000;
  HandleId next = kFirstOfScripts;
  for (const ScriptedDrag& drag : script.drags) {
    Moving moving{.handle = next, .origin = {}, .drag = drag};
    if (drag.handle) {
      const auto found = state->handles.find(*drag.handle);
      if (found == state->handles.end())
        throw Error(ErrorCode::InvalidArgument,
                    "script: expected the number of a handle, got " + std::to_string(*drag.handle));
      moving.handle = *drag.handle;
      moving.origin = found->second.position();
    } else {
      if (drag.vertex >= movable)
        throw Error(ErrorCode::InvalidArgument, "script: expected a vertex in 0 .. " +
                                                    std::to_string(movable) + " - 1, got " +
                                                    std::to_string(drag.vertex));
      const std::size_t at = 3 * std::size_t{drag.vertex};
      moving.origin = {live.start()[at], live.start()[at + 1], live.start()[at + 2]};
      live.post(Grab{next++, drag.vertex, drag.radius});
    }
    moving_.push_back(std::move(moving));
  }
}

void Drags::post(double time, std::uint64_t serial) {
  for (const Moving& moving : moving_) {
    const Point offset = moving.drag.offset(time);
    Point position = moving.origin;
    for (std::size_t k = 0; k < 3; ++k) position[k] += offset[k];
    live_->post(Drag{moving.handle, position, serial, false});
  }
}

void check_film(const std::string& path) {
  const bool mp4 = path.ends_with(".mp4");
  if (!mp4 && !path.ends_with(".png"))
    throw Error(ErrorCode::InvalidArgument,
                "view: expected --record to end in .png or .mp4, got " + path);
  if (mp4 && find_program("ffmpeg").empty())
    throw Error(ErrorCode::Unsupported,
                "view: --record " + path +
                    " needs the program ffmpeg, which was not found (Debian: ffmpeg); a name that "
                    "ends in .png gives an animated PNG");
}

std::shared_ptr<const Frame> record(LiveSolver& live, const Script& script,
                                    const std::string& path) {
  check_film(path);
  const Subject& subject = live.subject();
  if (!live.state()->paused)
    throw Error(ErrorCode::InvalidArgument, "view: expected a paused live solver to record");
  Drags drags(live, script);
  const Shapes shapes(subject.connections, live.start());
  std::vector<draw::Mesh> meshes = {shapes(live.start())};
  std::shared_ptr<const Frame> frame;
  const auto frames =
      1 + static_cast<std::uint64_t>(std::lround(script.seconds * script.frames_per_second));
  for (std::uint64_t k = 0; k < frames && !Interrupts::came(); ++k) {
    drags.post(static_cast<double>(k) / script.frames_per_second, k + 1);
    for (int solve = 0; solve < script.solves_per_frame; ++solve) {
      live.post(Step{});
      frame = next_frame(live, frame == nullptr ? 0 : frame->number);
    }
    meshes.push_back(shapes(frame->positions));
  }
  const std::vector<std::string> captions(meshes.size());
  std::vector<draw::Sheet> sheets = draw::lay_out_frames(std::move(meshes), captions, 0.5);
  if (path.ends_with(".mp4"))
    write_mp4(sheets, script.frames_per_second, path);
  else
    write_png_film(sheets, script.frames_per_second, path);
  return frame;
}

}  // namespace topograd::view
