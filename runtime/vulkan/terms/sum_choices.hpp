// How the sums of each batch are made: by rule, plan record, memory or measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "../../plan/record/plan_record.hpp"
#include "device_term.hpp"
#include "device_terms.hpp"

namespace topograd::runtime::vulkan {

/// Says for each batch and pass whether its terms are stored before they are summed, and whether
/// values take a pass of their own. A choice that is worth a measurement stays open, and is made by
/// rule, until settle() measures it.
class SumChoices : Part {
 public:
  /// How the sums of a batch are made.
  struct Decision {
    PlanChoice choice;
    bool open = false;  // to be measured before the first evaluation
    ir::Hash128 key;    // key of the remembered choice
  };
  using Decisions = std::map<std::pair<std::size_t, Pass>, Decision>;
  /// Microseconds of the first way (evaluated again, or values in one pass) or of the second.
  using Time = std::function<double(bool second)>;

  explicit SumChoices(const Part& part) : Part(part) {}

  bool by_atomics() const;
  bool open(std::size_t k, Pass pass) { return decision(k, pass).open; }
  bool stores_terms(std::size_t k, Pass pass);
  bool one_pass(std::size_t k, Pass pass);
  /// Values in one pass or apart: not decided yet.
  bool undecided(std::size_t k, Pass pass) const;
  /// Measures what is open. True if something was.
  bool settle(std::size_t k, Pass pass, const Time& time);

  void swap(Decisions& decisions) { std::swap(*decisions_, decisions); }
  /// Adds what was decided by batch.
  void describe(PlanRecord& record) const;
  /// As Plans::accumulation().
  std::string accumulation() const;

 private:
  Decision& decision(std::size_t k, Pass pass);
  void decide_values(std::size_t k, Pass pass, Decision& made);
  /// True if f64 is computed by integers: other choices are fast then.
  bool emulates() const;
  ir::Hash128 tuning_key(std::size_t k, Pass pass);
  void remember_decision(std::string_view kind, const Decision& made);

  Derived<Decisions> decisions_{recorder_.structure};
};

/// Operations of one evaluation of a pass over all slots; a library function counts as several.
std::uint64_t pass_cost(const TermShape& shape, Pass pass);

/// The work of one evaluation of a pass that is summed by block.
struct SumWork {
  std::uint64_t entries = 0;     ///< summed terms; of stored terms those of one evaluation
  std::uint64_t operations = 0;  ///< functions count as one
  std::uint64_t bytes = 0;       ///< bytes of columns, and of stored terms
};
SumWork sum_work(const Context& context, DeviceTerm& term, Pass pass, bool stored_terms);

}  // namespace topograd::runtime::vulkan
