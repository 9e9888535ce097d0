// Builds the source of kernels with expressions.
#include "map_kernel.hpp"

#include "../../codegen/glsl/text.hpp"
#include "../../ir/program.hpp"

#include <bit>

namespace topograd::ops {

using codegen::Precision;
using codegen::text;

Precision precision_for(std::span<const Type> types) {
  for (const Type type : types) {
    if (type != Type::f32) return Precision::f64;
  }
  return Precision::f32;
}

FittedExpression fit(const Expression& expression, Precision precision, std::uint32_t room) {
  const std::uint32_t width = precision == Precision::f64 ? 2 : 1;
  const std::vector<double>& numbers = expression.numbers();
  FittedExpression out{.program = expression.program(), .hash = expression.hash()};
  if (numbers.size() * width <= room) {
    out.numbers = static_cast<std::uint32_t>(numbers.size());
    for (const double number : numbers) {
      if (width == 1) {
        out.words.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(number)));
      } else {
        const auto bits = std::bit_cast<std::uint64_t>(number);
        out.words.push_back(static_cast<std::uint32_t>(bits));
        out.words.push_back(static_cast<std::uint32_t>(bits >> 32));
      }
    }
    return out;
  }
  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : out.program.nodes) {
    map.push_back(node.op == ir::Op::Data ? graph.literal(numbers[node.slot()])
                                          : graph.copy(node, map));
  }
  std::vector<ir::Id> outputs;
  for (const ir::Id id : out.program.outputs) outputs.push_back(map[id]);
  ir::LeafCounts leaves = out.program.leaves;
  leaves.data = 0;
  out.program = graph.extract(outputs, leaves);
  out.hash = hash_of(out.program);
  return out;
}

std::vector<std::string> number_words(const FittedExpression& fitted, Precision) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < fitted.words.size(); ++k) names.push_back(text("number_", k));
  return names;
}

std::string number_arguments(const FittedExpression& fitted, Precision precision) {
  std::string out;
  for (std::uint32_t k = 0; k < fitted.numbers; ++k) {
    out += precision == Precision::f64
               ? text(", packDouble2x32(uvec2(number_", 2 * k, ", number_", 2 * k + 1, "))")
               : text(", uintBitsToFloat(number_", k, ")");
  }
  return out;
}

std::string load_source(Type type, Precision precision, const std::string& element) {
  const std::string_view wanted = codegen::scalar_type(precision);
  return glsl_name(type) == wanted ? element : text(wanted, "(", element, ")");
}

std::string store_source(Type type, Precision precision, const std::string& number) {
  if (glsl_name(type) == codegen::scalar_type(precision)) return number;
  if (type == Type::i32) return "to_int(" + number + ")";
  if (type == Type::u32) return "to_uint(" + number + ")";
  return text(glsl_name(type), "(", number, ")");
}

std::string conversion_functions(Precision precision) {
  const std::string t(codegen::scalar_type(precision));
  const auto one = [&](const char* name, const char* type, const char* low, const char* low_bits,
                       const char* high, const char* high_bits) {
    return text(type, " ", name, "(", t, " x) {\n  if (!(x > ", t, "(", low, "))) return x != x ? ",
                type, "(0) : ", type, "(", low_bits, ");\n  return x >= ", t, "(", high, ") ? ",
                type, "(", high_bits, ") : ", type, "(x);\n}\n");
  };
  return one("to_int", "int", "-2147483648.0", "0x80000000", "2147483647.0", "0x7fffffff") +
         one("to_uint", "uint", "0.0", "0u", "4294967295.0", "0xffffffffu");
}

ir::Program column_program(const ir::Program& program) {
  ir::Graph graph;
  std::vector<ir::Id> map;
  for (const ir::Node& node : program.nodes) {
    if (node.op == ir::Op::Parameter) {
      map.push_back(graph.leaf(ir::Op::Data, node.slot()));
    } else if (node.op == ir::Op::Data) {
      map.push_back(graph.leaf(ir::Op::Uniform, node.slot()));
    } else {
      map.push_back(graph.copy(node, map));
    }
  }
  std::vector<ir::Id> outputs;
  for (const ir::Id id : program.outputs) outputs.push_back(map[id]);
  return graph.extract(outputs,
                       {.data = program.leaves.parameters, .uniforms = program.leaves.data});
}

}  // namespace topograd::ops
