// Who may include whom: the one table of arrows between folders, and the check of a file against
// it.
#include "include_rules.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "sources.hpp"

namespace topograd::test {
namespace {

using Folders = std::set<std::string, std::less<>>;

/// An arrow to a folder allows what that folder may include. Samples, tools and benchmarks are
/// users.
const std::map<std::string, Folders, std::less<>> kArrows = {
    {"ir", {}},
    {"autodiff", {"ir"}},
    {"frontend", {"ir", "autodiff"}},
    {"codegen", {"ir", "autodiff"}},
    {"runtime", {"ir", "autodiff", "codegen"}},
    {"solver", {"frontend", "runtime"}},
    {"ops", {"frontend", "runtime", "solver"}},
    {"api", {"ops", "solver"}},
    {"tools", {"api"}},
    {"samples", {"api", "tools"}},
    {"bench", {"api", "tools"}},
    {"tests", {"api", "tools", "bench"}},
};

struct ForeignRule {
  std::string_view prefix;
  Folders folders;
};

/// Libraries that stay behind one folder, so that the others build without them. Tests are exempt.
const std::vector<ForeignRule> kForeign = {
    {"OpenMesh/", {"tools", "samples", "bench"}},
    {"CLI/", {"tools"}},
    {"spdlog/", {"tools", "bench"}},
    {"vulkan/", {"runtime"}},
    {"shaderc/", {"codegen"}},
    {"spirv_cross", {"codegen"}},
    {"ceres/", {"bench", "samples"}},
    {"hnswlib/", {"ops"}},
    // Loops that call TBB themselves hang in a child of fork(): ir/parallel.hpp.
    {"tbb/parallel_", {"ir"}},
    {"tbb/task_arena", {"ir"}},
};

Folders reachable(const std::string& folder) {
  Folders seen = {folder};
  std::vector<std::string> open = {folder};
  while (!open.empty()) {
    const Folders& next = kArrows.at(open.back());
    open.pop_back();
    for (const std::string& name : next) {
      if (seen.insert(name).second) open.push_back(name);
    }
  }
  return seen;
}

struct Include {
  bool quoted;
  std::string_view name;
};

std::string_view skip_blanks(std::string_view s) {
  s.remove_prefix(std::min(s.find_first_not_of(" \t"), s.size()));
  return s;
}

std::optional<Include> parse_include(std::string_view line) {
  line = skip_blanks(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = skip_blanks(line.substr(1));
  constexpr std::string_view kInclude = "include";
  if (!line.starts_with(kInclude)) return std::nullopt;
  line = skip_blanks(line.substr(kInclude.size()));
  if (line.empty() || (line[0] != '<' && line[0] != '"')) return std::nullopt;
  const std::size_t end = line.find(line[0] == '<' ? '>' : '"', 1);
  return Include{line[0] == '"', line.substr(1, end - 1)};
}

/// The folder of ours behind <topograd/...>: <topograd/topograd.hpp> stands for api.
std::string folder_of(std::string_view name) {
  name.remove_prefix(std::string_view("topograd/").size());
  const std::size_t slash = name.find('/');
  return slash == name.npos ? "api" : std::string(name.substr(0, slash));
}

std::string check_ours(const std::string& folder, const Include& include) {
  const std::string target = folder_of(include.name);
  if (include.quoted) return "spell it <" + std::string(include.name) + ">";
  if (!kArrows.contains(target)) return "there is no folder " + target;
  if (!reachable(folder).contains(target)) return folder + " may not include " + target;
  return {};
}

std::string check_foreign(const std::string& folder, const Include& include) {
  for (const ForeignRule& rule : kForeign) {
    if (include.name.starts_with(rule.prefix) && folder != "tests" &&
        !rule.folders.contains(folder)) {
      return folder + " may not include " + std::string(include.name);
    }
  }
  const bool library = reachable("api").contains(folder);
  if (include.quoted && library) return "headers of the library are spelled <topograd/...>";
  return {};
}

}  // namespace

std::vector<std::string> include_violations(std::string_view path, std::string_view text) {
  const std::string folder(path.substr(0, path.find('/')));
  if (!kArrows.contains(folder)) return {std::string(path) + ": not a folder of the table"};
  std::vector<std::string> found;
  const std::string code = without_raw_strings(text);
  for (const std::string_view line : lines_of(code)) {
    const std::optional<Include> include = parse_include(line);
    if (!include) continue;
    const bool ours = include->name.starts_with("topograd/");
    const std::string wrong = ours ? check_ours(folder, *include) : check_foreign(folder, *include);
    if (!wrong.empty())
      found.push_back(std::string(path) + ": " + std::string(line) + ": " + wrong);
  }
  return found;
}

}  // namespace topograd::test
