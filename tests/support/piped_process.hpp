// A child process that exchanges JSON with the test.
#pragma once

#include <nlohmann/json.hpp>

#include <sys/types.h>

#include <string>
#include <vector>

namespace topograd::test {

/// A program that reads JSON texts from its file 3 and writes such texts to its file 4, each ended
/// by a zero byte, as Chromium does with --remote-debugging-pipe. It is killed with its children
/// when the object goes.
class PipedProcess {
 public:
  /// `words` begin with the program's path. Its other output goes nowhere.
  explicit PipedProcess(std::vector<std::string> words);
  ~PipedProcess();
  PipedProcess(const PipedProcess&) = delete;
  PipedProcess& operator=(const PipedProcess&) = delete;

  void send(const nlohmann::json& message);
  /// The next message. Throws std::runtime_error if none comes in `seconds`, or the program ended.
  nlohmann::json next(int seconds = 60);

 private:
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  std::string received_;
};

}  // namespace topograd::test
