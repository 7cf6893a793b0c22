"""The passes, one named rewrite a file, and the order they run in."""

from __future__ import annotations

from maxlab.compiler.options import Options
from maxlab.compiler.passes.canonicalise import canonicalise
from maxlab.compiler.passes.cse import eliminate_common_subexpressions
from maxlab.compiler.passes.dce import eliminate_dead_code
from maxlab.compiler.passes.decompose import decompose
from maxlab.compiler.passes.fold import fold_constants
from maxlab.compiler.passes.join import join_images
from maxlab.compiler.passes.layout import turn_images
from maxlab.compiler.passes.manager import (
    Pass,
    PassRecord,
    applied,
    recorded,
    rewrites_of,
    run,
)
from maxlab.compiler.passes.parts import part_reductions
from maxlab.compiler.passes.place import place_data
from maxlab.compiler.passes.sink import sink_data
from maxlab.compiler.passes.split import split_products

PIPELINE: tuple[tuple[str, Pass], ...] = (
    ("fold", fold_constants),
    ("canonicalise", canonicalise),
    ("place", place_data),
    ("cse", eliminate_common_subexpressions),
    ("dce", eliminate_dead_code),
    ("decompose", decompose),
    ("parts", part_reductions),
    ("layout", turn_images),
    ("simplify", canonicalise),
    ("refold", fold_constants),
    ("share", eliminate_common_subexpressions),
    ("sweep", eliminate_dead_code),
    ("join", join_images),
    ("sink", sink_data),
)


def pipeline(split_k: str) -> tuple[tuple[str, Pass], ...]:
    """The passes, with those of ``Options(split_k=split_k)``."""
    if split_k == "accum":
        return PIPELINE
    at = [name for name, _ in PIPELINE].index("simplify")
    return (*PIPELINE[:at], ("split", split_products), *PIPELINE[at:])


def whole_pipeline(options: Options) -> tuple[tuple[str, Pass], ...]:
    """The passes for a whole graph with ``options``; bodies of loops and branches have no part of
    their own that is computed when a model is loaded."""
    from maxlab.compiler.passes.ahead import passes_with  # it asks the schedule, which has passes

    return tuple(passes_with(pipeline(options.split_k), options))


__all__ = [
    "PIPELINE",
    "Pass",
    "PassRecord",
    "applied",
    "pipeline",
    "recorded",
    "rewrites_of",
    "run",
    "whole_pipeline",
]
