// Sockets for tests.
#include "raw_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

namespace topograd::test {
namespace {

using Clock = std::chrono::steady_clock;

bool wait_for(int socket, short events, Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  pollfd waiting{.fd = socket, .events = events, .revents = 0};
  return left.count() > 0 && poll(&waiting, 1, static_cast<int>(left.count())) == 1;
}

/// The opcode that closes a WebSocket. Frames of control have this one or a larger one, and may
/// stand between the frames of a message.
constexpr int kClose = 8;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

RawClient::RawClient(int port, double seconds) : seconds_(seconds) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
      !wait_for(socket_, POLLOUT, after(seconds_)))
    close();
}

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      seconds_(other.seconds_),
      rest_(std::move(other.rest_)) {}

RawClient::~RawClient() { close(); }

void RawClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

bool RawClient::send(std::string_view bytes) {
  const auto until = after(seconds_);
  while (!bytes.empty() && is_open()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0)
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    else if (errno != EAGAIN || !wait_for(socket_, POLLOUT, until))
      return false;
  }
  return is_open();
}

std::string RawClient::receive(std::size_t count) {
  const auto until = after(seconds_);
  std::array<char, 16384> piece{};
  while (rest_.size() < count && is_open() && wait_for(socket_, POLLIN, until)) {
    const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
    if (got <= 0) {
      close();
      break;
    }
    rest_.append(piece.data(), static_cast<std::size_t>(got));
  }
  std::string out = rest_.substr(0, count);
  rest_.erase(0, out.size());
  return out;
}

std::string RawClient::receive_all() { return receive(~std::size_t{0} >> 1); }

bool RawClient::is_closed_by_server() {
  receive_all();
  return !is_open();
}

std::string RawClient::get(std::string_view path, std::string_view host) {
  send("GET " + std::string(path) + " HTTP/1.1\r\nHost: " + std::string(host) +
       "\r\nConnection: close\r\n\r\n");
  return receive_all();
}

bool RawClient::upgrade(std::string_view path, std::string_view host, std::string_view origin) {
  std::string request = "GET " + std::string(path) + " HTTP/1.1\r\nHost: " + std::string(host) +
                        "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                        "Sec-WebSocket-Version: 13\r\n";
  if (!origin.empty()) request += "Origin: " + std::string(origin) + "\r\n";
  send(request + "\r\n");
  std::string head;
  while (!head.ends_with("\r\n\r\n")) {
    const std::string next = receive(1);
    if (next.empty()) return false;
    head += next;
  }
  return head.starts_with("HTTP/1.1 101");
}

bool RawClient::send_frame(int opcode, std::string_view payload, bool final,
                           std::uint64_t announced) {
  constexpr std::uint64_t kShort = 126, kByte = 8;
  constexpr int kFinal = 0x80, kLong = 127, kMasked = 0x80;
  constexpr char kMask[] = {'\x12', '\x34', '\x56', '\x78'};
  const std::uint64_t size = announced == ~std::uint64_t{0} ? payload.size() : announced;
  std::string frame(1, static_cast<char>((final ? kFinal : 0) | opcode));
  int bytes = 0;
  if (size < kShort) {
    frame += static_cast<char>(kMasked | static_cast<int>(size));
  } else {
    bytes = size < 65536 ? 2 : 8;
    frame += static_cast<char>(kMasked | (bytes == 2 ? static_cast<int>(kShort) : kLong));
  }
  for (int k = bytes - 1; k >= 0; --k)
    frame += static_cast<char>(size >> (kByte * static_cast<std::uint64_t>(k)));
  frame.append(kMask, 4);
  for (std::size_t k = 0; k < payload.size(); ++k)
    frame += static_cast<char>(payload[k] ^ kMask[k % 4]);
  return send(frame);
}

RawClient::Received RawClient::next_message() {
  Received out;
  for (bool final = false; !final;) {
    const std::string head = receive(2);
    if (head.size() < 2) return {};
    final = (static_cast<unsigned char>(head[0]) & 0x80U) != 0;
    const int opcode = head[0] & 0x0f;
    std::uint64_t size = static_cast<unsigned char>(head[1]) & 0x7fU;
    if (size >= 126) {
      const std::string more = receive(size == 126 ? 2 : 8);
      size = 0;
      for (const char c : more) size = size << 8U | static_cast<unsigned char>(c);
    }
    std::string payload = receive(size);
    if (payload.size() < size) return {};
    if (opcode == kClose) return {opcode, std::move(payload)};
    if (opcode > kClose) {  // a ping or pong
      final = false;
      continue;
    }
    if (out.opcode < 0) out.opcode = opcode;
    out.payload += payload;
  }
  return out;
}

bool RawClient::is_dismissed() {
  for (;;) {
    const int opcode = next_message().opcode;
    if (opcode == kClose) return true;
    if (opcode < 0) return !is_open();
  }
}

}  // namespace topograd::test
