// One sum of products for each invocation.

// Position from which a term reads along one axis; -1: none.
int place(uint y, uint i, int padding, int size) {
  int t = int(y * stride + i * dilation) - padding;
  if (clamped != 0u) return clamp(t, 0, size - 1);
  if (t < 0 || t % int(spacing) != 0 || t / int(spacing) >= size) return -1;
  return t / int(spacing);
}

void main() {
  uint stride_of_items = gl_NumWorkGroups.x * 256u;
  for (uint item = gl_GlobalInvocationID.x; item < count; item += stride_of_items) {
    uint x = item % out_width, rest = item / out_width;
    uint y = rest % out_height;
    rest /= out_height;
    uint o = rest % outputs, n = rest / outputs;
    {T} sum = {T}(0.0);
    for (uint i = 0u; i < kernel_rows; ++i) {
      int row = place(y, i, int(padding_y), int(height));
      for (uint j = 0u; j < kernel_columns; ++j) {
        int column = place(x, j, int(padding_x), int(width));
        if (row < 0 || column < 0) continue;
        uint tap = i * kernel_columns + j;
        if (flipped != 0u) tap = kernel_rows * kernel_columns - 1u - tap;
        uint from = n * image_step + uint(row) * width + uint(column);
        uint weight = o * output_step + tap;
        for (uint c = 0u; c < channels; ++c)
          sum = fma(image(from + c * channel_step), weights(weight + c * weight_step), sum);
      }
    }
    result(item) = sum;
  }
}
