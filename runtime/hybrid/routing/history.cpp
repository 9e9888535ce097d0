// Medians by size class, with interpolation and extrapolation.
#include "history.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace topograd::runtime::hybrid {
namespace {

// Reach of a history: classes (factors of two) from the nearest one with samples.
constexpr int kReachOfOne = 4;  // with one class there is no slope
constexpr int kReachOfSeveral = 8;
constexpr double kTrustBetween = 0.9;  // per class of distance from the nearest one with samples
constexpr double kTrustBeyond = 0.8;
constexpr double kSpreadOfHalfTrust = 0.5;
// Least ratio of the sizes of two classes that give a slope: neighbours can have nearly one size,
// and the difference of their times is noise then.
constexpr double kLeastRatio = 1.5;
// A full window is summarised again after this many samples.
constexpr std::uint64_t kSamplesOfSummary = 8;
// Converts the median absolute deviation of normal noise to its standard deviation.
constexpr double kMadToSigma = 1.4826;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

int size_class(std::uint64_t size) { return size == 0 ? 0 : std::bit_width(size) - 1; }

DriftWatch::Change DriftWatch::add(double residual, double expected_us, std::uint64_t member,
                                   double outlier) {
  if (count_ == length_) {
    std::shift_left(ring_.begin(), ring_.begin() + length_, 1);
    --count_;
  }
  ring_[static_cast<std::size_t>(count_++)] = {residual, expected_us, member};
  if (count_ < length_) return {};
  std::array<std::uint64_t, 8> seen{};
  int off = 0, members = 0;
  double longest = 0;
  std::vector<double> shifts;
  for (int k = 0; k < length_; ++k) {
    const Entry& entry = ring_[static_cast<std::size_t>(k)];
    if (std::abs(entry.residual) < outlier || (entry.residual > 0) != (residual > 0)) continue;
    ++off;
    shifts.push_back(entry.residual);
    longest = std::max(longest, entry.expected_us);
    const auto end = seen.begin() + members;
    if (std::find(seen.begin(), end, entry.member) == end)
      seen[static_cast<std::size_t>(members++)] = entry.member;
  }
  if (off < length_ - 1 || members < members_) return {};
  clear();
  return {median(shifts), kReachOfChange * longest};
}

History::Class& History::of(int size_class) {
  const auto at = static_cast<std::size_t>(size_class);
  if ((made_ >> size_class & 1) == 0) {
    made_ |= std::uint64_t{1} << size_class;
    index_[at] = static_cast<std::int8_t>(classes_.size());
    classes_.emplace_back();
  }
  return classes_[static_cast<std::size_t>(index_[at])];
}

int History::below(int size_class) const {
  const std::uint64_t lower = used_ & ((std::uint64_t{1} << size_class) - 1);
  return std::bit_width(lower) - 1;
}

int History::above(int size_class) const {
  const std::uint64_t upper = size_class == 63 ? 0 : used_ >> (size_class + 1);
  return upper == 0 ? -1 : size_class + 1 + std::countr_zero(upper);
}

void History::summarise(Class& c) {
  std::vector<double> sizes(c.ring.size()), times(c.ring.size());
  for (std::size_t k = 0; k < c.ring.size(); ++k) {
    sizes[k] = c.ring[k].size;
    times[k] = c.ring[k].log_us;
  }
  c.size = median(sizes);
  c.log_us = median(times);
  c.us = std::exp(c.log_us);
  for (double& time : times) time = std::abs(time - c.log_us);
  c.spread = kMadToSigma * median(times);
}

void History::accept(Class& c, Sample sample, std::uint64_t window) {
  if (c.ring.size() < window) {
    c.ring.push_back(sample);
  } else {
    c.ring[c.next] = sample;
    c.next = (c.next + 1) % window;
  }
  ++c.count;
  ++total_;
  c.pending_count = 0;
  // One sample changes the medians of a full window little; they take longer than all else here.
  if (c.ring.size() < window || c.count % kSamplesOfSummary == 0) summarise(c);
}

void History::shift(const DriftWatch::Change& change) {
  for (Class& c : classes_) {
    if (c.us > change.most_us) continue;
    for (Sample& sample : c.ring) sample.log_us += change.log_factor;
    c.log_us += change.log_factor;
    c.us = std::exp(c.log_us);
    c.pending_count = 0;
  }
  watch_.clear();
  ++drifts_;
  moved_at_ = total_;
}

History::Recorded History::record(std::uint64_t size, double us, const HybridOptions& options,
                                  bool settled) {
  const int at_class = size_class(size);
  const Sample sample{static_cast<double>(std::max<std::uint64_t>(size, 1)),
                      std::log(std::max(us, 1e-3))};
  const Estimate expected = at(size);
  const std::uint64_t bit = std::uint64_t{1} << at_class;
  Class& c = of(at_class);
  if ((begun_ & bit) == 0) {
    begun_ |= bit;
    c.first = sample;
    if (!settled) return {Verdict::first};
  }
  if (!has(at_class)) {
    used_ |= bit;
    accept(c, sample, options.window);
    return {Verdict::normal};
  }
  const double residual = sample.log_us - std::log(expected.us);
  const double outlier = std::log(options.outlier_factor);
  if (const DriftWatch::Change change =
          watch_.add(residual, expected.us, static_cast<std::uint64_t>(at_class), outlier);
      change.log_factor != 0) {
    shift(change);
    return {Verdict::drift, residual, expected.us};
  }
  if (std::abs(residual) <= std::max(outlier, 3 * c.spread)) {
    accept(c, sample, options.window);
    return {Verdict::normal, residual, expected.us};
  }
  return {set_aside(c, sample, options.drift_samples), residual, expected.us};
}

History::Verdict History::set_aside(Class& c, Sample sample, std::uint64_t enough) {
  const bool slower = sample.log_us > c.log_us;
  if (c.pending_count > 0 && (c.pending[0].log_us > c.log_us) != slower) c.pending_count = 0;
  c.pending[c.pending_count++] = sample;
  if (c.pending_count < enough) return Verdict::outlier;
  const auto begin = c.pending.begin();
  c.ring.assign(begin, begin + static_cast<std::ptrdiff_t>(c.pending_count));
  c.next = c.pending_count = 0;
  summarise(c);
  ++drifts_;
  moved_at_ = total_;
  return Verdict::drift;
}

/// Uses the line through two classes, which is exact for time = a + b size, or the curve of
/// constant exponent if that line would reach zero.
double History::time_at(double size, int low, int high) const {
  const Class& a = known(low);
  const Class& b = known(high);
  const double ta = a.us, tb = b.us;
  if (!(b.size > a.size)) return ta;
  const double rate = (tb - ta) / (b.size - a.size);
  if (rate <= 0) return ta + rate * (std::clamp(size, a.size, b.size) - a.size);
  if (ta - rate * a.size >= 0) return ta + rate * (size - a.size);
  const double exponent = (b.log_us - a.log_us) / std::log(b.size / a.size);
  return ta * std::pow(size / a.size, exponent);
}

double History::samples_near(int size_class) const {
  constexpr double kWeights[] = {1, 0.5, 0.25, 0.125};  // by distance
  double near = 0;
  for (int c = std::max(0, size_class - 3); c <= std::min(kSizeClasses - 1, size_class + 3); ++c) {
    if (has(c))
      near += static_cast<double>(known(c).ring.size()) * kWeights[std::abs(c - size_class)];
  }
  return near;
}

/// Estimate from first samples alone.
Estimate History::provisional(int size_class) const {
  if (begun_ == 0) return {};
  int nearest = -1;
  for (int c = 0; c < kSizeClasses; ++c) {
    if ((begun_ >> c & 1) == 0) continue;
    if (nearest < 0 || std::abs(c - size_class) < std::abs(nearest - size_class)) nearest = c;
  }
  return {.us = std::exp(known(nearest).first.log_us)};
}

int History::well_below(int size_class) const {
  for (int c = below(size_class); c >= 0; c = below(c)) {
    if (kLeastRatio * known(c).size <= known(size_class).size) return c;
  }
  return size_class;
}

int History::well_above(int size_class) const {
  for (int c = above(size_class); c >= 0; c = above(c)) {
    if (known(c).size >= kLeastRatio * known(size_class).size) return c;
  }
  return size_class;
}

Estimate History::at(std::uint64_t wanted) const {
  const int at_class = size_class(wanted);
  if (used_ == 0) return provisional(at_class);
  const double size = static_cast<double>(std::max<std::uint64_t>(wanted, 1));
  int low = below(at_class), high = above(at_class), nearest = at_class;
  if (has(at_class)) {
    (size < known(at_class).size ? high : low) = at_class;
  } else {
    nearest = low < 0 || (high >= 0 && high - at_class < at_class - low) ? high : low;
  }
  const double trust = low >= 0 && high >= 0 ? kTrustBetween : kTrustBeyond;
  // Beyond all classes: the line through the one at that end and the next one that is far enough.
  if (high < 0) {
    high = low;
    low = well_below(high);
  } else if (low < 0) {
    low = high;
    high = well_above(low);
  }
  Estimate estimate;
  const int distance = std::abs(nearest - at_class);
  if (low == high) {
    // One class: mostly work above it, mostly overhead below.
    const Class& only = known(low);
    const double root = std::sqrt(size / only.size);
    estimate.us = only.us * (size > only.size ? root * std::sqrt(root) : root);
    estimate.known = distance <= kReachOfOne;
  } else {
    estimate.us = time_at(size, low, high);
    estimate.known = distance <= kReachOfSeveral;
  }
  const double near = samples_near(nearest);
  const double spread = known(nearest).spread / kSpreadOfHalfTrust;
  estimate.samples = known(nearest).ring.size();
  estimate.confidence = near / (near + 2) / (1 + spread * spread);
  for (int k = 0; k < distance; ++k) estimate.confidence *= trust;
  return estimate;
}

std::uint64_t History::samples(int size_class) const {
  return has(size_class) ? known(size_class).count : 0;
}

std::vector<History::Row> History::rows() const {
  std::vector<Row> rows;
  for (int c = 0; c < kSizeClasses; ++c) {
    if (!has(c)) continue;
    const Class& k = known(c);
    rows.push_back({c, k.size, k.us, k.spread, k.count});
  }
  return rows;
}

void History::merge(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (row.size_class < 0 || row.size_class >= kSizeClasses || has(row.size_class)) continue;
    Class& c = of(row.size_class);
    used_ |= std::uint64_t{1} << row.size_class;
    c.ring = {{row.size, std::log(std::max(row.us, 1e-3))}};
    summarise(c);
    c.spread = row.spread;
  }
}

}  // namespace topograd::runtime::hybrid
