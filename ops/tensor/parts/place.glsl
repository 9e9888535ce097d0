// Rows of units at their places in longer rows.

void main() {
  uint i = linear_item();
  if (i < count) target(i / inner * row + i % inner) = source(i);
}
