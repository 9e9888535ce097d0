#each residual[k + $u] = r_$;
#if !unpreconditioned
#each preconditioned[k + $u] = z_$;
#end
add(rz, ALL(SUM(r_$) * SUM(z_$)));
add(rr, ALL(SUM(r_$) * SUM(r_$)));
