// Include rules: the tables of arrows between folders, and the check of a tree against them.
#include "include_rules.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace topograd::test {
namespace {

using Names = std::set<std::string, std::less<>>;
using Arrows = std::map<std::string, Names, std::less<>>;

/// Between top folders. An arrow to a folder allows what that folder may include. Samples, tools,
/// benchmarks and the Python package are users.
const Arrows kFolders = {
    {"ir", {}},
    {"autodiff", {"ir"}},
    {"frontend", {"ir", "autodiff"}},
    {"codegen", {"ir", "autodiff"}},
    {"runtime", {"ir", "autodiff", "codegen"}},
    {"solver", {"frontend", "runtime"}},
    {"ops", {"frontend", "runtime", "solver"}},
    {"api", {"ops", "solver"}},
    {"view", {"api"}},
    {"distributed", {"api"}},
    {"python", {"view"}},
    {"tools", {"distributed", "view"}},
    {"samples", {"api", "tools"}},
    {"bench", {"api", "tools"}},
    {"tests", {"api", "tools", "bench"}},
};

/// Between the folders of one top folder; the top folder stands for the files directly in it. An
/// arrow allows what its target may include. Every folder of a top folder with subfolders has a
/// row.
const Arrows kSubfolders = {
    {"api", {"api/ceres/solver", "api/formats", "api/problem_file"}},
    {"api/ceres", {"api/ceres/solver"}},
    {"api/ceres/cost", {"api/ceres/jet", "api/ceres/types"}},
    {"api/ceres/jet", {}},
    {"api/ceres/manifold", {"api/ceres/jet", "api/ceres/types"}},
    {"api/ceres/problem", {"api/ceres/cost", "api/ceres/manifold"}},
    {"api/ceres/solver", {"api/ceres/problem"}},
    {"api/ceres/types", {}},
    {"api/expression", {}},
    {"api/formats", {}},
    {"api/formats/mesh", {"api/formats"}},
    {"api/problem_file", {"api/expression", "api/formats"}},
    {"codegen", {}},
    {"codegen/glsl", {"codegen/math"}},
    {"codegen/kernels", {"codegen/vector"}},
    {"codegen/math", {"codegen"}},
    {"codegen/spirv", {"codegen/math"}},
    {"codegen/vector", {"codegen/glsl"}},
    {"frontend", {"frontend/value"}},
    {"frontend/inspect", {"frontend/problem"}},
    {"frontend/manifold", {"frontend"}},
    {"frontend/map", {"frontend/problem"}},
    {"frontend/problem", {"frontend/state"}},
    {"frontend/state", {"frontend"}},
    {"frontend/value", {}},
    {"ir", {}},
    {"ir/batch", {"ir/machine"}},
    {"ir/checking", {"ir/passes"}},
    {"ir/machine", {"ir"}},
    {"ir/passes", {"ir"}},
    {"ir/topology", {"ir/passes"}},
    {"ops", {"ops/nn", "ops/tensor/search"}},
    {"ops/array", {"ops/run"}},
    {"ops/array/reduce", {"ops/array"}},
    {"ops/array/sort", {"ops/array/reduce"}},
    {"ops/backend", {}},
    {"ops/nn", {"ops/tensor"}},
    {"ops/run", {"ops/backend"}},
    {"ops/tensor", {"ops/array"}},
    {"ops/tensor/conv", {"ops/tensor"}},
    {"ops/tensor/fft", {"ops/tensor"}},
    {"ops/tensor/losses", {"ops/tensor"}},
    {"ops/tensor/matmul", {"ops/tensor"}},
    {"ops/tensor/parts", {"ops/tensor"}},
    {"ops/tensor/search", {"ops/array/sort", "ops/tensor"}},
    {"ops/vulkan", {"ops/run"}},
    {"python/src", {}},
    {"python/tests", {"python/src"}},
    {"runtime", {"runtime/cache"}},
    {"runtime/cache", {}},
    {"runtime/cpu", {"runtime/cpu/linear"}},
    {"runtime/cpu/factor", {"runtime/cpu/tiles", "runtime/factor"}},
    {"runtime/cpu/interpreter", {"runtime/cpu/tiles", "runtime/rows"}},
    {"runtime/cpu/linear", {"runtime/cpu/factor", "runtime/cpu/terms", "runtime/engine"}},
    {"runtime/cpu/terms", {"runtime/cpu/interpreter", "runtime/plan"}},
    {"runtime/cpu/tiles", {}},
    {"runtime/device", {"runtime/device/driver"}},
    {"runtime/device/check",
     {"runtime/cpu/tiles", "runtime/device/kernels", "runtime/device/opened", "runtime/rows"}},
    {"runtime/device/driver", {"runtime"}},
    {"runtime/device/kernels", {"runtime/device", "runtime/rows"}},
    {"runtime/device/opened", {"runtime/device"}},
    {"runtime/engine", {"runtime/cpu/interpreter", "runtime/linear"}},
    {"runtime/factor", {}},
    {"runtime/hybrid", {"runtime/cpu/tiles", "runtime/hybrid/routing"}},
    {"runtime/hybrid/routing", {"runtime"}},
    {"runtime/hybrid/vulkan", {"runtime/device/check", "runtime/hybrid"}},
    {"runtime/linear", {"runtime/order"}},
    {"runtime/model", {"runtime/rows"}},
    {"runtime/order", {"runtime/plan"}},
    {"runtime/plan", {"runtime/model", "runtime/plan/record"}},
    {"runtime/plan/record", {"runtime"}},
    {"runtime/rows", {"runtime"}},
    {"runtime/vulkan", {"runtime/vulkan/damped", "runtime/vulkan/parts"}},
    {"runtime/vulkan/damped", {"runtime/vulkan/evaluations"}},
    {"runtime/vulkan/evaluations", {"runtime/vulkan/linear", "runtime/vulkan/steps"}},
    {"runtime/vulkan/linear", {"runtime/factor", "runtime/vulkan/terms"}},
    {"runtime/vulkan/recording", {"runtime/device/kernels", "runtime/engine"}},
    {"runtime/vulkan/parts", {"runtime/device/check", "runtime/vulkan/terms"}},
    {"runtime/vulkan/steps", {"runtime/vulkan/terms"}},
    {"runtime/vulkan/gather", {"runtime/vulkan/recording"}},
    {"runtime/vulkan/terms", {"runtime/vulkan/gather"}},
    {"solver", {}},
    {"solver/checkpoint", {"solver/model"}},
    {"solver/components", {"solver/linear", "solver/model", "solver/session"}},
    {"solver/constrained", {"solver/host"}},
    {"solver/evaluation", {"solver/sensitivity"}},
    {"solver/first_order", {"solver/checkpoint", "solver/session"}},
    {"solver/host", {"solver/linear", "solver/model"}},
    {"solver/linear", {"solver/linear/factor"}},
    {"solver/linear/factor", {"solver/plan", "solver/step_control"}},
    {"solver/model", {"solver/step_control"}},
    {"solver/plan", {"solver"}},
    {"solver/sensitivity", {"solver/session"}},
    {"solver/session", {"solver/host"}},
    {"solver/solve",
     {"solver/components", "solver/constrained", "solver/first_order", "solver/session"}},
    {"solver/step_control", {"solver"}},
    {"tools/check", {"tools/check/faults"}},
    {"tools/check/faults", {}},
    {"tools/check/programs", {}},
    {"tools/check/routing", {}},
    {"tools/command",
     {"tools/command/bench/ops", "tools/command/solve", "tools/view/film", "tools/view/subjects"}},
    {"tools/command/arguments", {}},
    {"tools/command/bench",
     {"tools/check/programs", "tools/command/bench/ops", "tools/command/peers"}},
    {"tools/command/bench/measure", {"tools/command/input"}},
    {"tools/command/bench/ops", {"tools/command/bench/measure"}},
    {"tools/command/check",
     {"tools/check", "tools/check/programs", "tools/check/routing", "tools/command/input",
      "tools/view/film", "tools/view/subjects"}},
    {"tools/command/input", {"tools/command/arguments", "tools/draw", "tools/problems"}},
    {"tools/command/peers", {"tools/command/input"}},
    {"tools/command/solve", {"tools/command/peers"}},
    {"tools/distributed", {"tools/command", "tools/command/check"}},
    {"tools/draw", {}},
    {"tools/problems", {}},
    {"tools/view/film", {"tools/draw"}},
    {"tools/view/subjects", {"tools/problems"}},
    {"view", {"view/live", "view/page", "view/server"}},
    {"view/live", {}},
    {"view/page", {}},
    {"view/server", {}},
};

struct ForeignRule {
  std::string_view prefix;
  Names folders;
};

/// Libraries that only one folder may use, so that the others build without them. Tests are exempt.
const std::vector<ForeignRule> kForeign = {
    {"OpenMesh/", {"samples"}},
    {"CLI/", {"tools"}},
    {"spdlog/", {"tools", "bench"}},
    {"vulkan/", {"runtime"}},
    {"shaderc/", {"codegen"}},
    {"spirv_cross", {"codegen"}},
    {"ceres/", {"bench", "samples"}},
    {"mpi.h", {"distributed"}},
    {"petsc", {"distributed"}},
    {"scotch.h", {"distributed"}},
    {"hnswlib/", {"ops"}},
    {"libwebsockets.h", {"view"}},
    // Loops that call TBB directly hang in a child of fork(): ir/machine/parallel.hpp.
    {"tbb/parallel_", {"ir"}},
    {"tbb/task_arena", {"ir"}},
};

/// Folders of users' programs, which include the installed headers.
constexpr std::array<std::string_view, 4> kUsers = {
    "samples/", "tests/install/", "tests/compile/programs/", "tests/api/ceres/programs/"};

/// Prefixes that quoted includes of tests may have besides paths: Ceres' headers, and those that
/// programs written for Ceres include the same way.
constexpr std::array<std::string_view, 4> kShims = {"ceres/", "glog/", "gflags/", "Eigen/"};

constexpr std::string_view kOurs = "topograd/";
/// Suffix of files that a test's build makes.
constexpr std::string_view kGenerated = ".inc";
constexpr std::string_view kShader = ".glsl";  ///< that tests compile as C++
/// Samples name files of tools/ by their paths below it.
constexpr std::string_view kToolsOfSamples = "tools/";

bool begins_with_one_of(std::string_view text, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view b) { return text.starts_with(b); });
}

bool is_user(std::string_view path) { return begins_with_one_of(path, kUsers); }

std::string top_of(std::string_view path) { return std::string(path.substr(0, path.find('/'))); }

std::string folder_of(std::string_view path) {
  return std::string(path.substr(0, std::min(path.rfind('/'), path.size())));
}

/// A folder and all folders that its arrows allow.
Names reachable(const Arrows& arrows, const std::string& folder) {
  Names seen = {folder};
  std::vector<std::string> open = {folder};
  while (!open.empty()) {
    const auto row = arrows.find(open.back());
    open.pop_back();
    if (row == arrows.end()) continue;
    for (const std::string& name : row->second)
      if (seen.insert(name).second) open.push_back(name);
  }
  return seen;
}

struct Include {
  bool quoted;
  std::string_view name;
  std::string_view line;
};

std::string_view skip_blanks(std::string_view s) {
  s.remove_prefix(std::min(s.find_first_not_of(" \t"), s.size()));
  return s;
}

std::optional<Include> parse_include(std::string_view whole_line) {
  std::string_view line = skip_blanks(whole_line);
  if (!line.starts_with('#')) return std::nullopt;
  line = skip_blanks(line.substr(1));
  constexpr std::string_view kInclude = "include";
  if (!line.starts_with(kInclude)) return std::nullopt;
  line = skip_blanks(line.substr(kInclude.size()));
  if (line.empty() || (line[0] != '<' && line[0] != '"')) return std::nullopt;
  const std::size_t end = line.find(line[0] == '<' ? '>' : '"', 1);
  return Include{line[0] == '"', line.substr(1, end - 1), whole_line};
}

template <class Visit>
void for_each_include(const SourceFile& file, Visit&& visit) {
  const std::string code = without_raw_strings(file.text);
  for (const std::string_view line : lines_of(code))
    if (const std::optional<Include> include = parse_include(line)) visit(*include);
}

/// The tree's paths, and its folders that have files.
struct Paths {
  Names files, folders;
  Names nested;  ///< top folders that have subfolders

  explicit Paths(const std::vector<SourceFile>& tree) {
    for (const SourceFile& file : tree) {
      files.insert(file.path);
      const std::string folder = folder_of(file.path);
      folders.insert(folder);
      if (folder != top_of(file.path)) nested.insert(top_of(file.path));
    }
  }
};

/// The tree's file for a user's <topograd/...>; it may be missing.
std::string installed_path(std::string_view name) {
  name.remove_prefix(kOurs.size());
  return name.find('/') == name.npos ? "api/" + std::string(name) : std::string(name);
}

/// The file of ours that an include names; empty if it is not ours or missing.
std::string target_of(const std::string& path, const Include& include, const Names& files) {
  std::string target;
  if (include.quoted) {
    const std::filesystem::path folder = folder_of(path);
    target = (folder / include.name).lexically_normal().generic_string();
    if (!files.contains(target) && top_of(path) == "samples")
      target = std::string(kToolsOfSamples) + std::string(include.name);
  } else if (include.name.starts_with(kOurs)) {
    target = installed_path(include.name);
  }
  return files.contains(target) ? target : std::string();
}

std::string check_unknown(const std::string& path, const Include& include) {
  const std::string name(include.name);
  if (!include.quoted && include.name.starts_with(kOurs))
    return "there is no " + installed_path(include.name);
  if (include.quoted) {
    const bool made = include.name.ends_with(kGenerated) || include.name.ends_with(kShader);
    if (top_of(path) == "tests" && (made || begins_with_one_of(include.name, kShims))) return {};
    return "there is no " + name + " beside this file";
  }
  for (const ForeignRule& rule : kForeign) {
    if (include.name.starts_with(rule.prefix) && top_of(path) != "tests" &&
        !rule.folders.contains(top_of(path)))
      return top_of(path) + " may not include " + name;
  }
  return {};
}

std::string check_arrow(const std::string& path, const std::string& target) {
  const std::string from = top_of(path), to = top_of(target);
  if (from != to) {
    const bool allowed = reachable(kFolders, from).contains(to);
    return allowed ? "" : from + " may not include " + to;
  }
  const std::string folder = folder_of(path), other = folder_of(target);
  const bool exempt = from == "tests" || from == "samples" || !kSubfolders.contains(folder);
  if (exempt || reachable(kSubfolders, folder).contains(other)) return {};
  return folder + " may not include " + other;
}

std::string check(const std::string& path, const Include& include, const Names& files) {
  const std::string target = target_of(path, include, files);
  if (!include.quoted && include.name.starts_with(kOurs) && !is_user(path))
    return "inside of the library, includes are quoted paths relative to the file";
  return target.empty() ? check_unknown(path, include) : check_arrow(path, target);
}

/// Arrows from each name to others, with the includes that make them, "a.cpp includes b.hpp".
using Graph = std::map<std::string, std::map<std::string, std::vector<std::string>>>;

/// Removes names that are in no circle: those without arrows from, or to, the remaining ones.
Graph trimmed(Graph graph) {
  for (bool changed = true; changed;) {
    Names targets;
    for (const auto& [from, arrows] : graph)
      for (const auto& [to, includes] : arrows) targets.insert(to);
    for (auto& [from, arrows] : graph)
      std::erase_if(arrows, [&](const auto& arrow) { return !graph.contains(arrow.first); });
    changed = std::erase_if(graph, [&](const auto& row) {
                return row.second.empty() || !targets.contains(row.first);
              }) != 0;
  }
  return graph;
}

/// Strongly connected components of more than one name, each sorted.
std::vector<Names> components(const Graph& graph) {
  Arrows arrows;
  for (const auto& [from, row] : graph)
    for (const auto& [to, includes] : row) arrows[from].insert(to);
  std::map<std::string, Names> reached;
  for (const auto& [name, row] : graph) reached[name] = reachable(arrows, name);
  std::set<Names> found;
  for (const auto& [name, others] : reached) {
    Names component;
    for (const std::string& other : others)
      if (reached.contains(other) && reached.at(other).contains(name)) component.insert(other);
    if (component.size() > 1) found.insert(component);
  }
  return {found.begin(), found.end()};
}

/// "circle of folders a, b: a/x.cpp includes b/y.hpp; ...": a few includes of each arrow.
std::string circle_text(const std::string& what, const Names& circle, const Graph& graph) {
  constexpr std::size_t kMostOfAnArrow = 4;
  std::string names, text;
  for (const std::string& from : circle) {
    names += (names.empty() ? " " : ", ") + from;
    for (const auto& [to, includes] : graph.at(from)) {
      if (!circle.contains(to)) continue;
      const std::size_t shown = std::min(includes.size(), kMostOfAnArrow);
      for (std::size_t k = 0; k < shown; ++k) text += "\n  " + includes[k];
      if (shown < includes.size())
        text +=
            "\n  and " + std::to_string(includes.size() - shown) + " more of " + from + " in " + to;
    }
  }
  return "circle of " + what + names + ":" + text;
}

}  // namespace

std::vector<std::string> include_violations(const std::vector<SourceFile>& tree) {
  const Paths paths(tree);
  std::vector<std::string> found;
  for (const std::string& folder : paths.folders) {
    const std::string top = top_of(folder);
    if (!kFolders.contains(top)) found.push_back(folder + ": not a folder of the table");
    const bool exempt = top == "tests" || top == "samples" || !paths.nested.contains(top);
    if (!exempt && !kSubfolders.contains(folder))
      found.push_back(folder + ": no row in the table of subfolders");
  }
  for (const SourceFile& file : tree) {
    for_each_include(file, [&](const Include& include) {
      const std::string wrong = check(file.path, include, paths.files);
      if (!wrong.empty())
        found.push_back(file.path + ": " + std::string(include.line) + ": " + wrong);
    });
  }
  return found;
}

std::vector<std::string> include_circles(const std::vector<SourceFile>& tree) {
  const Paths paths(tree);
  Graph files, folders;
  for (const SourceFile& file : tree) {
    if (top_of(file.path) == "tests" || top_of(file.path) == "samples") continue;
    for_each_include(file, [&](const Include& include) {
      const std::string target = target_of(file.path, include, paths.files);
      if (target.empty()) return;
      const std::string text = file.path + " includes " + target;
      const std::string from = folder_of(file.path), to = folder_of(target);
      files[file.path][target].push_back(text);
      if (from != to) folders[from][to].push_back(text);
    });
  }
  std::vector<std::string> found;
  const std::pair<const char*, Graph> graphs[] = {{"files", trimmed(std::move(files))},
                                                  {"folders", trimmed(std::move(folders))}};
  for (const auto& [what, graph] : graphs)
    for (const Names& circle : components(graph)) found.push_back(circle_text(what, circle, graph));
  return found;
}

std::vector<std::string> public_violations(const std::vector<SourceFile>& tree,
                                           const std::vector<std::string>& headers) {
  const Paths paths(tree);
  const Names allowed(headers.begin(), headers.end());
  std::vector<std::string> found;
  for (const std::string& header : headers)
    if (!paths.files.contains(header)) found.push_back(header + ": there is no such public header");
  for (const SourceFile& file : tree) {
    if (!allowed.contains(file.path) && !is_user(file.path)) continue;
    for_each_include(file, [&](const Include& include) {
      if (is_user(file.path) && include.quoted) return;
      const std::string target = target_of(file.path, include, paths.files);
      if (target.empty() || allowed.contains(target)) return;
      found.push_back(file.path + " includes " + target + ", which is not a public header");
    });
  }
  return found;
}

std::vector<std::string> missing_folders(const std::vector<SourceFile>& tree) {
  const Names folders = Paths(tree).folders;
  Names missing;
  for (const auto& [folder, targets] : kSubfolders) {
    if (!folders.contains(folder)) missing.insert(folder);
    for (const std::string& target : targets)
      if (!folders.contains(target)) missing.insert(target);
  }
  return {missing.begin(), missing.end()};
}

}  // namespace topograd::test
