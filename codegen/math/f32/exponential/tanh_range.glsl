// tanh rounds to 1 and sinh to exp / 2 from here on.
const float tg_tanh_max_f32 = 10.0f;
