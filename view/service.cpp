// Files, messages and frames of a view.
#include "service.hpp"

#include "page/page.hpp"
#include "protocol.hpp"

#include "../ir/error.hpp"

#include <algorithm>
#include <utility>

namespace topograd::view {
namespace {

std::shared_ptr<const std::string> body(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace

Service::Service(Subject subject, const LiveOptions& options)
    : live_(std::make_unique<LiveSolver>(std::move(subject), options, [this] { wake(); })) {}
Service::~Service() { live_.reset(); }

void Service::wake() {
  const std::lock_guard lock(server_mutex_);
  if (server_ != nullptr) server_->wake();
}

Resource Service::file(std::string_view path) {
  constexpr std::string_view kText = "text/plain; charset=utf-8";
  if (const PageFile* page = find_page_file(path))
    return {page->type, body(std::string(page->text))};
  if (path == "scene.json") return {"application/json", body(scene_text(*live_))};
  if (path == "geometry.bin") return {"application/octet-stream", body(geometry_bytes(*live_))};
  if (path == "topologies.txt") return {kText, body(live_->topologies())};
  if (path == "kernels.txt") return {kText, body(live_->kernels())};
  if (path == "report.txt") return {kText, body(live_->report())};
  if (path == "mesh.obj" || path == "mesh.ply") {
    if (const std::shared_ptr<const Frame> frame = live_->frame())
      return {kText, body(mesh_text(*live_, *frame, mesh_format(path)))};
  }
  return {};
}

void Service::set_writer(ClientId client) {
  writer_ = client;
  ++roles_;
  wake();
}

void Service::joined(ClientId client) {
  clients_[client] = {};
  if (writer_ == 0) set_writer(client);
}

void Service::left(ClientId client) {
  clients_.erase(client);
  if (writer_ == client) set_writer(0);
}

bool Service::received(ClientId id, std::string_view text) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return false;
  Client& client = found->second;
  Received message;
  try {
    message = parse_message(text);
  } catch (const Error&) {
    return false;
  }
  switch (message.kind) {
    case Received::Kind::acknowledgement:
      std::erase_if(client.ahead, [&](std::uint64_t frame) { return frame <= message.frame; });
      return true;
    case Received::Kind::claim:
      if (writer_ == 0) set_writer(id);
      return true;
    case Received::Kind::command: break;
  }
  // A watcher's page sends no commands; the one of a writer that has just lost its place may.
  if (writer_ == id) live_->post(std::move(*message.command));
  return true;
}

const std::shared_ptr<const Quantised>& Service::quantised(
    const std::shared_ptr<const Frame>& frame) {
  if (newest_ == nullptr || newest_->number != frame->number) {
    newest_ = std::make_shared<const Quantised>(
        quantise(*frame, newest_ == nullptr ? grid_for(live_->start()) : newest_->grid));
  }
  return newest_;
}

Message Service::next(ClientId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return {};
  Client& client = found->second;
  const std::shared_ptr<const State> state = live_->state();
  if (state != nullptr && (state->version != client.state || roles_ != client.roles)) {
    client.state = state->version;
    client.roles = roles_;
    return {.binary = false, .body = body(state_text(*state, writer_ == id, writer_ != 0))};
  }
  const std::shared_ptr<const Frame> frame = live_->frame();
  if (frame == nullptr || frame->number <= client.sent || client.ahead.size() >= kFramesAhead)
    return {};
  const std::shared_ptr<const Quantised> now = quantised(frame);
  const std::uint64_t base = client.has == nullptr ? 0 : client.has->number;
  if (bytes_ == nullptr || bytes_frame_ != frame->number || bytes_base_ != base) {
    bytes_ = body(frame_bytes(*frame, *now, client.has.get()));
    bytes_frame_ = frame->number;
    bytes_base_ = base;
  }
  client.has = now;
  client.sent = frame->number;
  client.ahead.push_back(frame->number);
  return {.binary = true, .body = bytes_};
}

}  // namespace topograd::view
