"""Writes down what a plan needs to know of its graph: ``facts.Facts``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from maxlab.compiler.facts import (
    AheadFacts,
    Bound,
    Conditions,
    Facts,
    HandleFacts,
    InputFacts,
    OutputFacts,
    SizeFacts,
    WeightFacts,
)
from maxlab.compiler.fingerprint import fingerprint
from maxlab.compiler.guards import may_fail
from maxlab.compiler.handles import definitions
from maxlab.compiler.naming import facts_of
from maxlab.compiler.op_facts import OpFacts
from maxlab.compiler.ownership import kept_apart, written_inputs
from maxlab.compiler.passes.ahead import Ahead
from maxlab.compiler.plan import Plan, Step
from maxlab.errors import InputError, WeightError
from maxlab.ir import (
    BufferType,
    Dim,
    Function,
    HandleType,
    Op,
    StaticDim,
    SymbolicDim,
    TensorType,
    Value,
)
from maxlab.ir.poly import Poly
from maxlab.opset import checks_of, is_weight
from maxlab.opset.dynamic import definitions as defined_dims
from maxlab.opset.dynamic import named_dims, plain_symbol, region_definitions


def recorded_facts(
    source: Function,
    function: Function,
    bodies: Sequence[Function],
    plan: Plan,
    ahead: Ahead | None = None,
) -> Facts:
    """The facts that ``plan`` needs of its graph.

    Args:
        source: The graph.
        function: What the passes made of it.
        bodies: The functions that loops, branches and calls run.
        plan: The plan, complete but for its facts.
        ahead: What the passes took out, to be computed when the model is loaded.

    Raises:
        InputError: ML601, a dim has no size.
        WeightError: ML745, a weight is declared twice, with different types.
    """
    inputs = tuple(
        InputFacts(
            v.name, str(v.tensor_type), v.tensor_type.dtype, v.tensor_type.sizes,
            v.tensor_type.device, isinstance(v.type, BufferType),
        )
        for v in source.inputs
    )  # fmt: skip
    written = written_inputs(source)
    return Facts(
        source.name,
        inputs,
        _outputs(source, function),
        _weights(source),
        written,
        kept_apart(source) if written else frozenset(),
        _Sizes(source, plan).found,
        _named_ops((source, *reversed(bodies), function), plan.steps),
        None if ahead is None else _ahead(ahead),
        _handles(source),
    )


def _handles(source: Function) -> HandleFacts | None:
    if not any(isinstance(value.type, HandleType) for value in _values(source)):
        return None
    assert source.output is not None
    ends = source.inputs, source.output.operands
    inputs, outputs = (
        {n: v.type.name for n, v in enumerate(values) if isinstance(v.type, HandleType)}
        for values in ends
    )
    return HandleFacts(inputs, outputs, definitions(source))


def _values(function: Function) -> Iterator[Value]:
    yield from function.inputs
    for op in function.walk():
        yield from op.results


def _ahead(ahead: Ahead) -> AheadFacts:
    found = fingerprint(ahead.function, ahead.options)
    key = f"{found.graph}.{found.options}"
    return AheadFacts(ahead.names, ahead.sources, ahead.count, ahead.nbytes, key)


def _outputs(source: Function, function: Function) -> tuple[OutputFacts, ...]:
    assert source.output is not None
    assert function.output is not None
    pairs = zip(function.output.operands, source.output.operands, strict=True)
    return tuple(
        OutputFacts(
            made.tensor_type.dtype,
            made.tensor_type.sizes,
            made.tensor_type.device,
            made.op.loc if made.op is not None else None,
            said.tensor_type.sizes,
        )
        for made, said in pairs
    )


def _weights(source: Function) -> dict[str, WeightFacts]:
    found: dict[str, WeightFacts] = {}
    ops: dict[str, Op] = {}
    for op in source.ops:
        if not is_weight(op):
            continue
        attrs, typed = op.attrs, op.result.tensor_type
        label = attrs["name"]
        known = ops.setdefault(label, op)
        one = known.result.tensor_type
        if (one.dtype, one.shape) != (typed.dtype, typed.shape):
            raise WeightError(
                "ML745",
                f"the weight {label!r} is declared as {one} and as {typed}",
                at=op.loc,
                why=[f"the first declaration is at {known.loc}"] if known.loc is not None else [],
                fix="give different weights different names",
            )
        if label not in found:
            whole = tuple(Dim(size).poly for size in attrs.get("whole", typed.shape))
            name, part = str(attrs.get("of", label)), attrs.get("part", ())
            device = typed.device
            found[label] = WeightFacts(label, name, typed.dtype, whole, part, device, op.loc)
    return found


def _named_ops(functions: Iterable[Function], steps: Iterable[Step]) -> dict[str, OpFacts]:
    """The ops that ``steps`` name, by id; of two of one id the one of the later function."""
    known = {op.id: op for function in functions for op in function.walk()}
    named: dict[str, None] = {}
    for step in steps:
        named.update(dict.fromkeys((*step.nodes, *step.ops)))
        for ids in (step.renamed or {}).values():
            named.update(dict.fromkeys(ids))
        if step.printed is not None:
            named.update(dict.fromkeys(step.printed.checked))
    return {id: facts_of(known[id]) for id in named if id in known}


class _Sizes:
    """How the sizes of all symbols follow from those of the inputs of ``function``.

    Symbols come from input dims that are plain names, then from those that have one more symbol, as
    a factor of a number: ``2 * n`` gives ``n``. Others come from rebinds, which name what was an
    expression, and from ``bind_dim`` ops, whose sizes are computed between the stages of the plan.
    All other input dims and all checks of ops are conditions. A condition on a dim that is computed
    is tested as soon as the dim is known.
    """

    def __init__(self, function: Function, plan: Plan) -> None:
        self.found = SizeFacts(stages=[Conditions() for _ in plan.stages])
        self._facts: dict[Op, OpFacts] = {}
        self._late: dict[str, int] = {}  # the stage in which a computed dim is known
        known: dict[str, None] = {}
        checked = self._from_inputs(function, known)
        defined = defined_dims(function)
        self._solve(known, defined)
        names = {op.id: name for name, (op, size) in defined.items() if size is None}
        self._bind(function, plan, names)
        self._check(function, defined, known)
        for dim in checked:
            for parameter in dim.parameters:
                if parameter.name not in known or parameter.name in self._late:
                    raise InputError(
                        "ML601",
                        f"the dim {parameter.name!r} of the input dim {dim} has no size: it does "
                        "not follow from the sizes of the inputs",
                        fix="name the dim in an input type, or name the whole expression",
                    )
        for op in function.ops:
            if op.id in names:
                known[names[op.id]] = None
            _require_known(op, known)
            for result in op.results:
                if isinstance(result.type, TensorType):
                    for poly in result.type.sizes:
                        if may_fail(poly):
                            differences = self._conditions(poly).guard.differences
                            differences.setdefault(poly, self._of(op))
        for op in function.walk():
            for poly in _computed(op):
                counts = self._conditions(poly).counts
                if poly not in counts and known.keys() >= set(poly.symbols()):
                    counts[poly] = self._of(op)

    def _of(self, op: Op) -> OpFacts:
        found = self._facts.get(op)
        if found is None:
            found = self._facts[op] = facts_of(op)
        return found

    def _conditions(self, *sizes: Poly) -> Conditions:
        """Those of the stage in which all of ``sizes`` are known."""
        stages = (self._late.get(name, 0) for size in sizes for name in size.symbols())
        return self.found.stages[max(stages, default=0)]

    def _from_inputs(self, function: Function, known: dict[str, None]) -> list[Dim]:
        """The dims of inputs that are no new names."""
        checked = []
        for number, value in enumerate(function.inputs):
            for axis, dim in enumerate(value.tensor_type.shape):
                if isinstance(dim, SymbolicDim) and dim.name not in known:
                    known[dim.name] = None
                    self.found.names.append((dim.name, number, axis))
                else:
                    self.found.checks.append((number, axis, dim.poly))
                    checked.append(dim)
        return checked

    def _solve(self, known: dict[str, None], defined: Mapping[str, object]) -> None:
        """Find the symbols that no input has alone, and add them to those that are ``known``."""
        found = self.found.solved
        before = -1
        while len(found) > before:
            before = len(found)
            for number, axis, poly in self.found.checks:
                unknown = [name for name in poly.symbols() if name not in known]
                if len(unknown) != 1 or unknown[0] in defined:
                    continue
                (name,) = unknown
                factor = poly.coefficient(name)
                if factor is not None and factor.is_constant and factor.value:
                    rest = poly - factor * Poly.symbol(name)
                    found.append((name, number, axis, rest, factor.value))
                    known[name] = None

    def _bind(self, function: Function, plan: Plan, names: Mapping[str, str]) -> None:
        """Find what is bound behind each stage; ``names`` are the dims that ops define, by id."""
        ops = {op.id: op for op in function.ops} if plan.cuts else {}
        for step in plan.steps:
            if step.binds is None:
                continue
            stage = bisect_right(plan.cuts, step.number)
            op = ops[step.binds.op]
            name = names.get(op.id, "")
            made = Bound(
                self._of(op), op.attrs["what"], op.attrs["dim"].poly, op.attrs["negative"], name
            )
            self.found.stages[stage].binds.append(made)
            if name:
                self._late[name] = stage + 1

    def _check(
        self,
        function: Function,
        defined: Mapping[str, tuple[Op, Poly | None]],
        known: dict[str, None],
    ) -> None:
        """Find what ops state of sizes."""
        late = self._late
        for op, check in checks_of(function):
            symbol = plain_symbol(check)
            if symbol is not None and defined.get(symbol) == (op, check.left):
                stage = max((late.get(name, 0) for name in check.left.symbols()), default=0)
                self.found.stages[stage].definitions.append((symbol, check.left, self._of(op)))
                if symbol not in known and stage:
                    late[symbol] = stage
                known[symbol] = None
            else:
                guard = self._conditions(check.left, check.right).guard
                guard.checks.append((self._of(op), check))


def _require_known(op: Op, known: Mapping[str, None]) -> None:
    """Raises unless every dim that ``op`` names has a size.

    Raises:
        InputError: ML601, one has none.
    """
    named = named_dims(op)
    if known.keys() >= named:
        return
    own = {n for region in op.regions for n in region_definitions(region, known)}
    types = [r.type for r in op.results if isinstance(r.type, TensorType)]
    own -= {name for type in types for size in type.sizes for name in size.symbols()}
    for name in sorted(named - own):
        if name not in known:
            raise InputError(
                "ML601",
                f"the dim {name!r} of {op.name.removeprefix('mo.')} has no size: no input has it",
                at=op.loc,
                fix="name the dim in an input type, or bind it with rebind",
            )


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


__all__ = ["recorded_facts"]
