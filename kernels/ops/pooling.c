// max_pool2d and avg_pool2d. NC channels; IH IW sizes of the image, OH OW of the result, KH KW of the
// window; SH SW, DH DW and PH PW stride, dilation and padding.

// One pixel of all channels at a time; on a GPU, one element.
// @op pool(x: T[n, h, w, c]) -> (y: T[n, oh, ow, c])
// @types T: any
// @params MEAN: bool; INSIDE: bool; FEW: bool = false
// @sizes NC; IH; IW; OH; OW; KH; SH; DH; PH; KW; SW; DW; PW
// @c work=KH*KW*NC scratch=8*NC
const i64 ow = i % OW, oh = i / OW % OH, nb = i / (OW * OH);
// @if FEW
/* A window that is inside of the image needs no memory for what it is folded to, v. */
const i64 top = oh * SH - PH, left = ow * SW - PW;
if (top >= 0 && left >= 0 && top + (KH - 1) * DH < IH && left + (KW - 1) * DW < IW) {
  const i64 from = ((nb * IH + top) * IW + left) * NC;
  #pragma omp simd
  for (i64 c = 0; c < NC; c++) {
    FOLDED;
    store(y, i * NC + c, whole(v));
  }
  continue;
}
// @endif
T *RS a = (T *)scratch;
// @if MEAN
declare_count();
// @endif
#pragma omp simd
for (i64 c = 0; c < NC; c++) a[c] = START;
for (i64 r = 0; r < KH; r++) {
  const i64 ih = oh * SH - PH + r * DH;
  if (ih < 0 || ih >= IH) continue;
  for (i64 s = 0; s < KW; s++) {
    const i64 iw = ow * SW - PW + s * DW;
    if (iw < 0 || iw >= IW) continue;
    #pragma omp simd
    for (i64 c = 0; c < NC; c++) { fold(a[c]); }
  }
}
#pragma omp simd
for (i64 c = 0; c < NC; c++) store(y, i * NC + c, finished(a[c]));
// @cuda work=KH*KW
const i64 c = i % NC, ow = i / NC % OW, oh = i / (NC * OW) % OH, nb = i / (NC * OW * OH);
// @if MEAN
declare_count();
// @endif
T a = START;
for (i64 r = 0; r < KH; r++) {
  const i64 ih = oh * SH - PH + r * DH;
  if (ih < 0 || ih >= IH) continue;
  for (i64 s = 0; s < KW; s++) {
    const i64 iw = ow * SW - PW + s * DW;
    if (iw < 0 || iw >= IW) continue;
    fold(a);
  }
}
store(y, i, finished(a));

// @macro whole(SUM) = SUM / (T)(KH * KW) if MEAN else SUM

// @macro finished(SUM) = SUM / count if MEAN else SUM

// @macro fold(INTO)
// @if MEAN
INTO += load(x, ((nb * IH + ih) * IW + iw) * NC + c);
// @elif is_float(T)
INTO = mx_max_T(INTO, load(x, ((nb * IH + ih) * IW + iw) * NC + c));
// @else
const T v = load(x, ((nb * IH + ih) * IW + iw) * NC + c);
INTO = v > INTO ? v : INTO;
// @endif

// By what the sum of a window is divided: its places in the image and, but INSIDE, in the padding.
// @macro declare_count()
i64 countH = 0;
for (i64 r = 0; r < KH; r++) {
  const i64 place = oh * SH - PH + r * DH;
  countH += place >= -bound(PH) && place < IH + bound(PH);
}
i64 countW = 0;
for (i64 r = 0; r < KW; r++) {
  const i64 place = ow * SW - PW + r * DW;
  countW += place >= -bound(PW) && place < IW + bound(PW);
}
const T count = countH * countW > 0 ? (T)(countH * countW) : 1;

// @macro bound(PADDING) = 0 if INSIDE else PADDING

// Sums what blocks of columns have for each place of an image: on the CPU a line at a time. CH
// channels; OH OW sizes of the image, BH BW blocks down and across.
// @op fold(x: T[n, k, blocks]) -> (y: T[n, c, h, w])
// @types T: any
// @sizes CH; OH; OW; BH; BW; KH; SH; DH; PH; KW; SW; DW; PW
// @c work=KH*KW*OW scratch=8*OW
Total *RS a = (Total *)scratch;
const i64 oh = i % OH, plane = i / OH;
for (i64 n = 0; n < OW; n++) a[n] = 0;
for (i64 r = 0; r < KH; r++) {
  const i64 h = oh + PH - r * DH, bh = h / SH;
  if (h < 0 || h % SH || bh >= BH) continue;
  for (i64 s = 0; s < KW; s++) {
    const i64 left = s * DW - PW;
    const i64 begin = left < 0 ? (-left + SW - 1) / SW : 0;
    const i64 reach = OW - left <= 0 ? 0 : (OW - 1 - left) / SW + 1;
    const i64 end = reach < BW ? reach : BW;
    #pragma omp simd
    for (i64 bw = begin; bw < end; bw++)
      a[bw * SW + left] += (Total)load(x, (((plane * KH + r) * KW + s) * BH + bh) * BW + bw);
  }
}
#pragma omp simd
for (i64 n = 0; n < OW; n++) store(y, i * OW + n, wrapped(a[n]));
// @cuda work=KH*KW
const i64 ow = i % OW, oh = i / OW % OH, plane = i / (OW * OH);
Total a = 0;
for (i64 r = 0; r < KH; r++) {
  const i64 h = oh + PH - r * DH, bh = h / SH;
  if (h < 0 || h % SH || bh >= BH) continue;
  for (i64 s = 0; s < KW; s++) {
    const i64 v = ow + PW - s * DW, bw = v / SW;
    if (v < 0 || v % SW || bw >= BW) continue;
    a += (Total)load(x, (((plane * KH + r) * KW + s) * BH + bh) * BW + bw);
  }
}
store(y, i, wrapped(a));

// Sums of integers wrap.
// @macro Total = T if is_float(T) else u64 if bits(T) == 64 else u32
// @macro wrapped(SUM) = SUM if is_float(T) else (T)(SUM)
