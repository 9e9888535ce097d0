// topograd model export|merge: converts histories of kernels to JSON and merges them.
#include "arguments/commands.hpp"

#include "arguments/output.hpp"

#include "../../ir/error.hpp"
#include "../../runtime/hybrid/routing/options.hpp"
#include "../../runtime/hybrid/stored_knowledge.hpp"

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

namespace hybrid = runtime::hybrid;

/// The folder in which solves store what they learn. Throws Error{File} if there is none.
std::string folder() {
  std::string state = hybrid::process_hybrid_options().state;
  if (state == "none")
    throw Error(ErrorCode::File, "model: TOPOGRAD_HYBRID_STATE is none: nothing is kept");
  return state;
}

/// Throws Error{File} if the folder is unusable.
void check(const hybrid::KnowledgeFile& file) {
  if (!file.disabled().empty()) throw Error(ErrorCode::File, "model: " + file.disabled());
}

/// Median error of guesses for held-out kernels, by target.
std::string errors_of(const hybrid::Knowledge& knowledge) {
  std::string text;
  for (const auto& [target, rows] : knowledge.training) {
    const double error = hybrid::held_out_error(rows);
    if (error == 0) continue;
    char line[160];
    std::snprintf(line, sizeof line,
                  "%s: guesses for kernels that were left out are off by a factor of %.2f in the "
                  "median (%zu rows)\n",
                  target.c_str(), error, rows.size());
    text += line;
  }
  return text;
}

void export_model(const std::string& path, const std::string& training) {
  hybrid::KnowledgeFile file(folder());
  check(file);
  const std::optional<hybrid::Knowledge> known = file.load();
  if (!known) throw Error(ErrorCode::File, "model export: nothing has been learned yet");
  Outputs outputs;
  outputs.write(path, [&] { return hybrid::to_json(*known); });
  outputs.write(training, [&] { return training_text(training, *known); });
  outputs.finish();
  if (path == "-") return;
  std::cout << known->kernels.size() << " kernels\n" << errors_of(*known) << std::flush;
}

void merge_models(const std::vector<std::string>& paths) {
  hybrid::KnowledgeFile file(folder());
  check(file);
  hybrid::Knowledge known = file.load().value_or(hybrid::Knowledge{});
  for (const std::string& path : paths) {
    const std::string text = read_text(path);
    try {
      hybrid::Knowledge others = hybrid::parse_knowledge(text);
      others.drivers.clear();  // only a prior, for devices with other drivers, too
      hybrid::merge(known, others, hybrid::HybridOptions{}.max_kernels);
    } catch (const Error& error) {
      throw Error(error.code(), path + ": " + error.what());
    }
  }
  if (!file.store(known)) throw Error(ErrorCode::File, "model merge: cannot write " + file.path());
  std::cout << known.kernels.size() << " kernels\n" << errors_of(known) << std::flush;
}

}  // namespace

void add_model(Command app) {
  Command model = app.subcommand("model", "What was learned about kernels' times");
  model.require_subcommand();
  auto path = std::make_shared<std::string>();
  Command out = model.subcommand("export", "Writes this machine's as JSON");
  out.output("FILE", path.get(), "- for standard output").required();
  auto training = std::make_shared<std::string>();
  out.output("--training-data", training.get(),
             "file for the runs behind first guesses: CSV, or JSON if it ends in .json");
  out.callback([path, training] { export_model(*path, *training); });
  auto paths = std::make_shared<std::vector<std::string>>();
  Command in =
      model.subcommand("merge", "Takes what others exported; what was measured here stays");
  in.option("FILES", paths.get(), "JSON files of model export").required();
  in.callback([paths] { merge_models(*paths); });
}

}  // namespace topograd::command
