"""Which kernels convolutions have: the texts are ``convolution*`` of ``kernels/ops``.

Images of two spatial dims are written as those of three, with a depth of 1; ``convolution.c`` says
which sizes have which names.

On the CPU, convolutions of floats are products where they mix channels, which
``convolution_lines``, ``convolution_planes``, ``convolution_products`` and, where speed is asked
for, ``convolution_tiles`` write, and have kernels of their own where each channel is by itself. All
else is summed directly.
"""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.ir import Poly
from maxlab.ir.poly import ONE
from maxlab.opset.convolution_lines import write_lines, write_transposed_lines
from maxlab.opset.convolution_planes import write_planes
from maxlab.opset.convolution_products import (
    joined_image,
    write_products,
    write_transposed_products,
)
from maxlab.opset.convolution_tiles import write_tiles
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.windows import (
    ceil_div,
    evenly,
    known,
    number,
    product,
)

_FAST = (DType.float32, DType.bfloat16, DType.float16)
"""The floats that have fast kernels."""
LEAST = 12
"""Channels of a result's group below which most columns of a product would be empty."""
MOST_PIXELS = 14
"""Pixels of a line that a depthwise kernel sums at once at most."""
MOST_ACROSS = 7
"""Taps of a line of a window that it keeps in registers (``MX_DEPTHWISE_TAPS`` of spatial.h)."""
MOST_SEEN = 64
"""Pixels that so many windows see, which are written out one by one."""
MOST_TAPS = 256
"""Elements of a window for which a depthwise kernel keeps places on its stack."""

Sizes = dict[str, Poly]


def _sizes(at: Site, first: bool, *, transposed: bool = False, images: int = 1) -> dict[str, Poly]:
    """The sizes that texts name, where the first ``images`` operands are one image."""
    x, w, y = at.operands[0].type.sizes, at.operands[images].type.sizes, at.results[0].type.sizes
    for other in at.operands[1:images]:
        x = (*x[:-1], x[-1] + other.type.sizes[-1])
    rank = len(x) - 2
    missing = 3 - rank
    ones = (ONE,) * missing

    def image(sizes: tuple[Poly, ...]) -> tuple[Poly, ...]:
        return (*ones, *(sizes[2:] if first else sizes[1:-1]))

    found = {"NB": x[0], "IC": x[1] if first else x[-1], "OC": y[1] if first else y[-1]}
    window = (*ones, *(w[2:] if first else w[:-2]))
    stride = (1,) * missing + tuple(at.attrs["stride"])
    dilation = (1,) * missing + tuple(at.attrs["dilation"])
    before = (0,) * missing + tuple(at.attrs["padding"][::2])
    after = (0,) * missing + tuple(at.attrs["padding"][1::2])
    for n, axis in enumerate("DHW"):
        found[f"I{axis}"] = image(x)[n]
        found[f"O{axis}"] = image(y)[n]
        found[f"K{axis}"] = window[n]
        found[f"S{axis}"] = number(stride[n])
        found[f"D{axis}"] = number(dilation[n])
        found[f"P{axis}"] = number(before[n])
        found[f"Q{axis}"] = number(before[n] + after[n])
    if not transposed:
        groups = at.attrs["groups"]
        found["GR"] = number(groups)
        found["GI"] = w[1] if first else w[-2]
        found["GO"] = found["OC"].floordiv(number(groups))
        found["KK"] = found["GI"] * product(window)
    return found


def write_windows(at: Site) -> None:
    """The parts of a convolution."""
    first = at.attrs["channels_first"]
    sizes = _sizes(at, first)
    if at.target == "cuda":
        _write(at, "convolution.cu", "conv_gpu", sizes, FIRST=first)
        return
    few, depth = known(sizes["GO"]), known(sizes["GI"])
    taps = known(product([sizes[f"K{axis}"] for axis in "DHW"]))
    fast = at.operands[0].dtype in _FAST
    flat = all(known(sizes[f"{part}D"]) == 1 for part in "IK")
    few_taps = taps is not None and taps <= MOST_TAPS
    if fast and few == depth == 1 and few_taps and (flat or not first):
        (_depthwise_planes if first else _depthwise_pixels)(at, sizes)
    elif fast and (few is None or few >= LEAST):
        if not (
            write_tiles(at, sizes, first)
            or write_lines(at, sizes, first)
            or (first and write_planes(at, sizes))
        ):
            write_products(at, sizes, first)
    elif first:
        _write(at, "convolution.c", "conv_lines", sizes)
    else:
        _write(at, "convolution.c", "conv_pixels", sizes, SINGLE=few == depth == 1)


def write_joined(at: Site) -> None:
    """The parts of a convolution of two images, the channels of the second one behind those of the
    first: no image of all channels is written where the kernel copies lines anyway."""
    left, _, w = at.operands
    sizes = _sizes(at, False, images=2)
    sizes["LC"] = left.type.sizes[-1]
    if at.target != "cuda" and (
        write_tiles(at, sizes, False, joined=True) or write_lines(at, sizes, False, joined=True)
    ):
        return
    whole = joined_image(at, sizes)
    if at.target == "cuda":
        _write(at, "convolution.cu", "conv_gpu", sizes, buffers={"x": whole, "w": w}, FIRST=False)
    else:
        _write(
            at, "convolution.c", "conv_pixels", sizes, buffers={"x": whole, "w": w}, SINGLE=False
        )


def _write(at: Site, file: str, name: str, sizes: Sizes, **more: Any) -> None:
    """Add the parts of ``name``, an op of ``file``; ``more`` are parameters, ``buffers`` that have
    other names in the text, or of ``part``."""
    buffers = more.pop("buffers", None)
    given = {key: more.pop(key) for key in list(more) if key.isupper()}
    dims = {"PLANE": given.pop("PLANE")} if "PLANE" in given else {}
    texts = {}
    if at.finish:
        texts, given["FINISH"] = {"finish": at.finish}, True
    kernel = OwnKernel(
        at, file, name, dims=dims, sizes=sizes, texts=texts, buffers=buffers,
        BIAS=buffers is None and len(at.operands) > 2, **given,
    )  # fmt: skip
    kernel.write(**more)


# ---------------------------------------------------------------- depthwise
def _depthwise_pixels(at: Site, sizes: Sizes) -> None:
    """Channels last, each by itself."""
    if _depthwise_lines(at, sizes):
        return
    half = at.operands[0].dtype is not DType.float32
    scratch = sizes["OC"] * number(18 if half else 4) + number(64)  # zeros; of halves, four sums
    more = {**sizes, "TAPS": sizes["KK"]}
    _write(at, "convolution.c", "depthwise_pixels", more, scratch=scratch)


def _depthwise_lines(at: Site, sizes: Sizes) -> bool:
    """Channels last of float32, each by itself, of windows that are small enough to have all taps
    of a line in registers; False for others."""
    window, apart, stride = (known(sizes[f"{part}W"]) for part in "KDS")
    lines = known(sizes["KD"] * sizes["KH"])
    if at.operands[0].dtype is not DType.float32 or not (window and apart and stride and lines):
        return False
    many = evenly(known(sizes["OW"]), MOST_PIXELS)
    if window > MOST_ACROSS or (many - 1) * stride + (window - 1) * apart >= MOST_SEEN:
        return False
    _write(
        at, "convolution.c", "depthwise_lines", {**sizes, "TAPS": sizes["KK"]}, MANY=many,
        LINES=lines, ACROSS=window, APART=apart, STRIDE=stride,
    )  # fmt: skip
    return True


def _depthwise_planes(at: Site, sizes: Sizes) -> None:
    """Channels first, each by itself."""
    stride = known(sizes["SW"]) or 1
    # Whole vectors are read and written, in four rows at once.
    line = ceil_div(sizes["IW"] + sizes["QW"], stride) + number(16)
    wide = ceil_div(sizes["OW"], 16) * number(16)
    more = {
        **sizes,
        "FW": line,
        "LINE": line * number(stride),
        "FH": sizes["IH"] + sizes["QH"],
        "WIDE": wide,
        "TAPS": sizes["KH"] * sizes["KW"],
    }
    rows = more["FH"] + number(4 * (known(sizes["SH"]) or 1))
    plane = rows * more["LINE"] + number(32)
    scratch = (plane + (sizes["OH"] + number(4)) * wide) * number(4)
    _write(at, "convolution.c", "depthwise_planes", more, PLANE=plane, scratch=scratch)


# ---------------------------------------------------------------- transposed
def write_transposed(at: Site) -> None:
    """The part of a transposed convolution."""
    sizes = _sizes(at, False, transposed=True)
    if at.target == "cuda":
        _write(at, "convolution.cu", "transposed_gpu", sizes)
        return
    filters = known(sizes["OC"])
    few = filters is not None and filters < LEAST
    fast = at.operands[0].dtype in _FAST and not few
    if fast and write_transposed_lines(at, sizes):
        return
    if not (fast and write_transposed_products(at, sizes)):
        _write(at, "convolution.c", "transposed", sizes)


__all__ = ["write_joined", "write_transposed", "write_windows"]
