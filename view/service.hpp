// Joins a live solver and the clients of its server: one writer, any number of watchers.
#pragma once

#include "live/live_solver.hpp"
#include "server/server.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::view {

/// The application of a view. The client that comes first writes; the others watch. A watcher may
/// claim to write when the writer has left.
///
/// A client gets the newest frame once it has drawn all but one of those before, so a slow one
/// skips frames, and holds up nothing.
class Service final : public Application {
 public:
  /// Frames that a client may have before it says that it has drawn them.
  static constexpr std::uint64_t kFramesAhead = 2;

  explicit Service(Subject subject, const LiveOptions& options = {});
  ~Service() override;

  LiveSolver& live() { return *live_; }
  /// The server to wake after each frame; null: none.
  void set_server(Server* server) {
    const std::lock_guard lock(server_mutex_);
    server_ = server;
  }

  Resource file(std::string_view path) override;
  void joined(ClientId client) override;
  void left(ClientId client) override;
  bool received(ClientId client, std::string_view text) override;
  Message next(ClientId client) override;

 private:
  struct Client {
    std::shared_ptr<const Quantised> has;  ///< the frame that it got last
    std::uint64_t sent = 0;                ///< number of the frame that was sent last
    std::vector<std::uint64_t> ahead;      ///< frames that were sent and not drawn
    std::uint64_t state = 0, roles = 0;    ///< versions that were sent
  };

  void wake();
  void set_writer(ClientId client);
  const std::shared_ptr<const Quantised>& quantised(const std::shared_ptr<const Frame>& frame);

  std::mutex server_mutex_;
  Server* server_ = nullptr;

  // Used by the server's thread alone.
  std::map<ClientId, Client> clients_;
  ClientId writer_ = 0;
  std::uint64_t roles_ = 1;  ///< changes with the writer
  std::shared_ptr<const Quantised> newest_;
  /// The bytes that were made last: clients that keep up get the same.
  std::shared_ptr<const std::string> bytes_;
  std::uint64_t bytes_frame_ = 0, bytes_base_ = 0;

  std::unique_ptr<LiveSolver> live_;  // last: its thread calls wake()
};

}  // namespace topograd::view
