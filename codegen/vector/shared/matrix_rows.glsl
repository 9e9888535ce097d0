// `lanes` invocations share a row of blocks, all of whose scalar rows have the same columns. Two
// columns are read at a time, so that loads of both are on their way together.

uint lane = gl_LocalInvocationIndex % lanes;
uint rows = GROUP / lanes;
uint grid = gl_NumWorkGroups.x * rows;
for (uint base = gl_WorkGroupID.x * rows; base < count; base += grid) {
  uint block = base + gl_LocalInvocationIndex / lanes;
  #each precise SUM sum_$ = SUM(0);
  if (block < count) {
    uint word = 4u * (first + block);
    uint columns = row_words[word + 1u];
    uint length = row_words[word + 2u];
    uint values_0 = row_words[word];
    #rest uint values_$ = values_$before + length;
    uint e = lane;
    for (; e + lanes < length; e += 2u * lanes) {
      uint next = e + lanes;
      REAL p = direction[column_numbers[columns + e]];
      REAL p_next = direction[column_numbers[columns + next]];
      #each REAL a_$ = matrix[values_$ + e];
      #each REAL b_$ = matrix[values_$ + next];
      #each sum_$ += SUM(a_$) * SUM(p);
      #each sum_$ += SUM(b_$) * SUM(p_next);
    }
    if (e < length) {
      REAL p = direction[column_numbers[columns + e]];
      #each sum_$ += SUM(matrix[values_$ + e]) * SUM(p);
    }
  }
  fold_row_sums();
  if (block < count && lane == 0u) {
    uint k = product_first + block * WIDTH;
