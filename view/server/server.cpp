// The server by libwebsockets: connections, requests, messages in pieces.
#include "server.hpp"

#include <libwebsockets.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"

namespace topograd::view {
namespace {

constexpr std::size_t kPieceBytes = 65536;
constexpr std::size_t kReceiveBytes = 4096;
constexpr std::size_t kHeaderBytes = 2048;
constexpr int kPingSeconds = 30, kHangUpSeconds = 45;
constexpr unsigned kNotFound = 404, kMethodNotAllowed = 405;

constexpr lws_retry_bo kPings = {.secs_since_valid_ping = kPingSeconds,
                                 .secs_since_valid_hangup = kHangUpSeconds};

/// One connection: the message that is being sent, and the received part of the next one.
struct Connection {
  ClientId client = 0;  ///< of a WebSocket, else 0
  Message sending;
  std::size_t sent = 0;
  std::string received;
};

/// The text of a header; empty if there is none or it is longer than any that is accepted.
std::string header(lws* wsi, lws_token_indexes which) {
  std::array<char, 256> text{};
  const int length = lws_hdr_copy(wsi, text.data(), static_cast<int>(text.size()), which);
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(length));
}

/// Names of protocols are compared without regard to case.
bool is_websocket(std::string_view protocol) {
  return std::ranges::equal(protocol, std::string_view("websocket"), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

/// Headers that every answer has: nothing is loaded from elsewhere, and only pages of this machine
/// (notebooks) show the page in a frame.
constexpr std::array<std::pair<const char*, const char*>, 5> kHeaders = {{
    {"content-security-policy:",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     "img-src 'self' data: blob:; frame-ancestors http://localhost:* http://127.0.0.1:*"},
    {"x-content-type-options:", "nosniff"},
    {"referrer-policy:", "no-referrer"},
    {"cache-control:", "no-store"},
    {"cross-origin-resource-policy:", "same-origin"},
}};

}  // namespace

struct Server::Impl {
  Impl(const ServerOptions& chosen, Application& app) : options(chosen), application(app) {
    check();
    open();
    service = std::thread([this] {
      while (!ends.load()) lws_service(context, 0);
    });
  }
  ~Impl() {
    ends.store(true);
    lws_cancel_service(context);
    if (service.joinable()) service.join();
    lws_context_destroy(context);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void check() const;
  void open();
  static int on_event(lws* wsi, lws_callback_reasons reason, void* user, void* in,
                      std::size_t size) {
    auto* server = static_cast<Impl*>(lws_context_user(lws_get_context(wsi)));
    try {
      return server->handle(wsi, reason, static_cast<Connection**>(user), in, size);
    } catch (const std::exception&) {
      return -1;  // closes the connection: no exception may pass through the library
    }
  }
  int handle(lws* wsi, lws_callback_reasons reason, Connection** slot, void* in, std::size_t size);
  int answer(lws* wsi, Connection& connection, std::string_view path);
  int answer_status(lws* wsi, unsigned status);
  int write_file(lws* wsi, Connection& connection);
  bool admits(lws* wsi);
  int join(lws* wsi, Connection& connection);
  int receive(lws* wsi, Connection& connection, std::string_view bytes);
  int write_message(lws* wsi, Connection& connection);
  int break_off(lws* wsi, lws_close_status status, const char* reason);
  /// The path below the token, if the token is right.
  std::optional<std::string_view> below_token(std::string_view path) const;

  template <class F>
  void count(F&& change) {
    const std::lock_guard lock(mutex);
    change(figures);
  }

  ServerOptions options;
  Application& application;
  const std::string token = random_token();
  int port = 0;
  lws_context* context = nullptr;
  std::thread service;
  std::atomic<bool> ends = false;
  ClientId last_client = 0;
  std::size_t clients = 0;
  std::vector<unsigned char> piece = std::vector<unsigned char>(LWS_PRE + kPieceBytes);
  mutable std::mutex mutex;
  ServerFigures figures;
  std::array<lws_protocols, 2> protocols{};
};

void Server::Impl::check() const {
  constexpr int kLastPort = 65535;
  if (options.port < 0 || options.port > kLastPort)
    throw Error(ErrorCode::InvalidArgument,
                "view: expected a port in 0 .. 65535, got " + std::to_string(options.port));
  if (!is_loopback(options.host) && !options.allow_remote)
    throw Error(ErrorCode::InvalidArgument,
                "view: expected --host 127.0.0.1 or another loopback address, got " + options.host +
                    "; --allow-remote serves other machines, without encryption (ssh -L is safer)");
}

void Server::Impl::open() {
  lws_set_log_level(0, nullptr);
  protocols[0].name = "topograd-view";
  protocols[0].callback = on_event;
  protocols[0].per_session_data_size = sizeof(Connection*);
  protocols[0].rx_buffer_size = kReceiveBytes;
  lws_context_creation_info info{};
  info.port = options.port;
  info.iface = options.host.c_str();
  info.protocols = protocols.data();
  info.user = this;
  info.gid = info.uid = -1;
  info.timeout_secs = static_cast<unsigned>(options.idle_seconds);
  info.keepalive_timeout = options.idle_seconds;
  info.max_http_header_data = kHeaderBytes;
  info.retry_and_idle_policy = &kPings;
  info.options = LWS_SERVER_OPTION_DISABLE_IPV6;
  if (options.host.find(':') != options.host.npos) info.options = 0;
  info.vhost_name = "view";
  context = lws_create_context(&info);
  lws_vhost* const host = context == nullptr ? nullptr : lws_get_vhost_by_name(context, "view");
  port = host == nullptr ? 0 : lws_get_vhost_listen_port(host);
  if (port <= 0) {
    if (context != nullptr) lws_context_destroy(context);
    throw Error(ErrorCode::File, "view: cannot listen on " + options.host + ":" +
                                     std::to_string(options.port) +
                                     "; expected an address of this machine and a free port");
  }
}

std::optional<std::string_view> Server::Impl::below_token(std::string_view path) const {
  if (path.size() < token.size() + 2 || path.front() != '/' || path[token.size() + 1] != '/' ||
      !equal_secrets(path.substr(1, token.size()), token))
    return std::nullopt;
  return path.substr(token.size() + 2);
}

int Server::Impl::handle(lws* wsi, lws_callback_reasons reason, Connection** slot, void* in,
                         std::size_t size) {
  const auto connection = [&]() -> Connection& {
    if (*slot == nullptr) *slot = new Connection;  // libwebsockets keeps and zeroes the slot
    return **slot;
  };
  const std::string_view bytes(static_cast<const char*>(in), in == nullptr ? 0 : size);
  switch (static_cast<int>(reason)) {
    case LWS_CALLBACK_FILTER_NETWORK_CONNECTION: {
      bool full = false;
      count([&](ServerFigures& f) {
        full = f.open >= options.max_connections;
        f.refused += full;
      });
      return full ? 1 : 0;
    }
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
      count([](ServerFigures& f) {
        ++f.accepted;
        f.most_open = std::max(f.most_open, ++f.open);
      });
      // libwebsockets waits for the first byte of a connection without a bound.
      lws_set_timer_usecs(wsi, options.idle_seconds * LWS_USEC_PER_SEC);
      return 0;
    case LWS_CALLBACK_TIMER: return slot == nullptr || *slot == nullptr ? -1 : 0;
    case LWS_CALLBACK_WSI_DESTROY: count([](ServerFigures& f) { f.open -= f.open > 0; }); return 0;
    case LWS_CALLBACK_HTTP:
      // From here on, libwebsockets bounds the time between requests.
      lws_set_timer_usecs(wsi, LWS_SET_TIMER_USEC_CANCEL);
      return answer(wsi, connection(), bytes);
    case LWS_CALLBACK_HTTP_BODY: return -1;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
      // libwebsockets would answer "h2c" itself, also without a token.
      return is_websocket(static_cast<const char*>(in)) ? 0 : answer_status(wsi, kNotFound);
    case LWS_CALLBACK_HTTP_WRITEABLE: return write_file(wsi, connection());
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION: return admits(wsi) ? 0 : 1;
    case LWS_CALLBACK_ESTABLISHED: return join(wsi, connection());
    case LWS_CALLBACK_RECEIVE: return receive(wsi, connection(), bytes);
    case LWS_CALLBACK_SERVER_WRITEABLE: return write_message(wsi, connection());
    case LWS_CALLBACK_EVENT_WAIT_CANCELLED:
      lws_callback_on_writable_all_protocol(lws_get_context(wsi), protocols.data());
      return 0;
    case LWS_CALLBACK_CLOSED:
      if (slot != nullptr && *slot != nullptr && (*slot)->client != 0) {
        application.left((*slot)->client);
        --clients;
      }
      [[fallthrough]];
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:  // after each answer of a connection that is kept
    case LWS_CALLBACK_CLOSED_HTTP:
      if (slot != nullptr) delete std::exchange(*slot, nullptr);
      return 0;
    default: return 0;
  }
}

int Server::Impl::answer_status(lws* wsi, unsigned status) {
  count([](ServerFigures& f) { ++f.denied; });
  std::array<unsigned char, LWS_PRE + kHeaderBytes> buffer{};
  unsigned char *at = buffer.data() + LWS_PRE, *const start = at,
                *const end = buffer.data() + buffer.size() - 1;
  if (lws_add_http_common_headers(wsi, status, "text/plain", 0, &at, end) != 0 ||
      lws_finalize_write_http_header(wsi, start, &at, end) != 0)
    return -1;
  return -1;  // ends the connection: nobody who knows the address asks for what is not there
}

int Server::Impl::answer(lws* wsi, Connection& connection, std::string_view path) {
  if (lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) <= 0)
    return answer_status(wsi, kMethodNotAllowed);
  const std::optional<std::string_view> name = below_token(path);
  if (!name || !accepts_host(header(wsi, WSI_TOKEN_HOST), options.host))
    return answer_status(wsi, kNotFound);
  const Resource found = application.file(*name);
  if (found.body == nullptr) return answer_status(wsi, kNotFound);
  std::array<unsigned char, LWS_PRE + kHeaderBytes> buffer{};
  unsigned char *at = buffer.data() + LWS_PRE, *const start = at,
                *const end = buffer.data() + buffer.size() - 1;
  const std::string type(found.type);
  if (lws_add_http_common_headers(wsi, HTTP_STATUS_OK, type.c_str(), found.body->size(), &at,
                                  end) != 0)
    return -1;
  for (const auto& [key, value] : kHeaders) {
    if (lws_add_http_header_by_name(wsi, reinterpret_cast<const unsigned char*>(key),
                                    reinterpret_cast<const unsigned char*>(value),
                                    static_cast<int>(std::strlen(value)), &at, end) != 0)
      return -1;
  }
  if (lws_finalize_write_http_header(wsi, start, &at, end) != 0) return -1;
  connection.sending = {.binary = true, .body = found.body};
  connection.sent = 0;
  lws_callback_on_writable(wsi);
  return 0;
}

int Server::Impl::write_file(lws* wsi, Connection& connection) {
  if (connection.sending.body == nullptr) return 0;
  const std::string& body = *connection.sending.body;
  const std::size_t size = std::min(kPieceBytes, body.size() - connection.sent);
  std::memcpy(piece.data() + LWS_PRE, body.data() + connection.sent, size);
  connection.sent += size;
  const bool last = connection.sent == body.size();
  if (lws_write(wsi, piece.data() + LWS_PRE, size, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) <
      static_cast<int>(size))
    return -1;
  count([&](ServerFigures& f) { f.bytes_sent += size; });
  lws_set_timeout(wsi, PENDING_TIMEOUT_HTTP_CONTENT, options.stall_seconds);
  if (!last) {
    lws_callback_on_writable(wsi);
    return 0;
  }
  connection.sending = {};
  return lws_http_transaction_completed(wsi) != 0 ? -1 : 0;
}

bool Server::Impl::admits(lws* wsi) {
  const std::string path = header(wsi, WSI_TOKEN_GET_URI), host = header(wsi, WSI_TOKEN_HOST);
  const bool good = clients < options.max_clients && below_token(path) == "ws" &&
                    accepts_host(host, options.host) &&
                    accepts_origin(header(wsi, WSI_TOKEN_ORIGIN), host);
  if (!good) count([](ServerFigures& f) { ++f.denied; });
  return good;
}

int Server::Impl::join(lws* wsi, Connection& connection) {
  if (clients >= options.max_clients) return -1;
  ++clients;
  connection.client = ++last_client;
  application.joined(connection.client);
  lws_callback_on_writable(wsi);
  return 0;
}

int Server::Impl::break_off(lws* wsi, lws_close_status status, const char* reason) {
  count([](ServerFigures& f) { ++f.broken; });
  std::array<unsigned char, 64> text{};
  const std::size_t length = std::min(std::strlen(reason), text.size());
  std::memcpy(text.data(), reason, length);
  lws_close_reason(wsi, status, text.data(), length);
  return -1;
}

int Server::Impl::receive(lws* wsi, Connection& connection, std::string_view bytes) {
  if (lws_frame_is_binary(wsi) != 0)
    return break_off(wsi, LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE, "expected text");
  if (connection.received.size() + bytes.size() + lws_remaining_packet_payload(wsi) >
      options.max_message_bytes)
    return break_off(wsi, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, "message too large");
  connection.received.append(bytes);
  if (lws_is_final_fragment(wsi) == 0 || lws_remaining_packet_payload(wsi) != 0) return 0;
  const std::string text = std::exchange(connection.received, {});
  if (!application.received(connection.client, text))
    return break_off(wsi, LWS_CLOSE_STATUS_POLICY_VIOLATION, "not understood");
  lws_callback_on_writable(wsi);
  return 0;
}

int Server::Impl::write_message(lws* wsi, Connection& connection) {
  if (connection.client == 0) return 0;
  if (connection.sending.body == nullptr) {
    connection.sending = application.next(connection.client);
    connection.sent = 0;
    if (connection.sending.body == nullptr) return 0;
  }
  const std::string& body = *connection.sending.body;
  const std::size_t size = std::min(kPieceBytes, body.size() - connection.sent);
  const bool first = connection.sent == 0, last = connection.sent + size == body.size();
  int how = connection.sending.binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT;
  if (!first) how = LWS_WRITE_CONTINUATION;
  if (!last) how |= LWS_WRITE_NO_FIN;
  std::memcpy(piece.data() + LWS_PRE, body.data() + connection.sent, size);
  connection.sent += size;
  if (lws_write(wsi, piece.data() + LWS_PRE, size, static_cast<lws_write_protocol>(how)) <
      static_cast<int>(size))
    return -1;
  count([&](ServerFigures& f) { f.bytes_sent += size; });
  if (last) {
    connection.sending = {};
    lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
  } else {
    lws_set_timeout(wsi, PENDING_TIMEOUT_USER_OK, options.stall_seconds);
  }
  lws_callback_on_writable(wsi);
  return 0;
}

Server::Server(const ServerOptions& options, Application& application)
    : impl_(std::make_unique<Impl>(options, application)) {}
Server::~Server() = default;

int Server::port() const { return impl_->port; }
const std::string& Server::token() const { return impl_->token; }
std::string Server::url() const {
  const std::string& host = impl_->options.host;
  const std::string shown = host.find(':') == host.npos ? host : "[" + host + "]";
  return "http://" + shown + ":" + std::to_string(impl_->port) + "/" + impl_->token + "/";
}
void Server::wake() { lws_cancel_service(impl_->context); }
ServerFigures Server::figures() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->figures;
}
bool server_is_built() { return true; }

namespace {

/// The host without its port.
std::string_view name_of(std::string_view host) {
  const std::size_t bracket = host.rfind(']'), colon = host.rfind(':');
  const bool has_port = colon != host.npos && (bracket == host.npos || colon > bracket);
  return has_port ? host.substr(0, colon) : host;
}

}  // namespace

bool is_loopback(std::string_view address) {
  if (address == "::1") return true;
  if (!address.starts_with("127.")) return false;
  int dots = 0;
  for (const char c : address) {
    if (c != '.' && (c < '0' || c > '9')) return false;
    dots += c == '.';
  }
  return dots == 3;
}

std::string random_token() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr int kWords = 4, kDigitsOfWord = 8;
  std::random_device source;
  std::string token;
  for (int word = 0; word < kWords; ++word) {
    std::uint32_t bits = source();
    for (int digit = 0; digit < kDigitsOfWord; ++digit, bits >>= 4) token += kDigits[bits & 15U];
  }
  return token;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t k = 0; k < a.size(); ++k)
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[k]) ^ static_cast<unsigned char>(b[k]));
  return difference == 0;
}

bool accepts_host(std::string_view host, std::string_view address) {
  if (host.empty()) return false;
  if (!is_loopback(address)) return true;
  const std::string_view name = name_of(host);
  return name == "localhost" || name == "[::1]" || is_loopback(name);
}

bool accepts_origin(std::string_view origin, std::string_view host) {
  constexpr std::array<std::string_view, 2> kSchemes = {"http://", "https://"};
  for (const std::string_view scheme : kSchemes)
    if (origin.starts_with(scheme) && origin.substr(scheme.size()) == host) return true;
  return false;
}

}  // namespace topograd::view
