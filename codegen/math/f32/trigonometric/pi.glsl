// pi/2 and pi, each as an unevaluated sum.
const vec2 tg_half_pi_f32 = vec2(1.57079637f, -4.37113883e-8f);
const vec2 tg_pi_f32 = vec2(3.14159274f, -8.74227766e-8f);
