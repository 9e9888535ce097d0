// of the GLSL d3bfd012e2e90ff88ec46c64959fe52d
// and the SPIR-V module 5b31942392eab460c4a6c6c10df27cfe, without doubles
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
struct ResultsBuffer_ {
  results_: array<f32>,
}

var<private> tg_zero: u32;
@group(1) @binding(0) var<uniform> v_18: PushConstants_;
@group(0) @binding(1) var<storage, read> v_38: IndexColumnsBuffer_;
@group(0) @binding(0) var<storage, read> v_57: XBuffer_;
@group(0) @binding(2) var<storage, read_write> v_77: ResultsBuffer_;

fn tg_rounded_f32(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ u32(tg_zero));
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>, @builtin(num_workgroups) tg_groups: vec3<u32>) {
  tg_zero = tg_groups[0] >> 16u;
  var i_: u32;
  var c0_: u32;
  var c1_: u32;
  var p0_: f32;
  var p1_: f32;
  var t0_: f32;
  var t1_: f32;
  i_ = (gl_GlobalInvocationID_[0u] + v_18.first_);
  if ((i_ >= v_18.count_)) {
    return;
  }
  let v_39 = i_;
  c0_ = v_38.index_columns_[v_39];
  let v_48 = (v_18.stride_ + i_);
  c1_ = v_38.index_columns_[v_48];
  let v_58 = c0_;
  p0_ = v_57.x_[v_58];
  let v_63 = c1_;
  p1_ = v_57.x_[v_63];
  t0_ = tg_rounded_f32((p0_ * 2f));
  t1_ = tg_rounded_f32((t0_ + p1_));
  let v_82 = (v_18.out_first_ + i_);
  v_77.results_[v_82] = t1_;
  return;
}
