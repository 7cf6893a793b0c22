"""Which kernels convolutions have: the texts are ``convolution*`` of ``kernels/ops``.

Images of two spatial dims are written as those of three, with a depth of 1; ``convolution.c`` says
which sizes have which names.

On the CPU, convolutions of floats are products where they mix channels, which
``convolution_lines``, ``convolution_planes`` and ``convolution_products`` write, and have kernels
of their own where each channel is by itself. All else is summed directly.
"""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.ir import Poly
from maxlab.ir.poly import ONE
from maxlab.opset.convolution_lines import write_lines
from maxlab.opset.convolution_planes import write_planes
from maxlab.opset.convolution_products import (
    write_products,
    write_transposed_products,
)
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.windows import (
    ceil_div,
    known,
    number,
    product,
)

_FAST = (DType.float32, DType.bfloat16, DType.float16)
"""The floats that have fast kernels."""
LEAST = 12
"""Channels of a result's group below which most columns of a product would be empty."""
MOST_TAPS = 256
"""Elements of a window for which a depthwise kernel keeps places on its stack."""

Sizes = dict[str, Poly]


def _sizes(at: Site, first: bool, *, transposed: bool = False) -> dict[str, Poly]:
    """The sizes that texts name."""
    x, w, y = at.operands[0].type.sizes, at.operands[1].type.sizes, at.results[0].type.sizes
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
        if not (write_lines(at, sizes, first) or (first and write_planes(at, sizes))):
            write_products(at, sizes, first)
    elif first:
        _write(at, "convolution.c", "conv_lines", sizes)
    else:
        _write(at, "convolution.c", "conv_pixels", sizes, SINGLE=few == depth == 1)


def _write(at: Site, file: str, name: str, sizes: Sizes, **more: Any) -> None:
    """Add the parts of ``name``, an op of ``file``; ``more`` are parameters, or of ``part``."""
    given = {key: more.pop(key) for key in list(more) if key.isupper()}
    dims = {"PLANE": given.pop("PLANE")} if "PLANE" in given else {}
    kernel = OwnKernel(
        at, file, name, dims=dims, sizes=sizes, BIAS=len(at.operands) > 2, **given
    )  # fmt: skip
    kernel.write(**more)


# ---------------------------------------------------------------- depthwise
def _depthwise_pixels(at: Site, sizes: Sizes) -> None:
    """Channels last, each by itself."""
    half = at.operands[0].dtype is not DType.float32
    scratch = sizes["OC"] * number(16) if half else 0
    more = {**sizes, "TAPS": sizes["KK"]}
    _write(at, "convolution.c", "depthwise_pixels", more, scratch=scratch)


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
    if not (fast and write_transposed_products(at, sizes)):
        _write(at, "convolution.c", "transposed", sizes)


__all__ = ["write_transposed", "write_windows"]
