"""Why an op is in one kernel with what it reads, or is not: every rule of the schedule has a name
here, and a sentence.

The schedule notes names as it decides; sentences are made when somebody asks
(``maxlab.analysis.fusion``). A sentence may have places for facts: ``{reader}`` and ``{source}``
are the two ops, the others are given by whoever notes the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maxlab.compiler.axes import MAX_OPS

TOGETHER: dict[str, str] = {
    "own index": "a map joins the kernel of an operand that it reads at its own index",
    "merged": "kernels of equal shape that feed one map are put together with it",
    "row": "a reduction of the last axis joins the kernel of its operand: several passes over one "
    "row, which stays in cache",
    "same rows": "reductions of the same rows of one value are one kernel: one pass serves both",
    "row map": "maps over the rows of a reduction, and over one value a row, join its kernel: the "
    "row stays in cache",
    "epilogue": "maps of the result of a product or a convolution are its epilogue: a tile is "
    "finished while it is in cache",
    "column": "maps of the result of a column reduction join its kernel",
    "attention": "softmax(f(q @ k)) @ v is one kernel of attention: the scores are never in memory",
    "inlined": "only one kernel reads the value, so it is computed there, where it is read",
    "everywhere": "ranges, dims, constants and a little arithmetic on them are computed by "
    "whoever reads them",
    "view": "a view has no kernel: it is index arithmetic of whoever reads through it",
    "pieces": "both are pieces of one op of the graph",
}
"""Rules by which two ops are in one kernel."""

APART: dict[str, str] = {
    "another index": "{reader} reads it at another index than the one at which it is computed",
    "shape": "{reader} has the shape {shape}, and the kernel of {source} computes {domain}",
    "row shape": "{reader} has the shape {shape}: a kernel of rows of {domain} takes values of its "
    "rows, and one value a row",
    "kind": "a kernel of the kind {kind} takes no other ops",
    "result only": "a {kind} kernel takes maps of its result only, and {reader} has another shape: "
    "{shape} instead of {domain}",
    "size": f"the kernel would have more than {MAX_OPS} ops, which take a C compiler more than "
    "linear time",
    "cycle": "the kernel would depend on itself: {reader} also reads what another kernel makes of "
    "its values",
    "mixed": "{reader} also reads the kernel's values at another index than its own",
    "rows begin": "a kernel of the kind {kind} takes maps of its result; a reduction of that "
    "begins a kernel of rows",
    "with rows": "only reductions of rows read {reader}, and {source} is in memory for others: "
    "they compute it from there",
    "columns begin": "a reduction of another axis than the last begins a kernel of columns",
    "begins": "{reader} begins a kernel: it reads its operands elsewhere than at its own index",
    "product reads memory": "a product reads its operands from memory: its kernel takes maps of "
    "its result only",
    "other kernel": "{reader} is in the kernel of another operand, and these two kernels do not "
    "merge: {merge}",
    "unfused": "the option fuse is off",
    "apart": "the option apart lets {reader} begin a kernel",
}
"""Rules by which an op does not join the kernel of what it reads."""

STORED: dict[str, str] = {
    "not a map": "a kernel of the kind {kind} is not computed again inside of its reader, only "
    "maps are",
    "several values": "the kernel of {source} makes {count} values that are read elsewhere",
    "gathered": "it is read at an index that is data, so it must be in memory",
    "kept": "the option keep holds it in memory",
    "output": "it is an output of the graph, so it is in memory",
    "two readers": "{count} kernels read it, and each would compute it again",
    "read twice": "its reader reads it {count} times, and would compute it each time",
    "product reads memory": "a kernel of the kind {kind} reads its operands from memory",
    "unfused": "the option fuse is off",
    "apart": "the option apart lets its reader begin a kernel",
    "expansion": "inlining would compute it {times} times",
    "size": f"together they would be more than {MAX_OPS} ops",
}
"""Rules by which a value is in memory instead of being computed inside of its reader."""

MERGE: dict[str, str] = {
    "kinds": "only maps merge, into kernels of maps or of rows",
    "domain": "their shapes differ",
    "size": f"they would be more than {MAX_OPS} ops",
    "cycle": "one reads the other",
    "apart": "the option apart lets one of them begin",
}
"""Rules by which two kernels that feed one op stay two."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule, and the facts that its sentence has places for."""

    rule: str
    facts: dict[str, Any] = field(default_factory=dict)
