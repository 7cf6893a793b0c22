"""The dispatch of models, `maxlab.engine.dispatching`: which program a call takes."""

from __future__ import annotations

import numpy as np

from maxlab import engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType


def doubling() -> engine.Model:
    with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    return engine.InferenceSession(num_threads=1).load(graph)


def numbers(count: int) -> Tensor:
    return Tensor.from_numpy(np.arange(count, dtype=np.float32))


def test_sizes_that_change_from_call_to_call() -> None:
    model = doubling()
    tensors = [numbers(3), numbers(5), numbers(3), numbers(0)]
    for turn in (0, 1, 0, 2, 2, 0, 1, 1, 3, 2, 3):
        x = tensors[turn]
        assert (model.execute(x)[0].to_numpy() == 2 * x.to_numpy()).all()
    assert len(model.bound_shapes) == 3


def test_a_program_that_was_renewed_is_not_run_again() -> None:
    model = doubling()
    x = numbers(4)
    model.execute(x)
    model.execute(x)
    programs, shapes = model.runner.programs, (x.shape,)
    old = programs[shapes]
    programs.renew(shapes, old)
    old.free.clear()
    assert (model.execute(x)[0].to_numpy() == 2 * x.to_numpy()).all()
    assert programs[shapes] is not old
    assert (len(programs[shapes].free), len(old.free)) == (1, 0)


def test_a_model_that_is_unbound_is_bound_anew() -> None:
    model = doubling()
    x = numbers(4)
    model.execute(x)
    old = model.runner.programs
    model.unbind()
    model.execute(x)
    assert model.runner.programs is not old
    assert model.bound_shapes == [(x.shape,)]


def test_wrong_inputs_after_right_ones_are_found() -> None:
    model = doubling()
    x = numbers(4)
    model.execute(x)
    for wrong in (x.view(DType.int32, [4]), x.view(DType.float32, [2, 2])):
        try:
            model.execute(wrong)
        except ValueError:
            continue
        raise AssertionError(f"{wrong.dtype} {wrong.shape} was taken")
