"""What passes did is read from the log of a second run: it is what the first one did, whole, and
can be taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from maxlab.compiler.options import Options
from maxlab.compiler.passes import applied, pipeline, recorded, rewrites_of, run
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.ir import Function, listen
from maxlab.ir.edit_json import from_json, to_json
from maxlab.ir.edit_log import Rewrite, apply
from maxlab.ir.printer import generic, pretty
from maxlab.ir.verifier import verify
from maxlab.opset import operations
from tests.compiler.interpret import Builder
from tests.compiler.programs import Generator
from tests.compiler.test_options import loaded

F32, F16 = DType.float32, DType.float16
GPU = DeviceRef.GPU()


def placed() -> Graph:
    """Parts of a weight, and a range, that a device wants."""
    with Graph("placed", input_types=[TensorType(F32, [2], GPU)]) as graph:
        c = graph.add_weight(Weight("c", F32, [3, 2], DeviceRef.CPU()))
        r = ops.range(0, 2, 1, 2, dtype=F32, device=DeviceRef.CPU())
        graph.output(graph.inputs[0].tensor + ops.transfer_to(c[1], GPU) + r.to(GPU))
    return graph


def sunk() -> Graph:
    """A loop and branches that read data from outside, and composites around them."""
    types = [TensorType(F32, [4]), TensorType(DType.bool, [], DeviceRef.CPU())]
    with Graph("sunk", input_types=types) as graph:
        x, yes = (v.tensor for v in graph.inputs)
        w = graph.add_weight(Weight("w", F32, [4], DeviceRef.CPU()))
        three = ops.constant(np.float32(3), F32, DeviceRef.CPU())
        (y,) = ops.cond(yes, [x.type], lambda: ops.softmax(x + w), lambda: x * three)
        (z,) = ops.while_loop([y], lambda v: ops.max(v, axis=0)[0] < three, lambda v: [v + w])
        graph.output(ops.softmax(z))
    return graph


def split() -> Graph:
    """A long product of halves."""
    types = [TensorType(F16, ["m", 2048]), TensorType(F16, [2048, 8])]
    with Graph("split", input_types=types) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(ops.matmul(x, y))
    return graph


GRAPHS: dict[str, Callable[[], Graph]] = {"placed": placed, "sunk": sunk, "split": split}
RULES = {
    "placed": {"make_there", "transfer_data"},
    "sunk": {"sink"},
    "split": {"split_k"},
}


def programs() -> dict[str, Callable[[], Function]]:
    """Functions on which passes do something."""
    made: dict[str, Callable[[], Function]] = {}
    for name, build in GRAPHS.items():
        made[name] = partial(_function_of, build)
    for seed in range(24):
        made[f"program {seed}"] = partial(_program, seed)
    return made


def _function_of(build: Callable[[], Graph]) -> Function:
    return build().function.clone()


def _program(seed: int) -> Function:
    return Generator(seed).make().function


def text(function: Function) -> str:
    """All that can be seen of ``function``."""
    return generic(function) + pretty(function)


@pytest.mark.parametrize("name", programs())
def test_a_log_has_all_that_a_pass_does(name: str) -> None:
    function = programs()[name]()  # nobody listens to this one
    rules: set[str] = set()
    for _, apply_pass in pipeline("output"):
        before, heard, copy = text(function), function.clone(), function.clone()
        count = applied(function, apply_pass)
        log = listen(heard)
        assert applied(heard, apply_pass) == count == len(log.rewrites())
        edits, after = log.edits(), text(function)
        assert text(heard) == after
        rules |= {r.rule for r in log.rewrites()}
        apply(copy, [from_json(json.loads(json.dumps(to_json(edit)))) for edit in edits])
        assert text(copy) == after
        log.undo_to(0)
        assert text(heard) == before
        verify(heard)
        assert log.rewrites() == []
    assert rules >= RULES.get(name, set())


@pytest.mark.parametrize("name", programs())
def test_records_read_what_a_second_run_does(name: str) -> None:
    function = programs()[name]()
    work, again, passes = function.clone(), function.clone(), pipeline("output")
    records = recorded(work, passes, function.clone)
    for record, (pass_name, apply_pass) in zip(records, passes, strict=True):
        assert record.name == pass_name
        assert record.before == operations(again)
        found = rewrites_of(again, apply_pass)
        assert record.after == operations(again)
        assert record.rewrites == found
        assert record.count == len(found)
        assert record.diff().count("\n") == len(found)
    assert text(again) == text(work)
    unread = function.clone()
    run(unread, passes)
    assert text(unread) == text(work)


def test_an_exception_in_a_pass_leaves_the_function_as_it_was() -> None:
    function = Generator(3).make().function
    before, log = text(function), listen(function)
    seen: list[str] = []

    def fails() -> None:
        with log.transaction():
            for name, apply_pass in pipeline("accum"):
                applied(function, apply_pass)
                seen.append(name)
                if name == "decompose":
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert seen[-1] == "decompose"
    assert text(function) == before
    verify(function)


def test_a_model_says_what_its_passes_did_after_its_graph_has_changed() -> None:
    b = Builder()
    x = b.input(F32, "n")
    function = b.output(b.op("mul", x, b.scalar(1)), b.op("exp", x))
    model = loaded(function, Options())
    node = function.ops[1]
    assert node.name == "mo.mul"
    node.result.replace_with(x)
    function.block.remove(node)
    assert model.passes["canonicalise"].rewrites == [Rewrite("times_one", node.id, ("a0",))]
    assert model.passes["canonicalise"].count == 1
