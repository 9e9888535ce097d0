// Who may include whom: the one table of arrows between folders, and the check of a file against
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace topograd::test {

/// What is wrong with the includes of one file, a sentence each, with its line; empty if nothing
/// is.
///
/// Folders of ours may be included along the arrows of the table and along what those allow in
/// turn, spelled <topograd/FOLDER/FILE>; some libraries of others belong to certain folders alone.
///
///   path  relative to the root, e.g. "ir/graph.hpp"
std::vector<std::string> include_violations(std::string_view path, std::string_view text);

}  // namespace topograd::test
