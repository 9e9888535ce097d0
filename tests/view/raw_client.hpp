// A client of sockets, bytes by bytes, for tests of servers: HTTP and WebSocket, well-formed or
// not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace topograd::test {

/// One TCP connection to this machine. Everything has a bound in time, and nothing throws: what
/// cannot be done leaves the connection closed.
class RawClient {
 public:
  explicit RawClient(int port, double seconds = 5);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;

  bool is_open() const { return socket_ >= 0; }
  /// Sends what the connection takes in time; false if it was closed or takes no more.
  bool send(std::string_view bytes);
  /// All that comes until the server closes the connection, or until the time is over.
  std::string receive_all();
  /// At least this many bytes, or what came until the end.
  std::string receive(std::size_t count);
  /// True if the server closes the connection in time, whatever it sends before.
  bool is_closed_by_server();
  void close();

  /// Asks for a file by HTTP; returns the whole answer.
  std::string get(std::string_view path, std::string_view host);
  /// Opens a WebSocket; true if the server agreed.
  bool upgrade(std::string_view path, std::string_view host, std::string_view origin);
  /// Sends one frame with a mask. `announced` is the length in its head; by default the true one.
  bool send_frame(int opcode, std::string_view payload, bool final = true,
                  std::uint64_t announced = ~std::uint64_t{0});
  bool send_text(std::string_view text) { return send_frame(1, text); }
  /// The payload of the next message or of the frame that closes, and its opcode. Frames of one
  /// message are joined, and pings are passed over; an opcode of -1 at the end.
  struct Received {
    int opcode = -1;
    std::string payload;
  };
  Received next_message();
  /// True if the server closes the WebSocket in time, whatever it sends before.
  bool is_dismissed();

 private:
  int socket_ = -1;
  double seconds_;
  std::string rest_;  // received and not yet returned
};

}  // namespace topograd::test
