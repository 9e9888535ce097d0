// The server of builds without libwebsockets: an error that says what is missing.
#include "server.hpp"

#include "../../ir/error.hpp"

namespace topograd::view {

struct Server::Impl {
  std::string token;
};

Server::Server(const ServerOptions& /*options*/, Application& /*application*/) {
  throw Error(ErrorCode::Unsupported,
              "view: this build has no server (CMake: -DTOPOGRAD_VIEW=ON, Debian: "
              "libwebsockets-dev); --record and --bench need none");
}
Server::~Server() = default;
int Server::port() const { return 0; }
const std::string& Server::token() const { return impl_->token; }
std::string Server::url() const { return {}; }
void Server::wake() {}
ServerFigures Server::figures() const { return {}; }
bool server_is_built() { return false; }

}  // namespace topograd::view
