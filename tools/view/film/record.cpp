// Draws the frames of a script by the rasteriser of tools/draw.
#include "record.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/output_file.hpp"
#include "../../../solver/interrupts.hpp"
#include "../../draw/canvas.hpp"
#include "../../draw/scene.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <spawn.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace topograd::view {
namespace {

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
