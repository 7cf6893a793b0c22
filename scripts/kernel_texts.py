"""The kernels that a table of graphs becomes, as text: what a change of the generator changes.

    python -m scripts.kernel_texts FILE [NAME …]       write them, of the ops whose names begin so
    python -m scripts.kernel_texts --compare OLD NEW [NAME …]
                                                       print what differs; 1 when something does

The table is every sample of every op that brings kernels of its own, with sizes that are known and
with names, for the CPU and for a GPU; and what ``more`` adds: long rows, options, convolutions of
every way. Texts are compared as tokens: neither comments nor white space count, nor the order of
constants that are declared one after another, and kernels and sizes are numbered in the order in
which a text names them. How a kernel is launched counts too.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxlab.compiler.compiled import compilable
from maxlab.compiler.compiling import debugged
from maxlab.compiler.options import Options
from maxlab.dtype import DType
from maxlab.ir import Function
from maxlab.opset import OPSET, Sample
from maxlab.opset import convolution_lines as lines
from tests.compiler.test_convolution_lines import CASES as LINES
from tests.compiler.test_convolution_lines import Case as Convolution
from tests.compiler.test_matrix import CASES, Case, build
from tests.cuda.placing import on_gpu

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|#[^\n]*|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|\S",
    re.DOTALL,
)
_NUMBERED = re.compile(r"(?:([kg]_)[0-9a-f]{12,}|(s)\d+)")

_EACH: dict[str, Any] = {"groups": 24, "bias": True}
CONVOLUTIONS = [
    *LINES,
    Convolution("by itself", (2, 9, 10, 24), (3, 3), 24, (1, 1, 1, 1), groups=24),
    Convolution("by itself, strides", (1, 9, 40, 24), (3, 5), 24, (1, 0, 2, 2), (2, 3), **_EACH),
    Convolution(
        "by itself, dilated", (1, 9, 40, 24), (3, 5), 24, (1, 0, 2, 2), (), (2, 2), **_EACH
    ),
    Convolution("by itself, planes", (1, 3, 9, 40, 24), (2, 3, 5), 24, groups=24),
    Convolution("few filters", (2, 9, 10, 6), (3, 3), 4, (1, 1, 1, 1), groups=2, bias=True),
    Convolution("groups of many", (2, 9, 10, 80), (3, 3), 80, (1, 1, 1, 1), (), (2, 1), 2, True),
]


def tokens(text: str) -> list[str]:
    """The tokens of ``text``, without comments."""
    found = _TOKEN.findall(text)
    return [" ".join(each.split()) for each in found if not each.startswith(("//", "/*"))]


def numbered(given: list[str]) -> list[str]:
    """The tokens with kernels and sizes numbered in order."""
    numbers: dict[str, str] = {}
    made = []
    for each in given:
        if each.startswith("#"):
            each = "".join(each.split())
        named = _NUMBERED.fullmatch(each)
        if named is not None:
            each = numbers.setdefault(each, f"{named[1] or named[2]}#{len(numbers)}")
        made.append(each)
    return made


def steps_of(function: Function, options: Options) -> Iterator[list[Any]]:
    """Of each step of the plan: its name, how it is launched, and the tokens of its texts."""
    for step in debugged(compilable(function, options), options).plan.steps:
        texts = [step.printed.text] if step.printed is not None else []
        launch = [str(step.launch), str(step.parallel), str(step.flops)]
        if step.gpu is not None:
            texts = [step.gpu.printed(n).text for n in range(len(step.gpu))]
            launch.append(str(step.gpu.launch))
        counted = sorted(str(step.held[slot]) for slot in step.held)
        yield [step.name, *launch, counted, *(tokens(text) for text in texts)]


def graphs(names: Sequence[str]) -> Iterator[tuple[str, Function, Options]]:
    """The table: a label, a function and what it is compiled with."""
    every = [*CASES, *more()]
    for number, case in enumerate(every):
        row = OPSET[case.name]
        short = case.name.removeprefix("mo.")
        if row.kernel is None or not short.startswith(tuple(names) or ""):
            continue
        function = build(case)[0]
        levels: list[Options] = [Options()]
        if row.fault is not None and number < len(CASES):
            levels += [Options(assert_level="none"), Options(assert_level="warn")]
        if short == "top_k":
            levels.append(Options(old_top_k=True))
        for level, options in enumerate(levels):
            yield f"{number} {case.id} {level}", function, options
            with contextlib.suppress(Exception):  # what has no GPU's kernel
                yield f"{number} {case.id} {level} gpu", on_gpu(function), options


def more() -> Iterator[Case]:
    """Samples that no test computes: they are long."""
    kinds = [d for d in DType if d.is_integral() or d in (DType.bool, *FLOATS)]
    for dtype in kinds:
        for n in (1000, 40_000):
            x = np.zeros(n, dtype.ml_numpy)
            for attrs in ({"ascending": True}, {"ascending": False}):
                yield from _both("argsort", x, attrs, ("n",))
        rows = np.zeros((3, 5000), dtype.ml_numpy)
        for k in (0, 1, 8, 9, 128, 129, 4000):
            yield from _both("top_k", rows, {"k": k}, ("a", "n"))
        if dtype is DType.bool:
            continue
        for shape in ((3, 5, 7), (400, 100_000), (2, 100_000), (600, 90_000)):
            for flags in range(4):
                flagged = {"axis": -1, "exclusive": flags > 1, "reverse": flags % 2 == 1}
                wide = np.broadcast_to(np.zeros((), dtype.ml_numpy), shape)
                yield from _both("cumsum", wide, flagged, ("a", "b", "c")[: len(shape)])
                middle = {**flagged, "axis": 0}
                yield from _both("cumsum", wide, middle, ("a", "b", "c")[: len(shape)])
    for case in CONVOLUTIONS:
        for dtype in (DType.float32, DType.float16, DType.bfloat16, DType.int32):
            image = np.broadcast_to(np.zeros((), dtype.ml_numpy), case.image)
            window = (*case.window, case.image[-1] // case.groups, case.filters)
            filters = np.broadcast_to(np.zeros((), dtype.ml_numpy), window)
            for first in (False, True):
                order = (0, len(case.image) - 1, *range(1, len(case.image) - 1))
                back = (len(window) - 1, len(window) - 2, *range(len(window) - 2))
                arrays = [image, filters]
                if first:
                    arrays = [image.transpose(order), filters.transpose(back)]
                if case.bias:
                    arrays.append(np.zeros(case.filters, dtype.ml_numpy))
                attrs = {**case.attrs, "channels_first": first}
                label = f"{case.name} {dtype.name} {first}"
                yield Case("mo.conv.window", 0, Sample(tuple(arrays), attrs, None, label), False)
                shapes = [tuple(f"d{n}_{m}" for m in range(a.ndim)) for n, a in enumerate(arrays)]
                shapes[0] = (shapes[0][0], *arrays[0].shape[1:])
                shapes[1:] = [a.shape for a in arrays[1:]]
                yield Case(
                    "mo.conv.window", 0, Sample(tuple(arrays), attrs, tuple(shapes), label), True
                )


FLOATS = (DType.float16, DType.bfloat16, DType.float32, DType.float64)


def _both(name: str, x: Any, attrs: dict[str, Any], shape: tuple[str, ...]) -> Iterator[Case]:
    sample = Sample((x,), attrs, (shape,), f"{x.dtype.name} {x.shape} {attrs}")
    yield Case(f"mo.{name}", 0, sample, False)
    yield Case(f"mo.{name}", 0, sample, True)


def written(names: Sequence[str]) -> dict[str, list[Any]]:
    """The steps of each graph of the table."""
    found: dict[str, list[Any]] = {}
    for label, function, options in graphs(names):
        try:
            found[label] = list(steps_of(function, options))
        except Exception as error:
            found[label] = [[type(error).__name__, str(error)[:200]]]
    for case in CONVOLUTIONS:
        if not case.limits or not "conv.window".startswith(tuple(names) or ""):
            continue
        kept = {name: getattr(lines, name) for name in case.limits}
        try:
            for name, value in case.limits.items():
                setattr(lines, name, value)
            for label, function, options in graphs(["conv.window"]):
                if case.name in label:
                    found[f"{label} {case.name}"] = list(steps_of(function, options))
        finally:
            for name, value in kept.items():
                setattr(lines, name, value)
    return found


def compared(old: dict[str, list[Any]], new: dict[str, list[Any]]) -> list[str]:
    """What differs, in words: at most a few tokens of each graph."""
    said = [f"{label}: only in one of them" for label in sorted(set(old) ^ set(new))]
    for label in sorted(set(old) & set(new)):
        if [list(map(plain, s)) for s in old[label]] == [list(map(plain, s)) for s in new[label]]:
            continue
        said.append(label)
        if len(old[label]) != len(new[label]):
            said.append(f"  {len(old[label])} steps, now {len(new[label])}")
        for one, other in zip(old[label], new[label], strict=False):
            for before, after in zip(map(plain, one), map(plain, other), strict=False):
                if before != after:
                    one_text = before if isinstance(before, list) else [before]
                    other_text = after if isinstance(after, list) else [after]
                    diff = difflib.unified_diff(one_text, other_text, n=6, lineterm="")
                    said.append("  " + " ".join(list(diff)[2:60]))
    return said


def plain(part: Any) -> Any:
    """A part of a step as it is compared."""
    return numbered(in_order(part)) if isinstance(part, list) else part


def in_order(given: list[str]) -> list[str]:
    """The tokens, where constants that are declared one after another are in order of names."""
    made: list[str] = []
    run: list[list[str]] = []
    at = 0
    while at < len(given):
        if given[at : at + 2] == ["const", "i64"]:
            end = given.index(";", at) + 1
            run.append(given[at:end])
            at = end
            continue
        made += [token for each in sorted(run) for token in each]
        run = []
        made.append(given[at])
        at += 1
    return made


def main() -> int:
    """Write or compare; 1 when something differs."""
    parser = argparse.ArgumentParser(prog="python -m scripts.kernel_texts")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("words", nargs="+")
    given = parser.parse_args()
    if not given.compare:
        Path(given.words[0]).write_text(json.dumps(written(given.words[1:])), "utf-8")
        return 0
    old, new = (json.loads(Path(word).read_text("utf-8")) for word in given.words[:2])
    chosen = tuple(given.words[2:]) or ""
    old = {label: steps for label, steps in old.items() if label.split()[1].startswith(chosen)}
    said = compared(old, new)
    print("\n".join(said[:80]))
    failed = sum(len(v) == 1 and len(v[0]) == 2 for v in new.values())
    print(f"{len(new)} graphs, {failed} of them refused, {len(said)} lines of differences")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
