void main() {
  GRID(i, count) {
    uint from = entries[i];
    precise REAL value = offsets[i];
    if (from != 0xffffffffu) {
      REAL at = point[from & 0x7fffffffu];
      value = value + ((from >> 31u) != 0u ? -at : at);
    }
    vectors[i] = value;
  }
}
