// The same problem in another form: other units, origins, orders and companions, built from the
// programs and numbers of a problem.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../support/judge.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace topograd::test {

/// What is changed. Unknown k becomes units(k) (x_k + shift(k)); blocks with a manifold keep their
/// numbers. The cost becomes residuals² times what it was.
struct Disguise {
  std::string name;
  double residuals = 1;
  std::function<double(std::size_t k)> unit = [](std::size_t) { return 1.0; };
  std::function<double(std::size_t k)> shift = [](std::size_t) { return 0.0; };
  std::function<double(std::size_t k, double start)> start = [](std::size_t, double x) {
    return x;
  };
  bool other_order = false;       ///< of arrays, of the blocks in them and of residuals
  bool twice = false;             ///< every residual, with half of the weight
  bool has_unread = false;        ///< an array that nothing reads
  bool has_no_weight = false;     ///< a residual of weight 0 that is NaN
  bool has_inequalities = false;  ///< in place of bounds
  bool has_slack_bounds = false;  ///< of ±1e100 in the unknown's unit, for all that have none
};

/// A problem in disguise, and its memory.
class Disguised {
 public:
  /// `from` has residuals alone, without opaque code.
  Disguised(const Problem& from, const Disguise& as);
  /// Several problems side by side.
  Disguised(const std::vector<Problem*>& from, const Disguise& as);

  Problem& problem() { return problem_; }
  /// The unknowns of the last problem without the disguise.
  std::vector<Real> plain() const;

 private:
  /// The place of an original scalar.
  struct Place {
    std::size_t array = 0, block = 0;
    int coordinate = 0;
    double unit = 1, shift = 0;
  };

  void add_problem(const Problem& from, const Disguise& as);
  void add_arrays(const Problem& from, const Disguise& as);
  void set_block(const Problem& from, const Disguise& as, std::size_t a, std::size_t b);
  void set_range(const Place& place, const Disguise& as, double lower, double upper, double slack);
  void add(const Problem& from, const Disguise& as, std::size_t t, std::size_t i);
  Value unknown(std::uint32_t scalar) const;

  std::vector<std::vector<double>> x_;      // by array of the last problem
  std::deque<std::vector<double>> before_;  // of problems before it
  std::vector<double> unread_ = {3, 4};
  std::vector<Place> places_;  // by scalar of the last problem
  std::vector<Parameters> arrays_;
  Problem problem_;
};

/// The relations under which optimum and verdict stay the same, for a problem with `unknowns`
/// scalars.
std::vector<Disguise> disguises(std::size_t unknowns);

}  // namespace topograd::test
