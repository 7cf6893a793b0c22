"""The table of sizes in kernels/cuda/PRODUCTS.md says what the types say."""

from __future__ import annotations

import re

import numpy as np

from maxlab.toolchain import kernels_dir
from tests.cuda.device_text import module

HEADERS = (
    "prelude.cuh",
    "tiles.cuh",
    "split.cuh",
    "product.cuh",
    "product_mma.cuh",
    "wgmma.cuh",
    "product_wgmma.cuh",
    "gemv.cuh",
    "attention.cuh",
    "attention_mma.cuh",
)
ROW = re.compile(r"^\| `(mx_[^`]+)`[^|]*\| (\d+) \| (\d+) \| (\d+)", re.MULTILINE)


def test_the_table_of_sizes() -> None:
    page = (kernels_dir() / "cuda" / "PRODUCTS.md").read_text("utf-8")
    rows = ROW.findall(page)
    headers = "".join((kernels_dir() / "cuda" / name).read_text("utf-8") for name in HEADERS)
    named = re.findall(r"^typedef mx_\w*tile<.*> (\w+);", headers, re.MULTILINE)
    assert set(named) <= {row[0] for row in rows}
    text = 'extern "C" __global__ void sizes(i32 *out) {\n'
    for at, (name, *_) in enumerate(rows):
        for n, field in enumerate(("THREADS", "SHARED", "BLOCKS")):
            text += f"  out[{3 * at + n}] = {name}::{field};\n"
    out = np.zeros((len(rows), 3), np.int32)
    module(text + "}\n", HEADERS).launch("sizes", 1, 1, [out])
    for (name, registers, threads, shared), got in zip(rows, out.tolist(), strict=True):
        blocks = max(1, 65536 // int(registers) // int(threads))
        assert got == [int(threads), int(shared), blocks], name
