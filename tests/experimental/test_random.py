"""Random tensors: seeds, moments, devices, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.driver import CPU
from maxlab.dtype import DType
from maxlab.errors import DTypeError, MaxlabError
from maxlab.experimental import random
from maxlab.experimental.tensor import Tensor, default_dtype, stats
from maxlab.graph import Graph, TensorType, ops

F32 = DType.float32


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Each test begins with the seed that a process begins with."""
    random.set_seed(0)
    yield
    random.set_seed(0)


def test_each_draw_is_another_and_a_seed_brings_them_back() -> None:
    def drawn() -> list[list[float]]:
        return [
            random.uniform((4,)).tolist(),
            random.uniform((4,)).tolist(),
            random.gaussian((4,)).tolist(),
            random.normal((4,)).tolist(),
        ]

    first = drawn()
    assert len({tuple(one) for one in first}) == 4
    assert drawn() != first
    random.set_seed(0)
    assert drawn() == first
    random.set_seed(1)
    assert drawn() != first


def test_the_time_of_reading_does_not_matter() -> None:
    """What a tensor holds is decided when it is made, not when it is computed."""
    a, b = random.uniform((3,)), random.uniform((3,))
    late, early = b.tolist(), a.tolist()
    random.set_seed(0)
    assert random.uniform((3,)).tolist() == early
    assert random.uniform((3,)).tolist() == late


def test_draws_are_compiled_once() -> None:
    random.uniform((5,), (2, 3)).realize  # noqa: B018 - reading it computes
    before = stats()
    for _ in range(5):
        random.uniform((5,), (2, 3)).realize  # noqa: B018 - as above
    assert (stats() - before).compiled == 0


@pytest.mark.parametrize("dtype", [DType.float32, DType.float64, DType.float16, DType.bfloat16])
def test_moments(dtype: DType) -> None:
    x = random.uniform((20_000,), range=(-3, 5), dtype=dtype)
    y = random.gaussian((20_000,), mean=3.0, std=0.5, dtype=dtype)
    for tensor, mean, std in ((x, 1.0, 8 / 12**0.5), (y, 3.0, 0.5)):
        assert tensor.dtype is dtype
        found = np.asarray(tensor.numpy(), np.float64)
        assert abs(found.mean() - mean) < 0.08
        assert abs(found.std() - std) < 0.05
    numbers = np.asarray(x.numpy(), np.float64)
    assert numbers.min() >= -3
    assert numbers.max() < 5


def test_a_gpu_draws_what_the_cpu_draws() -> None:
    """The simulated GPU, to the last bit for uniform numbers."""
    on_cpu = [random.uniform((33,)).numpy(), random.gaussian((33,), 1.0, 2.0).numpy()]
    random.set_seed(0)
    with driver.simulated():
        gpu = driver.Accelerator()
        made = [
            random.uniform((33,), dtype=F32, device=gpu),
            random.gaussian((33,), 1.0, 2.0, dtype=F32, device=gpu),
        ]
        assert all(one.device is gpu for one in made)
        on_gpu = [one.to(CPU()).numpy() for one in made]
    np.testing.assert_array_equal(on_cpu[0], on_gpu[0])
    np.testing.assert_allclose(on_cpu[1], on_gpu[1], rtol=1e-5)


def test_like() -> None:
    """A type or a tensor says what is made; bounds may be tensors."""
    like = TensorType(DType.float64, [2, 3])
    made = [
        random.uniform_like(like),
        random.uniform_like(Tensor.zeros((2, 3), dtype=DType.float64), (1, 2)),
        random.gaussian_like(like),
        random.normal_like(like, mean=Tensor.constant(100.0, dtype=DType.float64)),
    ]
    assert all(one.type == like for one in made)
    assert made[3].numpy().mean() > 90


def test_in_a_graph_it_is_the_op_of_the_graph() -> None:
    with Graph("g") as graph:
        ops.random.set_seed(3)
        made = random.uniform_like(TensorType(F32, [4]))
        graph.output(made)
    model = engine.InferenceSession().load(graph)
    assert model()[0].tolist() == model()[0].tolist()


def test_defaults() -> None:
    assert random.uniform().shape == []
    with default_dtype(DType.float64):
        assert random.normal((2,)).dtype is DType.float64


@pytest.mark.parametrize(
    "call",
    [
        lambda: random.uniform((2,), (1,)),  # type: ignore[arg-type]
        lambda: random.uniform((2,), (1, 2, 3)),  # type: ignore[arg-type]
        lambda: random.uniform((2,), (3, 1)),
        lambda: random.uniform((2,), (1, 1)),
        lambda: random.gaussian((2,), std=0),
        lambda: random.normal((2,), std=-1),
        lambda: random.uniform(("n",)),
    ],
)
def test_what_is_refused(call: Callable[[], Any]) -> None:
    """At once, with a ValueError at the user's line."""
    with pytest.raises(ValueError, match="random") as caught:
        call()
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.at is not None
    assert caught.value.at.file.endswith("test_random.py")


def test_types_that_are_not_drawn() -> None:
    with pytest.raises(DTypeError):
        random.uniform((2,), dtype=DType.int32)
    with pytest.raises(TypeError):
        random.uniform((2,), range=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        random.gaussian_like((2, 3))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        random.set_seed("one")  # type: ignore[arg-type]
