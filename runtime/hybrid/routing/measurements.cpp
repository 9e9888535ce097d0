// Predictions from measurements, and what each outcome changes.
#include "measurements.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace topograd::runtime::hybrid {
namespace {

// The confidence of transfers counts only if they take more than this share of the time.
constexpr double kTransferShare = 0.2;
// Less certain guesses decide nothing.
constexpr double kLeastConfidence = 0.2;
// Once a window is full, about one in eight shorter runs is learned: to learn from each would take
// a large part of their time. A run that became slow is longer, and is always learned.
constexpr double kShortMicroseconds = 20;

/// True for one in eight numbers, in no pattern that alternating kernels could have.
bool is_eighth(std::uint64_t number) { return number * 0x9e3779b97f4a7c15 >> 61 == 0; }

}  // namespace

Measurements::Measurements(const HybridOptions& options, const Clock& clock)
    : options_(options), clock_(clock), kernels_(options.max_kernels) {}

void Measurements::add_target(std::string name) {
  targets_.emplace_back();
  targets_.back().name = std::move(name);
}

/// `sent`: bytes uploaded by earlier tasks since the last reading.
Prediction Measurements::predict_one(const TaskShape& task, std::size_t target,
                                     std::uint64_t sent) const {
  const TargetTimes& t = targets_[target];
  const KernelTimes* const kernel = kernels_.find(task.kernel);
  Prediction p;
  Estimate work;
  if (const History* history = kernel ? kernel->on(target) : nullptr)
    work = history->at(task.work());
  p.measured = work.known;
  if (!work.known) {
    const Estimate guess = t.training.guess().at(task.operation, task.work(), task.features);
    if (guess.confidence >= kLeastConfidence) {
      work = guess;
      p.guessed = true;
    }
  }
  p.terms.kernel = t.load.loaded() ? t.load.slowed(work.us, clock_()) : work.us;
  p.confidence = work.confidence;
  Estimate upload, read_back;
  if (target == kCpu) {
    if (task.bytes_away == 0 || task.away_on == kCpu) return p;
    read_back = targets_[task.away_on].transfers.predict_fetch(task);
  } else {
    const TransferTimes::Predicted moved = t.transfers.predict(task, task.upload_to(target), sent);
    upload = moved.upload;
    read_back = moved.read_back;
    p.terms.submit = moved.submit_us;
  }
  p.terms.upload = upload.us;
  p.terms.read_back = read_back.us;
  for (const Estimate& transfer : {upload, read_back}) {
    if (transfer.known && transfer.us > kTransferShare * p.terms.work())
      p.confidence = std::min(p.confidence, transfer.confidence);
  }
  return p;
}

Prediction Measurements::predict(std::span<const TaskShape> tasks, std::size_t target) const {
  if (tasks.size() == 1) return predict_one(tasks[0], target, 0);
  Prediction sum{.measured = true};
  double sure = 0;
  bool known = true;
  std::uint64_t sent = 0;
  for (const TaskShape& task : tasks) {
    const Prediction p = predict_one(task, target, sent);
    sent = task.bytes_out > 0 ? 0 : sent + task.upload_to(target);
    sum.terms.upload += p.terms.upload;
    sum.terms.submit += p.terms.submit;
    sum.terms.kernel += p.terms.kernel;
    sum.terms.read_back += p.terms.read_back;
    sum.measured = sum.measured && p.measured;
    known = known && p.known();
    sure += p.confidence * p.terms.work();
  }
  sum.guessed = known && !sum.measured;
  if (sum.terms.work() > 0) sum.confidence = sure / sum.terms.work();
  return sum;
}

bool Measurements::runs_on(Hash128 kernel, std::size_t target) const {
  const KernelTimes* const known = kernels_.find(kernel);
  return !known || (known->refused >> target & 1) == 0;
}

bool Measurements::try_at(std::span<const TaskShape> tasks, std::size_t target) {
  // The first run does not count, since it may be cold.
  constexpr std::uint8_t kTrials = 2;
  const auto trials = [&](const TaskShape& task) -> std::uint8_t* {
    KernelTimes* const kernel = kernels_.find(task.kernel);
    if (kernel == nullptr) return nullptr;
    return &kernel->tried(target).at_size[static_cast<std::size_t>(size_class(task.work()))];
  };
  bool untried = false;
  for (const TaskShape& task : tasks) {
    const std::uint8_t* const begun = trials(task);
    untried = untried || (begun != nullptr && *begun < kTrials && samples(task, target) == 0);
  }
  if (!untried) return false;
  for (const TaskShape& task : tasks)
    if (std::uint8_t* const begun = trials(task); begun != nullptr && *begun < kTrials) ++*begun;
  return true;
}

bool Measurements::try_first(const TaskShape& task, std::size_t target) {
  // A cold run, and two samples.
  constexpr std::uint8_t kTrials = 3;
  KernelTimes* const kernel = kernels_.find(task.kernel);
  if (kernel == nullptr || kernel->tried(target).first >= kTrials) return false;
  ++kernel->tried(target).first;
  return true;
}

std::uint64_t Measurements::samples(const TaskShape& task, std::size_t target) const {
  const KernelTimes* const kernel = kernels_.find(task.kernel);
  const History* const history = kernel ? kernel->on(target) : nullptr;
  return history ? history->samples(size_class(task.work())) : 0;
}

double Measurements::threshold(std::string_view operation, std::uint64_t first) const {
  const auto found = thresholds_.find(operation);
  if (found != thresholds_.end()) return found->second;
  return static_cast<double>(std::max(first, minimum_batch(options_, operation)));
}

void Measurements::use(std::span<const TaskShape> tasks) {
  for (const TaskShape& task : tasks) kernels_.use(task.kernel);
}

void Measurements::learn_kernel(const TaskShape& task, std::size_t target, const Run& run) {
  TargetTimes& t = targets_[target];
  KernelTimes& kernel = kernels_.make(task.kernel, task.operation);
  if (kernel.targets.size() <= target) kernel.targets.resize(target + 1);
  History& history = kernel.targets[target];
  const bool known = history.samples(size_class(task.work())) >= options_.window;
  if (known && !run.settled && run.us < kShortMicroseconds && !is_eighth(outcomes_)) return;
  const History::Recorded recorded = history.record(task.work(), run.us, options_, run.settled);
  // Updates the training row when the median changes much: at samples 1, 2, 4, ..., and on drift.
  const bool is_new = recorded.verdict == History::Verdict::normal &&
                      std::has_single_bit(history.samples(size_class(task.work())));
  if (is_new || recorded.verdict == History::Verdict::drift) {
    t.training.keep({task.kernel, std::string(task.operation), task.work(), task.features,
                     history.at(task.work()).us});
  }
  if (recorded.residual == 0) return;
  t.load.add(recorded.residual, recorded.expected_us, task.kernel.low, run.now);
  const DriftWatch::Change change = t.watch.add(recorded.residual, recorded.expected_us,
                                                task.kernel.low, std::log(options_.outlier_factor));
  if (change.log_factor == 0) return;
  ++t.drifts;
  t.load = {};  // from now on it is usual
  kernels_.shift(target, change);
}

void Measurements::learn(const TaskShape& task, std::size_t target, const Outcome& outcome,
                         double now) {
  const Terms& times = outcome.times;
  ++outcomes_;
  learn_kernel(task, target,
               {times.kernel + (task.queued ? times.submit : 0), now, outcome.settled});
  targets_[target].transfers.record(task, outcome, options_);
}

void Measurements::learn_read_back(std::size_t target, std::uint64_t sent, std::uint64_t bytes,
                                   double us) {
  targets_.at(target).transfers.record_read_back(sent, bytes, us, options_);
}

void Measurements::refuse(const TaskShape& task, std::size_t target) {
  kernels_.make(task.kernel, task.operation).refused |= std::uint64_t{1} << target;
}

void Measurements::move_threshold(const TaskShape& task, std::size_t device) {
  const Prediction cpu = predict_one(task, kCpu, 0);
  const Prediction other = predict_one(task, device, 0);
  if (!cpu.measured || !other.measured) return;
  const double speed_up = cpu.terms.work() / other.terms.work();
  const double now = threshold(task.operation, task.first_threshold);
  const auto size = static_cast<double>(task.work());
  const auto least = static_cast<double>(minimum_batch(options_, task.operation));
  double moved = now;
  if (speed_up * options_.margin < 1 && size >= now)
    moved = std::min(now * options_.step, size + 1);
  if (speed_up > options_.margin && size < now) moved = std::max(least, now / options_.step);
  if (moved == now) return;
  const auto found = thresholds_.find(task.operation);
  if (found != thresholds_.end()) {
    found->second = moved;
  } else if (thresholds_.size() < options_.max_kernels) {
    thresholds_.emplace(task.operation, moved);
  }
}

Measurements::Condition Measurements::condition(std::size_t target) const {
  const TargetTimes& t = targets_[target];
  return {.drifts = t.drifts,
          .guess_error = t.training.guess().error_factor(),
          .load = t.load.factor(clock_())};
}

Knowledge Measurements::knowledge() const {
  Knowledge out;
  for (const auto& [hash, kernel] : kernels_.all()) {
    Knowledge::Kernel& one =
        out.kernels.emplace_back(Knowledge::Kernel{hash, kernel.operation, {}, kernel.used});
    for (std::size_t k = 0; k < kernel.targets.size(); ++k) {
      auto rows = kernel.targets[k].rows();
      if (!rows.empty()) one.targets[targets_[k].name] = std::move(rows);
    }
  }
  std::ranges::sort(out.kernels, {}, &Knowledge::Kernel::hash);
  for (const TargetTimes& t : targets_) {
    out.transfers[t.name] = t.transfers.rows();
    out.training[t.name] = t.training.rows();
  }
  out.thresholds.insert(thresholds_.begin(), thresholds_.end());
  return out;
}

void Measurements::merge(const Knowledge& knowledge) {
  for (const Knowledge::Kernel& from : knowledge.kernels) {
    if (!kernels_.find(from.hash) && kernels_.room() == 0) continue;
    KernelTimes& kernel = kernels_.make(from.hash, from.operation);
    kernel.targets.resize(std::max(kernel.targets.size(), targets_.size()));
    for (std::size_t k = 0; k < targets_.size(); ++k) {
      const auto rows = from.targets.find(targets_[k].name);
      if (rows != from.targets.end()) kernel.targets[k].merge(rows->second);
    }
  }
  for (TargetTimes& t : targets_) {
    if (const auto found = knowledge.transfers.find(t.name); found != knowledge.transfers.end())
      t.transfers.merge(found->second);
    // Only once: a later merge for a new device brings the same rows.
    const auto training = knowledge.training.find(t.name);
    if (training == knowledge.training.end() || !t.training.rows().empty()) continue;
    for (const TrainingRow& row : training->second) t.training.keep(row);
  }
  for (const auto& [operation, value] : knowledge.thresholds)
    thresholds_.try_emplace(operation, value);
}

const KernelTimes* KernelTable::find(Hash128 hash) const {
  const auto found = kernels_.find(hash);
  return found == kernels_.end() ? nullptr : &found->second;
}

KernelTimes* KernelTable::find(Hash128 hash) {
  const auto found = kernels_.find(hash);
  return found == kernels_.end() ? nullptr : &found->second;
}

KernelTimes& KernelTable::make(Hash128 hash, std::string_view operation) {
  if (KernelTimes* found = find(hash)) return *found;
  if (kernels_.size() >= most_) forget_oldest();
  KernelTimes& made = kernels_[hash];
  made.used = ++tick_;
  made.operation = operation;
  return made;
}

void KernelTable::use(Hash128 hash) {
  if (KernelTimes* found = find(hash)) found->used = ++tick_;
}

std::uint64_t KernelTable::room() const {
  return most_ - std::min<std::uint64_t>(most_, kernels_.size());
}

/// Removes a quarter, so that a full table is not searched for every new kernel.
void KernelTable::forget_oldest() {
  std::vector<std::uint64_t> ticks;
  for (const auto& [hash, kernel] : kernels_) ticks.push_back(kernel.used);
  const auto cut = ticks.begin() + static_cast<std::ptrdiff_t>(ticks.size() / 4);
  std::nth_element(ticks.begin(), cut, ticks.end());
  std::erase_if(kernels_, [&](const auto& entry) { return entry.second.used <= *cut; });
}

Side& KernelTable::last_side(std::span<const TaskShape> tasks) {
  const auto at = [](const TaskShape& task) {
    return static_cast<std::size_t>(size_class(task.work()));
  };
  if (tasks.size() == 1) return find(tasks[0].kernel)->sides[at(tasks[0])];
  Hash128 hash;
  for (const TaskShape& task : tasks) {
    hash.add(task.kernel.high);
    hash.add(task.kernel.low);
    hash.add(at(task));
  }
  if (together_.size() >= most_) together_.clear();
  return together_[hash];
}

void KernelTable::shift(std::size_t target, const DriftWatch::Change& change) {
  for (auto& [hash, kernel] : kernels_) {
    if (target < kernel.targets.size() && !kernel.targets[target].moved_lately())
      kernel.targets[target].shift(change);
  }
}

}  // namespace topograd::runtime::hybrid
