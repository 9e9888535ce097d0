// of the GLSL 3ff4d9b0822895961f9155dc739fadea
// and the SPIR-V module 139fba2ac335cbd971767c4e8da224c0, without doubles
struct DecisionBuffer_ {
  decision_: array<vec2<u32>>,
}
struct ScalarsBuffer_ {
  scalars_: array<vec2<u32>>,
}
struct PushConstants_ {
  count_: u32,
  first_: u32,
  inverse_first_: u32,
  masked_: u32,
  out_first_: u32,
  out_stride_: u32,
  sums_first_: u32,
  sums_count_: u32,
}
struct CurvatureBuffer_ {
  curvature_: array<vec2<u32>>,
}
struct DeltaBuffer_ {
  delta_: array<vec2<u32>>,
}
struct DirectionBuffer_ {
  direction_: array<vec2<u32>>,
}
struct ResidualBuffer_ {
  residual_: array<vec2<u32>>,
}
struct ProductBuffer_ {
  product_: array<vec2<u32>>,
}
struct FixedScalarsBuffer_ {
  fixed_scalars_: array<u32>,
}
struct InverseBlocksBuffer_ {
  inverse_blocks_: array<vec2<u32>>,
}
struct PreconditionedBuffer_ {
  preconditioned_: array<vec2<u32>>,
}
struct PartialsBuffer_ {
  partials_: array<vec2<u32>>,
}
struct v_999 {
  m0: u32,
  m1: u32,
}

var<private> gl_LocalInvocationIndex_: u32;
var<workgroup> workgroup_value_: vec2<u32>;
var<workgroup> partial_sums_: array<vec2<u32>, 128u>;
@group(0) @binding(9) var<storage, read> v_104: DecisionBuffer_;
@group(0) @binding(1) var<storage, read_write> v_127: ScalarsBuffer_;
@group(1) @binding(0) var<uniform> v_147: PushConstants_;
@group(0) @binding(10) var<storage, read> v_156: CurvatureBuffer_;
@group(0) @binding(4) var<storage, read_write> v_282: DeltaBuffer_;
@group(0) @binding(0) var<storage, read> v_290: DirectionBuffer_;
@group(0) @binding(5) var<storage, read_write> v_324: ResidualBuffer_;
@group(0) @binding(6) var<storage, read> v_332: ProductBuffer_;
@group(0) @binding(3) var<storage, read> v_371: FixedScalarsBuffer_;
@group(0) @binding(8) var<storage, read> v_397: InverseBlocksBuffer_;
@group(0) @binding(7) var<storage, read_write> v_522: PreconditionedBuffer_;
@group(0) @binding(2) var<storage, read_write> v_578: PartialsBuffer_;

fn tg_mul_extended_v_999(a: u32, b: u32) -> v_999 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return v_999(a * b, ah * bh + (middle >> 16u) + (other >> 16u));
}

fn tg_is_inf_f64_(x_: ptr<function, vec2<u32>>) -> bool {
  var bits_: vec2<u32>;
  var v_33: bool;
  var v_39: bool;
  var v_40: bool;
  bits_ = (*x_);
  v_33 = ((bits_[1u] & 2147483647u) == 2146435072u);
  if (v_33) {
    v_39 = (bits_[0u] == 0u);
    v_40 = v_39;
  } else {
    v_40 = v_33;
  }
  return v_40;
}

fn workgroup_broadcast_(value_: ptr<function, vec2<u32>>) -> vec2<u32> {
  workgroupBarrier();
  if ((gl_LocalInvocationIndex_ == 0u)) {
    workgroup_value_ = (*value_);
  }
  workgroupBarrier();
  return workgroup_value_;
}

fn workgroup_sum_(value_17: ptr<function, vec2<u32>>) -> vec2<u32> {
  var self_: u32;
  var width_: u32;
  var sum_: vec2<u32>;
  self_ = gl_LocalInvocationIndex_;
  workgroupBarrier();
  let v_63 = self_;
  partial_sums_[v_63] = (*value_17);
  width_ = 64u;
  loop {
    if ((width_ > 0u)) {
      workgroupBarrier();
      if ((self_ < width_)) {
        let v_81 = self_;
        let v_86 = (self_ + width_);
        let v_89 = v_621(partial_sums_[v_81], partial_sums_[v_86]);
        sum_ = v_89;
        let v_90 = self_;
        partial_sums_[v_90] = sum_;
      }
    } else {
      break;
    }
    continuing {
      width_ = (width_ >> u32(1u));
    }
  }
  let v_95 = self_;
  return partial_sums_[v_95];
}

fn v_621(v_628: vec2<u32>, v_629: vec2<u32>) -> vec2<u32> {
  var v_631: vec2<u32>;
  var v_633: i32;
  var v_634: i32;
  let v_635 = v_636(v_628);
  let v_637 = v_636(v_629);
  let v_638 = v_639(v_635, v_637);
  let v_640 = v_641(v_638, v_629, v_628);
  let v_642 = v_636(v_640);
  let v_643 = v_641(v_638, v_628, v_629);
  let v_644 = v_636(v_643);
  let v_648 = ((v_628[1] ^ v_629[1]) >= 2147483648u);
  let v_650 = v_651(v_642, &v_633);
  let v_652 = v_633;
  let v_653 = v_654(v_650, 9u);
  v_631 = v_653;
  let v_656 = v_651(v_644, &v_634);
  let v_657 = v_634;
  let v_658 = v_654(v_656, 9u);
  let v_661 = v_662(v_658, bitcast<u32>((v_652 - v_657)));
  let v_663 = v_664(vec2<u32>(0u, 0u), v_661);
  let v_667 = v_631;
  let v_668 = v_641(v_648, v_663, v_661);
  let v_669 = v_670(v_667, v_668);
  v_631 = v_669;
  let v_676 = ((v_631[0] | v_631[1]) == 0u);
  let v_678 = v_679(v_631);
  let v_683 = min((bitcast<i32>(v_678) - i32(1)), v_652);
  let v_686 = v_654(v_631, bitcast<u32>(v_683));
  v_631 = v_686;
  let v_690 = v_691((v_676 && v_648), 0u, (v_640[1] & 2147483648u));
  let v_693 = v_694(v_676, i32(0), (v_652 - v_683));
  let v_697 = v_698(v_690, v_693, v_631);
  let v_700 = (v_642[1] >= 2146435072u);
  let v_704 = (v_648 && (v_644[1] == 2146435072u));
  let v_705 = v_706(v_642);
  let v_708 = v_641((v_705 || v_704), vec2<u32>(0u, 2146959360u), v_640);
  let v_711 = v_641(v_700, v_708, v_697);
  return v_711;
}

fn v_691(v_713: bool, v_714: u32, v_715: u32) -> u32 {
  return select(v_715, v_714, v_713);
}

fn v_694(v_719: bool, v_720: i32, v_721: i32) -> i32 {
  return select(v_721, v_720, v_719);
}

fn v_641(v_725: bool, v_726: vec2<u32>, v_727: vec2<u32>) -> vec2<u32> {
  let v_731 = v_691(v_725, v_726[0], v_727[0]);
  let v_734 = v_691(v_725, v_726[1], v_727[1]);
  return vec2<u32>(v_731, v_734);
}

fn v_670(v_736: vec2<u32>, v_737: vec2<u32>) -> vec2<u32> {
  let v_739 = v_736[0];
  let v_741 = (v_739 + v_737[0]);
  let v_745 = (v_736[1] + v_737[1]);
  let v_746 = v_691((v_741 < v_739), 1u, 0u);
  return vec2<u32>(v_741, (v_745 + v_746));
}

fn v_664(v_750: vec2<u32>, v_751: vec2<u32>) -> vec2<u32> {
  let v_753 = v_750[0];
  let v_754 = v_751[0];
  let v_756 = (v_753 - v_754);
  let v_759 = (v_750[1] - v_751[1]);
  let v_760 = v_691((v_753 < v_754), 1u, 0u);
  return vec2<u32>(v_756, (v_759 - v_760));
}

fn v_639(v_764: vec2<u32>, v_765: vec2<u32>) -> bool {
  let v_767 = v_764[1];
  let v_768 = v_765[1];
  return ((v_767 < v_768) || ((v_767 == v_768) && (v_764[0] < v_765[0])));
}

fn v_654(v_777: vec2<u32>, v_778: u32) -> vec2<u32> {
  let v_780 = (v_778 & 31u);
  let v_782 = v_777[0];
  let v_783 = (v_782 << u32(v_780));
  let v_790 = (v_778 < 32u);
  let v_789 = ((v_777[1] << u32(v_780)) | ((v_782 >> u32(1u)) >> u32((31u - v_780))));
  let v_792 = v_691(v_790, v_783, 0u);
  let v_793 = v_691(v_790, v_789, v_783);
  return vec2<u32>(v_792, v_793);
}

fn v_662(v_795: vec2<u32>, v_796: u32) -> vec2<u32> {
  let v_798 = min(v_796, 63u);
  let v_800 = (v_798 & 31u);
  let v_802 = ((1u << u32(v_800)) - 1u);
  let v_803 = v_795[0];
  let v_805 = v_795[1];
  let v_810 = (v_805 >> u32(v_800));
  let v_811 = (v_798 < 32u);
  let v_809 = ((v_803 >> u32(v_800)) | ((v_805 << u32(1u)) << u32((31u - v_800))));
  let v_815 = v_691(v_811, (v_803 & v_802), (v_803 | (v_805 & v_802)));
  let v_816 = (v_815 != 0u);
  let v_817 = v_691(v_811, v_809, v_810);
  let v_818 = v_691(v_816, 1u, 0u);
  let v_819 = (v_817 | v_818);
  let v_820 = v_691(v_811, v_810, 0u);
  return vec2<u32>(v_819, v_820);
}

fn v_679(v_823: vec2<u32>) -> u32 {
  let v_825 = v_823[1];
  let v_826 = (v_825 != 0u);
  let v_827 = v_691(v_826, 31u, 63u);
  let v_829 = v_691(v_826, v_825, v_823[0]);
  return (v_827 - bitcast<u32>(bitcast<i32>(firstLeadingBit(v_829))));
}

fn v_636(v_834: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(v_834[0], (v_834[1] & 2147483647u));
}

fn v_706(v_842: vec2<u32>) -> bool {
  let v_846 = v_842[1];
  let v_847 = v_691((v_842[0] != 0u), 1u, 0u);
  return ((v_846 + v_847) > 2146435072u);
}

fn v_651(v_851: vec2<u32>, v_852: ptr<function, i32>) -> vec2<u32> {
  let v_854 = v_851[1];
  let v_857 = bitcast<i32>((v_854 >> u32(20u)));
  let v_858 = (v_857 > i32(0));
  (*v_852) = max(v_857, i32(1));
  let v_860 = v_851[0];
  let v_861 = (v_854 & 1048575u);
  let v_863 = v_691(v_858, 1048576u, 0u);
  return vec2<u32>(v_860, (v_861 | v_863));
}

fn v_698(v_868: u32, v_869: i32, v_870: vec2<u32>) -> vec2<u32> {
  let v_872 = v_870[0];
  let v_873 = (v_872 + 512u);
  let v_876 = v_870[1];
  let v_877 = v_691((v_873 < 512u), 1u, 0u);
  let v_878 = (v_876 + v_877);
  let v_882 = (v_869 > i32(2045));
  let v_884 = v_691(((v_872 & 1023u) == 512u), 1u, 0u);
  let v_895 = ((bitcast<u32>(v_869) << u32(20u)) + (v_878 >> u32(10u)));
  let v_896 = v_691(v_882, 0u, (((v_873 >> u32(10u)) | (v_878 << u32(22u))) & (~v_884)));
  let v_897 = v_691(v_882, 2146435072u, v_895);
  return vec2<u32>(v_896, (v_868 | v_897));
}

fn v_626(v_900: vec2<u32>, v_901: vec2<u32>) -> vec2<u32> {
  let v_903 = v_904(v_901);
  let v_905 = v_621(v_900, v_903);
  return v_905;
}

fn v_904(v_906: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(v_906[0], (v_906[1] ^ 2147483648u));
}

fn v_624(v_912: vec2<u32>, v_913: vec2<u32>) -> vec2<u32> {
  var v_915: vec2<u32>;
  var v_916: i32;
  var v_917: i32;
  let v_918 = v_636(v_912);
  let v_919 = v_636(v_913);
  let v_923 = ((v_912[1] ^ v_913[1]) & 2147483648u);
  let v_924 = v_925(v_918, &v_916);
  let v_926 = v_916;
  v_915 = v_924;
  let v_927 = v_925(v_919, &v_917);
  let v_928 = v_917;
  let v_930 = v_654(v_915, 10u);
  let v_931 = v_654(v_927, 11u);
  let v_934 = v_935(v_930, v_931);
  let v_940 = v_934[2];
  let v_941 = v_691(((v_934[0] | v_934[1]) != 0u), 1u, 0u);
  v_915 = vec2<u32>((v_940 | v_941), v_934[3]);
  let v_947 = (v_915[1] < 1073741824u);
  let v_961 = v_641(v_947, vec2<u32>((v_915[0] << u32(1u)), ((v_915[1] << u32(1u)) | (v_915[0] >> u32(31u)))), v_915);
  v_915 = v_961;
  let v_963 = ((v_926 + v_928) - i32(1023));
  let v_965 = v_694(v_947, i32(1), i32(0));
  let v_968 = v_969(v_923, (v_963 - v_965), v_915);
  let v_971 = v_918[1];
  let v_975 = v_919[1];
  let v_978 = (((v_918[0] | v_971) == 0u) || ((v_919[0] | v_975) == 0u));
  let v_980 = (max(v_971, v_975) >= 2146435072u);
  let v_981 = v_706(v_918);
  let v_982 = v_706(v_919);
  let v_987 = v_641(((v_981 || v_982) || v_978), vec2<u32>(0u, 2146959360u), vec2<u32>(0u, (v_923 | 2146435072u)));
  let v_989 = v_641(v_978, vec2<u32>(0u, v_923), v_968);
  let v_990 = v_641(v_980, v_987, v_989);
  return v_990;
}

fn v_935(v_992: vec2<u32>, v_993: vec2<u32>) -> vec4<u32> {
  var v_995: vec2<u32>;
  var v_996: vec2<u32>;
  let v_997 = v_992[0];
  let v_998 = v_993[0];
  let v_1000 = tg_mul_extended_v_999(v_997, v_998);
  let v_1003 = v_993[1];
  let v_1004 = tg_mul_extended_v_999(v_997, v_1003);
  let v_1007 = v_992[1];
  let v_1008 = tg_mul_extended_v_999(v_1007, v_998);
  let v_1011 = tg_mul_extended_v_999(v_1007, v_1003);
  let v_1001 = v_1000.m0;
  let v_1009 = v_1008.m0;
  let v_1010 = v_1008.m1;
  let v_1012 = v_1011.m0;
  let v_1013 = v_1011.m1;
  let v_1016 = v_670(vec2<u32>(v_1004.m0, v_1004.m1), vec2<u32>(v_1000.m1, 0u));
  v_995 = v_1016;
  let v_1021 = v_670(vec2<u32>(v_1012, v_1013), vec2<u32>(v_995[1], 0u));
  v_996 = v_1021;
  let v_1026 = v_670(vec2<u32>(v_1009, v_1010), vec2<u32>(v_995[0], 0u));
  v_995 = v_1026;
  let v_1031 = v_670(v_996, vec2<u32>(v_995[1], 0u));
  v_996 = v_1031;
  return vec4<u32>(v_1001, v_995[0], v_996[0], v_996[1]);
}

fn v_925(v_1039: vec2<u32>, v_1040: ptr<function, i32>) -> vec2<u32> {
  var v_1042: vec2<u32>;
  var v_1043: i32;
  let v_1044 = v_651(v_1039, &v_1043);
  (*v_1040) = v_1043;
  v_1042 = v_1044;
  if ((v_1042[1] < 1048576u)) {
    let v_1052 = v_679(v_1042);
    let v_1054 = min((v_1052 - 11u), 52u);
    (*v_1040) = ((*v_1040) - bitcast<i32>(v_1054));
    let v_1060 = v_654(v_1042, v_1054);
    v_1042 = v_1060;
  }
  return v_1042;
}

fn v_969(v_1062: u32, v_1063: i32, v_1064: vec2<u32>) -> vec2<u32> {
  var v_1071: vec2<u32>;
  var v_1072: vec2<u32>;
  if ((v_1063 < i32(0))) {
    v_1071 = v_662(v_1064, bitcast<u32>((-v_1063)));
    v_1072 = v_1071;
  } else {
    v_1072 = v_1064;
  }
  let v_1074 = v_698(v_1062, max(v_1063, i32(0)), v_1072);
  return v_1074;
}

fn v_623(v_1075: vec2<u32>, v_1076: vec2<u32>) -> vec2<u32> {
  var v_1078: vec2<u32>;
  var v_1079: i32;
  var v_1080: i32;
  var v_1081: vec2<u32>;
  var v_1082: vec2<u32>;
  var v_1083: vec2<u32>;
  var v_1084: vec2<u32>;
  let v_1085 = v_636(v_1075);
  let v_1086 = v_636(v_1076);
  let v_1090 = ((v_1075[1] ^ v_1076[1]) & 2147483648u);
  let v_1091 = v_925(v_1085, &v_1079);
  let v_1092 = v_1079;
  v_1078 = v_1091;
  let v_1093 = v_925(v_1086, &v_1080);
  let v_1094 = v_1080;
  let v_1096 = v_639(v_1078, v_1093);
  let v_1097 = (i32(1022) - v_1094);
  let v_1099 = v_694(v_1096, i32(1), i32(0));
  let v_1101 = (v_1092 + (v_1097 - v_1099));
  let v_1102 = v_1078;
  let v_1103 = v_691(v_1096, 11u, 10u);
  let v_1104 = v_654(v_1102, v_1103);
  v_1078 = v_1104;
  let v_1111 = (((v_1093[1] << u32(11u)) | (v_1093[0] >> u32(21u))) | 2147483648u);
  let v_1117 = (min(u32((4.611686e+18f / f32(v_1111))), 2147483647u) << u32(1u));
  let v_1118 = tg_mul_extended_v_999(v_1117, v_1111);
  let v_1122 = v_664(vec2<u32>(0u, 2147483648u), vec2<u32>(v_1118.m0, v_1118.m1));
  let v_1124 = v_1125(v_1117, v_1122);
  let v_1126 = (v_1124 - 3u);
  let v_1131 = tg_mul_extended_v_999(v_1078[1], v_1126).m1;
  let v_1133 = v_654(v_1078, 24u);
  let v_1135 = v_654(v_1093, 4u);
  let v_1137 = v_1138(v_1135, v_1131);
  let v_1139 = v_664(v_1133, v_1137);
  v_1081 = v_1139;
  let v_1143 = tg_mul_extended_v_999(v_1081[1], v_1126).m1;
  let v_1145 = v_654(v_1081, 20u);
  let v_1146 = v_1138(v_1093, v_1143);
  let v_1147 = v_664(v_1145, v_1146);
  v_1081 = v_1147;
  v_1082 = v_1081;
  let v_1149 = v_1150(v_1093, &v_1082);
  v_1081 = v_1082;
  let v_1152 = (v_1143 + v_1149);
  v_1083 = v_1081;
  let v_1154 = v_1150(v_1093, &v_1083);
  v_1081 = v_1083;
  let v_1156 = (v_1152 + v_1154);
  v_1084 = v_1081;
  let v_1158 = v_1150(v_1093, &v_1084);
  v_1081 = v_1084;
  let v_1160 = (v_1156 + v_1158);
  let v_1167 = (v_1160 << u32(8u));
  let v_1169 = v_691(((v_1081[0] | v_1081[1]) != 0u), 1u, 0u);
  let v_1174 = v_969(v_1090, v_1101, vec2<u32>((v_1167 | v_1169), (v_1131 + (v_1160 >> u32(24u)))));
  let v_1176 = v_1085[1];
  let v_1178 = ((v_1085[0] | v_1176) == 0u);
  let v_1180 = v_1086[1];
  let v_1182 = ((v_1086[0] | v_1180) == 0u);
  let v_1183 = (v_1176 >= 2146435072u);
  let v_1184 = (v_1180 >= 2146435072u);
  let v_1185 = v_706(v_1085);
  let v_1186 = v_706(v_1086);
  let v_1192 = (v_1183 || v_1182);
  let v_1191 = (((v_1185 || v_1186) || (v_1178 && v_1182)) || (v_1183 && v_1184));
  let v_1193 = (v_1178 || v_1184);
  let v_1197 = v_641(v_1192, vec2<u32>(0u, (v_1090 | 2146435072u)), vec2<u32>(0u, v_1090));
  let v_1199 = v_641((v_1192 || v_1193), v_1197, v_1174);
  let v_1200 = v_641(v_1191, vec2<u32>(0u, 2146959360u), v_1199);
  return v_1200;
}

fn v_1138(v_1201: vec2<u32>, v_1202: u32) -> vec2<u32> {
  let v_1205 = tg_mul_extended_v_999(v_1201[0], v_1202);
  return vec2<u32>(v_1205.m0, (v_1205.m1 + (v_1201[1] * v_1202)));
}

fn v_1125(v_1213: u32, v_1214: vec2<u32>) -> u32 {
  let v_1217 = (v_1214[1] >= 2147483648u);
  let v_1218 = v_664(vec2<u32>(0u, 0u), v_1214);
  let v_1219 = v_641(v_1217, v_1218, v_1214);
  let v_1229 = (tg_mul_extended_v_999(v_1213, ((v_1219[0] >> u32(13u)) | (v_1219[1] << u32(19u)))).m1 >> u32(18u));
  let v_1233 = v_691(v_1217, (v_1213 - v_1229), (v_1213 + v_1229));
  return v_1233;
}

fn v_1150(v_1235: vec2<u32>, v_1236: ptr<function, vec2<u32>>) -> u32 {
  let v_1239 = v_639((*v_1236), v_1235);
  let v_1240 = (*v_1236);
  let v_1242 = v_664((*v_1236), v_1235);
  let v_1243 = v_641(v_1239, v_1240, v_1242);
  (*v_1236) = v_1243;
  let v_1244 = v_691(v_1239, 0u, 1u);
  return v_1244;
}

fn v_619(v_1245: vec2<u32>, v_1246: vec2<u32>) -> bool {
  let v_1248 = v_1249(v_1245);
  let v_1250 = v_1245[0];
  let v_1251 = v_1246[0];
  let v_1253 = v_1245[1];
  let v_1254 = v_1246[1];
  return ((((v_1250 == v_1251) && (v_1253 == v_1254)) || (((v_1250 | v_1251) | ((v_1253 | v_1254) & 2147483647u)) == 0u)) && (!v_1248));
}

fn v_1249(v_1265: vec2<u32>) -> bool {
  let v_1267 = v_636(v_1265);
  let v_1268 = v_706(v_1267);
  return v_1268;
}

fn v_622(v_1269: vec2<u32>, v_1270: vec2<u32>) -> bool {
  let v_1272 = v_1273(v_1269, v_1270);
  let v_1274 = v_1275(v_1269, v_1270);
  return (v_1274 && (!v_1272));
}

fn v_1273(v_1278: vec2<u32>, v_1279: vec2<u32>) -> bool {
  let v_1281 = v_1249(v_1278);
  let v_1282 = v_1249(v_1279);
  return (v_1281 || v_1282);
}

fn v_1275(v_1284: vec2<u32>, v_1285: vec2<u32>) -> bool {
  let v_1287 = v_1284[1];
  let v_1288 = (v_1287 >= 2147483648u);
  let v_1289 = v_1285[1];
  let v_1297 = (((v_1284[0] | v_1285[0]) | ((v_1287 | v_1289) & 2147483647u)) == 0u);
  let v_1298 = (v_1288 == (v_1289 >= 2147483648u));
  let v_1299 = v_641(v_1288, v_1285, v_1284);
  let v_1300 = v_641(v_1288, v_1284, v_1285);
  let v_1301 = v_639(v_1299, v_1300);
  return select((v_1288 && (!v_1297)), v_1301, v_1298);
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(local_invocation_index) gl_LocalInvocationIndex_in: u32, @builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>, @builtin(num_workgroups) gl_NumWorkGroups_: vec3<u32>, @builtin(workgroup_id) gl_WorkGroupID_: vec3<u32>) {
  gl_LocalInvocationIndex_ = gl_LocalInvocationIndex_in;
  var next_state_: vec2<u32>;
  var pq_sum_: vec2<u32>;
  var k_: u32;
  var pq_: vec2<u32>;
  var param_: vec2<u32>;
  var param_172: vec2<u32>;
  var param_180: vec2<u32>;
  var alpha_: vec2<u32>;
  var after_: vec2<u32>;
  var gain_: vec2<u32>;
  var gains_: vec2<u32>;
  var iterations_: vec2<u32>;
  var recent_: vec2<u32>;
  var least_: vec2<u32>;
  var rz_: vec2<u32>;
  var rr_: vec2<u32>;
  var grid_: u32;
  var b_: u32;
  var k_270: u32;
  var d_0_: vec2<u32>;
  var d_1_: vec2<u32>;
  var d_2_: vec2<u32>;
  var r_0_: vec2<u32>;
  var r_1_: vec2<u32>;
  var r_2_: vec2<u32>;
  var m_0_: vec2<u32>;
  var m_1_: vec2<u32>;
  var m_2_: vec2<u32>;
  var m_3_: vec2<u32>;
  var m_4_: vec2<u32>;
  var m_5_: vec2<u32>;
  var z_0_: vec2<u32>;
  var z_1_: vec2<u32>;
  var z_2_: vec2<u32>;
  var rz_term_: vec2<u32>;
  var rr_term_: vec2<u32>;
  var total_0_: vec2<u32>;
  var param_568: vec2<u32>;
  var total_1_: vec2<u32>;
  var param_589: vec2<u32>;
  var v_112: bool;
  var v_120: bool;
  var v_121: bool;
  var v_176: bool;
  var v_182: bool;
  var v_183: bool;
  next_state_ = v_104.decision_[i32(0)];
  let v_618 = v_619(next_state_, vec2<u32>(0u, 0u));
  v_112 = (!v_618);
  if (v_112) {
    v_120 = (gl_GlobalInvocationID_[0u] == 0u);
    v_121 = v_120;
  } else {
    v_121 = v_112;
  }
  if (v_121) {
    v_127.scalars_[i32(24)] = next_state_;
  }
  let v_620 = v_619(next_state_, vec2<u32>(0u, 0u));
  if ((!v_620)) {
    return;
  }
  pq_sum_ = vec2<u32>(0u, 0u);
  k_ = gl_LocalInvocationIndex_;
  loop {
    if ((k_ < v_147.sums_count_)) {
      let v_161 = (v_147.sums_first_ + k_);
      let v_165 = v_621(pq_sum_, v_156.curvature_[v_161]);
      pq_sum_ = v_165;
    } else {
      break;
    }
    continuing {
      k_ = (k_ + 128u);
    }
  }
  param_ = pq_sum_;
  let v_171 = workgroup_sum_(&param_);
  param_172 = v_171;
  let v_173 = workgroup_broadcast_(&param_172);
  pq_ = v_173;
  let v_175 = v_622(vec2<u32>(0u, 0u), pq_);
  v_176 = (!v_175);
  if ((!v_176)) {
    param_180 = pq_;
    v_182 = tg_is_inf_f64_(&param_180);
    v_183 = v_182;
  } else {
    v_183 = v_176;
  }
  if (v_183) {
    next_state_ = vec2<u32>(0u, 1073741824u);
  }
  let v_192 = v_623(v_104.decision_[i32(13)], pq_);
  alpha_ = v_192;
  if ((gl_GlobalInvocationID_[0u] == 0u)) {
    after_ = next_state_;
    let v_201 = v_619(next_state_, vec2<u32>(0u, 0u));
    if (v_201) {
      let v_208 = v_624(alpha_, v_104.decision_[i32(13)]);
      gain_ = v_208;
      let v_214 = v_621(v_127.scalars_[i32(12)], gain_);
      gains_ = v_214;
      let v_220 = v_621(v_127.scalars_[i32(11)], vec2<u32>(0u, 1072693248u));
      iterations_ = v_220;
      v_127.scalars_[i32(12)] = gains_;
      v_127.scalars_[i32(11)] = iterations_;
      let v_228 = v_624(iterations_, gain_);
      recent_ = v_228;
      let v_234 = v_624(v_127.scalars_[i32(10)], gains_);
      least_ = v_234;
      let v_237 = v_622(recent_, least_);
      if (v_237) {
        after_ = vec2<u32>(0u, 1072693248u);
      }
    }
    v_127.scalars_[i32(24)] = after_;
    v_127.scalars_[i32(25)] = v_104.decision_[i32(13)];
  }
  let v_625 = v_619(next_state_, vec2<u32>(0u, 0u));
  if ((!v_625)) {
    return;
  }
  rz_ = vec2<u32>(0u, 0u);
  rr_ = vec2<u32>(0u, 0u);
  grid_ = (gl_NumWorkGroups_[0u] * 128u);
  b_ = gl_GlobalInvocationID_[0u];
  loop {
    if ((b_ < v_147.count_)) {
      k_270 = (v_147.first_ + (b_ * 3u));
      let v_283 = k_270;
      let v_291 = k_270;
      let v_285 = v_282.delta_[v_283];
      let v_294 = v_624(alpha_, v_290.direction_[v_291]);
      let v_295 = v_621(v_285, v_294);
      d_0_ = v_295;
      let v_298 = (k_270 + 1u);
      let v_303 = (k_270 + 1u);
      let v_300 = v_282.delta_[v_298];
      let v_306 = v_624(alpha_, v_290.direction_[v_303]);
      let v_307 = v_621(v_300, v_306);
      d_1_ = v_307;
      let v_310 = (k_270 + 2u);
      let v_315 = (k_270 + 2u);
      let v_312 = v_282.delta_[v_310];
      let v_318 = v_624(alpha_, v_290.direction_[v_315]);
      let v_319 = v_621(v_312, v_318);
      d_2_ = v_319;
      let v_325 = k_270;
      let v_333 = k_270;
      let v_327 = v_324.residual_[v_325];
      let v_336 = v_624(alpha_, v_332.product_[v_333]);
      let v_337 = v_626(v_327, v_336);
      r_0_ = v_337;
      let v_340 = (k_270 + 1u);
      let v_345 = (k_270 + 1u);
      let v_342 = v_324.residual_[v_340];
      let v_348 = v_624(alpha_, v_332.product_[v_345]);
      let v_349 = v_626(v_342, v_348);
      r_1_ = v_349;
      let v_352 = (k_270 + 2u);
      let v_357 = (k_270 + 2u);
      let v_354 = v_324.residual_[v_352];
      let v_360 = v_624(alpha_, v_332.product_[v_357]);
      let v_361 = v_626(v_354, v_360);
      r_2_ = v_361;
      if ((v_147.masked_ != 0u)) {
        let v_372 = k_270;
        if ((v_371.fixed_scalars_[v_372] != 0u)) {
          r_0_ = vec2<u32>(0u, 0u);
        }
        let v_380 = (k_270 + 1u);
        if ((v_371.fixed_scalars_[v_380] != 0u)) {
          r_1_ = vec2<u32>(0u, 0u);
        }
        let v_387 = (k_270 + 2u);
        if ((v_371.fixed_scalars_[v_387] != 0u)) {
          r_2_ = vec2<u32>(0u, 0u);
        }
      }
      let v_402 = (v_147.inverse_first_ + b_);
      m_0_ = v_397.inverse_blocks_[v_402];
      let v_412 = ((v_147.inverse_first_ + v_147.count_) + b_);
      m_1_ = v_397.inverse_blocks_[v_412];
      let v_423 = ((v_147.inverse_first_ + (2u * v_147.count_)) + b_);
      m_2_ = v_397.inverse_blocks_[v_423];
      let v_434 = ((v_147.inverse_first_ + (3u * v_147.count_)) + b_);
      m_3_ = v_397.inverse_blocks_[v_434];
      let v_446 = ((v_147.inverse_first_ + (4u * v_147.count_)) + b_);
      m_4_ = v_397.inverse_blocks_[v_446];
      let v_458 = ((v_147.inverse_first_ + (5u * v_147.count_)) + b_);
      m_5_ = v_397.inverse_blocks_[v_458];
      let v_464 = v_624(m_0_, r_0_);
      let v_467 = v_624(m_1_, r_1_);
      let v_468 = v_621(v_464, v_467);
      let v_471 = v_624(m_2_, r_2_);
      let v_472 = v_621(v_468, v_471);
      z_0_ = v_472;
      let v_476 = v_624(m_1_, r_0_);
      let v_479 = v_624(m_3_, r_1_);
      let v_480 = v_621(v_476, v_479);
      let v_483 = v_624(m_4_, r_2_);
      let v_484 = v_621(v_480, v_483);
      z_1_ = v_484;
      let v_488 = v_624(m_2_, r_0_);
      let v_491 = v_624(m_4_, r_1_);
      let v_492 = v_621(v_488, v_491);
      let v_495 = v_624(m_5_, r_2_);
      let v_496 = v_621(v_492, v_495);
      z_2_ = v_496;
      let v_497 = k_270;
      v_282.delta_[v_497] = d_0_;
      let v_501 = (k_270 + 1u);
      v_282.delta_[v_501] = d_1_;
      let v_505 = (k_270 + 2u);
      v_282.delta_[v_505] = d_2_;
      let v_508 = k_270;
      v_324.residual_[v_508] = r_0_;
      let v_512 = (k_270 + 1u);
      v_324.residual_[v_512] = r_1_;
      let v_516 = (k_270 + 2u);
      v_324.residual_[v_516] = r_2_;
      let v_523 = k_270;
      v_522.preconditioned_[v_523] = z_0_;
      let v_527 = (k_270 + 1u);
      v_522.preconditioned_[v_527] = z_1_;
      let v_531 = (k_270 + 2u);
      v_522.preconditioned_[v_531] = z_2_;
      let v_537 = v_624(r_0_, z_0_);
      let v_540 = v_624(r_1_, z_1_);
      let v_541 = v_621(v_537, v_540);
      let v_544 = v_624(r_2_, z_2_);
      let v_545 = v_621(v_541, v_544);
      rz_term_ = v_545;
      let v_548 = v_621(rz_, rz_term_);
      rz_ = v_548;
      let v_552 = v_624(r_0_, r_0_);
      let v_555 = v_624(r_1_, r_1_);
      let v_556 = v_621(v_552, v_555);
      let v_559 = v_624(r_2_, r_2_);
      let v_560 = v_621(v_556, v_559);
      rr_term_ = v_560;
      let v_563 = v_621(rr_, rr_term_);
      rr_ = v_563;
    } else {
      break;
    }
    continuing {
      b_ = (b_ + grid_);
    }
  }
  param_568 = rz_;
  let v_570 = workgroup_sum_(&param_568);
  total_0_ = v_570;
  if ((gl_LocalInvocationIndex_ == 0u)) {
    let v_585 = (v_147.out_first_ + gl_WorkGroupID_[0u]);
    v_578.partials_[v_585] = total_0_;
  }
  param_589 = rr_;
  let v_591 = workgroup_sum_(&param_589);
  total_1_ = v_591;
  if ((gl_LocalInvocationIndex_ == 0u)) {
    let v_604 = ((v_147.out_first_ + v_147.out_stride_) + gl_WorkGroupID_[0u]);
    v_578.partials_[v_604] = total_1_;
  }
  return;
}
