"""How the sizes of inputs give the sizes of all symbols, and what must hold of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from maxlab.compiler import Compiled
from maxlab.compiler.guards import Guard, evaluated, may_fail
from maxlab.errors import ExecutionError, InputError, Location, ShapeError
from maxlab.ir import Dim, Op, StaticDim, SymbolicDim, TensorType
from maxlab.ir.dims import LARGEST
from maxlab.ir.poly import Poly
from maxlab.opset import checks_of
from maxlab.opset.dynamic import definitions, named_dims, plain_symbol, region_definitions


@dataclass(slots=True)
class _Conditions:
    """What the sizes that are new in a stage of the plan give, and what must hold of them."""

    definitions: list[tuple[str, Poly, Op]] = field(default_factory=list)
    guard: Guard = field(default_factory=Guard)
    counts: dict[Poly, Op] = field(default_factory=dict)
    """The dims that kernels compute in int64, which must hold them, and an op that has each."""
    binds: list[tuple[Op, str]] = field(default_factory=list)
    """What is bound behind the stage, and the name of the dim that it defines; empty where it
    asserts a size."""


class SizeRules:
    """How the sizes of the inputs give the sizes of all symbols, and what must hold of them.

    Symbols come from input dims that are plain names, then from those that have one more symbol, as
    a factor of a number: ``2 * n`` gives ``n``. Others come from rebinds, which name what was an
    expression, and from ``bind_dim`` ops, whose sizes are computed between the stages of the plan.
    All other input dims and all checks of ops are conditions. A condition on a dim that is computed
    is tested as soon as the dim is known.
    """

    def __init__(self, compiled: Compiled) -> None:
        function = compiled.source
        known: dict[str, None] = {}
        self.names: list[tuple[str, int, int]] = []  # symbol, input, axis
        self.input_checks: list[tuple[int, int, Any]] = []
        for number, value in enumerate(function.inputs):
            typed = value.tensor_type
            for axis, dim in enumerate(typed.shape):
                if isinstance(dim, SymbolicDim) and dim.name not in known:
                    known[dim.name] = None
                    self.names.append((dim.name, number, axis))
                else:
                    self.input_checks.append((number, axis, dim))
        defined = definitions(function)
        self.solved = self._solve(known, defined)
        plan = compiled.plan
        ops = {op.id: op for op in function.ops}
        self.stages = [_Conditions() for _ in plan.stages]
        names = {op.id: name for name, (op, size) in defined.items() if size is None}
        late: dict[str, int] = {}  # the stage in which a computed dim is known
        for step in plan.steps:
            if step.binds is not None:
                stage = bisect_right(plan.cuts, step.number)
                name = names.get(step.binds.op, "")
                self.stages[stage].binds.append((ops[step.binds.op], name))
                if name:
                    late[name] = stage + 1

        def conditions(*sizes: Poly) -> _Conditions:
            stages = (late.get(name, 0) for size in sizes for name in size.symbols())
            return self.stages[max(stages, default=0)]

        for op, check in checks_of(function):
            symbol = plain_symbol(check)
            if symbol is not None and defined.get(symbol) == (op, check.left):
                stage = max((late.get(name, 0) for name in check.left.symbols()), default=0)
                self.stages[stage].definitions.append((symbol, check.left, op))
                if symbol not in known and stage:
                    late[symbol] = stage
                known[symbol] = None
            else:
                conditions(check.left, check.right).guard.checks.append((op, check))
        for _, _, dim in self.input_checks:
            for parameter in dim.parameters:
                if parameter.name not in known or parameter.name in late:
                    raise InputError(
                        "ML601",
                        f"the dim {parameter.name!r} of the input dim {dim} has no size: it does "
                        "not follow from the sizes of the inputs",
                        fix="name the dim in an input type, or name the whole expression",
                    )
        for op in function.ops:
            if op.id in names:
                known[names[op.id]] = None
            self._known(op, known)
            for result in op.results:
                if isinstance(result.type, TensorType):
                    for poly in result.type.sizes:
                        if may_fail(poly):
                            conditions(poly).guard.differences.setdefault(poly, op)
        for op in function.walk():
            for poly in _computed(op):
                if poly not in conditions(poly).counts and known.keys() >= set(poly.symbols()):
                    conditions(poly).counts[poly] = op
        self.inputs = [v.tensor_type for v in function.inputs]
        self.input_names = [v.name for v in function.inputs]

    def _solve(
        self, known: dict[str, None], defined: Mapping[str, object]
    ) -> list[tuple[str, int, int, Poly, int]]:
        """How symbols that no input has alone follow from input dims such as ``2 * n + m``: symbol,
        input, axis, what is subtracted from the size, and what that is divided by. ``known``, the
        symbols whose sizes other inputs give, gets them."""
        found: list[tuple[str, int, int, Poly, int]] = []
        before = -1
        while len(found) > before:
            before = len(found)
            for number, axis, dim in self.input_checks:
                unknown = [name for name in dim.poly.symbols() if name not in known]
                if len(unknown) != 1 or unknown[0] in defined:
                    continue
                (name,) = unknown
                factor = dim.poly.coefficient(name)
                if factor is not None and factor.is_constant and factor.value:
                    rest = dim.poly - factor * Poly.symbol(name)
                    found.append((name, number, axis, rest, factor.value))
                    known[name] = None
        return found

    def _known(self, op: Op, known: Mapping[str, None]) -> None:
        own = {n for region in op.regions for n in region_definitions(region, known)}
        types = [r.type for r in op.results if isinstance(r.type, TensorType)]
        own -= {name for type in types for size in type.sizes for name in size.symbols()}
        for name in sorted(named_dims(op) - own):
            if name not in known:
                raise InputError(
                    "ML601",
                    f"the dim {name!r} of {op.name.removeprefix('mo.')} has no size: "
                    "no input has it",
                    at=op.loc,
                    fix="name the dim in an input type, or bind it with rebind",
                )

    def resolve(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The size of every symbol for inputs of ``shapes``, whose ranks are right; those that are
        computed are missing.

        Raises:
            InputError: ML602, a size that contradicts the input types; ML603, a condition that an
                op states.
            ShapeError: ML223, a dim of more than 63 bits.
        """
        env: dict[str, int] = {}
        for name, number, axis in self.names:
            env[name] = shapes[number][axis]
        for name, number, axis, rest, factor in self.solved:
            # Where the division leaves a rest, the check of the same dim fails.
            env[name] = (shapes[number][axis] - evaluated(rest, env, None)) // factor
            if env[name] < 0:
                raise InputError(
                    "ML602",
                    f"input {number} ({self.input_names[number]}) has the size "
                    f"{shapes[number][axis]} at axis {axis}, and {name!r} would be {env[name]}: "
                    f"expected {self.inputs[number]}, got the shape {list(shapes[number])}",
                    fix="pass a larger input; no dim is negative",
                )
        for number, axis, dim in self.input_checks:
            expected = evaluated(dim.poly, env, None)
            found = shapes[number][axis]
            if expected != found:
                static = isinstance(dim, SymbolicDim)
                word = f"{dim.name!r} is {expected} elsewhere" if static else f"the type says {dim}"
                if not static and dim.poly.symbols():
                    word += f" = {expected}"
                raise InputError(
                    "ML602",
                    f"input {number} ({self.input_names[number]}) has the size {found} at axis "
                    f"{axis}, but {word}: expected {self.inputs[number]}, got the shape "
                    f"{list(shapes[number])}",
                    fix="a named dim has one size in a call; sizes are never broadcast at run time",
                )
        self._test(self.stages[0], env)
        return env

    def bind(self, env: Mapping[str, int], stage: int, sizes: Sequence[int]) -> dict[str, int]:
        """The size of every symbol behind ``stage``, where ``sizes`` were computed.

        Raises:
            InputError: ML603, a condition that an op states.
            ExecutionError: ML726, a dim has another size already; ML727, a size is negative.
        """
        made = dict(env)
        for (op, name), size in zip(self.stages[stage].binds, sizes, strict=True):
            dim, what = op.attrs["dim"], op.attrs["what"]
            if size < 0:
                raise ExecutionError(
                    "ML727",
                    f"{what}: the dim {str(dim)!r} would have the size {size}"
                    + (f": {op.attrs['negative']}" if op.attrs["negative"] else ""),
                    at=op.loc,
                    fix="no dim is negative; look at what the size is computed from",
                )
            if name:
                made[name] = size
                continue
            expected = evaluated(dim.poly, made, op)
            if size != expected:
                named = f"the dim {str(dim)!r}" if dim.poly.symbols() else "out_dim"
                raise ExecutionError(
                    "ML726",
                    f"{what}: {named} is {expected}, got {size}",
                    at=op.loc,
                    fix="give out_dim a name of its own, or pass inputs for which it holds",
                )
        self._test(self.stages[stage + 1], made)
        return made

    def _test(self, stage: _Conditions, env: dict[str, int]) -> None:
        for name, poly, op in stage.definitions:
            env[name] = evaluated(poly, env, op)
        stage.guard.test(env)
        for poly, op in stage.counts.items():
            try:
                size = poly.evaluate(env)
            except ZeroDivisionError:
                continue  # of a branch that refuses to run
            if not -LARGEST <= size <= LARGEST:
                what = f"the dim {poly} of {op.name.removeprefix('mo.')}, {size},"
                raise past_counting(what, env, op.loc)


def _computed(op: Op) -> Iterator[Poly]:
    """The dims of the results and attributes of ``op`` that are no plain names and no numbers."""
    dims = [dim for r in op.results if isinstance(r.type, TensorType) for dim in r.type.shape]
    for attr in op.attrs.values():
        if isinstance(attr, Dim):
            dims.append(attr)
        elif isinstance(attr, (list, tuple)):
            dims += [dim for dim in attr if isinstance(dim, Dim)]
    for dim in dims:
        if not isinstance(dim, (StaticDim, SymbolicDim)):
            yield dim.poly


def past_counting(what: str, env: Mapping[str, int], at: Location | None) -> ShapeError:
    """The error for ``what``, a number that these sizes make larger than 63 bits."""
    return ShapeError(
        "ML223",
        f"{what} is larger than 63 bits can count",
        at=at,
        why=[f"{name} is {size}" for name, size in sorted(env.items())],
        fix="pass smaller inputs; a size counts too where another one is 0",
    )
