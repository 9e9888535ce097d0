// Combines several paths through one callable into one expression.
#include "traced_path.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace topograd::detail {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

[[noreturn]] void fail_unequal(const Caller& caller) {
  caller.fail(ErrorCode::InvalidArgument,
              "expected a callable that does the same when it is called again with the same "
              "parameters, got one that branches elsewhere");
}

/// The number of nodes that the callable had made when two paths parted.
std::uint64_t parting(const TracedPath& a, const TracedPath& b, const Caller& caller) {
  const std::span<const PathBranch> p = a.own_branches(), q = b.own_branches();
  for (std::size_t k = 0; k < std::min(p.size(), q.size()); ++k) {
    if (p[k].at != q[k].at) fail_unequal(caller);
    if (p[k].taken != q[k].taken) return p[k].at;
  }
  fail_unequal(caller);
}

class Combination {
 public:
  Combination(std::span<const TracedPath* const> paths, const Caller& caller)
      : paths_(paths), caller_(caller), renamed_(paths.size()) {}

  TracedPath run() {
    for (std::size_t i = 0; i < paths_.size(); ++i) take_nodes(i);
    for (std::size_t i = 0; i < paths_.size(); ++i)
      for (std::size_t k = 0; k < paths_[i]->outer; ++k)
        out_.branches.push_back(
            {renamed_[i][paths_[i]->branches[k].condition], paths_[i]->branches[k].taken});
    out_.outer = out_.branches.size();
    std::vector<std::size_t> all(paths_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    out_.rows = rows_of(all, 0, std::nullopt);
    return std::move(out_);
  }

 private:
  using Key = std::array<std::uint64_t, 4>;

  std::uint32_t intern(const Key& key, const TapeNode& node) {
    const auto next = static_cast<std::uint32_t>(out_.nodes.size());
    const auto [at, is_new] = known_.try_emplace(key, next);
    if (is_new) {
      out_.nodes.push_back(node);
      out_.origins.push_back(next);
    }
    return at->second;
  }

  std::uint32_t op(ir::Op op, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) {
    const int arity = ir::arity(op);
    if (arity < 2) b = 0;
    if (arity < 3) c = 0;
    const auto next = static_cast<std::uint32_t>(out_.nodes.size());
    return intern({head(op), a, b, c},
                  {head(op), next - a, arity > 1 ? next - b : 0, arity > 2 ? next - c : 0});
  }

  /// A number in the code is the same one in two paths only if they had not parted before it.
  std::uint32_t number(std::size_t i, std::uint32_t k) {
    const TracedPath& path = *paths_[i];
    const std::uint64_t origin = path.origins[k];
    std::uint64_t owner = i;
    for (std::size_t j = 0; j < i && owner == i; ++j) {
      const bool common =
          origin >= TracedPath::kCaptured || origin < parting(*paths_[j], path, caller_);
      if (common) owner = j;
    }
    const TapeNode& node = path.nodes[k];
    return intern({node.head, owner, origin, kNever}, node);
  }

  std::uint32_t symbolic(const TracedPath& path, TapeNode node) {
    const AddressForm& form = path.forms[node.a];
    const auto at = std::ranges::find(out_.forms, form);
    node.a = static_cast<std::uint32_t>(at - out_.forms.begin());
    if (at == out_.forms.end()) out_.forms.push_back(form);
    return intern({node.head, node.a, node.b, 0}, node);
  }

  void take_nodes(std::size_t i) {
    const TracedPath& path = *paths_[i];
    std::vector<std::uint32_t>& renamed = renamed_[i];
    for (std::uint32_t k = 0; k < path.nodes.size(); ++k) {
      const TapeNode& n = path.nodes[k];
      const int arity = ir::arity(n.op());
      if (arity > 0) {
        renamed.push_back(op(n.op(), renamed[k - n.a], arity > 1 ? renamed[k - n.b] : 0,
                             arity > 2 ? renamed[k - n.c] : 0));
      } else if ((n.head & kSymbolic) != 0) {
        renamed.push_back(symbolic(path, n));
      } else if (n.head == head(ir::Op::Data)) {
        renamed.push_back(number(i, k));
      } else {
        renamed.push_back(intern({n.head, n.a, n.b, n.c}, n));
      }
    }
  }

  /// Requires that the branch goes this way wherever `reach` is true.
  void add_branch(std::uint32_t condition, bool taken, const std::optional<std::uint32_t>& reach) {
    if (!reach) {
      out_.branches.push_back({condition, taken});
      return;
    }
    const std::uint32_t right = taken ? condition : op(ir::Op::Not, condition);
    out_.branches.push_back({op(ir::Op::Or, op(ir::Op::Not, *reach), right), true});
  }

  std::uint32_t both(const std::optional<std::uint32_t>& reach, std::uint32_t condition) {
    return reach ? op(ir::Op::And, *reach, condition) : condition;
  }

  /// Rows of these paths, which agree in their first `depth` branches.
  std::vector<std::uint32_t> rows_of(const std::vector<std::size_t>& group, std::size_t depth,
                                     std::optional<std::uint32_t> reach) {
    const std::size_t first = group.front();
    const std::span<const PathBranch> branches = paths_[first]->own_branches();
    for (; depth < branches.size(); ++depth) {
      std::vector<std::size_t> sides[2];
      for (const std::size_t i : group) {
        if (depth >= paths_[i]->own_branches().size()) fail_unequal(caller_);
        sides[paths_[i]->own_branches()[depth].taken ? 1 : 0].push_back(i);
      }
      const std::uint32_t condition = renamed_[first][branches[depth].condition];
      if (sides[0].empty() || sides[1].empty()) {
        add_branch(condition, branches[depth].taken, reach);
        continue;
      }
      const auto yes = rows_of(sides[1], depth + 1, both(reach, condition));
      const auto no = rows_of(sides[0], depth + 1, both(reach, op(ir::Op::Not, condition)));
      return choose(condition, yes, no);
    }
    if (group.size() > 1) fail_unequal(caller_);
    std::vector<std::uint32_t> rows;
    for (const std::uint32_t row : paths_[first]->rows) rows.push_back(renamed_[first][row]);
    return rows;
  }

  std::vector<std::uint32_t> choose(std::uint32_t condition, const std::vector<std::uint32_t>& yes,
                                    const std::vector<std::uint32_t>& no) {
    if (yes.size() != no.size())
      caller_.fail(ErrorCode::Shape, "expected as many rows on both sides of a branch, got " +
                                         std::to_string(yes.size()) + " and " +
                                         std::to_string(no.size()));
    std::vector<std::uint32_t> rows;
    for (std::size_t k = 0; k < yes.size(); ++k)
      rows.push_back(yes[k] == no[k] ? yes[k] : op(ir::Op::Select, condition, yes[k], no[k]));
    return rows;
  }

  std::span<const TracedPath* const> paths_;
  const Caller& caller_;
  TracedPath out_;
  std::map<Key, std::uint32_t> known_;
  std::vector<std::vector<std::uint32_t>> renamed_;  // by path and node
};

}  // namespace

TracedPath combine(std::span<const TracedPath* const> paths, const Caller& caller) {
  return Combination(paths, caller).run();
}

}  // namespace topograd::detail
