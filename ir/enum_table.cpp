// The error for an unknown name.
#include "enum_table.hpp"

#include "error.hpp"

namespace topograd::detail {

void refuse_name(std::string_view what, std::string_view text,
                 const std::vector<std::string_view>& names) {
  std::string list;
  for (const std::string_view name : names) list.append(list.empty() ? "" : ", ").append(name);
  throw Error(ErrorCode::InvalidArgument, std::string(what) + ": expected one of " + list +
                                              ", got \"" + std::string(text) + "\"");
}

}  // namespace topograd::detail
