// Reads and writes messages.
#include "protocol.hpp"

#include "../ir/error.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>

namespace topograd::view {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kMagic = "TGF1";

[[noreturn]] void malformed(const std::string& message) { throw Error(ErrorCode::Parse, message); }

const json& member(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) malformed(std::string("message: expected \"") + key + "\"");
  return *found;
}

template <class T>
T whole(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<T>::max())
    malformed(std::string("message: expected a whole number as \"") + key + "\"");
  return static_cast<T>(value.get<std::uint64_t>());
}

double number(const json& value, const char* key) {
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    malformed(std::string("message: expected a finite number as \"") + key + "\"");
  return value.get<double>();
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (!found->is_string()) malformed(std::string("message: expected a text as \"") + key + "\"");
  return found->get<std::string>();
}

bool flag(const json& object, const char* key, bool missing) {
  const auto found = object.find(key);
  if (found == object.end()) return missing;
  if (!found->is_boolean())
    malformed(std::string("message: expected true or false as \"") + key + "\"");
  return found->get<bool>();
}

Point point(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_array() || value.size() != 3)
    malformed(std::string("message: expected three numbers as \"") + key + "\"");
  Point out{};
  for (std::size_t k = 0; k < 3; ++k) out[k] = number(value[k], key);
  return out;
}

using CommandReader = Command (*)(const json&);
const std::map<std::string_view, CommandReader>& readers() {
  static const auto& table = *new std::map<std::string_view, CommandReader>{
      {"grab",
       [](const json& m) -> Command {
         return Grab{whole<HandleId>(m, "handle"), whole<std::uint32_t>(m, "vertex"),
                     m.contains("radius") ? number(m["radius"], "radius") : 0};
       }},
      {"drag",
       [](const json& m) -> Command {
         return Drag{whole<HandleId>(m, "handle"), point(m, "position"),
                     m.contains("serial") ? whole<std::uint64_t>(m, "serial") : 0,
                     flag(m, "begins", false)};
       }},
      {"release", [](const json& m) -> Command { return Release{whole<HandleId>(m, "handle")}; }},
      {"weigh",
       [](const json& m) -> Command {
         return Weigh{text(m, "name"), number(member(m, "value"), "value")};
       }},
      {"color",
       [](const json& m) -> Command {
         return Color{parse_enum<Coloring>("message: \"by\"", text(m, "by"))};
       }},
      {"choose",
       [](const json& m) -> Command {
         return Choose{text(m, "backend"), text(m, "precision"), text(m, "method")};
       }},
      {"pause", [](const json& m) -> Command { return Pause{flag(m, "paused", true)}; }},
      {"step", [](const json&) -> Command { return Step{}; }},
      {"undo", [](const json&) -> Command { return Undo{}; }},
      {"reset", [](const json&) -> Command { return Reset{}; }},
  };
  return table;
}

template <class T>
void append_bytes(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), bytes.size());
}

ordered_json numbers(const Point& p) { return {p[0], p[1], p[2]}; }

}  // namespace

Received parse_message(std::string_view message) {
  constexpr std::size_t kMostDepth = 4;
  std::size_t depth = 0;
  for (const char c : message) {
    depth += c == '[' || c == '{';
    if (depth > kMostDepth) malformed("message: expected at most four brackets");
  }
  const json parsed = json::parse(message, nullptr, false);
  if (!parsed.is_object()) malformed("message: expected a JSON object");
  const std::string name = text(parsed, "do");
  if (name == "drawn")
    return {.kind = Received::Kind::acknowledgement,
            .frame = whole<std::uint64_t>(parsed, "frame"),
            .command = {}};
  if (name == "claim") return {.kind = Received::Kind::claim, .frame = 0, .command = {}};
  const auto reader = readers().find(name);
  if (reader == readers().end()) malformed("message: expected the name of a command as \"do\"");
  return {.command = reader->second(parsed)};
}

std::string scene_text(const LiveSolver& live) {
  const Subject& subject = live.subject();
  ordered_json out = {{"name", subject.name},
                      {"points", subject.shown},
                      {"movable", subject.points.size()},
                      {"triangles", subject.connections.triangles.size()},
                      {"lines", subject.connections.lines.size()},
                      {"unknowns", subject.problem->parameter_count()},
                      {"residuals", subject.problem->residual_count()},
                      {"size", diagonal_of(live.start())}};
  out["sliders"] = ordered_json::array();
  for (const Slider& slider : subject.sliders)
    out["sliders"].push_back({{"name", slider.name}, {"low", slider.low}, {"high", slider.high}});
  const auto names = [](auto all) {
    ordered_json list = ordered_json::array();
    for (const auto& one : all) list.push_back(std::string(one));
    return list;
  };
  out["colorings"] = names(names_of<Coloring>());
  out["backends"] = names(names_of<Backend>());
  out["precisions"] = names(names_of<Precision>());
  out["methods"] = names(names_of<Method>());
  return out.dump();
}

std::string geometry_bytes(const LiveSolver& live) {
  const Subject& subject = live.subject();
  std::string out;
  append_bytes(out, static_cast<std::uint32_t>(subject.shown));
  append_bytes(out, static_cast<std::uint32_t>(subject.connections.triangles.size()));
  append_bytes(out, static_cast<std::uint32_t>(subject.connections.lines.size()));
  for (const double x : live.start()) append_bytes(out, static_cast<float>(x));
  for (const auto& triangle : subject.connections.triangles)
    for (const std::uint32_t v : triangle) append_bytes(out, v);
  for (const auto& line : subject.connections.lines)
    for (const std::uint32_t v : line) append_bytes(out, v);
  return out;
}

std::string state_text(const State& state, bool writes, bool writer_is_there) {
  ordered_json out = {{"version", state.version},         {"writes", writes},
                      {"writer", writer_is_there},        {"paused", state.paused},
                      {"coloring", name(state.coloring)}, {"backend", state.backend},
                      {"precision", state.precision},     {"method", state.method},
                      {"undo", state.undo_depth},         {"message", state.message}};
  out["weights"] = ordered_json::object();
  for (const auto& [key, value] : state.weights) out["weights"][key] = value;
  out["handles"] = ordered_json::array();
  for (const auto& [id, handle] : state.handles)
    out["handles"].push_back({{"id", id},
                              {"anchor", handle.anchor},
                              {"vertices", handle.vertices.size()},
                              {"position", numbers(handle.position())}});
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string frame_bytes(const Frame& frame, const Quantised& now, const Quantised* base) {
  if (base != nullptr && (base->grid != now.grid || base->cells.size() != now.cells.size()))
    base = nullptr;
  const FrameTimes& ms = frame.milliseconds;
  const ordered_json head = {{"frame", frame.number},
                             {"base", base == nullptr ? 0 : base->number},
                             {"drag", frame.drag},
                             {"cost", frame.cost},
                             {"gradient", frame.gradient},
                             {"steps", frame.steps},
                             {"backend", frame.backend},
                             {"device", frame.device},
                             {"termination", frame.termination},
                             {"compiled", frame.compiled},
                             {"solves_per_second", frame.solves_per_second},
                             {"steps_per_second", frame.steps_per_second},
                             {"settled", frame.settled},
                             {"ms",
                              {{"apply", ms.apply},
                               {"evaluate", ms.evaluate},
                               {"linear", ms.linear},
                               {"solve", ms.solve},
                               {"color", ms.color},
                               {"total", ms.total}}},
                             {"origin", numbers(now.grid.origin)},
                             {"step", now.grid.step},
                             {"points", now.cells.size() / 3},
                             {"low", frame.low},
                             {"high", frame.high},
                             {"colors", !now.colors.empty()}};
  const std::string text = head.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string out(kMagic);
  append_bytes(out, static_cast<std::uint32_t>(text.size()));
  return out + text + encode(now, base);
}

ReadFrame read_frame(std::string_view bytes, const Quantised* base) {
  std::uint32_t size = 0;
  const std::size_t head_at = kMagic.size() + sizeof size;
  if (!bytes.starts_with(kMagic) || bytes.size() < head_at) malformed("frame: expected TGF1");
  std::memcpy(&size, bytes.data() + kMagic.size(), sizeof size);
  if (bytes.size() - head_at < size) malformed("frame: expected more bytes");
  const json head = json::parse(bytes.substr(head_at, size), nullptr, false);
  if (!head.is_object()) malformed("frame: expected a JSON object");
  ReadFrame out{.number = whole<std::uint64_t>(head, "frame"),
                .base = whole<std::uint64_t>(head, "base"),
                .drag = whole<std::uint64_t>(head, "drag"),
                .cost = number(member(head, "cost"), "cost"),
                .points = {}};
  const Grid grid{.origin = point(head, "origin"), .step = number(member(head, "step"), "step")};
  if (out.base != 0 && (base == nullptr || base->number != out.base))
    malformed("frame: expected the frame that it is based on");
  out.points = decode(bytes.substr(head_at + size), whole<std::uint32_t>(head, "points"), grid,
                      out.base == 0 ? nullptr : base);
  out.points.number = out.number;
  return out;
}

std::string mesh_text(const LiveSolver& live, const Frame& frame, MeshFormat format) {
  const Subject& subject = live.subject();
  std::string out = topograd::mesh_text(
      {.positions = frame.positions, .triangles = subject.connections.triangles}, format);
  if (format != MeshFormat::obj) return out;
  for (const auto& line : subject.connections.lines)
    out += "l " + std::to_string(line[0] + 1) + " " + std::to_string(line[1] + 1) + "\n";
  return out;
}

}  // namespace topograd::view
