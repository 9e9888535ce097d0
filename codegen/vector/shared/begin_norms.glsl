begin_sum(g_squared);
begin_sum(x_squared);
SUM greatest = SUM(0);
