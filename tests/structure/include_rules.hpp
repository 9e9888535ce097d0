// Include rules: the tables of arrows between folders, and the check of a tree against them.
#pragma once

#include <string>
#include <vector>

#include "sources.hpp"

namespace topograd::test {

/// Violations in the includes of each file of the tree, a sentence each, with file and line.
///
/// Inside the library, tools, benchmarks and tests an include of ours is quoted and names a file of
/// the tree, relative to the including file. Samples and the programs of some tests are users: they
/// write <topograd/FOLDER/FILE>, which also names a file of the tree. Two tables list the arrows
/// between top folders and between the subfolders of one; arrows are transitive. Some external
/// libraries belong to certain folders alone.
std::vector<std::string> include_violations(const std::vector<SourceFile>& tree);

/// Circles of includes between files and between folders of the product (all but tests and
/// samples), a sentence each, with the includes that make it. A folder and its subfolders are
/// different folders.
std::vector<std::string> include_circles(const std::vector<SourceFile>& tree);

/// Public headers that the tree does not have or that include others, and users that include
/// others, a sentence each.
///
///   headers  paths of the public headers
std::vector<std::string> public_violations(const std::vector<SourceFile>& tree,
                                           const std::vector<std::string>& headers);

/// Folders that the table of subfolders names and the tree does not have.
std::vector<std::string> missing_folders(const std::vector<SourceFile>& tree);

}  // namespace topograd::test
