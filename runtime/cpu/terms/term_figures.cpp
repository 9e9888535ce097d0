// Figures of a batch: of its kernels for plan records, and bytes.
#include "term.hpp"

#include "../../plan/passes.hpp"
#include "../tiles/column_bytes.hpp"

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

/// As kernels are named, after the label of the residuals.
const char* name_of(Part part) {
  switch (part) {
    case Part::Residual: return "residual";
    case Part::Gradient: return "gradient";
    case Part::Vjp: return "vjp";
    case Part::Jtjp: return "jtjp";
    case Part::Jvp: return "jvp";
    case Part::Jacobian: return "jacobian";
    case Part::Linear: return "stored_jacobian";
    case Part::ApplyLinear: return "stored_jvp";
    case Part::JtjpLinear: return "stored_jtjp";
    case Part::Hvp: return "hvp";
    case Part::Hessian: return "hessian";
    case Part::Cost: return "cost";
    case Part::Guards: return "guards";
    case Part::CostGradient: return "cost_gradient";
    case Part::Values: return "values";
  }
  return "residual";
}

/// True if the part's stored terms are summed by block.
bool is_summed(Part part) {
  return part == Part::Gradient || part == Part::Vjp || part == Part::Jtjp || part == Part::Hvp ||
         part == Part::CostGradient || part == Part::Values;
}

}  // namespace

/// Bytes per instance of the columns that the kernel reads, and of what it stores.
template <class T>
std::uint64_t TermState<T>::bytes_of_instance(const Kernel<T>& kernel) const {
  std::uint64_t bytes = kernel.columns * sizeof(T);
  for (const LeafUse& leaf : kernel.tile.program().columns) {
    const bool shared =
        leaf.op == ir::Op::Data && leaf.slot < data_.size() && data_.is_shared(leaf.slot);
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
TimedPass TermState<T>::timed(Part part) {
  return {name_of(part), identifier_, term_.topology, [&] {
            std::uint64_t& bytes = bytes_of_part_[static_cast<std::size_t>(part)];
            if (bytes == 0) bytes = index_.instances * bytes_of_instance(kernel(part));
            return bytes;
          }};
}

template <class T>
std::vector<PlanChoice> TermState<T>::kernels_made() const {
  std::vector<PlanChoice> made;
  for (std::size_t k = 0; k < kParts; ++k) {
    const Part part = static_cast<Part>(k);
    const Kernel<T>* const kernel = kernels_->made(part);
    if (kernel == nullptr) continue;
    PlanChoice& choice = made.emplace_back();
    choice.topology = to_string(term_.topology->hash);
    choice.name = term_.name;
    choice.pass = name(pass_of(part));
    choice.instances = index_.instances;
    choice.accumulation = codegen::Accumulation::gather_store;
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
typename TermState<T>::Bytes TermState<T>::bytes() const {
  Bytes total;
  for (const Role& role : index_.roles) total.index += bytes_of(role.base);
  for (const UniformPlace& place : index_.uniforms) total.index += bytes_of(place.column);
  total.index += bytes_of(index_.rows);
  const OwnerLists& lists = index_.owners;
  total.lists = bytes_of(lists.owners) + bytes_of(lists.starts) + bytes_of(lists.entries) +
                bytes_of(lists.segments);
  total.data = data_.bytes();
  total.stored = bytes_of(terms_) + bytes_of(seeds_);
  return total;
}

template TimedPass TermState<float>::timed(Part part);
template TimedPass TermState<double>::timed(Part part);
template std::vector<PlanChoice> TermState<float>::kernels_made() const;
template std::vector<PlanChoice> TermState<double>::kernels_made() const;
template typename TermState<float>::Bytes TermState<float>::bytes() const;
template typename TermState<double>::Bytes TermState<double>::bytes() const;

}  // namespace topograd::runtime::cpu
