#if predicated
if (scalars[NEXT_STATE] != SUM(0)) return;  // the solver is done
#end
