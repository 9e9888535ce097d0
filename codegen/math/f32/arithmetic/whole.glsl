// From this magnitude on every number is whole.
const float tg_whole_f32 = 8388608.0f;
