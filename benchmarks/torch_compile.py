"""``torch.compile(model, backend="maxlab")`` on models that people use, beside torch itself and
inductor: ``python -m benchmarks.torch_compile [MODEL ...] [--json FILE] [--markdown FILE]``.

Twelve models of torchvision, timm and transformers, of twelve families, with random weights and
nothing downloaded; `benchmarks.torch_models` makes them. Each runs in a process of its own, with an
empty cache of kernels, and the row says:

- *maxlab runs*: the operations that became maxlab's, of all in the graphs of ``torch.compile``;
- *error*: the largest difference from torch of two elements, as a fraction of the largest element;
- *3 and 5*: how many graphs were compiled for batches of 3, 5 and 4 whose first dim is marked as
  dynamic, and whether all agree with torch;
- *torch*, *inductor*: how many times as fast as these one call is. The calls are
  interleaved, and each round gives a ratio: the median, and in brackets the interval that has the
  median of all rounds with 95 %. Below 1, maxlab is slower.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.torch_models import (
    MODELS,
    _import_torchvision,
    fill_zeros,
    machine,
    run_alone,
    write_between_marks,
)

FAMILIES = {
    "torchvision/resnet18": "residual convolutions",
    "torchvision/mobilenet_v3_small": "depthwise convolutions",
    "torchvision/densenet121": "dense convolutions",
    "torchvision/convnext_tiny": "large convolutions with layer norms",
    "torchvision/swin_t": "attention in windows",
    "timm/deit_tiny_patch16_224": "attention on patches",
    "timm/mixer_s16_224": "products without attention",
    "transformers/distilbert": "encoder of words",
    "transformers/gpt2": "decoder with learned positions",
    "transformers/llama": "decoder with rotary positions",
    "transformers/t5_encoder": "encoder with relative positions",
    "transformers/mamba": "state spaces",
}
"""The models and what each stands for."""
ROUNDS = 15
THREADS = 1
"""Of each: on a machine that others use too, several threads measure who waits for whom."""
TOLERANCE = 1e-4
BATCHES = (3, 5, 4)
MARKS = "<!-- made by python -m benchmarks.torch_compile -->", "<!-- end of it -->"

Times = tuple[float, float, float]
"""A median, and the interval around it."""


@dataclass
class Row:
    """What ``torch.compile`` with maxlab makes of one model.

    Attributes:
        model: Its name, the library first.
        family: What it stands for.
        size: ``"published"``, or ``"small"`` for fewer and narrower layers.
        ours: Operations that maxlab runs.
        theirs: The operations that torch runs, and how often.
        error: The largest difference from torch as a fraction of the largest element.
        graphs: How many graphs were compiled for batches of 3, 5 and 4.
        batches_agree: Whether their outputs agree with torch's.
        compile_s: Seconds of the first call with a cache without kernels.
        ms: Milliseconds of a call by who runs it.
        ratios: How many times as fast as torch and as inductor.
        why: What went wrong; empty when nothing did.
    """

    model: str
    family: str
    size: str = ""
    ours: int = 0
    theirs: dict[str, int] = field(default_factory=dict)
    error: float | None = None
    graphs: int | None = None
    batches_agree: bool | None = None
    compile_s: float | None = None
    ms: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, Times] = field(default_factory=dict)
    why: str = ""

    @property
    def share(self) -> float:
        """The part of the operations that maxlab runs."""
        total = self.ours + sum(self.theirs.values())
        return self.ours / total if total else 0.0


# ---------------------------------------------------------------- one model
def measure(name: str, inductor: bool = True) -> Row:
    """The row of one model, measured in this process."""
    import torch

    from maxlab.torch import backend, compiling

    made: list[Any] = []
    plain = vars(compiling)["CompiledGraph"]

    def noted(*args: Any, **kwargs: Any) -> Any:
        made.append(plain(*args, **kwargs))
        return made[-1]

    vars(compiling)["CompiledGraph"] = noted
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    _import_torchvision()  # transformers looks for it too
    module, inputs, named, size = MODELS[name]()
    module.eval()
    fill_zeros(module)
    row = Row(name, FAMILIES.get(name, ""), size)
    with torch.no_grad():
        wanted = module(*inputs, **named)
        compiled = torch.compile(module, backend=backend, options={"num_threads": THREADS})
        started = time.perf_counter()
        found = compiled(*inputs, **named)
        row.compile_s = round(time.perf_counter() - started, 1)
        row.error = float(f"{difference(found, wanted):.2g}")
        for graph in made:
            row.ours += sum(r.count for r in graph.coverage if r.by == "maxlab")
            for ran in graph.coverage:
                if ran.by == "torch":
                    row.theirs[ran.name] = row.theirs.get(ran.name, 0) + ran.count
        runs: dict[str, Callable[[], Any]] = {
            "maxlab": lambda: compiled(*inputs, **named),
            "torch": lambda: module(*inputs, **named),
        }
        if inductor:
            with_inductor = torch.compile(copy.deepcopy(module), backend="inductor")
            runs["inductor"] = lambda: with_inductor(*inputs, **named)
        row.ms, row.ratios = interleaved(runs)
        made.clear()
        torch._dynamo.reset()
        row.batches_agree = all(
            difference(compiled(*a, **k), module(*a, **k)) <= TOLERANCE
            for a, k in (batch_of(size, inputs, named) for size in BATCHES)
        )
        row.graphs = len(made)
    return row


def batch_of(size: int, inputs: Sequence[Any], named: dict[str, Any]) -> Any:
    """``inputs`` and ``named`` with ``size`` rows in every tensor, their first dims marked as
    dynamic."""
    import torch

    def grown(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        made = torch.cat([x.roll(n, -1) for n in range(size)])
        torch._dynamo.mark_dynamic(made, 0)
        return made

    return tuple(map(grown, inputs)), {name: grown(x) for name, x in named.items()}


def difference(made: Any, wanted: Any) -> float:
    """The largest difference of two elements as a fraction of the largest element of its tensor."""
    import torch
    from torch.utils import _pytree as pytree

    def tensors(x: Any) -> list[Any]:
        if not isinstance(x, (torch.Tensor, tuple, list, dict)) and hasattr(x, "to_tuple"):
            x = x.to_tuple()
        leaves = pytree.tree_leaves(dict(x) if hasattr(x, "keys") else x)
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.numel()]

    pairs = list(zip(tensors(made), tensors(wanted), strict=True))
    assert pairs, "the model returns no tensor"
    worst = 0.0
    for x, y in pairs:
        off = float((x.double() - y.double()).abs().max())
        worst = max(worst, off / max(float(y.double().abs().max()), 1e-12))
    return worst


def interleaved(
    runs: dict[str, Callable[[], Any]],
) -> tuple[dict[str, float], dict[str, Times]]:
    """Milliseconds of each of ``runs``, medians of rounds in which all run one after the other; and
    how many times as fast as each of the others the first is."""
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(ROUNDS + 2):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if number >= 2:
                spent[name].append((time.perf_counter() - started) * 1e3)
    first, *others = runs
    ratios = {
        name: interval([b / a for a, b in zip(spent[first], spent[name], strict=True)])
        for name in others
    }
    return {name: round(statistics.median(each), 3) for name, each in spent.items()}, ratios


def interval(values: Sequence[float]) -> Times:
    """The median of ``values``, and the two of them between which the median of all that might have
    been measured lies with 95 %: by their ranks, so no shape is assumed."""
    ordered, count = sorted(values), len(values)
    low = 0
    below = 0.5**count  # the probability that no value is below that median
    while low + 1 < count // 2 and below + math.comb(count, low + 1) * 0.5**count <= 0.025:
        low += 1
        below += math.comb(count, low) * 0.5**count
    found = statistics.median(ordered), ordered[low], ordered[count - 1 - low]
    return tuple(round(x, 2) for x in found)  # type: ignore[return-value]


def _failed(name: str, why: str) -> Row:
    return Row(name, FAMILIES.get(name, ""), why=why)


# ---------------------------------------------------------------- the table
def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| model | family | maxlab runs | error | 3 and 5 | maxlab | torch | inductor |",
        "| --- | --- | --- | ---: | --- | ---: | --- | --- |",
    ]
    for row in rows:
        name = row.model + (" (small)" if row.size == "small" else "")
        if row.why:
            lines.append(
                f"| {name} | {row.family} | {row.why.replace('|', chr(92) + '|')} | | | | | |"
            )
            continue
        left = ", ".join(f"`{each}` ×{count}" for each, count in row.theirs.items())
        ran = f"{row.ours} ({row.share:.1%})" + (f"; torch: {left}" if left else "")
        batches = f"{row.graphs} graph{'' if row.graphs == 1 else 's'}"
        batches += "" if row.batches_agree else ", **differs**"
        lines.append(
            f"| {name} | {row.family} | {ran} | {row.error:.1e} | {batches} "
            f"| {row.ms['maxlab']:.1f} ms | {_ratio(row, 'torch')} | {_ratio(row, 'inductor')} |"
        )
    return "\n".join(lines)


def _ratio(row: Row, name: str) -> str:
    if name not in row.ratios:
        return "not run"
    middle, low, high = row.ratios[name]
    return f"{middle:.2f}× [{low:.2f}, {high:.2f}]"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", help="names, or the beginnings of names")
    parser.add_argument("--no-inductor", action="store_true", help="leave inductor out")
    parser.add_argument("--json", type=Path, help="write the rows here, beside those of others")
    parser.add_argument("--markdown", type=Path, help="write the table here, between its marks")
    options = parser.parse_args()
    wanted = tuple(options.models) or ("",)
    kept = options.json.read_text("utf-8") if options.json and options.json.exists() else "{}"
    found = {row["model"]: Row(**row) for row in json.loads(kept).get("models", ())}
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    for name in FAMILIES:
        if not name.startswith(wanted):
            continue
        found[name] = run_alone(measure, name, not options.no_inductor, failed=_failed)
        print(table([found[name]]).splitlines()[-1], flush=True)
        rows = [found[each] for each in FAMILIES if each in found]
        if options.json:
            made = {
                **machine(),
                "rounds": ROUNDS,
                "threads": THREADS,
                "models": [asdict(row) for row in rows],
            }
            options.json.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
        if options.markdown:
            write_between_marks(options.markdown, table(rows), MARKS)


if __name__ == "__main__":
    main()
