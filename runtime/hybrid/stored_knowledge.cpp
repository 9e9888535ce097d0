// Reads, checks, merges and writes the file of measurements.
#include "stored_knowledge.hpp"

#include "../cache/content_hash.hpp"
#include "../cache/json_values.hpp"
#include "backend.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

namespace topograd::runtime::hybrid {
namespace {

constexpr int kFormat = 1;
// Version of the binary file.
constexpr int kFileFormat = 2;
constexpr std::string_view kKind = "hybrid";
// Larger files were not written by this library.
constexpr std::size_t kMostRows = std::size_t{1} << 20;

constexpr MemoryPattern kPatterns[] = {MemoryPattern::streaming, MemoryPattern::gather,
                                       MemoryPattern::scatter, MemoryPattern::reduction};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::Parse, "hybrid model: " + what);
}

template <class T>
T whole(const Json& json) {
  const auto value = whole_number<T>(json);
  if (!value) refuse("expected a whole number from 0 that fits, got " + shown(json));
  return *value;
}

Hash128 key() { return hash_text("knowledge"); }

Json rows_value(const std::vector<History::Row>& rows) {
  Json out = Json::array();
  for (const History::Row& row : rows)
    out.push_back({row.size_class, row.size, row.us, row.spread, row.count});
  return out;
}

/// Throws Error{Parse} for values that no history can have.
void check(const History::Row& row) {
  if (row.size_class < 0 || row.size_class >= kSizeClasses || !(row.size >= 0) || !(row.us > 0) ||
      !(row.spread >= 0)) {
    refuse("a size class that cannot be: class " + std::to_string(row.size_class) + ", size " +
           std::to_string(row.size) + ", " + std::to_string(row.us) + " µs, spread " +
           std::to_string(row.spread));
  }
}

std::vector<History::Row> parse_rows(const Json& json) {
  std::vector<History::Row> rows;
  for (const Json& one : json) {
    if (!one.is_array() || one.size() != 5)
      refuse("expected five numbers a size class, got " + shown(one));
    History::Row row{.size_class = whole<int>(one[0]),
                     .size = one[1].get<double>(),
                     .us = one[2].get<double>(),
                     .spread = one[3].get<double>(),
                     .count = whole<std::uint64_t>(one[4])};
    check(row);
    rows.push_back(row);
    if (rows.size() > kSizeClasses)
      refuse("more than " + std::to_string(kSizeClasses) + " classes");
  }
  return rows;
}

Hash128 parse_hash(const std::string& text) {
  Hash128 hash;
  const auto half = [&](std::size_t at, std::uint64_t& out) {
    const char* begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, begin + 16, out, 16);
    return error == std::errc() && end == begin + 16;
  };
  if (text.size() != 32 || !half(0, hash.high) || !half(16, hash.low))
    refuse("expected 32 hexadecimal digits, got \"" + text + '"');
  return hash;
}

Json training_value(const TrainingRow& row) {
  const Features& f = row.features;
  return {{"kernel", hex(row.kernel)},
          {"operation", row.operation},
          {"size", row.size},
          {"us", row.us},
          {"operations", f.operations},
          {"bytes", f.bytes},
          {"parallelism", f.parallelism},
          {"reuse", f.reuse},
          {"pattern", name(f.pattern)},
          {"family", f.family}};
}

TrainingRow parse_training(const Json& json) {
  TrainingRow row{.kernel = parse_hash(json.at("kernel").get<std::string>()),
                  .operation = json.at("operation").get<std::string>(),
                  .size = whole<std::uint64_t>(json.at("size")),
                  .us = json.at("us").get<double>()};
  row.features = {.operations = json.at("operations").get<double>(),
                  .bytes = json.at("bytes").get<double>(),
                  .parallelism = json.at("parallelism").get<double>(),
                  .reuse = json.at("reuse").get<double>()};
  const auto pattern = json.at("pattern").get<std::string>();
  const auto found =
      std::ranges::find_if(kPatterns, [&](MemoryPattern one) { return name(one) == pattern; });
  if (found == std::end(kPatterns)) refuse("no memory pattern \"" + pattern + '"');
  row.features.pattern = *found;
  if (json.contains("family")) row.features.family = whole<std::uint64_t>(json.at("family"));
  return row;
}

Knowledge knowledge_of(const Json& json) {
  if (whole_number<int>(json.at("format")) != kFormat)
    refuse("format " + shown(json.at("format")) + ", expected " + std::to_string(kFormat));
  if (json.at("kernels").size() > kMostRows) refuse("too many kernels");
  Knowledge out;
  for (const Json& one : json.at("kernels")) {
    Knowledge::Kernel kernel{.hash = parse_hash(one.at("hash").get<std::string>()),
                             .operation = one.at("operation").get<std::string>(),
                             .targets = {}};
    for (const auto& [target, rows] : one.at("targets").items())
      kernel.targets[target] = parse_rows(rows);
    out.kernels.push_back(std::move(kernel));
  }
  std::ranges::sort(out.kernels, {}, &Knowledge::Kernel::hash);  // order required by merge()
  for (const auto& [target, parts] : json.at("transfers").items())
    for (const auto& [part, rows] : parts.items()) out.transfers[target][part] = parse_rows(rows);
  for (const auto& [operation, items] : json.at("thresholds").items())
    out.thresholds[operation] = items.template get<double>();
  for (const auto& [target, rows] : json.at("training").items()) {
    if (rows.size() > kMostRows) refuse("too many training rows");
    for (const Json& row : rows) out.training[target].push_back(parse_training(row));
  }
  if (json.contains("drivers"))
    out.drivers = json.at("drivers").get<std::map<std::string, std::string>>();
  return out;
}

Json json_of(const Knowledge& knowledge) {
  Json kernels = Json::array();
  for (const Knowledge::Kernel& kernel : knowledge.kernels) {
    Json targets = Json::object();
    for (const auto& [target, rows] : kernel.targets) targets[target] = rows_value(rows);
    kernels.push_back({{"hash", hex(kernel.hash)},
                       {"operation", kernel.operation},
                       {"targets", std::move(targets)}});
  }
  Json transfers = Json::object(), training = Json::object();
  for (const auto& [target, parts] : knowledge.transfers)
    for (const auto& [part, rows] : parts) transfers[target][part] = rows_value(rows);
  for (const auto& [target, rows] : knowledge.training) {
    training[target] = Json::array();
    for (const TrainingRow& row : rows) training[target].push_back(training_value(row));
  }
  return {{"format", kFormat},
          {"kernels", std::move(kernels)},
          {"transfers", std::move(transfers)},
          {"thresholds", knowledge.thresholds},
          {"training", std::move(training)},
          {"drivers", knowledge.drivers}};
}

/// Appends numbers and strings in memory layout; the envelope identifies the machine.
class Writer {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(const T& value) {
    const auto* const first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof value);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    const auto* const first = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), first, first + text.size());
  }
  template <class List, class Each>
  void list(List& all, const Each& each) {
    (*this)(static_cast<std::uint32_t>(all.size()));
    for (auto& one : all) each(one);
  }
  template <class Map, class Each>
  void map(Map& all, const Each& each) {
    (*this)(static_cast<std::uint32_t>(all.size()));
    for (auto& [name, value] : all) {
      (*this)(name);
      each(value);
    }
  }

  std::vector<std::byte> bytes;
};

/// Reads the same format. Throws Error{Parse} at the end of the bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(T& value) { std::memcpy(&value, take(sizeof value), sizeof value); }
  void operator()(std::string& text) {
    const std::uint32_t size = count();
    text.assign(reinterpret_cast<const char*>(take(size)), size);
  }
  template <class List, class Each>
  void list(List& all, const Each& each) {
    all.resize(count());
    for (auto& one : all) each(one);
  }
  template <class Map, class Each>
  void map(Map& all, const Each& each) {
    for (std::uint32_t left = count(); left > 0; --left) {
      std::string name;
      (*this)(name);
      each(all[name]);
    }
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  const std::byte* take(std::size_t size) {
    if (size > bytes_.size()) refuse("it ends too early");
    const std::byte* const first = bytes_.data();
    bytes_ = bytes_.subspan(size);
    return first;
  }
  /// Every element takes at least a byte.
  std::uint32_t count() {
    std::uint32_t value = 0;
    (*this)(value);
    if (value > bytes_.size()) refuse("more entries than bytes");
    return value;
  }

  std::span<const std::byte> bytes_;
};

/// Passes the contents of a file, in order, to a Writer or a Reader.
template <class Pass>
void pass_all(Pass& pass, Knowledge& all) {
  const auto rows = [&](std::vector<History::Row>& list) {
    pass.list(list, [&](History::Row& row) {
      pass(row.size_class), pass(row.size), pass(row.us), pass(row.spread), pass(row.count);
    });
  };
  pass.list(all.kernels, [&](Knowledge::Kernel& kernel) {
    pass(kernel.hash.high), pass(kernel.hash.low), pass(kernel.operation);
    pass.map(kernel.targets, rows);
  });
  pass.map(all.transfers, [&](auto& parts) { pass.map(parts, rows); });
  const auto plain = [&](auto& value) { pass(value); };
  pass.map(all.thresholds, plain);
  pass.map(all.training, [&](std::vector<TrainingRow>& list) {
    pass.list(list, [&](TrainingRow& row) {
      Features& f = row.features;
      pass(row.kernel.high), pass(row.kernel.low), pass(row.operation), pass(row.size),
          pass(row.us);
      pass(f.operations), pass(f.bytes), pass(f.parallelism), pass(f.reuse), pass(f.family);
      auto pattern = static_cast<std::uint8_t>(f.pattern);
      pass(pattern);
      if (pattern >= std::size(kPatterns)) refuse("no such memory pattern");
      f.pattern = static_cast<MemoryPattern>(pattern);
    });
  });
  pass.map(all.drivers, plain);
}

/// Throws Error{Parse} for values that no history can have.
void check(const Knowledge& all) {
  const auto each = [](const std::vector<History::Row>& rows) {
    for (const History::Row& row : rows) check(row);
  };
  for (const Knowledge::Kernel& kernel : all.kernels)
    for (const auto& [target, rows] : kernel.targets) each(rows);
  for (const auto& [target, parts] : all.transfers)
    for (const auto& [part, rows] : parts) each(rows);
}

/// Keeps the most recently used kernels, in their present order.
void keep_latest(std::vector<Knowledge::Kernel>& kernels, std::size_t most) {
  if (kernels.size() <= most) return;
  std::vector<std::uint64_t> used;
  for (const Knowledge::Kernel& kernel : kernels) used.push_back(kernel.used);
  const auto last = used.begin() + static_cast<std::ptrdiff_t>(most - 1);
  std::nth_element(used.begin(), last, used.end(), std::greater<>());
  const std::uint64_t least = *last;
  auto ties = std::count(used.begin(), last + 1, least);  // to keep
  std::erase_if(kernels, [&](const Knowledge::Kernel& kernel) {
    return kernel.used < least || (kernel.used == least && ties-- <= 0);
  });
}

/// Adds rows of other sizes than those present.
void add_rows(std::vector<History::Row>& rows, const std::vector<History::Row>& more) {
  for (const History::Row& row : more) {
    if (std::ranges::find(rows, row.size_class, &History::Row::size_class) == rows.end())
      rows.push_back(row);
  }
  std::ranges::sort(rows, {}, &History::Row::size_class);
}

/// Adds rows of other kernels or sizes than those present, while there is room.
void add_training(std::vector<TrainingRow>& rows, const std::vector<TrainingRow>& more) {
  for (const TrainingRow& row : more) {
    if (rows.size() >= kMaxTrainingRows) return;
    const auto same = [&](const TrainingRow& one) { return row.replaces(one); };
    if (std::ranges::none_of(rows, same)) rows.push_back(row);
  }
}

}  // namespace

std::string to_json(const Knowledge& knowledge) { return json_of(knowledge).dump(1) + "\n"; }

Knowledge parse_knowledge(std::string_view text) {
  try {
    return knowledge_of(parse_json(text));
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
}

void forget(Knowledge& knowledge, const std::string& target) {
  for (Knowledge::Kernel& kernel : knowledge.kernels) kernel.targets.erase(target);
  knowledge.transfers.erase(target);
  knowledge.training.erase(target);
  knowledge.drivers.erase(target);
}

void merge(Knowledge& into, const Knowledge& from, std::size_t max_kernels) {
  const auto other_driver = [&](const std::string& target) {
    const auto here = std::as_const(into.drivers).find(target), there = from.drivers.find(target);
    return here != into.drivers.end() && there != from.drivers.end() &&
           here->second != there->second;
  };
  for (const Knowledge::Kernel& kernel : from.kernels) {
    const auto at =
        std::ranges::lower_bound(into.kernels, kernel.hash, {}, &Knowledge::Kernel::hash);
    if (at == into.kernels.end() || at->hash != kernel.hash) {
      if (into.kernels.size() >= max_kernels) continue;
      Knowledge::Kernel fresh = kernel;
      std::erase_if(fresh.targets, [&](const auto& one) { return other_driver(one.first); });
      into.kernels.insert(at, std::move(fresh));
      continue;
    }
    for (const auto& [target, rows] : kernel.targets)
      if (!other_driver(target)) add_rows(at->targets[target], rows);
  }
  for (const auto& [target, parts] : from.transfers) {
    if (other_driver(target)) continue;
    for (const auto& [part, rows] : parts) add_rows(into.transfers[target][part], rows);
  }
  into.thresholds.insert(from.thresholds.begin(), from.thresholds.end());
  for (const auto& [target, rows] : from.training) {
    if (!other_driver(target)) add_training(into.training[target], rows);
  }
  into.drivers.insert(from.drivers.begin(), from.drivers.end());
}

KnowledgeFile::KnowledgeFile(const std::string& folder)
    : cache_({.folder = folder == "default" ? std::string() : folder,
              .generator = "hybrid " + std::to_string(kFileFormat),
              .identity = "cpu " + std::to_string(std::thread::hardware_concurrency()) + " " +
                          simd_level()}) {}

std::string KnowledgeFile::path() const { return cache_.path(kKind, key()); }

std::optional<Knowledge> KnowledgeFile::load() {
  const auto bytes = cache_.load(kKind, key());
  if (!bytes) return std::nullopt;
  try {
    Knowledge known;
    Reader read(*bytes);
    pass_all(read, known);
    if (!read.at_end()) refuse("more bytes than entries");
    check(known);
    return known;
  } catch (const Error&) {
  }
  ++unreadable_;
  return std::nullopt;
}

bool KnowledgeFile::store(Knowledge knowledge) {
  keep_latest(knowledge.kernels, kMostKernelsOfFile);
  Writer write;
  pass_all(write, knowledge);
  return cache_.store(kKind, key(), write.bytes);
}

StoredKnowledge::StoredKnowledge(const HybridOptions& options, Scheduler& scheduler,
                                 Telemetry& telemetry)
    : options_(options), scheduler_(scheduler), telemetry_(telemetry) {
  if (options_.state.empty() || options_.state == "none") return;
  scheduler_.merge_later([this] { return load(); });
}

const Knowledge* StoredKnowledge::load() {
  file_ = std::make_unique<KnowledgeFile>(options_.state);
  std::optional<Knowledge> known = file_->load();
  if (known) {
    known_ = std::move(*known);
    telemetry_.state_loaded(true);
    return &known_;
  }
  if (file_->rejected() > 0 || !file_->disabled().empty()) telemetry_.state_loaded(false);
  return nullptr;
}

std::optional<std::string> StoredKnowledge::add(const ExecutorDevice& device) {
  const std::lock_guard lock(mutex_);
  std::optional<std::string> other;
  const auto before = known_.drivers.find(device.name());
  if (before != known_.drivers.end() && device.available() && before->second != device.driver()) {
    other = before->second;
    forget(known_, device.name());
  }
  scheduler_.merge(known_);
  return other;
}

bool StoredKnowledge::save(const DeviceList& devices) {
  Knowledge knowledge = scheduler_.knowledge();  // after load()
  if (!file_) return false;
  for (const ExecutorDevice* one : devices.all())
    if (!one->driver().empty()) knowledge.drivers[one->name()] = one->driver();
  // Merges data that others have learned meanwhile, including other executors of this process, and
  // data of devices that are not present now.
  if (const std::optional<Knowledge> now = file_->load())
    merge(knowledge, *now, options_.max_kernels);
  {
    const std::lock_guard lock(mutex_);
    merge(knowledge, known_, options_.max_kernels);
  }
  const bool stored = file_->store(std::move(knowledge));
  telemetry_.state_written(stored);
  return stored;
}

}  // namespace topograd::runtime::hybrid
