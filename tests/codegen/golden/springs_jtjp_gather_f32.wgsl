// of the GLSL d2320a7f908bf80bac1c845389b0c94d
// and the SPIR-V module 5e4eb5fa68c937eddb3070448acce627, without doubles
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
struct OwnersBuffer_ {
  owners_: array<u32>,
}
struct XBuffer_ {
  x_: array<f32>,
}
struct DirectionBuffer_ {
  direction_: array<f32>,
}
struct StartsBuffer_ {
  starts_: array<u32>,
}
struct IndexColumnsBuffer_ {
  index_columns_: array<u32>,
}
struct OutputsBuffer_ {
  outputs_: array<u32>,
}
struct ResultsBuffer_ {
  results_: array<f32>,
}

var<private> tg_zero: u32;
@group(1) @binding(0) var<uniform> v_18: PushConstants_;
@group(0) @binding(4) var<storage, read> v_41: OwnersBuffer_;
@group(0) @binding(0) var<storage, read> v_55: XBuffer_;
@group(0) @binding(1) var<storage, read> v_76: DirectionBuffer_;
@group(0) @binding(3) var<storage, read> v_98: StartsBuffer_;
@group(0) @binding(2) var<storage, read> v_121: IndexColumnsBuffer_;
@group(0) @binding(5) var<storage, read> v_500: OutputsBuffer_;
@group(0) @binding(6) var<storage, read_write> v_515: ResultsBuffer_;

fn tg_rounded_f32(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ u32(tg_zero));
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>, @builtin(num_workgroups) tg_groups: vec3<u32>) {
  tg_zero = tg_groups[0] >> 16u;
  var w_: u32;
  var own_: u32;
  var own_0_: f32;
  var own_1_: f32;
  var own_2_: f32;
  var own_d0_: f32;
  var own_d1_: f32;
  var own_d2_: f32;
  var sum_0_: f32;
  var sum_1_: f32;
  var sum_2_: f32;
  var end_0_: u32;
  var e_: u32;
  var c0_: u32;
  var x_b_: f32;
  var y_b_: f32;
  var z_b_: f32;
  var dx_b_: f32;
  var dy_b_: f32;
  var dz_b_: f32;
  var t0_: f32;
  var t1_: f32;
  var t2_: f32;
  var t3_: f32;
  var t4_: f32;
  var t5_: f32;
  var t6_: f32;
  var t7_: f32;
  var t8_: f32;
  var t9_: f32;
  var t10_: f32;
  var t11_: f32;
  var t12_: f32;
  var t13_: f32;
  var t14_: f32;
  var t15_: f32;
  var t16_: f32;
  var t17_: f32;
  var t18_: f32;
  var t19_: f32;
  var t20_: f32;
  var t21_: f32;
  var b22_: bool;
  var t23_: f32;
  var b24_: bool;
  var t25_: f32;
  var t26_: f32;
  var v_256: f32;
  var t27_: f32;
  var t28_: f32;
  var t29_: f32;
  var t30_: f32;
  var t31_: f32;
  var end_1_: u32;
  var e_300: u32;
  var c0_314: u32;
  var x_a_: f32;
  var y_a_: f32;
  var z_a_: f32;
  var dx_a_: f32;
  var dy_a_: f32;
  var dz_a_: f32;
  var t0_346: f32;
  var t1_350: f32;
  var t2_354: f32;
  var t3_357: f32;
  var t4_361: f32;
  var t5_365: f32;
  var t6_369: f32;
  var t7_372: f32;
  var t8_376: f32;
  var t9_380: f32;
  var t10_384: f32;
  var t11_388: f32;
  var t12_391: f32;
  var t13_395: f32;
  var t14_399: f32;
  var t15_403: f32;
  var t16_407: f32;
  var t17_411: f32;
  var t18_415: f32;
  var t19_419: f32;
  var t20_422: f32;
  var t21_425: f32;
  var b22_429: bool;
  var t23_432: f32;
  var b24_436: bool;
  var t25_439: f32;
  var t26_443: f32;
  var v_446: f32;
  var t27_454: f32;
  var t28_458: f32;
  var t29_461: f32;
  var t30_465: f32;
  var t31_468: f32;
  var t32_: f32;
  var t33_: f32;
  var t34_: f32;
  var o_: u32;
  w_ = (gl_GlobalInvocationID_[0u] + v_18.first_);
  if ((w_ >= v_18.count_)) {
    return;
  }
  let v_42 = w_;
  own_ = (v_18.x_first_ + (v_41.owners_[v_42] * 3u));
  let v_56 = own_;
  own_0_ = v_55.x_[v_56];
  let v_63 = (own_ + 1u);
  own_1_ = v_55.x_[v_63];
  let v_69 = (own_ + 2u);
  own_2_ = v_55.x_[v_69];
  let v_77 = own_;
  own_d0_ = v_76.direction_[v_77];
  let v_82 = (own_ + 1u);
  own_d1_ = v_76.direction_[v_82];
  let v_87 = (own_ + 2u);
  own_d2_ = v_76.direction_[v_87];
  sum_0_ = 0f;
  sum_1_ = 0f;
  sum_2_ = 0f;
  let v_101 = ((w_ * 2u) + 1u);
  end_0_ = v_98.starts_[v_101];
  let v_106 = (w_ * 2u);
  e_ = v_98.starts_[v_106];
  loop {
    if ((e_ < end_0_)) {
      let v_122 = e_;
      c0_ = v_121.index_columns_[v_122];
      let v_126 = c0_;
      x_b_ = v_55.x_[v_126];
      let v_131 = (c0_ + 1u);
      y_b_ = v_55.x_[v_131];
      let v_136 = (c0_ + 2u);
      z_b_ = v_55.x_[v_136];
      let v_140 = c0_;
      dx_b_ = v_76.direction_[v_140];
      let v_145 = (c0_ + 1u);
      dy_b_ = v_76.direction_[v_145];
      let v_150 = (c0_ + 2u);
      dz_b_ = v_76.direction_[v_150];
      t0_ = tg_rounded_f32((own_0_ - x_b_));
      t1_ = tg_rounded_f32((own_d0_ - dx_b_));
      t2_ = tg_rounded_f32((t1_ * 2f));
      t3_ = tg_rounded_f32((t0_ * t2_));
      t4_ = tg_rounded_f32((own_1_ - y_b_));
      t5_ = tg_rounded_f32((own_d1_ - dy_b_));
      t6_ = tg_rounded_f32((2f * t5_));
      t7_ = tg_rounded_f32((t4_ * t6_));
      t8_ = tg_rounded_f32((t3_ + t7_));
      t9_ = tg_rounded_f32((own_2_ - z_b_));
      t10_ = tg_rounded_f32((own_d2_ - dz_b_));
      t11_ = tg_rounded_f32((2f * t10_));
      t12_ = tg_rounded_f32((t9_ * t11_));
      t13_ = tg_rounded_f32((t8_ + t12_));
      t14_ = tg_rounded_f32((t0_ * t0_));
      t15_ = tg_rounded_f32((t4_ * t4_));
      t16_ = tg_rounded_f32((t14_ + t15_));
      t17_ = tg_rounded_f32((t9_ * t9_));
      t18_ = tg_rounded_f32((t16_ + t17_));
      t19_ = sqrt(t18_);
      t20_ = tg_rounded_f32((0.5f / t19_));
      t21_ = tg_rounded_f32((t13_ * t20_));
      b22_ = (t19_ == 0f);
      t23_ = select(t21_, 0f, b22_);
      b24_ = (t18_ > 0f);
      t25_ = select(0f, t23_, b24_);
      if ((t25_ == 0f)) {
        v_256 = 0f;
      } else {
        v_256 = tg_rounded_f32((t25_ * t20_));
      }
      t26_ = v_256;
      t27_ = select(t26_, 0f, b22_);
      t28_ = tg_rounded_f32((2f * t27_));
      t29_ = tg_rounded_f32((t0_ * t28_));
      t30_ = tg_rounded_f32((t4_ * t28_));
      t31_ = tg_rounded_f32((t9_ * t28_));
      sum_0_ = tg_rounded_f32((sum_0_ + t29_));
      sum_1_ = tg_rounded_f32((sum_1_ + t30_));
      sum_2_ = tg_rounded_f32((sum_2_ + t31_));
    } else {
      break;
    }
    continuing {
      e_ = (e_ + bitcast<u32>(i32(1)));
    }
  }
  let v_297 = ((w_ * 2u) + 2u);
  end_1_ = v_98.starts_[v_297];
  let v_303 = ((w_ * 2u) + 1u);
  e_300 = v_98.starts_[v_303];
  loop {
    if ((e_300 < end_1_)) {
      let v_315 = e_300;
      c0_314 = v_121.index_columns_[v_315];
      let v_319 = c0_314;
      x_a_ = v_55.x_[v_319];
      let v_324 = (c0_314 + 1u);
      y_a_ = v_55.x_[v_324];
      let v_329 = (c0_314 + 2u);
      z_a_ = v_55.x_[v_329];
      let v_333 = c0_314;
      dx_a_ = v_76.direction_[v_333];
      let v_338 = (c0_314 + 1u);
      dy_a_ = v_76.direction_[v_338];
      let v_343 = (c0_314 + 2u);
      dz_a_ = v_76.direction_[v_343];
      t0_346 = tg_rounded_f32((x_a_ - own_0_));
      t1_350 = tg_rounded_f32((dx_a_ - own_d0_));
      t2_354 = tg_rounded_f32((t1_350 * 2f));
      t3_357 = tg_rounded_f32((t0_346 * t2_354));
      t4_361 = tg_rounded_f32((y_a_ - own_1_));
      t5_365 = tg_rounded_f32((dy_a_ - own_d1_));
      t6_369 = tg_rounded_f32((2f * t5_365));
      t7_372 = tg_rounded_f32((t4_361 * t6_369));
      t8_376 = tg_rounded_f32((t3_357 + t7_372));
      t9_380 = tg_rounded_f32((z_a_ - own_2_));
      t10_384 = tg_rounded_f32((dz_a_ - own_d2_));
      t11_388 = tg_rounded_f32((2f * t10_384));
      t12_391 = tg_rounded_f32((t9_380 * t11_388));
      t13_395 = tg_rounded_f32((t8_376 + t12_391));
      t14_399 = tg_rounded_f32((t0_346 * t0_346));
      t15_403 = tg_rounded_f32((t4_361 * t4_361));
      t16_407 = tg_rounded_f32((t14_399 + t15_403));
      t17_411 = tg_rounded_f32((t9_380 * t9_380));
      t18_415 = tg_rounded_f32((t16_407 + t17_411));
      t19_419 = sqrt(t18_415);
      t20_422 = tg_rounded_f32((0.5f / t19_419));
      t21_425 = tg_rounded_f32((t13_395 * t20_422));
      b22_429 = (t19_419 == 0f);
      t23_432 = select(t21_425, 0f, b22_429);
      b24_436 = (t18_415 > 0f);
      t25_439 = select(0f, t23_432, b24_436);
      if ((t25_439 == 0f)) {
        v_446 = 0f;
      } else {
        v_446 = tg_rounded_f32((t25_439 * t20_422));
      }
      t26_443 = v_446;
      t27_454 = select(t26_443, 0f, b22_429);
      t28_458 = tg_rounded_f32((2f * t27_454));
      t29_461 = tg_rounded_f32((t0_346 * t28_458));
      t30_465 = (-t29_461);
      t31_468 = tg_rounded_f32((t4_361 * t28_458));
      t32_ = (-t31_468);
      t33_ = tg_rounded_f32((t9_380 * t28_458));
      t34_ = (-t33_);
      sum_0_ = tg_rounded_f32((sum_0_ + t30_465));
      sum_1_ = tg_rounded_f32((sum_1_ + t32_));
      sum_2_ = tg_rounded_f32((sum_2_ + t34_));
    } else {
      break;
    }
    continuing {
      e_300 = (e_300 + bitcast<u32>(i32(1)));
    }
  }
  let v_501 = w_;
  o_ = (v_18.out_first_ + (v_500.outputs_[v_501] * 3u));
  if ((v_18.overwrite_ == 0u)) {
    let v_516 = o_;
    sum_0_ = tg_rounded_f32((v_515.results_[v_516] + sum_0_));
    let v_522 = (o_ + 1u);
    sum_1_ = tg_rounded_f32((v_515.results_[v_522] + sum_1_));
    let v_528 = (o_ + 2u);
    sum_2_ = tg_rounded_f32((v_515.results_[v_528] + sum_2_));
  }
  let v_533 = o_;
  v_515.results_[v_533] = sum_0_;
  let v_537 = (o_ + 1u);
  v_515.results_[v_537] = sum_1_;
  let v_541 = (o_ + 2u);
  v_515.results_[v_541] = sum_2_;
  return;
}
