// Nearest neighbours: candidates from a graph, or all targets, ranked by exact distances.
#include "nearest.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/text.hpp"
#include "../../../runtime/cache/content_hash.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../backend/kernel_store.hpp"
#include "../autograd.hpp"
#include "../fused_source.hpp"
#include "../operations.hpp"
#include "../state.hpp"
#include "../with_options.hpp"
#include "nearest_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace topograd::ops {

struct NearestIndex::State {
  NearestOptions options;
  Tensor targets;  // normalised for cosine
  std::unique_ptr<detail::NearestGraph> graph;
  NearestStatistics statistics;
};

namespace {

using codegen::Precision;
using detail::NearestGraph;
using detail::View;

constexpr std::uint64_t kMostNumbers = 1 << 24;  // distances in memory at a time
constexpr std::int64_t kMostLinks = 256;

void expect_option(bool ok, const char* expected, std::int64_t got) {
  if (ok) return;
  throw Error(ErrorCode::InvalidArgument,
              std::string("nearest: expected ") + expected + ", got " + std::to_string(got));
}

void check(const NearestOptions& o) {
  expect_option(o.links >= 2 && o.links <= kMostLinks, "2 <= links <= 256", o.links);
  expect_option(o.build_width > 0, "build_width > 0", o.build_width);
  expect_option(o.search_width > 0, "search_width > 0", o.search_width);
}

/// Normalised rows, also if their squares overflow; NaN for rows of zeros.
Tensor unit_rows(const Tensor& rows) {
  const Tensor scaled = rows / max(abs(rows), {-1}, true);
  return scaled * rsqrt(sum(square(scaled), {-1}, true));
}

/// Rows as floats. Throws Error{InvalidArgument} for numbers that are not finite.
std::vector<float> finite_floats(const Tensor& rows, const std::string& what) {
  std::vector<float> numbers = rows.to(Type::f32).floats();
  const auto wrong = std::ranges::find_if(numbers, [](float x) { return !std::isfinite(x); });
  if (wrong == numbers.end()) return numbers;
  throw Error(ErrorCode::InvalidArgument,
              "nearest: expected finite numbers (of cosines, also rows of a length > 0), got " +
                  ir::print_number(static_cast<double>(*wrong)) + " in " + what + " " +
                  std::to_string((wrong - numbers.begin()) / rows.size(-1)));
}

struct Search {
  View queries, targets, candidates, result;  // candidates: if `listed`
  Type type;
  bool listed;
  std::uint64_t asked, rows, depth, count;  // queries, candidates of each, numbers, targets
};

/// One difference, square and sum per number, of approximately the different listed targets.
Work search_work(const Search& s) {
  const std::uint64_t pairs = s.asked * s.rows, number = size_of(s.type);
  const std::uint64_t listed = s.listed ? pairs * number : 0;
  return {.operations = 3 * pairs * s.depth,
          .bytes_read = (s.asked + std::min(pairs, s.count)) * s.depth * number + listed,
          .bytes_written = pairs * number,
          .reads = static_cast<double>(2 * pairs * s.depth * number + listed),
          .steps = runtime::hybrid::tree_steps(static_cast<double>(s.depth)),
          .pattern = s.listed ? runtime::hybrid::MemoryPattern::gather
                              : runtime::hybrid::MemoryPattern::reduction};
}

template <class T>
void measure_on_cpu(const Search& s) {
  const T *queries = detail::host_read<T>(s.queries), *targets = detail::host_read<T>(s.targets);
  const T* candidates = s.listed ? detail::host_read<T>(s.candidates) : nullptr;
  T* result = detail::host_write<T>(s.result);
  runtime::cpu::Pool pool(0);
  const std::size_t grain = std::max<std::uint64_t>(1, 16384 / s.depth);
  pool.for_ranges(s.asked * s.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      const double index =
          candidates ? static_cast<double>(candidates[k]) : static_cast<double>(k % s.rows);
      double squared = std::numeric_limits<double>::infinity();
      if (index >= 0) {
        const T* query = queries + k / s.rows * s.depth;
        const T* target = targets + static_cast<std::size_t>(index) * s.depth;
        squared = 0;
        for (std::size_t i = 0; i < s.depth; ++i) {
          const double apart = static_cast<double>(query[i]) - static_cast<double>(target[i]);
          squared += apart * apart;
        }
        if (std::isnan(squared)) squared = std::numeric_limits<double>::infinity();
      }
      result[k] = static_cast<T>(squared);
    }
  });
}

void measure_on_device(OpBackend& backend, const Search& s) {
  const bool by_invocation = s.depth <= (backend.limits().occupied_by_few ? 1024 : 32);
  const ComputeKernel& kernel = kernel_for(
      by_invocation ? KernelFile::nearest_short : KernelFile::nearest, s.type,
      {{"is_nan", detail::is_nan_glsl(s.type)},
       {"infinity", codegen::literal(std::numeric_limits<double>::infinity(),
                                     s.type == Type::f64 ? Precision::f64 : Precision::f32)}});
  const std::uint64_t in_group = by_invocation ? 256 : 8;
  const std::uint64_t turns = by_invocation ? s.depth : s.depth / 32 + 10;
  const std::uint64_t most = std::min(backend.limits().groups, 1u << 16);
  const std::uint64_t across = std::min((s.rows + in_group - 1) / in_group, most);
  const std::uint64_t rounds = ((s.rows + in_group - 1) / in_group + across - 1) / across;
  if (rounds * turns > backend.limits().loop_iterations) {
    throw Error(
        ErrorCode::Unsupported,
        "nearest: expected fewer numbers for this device, got rows of " + std::to_string(s.depth));
  }
  const std::uint32_t words[] = {word(s.rows), word(s.depth), word(s.count), s.listed};
  for (std::uint64_t first = 0; first < s.asked; first += most) {
    const std::uint64_t asked = std::min(most, s.asked - first);
    const auto part = [&](View view, std::uint64_t each) {
      view.offset += static_cast<std::int64_t>(first * each);
      return view;
    };
    const auto read = [&](const View& view, std::uint64_t count) {
      return detail::argument(backend, view, count, s.type, Access::read);
    };
    const Argument queries = read(part(s.queries, s.depth), asked * s.depth);
    const Argument arguments[] = {
        queries, read(s.targets, s.count * s.depth),
        s.listed ? read(part(s.candidates, s.rows), asked * s.rows) : queries,
        detail::argument(backend, part(s.result, s.rows), asked * s.rows, s.type, Access::write,
                         first > 0)};
    backend.launch({.kernel = &kernel,
                    .arguments = arguments,
                    .words = words,
                    .groups = {word(across), word(asked)}});
  }
}

/// Adds a part of a search to its statistics.
void count(const ExecutionStats& part, ExecutionStats& all) {
  const ExecutionStats before = all;
  all = part;
  all.times.upload += before.times.upload;
  all.times.submit += before.times.submit;
  all.times.kernel += before.times.kernel;
  all.times.read_back += before.times.read_back;
  all.bytes_up += before.bytes_up;
  all.bytes_down += before.bytes_down;
  all.cache_hits += before.cache_hits;
}

/// Squared distances (q, rows) to candidates, or to all targets.
Tensor measure(const Tensor& queries, const Tensor& targets, const Tensor& candidates) {
  const Type type = targets.type();
  const Tensor both[] = {queries, targets};
  const auto device = detail::common_device("nearest", both);
  const std::int64_t rows = candidates ? candidates.size(1) : targets.size(0);
  Tensor out = detail::make_tensor({queries.size(0), rows}, type, device);
  const Search s{detail::contiguous_data(queries),
                 detail::contiguous_data(targets),
                 candidates ? detail::contiguous_data(candidates) : View{},
                 out.state()->data,
                 type,
                 static_cast<bool>(candidates),
                 static_cast<std::uint64_t>(queries.size(0)),
                 static_cast<std::uint64_t>(rows),
                 static_cast<std::uint64_t>(targets.size(1)),
                 static_cast<std::uint64_t>(targets.size(0))};
  std::vector<std::shared_ptr<Storage>> inputs = {s.queries.storage, s.targets.storage};
  if (s.listed) inputs.push_back(s.candidates.storage);
  detail::run_op(
      {.op = Operation::Nearest,
       .kernel = key_of("nearest", type, s.listed),
       .size = s.asked * s.rows * s.depth,
       .work = search_work(s),
       .inputs = std::move(inputs),
       .outputs = {s.result.storage},
       .on_cpu = [&] { type == Type::f64 ? measure_on_cpu<double>(s) : measure_on_cpu<float>(s); },
       .on_device = [&](OpBackend& backend) { measure_on_device(backend, s); },
       .needs_float64 = type == Type::f64},
      device);
  return out;
}

/// Adds other targets if the graph proposes too few, because it may be disconnected.
void complete(std::vector<std::uint32_t>& found, std::size_t width) {
  std::ranges::sort(found);
  const std::size_t there = found.size();
  for (std::uint32_t target = 0; found.size() < width; ++target) {
    if (!std::binary_search(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(there),
                            target))
      found.push_back(target);
  }
}

/// Approximate work of searches that follow the links of each target that they keep, sequentially.
Work work_of_graph(const NearestIndex& index, const Tensor& targets, std::uint64_t asked,
                   std::uint64_t width) {
  const auto count = static_cast<std::uint64_t>(targets.size(0));
  const auto depth = static_cast<std::uint64_t>(targets.size(1));
  const std::uint64_t looked_at =
      asked * std::min(count, width * static_cast<std::uint64_t>(index.options().links));
  return {.operations = 3 * looked_at * depth,
          .bytes_read = (asked + std::min(looked_at, count)) * depth * sizeof(float),
          .bytes_written = asked * width * size_of(targets.type()),
          .reads = static_cast<double>(looked_at * depth * sizeof(float)),
          .steps = static_cast<double>(width),
          .pattern = runtime::hybrid::MemoryPattern::gather};
}

/// The candidates from the graph: rows of targets (q, width).
Tensor propose(const NearestIndex& index, const NearestGraph& graph, const Tensor& targets,
               const Tensor& queries, std::int64_t width, NearestStatistics& statistics) {
  const Type type = targets.type();
  const std::vector<float> numbers = finite_floats(queries, "query");
  const auto asked = static_cast<std::uint64_t>(queries.size(0));
  const auto depth = static_cast<std::uint64_t>(queries.size(1));
  const auto most = static_cast<std::uint64_t>(width);
  Tensor out = detail::make_tensor({queries.size(0), width}, type, {});
  const View view = out.state()->data;
  const auto fill = [&](auto* indices) {
    runtime::cpu::Pool pool(0);
    pool.for_ranges(asked, 1, [&](std::size_t query, std::size_t) {
      std::vector<std::uint32_t> found(most);
      found.resize(graph.near(&numbers[query * depth], found));
      if (found.size() < most) complete(found, most);
      std::copy(found.begin(), found.end(), indices + query * most);
    });
  };
  OpCall call{.op = Operation::Nearest,
              .kernel = key_of("nearest_graph", depth),
              .size = asked * most * depth,
              .work = work_of_graph(index, targets, asked, most)};
  call.outputs = {view.storage};
  call.on_cpu = [&] {
    type == Type::f64 ? fill(detail::host_write<double>(view))
                      : fill(detail::host_write<float>(view));
  };
  call.device_refusal = "graphs are searched on the CPU";
  count(run(call, {.device = Device::cpu()}), statistics.graph);
  return out;
}

/// Ranks a number of queries at a time.
Nearest rank(const NearestIndex& index, const Tensor& targets, const NearestGraph* graph,
             const Tensor& queries, std::int64_t k, NearestStatistics& statistics) {
  const std::int64_t width = std::min(targets.size(0), std::max(k, index.options().search_width));
  Tensor candidates;
  if (graph != nullptr) candidates = propose(index, *graph, targets, queries, width, statistics);
  Tensor squared = measure(queries, targets, candidates);
  count(last_stats(), statistics.distances);
  const TopK best = top_k(-squared, k);
  Tensor indices = best.indices;
  if (graph != nullptr) {
    // Entry i of row q of the candidates is entry q * width + i of the flat array.
    const Tensor first =
        arange(queries.size(0), targets.type()).reshape({-1, 1}) * static_cast<double>(width);
    indices = take(candidates.reshape({-1}), indices + first);
  }
  const bool cosine = index.options().distance == Distance::cosine;
  return {cosine ? best.values * -0.5 : sqrt(-best.values), indices};
}

}  // namespace

NearestIndex::NearestIndex(const Tensor& targets, const NearestOptions& options) {
  check(options);
  if (detail::state_of("nearest", targets).shape.size() != 2 || targets.count() == 0) {
    throw Error(ErrorCode::Shape, "nearest: expected targets (n, d), n > 0 and d > 0, got " +
                                      to_text(targets.shape()));
  }
  const Type type = targets.type() == Type::f64 ? Type::f64 : Type::f32;
  detail::check_index_range("nearest", type, targets.size(0));
  const NoGrad guard;
  auto state = std::make_shared<State>();
  state->options = options;
  state->targets = options.distance == Distance::cosine ? unit_rows(targets.detach().to(type))
                                                        : targets.detach().to(type);
  state->targets.evaluate();
  if (!options.exact) {
    state->graph = detail::make_nearest_graph(finite_floats(state->targets, "target"),
                                              static_cast<std::size_t>(targets.size(1)), options);
  }
  state_ = std::move(state);
}

Nearest NearestIndex::search(const Tensor& queries, std::int64_t k) const {
  const Tensor& targets = state_->targets;
  const std::int64_t count = targets.size(0), depth = targets.size(1);
  const Shape asked = detail::state_of("nearest", queries).shape;
  if ((asked.size() != 1 && asked.size() != 2) || asked.back() != depth) {
    throw Error(ErrorCode::Shape, "nearest: expected queries (" + std::to_string(depth) +
                                      ") or (q, " + std::to_string(depth) + "), got " +
                                      to_text(asked));
  }
  if (k <= 0 || k > count) {
    throw Error(ErrorCode::InvalidArgument, "nearest: expected 0 < k <= " + std::to_string(count) +
                                                ", got " + std::to_string(k));
  }
  const Tensor both[] = {queries, targets};
  detail::common_type("nearest", both);
  detail::common_device("nearest", both);
  const NoGrad guard;
  Tensor rows = queries.detach().to(targets.type()).reshape({-1, depth});
  if (state_->options.distance == Distance::cosine) rows = unit_rows(rows);
  const std::int64_t width =
      is_approximate() ? std::min(count, std::max(k, state_->options.search_width)) : count;
  const std::int64_t at_once =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kMostNumbers) / width);
  NearestStatistics& statistics = state_->statistics;
  statistics = {.queries = rows.size(0), .candidates = width};
  std::vector<Tensor> distances, indices;
  for (std::int64_t first = 0; first < std::max<std::int64_t>(1, rows.size(0)); first += at_once) {
    const Tensor some = rows.slice(0, first, std::min(rows.size(0), first + at_once));
    const Nearest found = rank(*this, targets, state_->graph.get(), some, k, statistics);
    distances.push_back(found.distances);
    indices.push_back(found.indices);
  }
  Shape shape = asked;
  shape.back() = k;
  return {concat(distances).reshape(shape), concat(indices).reshape(shape)};
}

Nearest NearestIndex::search(const Tensor& queries, std::int64_t k,
                             const OpOptions& options) const {
  const TopK found = with_options(options, [&] {
    const Nearest nearest = search(queries, k);
    return TopK{nearest.distances, nearest.indices};
  });
  return {found.values, found.indices};
}

void NearestIndex::add(const Tensor& targets) {
  State& state = *state_;
  const std::int64_t depth = state.targets.size(1);
  const Shape shape = detail::state_of("nearest", targets).shape;
  if ((shape.size() != 1 && shape.size() != 2) || shape.back() != depth) {
    throw Error(ErrorCode::Shape, "nearest: expected targets (" + std::to_string(depth) +
                                      ") or (m, " + std::to_string(depth) + ") to add, got " +
                                      to_text(shape));
  }
  const Type type = state.targets.type();
  const Tensor both[] = {targets.type() == Type::f16 ? targets.to(type) : targets, state.targets};
  detail::common_type("nearest", both);
  if (targets.count() == 0) return;
  const NoGrad guard;
  Tensor more = both[0].detach().reshape({-1, depth});
  detail::check_index_range("nearest", type, state.targets.size(0) + more.size(0));
  if (state.options.distance == Distance::cosine) more = unit_rows(more);
  if (const auto& device = state.targets.state()->device) more = more.to(*device);
  const Tensor all[] = {state.targets, more};
  const Tensor joined = concat(std::vector<Tensor>(std::begin(all), std::end(all)));
  joined.evaluate();
  if (state.graph) state.graph->add(finite_floats(more, "added target"));
  state.targets = joined;
}

namespace {

// Ends in a number that tells the byte order.
constexpr std::string_view kMagic = "topograd nearest 1\n";
constexpr std::uint32_t kOrder = 0x01020304;

/// The part of a file before targets and links.
struct Header {
  std::uint32_t order = kOrder, is_f64 = 0, cosine = 0, exact = 0, deterministic = 0, unused = 0;
  std::int64_t links = 0, build_width = 0, search_width = 0;
  std::uint64_t seed = 0, count = 0, depth = 0, words = 0;
};

template <class T>
void append(std::string& bytes, const T* values, std::size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

template <class T>
std::vector<T> take(std::string_view& bytes, std::size_t count) {
  std::vector<T> values(count);
  std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return values;
}

std::string checksum(std::string_view bytes) { return runtime::hex(runtime::hash_text(bytes)); }

/// The header of a file without magic and checksum; the sizes agree with those of the file. Nothing
/// if they do not.
std::optional<Header> header_of(std::string_view& bytes) {
  if (bytes.size() < sizeof(Header)) return std::nullopt;
  const Header h = take<Header>(bytes, 1)[0];
  const std::uint64_t number = h.is_f64 != 0 ? sizeof(double) : sizeof(float);
  if (h.order != kOrder || h.count == 0 || h.depth == 0) return std::nullopt;
  if (h.words > bytes.size() / sizeof(std::uint32_t)) return std::nullopt;
  const std::uint64_t left = bytes.size() - h.words * sizeof(std::uint32_t);
  if (left % number != 0 || h.count > left || (left / number) % h.count != 0 ||
      left / number / h.count != h.depth)
    return std::nullopt;
  return h;
}

}  // namespace

void NearestIndex::save(const std::string& path) const {
  const State& state = *state_;
  const NearestOptions& o = state.options;
  const std::vector<std::uint32_t> links =
      state.graph ? state.graph->links() : std::vector<std::uint32_t>();
  const bool is_f64 = state.targets.type() == Type::f64;
  const Header header{.is_f64 = is_f64,
                      .cosine = o.distance == Distance::cosine,
                      .exact = o.exact,
                      .deterministic = o.deterministic,
                      .links = o.links,
                      .build_width = o.build_width,
                      .search_width = o.search_width,
                      .seed = o.seed,
                      .count = static_cast<std::uint64_t>(state.targets.size(0)),
                      .depth = static_cast<std::uint64_t>(state.targets.size(1)),
                      .words = links.size()};
  std::string bytes;
  append(bytes, &header, 1);
  if (is_f64) {
    const std::vector<double> numbers = state.targets.values();
    append(bytes, numbers.data(), numbers.size());
  } else {
    const std::vector<float> numbers = state.targets.floats();
    append(bytes, numbers.data(), numbers.size());
  }
  append(bytes, links.data(), links.size());
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << kMagic << checksum(bytes) << bytes;
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(part, path, failed);
  if (file && !failed) return;
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  throw Error(ErrorCode::File, path + ": the index cannot be written" +
                                   (failed ? ": " + failed.message() : std::string()));
}

NearestIndex NearestIndex::load(const std::string& path, const std::optional<Device>& device) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::File, path + ": the index cannot be read");
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::Parse, path + ": expected an index of nearest neighbours, got " + what);
  };
  constexpr std::size_t kHex = 32;
  std::string_view bytes = all;
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + kHex)
    refuse("another kind of file");
  bytes.remove_prefix(kMagic.size());
  const std::string_view sum = bytes.substr(0, kHex);
  bytes.remove_prefix(kHex);
  if (checksum(bytes) != sum) refuse("a damaged one");
  const std::optional<Header> header = header_of(bytes);
  if (!header) refuse("one with sizes that do not fit, or of a machine with another byte order");
  const Header& h = *header;
  auto state = std::make_shared<State>();
  state->options = {.distance = h.cosine != 0 ? Distance::cosine : Distance::euclidean,
                    .exact = h.exact != 0,
                    .links = h.links,
                    .build_width = h.build_width,
                    .search_width = h.search_width,
                    .seed = h.seed,
                    .deterministic = h.deterministic != 0};
  check(state->options);
  const Shape shape = {static_cast<std::int64_t>(h.count), static_cast<std::int64_t>(h.depth)};
  state->targets =
      h.is_f64 != 0 ? tensor(std::span<const double>(take<double>(bytes, h.count * h.depth)), shape,
                             Type::f64)
                    : tensor(std::span<const float>(take<float>(bytes, h.count * h.depth)), shape);
  if (h.words > 0) {
    state->graph = detail::load_nearest_graph(finite_floats(state->targets, "target"), h.depth,
                                              state->options, take<std::uint32_t>(bytes, h.words));
  }
  if (device) state->targets = state->targets.to(*device);
  return NearestIndex(std::move(state));
}

std::int64_t NearestIndex::size() const { return state_->targets.size(0); }
const NearestStatistics& NearestIndex::statistics() const { return state_->statistics; }
bool NearestIndex::is_approximate() const { return state_->graph != nullptr; }
const NearestOptions& NearestIndex::options() const { return state_->options; }

}  // namespace topograd::ops
