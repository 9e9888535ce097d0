// Which kernels of terms serve: general ones, and those that take their place.
#pragma once

#include "../linear/normal_products.hpp"
#include "begun_evaluations.hpp"

#include <memory>
#include <vector>

namespace topograd::runtime::vulkan {

/// General kernels serve from the start. In the background, others are made for all that was asked
/// for until then, which take their place once they are all there:
///
/// - Without fixed blocks, where many blocks are constant: these get no derivatives and no sums.
/// - With numbers in their code that all instances share. These serve until a number changes.
///
/// If one of them cannot be made, general kernels go on.
class KernelVariants : Part {
 public:
  /// All of these outlive it.
  KernelVariants(const Part& part, TermRows& rows, TermSums& sums, NormalProducts& products,
                 BegunEvaluations& begun)
      : Part(part), rows_(rows), sums_(sums), products_(products), begun_(begun) {}

  /// General kernels serve a model that has just been arranged; finds which others are worth it.
  void build();
  /// Damped steps are asked for from here on, with all lists that it records. False: they were
  /// before.
  bool use_steps(Recorder::Record steps);

  /// Begins to make kernels that are worth it, and changes to those that are there. No
  /// linearisation is in use.
  void follow();
  /// The same for kernels without fixed blocks alone.
  void follow_fixed();

  /// Numbers that were to be code have changed.
  void numbers_changed();
  /// Copies data columns of small terms again, also for kernels to come.
  void refresh_data();

 private:
  struct Variant {
    enum class Stage { none, wanted, compiling, serving } stage = Stage::none;
    std::vector<std::shared_ptr<KernelJob>> jobs;

    bool has_all() const;
    /// False, and none from here on: one of them could not be made.
    bool take();
  };

  /// Data made for kernels without fixed blocks.
  struct Made {
    TermSums::Made sums;
    NormalProducts::Made products;
  };

  bool find_fixed();
  void swap(Made& made) {
    sums_.swap(made.sums);
    products_.swap(made.products);
  }
  void make_without_fixed();
  void serve_without_fixed();
  /// Kernels without fixed blocks write nothing that belongs to these.
  void clear_sums();
  void make_with_numbers();
  void serve_with_numbers();
  void drop_numbers();
  void record_steps(CommandList& list) const;
  bool sums_are_used() const { return sums_.is_used() || *steps_; }

  TermRows& rows_;
  TermSums& sums_;
  NormalProducts& products_;
  BegunEvaluations& begun_;
  Variant without_fixed_, with_numbers_;
  Made made_;  // until these kernels serve
  Derived<Recorder::Record> steps_{recorder_.structure};
};

}  // namespace topograd::runtime::vulkan
