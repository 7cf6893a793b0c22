"""``compare``: the op table's NumPy references beside the compiled code, kernel by kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from maxlab import progress
from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.difference import Difference, difference
from maxlab.analysis.check.inside import run_inside
from maxlab.analysis.check.locate import Located, blamed, locate
from maxlab.analysis.check.places import Places, places_of
from maxlab.analysis.check.reference import Reference
from maxlab.analysis.check.result import Bad, Comparison, KernelCheck, NodeCheck, remember
from maxlab.analysis.check.rounding import Rounded, exact
from maxlab.analysis.check.steps import StepFacts, Written, facts_of
from maxlab.analysis.target import model_behind
from maxlab.compiler.effects import has_effect
from maxlab.engine.model import Model
from maxlab.engine.profile import Profile
from maxlab.engine.stepping import Walk
from maxlab.engine.times import plural
from maxlab.errors import CancelledError, ExecutionError, InputError, MaxlabError
from maxlab.habits import fitting
from maxlab.ir import ChainType, Op, Value
from maxlab.opset import evaluate, is_output, is_weight
from maxlab.opset.control import GAVE_UP
from maxlab.opset.custom import has_reference, label_of

Array = np.ndarray[Any, Any]
BEHIND = "it is computed from what is wrong"
"""The text for ops that are off because another op of their kernel is."""
UNKNOWN = "it has no reference: what its kernel wrote is taken as it is"
"""The text for custom ops that have no reference in NumPy."""


@fitting("ML975", "maxlab.compare(model, array)")
def compare(target: Model | Profile, *inputs: Any, all: bool = False) -> Comparison:
    """Whether ``target`` computes on ``inputs`` what its graph says, and where it does not.

    The model runs step by step. After each kernel the memory it has read is given to the op table's
    references, and what they compute is compared with what the kernel has written: an error that
    came in before is not this kernel's. How far a result may be off follows from the rounding of
    the very values at hand; see ``rounding``. When a fused kernel is wrong, its own text is run
    once more with lines that write its scalars down, and the first wrong one names the op.

    Args:
        target: The model, of the CPU, a GPU or the simulator, or a profile of it. On a simulator
            that checks, races and strays of its kernels are found too.
        *inputs: As for ``Model.execute``; those of its newest profile when left out.
        all: Go on behind the first wrong kernel.

    Raises:
        InputError: Inputs that the model does not take; ML662, none are given and none are known.
        ArgumentTypeError: ML674, ``target`` is no model.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("soft", input_types=[TensorType(DType.float32, ["n", 64])]) as graph:
        ...     graph.output(ops.softmax(graph.inputs[0].tensor * 2))
        >>> model = engine.InferenceSession().load(graph)
        >>> found = compare(model, np.ones((3, 64), np.float32))
        >>> found.ok, [node.id for node in found.nodes]
        (True, ['n1', 'n2'])
    """
    model = model_behind(target, "compare")
    with progress.working(f"check {model.name}"):
        found = _Comparer(model, known_inputs(model, inputs), all).run()
    remember(found)
    return found


def known_inputs(model: Model, inputs: Sequence[Any]) -> Sequence[Any]:
    """``inputs``, or those of the newest profile of ``model`` when there are none.

    Raises:
        InputError: ML662, the model takes inputs and was never profiled.
    """
    if inputs or not model.compiled.source.inputs:
        return inputs
    if model.last_profile is None:
        raise InputError(
            "ML662",
            f"{model.name!r} takes {plural(len(model.compiled.source.inputs), 'input')}, got none, "
            "and it has no profile whose inputs could be used",
            fix="pass inputs, or call model.profile(...) once",
        )
    return list(model.last_profile.inputs)


class _Comparer:
    """One comparison."""

    def __init__(self, model: Model, inputs: Sequence[Any], all: bool) -> None:
        self._model = model
        self._all = all
        self._walk = Walk(model, inputs)
        compiled = model.compiled
        self._facts = facts_of(compiled)
        self._weights = self._walk.memory.weights()
        self._reference = Reference(compiled.function, self._walk.env, self._weights)
        self._found = Comparison(model)
        self._user = {op.id: op for op in compiled.source.ops}
        self._given = [x.copied() for x in self._walk.inputs]  # which the run may change
        self._before: dict[Value, Array] = {}  # what buffers that a step changes held before
        self._last: dict[Written, Difference] = {}  # of what the last step wrote
        self._unknown = 0  # kernels without a reference
        self._unseen: list[str] = []  # loops and branches that were not checked, and why
        # What kernels without a reference wrote, by the ids of ops and of values.
        self._taken: dict[str, dict[str, Array]] = {}
        self._packed: dict[int, Array] = {}  # what was packed, by the slot that it was packed into

    def run(self) -> Comparison:
        """The result."""
        steps = self._walk_steps()
        stopped = False
        for facts, error in steps:
            check, bad = self._kernel(facts, error)
            if facts.step.kind == "pack" and error is None:
                continue
            self._found.kernels.append(check)
            self._found.nodes.extend(self._nodes(facts, check, bad))
            if bad is not None:
                if self._found.bad_kernel is None:
                    self._found.bad_kernel = bad
                if not self._all or error is not None:
                    stopped = True
                    break
        if not stopped:
            self._outputs()
        self._found.nodes = _joined(self._found.nodes)
        self._found.message = self._message(stopped)
        return self._found

    def _walk_steps(self) -> Iterator[tuple[StepFacts, MaxlabError | None]]:
        """Each step when it has run; the last one with the error that it raised."""
        steps = iter(self._walk)
        for facts in self._facts:
            progress.step("checking", facts.step.number, len(self._facts), facts.step.name)
            self._before = {v: np.array(self._walk.memory.value(s, v)) for s, v in facts.changes}
            try:
                step = next(steps)
            except CancelledError:
                raise
            except MaxlabError as error:
                if error.code == "ML652":
                    raise  # an index of the user's is out of range
                yield facts, error
                return
            assert step is facts.step
            yield facts, None

    # ---------------------------------------------------------------- one kernel
    def _kernel(
        self, facts: StepFacts, error: MaxlabError | None
    ) -> tuple[KernelCheck, Bad | None]:
        step, walk = facts.step, self._walk
        if error is not None:
            alone = self._alone(facts)
            located = blamed(alone.text if alone else "", self._places(facts), error)
            bad = Bad(facts, alone, located, self._inputs(facts), [])
            made = KernelCheck(step.id, step.name, step.nodes, False, None, str(error.what))
            return made, bad
        if step.kind == "pack":
            source = step.pointers[1]
            self._packed[step.pointers[0]] = np.array(
                walk.memory.value(source, facts.reads[source])
            )
            return KernelCheck(step.id, step.name, step.nodes, True, None), None
        if not all(has_reference(op) for op in facts.group.ops):
            self._last = {}
            self._unknown += 1
            places = [*facts.changes, *((w.slot, w.value) for w in facts.writes)]
            if facts.group.main is not None:
                arrays = {v.id: np.array(walk.memory.value(s, v)) for s, v in places}
                self._taken[facts.group.main.id] = arrays
            return KernelCheck(step.id, step.name, step.nodes, True, None), None
        if facts.changes:
            return self._store(facts)
        known = self._known(facts)
        targets = [w.made for w in facts.writes]
        main = facts.group.main
        if main is not None and main.regions:
            unseen = self._unchecked(facts, main, known)
            if unseen:
                return unseen, None
        wanted = self._reference.evaluate(targets, known)
        worst: Difference | None = None
        self._last = {w: self._judged(w, wanted[w.made]) for w in facts.writes}
        for made_of in self._last.values():
            if worst is None or (made_of.excess, made_of.max_ulp) > (worst.excess, worst.max_ulp):
                worst = made_of
        ok = worst is None or worst.ok
        check = KernelCheck(step.id, step.name, step.nodes, ok, worst)
        if ok:
            return check, None
        return check, self._located(facts, known, wanted)

    def _unchecked(
        self, facts: StepFacts, op: Op, known: Mapping[Value, Rounded]
    ) -> KernelCheck | None:
        """The check of an op with regions that the reference cannot follow; None if it can."""
        why = ""
        if has_effect(op):
            why = "it changes buffers or prints"
        else:
            try:
                self._reference.evaluate([w.made for w in facts.writes], known)
            except ExecutionError as error:
                if error.code != GAVE_UP:
                    raise
                why = error.what
        if not why:
            return None
        step = facts.step
        self._last = {}
        self._unseen.append(f"{label_of(op)} {op.origins[0]} was not checked by itself: {why}")
        if not has_effect(op):  # the reference computes those in their order
            values = {w.value.id: self._walk.memory.value(w.slot, w.value) for w in facts.writes}
            self._taken[op.id] = {id: np.array(array) for id, array in values.items()}
        return KernelCheck(step.id, step.name, step.nodes, True, None)

    def _store(self, facts: StepFacts) -> tuple[KernelCheck, Bad | None]:
        """The check of a step that changes buffers in place."""
        step, op = facts.step, facts.group.main
        assert op is not None
        known = self._known(facts)
        made = self._reference.evaluate([v for v in op.operands if v not in self._before], known)
        made |= {buffer: exact(before) for buffer, before in self._before.items()}
        wanted = self._reference.stored(op, [made[v] for v in op.operands])
        writes = [*(Written(slot, buffer) for slot, buffer in facts.changes), *facts.writes]
        self._last = {w: self._judged(w, wanted[w.value]) for w in writes}
        found = max(self._last.values(), key=lambda d: (not d.ok, d.excess, d.max_ulp))
        check = KernelCheck(step.id, step.name, step.nodes, found.ok, found)
        if found.ok:
            return check, None
        located = Located(op, found.sentence(), found)
        return check, Bad(facts, None, located, self._inputs(facts), [])

    def _known(self, facts: StepFacts) -> dict[Value, Rounded]:
        """The values that the step has read."""
        known = {}
        for slot, value in facts.reads.items():
            array = self._packed.get(slot)
            known[value] = exact(self._walk.memory.value(slot, value) if array is None else array)
        return known

    def _judged(self, write: Written, want: Rounded) -> Difference:
        got = self._walk.memory.value(write.slot, write.value)
        if write.source is not None:
            first = write.first.evaluate(self._walk.env)
            part = [slice(None)] * got.ndim
            part[write.axis] = slice(first, first + want.base.shape[write.axis])
            got = got[tuple(part)]
        return difference(got, want, write.value.tensor_type.dtype)

    # ---------------------------------------------------------------- the wrong one
    def _alone(self, facts: StepFacts) -> Alone | None:
        return Alone.of(self._walk, facts.step, {w.slot for w in facts.writes})

    def _places(self, facts: StepFacts) -> Places | None:
        model, step = self._model, facts.step
        variant = model.chosen.get(step.number, 0)
        written = facts.writes[0] if facts.writes else None
        return places_of(model.compiled.schedule, facts.group, step, variant, written)

    def _located(
        self, facts: StepFacts, known: Mapping[Value, Rounded], wanted: dict[Value, Rounded]
    ) -> Bad:
        step = facts.step
        main = facts.group.main
        if main is not None and main.regions:
            worst = next(found for found in self._last.values() if not found.ok)
            located = Located(main, worst.sentence(), worst)
            return Bad(facts, None, located, self._inputs(facts), [])
        alone, places = self._alone(facts), self._places(facts)
        located = Located(None, "it is no generated text whose values could be read")
        if alone is not None and places is not None:
            more = {s.value for s in places.scalars.values()}
            wanted = self._reference.evaluate([*(w.made for w in facts.writes), *more], known)
            located = locate(alone, places, wanted, self._walk.env)
            if located.op is None:
                located = self._by_outputs(facts, alone, wanted, located)
        inputs = self._inputs(facts)
        if located.op is not None:
            operands = {v.id: wanted[v].base for v in located.op.operands if v in wanted}
            inputs = operands or inputs
        arrays = [
            (step.pointers.index(w.slot), self._stored(w, wanted[w.value].base))
            for w in facts.writes
            if w.source is None and w.slot in step.pointers
        ]
        return Bad(facts, alone, located, inputs, arrays)

    def _stored(self, write: Written, array: Array) -> Array:
        """``array`` in the order in which the slot of ``write`` holds it."""
        order = self._model.compiled.schedule.layouts.get(write.value)
        if order is None or self._model.compiled.plan.slots[write.slot].kind == "output":
            return array
        return np.ascontiguousarray(array.transpose(order))

    def _by_outputs(
        self, facts: StepFacts, alone: Alone, wanted: Mapping[Value, Rounded], located: Located
    ) -> Located:
        """All scalars are right, or none could be read: what is stored, or what no line names."""
        if self._is_right_alone(facts, alone, wanted):
            located.message = (
                "alone, on the same memory, the kernel is right: what it computes depends on the "
                "order of its threads"
            )
            return located
        for write in facts.writes:
            off = self._judged(write, wanted[write.made])
            if not off.ok and write.made in located.good:
                word = f"{located.message}, and it is stored wrong: {off.sentence()}"
                return Located(write.value.op, word, off)
        computed = [op for op in facts.group.ops if op.result not in located.good]
        if len({op.origins for op in computed}) == 1:
            return Located(computed[0], located.message)
        located.among = tuple(dict.fromkeys(id for op in computed for id in op.origins))
        return located

    def _is_right_alone(
        self, facts: StepFacts, alone: Alone, wanted: Mapping[Value, Rounded]
    ) -> bool:
        try:
            made = alone.run()
        except MaxlabError:
            return False
        for write in facts.writes:
            data = made[facts.step.pointers.index(write.slot)]
            value = write.value
            if data is None or write.source is not None:
                return False
            want = self._stored(write, wanted[value].base)
            got = data.view(want.dtype).reshape(want.shape)
            samples = tuple(self._stored(write, s) for s in wanted[value].samples)
            if not difference(got, Rounded(want, samples), value.tensor_type.dtype).ok:
                return False
        return True

    def _inputs(self, facts: StepFacts) -> dict[str, Array]:
        return {
            value.id: np.array(
                self._packed[slot] if slot in self._packed else self._walk.memory.value(slot, value)
            )
            for slot, value in facts.reads.items()
        }

    # ---------------------------------------------------------------- in the user's words
    def _nodes(self, facts: StepFacts, check: KernelCheck, bad: Bad | None) -> list[NodeCheck]:
        own: dict[str, Difference] = {}
        for write, made in self._last.items() if not check.error else ():
            if write.value.op is not None:
                own.update(dict.fromkeys(write.value.op.origins, made))
        op = bad.located.op if bad is not None else None
        named: tuple[str, ...] = ()
        if bad is not None:
            named = op.origins if op is not None else bad.located.among or check.nodes
        good = bad.located.good if bad is not None else []
        seen = {id for v in good if v.op is not None for id in v.op.origins}
        found = []
        unknown = {i for o in facts.group.ops if not has_reference(o) for i in o.origins}
        for id in check.nodes:
            result = own.get(id, check.difference)
            by: Literal["value", "kernel"] = "value" if id in own else "kernel"
            message = ""
            if id in unknown:
                message = UNKNOWN
            if bad is not None and id in named:
                by = "value" if op is not None else by
                result = bad.located.difference or result
                message = check.error or bad.located.message
            elif bad is not None and id in seen and not (id in own and not own[id].ok):
                by, result = "value", own.get(id)  # it was read out of the kernel, and is right
            elif bad is not None and not (id in own and own[id].ok):
                message = BEHIND
            user = self._user.get(id)
            found.append(
                NodeCheck(
                    id,
                    label_of(user) if user is not None else "",
                    check.id,
                    not (bad is not None and id in named),
                    by,
                    result,
                    message,
                    user.loc if user is not None else None,
                )
            )
        return sorted(found, key=lambda n: n.ok)

    def _message(self, stopped: bool) -> str:
        first = self._found.first
        count = len(self._found.kernels) - self._unknown
        if first is None:
            if not all(d.ok for d in self._found.passes):
                return (
                    f"{_plural(count, 'kernel')} computed what they should, and the passes of the "
                    "compiler changed what the graph means"
                )
            if not self._found.ok:
                return (
                    f"{_plural(count, 'kernel')} computed what they should, and an output is "
                    "further off than their rounding explains"
                )
            worst = max((d.excess for k in self._found.kernels if (d := k.difference)), default=0.0)
            verb = "agrees" if count == 1 else "agree"
            agreed = (
                f"{_plural(count, 'kernel')} {verb} with the references, to {worst:.0%} of what "
                "rounding may do"
            )
            if self._unknown:
                agreed += f"; {_plural(self._unknown, 'custom kernel')} without one not checked"
            return "; ".join([agreed, *self._unseen])
        bad = self._found.bad_kernel
        assert bad is not None
        where = f" at {first.at}" if first.at else ""
        wrong = [n for n in self._found.nodes if not n.ok and n.kernel == first.kernel]
        if bad.located.op is None and len(wrong) > 1:
            names = ", ".join(n.id for n in wrong)
            text = f"the kernel {first.kernel} is wrong, in one of {names}: {first.message}"
        else:
            text = f"{first.op} {first.id}{where} in {first.kernel} is wrong: {first.message}"
        return text + (", and what comes behind it was not looked at" if stopped else "")

    # ---------------------------------------------------------------- end to end
    def _outputs(self) -> None:
        compiled, walk = self._model.compiled, self._walk
        output, written = compiled.function.output, compiled.source.output
        assert output is not None
        assert written is not None
        given = self._given
        known = {v: exact(x) for v, x in zip(compiled.function.inputs, given, strict=True)}
        taken = {id: x for arrays in self._taken.values() for id, x in arrays.items()}
        inputs = dict(zip(compiled.source.inputs, given, strict=True))
        try:
            if any(has_effect(op) for op in compiled.function.ops):
                values = self._reference.evaluate_in_order(known, self._taken)
                meant = values
            else:
                results = [v for op in compiled.function.ops for v in op.results]
                known |= {v: exact(taken[v.id]) for v in results if v.id in taken}
                values = self._reference.evaluate(list(output.operands), known)
                computed = self._computed_at_load()
                meant = values
                if computed:
                    meant = self._reference.evaluate(list(output.operands), known | computed)
        except ExecutionError as error:
            if error.code != GAVE_UP:
                raise
            return  # a loop with effects, of more turns than the reference does
        plain = _plain(compiled.source.ops, inputs, self._taken, self._weights, walk.env)
        for value, source, tensor in zip(
            output.operands, written.operands, walk.outputs, strict=True
        ):
            dtype = value.tensor_type.dtype
            self._found.outputs.append(difference(tensor.copied(), values[value], dtype))
            if source in plain:
                self._found.passes.append(difference(plain[source], meant[value], dtype))

    def _computed_at_load(self) -> dict[Value, Rounded]:
        """The references' values of the weights that were computed when the model was loaded:
        kernels have rounded the loaded ones.
        """
        compiled = self._model.compiled
        ahead = compiled.ahead
        if ahead is None or ahead.function.output is None:
            return {}
        made = list(ahead.function.output.operands)
        found = Reference(ahead.function, {}, self._weights).evaluate(made, {})
        by_name = dict(zip(ahead.names, (found[value] for value in made), strict=True))
        weights = [op for op in compiled.function.ops if is_weight(op)]
        return {
            op.result: by_name[op.attrs["name"]] for op in weights if op.attrs["name"] in by_name
        }


def _plain(
    ops: Sequence[Op],
    inputs: Mapping[Value, Array],
    taken: Mapping[str, Mapping[str, Array]],
    weights: Mapping[str, Array],
    env: Mapping[str, int],
) -> dict[Value, Array]:
    """The references' results for ``ops``, without their rounding; ``taken`` has, by its id, what
    an op without a reference wrote, by the ids of the values.
    """
    known = {v: np.array(x) for v, x in inputs.items()}  # stores change them
    for op in ops:
        if is_output(op):
            continue
        if is_weight(op):
            shape = tuple(d.evaluate(env) for d in op.result.tensor_type.shape)
            if op.attrs["name"] in weights:
                known[op.result] = weights[op.attrs["name"]].reshape(shape)
            continue
        operands = [v for v in op.operands if not isinstance(v.type, ChainType)]
        results = [v for v in op.results if not isinstance(v.type, ChainType)]
        if any(v not in known for v in operands):
            continue  # it reads a weight that no kernel does, so no output needs it
        if not has_reference(op) or (op.regions and op.id in taken):
            arrays = taken.get(op.id, {})
            known.update({v: arrays[v.id] for v in (*operands, *results) if v.id in arrays})
            continue
        given = [known[v] for v in operands]
        made = run_inside(op, given, env, weights) if op.regions else evaluate(op, given, env)
        known.update(zip(results, made, strict=True))
    return known


def _joined(nodes: list[NodeCheck]) -> list[NodeCheck]:
    """One check for each op: the wrong one, or the one with its own value, of those that several
    kernels compute parts of."""
    found: dict[str, NodeCheck] = {}
    for node in nodes:
        known = found.get(node.id)
        if known is None or (known.ok, known.by == "kernel") > (node.ok, node.by == "kernel"):
            found[node.id] = node
    return list(found.values())


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


__all__ = ["Comparison", "KernelCheck", "NodeCheck", "compare", "known_inputs"]
