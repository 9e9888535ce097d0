// Test models and reference sums.
#include "engine_models.hpp"

#include "../../../autodiff/derivatives.hpp"
#include "../../../ir/evaluate.hpp"
#include "../../../ir/text.hpp"

#include <array>
#include <cmath>
#include <random>

namespace topograd::test {
namespace {

constexpr const char* kSpring = R"(program parameters=6 data=1 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = parameter 4
  %5 = parameter 5
  %6 = data 0
  %7 = sub %0, %3
  %8 = sub %1, %4
  %9 = sub %2, %5
  %10 = square %7
  %11 = square %8
  %12 = square %9
  %13 = add %10, %11
  %14 = add %13, %12
  %15 = sqrt %14
  %16 = sub %15, %6
  return %16
}
)";

constexpr const char* kHinge = R"(program parameters=9 data=3 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = parameter 4
  %5 = parameter 5
  %6 = parameter 6
  %7 = parameter 7
  %8 = parameter 8
  %9 = data 0
  %10 = data 1
  %11 = data 2
  %12 = sub %0, %3
  %13 = sub %1, %4
  %14 = sub %2, %5
  %15 = mul %7, %11
  %16 = mul %8, %10
  %17 = mul %8, %9
  %18 = mul %6, %11
  %19 = mul %6, %10
  %20 = mul %7, %9
  %21 = sub %15, %16
  %22 = sub %17, %18
  %23 = sub %19, %20
  %24 = sub %12, %21
  %25 = sub %13, %22
  %26 = sub %14, %23
  %27 = sub %24, %9
  %28 = sub %25, %10
  %29 = sub %26, %11
  return %27, %28, %29
}
)";

constexpr const char* kAnchor = R"(program parameters=3 data=3 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = data 0
  %4 = data 1
  %5 = data 2
  %6 = sub %0, %3
  %7 = sub %1, %4
  %8 = sub %2, %5
  return %6, %7, %8
}
)";

// Rows: u (sin(p0 a) + p1 b - d), u exp(-p2^2) (p3 and p4 are the shared block a, b).
constexpr const char* kShared = R"(program parameters=5 data=1 uniforms=1 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = parameter 4
  %5 = data 0
  %6 = uniform 0
  %7 = mul %0, %3
  %8 = sin %7
  %9 = mul %1, %4
  %10 = add %8, %9
  %11 = sub %10, %5
  %12 = mul %6, %11
  %13 = square %2
  %14 = neg %13
  %15 = exp %14
  %16 = mul %6, %15
  return %12, %16
}
)";

constexpr const char* kChain = R"(program parameters=2 data=1 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = data 0
  %3 = mul %0, %1
  %4 = sub %3, %2
  return %4
}
)";

// exp(p0 p1) - d cos(p2) p0: not convex.
constexpr const char* kWell = R"(program parameters=3 data=1 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = data 0
  %4 = mul %0, %1
  %5 = exp %4
  %6 = cos %2
  %7 = mul %3, %6
  %8 = mul %7, %0
  %9 = sub %5, %8
  return %9
}
)";

struct Instance {
  std::vector<long double> parameters, data, uniforms;
};

Instance instance_of(const OwnedModel& m, const runtime::Term& term, std::size_t row) {
  const ir::LeafCounts& leaves = term.topology->program.leaves;
  Instance in;
  for (std::uint32_t k = 0; k < leaves.parameters; ++k) {
    in.parameters.push_back(m.x[term.batch->index(row, k)]);
  }
  for (std::uint32_t k = 0; k < leaves.data; ++k) in.data.push_back(term.batch->data(row, k));
  for (std::uint32_t k = 0; k < leaves.uniforms; ++k) {
    in.uniforms.push_back(m.model.uniforms[term.batch->index(row, leaves.parameters + k)]);
  }
  return in;
}

template <class Visit>
void each_instance(const OwnedModel& m, const runtime::Term& term, const ir::Program& program,
                   Visit visit) {
  for (std::size_t row = 0; row < term.batch->size(); ++row) {
    const Instance in = instance_of(m, term, row);
    visit(row,
          ir::evaluate<long double>(
              program, {.parameters = in.parameters, .data = in.data, .uniforms = in.uniforms}));
  }
}

}  // namespace

ir::Batch& OwnedModel::add_term(const std::string& name, const char* text) {
  auto topology = std::make_unique<ir::Topology>();
  topology->program = ir::parse(text);
  topology->hash.add(std::hash<std::string>{}(name));
  const ir::LeafCounts& leaves = topology->program.leaves;
  batches.push_back(std::make_unique<ir::Batch>(leaves.parameters, leaves.uniforms, leaves.data));
  topologies.push_back(std::move(topology));
  model.terms.push_back({topologies.back().get(), batches.back().get(), name});
  return *batches.back();
}

void OwnedModel::add_row(std::size_t term, std::vector<std::uint32_t> indices,
                         std::vector<double> data) {
  if (model.terms[term].energy) {
    batches[term]->append(indices, data, batches[term]->size());
    return;
  }
  batches[term]->append(indices, data, model.rows);
  model.rows += topologies[term]->program.outputs.size();
}

OwnedModel springs_model(std::uint32_t vertices, std::uint32_t edges) {
  OwnedModel m;
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(-1, 1);
  m.model.arrays = {{0, 3, vertices}};
  m.model.scalars = 3 * vertices;
  for (std::uint32_t k = 0; k < 3 * vertices; ++k) m.x.push_back(uniform(random));
  m.add_term("spring", kSpring);
  m.add_term("anchor", kAnchor);
  for (std::uint32_t e = 0; e < edges; ++e) {
    const std::uint32_t a = e % vertices;
    const std::uint32_t b = (a + 1 + random() % (vertices - 1)) % vertices;
    m.add_row(0, {3 * a, 3 * a + 1, 3 * a + 2, 3 * b, 3 * b + 1, 3 * b + 2},
              {0.5 + uniform(random) / 4});
    if (e < 4) m.add_row(1, {3 * a, 3 * a + 1, 3 * a + 2}, {0.25, -0.5, uniform(random)});
  }
  return m;
}

OwnedModel shared_model(std::uint32_t blocks) {
  OwnedModel m;
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  m.model.arrays = {{0, 3, blocks}, {3ull * blocks, 2, 1}};
  m.model.scalars = 3 * blocks + 2;
  m.model.uniforms = {0.25, 1.5};
  for (std::uint64_t k = 0; k < m.model.scalars; ++k) m.x.push_back(uniform(random));
  m.add_term("shared", kShared);
  const std::uint32_t s = 3 * blocks;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    m.add_row(0, {3 * b, 3 * b + 1, 3 * b + 2, s, s + 1, 1}, {uniform(random)});
  }
  return m;
}

OwnedModel energy_model(std::uint32_t vertices, std::uint32_t edges) {
  OwnedModel m = springs_model(vertices, edges);
  m.add_term("well", kWell);
  m.model.terms.back().energy = true;
  for (std::uint32_t v = 0; v + 1 < vertices; ++v) {
    m.add_row(2, {3 * v, 3 * v + 2, 3 * v + 4}, {0.5 + 0.01 * (v % 7)});
  }
  return m;
}

OwnedModel chain_model(std::uint32_t scalars) {
  OwnedModel m;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  m.model.arrays = {{0, 4, scalars / 4}};
  m.model.scalars = scalars;
  for (std::uint32_t k = 0; k < scalars; ++k) m.x.push_back(uniform(random));
  m.add_term("chain", kChain);
  for (std::uint32_t k = 0; k + 1 < scalars; ++k) m.add_row(0, {k, k + 1}, {uniform(random)});
  return m;
}

double reference_cost(const OwnedModel& m) {
  long double sum = 0;
  for (const runtime::Term& term : m.model.terms) {
    each_instance(m, term, term.topology->program, [&](std::size_t, const auto& rows) {
      for (long double r : rows) sum += term.energy ? r : r * r / 2;
    });
  }
  return static_cast<double>(sum);
}

std::vector<std::vector<double>> reference_jacobian(const OwnedModel& m) {
  std::vector<std::vector<double>> jacobian(m.model.rows,
                                            std::vector<double>(m.model.scalars, 0.0));
  for (const runtime::Term& term : m.model.terms) {
    if (term.energy) continue;
    const ir::Program& f = term.topology->program;
    const std::uint32_t n = f.leaves.parameters;
    const ir::Program program = autodiff::jacobian(f, autodiff::all_slots(f));
    each_instance(m, term, program, [&](std::size_t row, const auto& values) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        jacobian[term.batch->residual_row(row) + k / n][term.batch->index(
            row, static_cast<std::uint32_t>(k % n))] += static_cast<double>(values[k]);
      }
    });
  }
  return jacobian;
}

std::vector<double> reference_gradient(const OwnedModel& m) {
  std::vector<long double> sum(m.model.scalars, 0);
  for (const runtime::Term& term : m.model.terms) {
    const ir::Program& f = term.topology->program;
    const auto slots = autodiff::all_slots(f);
    const ir::Program program =
        term.energy ? autodiff::scalar_gradient(f, slots) : autodiff::gradient(f, slots);
    each_instance(m, term, program, [&](std::size_t row, const auto& g) {
      for (std::uint32_t k = 0; k < g.size(); ++k) sum[term.batch->index(row, k)] += g[k];
    });
  }
  return {sum.begin(), sum.end()};
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  long double error = 0, norm = 0;
  for (std::size_t k = 0; k < b.size(); ++k) {
    error += (static_cast<long double>(a[k]) - b[k]) * (static_cast<long double>(a[k]) - b[k]);
    norm += static_cast<long double>(b[k]) * b[k];
  }
  return static_cast<double>(std::sqrt(error / norm));
}

void round_to_float(OwnedModel& m) {
  const auto narrow = [](double& v) { v = static_cast<float>(v); };
  for (double& v : m.x) narrow(v);
  for (double& v : m.model.uniforms) narrow(v);
  for (auto& batch : m.batches) {
    for (std::size_t row = 0; row < batch->size(); ++row) {
      for (std::uint32_t k = 0; k < batch->data_columns(); ++k) {
        batch->set_data(row, k, static_cast<float>(batch->data(row, k)));
      }
    }
  }
}

OwnedModel sheet_model(std::uint32_t width) {
  OwnedModel m;
  const std::uint32_t n = width * width;
  m.model.arrays = {{0, 3, n}, {3 * n, 3, n}};
  m.model.scalars = 6 * n;
  const auto rest = [&](std::uint32_t k) {
    return std::array<double, 3>{10.0 + k % width, 20.0 + k / width, 0.1 * std::sin(double(k))};
  };
  for (std::uint32_t k = 0; k < n; ++k) {
    for (const double c : rest(k)) m.x.push_back(c);
  }
  m.x.resize(6 * n, 0.0);
  m.add_term("hinge", kHinge);
  for (std::uint32_t a = 0; a < n; ++a) {
    for (const auto& [dx, dy] :
         std::array<std::array<int, 2>, 6>{{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}}}) {
      const int x = int(a % width) + dx, y = int(a / width) + dy;
      if (x < 0 || y < 0 || x >= int(width) || y >= int(width)) continue;
      const auto b = static_cast<std::uint32_t>(y) * width + static_cast<std::uint32_t>(x);
      const auto u = rest(a), v = rest(b);
      const std::uint32_t p = 3 * a, q = 3 * b, r = 3 * n + 3 * a;
      m.add_row(0, {p, p + 1, p + 2, q, q + 1, q + 2, r, r + 1, r + 2},
                {u[0] - v[0], u[1] - v[1], u[2] - v[2]});
    }
  }
  return m;
}

OwnedModel pulled_sheet_model(std::uint32_t width) {
  OwnedModel m = sheet_model(width);
  m.add_term("anchor", kAnchor);
  for (const std::uint32_t k : {0u, width - 1, width * (width - 1)}) {
    const double pull = k == 0 ? 3.0 : 0.0;
    m.add_row(1, {3 * k, 3 * k + 1, 3 * k + 2},
              {m.x[3 * k], m.x[3 * k + 1], m.x[3 * k + 2] + pull});
  }
  return m;
}

}  // namespace topograd::test
