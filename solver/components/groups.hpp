// Parts of a problem that share no free unknown, in groups of equal structure.
#pragma once

#include "../../codegen/precision.hpp"
#include "../../runtime/model/model.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd {

/// The positions of a number in each component of a group: an affine sequence, or a list.
struct Positions {
  std::size_t first = 0, step = 0;  ///< of component k: first + k * step
  std::vector<std::uint32_t> list;  ///< or list[k] if this is not empty

  std::size_t at(std::size_t component) const {
    return list.empty() ? first + component * step : list[component];
  }
  /// The positions of a list, as a sequence if they are one.
  static Positions of(std::vector<std::uint32_t> list);
};

/// A number of each component: from[positions->at(k)].
struct ComponentNumbers {
  const double* from = nullptr;
  const Positions* positions = nullptr;  ///< null: the same number for all components
};

/// One residual block that every component of a group has.
struct ComponentRows {
  std::size_t kernel = 0;               ///< number in ComponentGroup::kernels
  std::vector<std::uint32_t> unknowns;  ///< scalar of the component, by parameter of the kernel
  std::vector<ComponentNumbers> data;   ///< by data slot of the kernel: data, then uniforms
};

/// A program with the pattern in which its slots meet the unknowns.
struct ComponentKernel {
  const runtime::Term* term = nullptr;
  std::vector<std::uint32_t> parameter_of_slot =
      {};                               ///< slots of the same scalar have one parameter
  std::vector<std::uint8_t> free = {};  ///< by parameter
};

/// A block of unknowns of a component.
struct ComponentBlock {
  std::uint32_t first = 0, width = 0;  ///< scalars of the component
  const runtime::ManifoldBlocks* manifold = nullptr;
  std::uint32_t column = 0;   ///< its first coordinate, of those that are free
  std::uint32_t columns = 0;  ///< number of them; 0: it is fixed
};

/// Components of one structure: they have the same blocks and the same rows over them.
struct ComponentGroup {
  static constexpr std::uint32_t kFixed = ~std::uint32_t{0};

  std::size_t count = 0;
  Positions numbers;  ///< number of each component among all
  std::uint32_t scalars = 0;
  std::uint32_t columns = 0;  ///< coordinates of a step
  std::uint32_t rows = 0;     ///< scalar residuals
  bool bounded = false;
  bool on_manifolds = false;
  std::vector<ComponentBlock> blocks;
  std::vector<std::uint32_t> column;  ///< by scalar: its coordinate, or its block's; or kFixed
  std::vector<Positions> x;           ///< by scalar: its index in x
  std::vector<ComponentKernel> kernels;
  std::vector<ComponentRows> residuals;

  /// The number of a kernel, which is added if it is new.
  std::size_t number_of(ComponentKernel kernel);
};

/// All components of a problem.
struct ComponentGroups {
  std::size_t count = 0;      ///< of components
  std::uint32_t largest = 0;  ///< most coordinates of one
  std::vector<ComponentGroup> groups;
  std::vector<std::uint32_t> first;  ///< by component: its first free scalar in x
  std::string obstacle;  ///< why the components cannot be solved for separately; empty: they can
  std::vector<std::vector<double>> columns;  ///< memory of data columns
  std::vector<Positions> rows;               ///< memory of positions
};

/// Counts of components, without their groups.
struct ComponentCounts {
  std::size_t count = 0;
  std::uint32_t largest = 0;  ///< most coordinates of one
  bool exceeds = false;       ///< one has more than was asked for; the search ended there
};

/// Finds the components of a model by the blocks that its rows read: two blocks with free
/// coordinates are in one component if a residual reads both. Blocks that nothing reads are in
/// none.
///
/// Cost: a pass over the index columns, a few more for groups().
class ComponentSearch {
 public:
  /// `model` outlives it.
  ///
  ///   most  the search ends where a component has more coordinates
  explicit ComponentSearch(const runtime::Model& model, std::uint32_t most = ~std::uint32_t{0});

  const ComponentCounts& counts() const { return counts_; }
  /// Groups the components, if none exceeds, and copies their data columns. `model` outlives the
  /// result.
  ///
  ///   bits  portable: the rows of a component have the order in which they were added, whatever
  ///         other components there are
  ComponentGroups groups(codegen::Bits bits = codegen::Bits::native);

 private:
  void read_blocks();
  void join(std::uint32_t most);
  bool join_rows(const std::vector<std::uint32_t>& slots, std::size_t rows, std::uint32_t most);
  void number();
  std::uint32_t root(std::uint32_t block);
  bool is_constant(std::size_t scalar) const;

  friend class ComponentGrouping;

  const runtime::Model& model_;
  struct Block {
    std::uint32_t first = 0, width = 0, columns = 0;
    std::int32_t manifold = -1;  // kind
  };
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> block_of_;   // by scalar
  std::vector<std::uint32_t> parent_;     // by block
  std::vector<std::uint32_t> size_;       // by root: coordinates
  std::vector<std::uint32_t> component_;  // by block
  ComponentCounts counts_;
  bool has_constant_rows_ = false;
};

}  // namespace topograd
