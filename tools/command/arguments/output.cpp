// Writes the command's results.
#include "output.hpp"

#include "commands.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/output_file.hpp"
#include "../../../solver/interrupts.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <sstream>
#include <utility>

namespace topograd::command {

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text;
    flush_standard_output();
    return;
  }
  if (!platform::write_output_file(path, std::as_bytes(std::span(text))))
    throw Error(ErrorCode::File, path + ": cannot be written");
}

void flush_standard_output() {
  if (!(std::cout << std::flush))
    throw Error(ErrorCode::File, "standard output: cannot be written");
}

void print_warning(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::cerr << "topograd: warning: " + text + "\n" << std::flush;
}

void check_writable(const std::string& path) {
  if (path.empty() || path == "-") return;
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  const bool there = std::filesystem::exists(status);
  // Pipes and devices may interpret a close as the end of the data.
  if (there && !is_regular_file(status) && !is_directory(status)) return;
  if (!std::ofstream(path, std::ios::binary | std::ios::app))
    throw Error(ErrorCode::File, path + ": cannot be written");
  if (!there) std::filesystem::remove(path, failed);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // A folder can be opened, too, but reads as empty.
  if (!file || std::filesystem::is_directory(path) ||
      !(text << file.rdbuf() || text.str().empty())) {
    throw Error(ErrorCode::File, path + ": cannot be read");
  }
  return text.str();
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  if (!path.empty()) write_text(path, json.dump(2) + "\n");
}

std::function<void()> noting_signals(std::function<void()> work) {
  return [work = std::move(work)] {
    const Interrupts interrupts;
    work();
  };
}

void end_if_interrupted(const std::string& outputs) {
  if (!Interrupts::came()) return;
  print_warning(Interrupts::message() + ": " + outputs);
  throw Interrupted{Interrupts::signal()};
}

void finish_check(const std::string& path, const std::string& text, nlohmann::ordered_json report) {
  if (Interrupts::came()) report["interrupted"] = Interrupts::message();
  if (path != "-") std::cout << text << std::flush;
  write_json(path, report);
  end_if_interrupted("the report has what was checked so far");
  if (report["broken"].get<bool>()) throw BoundBroken{};
}

}  // namespace topograd::command
