// Entries at their places in rows of `depth` numbers.

void main() {
  uint i = linear_item();
  if (i < count) target(i / k * depth + uint(places(i))) = numbers(i);
}
