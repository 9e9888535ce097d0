begin_sum(g_squared);
begin_sum(x_squared);
begin_sum(step_squared);
SUM greatest = SUM(0);
