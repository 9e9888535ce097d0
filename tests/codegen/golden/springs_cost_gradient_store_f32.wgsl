// of the GLSL 0345f96ff7bd1de9b34926549e95fb43
// and the SPIR-V module 929114f980abdf0de93d6532a0e072c6, without doubles
struct PushConstants_ {
  count_: u32,
  first_: u32,
  stride_: u32,
  out_stride_: u32,
  out_first_: u32,
  x_first_: u32,
  overwrite_: u32,
  zero_bits_: u32,
  costs_first_: u32,
  rows_stride_: u32,
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
struct CostsBuffer_ {
  costs_: array<f32>,
}

var<private> tg_zero: u32;
var<private> gl_LocalInvocationIndex_: u32;
var<workgroup> partial_sums_: array<vec2<f32>, 128u>;
@group(1) @binding(0) var<uniform> v_162: PushConstants_;
@group(0) @binding(1) var<storage, read> v_183: IndexColumnsBuffer_;
@group(0) @binding(0) var<storage, read> v_200: XBuffer_;
@group(0) @binding(2) var<storage, read> v_233: DataColumnsBuffer_;
@group(0) @binding(3) var<storage, read_write> v_345: ResultsBuffer_;
@group(0) @binding(4) var<storage, read_write> v_426: CostsBuffer_;

fn tg_rounded_f32(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ u32(tg_zero));
}

fn tg_is_nan_f32_(x_: ptr<function, f32>) -> bool {
  return ((bitcast<u32>((*x_)) & 2147483647u) > 2139095040u);
}

fn compensated_add_(a_: ptr<function, vec2<f32>>, b_: ptr<function, vec2<f32>>) -> vec2<f32> {
  var sum_: f32;
  var shift_: f32;
  var rest_: f32;
  var left_: f32;
  var right_: f32;
  var rounding_: f32;
  var errors_: f32;
  var error_: f32;
  sum_ = tg_rounded_f32(((*a_)[0u] + (*b_)[0u]));
  shift_ = tg_rounded_f32((sum_ - (*a_)[0u]));
  rest_ = tg_rounded_f32((sum_ - shift_));
  left_ = tg_rounded_f32(((*a_)[0u] - rest_));
  right_ = tg_rounded_f32(((*b_)[0u] - shift_));
  rounding_ = tg_rounded_f32((left_ + right_));
  errors_ = tg_rounded_f32(((*a_)[1u] + (*b_)[1u]));
  error_ = tg_rounded_f32((errors_ + rounding_));
  return vec2<f32>(sum_, error_);
}

fn workgroup_sum_(value_: ptr<function, vec2<f32>>) -> f32 {
  var self_: u32;
  var width_: u32;
  var param_113: vec2<f32>;
  var param_116: vec2<f32>;
  var total_123: vec2<f32>;
  var sum_127: f32;
  var param_133: f32;
  var v_136: f32;
  self_ = gl_LocalInvocationIndex_;
  workgroupBarrier();
  let v_90 = self_;
  partial_sums_[v_90] = (*value_);
  width_ = 64u;
  loop {
    if ((width_ > 0u)) {
      workgroupBarrier();
      if ((self_ < width_)) {
        let v_109 = self_;
        let v_108 = self_;
        let v_112 = (self_ + width_);
        param_113 = partial_sums_[v_109];
        param_116 = partial_sums_[v_112];
        let v_119 = compensated_add_(&param_113, &param_116);
        partial_sums_[v_108] = v_119;
      }
    } else {
      break;
    }
    continuing {
      width_ = (width_ >> u32(1u));
    }
  }
  let v_124 = self_;
  total_123 = partial_sums_[v_124];
  sum_127 = tg_rounded_f32((total_123[0u] + total_123[1u]));
  param_133 = sum_127;
  let v_135 = tg_is_nan_f32_(&param_133);
  if (v_135) {
    v_136 = total_123[0u];
  } else {
    v_136 = sum_127;
  }
  return v_136;
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(local_invocation_index) gl_LocalInvocationIndex_in: u32, @builtin(num_workgroups) gl_NumWorkGroups_: vec3<u32>, @builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>, @builtin(workgroup_id) gl_WorkGroupID_: vec3<u32>) {
  tg_zero = gl_NumWorkGroups_[0] >> 16u;
  gl_LocalInvocationIndex_ = gl_LocalInvocationIndex_in;
  var cost_: vec2<f32>;
  var grid_: u32;
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
  var t12_: f32;
  var t13_: f32;
  var t14_: f32;
  var v_295: f32;
  var b15_: bool;
  var t16_: f32;
  var t17_: f32;
  var t18_: f32;
  var t19_: f32;
  var t20_: f32;
  var t21_: f32;
  var t22_: f32;
  var t23_: f32;
  var t24_: f32;
  var t25_: f32;
  var param_: vec2<f32>;
  var param_410: vec2<f32>;
  var total_: f32;
  var param_416: vec2<f32>;
  cost_ = vec2<f32>(0f, 0f);
  grid_ = (gl_NumWorkGroups_[0u] * 128u);
  i_ = (gl_GlobalInvocationID_[0u] + v_162.first_);
  loop {
    if ((i_ < v_162.count_)) {
      let v_184 = i_;
      c0_ = v_183.index_columns_[v_184];
      let v_193 = (v_162.stride_ + i_);
      c1_ = v_183.index_columns_[v_193];
      let v_201 = c0_;
      x_a_ = v_200.x_[v_201];
      let v_207 = (c0_ + 1u);
      y_a_ = v_200.x_[v_207];
      let v_212 = (c0_ + 2u);
      z_a_ = v_200.x_[v_212];
      let v_216 = c1_;
      x_b_ = v_200.x_[v_216];
      let v_221 = (c1_ + 1u);
      y_b_ = v_200.x_[v_221];
      let v_226 = (c1_ + 2u);
      z_b_ = v_200.x_[v_226];
      let v_234 = i_;
      rest_length_ = v_233.data_columns_[v_234];
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
      t12_ = select(0f, t11_, b9_);
      t13_ = tg_rounded_f32((0.5f / t8_));
      if ((t12_ == 0f)) {
        v_295 = 0f;
      } else {
        v_295 = tg_rounded_f32((t12_ * t13_));
      }
      t14_ = v_295;
      b15_ = (t8_ == 0f);
      t16_ = select(t14_, 0f, b15_);
      t17_ = tg_rounded_f32((t16_ * 2f));
      t18_ = tg_rounded_f32((t0_ * t17_));
      t19_ = tg_rounded_f32((t2_ * t17_));
      t20_ = tg_rounded_f32((t5_ * t17_));
      t21_ = (-t18_);
      t22_ = (-t19_);
      t23_ = (-t20_);
      t24_ = tg_rounded_f32((t11_ * t11_));
      t25_ = tg_rounded_f32((0.5f * t24_));
      let v_350 = (v_162.out_first_ + i_);
      v_345.results_[v_350] = t18_;
      let v_360 = ((v_162.out_first_ + v_162.out_stride_) + i_);
      v_345.results_[v_360] = t19_;
      let v_370 = ((v_162.out_first_ + (2u * v_162.out_stride_)) + i_);
      v_345.results_[v_370] = t20_;
      let v_381 = ((v_162.out_first_ + (3u * v_162.out_stride_)) + i_);
      v_345.results_[v_381] = t21_;
      let v_392 = ((v_162.out_first_ + (4u * v_162.out_stride_)) + i_);
      v_345.results_[v_392] = t22_;
      let v_403 = ((v_162.out_first_ + (5u * v_162.out_stride_)) + i_);
      v_345.results_[v_403] = t23_;
      let v_407 = vec2<f32>(t25_, 0f);
      param_ = cost_;
      param_410 = v_407;
      let v_411 = compensated_add_(&param_, &param_410);
      cost_ = v_411;
    } else {
      break;
    }
    continuing {
      i_ = (i_ + grid_);
    }
  }
  param_416 = cost_;
  let v_418 = workgroup_sum_(&param_416);
  total_ = v_418;
  if ((gl_LocalInvocationIndex_ == 0u)) {
    let v_433 = (v_162.costs_first_ + gl_WorkGroupID_[0u]);
    v_426.costs_[v_433] = total_;
  }
  return;
}
