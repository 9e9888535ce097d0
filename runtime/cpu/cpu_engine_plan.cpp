// The plan record of the interpreter: the figures of its kernels. There are no choices.
#include "cpu_engine.hpp"

#include "../plan/passes.hpp"

#include <set>
#include <string>
#include <utility>

namespace topograd::runtime::cpu {
namespace {

Pass pass_of(Part part) {
  switch (part) {
    case Part::Residual: return Pass::residual;
    case Part::Gradient: return Pass::gradient;
    case Part::Vjp: return Pass::vjp;
    case Part::Jtjp: return Pass::jtjp;
    case Part::Jvp: return Pass::jvp;
    case Part::Jacobian: return Pass::jacobian;
    case Part::Linear: return Pass::stored_jacobian;
    case Part::ApplyLinear:
    case Part::JtjpLinear: return Pass::stored_jtjp;
    case Part::Hvp: return Pass::hvp;
    case Part::Hessian: return Pass::hessian;
    case Part::Cost: return Pass::cost;
    case Part::Guards: return Pass::guards;
    case Part::CostGradient: return Pass::cost_gradient;
    case Part::Values: return Pass::values;
  }
  return Pass::residual;
}

/// True if the part's stored terms are summed by block.
bool is_summed(Part part) {
  return part == Part::Gradient || part == Part::Vjp || part == Part::Jtjp || part == Part::Hvp ||
         part == Part::CostGradient || part == Part::Values;
}

}  // namespace

/// Bytes per instance of the columns that the kernel reads, and of what it stores.
template <class T>
std::uint64_t TermState<T>::bytes_of_instance(const Kernel& kernel) const {
  std::uint64_t bytes = kernel.columns * sizeof(T);
  for (const LeafUse& leaf : kernel.tile.program().columns) {
    const bool shared =
        leaf.op == ir::Op::Data && leaf.slot < data_.size() && data_[leaf.slot].shared;
    bytes += shared ? 0 : sizeof(T);
  }
  std::set<std::uint32_t> roles;
  for (const LeafUse& leaf : kernel.tile.program().gathers) {
    if (leaf.op != ir::Op::Uniform) {
      roles.insert(index_.slots[leaf.slot].role);
    } else if (index_.uniforms[leaf.slot].column.size() > 0) {
      bytes += sizeof(std::uint32_t);
    }
  }
  return bytes + roles.size() * sizeof(std::uint32_t);
}

template <class T>
std::vector<PlanChoice> TermState<T>::kernels_made() const {
  std::vector<PlanChoice> made;
  for (std::size_t k = 0; k < kParts; ++k) {
    const Kernel* const kernel = (*kernels_)[k].get();
    if (kernel == nullptr) continue;
    const Part part = static_cast<Part>(k);
    PlanChoice& choice = made.emplace_back();
    choice.topology = to_string(term_.topology->hash);
    choice.name = term_.name;
    choice.pass = name(pass_of(part));
    choice.instances = index_.instances;
    choice.accumulation = Accumulation::gather_store;
    choice.one_pass = part == Part::CostGradient || part == Part::Values;
    choice.operations = index_.instances * kernel->operations;
    choice.bytes = index_.instances * bytes_of_instance(*kernel);
    if (!is_summed(part)) continue;
    choice.entries = index_.owners.entries.size();
    choice.bytes +=
        index_.instances * kernel->columns * sizeof(T) + choice.entries * sizeof(std::uint32_t);
  }
  return made;
}

template <class T>
PlanRecord CpuEngine<T>::plan() const {
  PlanRecord record;
  record.device = device();
  record.precision = sizeof(T) == sizeof(float) ? "f32" : "f64";
  record.product = "stored_jacobian";
  for (const auto& term : terms_) {
    for (PlanChoice& made : term->kernels_made()) record.batches.push_back(std::move(made));
  }
  return record;
}

template std::vector<PlanChoice> TermState<float>::kernels_made() const;
template std::vector<PlanChoice> TermState<double>::kernels_made() const;
template PlanRecord CpuEngine<float>::plan() const;
template PlanRecord CpuEngine<double>::plan() const;

}  // namespace topograd::runtime::cpu
