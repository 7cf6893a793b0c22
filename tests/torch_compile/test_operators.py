"""``graph_op`` and ``CustomOpLibrary``: graphs and kernels of maxlab as operations of torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("torch", reason="torch not installed; scripts/test --oracle installs it")

import torch  # noqa: E402 - where it is installed
from torch.library import CustomOpDef  # noqa: E402

import maxlab.torch  # noqa: E402
from maxlab.driver import memory_stats  # noqa: E402
from maxlab.dtype import DType  # noqa: E402
from maxlab.engine import InferenceSession, Model  # noqa: E402
from maxlab.errors import ArgumentError, ArgumentTypeError, InputError  # noqa: E402
from maxlab.graph import DeviceRef, KernelLibrary, TensorType, ops  # noqa: E402

KERNELS = """
// @op scale(x: T[*shape]) -> (y: T[*shape])
// @types T: float32 | float64
// @both
store(y, i, 3 * load(x, i));

// @op grown(inout x: float32[n])
// @both
store(x, i, load(x, i) + 1);

// @op both(x: float32[n], y: float32[n]) -> (s: float32[n], d: float32[n])
// @both
store(s, i, load(x, i) + load(y, i)); store(d, i, load(x, i) - load(y, i));
"""


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that sessions have compiled during the test."""
    found: list[Any] = []
    plain = InferenceSession.load

    def noted(self: Any, graph: Any, **options: Any) -> Any:
        found.append(graph)
        return plain(self, graph, **options)

    monkeypatch.setattr(InferenceSession, "load", noted)
    return found


@maxlab.torch.graph_op
def max_grayscale(pic: Any) -> Any:
    """The example of the reference."""
    scaled = pic.cast(DType.float32) * np.array([0.21, 0.71, 0.07])
    grayscaled = ops.sum(scaled, axis=-1).cast(pic.dtype)
    return ops.squeeze(grayscaled, axis=-1)


def grayscale(pic: torch.Tensor) -> torch.Tensor:
    output = pic.new_empty(pic.shape[:-1])
    max_grayscale(output, pic)
    return output


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "inductor", "maxlab"])
def test_the_example_of_the_reference(backend: str | None) -> None:
    assert isinstance(max_grayscale, CustomOpDef)
    image = (torch.rand(64, 64, 3) * 255).to(torch.uint8)
    wanted = (image.float() * torch.tensor([0.21, 0.71, 0.07])).sum(-1).to(torch.uint8)
    function: Any = grayscale if backend is None else torch.compile(grayscale, backend=backend)
    made = function(image)
    assert made.shape == (64, 64)
    assert (made.int() - wanted.int()).abs().max() <= 1


def test_torch_knows_what_it_changes() -> None:
    image = (torch.rand(4, 4, 3) * 255).to(torch.uint8)
    torch.library.opcheck(max_grayscale, (image.new_empty(4, 4), image))


def test_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    plain = Model.execute_into

    def noted(self: Model, into: Any, *args: Any) -> None:
        seen.append(([x.address for x in into], [x.address for x in args]))
        before = memory_stats().blocks
        plain(self, into, *args)
        assert memory_stats().blocks == before

    monkeypatch.setattr(Model, "execute_into", noted)

    @maxlab.torch.graph_op(num_outputs=2)
    def sum_and_product(x: Any, y: Any) -> Any:
        return x + y, x @ y

    x, y = torch.rand(32, 32), torch.rand(32, 32)
    into = torch.empty(32, 32), torch.empty(32, 32)
    for _ in range(2):
        sum_and_product(*into, x, y)
    assert seen[-1] == ([t.data_ptr() for t in into], [x.data_ptr(), y.data_ptr()])
    torch.testing.assert_close(into, (x + y, x @ y))


def test_an_output_may_be_an_input() -> None:
    @maxlab.torch.graph_op
    def turned(x: Any) -> Any:
        return ops.transpose(x, 0, 1) + x

    x = torch.rand(5, 5)
    wanted = x.t() + x
    turned(x, x)
    torch.testing.assert_close(x, wanted)


def test_one_graph_for_each_shape_or_one_for_all(loads: list[Any]) -> None:
    @maxlab.torch.graph_op
    def fixed(x: Any) -> Any:
        return x * 2

    rows = TensorType(DType.float32, ["rows", 3], DeviceRef.CPU())

    @maxlab.torch.graph_op(input_types=[rows], output_types=[rows])
    def free(x: Any) -> Any:
        return x * 2

    def run(op: Any, x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        op(result, x)
        return result

    for op, expected in ((fixed, 3), (free, 1)):
        loads.clear()
        for count in (2, 5, 7, 2):
            x = torch.rand(count, 3)
            torch.testing.assert_close(run(op, x), x * 2)
        assert len(loads) == expected
    loads.clear()
    compiled = torch.compile(run, dynamic=True, backend="aot_eager")
    for count in (2, 5, 7):
        x = torch.rand(count, 3)
        torch.testing.assert_close(compiled(free, x), x * 2)
    assert not loads


def test_options() -> None:
    @maxlab.torch.graph_op(name="other_name", num_outputs=3)
    def three(x: Any, y: Any) -> Any:
        return [x, y, x * y]

    assert three._qualname == "maxlab::other_name"
    x, y = torch.rand(4), torch.rand(4)
    into = [torch.empty(4) for _ in range(3)]
    three(*into, x, y)
    torch.testing.assert_close(into, [x, y, x * y])
    library = KernelLibrary()
    library.add_source(KERNELS)

    @maxlab.torch.graph_op(kernel_library=library)
    def with_kernel(x: Any) -> Any:
        (made,) = ops.custom("scale", DeviceRef.CPU(), [x], [x.type])
        return made.tensor + 1

    with_kernel(into[0], x)
    torch.testing.assert_close(into[0], x * 3 + 1)


def test_two_functions_of_one_name_are_two_operations() -> None:
    def make(factor: float) -> Any:
        def factored(x: Any) -> Any:
            return x * factor

        factored.__qualname__ = f"factored{factor}"
        return maxlab.torch.graph_op(factored)

    twice, thrice = make(2.0), make(3.0)
    x, result = torch.rand(4), torch.empty(4)
    twice(result, x)
    torch.testing.assert_close(result, x * 2)
    thrice(result, x)
    torch.testing.assert_close(result, x * 3)
    again = make(2.0)  # as by running its cell again
    assert again._qualname == twice._qualname
    again(result, x)
    torch.testing.assert_close(result, x * 2)


@pytest.mark.parametrize("as_path", [True, False], ids=["file", "library"])
def test_a_library_of_kernels(as_path: bool, tmp_path: Path) -> None:
    if as_path:
        given: Any = tmp_path / "kernels.c"
        given.write_text(KERNELS)
    else:
        given = KernelLibrary()
        given.add_source(KERNELS)
    library = maxlab.torch.CustomOpLibrary(given)
    assert {"scale", "both"} <= set(dir(library))
    assert library.scale is library.scale
    for dtype in (torch.float32, torch.float64):
        for shape in ((4,), (2, 3)):
            x = torch.rand(shape, dtype=dtype)
            result = torch.empty_like(x)
            library.scale(result, x)
            torch.testing.assert_close(result, x * 3)
    x, y = torch.rand(5), torch.rand(5)

    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        total, difference = torch.empty_like(x), torch.empty_like(x)
        library.both(total, difference, x, y)
        return total * difference

    torch.testing.assert_close(torch.compile(model, backend="aot_eager")(x, y), (x + y) * (x - y))
    with pytest.raises(AttributeError, match="ML760"):
        _ = library.scaled
    with pytest.raises(ArgumentError, match="grown changes its operands in place"):
        _ = library.grown


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "not contiguous": (lambda: (torch.empty(3, 2), torch.rand(2, 3).t()), "input 0 .* contiguous"),
    "strided result": (lambda: (torch.empty(2, 3).t(), torch.rand(3, 2)), "output 0 .* contiguous"),
    "another shape": (lambda: (torch.empty(4), torch.rand(3)), r"\(3,\), and the memory .* \(4,\)"),
    "another dtype": (lambda: (torch.empty(3).half(), torch.rand(3)), "float32 .* float16"),
    "complex": (lambda: (torch.empty(3), torch.rand(3) + 1j), "input 0 .*complex64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tensors_that_do_not_fit(case: str) -> None:
    @maxlab.torch.graph_op
    def doubled(x: Any) -> Any:
        return x * 2

    make, words = REFUSED[case]
    with pytest.raises(InputError, match=words) as caught:
        doubled(*make())
    assert caught.value.code == "ML889"
    assert isinstance(caught.value, ValueError)


def test_functions_that_are_none() -> None:
    with pytest.raises(ArgumentTypeError, match="ML684"):
        maxlab.torch.graph_op(3)
    with pytest.raises(ArgumentError, match="variable number"):
        maxlab.torch.graph_op(lambda *x: x)
    with pytest.raises(ArgumentError, match="num_outputs is 2"):
        maxlab.torch.graph_op(lambda x: x, output_types=[], num_outputs=2)

    @maxlab.torch.graph_op
    def two(x: Any) -> Any:
        return x, x

    with pytest.raises(ArgumentError, match="num_outputs=2"):
        two(torch.empty(3), torch.rand(3))
