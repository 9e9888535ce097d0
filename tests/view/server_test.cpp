// The server against well-behaved and hostile clients.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "../../ir/machine/platform.hpp"
#include "../../view/server/server.hpp"
#include "raw_client.hpp"

namespace topograd::test {
namespace {

using view::ClientId;

/// Serves a small and a large file, and a counter as messages.
class Small final : public view::Application {
 public:
  static constexpr std::size_t kBytes = 300'000;

  view::Resource file(std::string_view path) override {
    ++files;
    if (path == "large") return {"text/plain", large_};
    if (path == "small") return {"text/plain", small_};
    return {};
  }
  void joined(ClientId client) override { to_send_[client] = 3; }
  void left(ClientId client) override { to_send_.erase(client); }
  bool received(ClientId client, std::string_view text) override {
    ++messages;
    if (text == "again") to_send_[client] += 1;
    return text != "bad";
  }
  view::Message next(ClientId client) override {
    if (endless) return {true, large_};
    int& left = to_send_[client];
    if (left == 0) return {};
    return {--left == 0, left == 0 ? large_ : std::make_shared<const std::string>("text")};
  }

  std::atomic<int> files = 0, messages = 0;
  std::atomic<bool> endless = false;

 private:
  std::shared_ptr<const std::string> small_ = std::make_shared<const std::string>("body of it");
  std::shared_ptr<const std::string> large_ = std::make_shared<const std::string>(kBytes, 'x');
  std::map<ClientId, int> to_send_;
};

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!view::server_is_built()) GTEST_SKIP() << "built without libwebsockets";
    server = std::make_unique<view::Server>(options, application);
    host = "127.0.0.1:" + std::to_string(server->port());
    origin = "http://" + host;
    path = "/" + server->token() + "/";
  }
  RawClient client(double seconds = 5) const { return RawClient(server->port(), seconds); }
  /// True if the server serves, at the latest when connections that say nothing have timed out:
  /// what a hostile client did was without effect on others.
  bool serves() const {
    constexpr int kTries = 100;
    for (int k = 0; k < kTries; ++k) {
      if (client().get(path + "large", host).size() > Small::kBytes) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  Small application;
  view::ServerOptions options{.max_connections = 24,
                              .max_clients = 4,
                              .max_message_bytes = 1000,
                              .idle_seconds = 2,
                              .stall_seconds = 2};
  std::unique_ptr<view::Server> server;
  std::string host, origin, path;
};

TEST(ServerChecks, HostsAndOrigins) {
  const struct {
    std::string host, address;
    bool good;
  } rows[] = {{"127.0.0.1:80", "127.0.0.1", true},
              {"localhost:9000", "127.0.0.1", true},
              {"localhost", "127.0.0.1", true},
              {"[::1]:80", "::1", true},
              {"127.0.0.1", "::1", true},
              {"example.org", "127.0.0.1", false},
              {"127.0.0.1.example.org:80", "127.0.0.1", false},
              {"", "127.0.0.1", false},
              {"localhost.example.org", "127.0.0.1", false},
              {"gpu.example.org:80", "10.0.0.1", true},
              {"", "10.0.0.1", false}};
  for (const auto& row : rows)
    EXPECT_EQ(view::accepts_host(row.host, row.address), row.good)
        << row.host << ' ' << row.address;
  EXPECT_TRUE(view::accepts_origin("http://localhost:1", "localhost:1"));
  EXPECT_TRUE(view::accepts_origin("https://gpu:1", "gpu:1"));
  for (const char* origin :
       {"", "null", "http://localhost:2", "localhost:1", "http://evil/localhost:1",
        "ftp://localhost:1", "http://localhost:1.evil.org"})
    EXPECT_FALSE(view::accepts_origin(origin, "localhost:1")) << origin;
}

TEST(ServerChecks, TokensAreLongAndDiffer) {
  std::set<std::string> tokens;
  for (int k = 0; k < 100; ++k) tokens.insert(view::random_token());
  EXPECT_EQ(tokens.size(), 100u);
  for (const std::string& token : tokens) {
    EXPECT_EQ(token.size(), 32u);
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), token.npos) << token;
  }
  EXPECT_TRUE(view::equal_secrets("abc", "abc"));
  EXPECT_FALSE(view::equal_secrets("abc", "abd"));
  EXPECT_FALSE(view::equal_secrets("abc", "ab"));
}

TEST(ServerChecks, OnlyLoopbackWithoutPermission) {
  Small application;
  if (!view::server_is_built()) GTEST_SKIP() << "built without libwebsockets";
  for (const char* address :
       {"0.0.0.0", "192.168.1.2", "::", "localhost", "127.1", "127.0.0.1.5"}) {
    try {
      const view::Server server({.host = address}, application);
      FAIL() << address;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << address;
      EXPECT_NE(std::string(error.what()).find("--allow-remote"), std::string::npos);
    }
  }
  EXPECT_THROW(view::Server({.port = 70000}, application), Error);
  EXPECT_THROW(view::Server({.host = "203.0.113.1", .allow_remote = true}, application), Error);
}

TEST_F(ServerTest, ServesFilesBelowTheToken) {
  const std::string answer = client().get(path + "large", host);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer.substr(0, 200);
  EXPECT_NE(answer.find("content-security-policy: default-src 'none'"), answer.npos)
      << answer.substr(0, 600);
  EXPECT_TRUE(answer.ends_with(std::string(Small::kBytes, 'x')));
  const view::ServerFigures figures = server->figures();
  EXPECT_EQ(figures.denied, 0u);
}

TEST_F(ServerTest, ServesNothingElse) {
  const std::string wrong(32, '0'), upper = "/" + server->token() + "x/large";
  const int before = application.files;
  for (const std::string& request :
       {std::string("/"), std::string("/large"), "/" + wrong + "/large", upper,
        "/" + server->token(), "/" + server->token().substr(1) + "/large", std::string("/../large"),
        "/" + wrong + "/../" + server->token() + "x/large"}) {
    const std::string answer = client().get(request, host);
    EXPECT_FALSE(answer.starts_with("HTTP/1.1 200")) << request;
    EXPECT_EQ(answer.find("xxxx"), answer.npos) << request;
  }
  EXPECT_EQ(application.files, before) << "the application was asked without the token";
  // The token is right, the rest is not.
  EXPECT_TRUE(client().get(path + "nothing", host).starts_with("HTTP/1.1 404"));
  EXPECT_EQ(client().get(path + "large", "evil.example.org").find("xxxx"), std::string::npos);
  RawClient posts = client();
  posts.send("POST " + path + "large HTTP/1.1\r\nHost: " + host +
             "\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(posts.receive_all().find("xxxx"), std::string::npos);
  EXPECT_GE(server->figures().denied, 8u);
  EXPECT_TRUE(serves());
}

/// A status of 400 to 499, of either version of HTTP.
bool is_refusal(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4");
}

TEST_F(ServerTest, OtherProtocolsAndMethodsAreNotFound) {
  for (const std::string& address : {std::string("/"), path + "large"}) {
    for (const char* protocol : {"h2c", "H2C", "tls/1.0", "websocket2"}) {
      RawClient one = client();
      one.send("GET " + address + " HTTP/1.1\r\nHost: " + host +
               "\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + protocol +
               "\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n");
      const std::string answer = one.receive_all();
      EXPECT_TRUE(is_refusal(answer)) << protocol << ": " << answer.substr(0, 200);
      EXPECT_EQ(answer.find("xxxx"), answer.npos) << protocol;
    }
    for (const char* method : {"FOO", "PRI", "CONNECT", "TRACE", "PUT", "DELETE", "OPTIONS"}) {
      RawClient one = client();
      one.send(std::string(method) + " " + address + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
      const std::string answer = one.receive_all();
      EXPECT_TRUE(answer.empty() || is_refusal(answer)) << method << ": " << answer.substr(0, 200);
      EXPECT_EQ(answer.find("xxxx"), answer.npos) << method;
    }
  }
  RawClient knows = client();
  knows.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9));
  const std::string answer = knows.receive_all();
  EXPECT_TRUE(answer.empty() || is_refusal(answer)) << answer.size();
  EXPECT_TRUE(serves());
}

TEST_F(ServerTest, WebSocketsNeedTokenHostAndOrigin) {
  EXPECT_FALSE(client().upgrade("/ws", host, origin));
  EXPECT_FALSE(client().upgrade("/" + std::string(32, '0') + "/ws", host, origin));
  EXPECT_FALSE(client().upgrade(path + "ws", host, ""));
  EXPECT_FALSE(client().upgrade(path + "ws", host, "http://evil.example.org"));
  EXPECT_FALSE(client().upgrade(path + "ws", "evil.example.org", "http://evil.example.org"));
  EXPECT_FALSE(client().upgrade(path + "other", host, origin));
  EXPECT_EQ(server->figures().denied, 6u);
  EXPECT_TRUE(client().upgrade(path + "ws", host, origin));
}

TEST_F(ServerTest, MessagesComeInPiecesAndInOrder) {
  RawClient one = client();
  ASSERT_TRUE(one.upgrade(path + "ws", host, origin));
  EXPECT_EQ(one.next_message().payload, "text");
  EXPECT_EQ(one.next_message().payload, "text");
  const RawClient::Received large = one.next_message();
  EXPECT_EQ(large.opcode, 2);
  EXPECT_EQ(large.payload, std::string(Small::kBytes, 'x'));
  ASSERT_TRUE(one.send_text("again"));
  EXPECT_EQ(one.next_message().payload.size(), Small::kBytes);
  // One message in three frames.
  ASSERT_TRUE(one.send_frame(1, "ag", false) && one.send_frame(0, "ai", false) &&
              one.send_frame(0, "n"));
  EXPECT_EQ(one.next_message().payload.size(), Small::kBytes);
}

TEST_F(ServerTest, ClosesThoseWhoDoNotKeepToTheProtocol) {
  const struct {
    const char* what;
    int opcode;
    std::string payload;
    bool final;
    std::uint64_t announced;
  } rows[] = {{"binary", 2, "abc", true, 3},
              {"bad text", 1, "bad", true, 3},
              {"too large", 1, std::string(2000, 'a'), true, 2000},
              {"announces a terabyte", 1, std::string(20000, 'a'), true, std::uint64_t{1} << 40U},
              {"continues nothing", 0, "abc", true, 3},
              {"unknown opcode", 11, "abc", true, 3}};
  for (const auto& row : rows) {
    RawClient one = client();
    ASSERT_TRUE(one.upgrade(path + "ws", host, origin)) << row.what;
    one.send_frame(row.opcode, row.payload, row.final, row.announced);
    EXPECT_TRUE(one.is_dismissed()) << row.what;
  }
  // Fragments that are small one by one.
  RawClient drips = client();
  ASSERT_TRUE(drips.upgrade(path + "ws", host, origin));
  for (int k = 0; k < 40 && drips.send_frame(k == 0 ? 1 : 0, std::string(100, 'a'), false); ++k) {
  }
  EXPECT_TRUE(drips.is_dismissed());
  EXPECT_TRUE(serves());
}

TEST_F(ServerTest, SurvivesRandomBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    RawClient one = client(0.05);
    const bool upgraded = round % 2 == 0 && one.upgrade(path + "ws", host, origin);
    std::string bytes(1 + random() % 3000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (round % 3 == 0 && !upgraded) bytes = "GET " + path + "large HTTP/1.1\r\n" + bytes;
    one.send(bytes);
  }
  EXPECT_TRUE(serves());
}

TEST_F(ServerTest, BoundsConnections) {
  constexpr int kAtATime = 200, kRounds = 10;
  const std::uint64_t before = platform::resident_bytes();
  for (int round = 0; round < kRounds; ++round) {
    std::vector<RawClient> many;
    for (int k = 0; k < kAtATime; ++k) {
      many.push_back(client(0.2));
      many.back().send("GET " + path);
    }
  }
  EXPECT_LE(server->figures().most_open, options.max_connections);
  EXPECT_GT(server->figures().refused, 0u);
  const std::uint64_t after = platform::resident_bytes();
  EXPECT_LT(after, before + (std::uint64_t{16} << 20U));
  EXPECT_TRUE(serves());
}

TEST_F(ServerTest, BoundsClients) {
  std::vector<RawClient> many;
  for (std::size_t k = 0; k < options.max_clients; ++k) {
    many.push_back(client());
    ASSERT_TRUE(many.back().upgrade(path + "ws", host, origin));
  }
  EXPECT_FALSE(client().upgrade(path + "ws", host, origin));
  many.pop_back();
  for (int k = 0; k < 50; ++k) {
    if (client().upgrade(path + "ws", host, origin)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  FAIL() << "the place of a client that left is not free";
}

TEST_F(ServerTest, ClosesConnectionsThatSayNothing) {
  RawClient silent = client(6), slow = client(6);
  slow.send("GET " + path);
  EXPECT_TRUE(silent.is_closed_by_server());
  EXPECT_TRUE(slow.is_closed_by_server());
  EXPECT_TRUE(serves());
}

TEST_F(ServerTest, SlowReadersCostNoMemoryAndAreClosed) {
  application.endless = true;
  RawClient slow = client(8);
  ASSERT_TRUE(slow.upgrade(path + "ws", host, origin));
  std::uint64_t sent = 0;
  for (int k = 0; k < 50; ++k) {  // until the socket's buffers are full
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const std::uint64_t earlier = std::exchange(sent, server->figures().bytes_sent);
    if (sent == earlier) break;
  }
  const std::uint64_t before = platform::resident_bytes();
  for (int k = 0; k < 100; ++k) {
    server->wake();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_LE(server->figures().bytes_sent, sent + 65536);
  EXPECT_LT(platform::resident_bytes(), before + (std::uint64_t{4} << 20U));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  application.endless = false;
  EXPECT_TRUE(slow.is_closed_by_server());
  EXPECT_TRUE(serves());
}

/// Growth of the heap by what is done after it was done a few times.
template <class F>
std::int64_t heap_growth(int times, F&& once) {
  constexpr int kFirst = 50;
  for (int k = 0; k < kFirst; ++k) once();
  const auto before = static_cast<std::int64_t>(platform::heap_bytes());
  for (int k = 0; k < times; ++k) once();
  return static_cast<std::int64_t>(platform::heap_bytes()) - before;
}

// Each answer has a record of some 80 bytes.
TEST_F(ServerTest, RequestsOfOneConnectionCostNoMemory) {
  RawClient kept = client();
  const std::string request = "GET " + path + "small HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  int answers = 0;
  constexpr int kTimes = 4000;
  const auto ask = [&] {
    kept.send(request);
    std::string answer;
    while (!answer.ends_with("body of it")) {
      const std::string more = kept.receive(1);
      if (more.empty()) return;
      answer += more;
    }
    ++answers;
  };
  const std::int64_t growth = heap_growth(kTimes, ask);
  EXPECT_EQ(answers, kTimes + 50);
  // The bound of idle connections, two seconds, holds between requests.
  for (int k = 0; k < 5; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ask();
  }
  EXPECT_EQ(answers, kTimes + 55);
  EXPECT_EQ(server->figures().accepted, 1u);
  EXPECT_LT(growth, 20 * kTimes);
}

TEST_F(ServerTest, AnswersThatNobodyReadsCostNoMemory) {
  constexpr int kTimes = 1000;
  // An open connection has its answer in memory; the server may close it later than its client.
  const std::int64_t growth = heap_growth(kTimes, [&] {
    {
      RawClient leaves = client();
      leaves.send("GET " + path + "large HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
      leaves.receive(100);
    }
    for (int k = 0; k < 5000 && server->figures().open > 0; ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_EQ(server->figures().open, 0u);
  EXPECT_LT(growth, 20 * kTimes);
  EXPECT_TRUE(serves());
}

TEST_F(ServerTest, TwoServersHaveTwoAddresses) {
  Small other;
  const view::Server second({}, other);
  EXPECT_NE(second.port(), server->port());
  EXPECT_NE(second.token(), server->token());
  EXPECT_EQ(second.url(),
            "http://127.0.0.1:" + std::to_string(second.port()) + "/" + second.token() + "/");
}

}  // namespace
}  // namespace topograd::test
