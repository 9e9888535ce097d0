// Starts Chromium and talks to it.
#include "browser.hpp"

#include <png.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace topograd::test {

using nlohmann::json;

std::string from_base64(std::string_view text) {
  const auto value = [](char c) -> unsigned {
    if (c >= 'A' && c <= 'Z') return static_cast<unsigned>(c - 'A');
    if (c >= 'a' && c <= 'z') return static_cast<unsigned>(c - 'a' + 26);
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0' + 52);
    return c == '+' ? 62 : 63;
  };
  std::string out;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6U | value(c);
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xffU);
  }
  return out;
}

Picture Picture::part(int x, int y, int w, int h) const {
  Picture out{.width = w, .height = h, .rgb = {}};
  for (int row = y; row < y + h; ++row) {
    const auto first = rgb.begin() + 3 * (static_cast<std::ptrdiff_t>(row) * width + x);
    out.rgb.insert(out.rgb.end(), first, first + 3 * static_cast<std::ptrdiff_t>(w));
  }
  return out;
}

Picture read_png(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_RGB;
  Picture out{.width = static_cast<int>(image.width),
              .height = static_cast<int>(image.height),
              .rgb = std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image))};
  if (png_image_finish_read(&image, nullptr, out.rgb.data(), 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  return out;
}

std::string png_of(const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(size, '\0');
  if (png_image_write_to_memory(&image, out.data(), &size, 0, picture.rgb.data(), 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  out.resize(size);
  return out;
}

PictureDifference compare(const Picture& a, const Picture& b) {
  if (a.width != b.width || a.height != b.height) return {.mean = 255, .share = 1};
  constexpr int kDiffers = 40;
  double sum = 0, differing = 0;
  for (std::size_t pixel = 0; pixel < a.rgb.size(); pixel += 3) {
    bool differs = false;
    for (std::size_t c = pixel; c < pixel + 3; ++c) {
      const int difference = std::abs(int{a.rgb[c]} - int{b.rgb[c]});
      sum += difference;
      differs = differs || difference > kDiffers;
    }
    differing += differs;
  }
  const auto channels = static_cast<double>(a.rgb.size());
  return {.mean = sum / channels, .share = 3 * differing / channels};
}

std::string Browser::program() {
  for (const char* file :
       {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
    if (access(file, X_OK) == 0) return file;
  return {};
}

Browser::Browser(int width, int height, const std::vector<std::string>& flags) {
  const std::string file = program(), profile = "--user-data-dir=" + profile_.path().string(),
                    size = "--window-size=" + std::to_string(width) + "," + std::to_string(height);
  std::vector<std::string> words = {file,
                                    "--headless",
                                    "--no-sandbox",
                                    "--remote-debugging-pipe",
                                    "--use-angle=swiftshader",
                                    "--enable-unsafe-swiftshader",
                                    "--disable-dev-shm-usage",
                                    "--no-first-run",
                                    "--disable-background-networking",
                                    "--disable-component-update",
                                    "--disable-sync",
                                    "--hide-scrollbars",
                                    "--mute-audio",
                                    "--force-device-scale-factor=1",
                                    profile,
                                    size};
  words.insert(words.end(), flags.begin(), flags.end());
  words.emplace_back("about:blank");
  process_.emplace(std::move(words));
}

void Browser::take_event(const json& message) {
  const std::string method = message.value("method", "");
  if (method == "Runtime.exceptionThrown" || method == "Log.entryAdded") {
    const json& details = message["params"];
    if (method == "Log.entryAdded" && details["entry"].value("level", "") != "error") return;
    errors.push_back(details.dump());
  }
  if (method == "Network.requestWillBeSent")
    requests.push_back(message["params"]["request"]["url"].get<std::string>());
}

json Browser::call(const std::string& method, json parameters) {
  json message = {{"id", ++last_id_}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) message["sessionId"] = session_;
  process_->send(message);
  for (;;) {
    const json answer = process_->next();
    if (answer.value("id", 0) != last_id_) {
      take_event(answer);
      continue;
    }
    if (answer.contains("error")) throw std::runtime_error(method + ": " + answer["error"].dump());
    return answer["result"];
  }
}

void Browser::open(const std::string& url) {
  const json target = call("Target.createTarget", {{"url", "about:blank"}});
  const json attached =
      call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}});
  session_ = attached["sessionId"].get<std::string>();
  for (const char* domain : {"Runtime.enable", "Log.enable", "Network.enable", "Page.enable"})
    call(domain);
  call("Page.navigate", {{"url", url}});
}

json Browser::evaluate(const std::string& expression) {
  const json answer =
      call("Runtime.evaluate",
           {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (answer.contains("exceptionDetails"))
    throw std::runtime_error(expression + ": " + answer["exceptionDetails"].dump());
  return answer["result"].value("value", json());
}

bool Browser::wait_until(const std::string& expression, double seconds) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(static_cast<int>(1000 * seconds));
  while (std::chrono::steady_clock::now() < until) {
    if (evaluate("!!(" + expression + ")") == true) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

void Browser::mouse(const char* type, double x, double y, int buttons) {
  json event = {{"type", type}, {"x", x}, {"y", y}, {"buttons", buttons}, {"pointerType", "mouse"}};
  if (std::string_view(type) != "mouseMoved") {
    event["button"] = "left";
    event["clickCount"] = 1;
  }
  call("Input.dispatchMouseEvent", event);
}

void Browser::drag(double x0, double y0, double x1, double y1) {
  constexpr int kSteps = 12;
  mouse("mouseMoved", x0, y0, 0);
  mouse("mousePressed", x0, y0, 1);
  for (int k = 1; k <= kSteps; ++k) {
    const double share = static_cast<double>(k) / kSteps;
    mouse("mouseMoved", x0 + share * (x1 - x0), y0 + share * (y1 - y0), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  mouse("mouseReleased", x1, y1, 0);
}

void Browser::click(double x, double y) {
  mouse("mousePressed", x, y, 1);
  mouse("mouseReleased", x, y, 0);
}

Picture Browser::screenshot() {
  const json answer = call("Page.captureScreenshot", {{"format", "png"}});
  return read_png(from_base64(answer["data"].get<std::string>()));
}

}  // namespace topograd::test
