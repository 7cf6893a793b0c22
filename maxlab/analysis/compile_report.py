"""The cost of compiling a model: its phases and, for every kernel, whether it was found compiled
already, and if not, why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxlab.analysis.chosen import ChosenVariant, chosen_variants
from maxlab.analysis.target import model_behind
from maxlab.compiler.plan import Step
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.engine.times import plural, size_text
from maxlab.habits import fitting
from maxlab.tabular import Field, Tabular, aligned

PHASES = {
    "cached": "finding the plan in the cache",
    "passes": "rewriting the graph",
    "schedule": "deciding which operations share a kernel",
    "plan": "making loops and text, and planning memory",
    "kernels": "finding or compiling the kernels",
    "ahead": "computing what depends on weights alone",
    "weights": "checking, packing and uploading weights",
    "bind": "laying out memory for the newest sizes",
}
"""The work of each phase, in order."""

_WHY = {
    "new text": "its text is new",
    "flags changed": "the options of the compiler changed",
    "compiler changed": "the compiler changed",
    "cpu changed": "the CPU changed",
    "prelude changed": "the prelude of all kernels changed",
    "headers changed": "the headers of all kernels changed",
    "architecture changed": "the GPU's architecture changed",
    "corrupt entry rebuilt": "what the cache had was damaged",
}
_TIERS = {
    "quick": "; quick code with equal results runs until it is optimised in the background",
    "assembled": "; parts of other kernels with equal results run until it is compiled in the "
    "background",
    "improved": "; optimised in the background, in place of quick code with equal results",
}


@dataclass(frozen=True, slots=True)
class CompiledUnit:
    """One text that was compiled, or found compiled.

    Attributes:
        kernels: The steps that it is the code of: equal kernels of different layers are one text.
        name: What it computes.
        symbol: The name of its function.
        hit: Whether nothing was compiled for it.
        why: Where it was found, or why it was compiled, in words.
        ms: Milliseconds of compiling, its share by length of what was compiled with it, or of
            loading; 0 when it was loaded already.
        lines: Lines of its text; None for a part of the runtime library.
        library: The number of the compiled library it is in; units with the same one were compiled
            together. None for a part of the runtime library, or on a GPU.
    """

    kernels: tuple[str, ...]
    name: str
    symbol: str
    hit: bool
    why: str
    ms: float
    lines: int | None
    library: int | None = None


@dataclass(frozen=True, slots=True)
class CompileReport(Tabular):
    """The cost of compiling a model.

    Attributes:
        model: The name of the model.
        options: What it was compiled with, in words.
        phases: Nanoseconds by phase, in the order of ``PHASES``; phases that did not come yet are
            left out.
        units: Every kernel's text, in the order of the plan.
        ahead: What was computed when the model was loaded, in words; empty for nothing.
        plan: Whether the plan came from the cache, or why not, in words.
        variants: What was chosen for kernels that do their work in several ways, for the sizes that
            the model ran with.
    """

    model: str
    options: str
    phases: dict[str, int]
    units: tuple[CompiledUnit, ...]
    ahead: str = ""
    plan: str = ""
    variants: tuple[ChosenVariant, ...] = ()

    @property
    def misses(self) -> list[CompiledUnit]:
        """The units that were compiled."""
        return [unit for unit in self.units if not unit.hit]

    def _heads(self) -> Sequence[str]:
        return ("kernels", "name", "symbol", "found", "time [ms]", "lines", "why")

    def _records(self) -> Iterator[Sequence[Field]]:
        for u in self.units:
            yield " ".join(u.kernels), u.name, u.symbol, u.hit, u.ms, u.lines, u.why

    def table(self) -> str:
        """The report as text."""
        total = sum(self.phases.values())
        phases = ", ".join(f"{name} {ns / 1e6:.2f} ms" for name, ns in self.phases.items())
        lines = [f"{self.model} ({self.options}): {total / 1e6:.2f} ms: {phases}"]
        lines += [*(said for said in (self.plan, self.ahead) if said), ""]
        cells = [("kernels", "name", "found", "ms", "lines", "why")]
        cells += [
            (
                unit.kernels[0] + (f" +{len(unit.kernels) - 1}" if len(unit.kernels) > 1 else ""),
                unit.name,
                "hit" if unit.hit else "miss",
                f"{unit.ms:.2f}",
                "" if unit.lines is None else str(unit.lines),
                unit.why,
            )
            for unit in self.units
        ]
        lines += aligned(cells, right=(3, 4))
        if self.variants:
            lines += ["", "variants of kernels:", *(f"  {one.words}" for one in self.variants)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"CompileReport({self.model!r}, {len(self.units)} units, "
            f"{len(self.misses)} compiled, {sum(self.phases.values()) / 1e6:.1f} ms)"
        )


@fitting("ML975", "maxlab.compile_report(model)")
def compile_report(target: Model | Profile) -> CompileReport:
    """The cost of compiling ``target``: a model, or the model of a profile.

    Raises:
        ArgumentTypeError: ML674, ``target`` is something else.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.analysis.compile_report import compile_report
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> report = compile_report(engine.InferenceSession().load(graph))
        >>> list(report.phases)[-2:], report.units[0].kernels
        (['kernels', 'weights'], ('k0',))
    """
    model = model_behind(target, "compile_report")
    libraries: dict[tuple[int, int], int] = {}
    by_symbol: dict[tuple[str, bool], list[tuple[Step, str, bool, str, float, Path | None]]] = {}
    for row in _loaded(model):
        by_symbol.setdefault((row[1], row[0].printed is None), []).append(row)
    units = []
    for (symbol, library), rows in by_symbol.items():
        step, _, hit, why, ms, path = next((r for r in rows if not r[2]), rows[0])
        printed = model.printed(step)
        units.append(
            CompiledUnit(
                kernels=tuple(r[0].id for r in rows),
                name=step.name,
                symbol=symbol,
                hit=hit,
                why=why,
                ms=ms,
                lines=None if printed is None or library else len(printed.text.splitlines()),
                library=_library(path, libraries),
            )
        )
    timings = model.compiled.timings_ns
    phases = {name: timings[name] for name in PHASES if name in timings}
    ahead, said = model.compiled.plan.facts.ahead, ""
    if ahead is not None:
        said = (
            f"computed at load, of weights alone: {plural(ahead.count, 'operation')}, "
            f"{plural(len(ahead.names), 'result')} of {size_text(ahead.nbytes)} in all"
        )
    return CompileReport(
        model.name,
        str(model.options),
        phases,
        tuple(units),
        said,
        model.compiled.cached,
        chosen_variants(model),
    )


def _loaded(
    model: Model,
) -> Iterator[tuple[Step, str, bool, str, float, Path | None]]:
    """Each step that runs code, with its symbol and how the code was come by, in words too."""
    compiled = model.compiled
    for step in compiled.plan.steps:
        if step.gpu is not None:
            for (number, variant), loaded in model.gpu_kernels.items():
                if number == step.number:
                    symbol = step.gpu.printed(variant).symbol
                    why = _words(loaded.hit, loaded.why_miss, loaded.ms)
                    yield step, symbol, loaded.hit, why, loaded.ms, None
        elif step.number in compiled.kernels:
            kernel = compiled.kernels[step.number]
            why = _words(kernel.hit, kernel.why_miss, kernel.ms) + _TIERS.get(kernel.tier, "")
            yield step, kernel.name, kernel.hit, why, kernel.ms, kernel.path
        elif step.builtin:
            yield step, step.builtin, True, "part of the runtime library", 0.0, None


def _words(hit: bool, why: str | None, ms: float) -> str:
    if hit:
        return "in the cache on disk" if ms else "loaded by this process before"
    return _WHY.get(why or "new text", why or "")


def _library(path: Path | None, known: dict[tuple[int, int], int]) -> int | None:
    if path is None:
        return None
    try:
        info = path.stat()  # kernels that were compiled together are links to one file
    except OSError:
        return None
    return known.setdefault((info.st_dev, info.st_ino), len(known))


__all__ = ["PHASES", "CompileReport", "CompiledUnit", "compile_report"]
