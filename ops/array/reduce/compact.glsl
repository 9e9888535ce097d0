// Kept elements at their places, from the inclusive scan of the flags.

void main() {
  uint i = linear_item();
  if (i < count && flag(i) != 0u) y(place(i) - 1u) = x(i);
}
