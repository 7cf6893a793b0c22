// resize: an image read at another height and width. IH IW sizes of the image, OH OW of the result. A
// place of the result lies between some of the image, its taps: one where MODE is "nearest", two where
// it is "bilinear", four where it is "bicubic"; v and h are the first of them, down and across.

// On the CPU what the columns read is found once for each chunk of rows; a row is first put together
// from the rows of the image that it lies between. On a GPU a thread has one element.
// @op resize(x: T[n, c, ih, iw]) -> (y: T[n, c, oh, ow])
// @types T: any
// @params MODE: str = "nearest" in "nearest", "bilinear", "bicubic"; COUNT: int; SLOPE: float;
//   TWO: float; THREE: float
// @sizes IH; IW; OH; OW
// @c
// @before
T *RS weight = (T *)scratch;
T *RS line = weight + COUNT * PADDED;
i64 *RS place = (i64 *)(line + (IW + 15) / 16 * 16);
for (i64 ow = 0; ow < OW; ow++) {
  declare_taps(h, ow, IW, OW);
  // @if MODE == "nearest"
  place[0 * PADDED + ow] = h;
  // @elif MODE == "bilinear"
  place[0 * PADDED + ow] = held(h + 0, IW);
  place[1 * PADDED + ow] = held(h + 1, IW);
  weight[0 * PADDED + ow] = h_0;
  weight[1 * PADDED + ow] = h_1;
  // @else
  place[0 * PADDED + ow] = held(h + -1, IW);
  place[1 * PADDED + ow] = held(h + 0, IW);
  place[2 * PADDED + ow] = held(h + 1, IW);
  place[3 * PADDED + ow] = held(h + 2, IW);
  weight[0 * PADDED + ow] = h_0;
  weight[1 * PADDED + ow] = h_1;
  weight[2 * PADDED + ow] = h_2;
  weight[3 * PADDED + ow] = h_3;
  // @endif
}
// @each
const i64 oh = i % OH, plane = i / OH;
declare_taps(v, oh, IH, OH);
hold_taps(v, IH);
// @if MODE == "nearest"
#pragma omp simd
for (i64 c = 0; c < IW; c++) line[c] = pixel(v_p0, c);
#pragma omp simd
for (i64 ow = 0; ow < OW; ow++) store(y, i * OW + ow, line[place[0 * PADDED + ow]]);
// @elif MODE == "bilinear"
#pragma omp simd
for (i64 c = 0; c < IW; c++) line[c] = v_0 * pixel(v_p0, c) + v_1 * pixel(v_p1, c);
#pragma omp simd
for (i64 ow = 0; ow < OW; ow++) store(y, i * OW + ow, weighted(0) + weighted(1));
// @else
#pragma omp simd
for (i64 c = 0; c < IW; c++)
  line[c] =
      v_0 * pixel(v_p0, c) + v_1 * pixel(v_p1, c) + v_2 * pixel(v_p2, c) + v_3 * pixel(v_p3, c);
#pragma omp simd
for (i64 ow = 0; ow < OW; ow++)
  store(y, i * OW + ow, weighted(0) + weighted(1) + weighted(2) + weighted(3));
// @endif
// @cuda work=COUNT*COUNT
const i64 ow = i % OW, oh = i / OW % OH, plane = i / (OW * OH);
declare_taps(v, oh, IH, OH);
hold_taps(v, IH);
declare_taps(h, ow, IW, OW);
hold_taps(h, IW);
// @if MODE == "nearest"
store(y, i, pixel(v_p0, h_p0));
// @elif MODE == "bilinear"
store(y, i, v_0 * (across_two(v_p0)) + v_1 * (across_two(v_p1)));
// @else
store(y, i,
      v_0 * (across_four(v_p0)) + v_1 * (across_four(v_p1)) + v_2 * (across_four(v_p2)) +
          v_3 * (across_four(v_p3)));
// @endif

// @macro PADDED = ((OW + 15) / 16 * 16)
// @macro pixel(ROW, COLUMN) = load(x, (plane * IH + ROW) * IW + COLUMN)
// @macro weighted(TAP) = weight[TAP * PADDED + ow] * line[place[TAP * PADDED + ow]]
// @macro across_two(ROW) = h_0 * pixel(ROW, h_p0) + h_1 * pixel(ROW, h_p1)
// @macro across_four(ROW) = h_0 * pixel(ROW, h_p0) + h_1 * pixel(ROW, h_p1) +
//   h_2 * pixel(ROW, h_p2) + h_3 * pixel(ROW, h_p3)
// @macro held(PLACE, SIZE) = (PLACE < 0 ? 0 : PLACE >= SIZE ? SIZE - 1 : PLACE)

// The first tap NAME of OUT, a place of ALL ones, in an image of SIZE; and the weights of its taps.
// @macro declare_taps(NAME, OUT, SIZE, ALL)
// @if MODE == "nearest"
const i64 NAME = OUT * SIZE / ALL;
// @else
const i64 NAME##_at = (2 * OUT + 1) * SIZE - ALL + 4 * ALL;
const i64 NAME = NAME##_at / (2 * ALL) - 2;
const T NAME##_t = (T)(NAME##_at % (2 * ALL)) / (T)(2 * ALL);
// @endif
// @if MODE == "bilinear"
const T NAME##_0 = 1 - NAME##_t, NAME##_1 = NAME##_t;
// @elif MODE == "bicubic"
const T NAME##_u = 1 - NAME##_t;
const T NAME##_0 = SLOPE * NAME##_t * NAME##_u * NAME##_u,
        NAME##_3 = SLOPE * NAME##_u * NAME##_t * NAME##_t;
const T NAME##_1 = ((TWO)*NAME##_t - (THREE)) * NAME##_t * NAME##_t + 1;
const T NAME##_2 = ((TWO)*NAME##_u - (THREE)) * NAME##_u * NAME##_u + 1;
// @endif

// The places of the taps, held inside of the image.
// @macro hold_taps(NAME, SIZE)
// @if MODE == "nearest"
const i64 NAME##_p0 = NAME;
// @elif MODE == "bilinear"
const i64 NAME##_p0 = held(NAME + 0, SIZE);
const i64 NAME##_p1 = held(NAME + 1, SIZE);
// @else
const i64 NAME##_p0 = held(NAME + -1, SIZE);
const i64 NAME##_p1 = held(NAME + 0, SIZE);
const i64 NAME##_p2 = held(NAME + 1, SIZE);
const i64 NAME##_p3 = held(NAME + 2, SIZE);
// @endif
