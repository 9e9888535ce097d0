// Column `function` of the aggregates of one colour, whose sources begin at `first_source`.
// Dependent vectors give a singular matrix: its diagonal is raised a little.
void main() {
  #each begin_sum(sum_$);
  uint g = gl_WorkGroupID.x;
  uint end = starts[g + 1u];
  for (uint e = starts[g] + gl_LocalInvocationIndex; e < end; e += GROUP) {
    uint s = entries[e];
    precise REAL value = product[s] + damping[s] * direction[s];
    #each add(sum_$, SUM(vectors[$u * count + e]) * SUM(value));
  }
  #each SUM total_$ = workgroup_sum(sum_$);
  if (gl_LocalInvocationIndex == 0u) {
    uint source = sources[first_source + g];
    if (source == 0xffffffffu) return;
    uint column = source * WIDTH + function;
    uint row = g * WIDTH;
    #each
    if (row + $u == column) {
      #if wide
      total_$ = total_$ > SUM(0) ? total_$ * 1.000000000001_s : SUM(1);
      #else
      total_$ = total_$ > SUM(0) ? total_$ * 1.000001_s : SUM(1);
      #end
    }
    matrix[(row + $u) * unknowns + column] = total_$;
    #end
  }
}
