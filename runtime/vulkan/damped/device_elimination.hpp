// Elimination of blocks that do not meet, on a device: when it is possible, and its lists.
#pragma once

#include "../../engine/elimination.hpp"
#include "../linear/device_schur.hpp"
#include "../steps/point_moves.hpp"
#include "device_factorization.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

class DeviceElimination final : public Elimination, Part {
 public:
  /// All of these outlive it.
  DeviceElimination(const Part& part, const PointMoves& moves)
      : Part(part), moves_(moves), factorization_(part, moves) {}

  EliminationUse eliminate(std::span<const std::uint8_t> scalars) override;
  FactorUse factorize(bool wanted) override { return factorization_.factorize(wanted); }

  /// Marks the start of another solve.
  void begin_solve() { factorises_ = false; }
  /// Call after a solve with the lists of prepare(). After one with many iterations, the complement
  /// is factorised.
  void solved(int iterations);
  void transfer(ir::StateRecord& record);

  /// Lists of a solve by a factor or through the Schur complement; null: nothing is eliminated.
  const SolveLists* prepare();
  /// Records all lists of such a solve, if one was planned, to declare them.
  void record_all(CommandList& list);

 private:
  /// Describes the plan, or says why there is none.
  Why<MatrixReason> plan();
  SchurOperands operands() const;
  SolveLists make_lists();
  bool factorises() const;

  const PointMoves& moves_;
  DeviceFactorization factorization_;
  std::vector<std::uint8_t> eliminated_;  // by scalar, in the caller's order; empty: none
  bool factorises_ = false;               // the complement, from the next step on
  struct Solve {
    std::unique_ptr<DeviceSchur> schur;
    SolveLists iterates, factorises;
  };
  Derived<Solve> solve_{recorder_.kernels};  // Jacobians have other columns without fixed blocks
};

}  // namespace topograd::runtime::vulkan
