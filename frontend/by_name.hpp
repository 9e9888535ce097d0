// Built-in losses and manifolds by the names that files, commands and Python give them.
#pragma once

#include "loss.hpp"
#include "manifold.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace topograd {

/// The built-in loss with this name; null if there is none, as for "trivial", which has no row.
const LossRow* find_loss(std::string_view name);
/// How many numbers a loss takes: 1 or 2.
std::size_t number_count(const LossRow& loss);
/// The loss with number_count(loss) numbers. Throws what its function throws.
Loss make_loss(const LossRow& loss, std::span<const double> numbers);

/// The built-in manifold with this name for blocks of `width` numbers; none if the name is unknown.
/// Throws what its function throws.
std::optional<Manifold> find_manifold(std::string_view name, int width);
/// "quaternion, ...".
std::string manifold_names();

}  // namespace topograd
