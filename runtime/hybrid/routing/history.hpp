// Times of one kernel on one target by size: robust medians, outliers, drift.
#pragma once

#include "options.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace topograd::runtime::hybrid {

/// Sizes in [2^c, 2^(c+1)) are of class c; 0 is of class 0.
inline constexpr int kSizeClasses = 64;
int size_class(std::uint64_t size);

/// Estimate for a task.
struct Estimate {
  double us = 0;
  double confidence = 0;      ///< in [0, 1): from the number of samples, their spread and distance
  std::uint64_t samples = 0;  ///< on which it is based
  bool known = false;         ///< samples are near enough for an estimate

  explicit operator bool() const { return known; }
};

/// Effects that slow short work (cold caches, waking threads) say nothing about long work: a change
/// is applied to times up to this many times those that have changed.
inline constexpr double kReachOfChange = 2;

/// The last residuals, log(measured / expected), of a group of histories. If most of them, from
/// several members, deviate to one side, the whole group has changed, except for much longer times.
class DriftWatch {
 public:
  /// A change of the group; log_factor 0: none.
  struct Change {
    double log_factor = 0;
    double most_us = 0;  ///< largest expected time that has changed
  };

  ///   length  number of residuals, <= 8    members  number of different members that must agree
  DriftWatch(int length, int members) : length_(length), members_(members) {}

  /// Adds the residual of work with this expected time.
  Change add(double residual, double expected_us, std::uint64_t member, double outlier);
  void clear() { count_ = 0; }

 private:
  struct Entry {
    double residual = 0;
    double expected_us = 0;
    std::uint64_t member = 0;
  };
  int length_, members_;
  int count_ = 0;
  std::array<Entry, 8> ring_{};
};

/// Times of one kind of work by its size.
///
/// Within a size class the estimate is the median of the last samples. The first sample (compilers,
/// cold caches) counts only until the second comes. A sample that deviates by more than
/// `outlier_factor` and three times the spread is left out, until `drift_samples` of them in a row
/// replace all older samples. Times are interpolated between classes and extrapolated beyond them
/// with falling confidence. Not thread-safe.
class History {
 public:
  enum class Verdict { first, normal, outlier, drift };
  struct Recorded {
    Verdict verdict = Verdict::first;
    double residual = 0;     ///< log(measured / expected), if this class had an estimate
    double expected_us = 0;  ///< the estimate
  };

  ///   settled  a median of several runs, so that a first sample counts too
  ///
  /// Cost: the median of one class.
  Recorded record(std::uint64_t size, double us, const HybridOptions& options,
                  bool settled = false);
  /// Cost: some tens of ns.
  Estimate at(std::uint64_t size) const;

  /// Accepted samples of a size class without the first one.
  std::uint64_t samples(int size_class) const;
  std::uint64_t samples() const { return total_; }
  std::uint64_t drifts() const { return drifts_; }
  /// True if the data were replaced or shifted within the last few samples.
  bool moved_lately() const { return drifts_ > 0 && total_ < moved_at_ + 8; }
  /// Multiplies known times by exp(log_factor): the machine has changed.
  void shift(const DriftWatch::Change& change);

  /// One size class, as saved and transferred to other machines.
  struct Row {
    int size_class = 0;
    double size = 0;    ///< median
    double us = 0;      ///< median
    double spread = 0;  ///< robust standard deviation of log(us)
    std::uint64_t count = 0;
  };
  std::vector<Row> rows() const;
  /// Adds rows for classes without measurements, one sample each: priors that measurements
  /// outweigh.
  void merge(const std::vector<Row>& rows);

 private:
  struct Sample {
    double size = 0, log_us = 0;
  };
  struct Class {
    std::vector<Sample> ring;  // accepted
    std::uint64_t next = 0, count = 0;
    std::array<Sample, 64> pending{};  // outliers in a row
    std::uint64_t pending_count = 0;
    Sample first;
    double size = 0, log_us = 0, us = 0, spread = 0;
  };

  Class& of(int size_class);
  const Class& known(int size_class) const {
    return classes_[static_cast<std::size_t>(index_[static_cast<std::size_t>(size_class)])];
  }
  bool has(int size_class) const { return (used_ >> size_class & 1) != 0; }
  int below(int size_class) const;  // the nearest class with samples below this one, or -1
  int above(int size_class) const;
  // The nearest class whose size differs enough for a line through both; without one, this class.
  int well_below(int size_class) const;
  int well_above(int size_class) const;
  Estimate provisional(int size_class) const;
  void accept(Class& c, Sample sample, std::uint64_t window);
  Verdict set_aside(Class& c, Sample sample, std::uint64_t enough);
  static void summarise(Class& c);
  double time_at(double size, int low, int high) const;
  double samples_near(int size_class) const;

  std::vector<Class> classes_;
  std::array<std::int8_t, kSizeClasses> index_{};  // into classes_, of those that exist
  // One bit per class: it exists; it has a first sample; it has accepted samples.
  std::uint64_t made_ = 0, begun_ = 0, used_ = 0;
  std::uint64_t total_ = 0, drifts_ = 0, moved_at_ = 0;
  DriftWatch watch_{5, 2};
};

}  // namespace topograd::runtime::hybrid
