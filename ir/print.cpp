// Printing programs as text and as graphs.
#include "text.hpp"

#include <charconv>
#include <cmath>

namespace topograd::ir {
namespace {

std::string name_of(Id id) { return '%' + std::to_string(id); }

// Text after the op's name: a slot, a number or operands.
std::string arguments(const Node& node) {
  if (node.op == Op::Literal) return print_number(node.literal());
  if (is_leaf(node.op)) return std::to_string(node.slot());
  std::string text;
  for (Id operand : node.operands()) {
    if (!text.empty()) text += ", ";
    text += name_of(operand);
  }
  return text;
}

std::string dot_quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

// Number of an operand; empty if operands may be exchanged.
std::string edge_label(const Node& node, std::size_t position) {
  const bool told_apart = arity(node.op) > 1 && !(info(node.op).commutes && position < 2);
  return told_apart ? " [label=\"" + std::to_string(position) + "\"]" : "";
}

void print_dot_node(std::string& out, Id id, const Node& node) {
  const std::string self = 'n' + std::to_string(id);
  std::string label = node.op == Op::Literal ? arguments(node) : std::string(info(node.op).name);
  if (is_leaf(node.op) && node.op != Op::Literal) label += ' ' + arguments(node);
  out += "  " + self + " [label=" + dot_quoted(label) + "];\n";
  for (std::size_t k = 0; k < node.operands().size(); ++k) {
    out += "  n" + std::to_string(node.args[k]) + " -> " + self + edge_label(node, k) + ";\n";
  }
}

}  // namespace

std::string print_number(double value) {
  if (std::isnan(value)) return "nan";  // for either sign
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string print_node(Id id, const Node& node) {
  return name_of(id) + " = " + std::string(info(node.op).name) + ' ' + arguments(node);
}

std::string print(const Program& program) {
  const LeafCounts& n = program.leaves;
  std::string out = "program parameters=" + std::to_string(n.parameters) +
                    " data=" + std::to_string(n.data) + " uniforms=" + std::to_string(n.uniforms) +
                    " seeds=" + std::to_string(n.seeds) + " {\n";
  for (Id id = 0; id < program.nodes.size(); ++id) {
    out += "  " + print_node(id, program.nodes[id]) + '\n';
  }
  for (const Guard& g : program.guards) {
    out += "  guard " + name_of(g.condition) + (g.expected ? " true\n" : " false\n");
  }
  out += "  return";
  const char* separator = " ";
  for (Id output : program.outputs) {
    out += separator + name_of(output);
    separator = ", ";
  }
  return out + "\n}\n";
}

std::string print_dot(const Program& program, std::string_view title) {
  std::string out = "digraph " + dot_quoted(title) + " {\n  label=" + dot_quoted(title) +
                    ";\n  node [shape=box];\n";
  for (Id id = 0; id < program.nodes.size(); ++id) print_dot_node(out, id, program.nodes[id]);
  for (std::size_t k = 0; k < program.guards.size(); ++k) {
    const Guard& g = program.guards[k];
    const std::string self = 'g' + std::to_string(k);
    out += "  " + self + " [label=\"guard " + (g.expected ? "true" : "false") +
           "\", shape=diamond];\n  n" + std::to_string(g.condition) + " -> " + self + ";\n";
  }
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    const std::string self = 'o' + std::to_string(k);
    out += "  " + self + " [label=\"output " + std::to_string(k) + "\", shape=ellipse];\n  n" +
           std::to_string(program.outputs[k]) + " -> " + self + ";\n";
  }
  return out + "}\n";
}

}  // namespace topograd::ir
