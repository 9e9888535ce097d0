// Training rows as CSV and as JSON.
#include "knowledge.hpp"

#include "../../cache/content_hash.hpp"

#include <nlohmann/json.hpp>

#include <vector>

namespace topograd::runtime::hybrid {
namespace {

using Fields = nlohmann::ordered_json;

std::vector<Fields> fields_of(const Knowledge& knowledge) {
  std::vector<Fields> out;
  for (const auto& [target, rows] : knowledge.training) {
    for (const TrainingRow& row : rows) {
      const Features& f = row.features;
      out.push_back({{"target", target},
                     {"kernel", hex(row.kernel)},
                     {"operation", row.operation},
                     {"size", row.size},
                     {"operations", f.operations},
                     {"bytes", f.bytes},
                     {"parallelism", f.parallelism},
                     {"reuse", f.reuse},
                     {"pattern", name(f.pattern)},
                     {"family", f.family},
                     {"us", row.us}});
    }
  }
  return out;
}

/// Quotes a cell as in RFC 4180.
std::string cell(const Fields& field) {
  if (!field.is_string()) return field.dump();
  std::string text = "\"";
  for (const char c : field.get<std::string>())
    text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

}  // namespace

std::string training_csv(const Knowledge& knowledge) {
  std::string text =
      "target,kernel,operation,size,operations,bytes,parallelism,reuse,pattern,family,us\n";
  for (const Fields& row : fields_of(knowledge)) {
    std::string line;
    for (const Fields& field : row) line += (line.empty() ? "" : ",") + cell(field);
    text += line + "\n";
  }
  return text;
}

std::string training_json(const Knowledge& knowledge) {
  return Fields(fields_of(knowledge)).dump(1) + "\n";
}

}  // namespace topograd::runtime::hybrid
