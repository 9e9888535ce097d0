// A workgroup for each row; its part of r·z goes beside those of the blocks.
void main() {
  #include stop_with_solver
  begin_sum(sum);
  uint row = gl_WorkGroupID.x;
  for (uint k = gl_LocalInvocationIndex; k < count; k += GROUP) {
    add(sum, inverse_matrix[row * count + k] * coarse_residual[k]);
  }
  SUM total = workgroup_sum(sum);
  if (gl_LocalInvocationIndex == 0u) {
    correction[row] = total;
    precise SUM product = total * coarse_residual[row];
    partials[out_first + row] = product;
    partials[out_first + out_stride + row] = SUM(0);
  }
}
