// of the GLSL d4bfe11f0747f8f9d2887056ab0ff5c2
// and the SPIR-V module c6177b816a8f4d2d354d760461d6a87c, without doubles
struct PushConstants_ {
  count_: u32,
  first_: u32,
  stride_: u32,
  out_stride_: u32,
  out_first_: u32,
  x_first_: u32,
  overwrite_: u32,
  zero_bits_: u32,
}
struct IndexColumnsBuffer_ {
  index_columns_: array<u32>,
}
struct XBuffer_ {
  x_: array<f32>,
}
struct DataColumnsBuffer_ {
  data_columns_: array<f32>,
}
struct ResultsBuffer_ {
  results_: array<f32>,
}

var<private> tg_zero: u32;
@group(1) @binding(0) var<uniform> v_18: PushConstants_;
@group(0) @binding(1) var<storage, read> v_38: IndexColumnsBuffer_;
@group(0) @binding(0) var<storage, read> v_57: XBuffer_;
@group(0) @binding(2) var<storage, read> v_92: DataColumnsBuffer_;
@group(0) @binding(3) var<storage, read_write> v_147: ResultsBuffer_;

fn tg_rounded_f32(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ u32(tg_zero));
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>, @builtin(num_workgroups) tg_groups: vec3<u32>) {
  tg_zero = tg_groups[0] >> 16u;
  var i_: u32;
  var c0_: u32;
  var c1_: u32;
  var x_a_: f32;
  var y_a_: f32;
  var z_a_: f32;
  var x_b_: f32;
  var y_b_: f32;
  var z_b_: f32;
  var rest_length_: f32;
  var t0_: f32;
  var t1_: f32;
  var t2_: f32;
  var t3_: f32;
  var t4_: f32;
  var t5_: f32;
  var t6_: f32;
  var t7_: f32;
  var t8_: f32;
  var b9_: bool;
  var t10_: f32;
  var t11_: f32;
  i_ = (gl_GlobalInvocationID_[0u] + v_18.first_);
  if ((i_ >= v_18.count_)) {
    return;
  }
  let v_39 = i_;
  c0_ = v_38.index_columns_[v_39];
  let v_48 = (v_18.stride_ + i_);
  c1_ = v_38.index_columns_[v_48];
  let v_58 = c0_;
  x_a_ = v_57.x_[v_58];
  let v_65 = (c0_ + 1u);
  y_a_ = v_57.x_[v_65];
  let v_71 = (c0_ + 2u);
  z_a_ = v_57.x_[v_71];
  let v_75 = c1_;
  x_b_ = v_57.x_[v_75];
  let v_80 = (c1_ + 1u);
  y_b_ = v_57.x_[v_80];
  let v_85 = (c1_ + 2u);
  z_b_ = v_57.x_[v_85];
  let v_93 = i_;
  rest_length_ = v_92.data_columns_[v_93];
  t0_ = tg_rounded_f32((x_a_ - x_b_));
  t1_ = tg_rounded_f32((t0_ * t0_));
  t2_ = tg_rounded_f32((y_a_ - y_b_));
  t3_ = tg_rounded_f32((t2_ * t2_));
  t4_ = tg_rounded_f32((t1_ + t3_));
  t5_ = tg_rounded_f32((z_a_ - z_b_));
  t6_ = tg_rounded_f32((t5_ * t5_));
  t7_ = tg_rounded_f32((t4_ + t6_));
  t8_ = sqrt(t7_);
  b9_ = (t7_ > 0f);
  t10_ = select(0f, t8_, b9_);
  t11_ = tg_rounded_f32((t10_ - rest_length_));
  let v_152 = (v_18.out_first_ + i_);
  v_147.results_[v_152] = t11_;
  return;
}
