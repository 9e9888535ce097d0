// Reads and plays scripts.
#include "script.hpp"

#include "../../../ir/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

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

}  // namespace topograd::view
