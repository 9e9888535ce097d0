// of the GLSL c4aae519f81a3884c462e45e85e0f1df
// and the SPIR-V module adea33d38c95964b2fe8a99cf960760b, without doubles
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
var<workgroup> partial_pairs_: array<vec2<f32>, 128u>;
@group(1) @binding(0) var<uniform> v_177: PushConstants_;
@group(0) @binding(1) var<storage, read> v_198: IndexColumnsBuffer_;
@group(0) @binding(0) var<storage, read> v_215: XBuffer_;
@group(0) @binding(2) var<storage, read> v_248: DataColumnsBuffer_;
@group(0) @binding(3) var<storage, read_write> v_360: ResultsBuffer_;
@group(0) @binding(4) var<storage, read_write> v_441: CostsBuffer_;

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

fn workgroup_pair_(value_: ptr<function, vec2<f32>>) -> vec2<f32> {
  var self_: u32;
  var width_: u32;
  var param_120: vec2<f32>;
  var param_123: vec2<f32>;
  self_ = gl_LocalInvocationIndex_;
  workgroupBarrier();
  let v_97 = self_;
  partial_pairs_[v_97] = (*value_);
  width_ = 64u;
  loop {
    if ((width_ > 0u)) {
      workgroupBarrier();
      if ((self_ < width_)) {
        let v_116 = self_;
        let v_115 = self_;
        let v_119 = (self_ + width_);
        param_120 = partial_pairs_[v_116];
        param_123 = partial_pairs_[v_119];
        let v_126 = compensated_add_(&param_120, &param_123);
        partial_pairs_[v_115] = v_126;
      }
    } else {
      break;
    }
    continuing {
      width_ = (width_ >> u32(1u));
    }
  }
  let v_130 = self_;
  return partial_pairs_[v_130];
}

fn pair_float_(sum_25: ptr<function, vec2<f32>>) -> f32 {
  var value_135: f32;
  var param_141: f32;
  var v_144: f32;
  value_135 = tg_rounded_f32(((*sum_25)[0u] + (*sum_25)[1u]));
  param_141 = value_135;
  let v_143 = tg_is_nan_f32_(&param_141);
  if (v_143) {
    v_144 = (*sum_25)[0u];
  } else {
    v_144 = value_135;
  }
  return v_144;
}

fn workgroup_sum_(value_28: ptr<function, vec2<f32>>) -> f32 {
  var param_154: vec2<f32>;
  var param_157: vec2<f32>;
  param_154 = (*value_28);
  let v_156 = workgroup_pair_(&param_154);
  param_157 = v_156;
  let v_158 = pair_float_(&param_157);
  return v_158;
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
  var v_310: f32;
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
  var param_425: vec2<f32>;
  var total_: f32;
  var param_431: vec2<f32>;
  cost_ = vec2<f32>(0f, 0f);
  grid_ = (gl_NumWorkGroups_[0u] * 128u);
  i_ = (gl_GlobalInvocationID_[0u] + v_177.first_);
  loop {
    if ((i_ < v_177.count_)) {
      let v_199 = i_;
      c0_ = v_198.index_columns_[v_199];
      let v_208 = (v_177.stride_ + i_);
      c1_ = v_198.index_columns_[v_208];
      let v_216 = c0_;
      x_a_ = v_215.x_[v_216];
      let v_222 = (c0_ + 1u);
      y_a_ = v_215.x_[v_222];
      let v_227 = (c0_ + 2u);
      z_a_ = v_215.x_[v_227];
      let v_231 = c1_;
      x_b_ = v_215.x_[v_231];
      let v_236 = (c1_ + 1u);
      y_b_ = v_215.x_[v_236];
      let v_241 = (c1_ + 2u);
      z_b_ = v_215.x_[v_241];
      let v_249 = i_;
      rest_length_ = v_248.data_columns_[v_249];
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
        v_310 = 0f;
      } else {
        v_310 = tg_rounded_f32((t12_ * t13_));
      }
      t14_ = v_310;
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
      let v_365 = (v_177.out_first_ + i_);
      v_360.results_[v_365] = t18_;
      let v_375 = ((v_177.out_first_ + v_177.out_stride_) + i_);
      v_360.results_[v_375] = t19_;
      let v_385 = ((v_177.out_first_ + (2u * v_177.out_stride_)) + i_);
      v_360.results_[v_385] = t20_;
      let v_396 = ((v_177.out_first_ + (3u * v_177.out_stride_)) + i_);
      v_360.results_[v_396] = t21_;
      let v_407 = ((v_177.out_first_ + (4u * v_177.out_stride_)) + i_);
      v_360.results_[v_407] = t22_;
      let v_418 = ((v_177.out_first_ + (5u * v_177.out_stride_)) + i_);
      v_360.results_[v_418] = t23_;
      let v_422 = vec2<f32>(t25_, 0f);
      param_ = cost_;
      param_425 = v_422;
      let v_426 = compensated_add_(&param_, &param_425);
      cost_ = v_426;
    } else {
      break;
    }
    continuing {
      i_ = (i_ + grid_);
    }
  }
  param_431 = cost_;
  let v_433 = workgroup_sum_(&param_431);
  total_ = v_433;
  if ((gl_LocalInvocationIndex_ == 0u)) {
    let v_448 = (v_177.costs_first_ + gl_WorkGroupID_[0u]);
    v_441.costs_[v_448] = total_;
  }
  return;
}
