// pi/2 and pi, each as an unevaluated sum.
const dvec2 tg_half_pi_f64 = dvec2(1.5707963267948966lf, 6.123233995736766e-17lf);
const dvec2 tg_pi_f64 = dvec2(3.141592653589793lf, 1.2246467991473532e-16lf);
