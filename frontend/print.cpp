// Values as text: the formula of an expression.
#include "../ir/program.hpp"
#include "../ir/text.hpp"
#include "mat.hpp"
#include "value/tape.hpp"

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using detail::TapeNode;
using ir::Op;

constexpr std::size_t kLongestFormula = 2000;

/// The name of a leaf that has no number of its own.
std::string leaf_name(const TapeNode& leaf) {
  const bool element = (leaf.head & detail::kSymbolic) != 0;
  const char* array = element                             ? "e"
                      : (leaf.head & detail::kEager) != 0 ? "v"
                      : leaf.op() == Op::Uniform          ? "u"
                      : (leaf.head & detail::kBound) != 0 ? "d"
                                                          : "x";
  return std::string(array) + "[" + std::to_string(leaf.a) + "]";
}

/// A compact tape as a program in which every leaf without a number is a parameter with a name.
/// Operands keep their order, so that the text reads like the source.
class Formula {
 public:
  explicit Formula(const detail::RawTape& tape) {
    for (std::uint32_t k = 0; k < tape.nodes.size(); ++k) {
      const TapeNode& n = tape.nodes[k];
      const auto operand = [&](std::uint32_t back) { return back == 0 ? 0 : k - back; };
      program_.nodes.push_back(ir::is_leaf(n.op())
                                   ? leaf(n)
                                   : ir::Node{n.op(), {operand(n.a), operand(n.b), operand(n.c)}});
    }
    program_.outputs = {tape.rows[0]};
  }

  std::string text() const {
    const Formulas parts = formulas(program_, names_);
    std::string out;
    for (const auto& [name, formula] : parts.definitions) out += name + " = " + formula + "; ";
    out += parts.outputs.front();
    return out.size() <= kLongestFormula ? out : out.substr(0, kLongestFormula) + " ...";
  }

 private:
  ir::Node leaf(const TapeNode& n) {
    const bool number = n.op() == Op::Literal || n.head == detail::head(Op::Data);
    if (number) return ir::make_literal(detail::number_of(n));
    names_.parameters.push_back(leaf_name(n));
    return ir::make_leaf(Op::Parameter, static_cast<std::uint32_t>(names_.parameters.size() - 1));
  }

  ir::Program program_;
  ExpressionNames names_;
};

template <class V>
std::ostream& print_vector(std::ostream& out, const V& v, int size) {
  out << '(';
  for (int k = 0; k < size; ++k) out << (k > 0 ? ", " : "") << v[k];
  return out << ')';
}

template <int N>
std::ostream& print_matrix(std::ostream& out, const Mat<N>& m) {
  for (int i = 0; i < N; ++i) {
    if (i > 0) out << '\n';
    print_vector(out, row(m, i), N);
  }
  return out;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Value& value) {
  const std::uint64_t node = value.bits() == 0 ? detail::tape.size : detail::node_of(value.bits());
  if (node >= detail::tape.size) return out << "(no expression)";
  detail::CompactTape tape;
  tape.assign({&node, 1});
  return out << Formula(tape.view()).text();
}

std::ostream& operator<<(std::ostream& out, const Bool& condition) {
  return out << condition.value();
}

std::ostream& operator<<(std::ostream& out, const Vec2& v) { return print_vector(out, v, 2); }
std::ostream& operator<<(std::ostream& out, const Vec3& v) { return print_vector(out, v, 3); }
std::ostream& operator<<(std::ostream& out, const Vec4& v) { return print_vector(out, v, 4); }
std::ostream& operator<<(std::ostream& out, const Mat2& m) { return print_matrix(out, m); }
std::ostream& operator<<(std::ostream& out, const Mat3& m) { return print_matrix(out, m); }

}  // namespace topograd
