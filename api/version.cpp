// The version of the library.
#include <topograd/api/version.hpp>

namespace topograd {

std::string_view version() { return TOPOGRAD_VERSION; }

}  // namespace topograd
