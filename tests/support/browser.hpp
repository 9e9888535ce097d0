// A browser without a display, driven through the DevTools protocol.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paths.hpp"
#include "piped_process.hpp"

namespace topograd::test {

/// A picture of 8-bit red, green and blue, row by row.
struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;

  /// The rectangle of this width and height at (x, y).
  Picture part(int x, int y, int w, int h) const;
};
Picture read_png(const std::string& bytes);
std::string png_of(const Picture& picture);

/// How much two pictures of one size differ.
struct PictureDifference {
  double mean = 0;   ///< of the channels' absolute differences, 0 .. 255
  double share = 0;  ///< of pixels with a channel that differs by more than 40
};
PictureDifference compare(const Picture& a, const Picture& b);

/// The bytes of a base64 text.
std::string from_base64(std::string_view text);

/// Chromium with one page. Throws std::runtime_error if it does not answer within a minute.
class Browser {
 public:
  /// The browser's program; empty if none is installed.
  static std::string program();

  /// `flags` are added to the command line.
  Browser(int width, int height, const std::vector<std::string>& flags = {});

  void open(const std::string& url);
  /// The value of a JavaScript expression in the page; promises are awaited.
  nlohmann::json evaluate(const std::string& expression);
  /// Waits until an expression is true, at most `seconds`.
  bool wait_until(const std::string& expression, double seconds = 120);
  /// Moves the mouse with the left button pressed from one place to the other, in steps.
  void drag(double x0, double y0, double x1, double y1);
  void click(double x, double y);
  Picture screenshot();

  /// Messages of errors that came up in the page, and addresses that it asked for.
  std::vector<std::string> errors, requests;

 private:
  nlohmann::json call(const std::string& method,
                      nlohmann::json parameters = nlohmann::json::object());
  void take_event(const nlohmann::json& message);
  void mouse(const char* type, double x, double y, int buttons);

  TemporaryDir profile_;
  std::optional<PipedProcess> process_;
  int last_id_ = 0;
  std::string session_;
};

}  // namespace topograd::test
