// Decides which values that residual blocks share are stored, and which are inlined.
#include "shared_rows.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../traced_function.hpp"
#include "../vec.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <memory>
#include <queue>
#include <utility>

namespace topograd::detail {
namespace {

/// A block before it is decided how it is evaluated. Nobody evaluates it: Problem::host_blocks()
/// decides.
class WaitingRows final : public HostResidual {
 public:
  explicit WaitingRows(std::size_t rows) : rows_(static_cast<int>(rows)) {}
  int rows() const override { return rows_; }
  bool evaluate(const double* const*, double*, double**) const override { return false; }

 private:
  int rows_;
};

/// Operations of all residuals that have topologies.
std::uint64_t operations_of_kernels(const ProblemState& state) {
  std::uint64_t out = 0;
  for (const Group& group : state.blocks.groups)
    out += group.batch.size() * ir::operation_count(group.topology.program);
  return out;
}

/// True for a leaf that add_residual() would accept from this problem.
bool is_own(const ProblemState& state, const TapeNode& node) {
  if ((node.head & (kSymbolic | kEager | kGone)) != 0) return false;
  const bool owned =
      node.op() == ir::Op::Parameter || node.op() == ir::Op::Uniform || (node.head & kBound) != 0;
  return !owned || node.b == state.serial;
}

}  // namespace

std::uint32_t SharedRows::set_of(std::uint32_t set) {
  if (set == kNone) return kNone;
  while (sets_[set] != set) set = sets_[set] = sets_[sets_[set]];
  return set;
}

/// A set with one marked value.
std::uint32_t SharedRows::new_set() {
  sets_.push_back(static_cast<std::uint32_t>(sets_.size()));
  marked_.push_back(1);
  unknowns_.emplace_back();
  return sets_.back();
}

std::uint32_t SharedRows::joined(std::uint32_t a, std::uint32_t b) {
  a = set_of(a), b = set_of(b);
  if (a == kNone || b == kNone || a == b) return std::min(a, b);
  if (b < a) std::swap(a, b);
  sets_[b] = a;
  marked_[a] += marked_[b];
  if (unknowns_[a].size() < unknowns_[b].size()) std::swap(unknowns_[a], unknowns_[b]);
  unknowns_[a].merge(unknowns_[b]);
  return a;
}

/// Lists the nodes that rows need and that are not on the tape, ascending. False if they are not
/// for this class: they read no marked value or no unknown, or a leaf is not this problem's.
bool SharedRows::collect(const ProblemState& state, std::span<const std::uint64_t> rows) {
  const std::span<const std::uint64_t> marks = shared_nodes();
  fresh_.clear();
  read_.clear();
  std::priority_queue<std::uint64_t> open(rows.begin(), rows.end());
  bool reads_marked = false, reads_unknown = false;
  std::uint64_t last = ~std::uint64_t{0};
  while (!open.empty()) {
    const std::uint64_t id = open.top();
    open.pop();
    if (std::exchange(last, id) == id) continue;
    const auto known = tape_index_.find(id);
    const bool is_marked = std::ranges::binary_search(marks, id);
    if (known != tape_index_.end()) {
      std::uint32_t& set = set_[known->second];
      reads_marked |= set != kNone;
      reads_unknown |= set != kNone;
      if (set != kNone) continue;
      if (is_marked) set = new_set();  // since its users were added
    } else {
      fresh_.push_back(id);
    }
    const TapeNode& node = tape.nodes[id];
    if (!is_own(state, node) || is_made_constant(id)) return false;
    if (node.op() == ir::Op::Parameter) read_.insert(node.a);
    reads_marked |= is_marked;
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int k = 0; k < ir::arity(node.op()); ++k) open.push(id - back[k]);
  }
  std::ranges::reverse(fresh_);
  return reads_marked && (reads_unknown || !read_.empty()) && nodes_.size() + fresh_.size() < kNone;
}

void SharedRows::append_nodes() {
  const std::span<const std::uint64_t> marks = shared_nodes();
  for (const std::uint64_t id : fresh_) {
    TapeNode node = tape.nodes[id];
    const auto at = static_cast<std::uint32_t>(nodes_.size());
    std::uint32_t set = kNone;
    std::uint32_t* const back[3] = {&node.a, &node.b, &node.c};
    for (int k = 0; k < ir::arity(node.op()); ++k) {
      const std::uint32_t from = tape_index_.at(id - *back[k]);
      *back[k] = at - from;
      set = joined(set, set_[from]);
    }
    if (std::ranges::binary_search(marks, id)) {
      if (set == kNone)
        set = new_set();
      else
        ++marked_[set];
    }
    tape_index_.emplace(id, at);
    nodes_.push_back(node);
    set_.push_back(set);
  }
}

std::optional<std::uint64_t> SharedRows::add(ProblemState& state, std::span<const Value> rows,
                                             const ResidualOptions& options, const Caller& caller) {
  if (tape.branches != 0 || KernelsOnly::in_force() || state.unknowns.removed_any())
    return std::nullopt;
  if (!blocks_.empty() && thread_ != &tape) return std::nullopt;
  const std::vector<std::uint64_t> ids = row_nodes(rows, caller);
  if (!collect(state, ids)) return std::nullopt;
  thread_ = &tape;
  append_nodes();
  Block block;
  for (const std::uint64_t id : ids) {
    block.rows.push_back(tape_index_.at(id));
    block.set = joined(block.set, set_[block.rows.back()]);
  }
  // It may be a value that was marked after its users were added.
  if (block.set == kNone) return std::nullopt;
  unknowns_[block.set].insert(read_.begin(), read_.end());
  LongBlock::Arguments arguments = arguments_of(state, block.set);
  block.label = state.labels.number(options.label);
  HostBlock host{.function = std::make_shared<WaitingRows>(rows.size()),
                 .offsets = std::move(arguments.offsets),
                 .widths = std::move(arguments.widths),
                 .rows = static_cast<std::uint32_t>(rows.size()),
                 .loss = options.loss,
                 .label = block.label};
  block.id = state.blocks.append(std::move(host));
  kept_.insert(kept_.end(), rows.begin(), rows.end());
  blocks_.push_back(std::move(block));
  return blocks_.back().id;
}

LongBlock::Arguments SharedRows::arguments_of(const ProblemState& state, std::uint32_t set) const {
  const std::set<std::uint32_t>& read = unknowns_[set];
  return LongBlock::arguments_of(state, std::vector<std::uint32_t>(read.begin(), read.end()));
}

std::vector<SharedRows::Group> SharedRows::groups() {
  std::vector<Group> out;
  std::unordered_map<std::uint32_t, std::size_t> number;
  for (std::uint32_t k = 0; k < blocks_.size(); ++k) {
    const std::uint32_t set = set_of(blocks_[k].set);
    const auto [at, is_new] = number.emplace(set, out.size());
    if (is_new) out.push_back({{}, marked_[set]});
    out[at->second].blocks.push_back(k);
  }
  return out;
}

/// The times of an evaluation with derivatives, in a problem that has `alike` such groups.
///
/// Blocks of as many operations are taken for instances of one topology. After 100,000 operations
/// the blocks that are left count as the last one.
SharedRows::Work SharedRows::predict(const Group& group, std::size_t alike) {
  constexpr std::size_t kMost = 100'000;
  KernelTime inlined;
  std::size_t last = 0;
  std::vector<std::uint32_t> all;
  for (const std::uint32_t k : group.blocks) {
    const std::vector<std::uint32_t>& rows = blocks_[k].rows;
    all.insert(all.end(), rows.begin(), rows.end());
    if (inlined.operations() < kMost) last = parts_.count_operations(nodes_, rows);
    inlined.add(last);
  }
  const std::size_t stored = parts_.count_operations(nodes_, all);
  const std::size_t unknowns = unknowns_[set_of(blocks_[group.blocks[0]].set)].size();
  return {.stored = stored,
          .inlined = inlined.operations(),
          .seconds_stored = swept_seconds(stored, unknowns, group.blocks.size()),
          .seconds_inlined = inlined.seconds(alike)};
}

bool SharedRows::store(ProblemState& state, const Group& group) {
  std::vector<std::uint32_t> rows;
  std::vector<std::uint64_t> ids;
  for (const std::uint32_t k : group.blocks) {
    rows.insert(rows.end(), blocks_[k].rows.begin(), blocks_[k].rows.end());
    ids.push_back(blocks_[k].id);
  }
  return state.long_blocks.share(state, parts_.extract(nodes_, rows), ids);
}

void SharedRows::inline_group(ProblemState& state, const Group& group) {
  for (const std::uint32_t k : group.blocks) {
    const std::optional<HostBlock> block = state.blocks.take_host_block(blocks_[k].id);
    if (block) LongBlocks::put_back(state, parts_.extract(nodes_, blocks_[k].rows), *block);
  }
}

void SharedRows::record(const ProblemState& state, const Group& group, const Work& work,
                        bool stored, std::uint64_t hash) {
  std::size_t at = 0;
  while (at < described_.size() &&
         !(described_hash_[at] == hash && described_[at].stored == stored))
    ++at;
  if (at == described_.size()) {
    described_hash_.push_back(hash);
    described_.push_back({.label = std::string(state.labels.text(blocks_[group.blocks[0]].label)),
                          .stored = stored});
  }
  SharedValues& of = described_[at];
  ++of.groups;
  of.values += group.marked;
  of.blocks += group.blocks.size();
  of.operations_stored += work.stored;
  of.operations_inlined += work.inlined;
  of.seconds_stored += work.seconds_stored;
  of.seconds_inlined += work.seconds_inlined;
}

void SharedRows::settle(ProblemState& state, bool kernels) {
  if (kernels)
    for (SharedValues& of : described_) of.stored = false;
  if (blocks_.empty()) return;
  std::erase_if(blocks_, [&](const Block& block) {
    return state.blocks.change_host_block(block.id) == nullptr;  // it was removed
  });
  if (blocks_.empty()) return forget();
  const std::vector<Group> all = groups();
  std::vector<std::uint64_t> hashes;
  std::unordered_map<std::uint64_t, std::size_t> alike;
  std::vector<std::uint32_t> rows;
  for (const Group& group : all) {
    rows.clear();
    for (const std::uint32_t k : group.blocks)
      rows.insert(rows.end(), blocks_[k].rows.begin(), blocks_[k].rows.end());
    hashes.push_back(shape_hash(parts_.extract(nodes_, rows)));
    ++alike[hashes.back()];
  }
  std::vector<Work> works;
  std::uint64_t own = 0;
  for (std::size_t g = 0; g < all.size(); ++g) {
    works.push_back(predict(all[g], alike[hashes[g]]));
    own += works.back().inlined;
  }
  // Blocks on the host would keep the steps of all others there.
  const bool may_store = !kernels && operations_of_kernels(state) <= own;
  for (std::size_t g = 0; g < all.size(); ++g) {
    const bool wins = works[g].seconds_stored < works[g].seconds_inlined;
    const bool stored = may_store && wins && store(state, all[g]);
    if (!stored) inline_group(state, all[g]);
    record(state, all[g], works[g], stored, hashes[g]);
  }
  forget();
}

void SharedRows::forget() {
  nodes_.clear(), set_.clear(), sets_.clear(), marked_.clear(), unknowns_.clear(),
      tape_index_.clear();
  kept_.clear(), blocks_.clear();
  parts_ = {};
}

}  // namespace topograd::detail

namespace topograd {

Value shared(const Value& v) {
  if (v.bits() != 0) detail::mark_shared(v.bits());
  return v;
}

Vec2 shared(const Vec2& v) { return {shared(v.x), shared(v.y)}; }
Vec3 shared(const Vec3& v) { return {shared(v.x), shared(v.y), shared(v.z)}; }
Vec4 shared(const Vec4& v) { return {shared(v.x), shared(v.y), shared(v.z), shared(v.w)}; }

std::string text(const SharedValues& of) {
  const auto counted = [](std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  const auto time = [](double seconds) {
    return platform::formatted(seconds < 1e-3 ? "%.3g us" : "%.3g ms",
                               seconds * (seconds < 1e-3 ? 1e6 : 1e3));
  };
  std::string out = counted(of.values, "shared value") + " of " + counted(of.blocks, "block");
  if (of.groups > 1) out += ", in " + std::to_string(of.groups) + " groups";
  const bool would_win = of.seconds_stored < of.seconds_inlined;
  const char* const reason =
      !of.stored && would_win
          ? " (more than 256 unknowns, second derivatives, or other residuals with more operations)"
          : "";
  return out + (of.stored ? ": stored" : ": inlined") + reason + "; predicted " +
         time(of.seconds_stored) + " stored (" + counted(of.operations_stored, "operation") +
         "), " + time(of.seconds_inlined) + " inlined (" +
         counted(of.operations_inlined, "operation") + ")";
}

}  // namespace topograd
