// Entries by index, in units; 0 for an index out of range.

void main() {
  uint i = linear_item();
  if (i >= count) return;
  uint row = i / inner;
  {T} place = indices(row % taken);
  bool there = place >= {T}(0.0) && place < {T}(entries);
  uint from = there ? (row / taken * entries + uint(place)) * inner + i % inner : 0u;
  {U} value = {U}(0u);
  if (there) value = source(from);
  target(i) = value;
}
