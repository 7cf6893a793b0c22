#!/usr/bin/env python3
"""Writes ``docs/ops/README.md``, the list of all ops, from the op table.

scripts/gen_op_docs.py            write the page
scripts/gen_op_docs.py --check    say whether it is as it would be written
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from maxlab.compiler import compile_function  # noqa: E402
from maxlab.dtype import DType  # noqa: E402
from maxlab.errors import MaxlabError  # noqa: E402
from maxlab.graph import ops  # noqa: E402
from maxlab.ir import DeviceRef, Dim, Function, Shape, TensorType  # noqa: E402
from maxlab.opset import OPSET, OpDef, Sample, core  # noqa: E402

PAGE = ROOT / "docs" / "ops" / "README.md"
HEAD = """\
# The ops

Every operation that a graph can have, by family. The page is written by `scripts/gen_op_docs.py`
from the op table (`maxlab/opset`); a test compares them. `help(maxlab.graph.ops.NAME)` tells what
the public functions take, and [add an op](../how-to/add-an-op.md) how a row comes about.

- **op**: the name in listings of a graph, `mo.NAME`. Those in bold have a public function of that
  name in `maxlab.graph.ops`; the others are made by functions of other names, by operators, or by
  the compiler.
- **kind**: how it is lowered; the kinds are told below.
- **dtypes**: what the first operand is in the samples that the tests run, or the result of an op
  that needs no operand. Other dtypes may do.
- **targets**: for which kernels are generated. Data and outputs have none; host functions run in
  Python.

| kind | what it is |
| --- | --- |
"""
SHORT = {
    DType.float16: "f16",
    DType.bfloat16: "bf16",
    DType.float32: "f32",
    DType.float64: "f64",
    DType.bool: "bool",
}
WITHOUT_KERNELS = ("constant", "external", "output", "host")
DEVICES = {"C": DeviceRef.CPU(), "CUDA": DeviceRef.GPU()}


def kinds() -> dict[str, str]:
    """What each lowering kind is, as the head of ``maxlab/opset/core.py`` says it."""
    told: dict[str, str] = {}
    for name, what in re.findall(r"^``(\w+)`` +(\S.*)$", core.__doc__ or "", re.MULTILINE):
        own, *others = re.split(r"; ``(\w+)`` ", what)
        told[name] = own
        told.update(zip(others[::2], others[1::2], strict=True))
    return told


def name_of(dtype: DType) -> str:
    """A dtype as the page writes it."""
    return SHORT.get(dtype, dtype.name.replace("uint", "u").replace("int", "i"))


def dtypes_of(row: OpDef) -> str:
    """The dtypes that the samples of ``row`` have, in the order of the dtypes."""
    found: set[DType] = set()
    samples = row.samples() if row.samples is not None else ()
    made = any(not sample.arrays for sample in samples)
    for sample in samples:
        if made and isinstance(sample.attrs.get("dtype"), DType):
            found.add(sample.attrs["dtype"])
        elif sample.arrays:
            found.add(DType.from_numpy(np.asarray(sample.arrays[0]).dtype))
    return ", ".join(name_of(dtype) for dtype in DType if dtype in found) or "—"


def compiles(row: OpDef, sample: Sample, device: DeviceRef) -> bool:
    """Whether kernels are written for ``sample`` on ``device``."""
    attrs = dict(sample.attrs)
    if "device" in attrs:
        attrs["device"] = device
    if any(list(Dim(dim).parameters) for dim in attrs.get("shape", ())):
        attrs["shape"] = tuple(4 if list(Dim(d).parameters) else d for d in Shape(attrs["shape"]))
    function = Function("op")
    arrays = [np.asarray(x) for x in sample.arrays]
    types = [TensorType(DType.from_numpy(x.dtype), x.shape, device) for x in arrays]
    values = [function.add_input(t) for t in types]
    try:
        made = function.create(row.name, values, row.infer(types, attrs), attrs)
        function.block.append(made)
        function.block.append(function.create("mo.output", made.results, []))
        compile_function(function)
    except MaxlabError:
        return False
    return True


def targets_of(row: OpDef) -> str:
    """For which targets there are kernels of ``row``."""
    if row.kind in WITHOUT_KERNELS:
        return "Python" if row.kind == "host" else "—"
    if row.kind != "kernel" or row.samples is None:
        return ", ".join(DEVICES)
    samples = [s for s in row.samples() if all(np.asarray(x).size for x in s.arrays)]
    can = [name for name, device in DEVICES.items() if compiles(row, samples[0], device)]
    return ", ".join(can)


def page() -> str:
    """The text of the page."""
    lines = [HEAD.rstrip("\n")]
    lines += [f"| {kind} | {what.replace('``', '`')} |" for kind, what in kinds().items()]
    chapters: dict[str, list[OpDef]] = {}
    for row in OPSET.values():
        chapters.setdefault(row.chapter, []).append(row)
    for chapter, rows in sorted(chapters.items()):
        lines += ["", f"## {chapter}", "", "| op | kind | what it makes | dtypes | targets |"]
        lines.append("| --- | --- | --- | --- | --- |")
        for row in sorted(rows, key=lambda row: row.name):
            name = row.name.removeprefix("mo.")
            public = name in ops.__all__ and callable(getattr(ops, name))
            shown = f"**{name}**" if public else name
            what = row.summary.replace("|", "\\|").replace("``", "`")
            cells = (shown, row.kind, what, dtypes_of(row), targets_of(row))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or compare it; the exit status."""
    wanted = page()
    if "--check" in arguments:
        same = PAGE.is_file() and PAGE.read_text("utf-8") == wanted
        print("docs/ops is as the op table" if same else "run scripts/gen_op_docs.py")
        return 0 if same else 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
