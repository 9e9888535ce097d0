// A program that opens the page of its own problem, reads it as a browser does, and closes it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <topograd/topograd.hpp>
#include <topograd/view/session.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace tg = topograd;

// The answer to a GET of a path on this machine.
std::string get(int port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    char piece[4096];
    if (write(socket, request.data(), request.size()) > 0)
      for (ssize_t n = 0; (n = read(socket, piece, sizeof piece)) > 0;)
        answer.append(piece, static_cast<std::size_t>(n));
  }
  close(socket);
  return answer;
}

bool has(const std::string& text, const char* part) {
  if (text.find(part) != std::string::npos) return true;
  std::fprintf(stderr, "expected \"%s\" in an answer of %zu bytes\n", part, text.size());
  return false;
}

int main() {
  std::vector<double> positions = {0, 0, 0, 2, 0, 0, 0, 3, 0};
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);
  for (std::size_t k = 0; k < 3; ++k)
    problem.add_residual(norm(x.vec3(k) - x.vec3((k + 1) % 3)) - 1.0);
  bool good = true;
  try {
    tg::view::Session session(problem, x, {.triangles = {{0, 1, 2}}, .lines = {}},
                              {.name = "triangle", .solver = {.backend = tg::Backend::cpu}});
    const std::string url = session.url();
    const std::size_t colon = url.rfind(':'), slash = url.find('/', colon);
    const int port = std::stoi(url.substr(colon + 1));
    const std::string path = url.substr(slash);
    good = has(get(port, path), "<!doctype html>") && good;
    good = has(get(port, path + "scene.json"), "\"name\":\"triangle\",\"points\":3") && good;
    good = has(get(port, "/0123456789abcdef0123456789abcdef/scene.json"), "404") && good;
    while (!(session.cost() < 1e-9) && !session.wait(0.01)) {
    }
    session.close();
    good = get(port, path).empty() && good;
  } catch (const tg::Error& error) {
    // A build without libwebsockets has the header, and says what is missing.
    return error.code() == tg::ErrorCode::Unsupported ? 0 : 2;
  }
  good = problem.residual_count() == 3 && good;
  const double length = std::hypot(positions[3] - positions[0], positions[4] - positions[1],
                                   positions[5] - positions[2]);
  return good && std::abs(length - 1) < 1e-3 ? 0 : 1;
}
