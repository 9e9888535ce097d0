// Cube roots of 2 and 4.
const float tg_cbrt_2_f32 = 1.25992107f;
const float tg_cbrt_4_f32 = 1.58740103f;
