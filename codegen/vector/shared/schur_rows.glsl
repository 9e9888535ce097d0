// WIDTH neighbouring invocations share a row. Every invocation of a workgroup goes through the loop
// as often as the others.

uint lane = gl_LocalInvocationIndex % WIDTH;
uint rows = GROUP / WIDTH;
uint grid = gl_NumWorkGroups.x * rows;
for (uint base = gl_WorkGroupID.x * rows; base < count; base += grid) {
  uint row = base + gl_LocalInvocationIndex / WIDTH;
  precise SUM sum = SUM(0);
