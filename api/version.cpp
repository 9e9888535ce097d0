// The version of the library.
#include "version.hpp"

namespace topograd {

std::string_view version() { return TOPOGRAD_VERSION; }

}  // namespace topograd
