// A temporary folder for a self-test.
#include "known_answers.hpp"

#include <atomic>

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"

namespace topograd::check {

Folder::Folder(const std::string& check) {
  static std::atomic<int> serial{0};
  std::error_code error;
  path_ =
      std::filesystem::temp_directory_path(error) /
      ("topograd-check-" + std::to_string(platform::process_id()) + "-" + std::to_string(serial++));
  const std::string problem = error ? error.message() : platform::private_folder(path_);
  if (!problem.empty()) throw Error(ErrorCode::File, "check " + check + ": " + problem);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace topograd::check
