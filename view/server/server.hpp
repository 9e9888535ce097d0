// An HTTP and WebSocket server for one page on this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace topograd::view {

/// A file as it is served.
struct Resource {
  std::string_view type;  ///< media type, such as "text/html"; outlives the server
  std::shared_ptr<const std::string> body;
};

/// A message to a client. Without a body there is nothing to send.
struct Message {
  bool binary = false;
  std::shared_ptr<const std::string> body;
};

using ClientId = std::uint64_t;

/// The answers of a server. The server calls it on its own thread; it must not throw.
class Application {
 public:
  virtual ~Application() = default;
  /// The file at a path below the token, such as "" or "app.js"; without a body it does not exist.
  virtual Resource file(std::string_view path) = 0;
  virtual void joined(ClientId client) = 0;
  virtual void left(ClientId client) = 0;
  /// A text message of a client. Returns false to close its connection.
  virtual bool received(ClientId client, std::string_view text) = 0;
  /// The next message to a client, asked for when its connection can take one, so that nothing
  /// queues up for slow clients.
  virtual Message next(ClientId client) = 0;
};

struct ServerOptions {
  std::string host = "127.0.0.1";  ///< a numeric address of this machine
  int port = 0;                    ///< 0: one that is free
  bool allow_remote = false;       ///< accepts addresses that other machines reach
  std::size_t max_connections = 64;
  std::size_t max_clients = 16;  ///< WebSockets among the connections
  std::size_t max_message_bytes = 65536;
  int idle_seconds = 10;   ///< until a connection without a complete request is closed
  int stall_seconds = 30;  ///< until a client that takes no byte of a message is closed
};

/// Counts since the start.
struct ServerFigures {
  std::uint64_t accepted = 0;  ///< connections
  std::uint64_t refused = 0;   ///< connections beyond the bound
  std::uint64_t denied = 0;    ///< requests with a wrong token, path, host or origin
  std::uint64_t broken = 0;    ///< clients that were closed for what they sent
  std::uint64_t bytes_sent = 0;
  std::size_t open = 0, most_open = 0;  ///< connections
};

/// Serves on a thread of its own until its end. Every address begins with a random token of 128
/// bits; other addresses get status 404 without a body. A WebSocket needs the token, too, and an
/// Origin that is the server's own. On loopback addresses the Host must name this machine, so that
/// names of others that lead here (DNS rebinding) are refused.
///
/// Connections, clients and messages are bounded by the options, and what is sent is cut into
/// pieces of 64 KiB that the client's connection has asked for.
class Server {
 public:
  /// Throws Error{InvalidArgument} for a host other than loopback without `allow_remote`, or a port
  /// out of range; Error{File} if the address cannot be used; Error{Unsupported} in a build without
  /// the server.
  Server(const ServerOptions& options, Application& application);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  const std::string& token() const;
  std::string url() const;  ///< "http://127.0.0.1:PORT/TOKEN/"
  /// Asks the application for the next messages of all clients. From any thread.
  void wake();
  ServerFigures figures() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// True if this build has a server.
bool server_is_built();

/// True for numeric addresses that only this machine reaches: 127.0.0.0/8 and ::1.
bool is_loopback(std::string_view address);
/// 128 random bits as 32 hexadecimal digits.
std::string random_token();
/// Compares in a time that does not depend on where the texts differ.
bool equal_secrets(std::string_view a, std::string_view b);
/// True if a Host header may name a server on `address`: on loopback 127.0.0.1, localhost or [::1]
/// with any port (tunnels change it), else any name.
bool accepts_host(std::string_view host, std::string_view address);
/// True if an Origin header is that of a page which this server gave out for this Host.
bool accepts_origin(std::string_view origin, std::string_view host);

}  // namespace topograd::view
