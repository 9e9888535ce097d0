// Index and data columns of a gather plan's entries on the device.
#pragma once

#include "../../../ir/batch/unset_vector.hpp"
#include "../../plan/column_forms.hpp"
#include "../../plan/plan.hpp"
#include "../../plan/requests.hpp"
#include "../recording/context.hpp"
#include "columns_in_place.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Data of a batch that a gather set needs.
struct BatchView {
  TermShape shape;
  const ir::Batch* batch = nullptr;
  const ColumnForms* forms = nullptr;
  const SharedNumbers* numbers = nullptr;
};

/// The words of columns in a buffer: those that are stored, `rows` long, then the numbers that are
/// shared.
template <class Form>
std::vector<std::uint32_t> form_words(const std::vector<Form>& forms, std::uint32_t rows) {
  const auto stored = static_cast<std::uint32_t>(std::ranges::count(forms, true, &Form::stored));
  std::uint32_t first = 0, position = stored * rows;
  std::vector<std::uint32_t> words;
  for (const Form& form : forms) {
    words.push_back(form.stored ? codegen::form_by_row(first) : codegen::form_shared(position));
    (form.stored ? first : position) += form.stored ? rows : 1;
  }
  return words;
}

/// Columns in the order of entries, in pieces that fit a storage buffer range. Sums of stored terms
/// read none.
class GatherColumns {
 public:
  /// Columns of consecutive entries.
  struct Piece {
    std::uint32_t first = 0, count = 0;  ///< entries
    Buffer index, data;
    FormWords words;
    ColumnsInPlace resident;
  };

  /// Context, view and plan outlive this.
  GatherColumns(Context& context, const BatchView& view, const GatherPlan& plan);

  /// Entries of a piece, at most.
  std::uint64_t most_entries() const;
  /// Reads where entries begin from the plan.
  Piece upload(std::uint32_t first, std::uint32_t count) const;
  void bind(BindingTable& table, const Piece& piece) const;
  /// Copies data columns again; to a new buffer if their forms changed.
  ///
  ///   own  also those that lie on the host
  void refresh(Piece& piece, bool moved, bool own) const;

 private:
  void place_index(Piece& piece) const;
  std::span<const std::uint32_t> instances(const Piece& piece) const;
  ir::UnsetVector<std::uint32_t> entry_indices(const Piece& piece) const;
  void upload_data(Piece& piece, bool own) const;
  template <class T>
  void upload_data_as(Piece& piece, bool own) const;

  Context& context_;
  const BatchView& view_;
  const GatherPlan& plan_;
  std::uint32_t columns_ = 0;  // stored index columns of an entry, the most of any role
  std::vector<EntryColumns> role_columns_;
  std::vector<std::vector<EntryForm>> role_forms_;
};

}  // namespace topograd::runtime::vulkan
