"""Kernel libraries: declarations of custom ops that are nearly right, read and called in graphs."""

from __future__ import annotations

from pathlib import Path
from random import Random

from maxlab.graph import KernelLibrary
from tests.hostile.harness import Case, Family, mutated

WHOLE = """// Kernels for tests.
// @op grayscale(x: T[h, w, 3], k: int64[1]) -> (y: T[h, w // 2], z: T[*lead])
// @types T: float32 | float16
// @params GAIN: int = 1; NAME: str = "a" in "a", "b"; KIND: DType = float32; ON: bool = true
// @both
T sum = 0;
for (int c = 0; c < 3; c++) sum += load(x, 3 * i + c);
store(y, i, GAIN * sum / 3);

// @op push(inout history: float32[n], inout count: int64[], x: float32[]) -> (old: float32[])
// @items 1
// @c
store(old, 0, load(history, 0));
"""


def _text(content: bytes) -> Case:
    def run(folder: Path) -> None:
        file = folder / "kernels.c"
        file.write_bytes(content)
        library = KernelLibrary(paths=[file])
        for name in library:
            str(library[name])

    return Case(f"the library {content[:60]!r}…", run)


def _draw(random: Random) -> Case:
    text = WHOLE.encode()
    if random.random() < 0.4:
        lines = WHOLE.splitlines(True)
        random.shuffle(lines)
        text = "".join(lines[: random.randrange(1, len(lines))]).encode()
    return _text(mutated(text, random))


SEEDS = [
    _text(content)
    for content in (
        b"", b"\0", b"\xff\xfe", b"// @op", b"// @op x(", b"// @op x() -> ()" * 10_000,
        b"// @op a(x: float32[" + b"(" * 50_000 + b"]) -> (y: float32[n])\n// @both\n;",
        b"// @op a(x: float32[9" + b"9" * 5000 + b"]) -> (y: float32[n])\n// @both\n;",
    )
]  # fmt: skip

FAMILIES = (Family("kernel_text", SEEDS, _draw, 3000),)
