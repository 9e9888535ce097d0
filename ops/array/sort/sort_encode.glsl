// High or low words of f64 elements, as integers in the order of the elements.

void main() {
  uint i = linear_item();
  if (i >= count) return;
  uint low = x(2u * i), high = x(2u * i + 1u);
  uint magnitude = high & 0x7fffffffu;
  bool is_nan = magnitude > 0x7ff00000u || (magnitude == 0x7ff00000u && low != 0u);
  bool negative = (high >> 31) != 0u;
  y(i) = is_nan ? 0xffffffffu : negative ? ~{word} : {positive};
}
