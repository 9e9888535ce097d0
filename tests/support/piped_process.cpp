// Starts a program with two pipes.
#include "piped_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace topograd::test {

using nlohmann::json;

PipedProcess::PipedProcess(std::vector<std::string> words) {
  std::array<int, 2> down{}, up{};
  if (pipe2(down.data(), O_CLOEXEC) != 0 || pipe2(up.data(), O_CLOEXEC) != 0)
    throw std::runtime_error("pipes cannot be made");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  process_ = fork();
  if (process_ == 0) {
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) dup2(nothing, stream);
    // The pipes become 3 and 4; they are moved out of each other's way first.
    const int read = fcntl(down[0], F_DUPFD, 10), write = fcntl(up[1], F_DUPFD, 10);
    dup2(read, 3);
    dup2(write, 4);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  to_ = down[1];
  from_ = up[0];
}

PipedProcess::~PipedProcess() {
  close(to_);
  close(from_);
  if (process_ > 0) {
    kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
}

void PipedProcess::send(const json& message) {
  const std::string text = message.dump() + '\0';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = write(to_, text.data() + sent, text.size() - sent);
    if (count <= 0) throw std::runtime_error("the process takes no messages");
    sent += static_cast<std::size_t>(count);
  }
}

json PipedProcess::next(int seconds) {
  for (;;) {
    if (const std::size_t end = received_.find('\0'); end != received_.npos) {
      json message = json::parse(received_.substr(0, end));
      received_.erase(0, end + 1);
      return message;
    }
    pollfd waiting{.fd = from_, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, 1000 * seconds) != 1) throw std::runtime_error("the process is silent");
    std::array<char, 65536> piece{};
    const ssize_t got = read(from_, piece.data(), piece.size());
    if (got <= 0) throw std::runtime_error("the process has ended");
    received_.append(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace topograd::test
