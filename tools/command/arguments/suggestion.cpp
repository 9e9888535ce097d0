// Finds the name that a misspelt one probably means.
#include "command_text.hpp"

#include <algorithm>
#include <numeric>

namespace topograd::command {
namespace {

/// Number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
/// Source: the restricted edit distance of Damerau (1964), by dynamic programming over three rows.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0u);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string closest(const std::string& word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t least = word.size() / 3 + 1;  // with more differences it is another word
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least || (distance == least && best.empty() && distance < candidate.size())) {
      best = candidate;
      least = distance;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, std::span<const std::string> candidates) {
  const std::string name = closest(word, candidates);
  return name.empty() ? "" : "; did you mean \"" + name + "\"?";
}

}  // namespace topograd::command
