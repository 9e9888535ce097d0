// of the GLSL b8b5eb3eeec7837d4241e54175c09311
// and the SPIR-V module 428337c01371342376f284c69a9f9b8e, without doubles
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
  x_: array<vec2<u32>>,
}
struct StartsBuffer_ {
  starts_: array<u32>,
}
struct IndexColumnsBuffer_ {
  index_columns_: array<u32>,
}
struct DataColumnsBuffer_ {
  data_columns_: array<vec2<u32>>,
}
struct OutputsBuffer_ {
  outputs_: array<u32>,
}
struct ResultsBuffer_ {
  results_: array<vec2<u32>>,
}
struct v_814 {
  m0: u32,
  m1: u32,
}

@group(1) @binding(0) var<uniform> v_18: PushConstants_;
@group(0) @binding(4) var<storage, read> v_41: OwnersBuffer_;
@group(0) @binding(0) var<storage, read> v_55: XBuffer_;
@group(0) @binding(3) var<storage, read> v_80: StartsBuffer_;
@group(0) @binding(1) var<storage, read> v_103: IndexColumnsBuffer_;
@group(0) @binding(2) var<storage, read> v_125: DataColumnsBuffer_;
@group(0) @binding(5) var<storage, read> v_384: OutputsBuffer_;
@group(0) @binding(6) var<storage, read_write> v_399: ResultsBuffer_;

fn tg_mul_extended_v_814(a: u32, b: u32) -> v_814 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let low = al * bl;
  let middle = ah * bl + (low >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return v_814(a * b, ah * bh + (middle >> 16u) + (other >> 16u));
}

fn v_442(v_444: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(v_444[0], (v_444[1] ^ 2147483648u));
}

fn v_437(v_452: vec2<u32>, v_453: vec2<u32>) -> vec2<u32> {
  var v_455: vec2<u32>;
  var v_457: i32;
  var v_458: i32;
  let v_459 = v_460(v_452);
  let v_461 = v_460(v_453);
  let v_462 = v_463(v_459, v_461);
  let v_464 = v_465(v_462, v_453, v_452);
  let v_466 = v_460(v_464);
  let v_467 = v_465(v_462, v_452, v_453);
  let v_468 = v_460(v_467);
  let v_472 = ((v_452[1] ^ v_453[1]) >= 2147483648u);
  let v_473 = v_474(v_466, &v_457);
  let v_475 = v_457;
  let v_476 = v_477(v_473, 9u);
  v_455 = v_476;
  let v_479 = v_474(v_468, &v_458);
  let v_480 = v_458;
  let v_481 = v_477(v_479, 9u);
  let v_484 = v_485(v_481, bitcast<u32>((v_475 - v_480)));
  let v_486 = v_487(vec2<u32>(0u, 0u), v_484);
  let v_490 = v_455;
  let v_491 = v_465(v_472, v_486, v_484);
  let v_492 = v_493(v_490, v_491);
  v_455 = v_492;
  let v_499 = ((v_455[0] | v_455[1]) == 0u);
  let v_501 = v_502(v_455);
  let v_506 = min((bitcast<i32>(v_501) - i32(1)), v_475);
  let v_509 = v_477(v_455, bitcast<u32>(v_506));
  v_455 = v_509;
  let v_513 = v_514((v_499 && v_472), 0u, (v_464[1] & 2147483648u));
  let v_516 = v_517(v_499, i32(0), (v_475 - v_506));
  let v_520 = v_521(v_513, v_516, v_455);
  let v_523 = (v_466[1] >= 2146435072u);
  let v_527 = (v_472 && (v_468[1] == 2146435072u));
  let v_528 = v_529(v_466);
  let v_531 = v_465((v_528 || v_527), vec2<u32>(0u, 2146959360u), v_464);
  let v_534 = v_465(v_523, v_531, v_520);
  return v_534;
}

fn v_514(v_536: bool, v_537: u32, v_538: u32) -> u32 {
  return select(v_538, v_537, v_536);
}

fn v_517(v_542: bool, v_543: i32, v_544: i32) -> i32 {
  return select(v_544, v_543, v_542);
}

fn v_465(v_548: bool, v_549: vec2<u32>, v_550: vec2<u32>) -> vec2<u32> {
  let v_554 = v_514(v_548, v_549[0], v_550[0]);
  let v_557 = v_514(v_548, v_549[1], v_550[1]);
  return vec2<u32>(v_554, v_557);
}

fn v_493(v_559: vec2<u32>, v_560: vec2<u32>) -> vec2<u32> {
  let v_562 = v_559[0];
  let v_564 = (v_562 + v_560[0]);
  let v_568 = (v_559[1] + v_560[1]);
  let v_569 = v_514((v_564 < v_562), 1u, 0u);
  return vec2<u32>(v_564, (v_568 + v_569));
}

fn v_487(v_573: vec2<u32>, v_574: vec2<u32>) -> vec2<u32> {
  let v_576 = v_573[0];
  let v_577 = v_574[0];
  let v_579 = (v_576 - v_577);
  let v_582 = (v_573[1] - v_574[1]);
  let v_583 = v_514((v_576 < v_577), 1u, 0u);
  return vec2<u32>(v_579, (v_582 - v_583));
}

fn v_463(v_587: vec2<u32>, v_588: vec2<u32>) -> bool {
  let v_590 = v_587[1];
  let v_591 = v_588[1];
  return ((v_590 < v_591) || ((v_590 == v_591) && (v_587[0] < v_588[0])));
}

fn v_477(v_600: vec2<u32>, v_601: u32) -> vec2<u32> {
  let v_603 = (v_601 & 31u);
  let v_605 = v_600[0];
  let v_606 = (v_605 << u32(v_603));
  let v_613 = (v_601 < 32u);
  let v_612 = ((v_600[1] << u32(v_603)) | ((v_605 >> u32(1u)) >> u32((31u - v_603))));
  let v_615 = v_514(v_613, v_606, 0u);
  let v_616 = v_514(v_613, v_612, v_606);
  return vec2<u32>(v_615, v_616);
}

fn v_485(v_618: vec2<u32>, v_619: u32) -> vec2<u32> {
  let v_621 = min(v_619, 63u);
  let v_623 = (v_621 & 31u);
  let v_625 = ((1u << u32(v_623)) - 1u);
  let v_626 = v_618[0];
  let v_628 = v_618[1];
  let v_633 = (v_628 >> u32(v_623));
  let v_634 = (v_621 < 32u);
  let v_632 = ((v_626 >> u32(v_623)) | ((v_628 << u32(1u)) << u32((31u - v_623))));
  let v_638 = v_514(v_634, (v_626 & v_625), (v_626 | (v_628 & v_625)));
  let v_639 = (v_638 != 0u);
  let v_640 = v_514(v_634, v_632, v_633);
  let v_641 = v_514(v_639, 1u, 0u);
  let v_642 = (v_640 | v_641);
  let v_643 = v_514(v_634, v_633, 0u);
  return vec2<u32>(v_642, v_643);
}

fn v_502(v_646: vec2<u32>) -> u32 {
  let v_648 = v_646[1];
  let v_649 = (v_648 != 0u);
  let v_650 = v_514(v_649, 31u, 63u);
  let v_652 = v_514(v_649, v_648, v_646[0]);
  return (v_650 - bitcast<u32>(bitcast<i32>(firstLeadingBit(v_652))));
}

fn v_460(v_656: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(v_656[0], (v_656[1] & 2147483647u));
}

fn v_529(v_664: vec2<u32>) -> bool {
  let v_668 = v_664[1];
  let v_669 = v_514((v_664[0] != 0u), 1u, 0u);
  return ((v_668 + v_669) > 2146435072u);
}

fn v_474(v_673: vec2<u32>, v_674: ptr<function, i32>) -> vec2<u32> {
  let v_676 = v_673[1];
  let v_679 = bitcast<i32>((v_676 >> u32(20u)));
  let v_680 = (v_679 > i32(0));
  (*v_674) = max(v_679, i32(1));
  let v_682 = v_673[0];
  let v_683 = (v_676 & 1048575u);
  let v_685 = v_514(v_680, 1048576u, 0u);
  return vec2<u32>(v_682, (v_683 | v_685));
}

fn v_521(v_690: u32, v_691: i32, v_692: vec2<u32>) -> vec2<u32> {
  let v_694 = v_692[0];
  let v_695 = (v_694 + 512u);
  let v_698 = v_692[1];
  let v_699 = v_514((v_695 < 512u), 1u, 0u);
  let v_700 = (v_698 + v_699);
  let v_704 = (v_691 > i32(2045));
  let v_706 = v_514(((v_694 & 1023u) == 512u), 1u, 0u);
  let v_717 = ((bitcast<u32>(v_691) << u32(20u)) + (v_700 >> u32(10u)));
  let v_718 = v_514(v_704, 0u, (((v_695 >> u32(10u)) | (v_700 << u32(22u))) & (~v_706)));
  let v_719 = v_514(v_704, 2146435072u, v_717);
  return vec2<u32>(v_718, (v_690 | v_719));
}

fn v_435(v_722: vec2<u32>, v_723: vec2<u32>) -> vec2<u32> {
  let v_725 = v_442(v_723);
  let v_726 = v_437(v_722, v_725);
  return v_726;
}

fn v_436(v_727: vec2<u32>, v_728: vec2<u32>) -> vec2<u32> {
  var v_730: vec2<u32>;
  var v_731: i32;
  var v_732: i32;
  let v_733 = v_460(v_727);
  let v_734 = v_460(v_728);
  let v_738 = ((v_727[1] ^ v_728[1]) & 2147483648u);
  let v_739 = v_740(v_733, &v_731);
  let v_741 = v_731;
  v_730 = v_739;
  let v_742 = v_740(v_734, &v_732);
  let v_743 = v_732;
  let v_745 = v_477(v_730, 10u);
  let v_746 = v_477(v_742, 11u);
  let v_749 = v_750(v_745, v_746);
  let v_755 = v_749[2];
  let v_756 = v_514(((v_749[0] | v_749[1]) != 0u), 1u, 0u);
  v_730 = vec2<u32>((v_755 | v_756), v_749[3]);
  let v_762 = (v_730[1] < 1073741824u);
  let v_776 = v_465(v_762, vec2<u32>((v_730[0] << u32(1u)), ((v_730[1] << u32(1u)) | (v_730[0] >> u32(31u)))), v_730);
  v_730 = v_776;
  let v_778 = ((v_741 + v_743) - i32(1023));
  let v_780 = v_517(v_762, i32(1), i32(0));
  let v_783 = v_784(v_738, (v_778 - v_780), v_730);
  let v_786 = v_733[1];
  let v_790 = v_734[1];
  let v_793 = (((v_733[0] | v_786) == 0u) || ((v_734[0] | v_790) == 0u));
  let v_795 = (max(v_786, v_790) >= 2146435072u);
  let v_796 = v_529(v_733);
  let v_797 = v_529(v_734);
  let v_802 = v_465(((v_796 || v_797) || v_793), vec2<u32>(0u, 2146959360u), vec2<u32>(0u, (v_738 | 2146435072u)));
  let v_804 = v_465(v_793, vec2<u32>(0u, v_738), v_783);
  let v_805 = v_465(v_795, v_802, v_804);
  return v_805;
}

fn v_750(v_807: vec2<u32>, v_808: vec2<u32>) -> vec4<u32> {
  var v_810: vec2<u32>;
  var v_811: vec2<u32>;
  let v_812 = v_807[0];
  let v_813 = v_808[0];
  let v_815 = tg_mul_extended_v_814(v_812, v_813);
  let v_818 = v_808[1];
  let v_819 = tg_mul_extended_v_814(v_812, v_818);
  let v_822 = v_807[1];
  let v_823 = tg_mul_extended_v_814(v_822, v_813);
  let v_826 = tg_mul_extended_v_814(v_822, v_818);
  let v_816 = v_815.m0;
  let v_824 = v_823.m0;
  let v_825 = v_823.m1;
  let v_827 = v_826.m0;
  let v_828 = v_826.m1;
  let v_831 = v_493(vec2<u32>(v_819.m0, v_819.m1), vec2<u32>(v_815.m1, 0u));
  v_810 = v_831;
  let v_836 = v_493(vec2<u32>(v_827, v_828), vec2<u32>(v_810[1], 0u));
  v_811 = v_836;
  let v_841 = v_493(vec2<u32>(v_824, v_825), vec2<u32>(v_810[0], 0u));
  v_810 = v_841;
  let v_846 = v_493(v_811, vec2<u32>(v_810[1], 0u));
  v_811 = v_846;
  return vec4<u32>(v_816, v_810[0], v_811[0], v_811[1]);
}

fn v_740(v_854: vec2<u32>, v_855: ptr<function, i32>) -> vec2<u32> {
  var v_857: vec2<u32>;
  var v_858: i32;
  let v_859 = v_474(v_854, &v_858);
  (*v_855) = v_858;
  v_857 = v_859;
  if ((v_857[1] < 1048576u)) {
    let v_867 = v_502(v_857);
    let v_869 = min((v_867 - 11u), 52u);
    (*v_855) = ((*v_855) - bitcast<i32>(v_869));
    let v_875 = v_477(v_857, v_869);
    v_857 = v_875;
  }
  return v_857;
}

fn v_784(v_877: u32, v_878: i32, v_879: vec2<u32>) -> vec2<u32> {
  var v_886: vec2<u32>;
  var v_887: vec2<u32>;
  if ((v_878 < i32(0))) {
    v_886 = v_485(v_879, bitcast<u32>((-v_878)));
    v_887 = v_886;
  } else {
    v_887 = v_879;
  }
  let v_889 = v_521(v_877, max(v_878, i32(0)), v_887);
  return v_889;
}

fn v_440(v_890: vec2<u32>, v_891: vec2<u32>) -> vec2<u32> {
  var v_893: vec2<u32>;
  var v_894: i32;
  var v_895: i32;
  var v_896: vec2<u32>;
  var v_897: vec2<u32>;
  var v_898: vec2<u32>;
  var v_899: vec2<u32>;
  let v_900 = v_460(v_890);
  let v_901 = v_460(v_891);
  let v_905 = ((v_890[1] ^ v_891[1]) & 2147483648u);
  let v_906 = v_740(v_900, &v_894);
  let v_907 = v_894;
  v_893 = v_906;
  let v_908 = v_740(v_901, &v_895);
  let v_909 = v_895;
  let v_911 = v_463(v_893, v_908);
  let v_912 = (i32(1022) - v_909);
  let v_914 = v_517(v_911, i32(1), i32(0));
  let v_916 = (v_907 + (v_912 - v_914));
  let v_917 = v_893;
  let v_918 = v_514(v_911, 11u, 10u);
  let v_919 = v_477(v_917, v_918);
  v_893 = v_919;
  let v_926 = (((v_908[1] << u32(11u)) | (v_908[0] >> u32(21u))) | 2147483648u);
  let v_932 = (min(u32((4.611686e+18f / f32(v_926))), 2147483647u) << u32(1u));
  let v_933 = tg_mul_extended_v_814(v_932, v_926);
  let v_937 = v_487(vec2<u32>(0u, 2147483648u), vec2<u32>(v_933.m0, v_933.m1));
  let v_939 = v_940(v_932, v_937);
  let v_941 = (v_939 - 3u);
  let v_946 = tg_mul_extended_v_814(v_893[1], v_941).m1;
  let v_948 = v_477(v_893, 24u);
  let v_950 = v_477(v_908, 4u);
  let v_952 = v_953(v_950, v_946);
  let v_954 = v_487(v_948, v_952);
  v_896 = v_954;
  let v_958 = tg_mul_extended_v_814(v_896[1], v_941).m1;
  let v_960 = v_477(v_896, 20u);
  let v_961 = v_953(v_908, v_958);
  let v_962 = v_487(v_960, v_961);
  v_896 = v_962;
  v_897 = v_896;
  let v_964 = v_965(v_908, &v_897);
  v_896 = v_897;
  let v_967 = (v_958 + v_964);
  v_898 = v_896;
  let v_969 = v_965(v_908, &v_898);
  v_896 = v_898;
  let v_971 = (v_967 + v_969);
  v_899 = v_896;
  let v_973 = v_965(v_908, &v_899);
  v_896 = v_899;
  let v_975 = (v_971 + v_973);
  let v_982 = (v_975 << u32(8u));
  let v_984 = v_514(((v_896[0] | v_896[1]) != 0u), 1u, 0u);
  let v_989 = v_784(v_905, v_916, vec2<u32>((v_982 | v_984), (v_946 + (v_975 >> u32(24u)))));
  let v_991 = v_900[1];
  let v_993 = ((v_900[0] | v_991) == 0u);
  let v_995 = v_901[1];
  let v_997 = ((v_901[0] | v_995) == 0u);
  let v_998 = (v_991 >= 2146435072u);
  let v_999 = (v_995 >= 2146435072u);
  let v_1000 = v_529(v_900);
  let v_1001 = v_529(v_901);
  let v_1007 = (v_998 || v_997);
  let v_1006 = (((v_1000 || v_1001) || (v_993 && v_997)) || (v_998 && v_999));
  let v_1008 = (v_993 || v_999);
  let v_1012 = v_465(v_1007, vec2<u32>(0u, (v_905 | 2146435072u)), vec2<u32>(0u, v_905));
  let v_1014 = v_465((v_1007 || v_1008), v_1012, v_989);
  let v_1015 = v_465(v_1006, vec2<u32>(0u, 2146959360u), v_1014);
  return v_1015;
}

fn v_953(v_1016: vec2<u32>, v_1017: u32) -> vec2<u32> {
  let v_1020 = tg_mul_extended_v_814(v_1016[0], v_1017);
  return vec2<u32>(v_1020.m0, (v_1020.m1 + (v_1016[1] * v_1017)));
}

fn v_940(v_1028: u32, v_1029: vec2<u32>) -> u32 {
  let v_1032 = (v_1029[1] >= 2147483648u);
  let v_1033 = v_487(vec2<u32>(0u, 0u), v_1029);
  let v_1034 = v_465(v_1032, v_1033, v_1029);
  let v_1044 = (tg_mul_extended_v_814(v_1028, ((v_1034[0] >> u32(13u)) | (v_1034[1] << u32(19u)))).m1 >> u32(18u));
  let v_1048 = v_514(v_1032, (v_1028 - v_1044), (v_1028 + v_1044));
  return v_1048;
}

fn v_965(v_1050: vec2<u32>, v_1051: ptr<function, vec2<u32>>) -> u32 {
  let v_1054 = v_463((*v_1051), v_1050);
  let v_1055 = (*v_1051);
  let v_1057 = v_487((*v_1051), v_1050);
  let v_1058 = v_465(v_1054, v_1055, v_1057);
  (*v_1051) = v_1058;
  let v_1059 = v_514(v_1054, 0u, 1u);
  return v_1059;
}

fn v_438(v_1060: vec2<u32>) -> vec2<u32> {
  var v_1062: vec2<u32>;
  var v_1063: i32;
  var v_1064: vec2<u32>;
  var v_1065: vec2<u32>;
  var v_1066: vec2<u32>;
  var v_1067: vec2<u32>;
  var v_1068: vec2<u32>;
  var v_1069: vec2<u32>;
  var v_1070: vec2<u32>;
  let v_1071 = v_460(v_1060);
  let v_1072 = v_740(v_1071, &v_1063);
  let v_1073 = v_1063;
  v_1062 = v_1072;
  let v_1075 = (i32(1) - (v_1073 & i32(1)));
  let v_1080 = v_477(v_1062, bitcast<u32>((i32(10) + v_1075)));
  v_1062 = v_1080;
  let v_1090 = (min(u32((7.0368744e+13f * inverseSqrt(f32(max(v_1062[1], 1073741824u))))), 2147483647u) << u32(1u));
  let v_1095 = tg_mul_extended_v_814(tg_mul_extended_v_814(v_1090, v_1090).m1, v_1062[1]);
  let v_1099 = v_487(vec2<u32>(0u, 1073741824u), vec2<u32>(v_1095.m0, v_1095.m1));
  let v_1101 = v_940(v_1090, v_1099);
  let v_1102 = (v_1101 - 6u);
  let v_1106 = tg_mul_extended_v_814(v_1062[1], v_1102);
  let v_1111 = ((v_1106.m1 << u32(1u)) | (v_1106.m0 >> u32(31u)));
  let v_1112 = tg_mul_extended_v_814(v_1111, v_1111);
  let v_1117 = v_487(v_1062, vec2<u32>(v_1112.m0, v_1112.m1));
  v_1064 = v_1117;
  let v_1132 = v_493(vec2<u32>((v_1111 << u32(23u)), (v_1111 >> u32(9u))), vec2<u32>(tg_mul_extended_v_814(((v_1064[0] >> u32(9u)) | (v_1064[1] << u32(23u))), v_1102).m1, 0u));
  v_1065 = v_1132;
  let v_1134 = v_487(v_1065, vec2<u32>(1u, 0u));
  v_1065 = v_1134;
  let v_1140 = tg_mul_extended_v_814(v_1065[0], v_1065[0]);
  let v_1157 = v_487(vec2<u32>(0u, (v_1062[0] << u32(14u))), vec2<u32>(v_1140.m0, (v_1140.m1 + ((2u * v_1065[0]) * v_1065[1]))));
  v_1064 = v_1157;
  let v_1158 = v_1065;
  v_1066 = v_1064;
  let v_1160 = v_1161(v_1158, &v_1066);
  v_1064 = v_1066;
  v_1065 = v_1160;
  let v_1163 = v_1065;
  v_1067 = v_1064;
  let v_1165 = v_1161(v_1163, &v_1067);
  v_1064 = v_1067;
  v_1065 = v_1165;
  let v_1167 = v_1065;
  v_1068 = v_1064;
  let v_1169 = v_1161(v_1167, &v_1068);
  v_1064 = v_1068;
  v_1065 = v_1169;
  let v_1171 = v_1065;
  v_1069 = v_1064;
  let v_1173 = v_1161(v_1171, &v_1069);
  v_1064 = v_1069;
  v_1065 = v_1173;
  let v_1175 = v_1065;
  v_1070 = v_1064;
  let v_1177 = v_1161(v_1175, &v_1070);
  v_1064 = v_1070;
  v_1065 = v_1177;
  let v_1188 = ((((v_1073 - i32(1023)) - v_1075) >> u32(i32(1))) + i32(1022));
  let v_1191 = (v_1065[0] << u32(8u));
  let v_1192 = v_514(((v_1064[0] | v_1064[1]) != 0u), 1u, 0u);
  let v_1202 = v_521(0u, v_1188, vec2<u32>((v_1191 | v_1192), ((v_1065[1] << u32(8u)) | (v_1065[0] >> u32(24u)))));
  let v_1203 = v_1204(v_1060);
  let v_1205 = v_1060[1];
  let v_1207 = (v_1203 || (v_1205 == 2146435072u));
  let v_1208 = (v_1205 >= 2147483648u);
  let v_1209 = v_1210(v_1060);
  let v_1211 = (v_1208 || v_1209);
  let v_1212 = v_465(v_1211, vec2<u32>(0u, 2146959360u), v_1060);
  let v_1213 = v_465(v_1203, v_1060, v_1212);
  let v_1215 = v_465((v_1207 || v_1211), v_1213, v_1202);
  return v_1215;
}

fn v_1210(v_1216: vec2<u32>) -> bool {
  let v_1218 = v_460(v_1216);
  let v_1219 = v_529(v_1218);
  return v_1219;
}

fn v_1204(v_1220: vec2<u32>) -> bool {
  return ((v_1220[0] | (v_1220[1] & 2147483647u)) == 0u);
}

fn v_1161(v_1228: vec2<u32>, v_1229: ptr<function, vec2<u32>>) -> vec2<u32> {
  var v_1231: vec2<u32>;
  let v_1232 = v_1228[0];
  let v_1239 = vec2<u32>(((v_1232 << u32(1u)) | 1u), ((v_1228[1] << u32(1u)) | (v_1232 >> u32(31u))));
  v_1231 = (*v_1229);
  let v_1241 = v_965(v_1239, &v_1231);
  (*v_1229) = v_1231;
  let v_1244 = v_493(v_1228, vec2<u32>(v_1241, 0u));
  return v_1244;
}

fn v_441(v_1245: vec2<u32>, v_1246: vec2<u32>) -> bool {
  let v_1248 = v_1210(v_1245);
  let v_1249 = v_1245[0];
  let v_1250 = v_1246[0];
  let v_1252 = v_1245[1];
  let v_1253 = v_1246[1];
  return ((((v_1249 == v_1250) && (v_1252 == v_1253)) || (((v_1249 | v_1250) | ((v_1252 | v_1253) & 2147483647u)) == 0u)) && (!v_1248));
}

fn v_439(v_1264: vec2<u32>, v_1265: vec2<u32>) -> bool {
  let v_1267 = v_1268(v_1264, v_1265);
  let v_1269 = v_1270(v_1264, v_1265);
  return (v_1269 && (!v_1267));
}

fn v_1268(v_1273: vec2<u32>, v_1274: vec2<u32>) -> bool {
  let v_1276 = v_1210(v_1273);
  let v_1277 = v_1210(v_1274);
  return (v_1276 || v_1277);
}

fn v_1270(v_1279: vec2<u32>, v_1280: vec2<u32>) -> bool {
  let v_1282 = v_1279[1];
  let v_1283 = (v_1282 >= 2147483648u);
  let v_1284 = v_1280[1];
  let v_1292 = (((v_1279[0] | v_1280[0]) | ((v_1282 | v_1284) & 2147483647u)) == 0u);
  let v_1293 = (v_1283 == (v_1284 >= 2147483648u));
  let v_1294 = v_465(v_1283, v_1280, v_1279);
  let v_1295 = v_465(v_1283, v_1279, v_1280);
  let v_1296 = v_463(v_1294, v_1295);
  return select((v_1283 && (!v_1292)), v_1296, v_1293);
}

@compute @workgroup_size(128, 1, 1)
fn main(@builtin(global_invocation_id) gl_GlobalInvocationID_: vec3<u32>) {
  var w_: u32;
  var own_: u32;
  var own_0_: vec2<u32>;
  var own_1_: vec2<u32>;
  var own_2_: vec2<u32>;
  var sum_0_: vec2<u32>;
  var sum_1_: vec2<u32>;
  var sum_2_: vec2<u32>;
  var end_0_: u32;
  var e_: u32;
  var c0_: u32;
  var x_b_: vec2<u32>;
  var y_b_: vec2<u32>;
  var z_b_: vec2<u32>;
  var rest_length_: vec2<u32>;
  var t0_: vec2<u32>;
  var t1_: vec2<u32>;
  var t2_: vec2<u32>;
  var t3_: vec2<u32>;
  var t4_: vec2<u32>;
  var t5_: vec2<u32>;
  var t6_: vec2<u32>;
  var t7_: vec2<u32>;
  var t8_: vec2<u32>;
  var b9_: bool;
  var t10_: vec2<u32>;
  var t11_: vec2<u32>;
  var t12_: vec2<u32>;
  var t13_: vec2<u32>;
  var t14_: vec2<u32>;
  var v_187: vec2<u32>;
  var b15_: bool;
  var t16_: vec2<u32>;
  var t17_: vec2<u32>;
  var t18_: vec2<u32>;
  var t19_: vec2<u32>;
  var t20_: vec2<u32>;
  var end_1_: u32;
  var e_235: u32;
  var c0_249: u32;
  var x_a_: vec2<u32>;
  var y_a_: vec2<u32>;
  var z_a_: vec2<u32>;
  var rest_length_267: vec2<u32>;
  var t0_271: vec2<u32>;
  var t1_275: vec2<u32>;
  var t2_279: vec2<u32>;
  var t3_283: vec2<u32>;
  var t4_287: vec2<u32>;
  var t5_291: vec2<u32>;
  var t6_295: vec2<u32>;
  var t7_299: vec2<u32>;
  var t8_303: vec2<u32>;
  var b9_306: bool;
  var t10_309: vec2<u32>;
  var t11_313: vec2<u32>;
  var t12_317: vec2<u32>;
  var t13_321: vec2<u32>;
  var t14_324: vec2<u32>;
  var v_327: vec2<u32>;
  var b15_335: bool;
  var t16_338: vec2<u32>;
  var t17_342: vec2<u32>;
  var t18_345: vec2<u32>;
  var t19_349: vec2<u32>;
  var t20_352: vec2<u32>;
  var t21_: vec2<u32>;
  var t22_: vec2<u32>;
  var t23_: vec2<u32>;
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
  sum_0_ = vec2<u32>(0u, 0u);
  sum_1_ = vec2<u32>(0u, 0u);
  sum_2_ = vec2<u32>(0u, 0u);
  let v_83 = ((w_ * 2u) + 1u);
  end_0_ = v_80.starts_[v_83];
  let v_88 = (w_ * 2u);
  e_ = v_80.starts_[v_88];
  loop {
    if ((e_ < end_0_)) {
      let v_104 = e_;
      c0_ = v_103.index_columns_[v_104];
      let v_108 = c0_;
      x_b_ = v_55.x_[v_108];
      let v_113 = (c0_ + 1u);
      y_b_ = v_55.x_[v_113];
      let v_118 = (c0_ + 2u);
      z_b_ = v_55.x_[v_118];
      let v_126 = e_;
      rest_length_ = v_125.data_columns_[v_126];
      let v_132 = v_435(own_0_, x_b_);
      t0_ = v_132;
      let v_136 = v_436(t0_, t0_);
      t1_ = v_136;
      let v_140 = v_435(own_1_, y_b_);
      t2_ = v_140;
      let v_144 = v_436(t2_, t2_);
      t3_ = v_144;
      let v_148 = v_437(t1_, t3_);
      t4_ = v_148;
      let v_152 = v_435(own_2_, z_b_);
      t5_ = v_152;
      let v_156 = v_436(t5_, t5_);
      t6_ = v_156;
      let v_160 = v_437(t4_, t6_);
      t7_ = v_160;
      let v_163 = v_438(t7_);
      t8_ = v_163;
      let v_167 = v_439(vec2<u32>(0u, 0u), t7_);
      b9_ = v_167;
      t10_ = select(vec2<u32>(0u, 0u), t8_, b9_);
      let v_175 = v_435(t10_, rest_length_);
      t11_ = v_175;
      t12_ = select(vec2<u32>(0u, 0u), t11_, b9_);
      let v_183 = v_440(vec2<u32>(0u, 1071644672u), t8_);
      t13_ = v_183;
      let v_186 = v_441(t12_, vec2<u32>(0u, 0u));
      if (v_186) {
        v_187 = vec2<u32>(0u, 0u);
      } else {
        let v_193 = v_436(t12_, t13_);
        v_187 = v_193;
      }
      t14_ = v_187;
      let v_197 = v_441(t8_, vec2<u32>(0u, 0u));
      b15_ = v_197;
      t16_ = select(t14_, vec2<u32>(0u, 0u), b15_);
      let v_205 = v_436(t16_, vec2<u32>(0u, 1073741824u));
      t17_ = v_205;
      let v_209 = v_436(t0_, t17_);
      t18_ = v_209;
      let v_213 = v_436(t2_, t17_);
      t19_ = v_213;
      let v_217 = v_436(t5_, t17_);
      t20_ = v_217;
      let v_220 = v_437(sum_0_, t18_);
      sum_0_ = v_220;
      let v_223 = v_437(sum_1_, t19_);
      sum_1_ = v_223;
      let v_226 = v_437(sum_2_, t20_);
      sum_2_ = v_226;
    } else {
      break;
    }
    continuing {
      e_ = (e_ + bitcast<u32>(i32(1)));
    }
  }
  let v_232 = ((w_ * 2u) + 2u);
  end_1_ = v_80.starts_[v_232];
  let v_238 = ((w_ * 2u) + 1u);
  e_235 = v_80.starts_[v_238];
  loop {
    if ((e_235 < end_1_)) {
      let v_250 = e_235;
      c0_249 = v_103.index_columns_[v_250];
      let v_254 = c0_249;
      x_a_ = v_55.x_[v_254];
      let v_259 = (c0_249 + 1u);
      y_a_ = v_55.x_[v_259];
      let v_264 = (c0_249 + 2u);
      z_a_ = v_55.x_[v_264];
      let v_268 = e_235;
      rest_length_267 = v_125.data_columns_[v_268];
      let v_274 = v_435(x_a_, own_0_);
      t0_271 = v_274;
      let v_278 = v_436(t0_271, t0_271);
      t1_275 = v_278;
      let v_282 = v_435(y_a_, own_1_);
      t2_279 = v_282;
      let v_286 = v_436(t2_279, t2_279);
      t3_283 = v_286;
      let v_290 = v_437(t1_275, t3_283);
      t4_287 = v_290;
      let v_294 = v_435(z_a_, own_2_);
      t5_291 = v_294;
      let v_298 = v_436(t5_291, t5_291);
      t6_295 = v_298;
      let v_302 = v_437(t4_287, t6_295);
      t7_299 = v_302;
      let v_305 = v_438(t7_299);
      t8_303 = v_305;
      let v_308 = v_439(vec2<u32>(0u, 0u), t7_299);
      b9_306 = v_308;
      t10_309 = select(vec2<u32>(0u, 0u), t8_303, b9_306);
      let v_316 = v_435(t10_309, rest_length_267);
      t11_313 = v_316;
      t12_317 = select(vec2<u32>(0u, 0u), t11_313, b9_306);
      let v_323 = v_440(vec2<u32>(0u, 1071644672u), t8_303);
      t13_321 = v_323;
      let v_326 = v_441(t12_317, vec2<u32>(0u, 0u));
      if (v_326) {
        v_327 = vec2<u32>(0u, 0u);
      } else {
        let v_333 = v_436(t12_317, t13_321);
        v_327 = v_333;
      }
      t14_324 = v_327;
      let v_337 = v_441(t8_303, vec2<u32>(0u, 0u));
      b15_335 = v_337;
      t16_338 = select(t14_324, vec2<u32>(0u, 0u), b15_335);
      let v_344 = v_436(t16_338, vec2<u32>(0u, 1073741824u));
      t17_342 = v_344;
      let v_348 = v_436(t0_271, t17_342);
      t18_345 = v_348;
      let v_351 = v_442(t18_345);
      t19_349 = v_351;
      let v_355 = v_436(t2_279, t17_342);
      t20_352 = v_355;
      let v_358 = v_442(t20_352);
      t21_ = v_358;
      let v_362 = v_436(t5_291, t17_342);
      t22_ = v_362;
      let v_365 = v_442(t22_);
      t23_ = v_365;
      let v_368 = v_437(sum_0_, t19_349);
      sum_0_ = v_368;
      let v_371 = v_437(sum_1_, t21_);
      sum_1_ = v_371;
      let v_374 = v_437(sum_2_, t23_);
      sum_2_ = v_374;
    } else {
      break;
    }
    continuing {
      e_235 = (e_235 + bitcast<u32>(i32(1)));
    }
  }
  let v_385 = w_;
  o_ = (v_18.out_first_ + (v_384.outputs_[v_385] * 3u));
  if ((v_18.overwrite_ == 0u)) {
    let v_400 = o_;
    let v_404 = v_437(v_399.results_[v_400], sum_0_);
    sum_0_ = v_404;
    let v_406 = (o_ + 1u);
    let v_410 = v_437(v_399.results_[v_406], sum_1_);
    sum_1_ = v_410;
    let v_412 = (o_ + 2u);
    let v_416 = v_437(v_399.results_[v_412], sum_2_);
    sum_2_ = v_416;
  }
  let v_417 = o_;
  v_399.results_[v_417] = sum_0_;
  let v_421 = (o_ + 1u);
  v_399.results_[v_421] = sum_1_;
  let v_425 = (o_ + 2u);
  v_399.results_[v_425] = sum_2_;
  return;
}
