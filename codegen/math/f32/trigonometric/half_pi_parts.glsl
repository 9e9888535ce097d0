// 2/pi; pi/2 as three short parts and the rest, so that n times a short part is exact; the range.
const float tg_inverse_half_pi_f32 = 0.636619747f;
const float tg_half_pi_1_f32 = 1.57067871f;
const float tg_half_pi_2_f32 = 0.000117614865f;
const float tg_half_pi_3_f32 = 9.92031346e-10f;
const float tg_half_pi_4_f32 = 6.22337197e-14f;
const float tg_trig_near_f32 = 1024.0f;
