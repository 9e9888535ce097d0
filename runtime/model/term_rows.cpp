// Leaf values of a term's instances, as rows.
#include "term_rows.hpp"

namespace topograd::runtime {

Rows rows_of(const Model& model, const Term& term, std::span<const double> x, std::size_t first,
             std::size_t count) {
  const ir::Batch& batch = *term.batch;
  const auto columns = [&](std::uint32_t width, auto read) {
    Columns out(width, std::vector<double>(count));
    for (std::uint32_t c = 0; c < width; ++c) {
      for (std::size_t i = 0; i < count; ++i) out[c][i] = read(first + i, c);
    }
    return out;
  };
  const std::uint32_t slots = batch.parameter_columns();
  return {.count = count,
          .parameters =
              columns(slots, [&](std::size_t i, std::uint32_t c) { return x[batch.index(i, c)]; }),
          .data = columns(batch.data_columns(),
                          [&](std::size_t i, std::uint32_t c) { return batch.data(i, c); }),
          .uniforms = columns(batch.uniform_columns(),
                              [&](std::size_t i, std::uint32_t c) {
                                return model.uniforms[batch.index(i, slots + c)];
                              }),
          .tangents = {},
          .seeds = {}};
}

}  // namespace topograd::runtime
