// Execution of instructions on tiles.
#include "interpreter.hpp"

#include <algorithm>

namespace topograd::runtime::cpu {

template <class T>
TileKernel<T>::TileKernel(const ir::Program& program, const TileOps<T>& ops)
    : program_(lower(program)), ops_(&ops), constants_(program_.literals.size() * kTile) {
  for (std::size_t k = 0; k < program_.literals.size(); ++k) {
    std::fill_n(constants_.data() + k * kTile, kTile, static_cast<T>(program_.literals[k]));
  }
}

template <class T>
void Worker<T>::reserve(const TileProgram& program) {
  if (registers_.size() < program.registers * kTile) {
    registers_ = Column<T>(program.registers * kTile);
  }
  if (outputs_.size() < program.outputs * kTile) outputs_ = Column<T>(program.outputs * kTile);
}

template <class T>
void Worker<T>::place(const TileKernel<T>& kernel, const Binding<T>& binding, std::size_t first) {
  const TileProgram& program = kernel.program();
  constants_and_columns_.resize(program.first_register());
  for (std::size_t k = 0; k < program.literals.size(); ++k) {
    constants_and_columns_[k] = kernel.constant(k);
  }
  for (std::size_t k = 0; k < program.columns.size(); ++k) {
    const ColumnSource<T>& column = binding.columns[k];
    constants_and_columns_[program.first_column() + k] = column.from + (column.shared ? 0 : first);
  }
}

template <class T>
void Worker<T>::run(const TileKernel<T>& kernel, const Binding<T>& binding, std::size_t first,
                    std::size_t n) {
  const TileProgram& program = kernel.program();
  const TileOps<T>& ops = kernel.ops();
  reserve(program);
  place(kernel, binding, first);
  const Place first_register = program.first_register();
  const std::size_t length = whole_lanes(n);
  const auto reg = [&](Place p) { return registers_.data() + (p - first_register) * kTile; };
  const auto at = [&](Place p) -> const T* {
    return p < first_register ? constants_and_columns_[p] : reg(p);
  };
  // Memory of an output; one that is streamed is computed in a register first.
  const auto output = [&](std::uint32_t k) {
    T* const column = binding.outputs.empty() ? nullptr : binding.outputs[k];
    return column == nullptr ? outputs_.data() + k * kTile : column + first;
  };
  const auto streams = [&](std::uint32_t k) {
    return binding.stream && !binding.outputs.empty() && binding.outputs[k] != nullptr;
  };
  const auto result = [&](const Instruction& in) {
    const bool is_stored = in.output != Instruction::kNoOutput && !streams(in.output);
    return is_stored ? output(in.output) : reg(in.out);
  };
  const auto store = [&](std::uint32_t k, const T* from) {
    (streams(k) ? ops.stream : ops.copy)(output(k), from, length);
  };
  for (const Instruction& in : program.instructions) {
    switch (in.action) {
      case Instruction::Action::Apply:
      case Instruction::Action::Both: {
        T* const out = result(in);
        const auto function = in.action == Instruction::Action::Apply
                                  ? ops.map[static_cast<std::size_t>(in.op)]
                                  : ops.pair[static_cast<std::size_t>(in.pair)];
        function(out, at(in.a), at(in.b), at(in.c), length);
        if (in.output != Instruction::kNoOutput && streams(in.output)) store(in.output, out);
        break;
      }
      case Instruction::Action::Load: {
        const GatherSource<T>& source = binding.gathers[in.a];
        if (source.index == nullptr) {
          std::fill_n(reg(in.out), length, *source.from);
        } else {
          ops.gather(reg(in.out), source.from, source.index + first, length);
        }
        break;
      }
      case Instruction::Action::Store: store(in.out, at(in.a)); break;
    }
  }
}

template class TileKernel<float>;
template class TileKernel<double>;
template class Worker<float>;
template class Worker<double>;

}  // namespace topograd::runtime::cpu
