"""How far functions of float32 are from exact, in each accuracy that maxlab has, and in torch:
``python -m scripts.exhaustive.tiers [--only NAME …] [--who exact default fast torch] [--step N]
[--threads N] [--out FILE]``.

Every so-many-th of the 2^32 numbers is an input, all of them by default. What was found is kept in
a file of JSON, from which ``docs/accuracy.md`` is drawn. By default only what has a formula of its
own is measured, and not what ``scripts/unary_exhaustive`` runs, the functions of the op table with
the default accuracy; the page has these from there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import local
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from maxlab.graph.build import add
from maxlab.toolchain.flags import ACCURACIES, Accuracy
from scripts.exhaustive.cases import UnaryCase, unary_cases
from scripts.exhaustive.judge import Array, Finding, judge
from scripts.exhaustive.main import ALL, PIECE, RESULTS, results_of
from scripts.exhaustive.report import Book, number

FILE = RESULTS / "accuracy.json"
WHO = (*ACCURACIES, "torch")
FUNCTIONS = (
    "exp", "log", "log1p", "erf", "sin", "cos", "tanh", "sigmoid", "tanh_sigmoid", "silu", "gelu",
    "gelu_tanh", "gelu_quick",
)  # fmt: skip
OWN: dict[str, tuple[str, ...]] = {
    "exact": ("exp", "erf", "sigmoid", "tanh_sigmoid", "silu", "gelu"),
    "default": ("tanh_sigmoid",),
    "fast": ("tanh", "sigmoid", "tanh_sigmoid", "silu", "gelu", "gelu_tanh", "gelu_quick"),
    "torch": FUNCTIONS,
}  # fmt: skip
"""The functions that are measured here. Of the others, what another accuracy computes is as by
default, and what is computed by default has been run by ``scripts/unary_exhaustive``."""


def case_of(name: str) -> UnaryCase:
    """The case of a function; that of tanh(x) · sigmoid(x) is called as tanh, which has its scalar
    operator."""
    if name == "tanh_sigmoid":
        return replace(case_of("tanh"), name=name)
    return next(case for case in unary_cases() if case.name == name)


def loaded(name: str, accuracy: Accuracy) -> engine.Model:
    """A model of one function of a vector of any length."""
    case = case_of(name)
    with Graph(f"every_{name}", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        x = graph.inputs[0].tensor
        short = case.row.name.removeprefix("mo.")
        made = add(short, [x], **case.attrs)
        graph.output(made * add("sigmoid", [x]) if name == "tanh_sigmoid" else made)
    options = Options(accuracy=accuracy)
    return engine.InferenceSession(num_threads=1).load(graph, options=options)


def runner(name: str, who: str) -> Callable[[Array], Array]:
    """What computes the function ``name`` for ``who``."""
    for accuracy in ACCURACIES:
        if who == accuracy:
            model = loaded(name, accuracy)
            return lambda x: results_of(model, x)
    import torch

    torch.set_num_threads(1)
    functions: dict[str, Callable[[Any], Any]] = {
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "tanh_sigmoid": lambda x: torch.tanh(x) * torch.sigmoid(x),
        "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    }
    function = functions.get(name) or getattr(torch, name)
    return lambda x: np.asarray(function(torch.from_numpy(x)).numpy())


def measure(name: str, who: str, step: int, threads: int = 1) -> Finding:
    """What is found of every ``step``-th number."""
    own = local()
    case = case_of(name)

    def piece(first: int) -> Finding:
        if not hasattr(own, "run"):
            own.run, own.judge = runner(name, who), judge(case)
        bits = np.arange(first, min(first + PIECE * step, ALL), step).astype(np.uint32)
        x = bits.view(np.float32)
        found: Finding = own.judge(x, np.ascontiguousarray(own.run(x)))
        return found

    total = Finding()
    with ThreadPoolExecutor(threads) as pool:
        for found in pool.map(piece, range(0, ALL, PIECE * step)):
            total.add(found)
    return total


def entry(found: Finding) -> dict[str, Any]:
    """What is kept of it."""
    return {
        "inputs": found.inputs, "ulps": float(f"{found.ulps:.4g}"), "at": number(found.ulps_at),
        "special": found.special,
        "special_at": number(found.special_at) if found.special else "",
    }  # fmt: skip


def page() -> str:
    """The table of ``docs/accuracy.md``."""
    lines = ["| function | `exact` | `default` | `fast` | torch |", "|---|---:|---:|---:|---:|"]
    for name, found in kept().items():
        cells = [_cell(found.get(who)) for who in WHO]
        lines.append("| " + " | ".join([f"`{name}`", *cells]) + " |")
    return "\n".join(lines) + "\n"


def kept() -> dict[str, dict[str, Any]]:
    """What was measured of each function, by who computed it."""
    read, book = json.loads(FILE.read_text()), Book(RESULTS, {})
    found = {}
    for name in FUNCTIONS:
        default = {} if name in OWN["default"] else {"default": entry(book.total(name))}
        found[name] = {who: one for who, one in read[name].items() if name in OWN[who]} | default
    return found


def _cell(one: dict[str, Any] | None) -> str:
    if one is None:
        return "as default"
    ulps = f"{one['ulps']:.3g}" if one["ulps"] < 1e4 else f"{one['ulps']:.0e}"
    share = "" if one["inputs"] == ALL else f"; of every {round(ALL / one['inputs'])}th"
    other = f"; {one['special']} other, as at `{one['special_at']}`" if one["special"] else ""
    return f"{ulps} at `{one['at']}`{other}{share}"


def main(arguments: Sequence[str]) -> int:
    """Measure what ``arguments`` name and keep it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=FUNCTIONS, choices=FUNCTIONS)
    parser.add_argument("--who", nargs="*", default=WHO, choices=WHO)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FILE)
    chosen = parser.parse_args(arguments)
    made = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    for name in chosen.only:
        for who in chosen.who:
            if name not in OWN[who]:
                continue
            found = entry(measure(name, who, chosen.step, chosen.threads))
            made.setdefault(name, {})[who] = found
            print(name, who, found, flush=True)
            chosen.out.write_text(json.dumps(made, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
