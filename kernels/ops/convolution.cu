// Convolutions on GPUs, where a thread sums one element of the result. convolution.c has the names
// of sizes; FIRST says that the channels are the first axis of an image.

// @use convolution.c

// @op conv_gpu(x: T[n, c, pixels], w: T[o, c, k], bias: T[o]) -> (y: T[n, o, out])
// @types T: any
// @params BIAS: bool; FIRST: bool
// @sizes NB; IC; OC; ID; OD; KD; SD; DD; PD; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW;
//   GI; GO; KK
// @work 2 * KK
// @cuda
// @if FIRST
const i64 ow = i % OW, oh = i / OW % OH, od = i / (OW * OH) % OD;
const i64 oc = i / (OW * OH * OD) % OC, nb = i / (OW * OH * OD * OC);
// @else
const i64 oc = i % OC, ow = i / OC % OW, oh = i / (OC * OW) % OH;
const i64 od = i / (OC * OW * OH) % OD, nb = i / (OC * OW * OH * OD);
// @endif
const i64 g = oc / GO;
Total a = bias_of(oc);
for (i64 q = 0; q < KD; q++) {
  const i64 iz = od * SD - PD + q * DD;
  if (iz < 0 || iz >= ID) continue;
  for (i64 r = 0; r < KH; r++) {
    const i64 ih = oh * SH - PH + r * DH;
    if (ih < 0 || ih >= IH) continue;
    for (i64 s = 0; s < KW; s++) {
      const i64 iw = ow * SW - PW + s * DW;
      if (iw < 0 || iw >= IW) continue;
      for (i64 c = 0; c < GI; c++)
        // @if FIRST
        a += (Total)load(x, ((nb * IC + g * GI + c) * ID + iz) * IH * IW + ih * IW + iw) *
             (Total)load(w, (oc * GI + c) * (KD * KH * KW) + (q * KH + r) * KW + s);
      // @else
      a += (Total)load(x, (((nb * ID + iz) * IH + ih) * IW + iw) * IC + g * GI + c) *
           (Total)load(w, (((q * KH + r) * KW + s) * GI + c) * OC + oc);
        // @endif
    }
  }
}
store(y, i, finished(a));

// @op transposed_gpu(x: T[n, h, v, c], w: T[kh, kw, o, c], bias: T[o]) -> (y: T[n, oh, ow, o])
// @types T: any
// @params BIAS: bool
// @sizes IC; OC; IH; OH; KH; SH; DH; PH; IW; OW; KW; SW; DW; PW
// @work 2 * IC * KH * KW
// @cuda
const i64 oc = i % OC, ow = i / OC % OW, oh = i / (OC * OW) % OH, nb = i / (OC * OW * OH);
Total a = bias_of(oc);
for (i64 r = 0; r < KH; r++) {
  const i64 h = oh + PH - r * DH, ih = h / SH;
  if (h < 0 || h % SH || ih >= IH) continue;
  for (i64 s = 0; s < KW; s++) {
    const i64 v = ow + PW - s * DW, iw = v / SW;
    if (v < 0 || v % SW || iw >= IW) continue;
    for (i64 c = 0; c < IC; c++)
      a += (Total)load(x, ((nb * IH + ih) * IW + iw) * IC + c) *
           (Total)load(w, ((r * KW + s) * IC + c) * OC + oc);
  }
}
store(y, i, finished(a));
