// Memory of the interpreter by use.
#include "cpu_engine.hpp"

namespace topograd::runtime::cpu {
namespace {

template <class T>
std::uint64_t bytes_of(const Column<T>& column) {
  return column.size() * sizeof(T);
}

template <class T>
std::uint64_t bytes_of(const std::vector<T>& items) {
  return items.capacity() * sizeof(T);
}

template <class T>
std::uint64_t bytes_of(const std::vector<Column<T>>& columns) {
  std::uint64_t total = 0;
  for (const Column<T>& column : columns) total += bytes_of(column);
  return total;
}

}  // namespace

template <class T>
typename TermState<T>::Bytes TermState<T>::bytes() const {
  Bytes total;
  for (const Role& role : index_.roles) total.index += bytes_of(role.base);
  for (const UniformPlace& place : index_.uniforms) total.index += bytes_of(place.column);
  total.index += bytes_of(index_.rows);
  const OwnerLists& lists = index_.owners;
  total.lists = bytes_of(lists.owners) + bytes_of(lists.starts) + bytes_of(lists.entries) +
                bytes_of(lists.segments);
  for (const Data& data : data_) total.data += bytes_of(data.numbers);
  total.stored = bytes_of(terms_) + bytes_of(linear_) + bytes_of(applied_) + bytes_of(seeds_) +
                 (windows_ ? windows_->bytes() : 0);
  return total;
}

template <class T>
std::vector<MemoryUse> CpuEngine<T>::memory() const {
  typename TermState<T>::Bytes terms;
  for (const auto& term : terms_) {
    const auto of_term = term->bytes();
    terms.index += of_term.index;
    terms.lists += of_term.lists;
    terms.data += of_term.data;
    terms.stored += of_term.stored;
  }
  std::uint64_t vectors = bytes_of(uniforms_) + bytes_of(constant_);
  for (const Column<T>* v :
       {&x_, &trial_, &gradient_, &delta_, &direction_, &sums_, &scale_, &damping_, &cg_.residual,
        &cg_.preconditioned, &cg_.direction, &cg_.product})
    vectors += bytes_of(*v);
  std::vector<MemoryUse> uses = {{"index columns", terms.index, 0},
                                 {"instances by block", terms.lists, 0},
                                 {"data columns", terms.data, 0},
                                 {"stored residuals, Jacobians and terms", terms.stored, 0},
                                 {"vectors of unknowns", vectors, 0},
                                 {"diagonal blocks", bytes_of(blocks_), 0}};
  uses = together(std::move(uses), preconditioner_->memory());
  std::erase_if(uses, [](const MemoryUse& use) { return use.host == 0; });
  return uses;
}

template typename TermState<float>::Bytes TermState<float>::bytes() const;
template typename TermState<double>::Bytes TermState<double>::bytes() const;
template std::vector<MemoryUse> CpuEngine<float>::memory() const;
template std::vector<MemoryUse> CpuEngine<double>::memory() const;

}  // namespace topograd::runtime::cpu
