// Two accounts of transfers, and training rows as CSV and as JSON.
#include "knowledge.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "../../cache/content_hash.hpp"

namespace topograd::runtime::hybrid {
namespace {

/// Bytes that determine the wait for a result of queued work: those sent before it and those that
/// come back, which the host copies once more.
std::uint64_t moved_bytes(std::uint64_t sent, std::uint64_t back) { return sent + 2 * back; }

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

const TransferTimes::Part TransferTimes::kParts[5] = {
    {"upload", &TransferTimes::tasks_, &Account::upload},
    {"submit", &TransferTimes::tasks_, &Account::submit},
    {"read_back", &TransferTimes::tasks_, &Account::read_back},
    {"operations_upload", &TransferTimes::operations_, &Account::upload},
    {"operations_read_back", &TransferTimes::operations_, &Account::read_back}};

TransferTimes::Predicted TransferTimes::predict(const TaskShape& task, std::uint64_t up,
                                                std::uint64_t sent) const {
  const Account& account = task.queued ? operations_ : tasks_;
  Predicted out;
  if (up > 0) out.upload = account.upload.at(up);
  if (task.bytes_out > 0) {
    out.read_back =
        account.read_back.at(task.queued ? moved_bytes(sent + up, task.bytes_out) : task.bytes_out);
  }
  if (!task.queued) out.submit_us = account.submit.at(1).us;
  return out;
}

Estimate TransferTimes::predict_fetch(const TaskShape& task) const {
  if (task.queued) return operations_.read_back.at(moved_bytes(0, task.bytes_away));
  return tasks_.read_back.at(task.bytes_away);
}

void TransferTimes::record(const TaskShape& task, const Outcome& outcome,
                           const HybridOptions& options) {
  const Terms& times = outcome.times;
  Account& account = task.queued ? operations_ : tasks_;
  if (outcome.bytes_up > 0 && times.upload > 0)
    account.upload.record(outcome.bytes_up, times.upload, options);
  if (outcome.bytes_down > 0 && times.read_back > 0)
    account.read_back.record(outcome.bytes_down, times.read_back, options);
  if (times.submit > 0 && !task.queued) account.submit.record(1, times.submit, options);
}

void TransferTimes::record_read_back(std::uint64_t sent, std::uint64_t bytes, double us,
                                     const HybridOptions& options) {
  operations_.read_back.record(moved_bytes(sent, bytes), us, options);
}

TransferTimes::Rows TransferTimes::rows() const {
  Rows out;
  for (const Part& part : kParts) out[part.name] = (this->*part.account.*part.history).rows();
  return out;
}

void TransferTimes::merge(const Rows& rows) {
  for (const Part& part : kParts) {
    if (const auto found = rows.find(part.name); found != rows.end())
      (this->*part.account.*part.history).merge(found->second);
  }
}

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
