// Options of the hybrid executor as JSON.
#include "target.hpp"

#include "../../runtime/hybrid/routing/options.hpp"

namespace topograd::fuzz {

using namespace runtime::hybrid;

void hybrid_options(std::string_view text) {
  HybridOptions options;
  const auto read = [&] { options = parse_hybrid_options(text); };
  if (!reads(read, {ErrorCode::Parse, ErrorCode::InvalidArgument})) return;
  const std::string written = to_json(options);
  require(to_json(parse_hybrid_options(written)) == written, "options that do not read back");
}

}  // namespace topograd::fuzz
