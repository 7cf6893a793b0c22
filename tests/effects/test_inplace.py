"""Custom ops that change buffers in place: `ops.inplace_custom`, in C and on the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maxlab
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, KernelLibrary, TensorType, ops
from maxlab.ir.parser import parse_function
from maxlab.ir.printer import generic
from maxlab.opset.custom import REFERENCES
from tests.cpu_and_gpu import at, buffer, numpy, session

Array = np.ndarray[Any, Any]
CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
KERNELS = """
// @op increment(inout x: T[*shape])
// @types T: float32 | float16 | int64
// @params BY: int = 1
// @both
store(x, i, load(x, i) + BY);

// @op decrement(inout x: float32[*shape])
// @both
x[i] -= 1;

// Buffers behind a tensor, one of them only read, and two results besides.
// @op exchange(scale: float32[n], a: float32[n], inout b: T[n], inout c: T[n])
//   -> (old: T[n], sum: float32[n])
// @types T: float32 | int32
// @items n
// @both
const T was = load(b, i);
store(old, i, was);
store(b, i, load(c, i));
store(c, i, was);
store(sum, i, load(a, i) * load(scale, i));

// @op running(inout state: float32[1], x: float32[n]) -> (y: float32[n])
// @both serial
state[0] += x[i];
y[i] = state[0];

// @op look(a: float32[n]) -> (y: float32[n])
// @both
y[i] = a[i];

// @op at(inout x: float32[n], where: int64[])
// @items 1
// @both
if (where[0] < 0 || where[0] >= n) continue;
x[where[0]] = -1;
"""


def floats(*shape: int) -> Array:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def tensor(place: DeviceRef, *dims: Any, dtype: DType = DType.float32) -> TensorType:
    return TensorType(dtype, dims, place)


def call(name: str, values: list[Any], out_types: Any = None, **parameters: Any) -> list[Any]:
    return ops.inplace_custom(name, values[0].device, values, out_types, parameters)


@pytest.mark.parametrize("kind", ["float32", "float16", "int64"])
def test_the_callers_memory_changes(place: DeviceRef, kind: str) -> None:
    dtype = DType[kind]
    types = [buffer(place, "n", 3, dtype=dtype)]
    with Graph("count", input_types=types, custom_extensions=[KERNELS]) as graph:
        assert call("increment", [graph.inputs[0].buffer], BY=4) == []
        graph.output()
    model = session(place).load(graph)
    for n in (2, 0, 5):
        given = at(floats(n, 3).astype(kind), place)
        for run in range(1, 3):
            assert model(given) == []
            np.testing.assert_array_equal(numpy(given), floats(n, 3) + 4 * run)


@pytest.mark.parametrize("fuse", [True, False])
def test_order_with_loads_stores_and_prints(
    place: DeviceRef, fuse: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with Graph("order", input_types=[buffer(place, 4)], custom_extensions=[KERNELS]) as graph:
        b = graph.inputs[0].buffer
        first = b[...]
        call("increment", [b])
        ops.print(b[0], "one")
        second: Any = b[...]
        call("increment", [b])  # equal ops are two ops
        call("increment", [b])
        ops.print(b[0], "three")
        b[...] = second * 10
        call("decrement", [b])
        graph.output(first, second, b[...])
    given = at(floats(4), place)
    made = session(place).load(graph, options=Options(fuse=fuse))(given)
    wanted = [floats(4), floats(4) + 1, (floats(4) + 1) * 10 - 1]
    for got, want in zip([*made, given], [*wanted, wanted[2]], strict=True):
        np.testing.assert_array_equal(numpy(got), want)
    printed = [line.split(" = ")[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["one", "three"]


@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_several_buffers_anywhere_and_results(place: DeviceRef, kind: str) -> None:
    dtype = DType[kind]
    types: list[Any] = [tensor(place, "n"), buffer(place, "n")]
    types += [buffer(place, "n", dtype=dtype)] * 2
    with Graph("exchange", input_types=types, custom_extensions=[KERNELS]) as graph:
        inputs: Any = graph.inputs
        scale, a, b, c = inputs
        a.buffer[0] = 100.0
        outs = [tensor(place, "n", dtype=dtype), tensor(place, "n")]
        old, total = call("exchange", [scale.tensor + 1, a.buffer, b.buffer, c.buffer], outs)
        graph.output(old, total.tensor * 2, c.buffer)
    arrays = [floats(5), floats(5), floats(5).astype(kind) + 10, floats(5).astype(kind) - 10]
    given = [at(x, place) for x in arrays]
    model = session(place).load(graph)
    was, doubled, last = model(*given)
    first = arrays[1].copy()
    first[0] = 100
    np.testing.assert_array_equal(numpy(was), arrays[2])
    np.testing.assert_array_equal(numpy(doubled), (arrays[0] + 1) * first * 2)
    wanted = [arrays[0], first, arrays[3], arrays[2]]
    for got, want in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(numpy(got), want)
    np.testing.assert_array_equal(numpy(last), arrays[2])


def test_a_created_buffer_and_a_state(place: DeviceRef) -> None:
    types = [buffer(place, 1), tensor(place, "n")]
    with Graph("state", input_types=types, custom_extensions=[KERNELS]) as graph:
        state, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        own = ops.buffer_create(buffer(place, 1))
        (y,) = call("running", [state, x], [x.type])
        (z,) = call("running", [own, y.tensor], [x.type])
        graph.output(y, z, own)
    model = session(place).load(graph)
    kept = at(np.zeros(1, np.float32), place)
    total = np.float32(0)
    for _ in range(2):
        found = [numpy(v) for v in model(kept, at(floats(4), place))]
        sums = floats(4).cumsum() + total
        total = sums[-1]
        for got, wanted in zip(found, [sums, sums.cumsum(), [sums.sum()]], strict=True):
            np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(numpy(kept), [total])


def test_a_buffer_that_is_only_read_is_read_in_order(place: DeviceRef) -> None:
    with Graph("read", input_types=[buffer(place, 3)], custom_extensions=[KERNELS]) as graph:
        b = graph.inputs[0].buffer
        made = [*call("look", [b], [tensor(place, 3)])]
        call("increment", [b])
        made += call("look", [b], [tensor(place, 3)])
        b[...] = 0.0
        graph.output(*made)
    before, after = session(place).load(graph)(at(floats(3), place))
    np.testing.assert_array_equal(numpy(before), floats(3))
    np.testing.assert_array_equal(numpy(after), floats(3) + 1)


def test_behind_a_size_that_only_a_run_tells(place: DeviceRef) -> None:
    types = [buffer(place, 6), tensor(place, "n")]
    with Graph("late", input_types=types, custom_extensions=[KERNELS]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        call("increment", [b])
        found = ops.nonzero(x, "k")
        first: Any = ops.reshape(found, ["k"])
        call("at", [b, ops.max(first)[0]])
        graph.output(b[...])
    model = session(place).load(graph)
    for numbers, place_of in (([0, 3, 0, 1, 0], 3), ([2, 0], 0)):
        (y,) = model(at(floats(6), place), at(np.array(numbers, np.float32), place))
        wanted = floats(6) + 1
        wanted[place_of] = -1
        np.testing.assert_array_equal(numpy(y), wanted)


def test_in_a_subgraph(place: DeviceRef) -> None:
    with Graph("main", input_types=[buffer(place, 3)], custom_extensions=[KERNELS]) as graph:
        b = graph.inputs[0].buffer
        sub = graph.add_subgraph(
            "bump", lambda v: call("increment", [v.buffer]), [buffer(place, 3)]
        )
        ops.call(sub, b)
        first = b[...]
        ops.call(sub, b)
        graph.output(first)
    given = at(floats(3), place)
    (y,) = session(place).load(graph)(given)
    np.testing.assert_array_equal(numpy(y), floats(3) + 1)
    np.testing.assert_array_equal(numpy(given), floats(3) + 2)


def counting(place: DeviceRef, libraries: Any) -> Graph:
    with Graph("g", input_types=[buffer(place, "n")], custom_extensions=libraries) as graph:
        call("increment", [graph.inputs[0].buffer])
        graph.output()
    return graph


def test_an_archive_a_saved_graph_and_another_library(place: DeviceRef, tmp_path: Path) -> None:
    library = KernelLibrary()
    library.add_source(KERNELS)
    packed = library.package(tmp_path / "k.mxpkg")
    graph = counting(place, [packed])
    graph.save(tmp_path / "g.mlir")
    again = Graph(path=tmp_path / "g.mlir")
    text = generic(again.function)
    assert generic(parse_function(text)) == text
    given = at(floats(4), place)
    session(place).load(again, custom_extensions=packed)(given)
    np.testing.assert_array_equal(numpy(given), floats(4) + 1)
    faster = KERNELS.replace("load(x, i) + BY", "load(x, i) + 10 * BY")
    session(place).load(again, custom_extensions=[faster])(given)
    np.testing.assert_array_equal(numpy(given), floats(4) + 11)
    still = "// @op increment(x: float32[n]) -> (y: float32[n])\n// @both\ny[i] = x[i];\n"
    with pytest.raises(MaxlabError) as caught:  # it has a result, and the op has none
        session(place).load(again, custom_extensions=[still])
    assert caught.value.code == "ML767"
    plain = Graph("p", input_types=[tensor(place, 3)], custom_extensions=[KERNELS])
    with plain:
        plain.output(*ops.custom("look", place, [plain.inputs[0]], [tensor(place, 3)]))
    changing = "// @op look(inout a: float32[n]) -> (y: float32[n])\n// @both\na[i] = y[i] = 0;\n"
    with pytest.raises(TypeError, match="look changes a in place"):
        session(place).load(plain, custom_extensions=[changing])


def test_a_kernel_library_verifies_it() -> None:
    graph = counting(CPU, [KERNELS])
    (op,) = (op for op in graph.function.ops if op.name == "mo.custom.inplace")
    graph._kernel_library.verify_custom_op(op)
    with pytest.raises(ValueError, match="no custom op 'increment'"):
        KernelLibrary().verify_custom_op(op)


def test_compare(place: DeviceRef) -> None:
    with mock.patch.dict(REFERENCES, clear=True):
        compare_with_and_without_references(place)


def compare_with_and_without_references(place: DeviceRef) -> None:
    library = KernelLibrary()
    library.add_source(KERNELS)
    types = [buffer(place, 1), buffer(place, 3), buffer(place, 3)]
    with Graph("g", input_types=types, kernel_library=library) as graph:
        state, b, c = (x.buffer for x in graph.inputs)
        (y,) = call("running", [state, b[...]], [tensor(place, 3)])
        call("decrement", [b])
        values = [y.tensor, b[...], b, c]
        old, total = call("exchange", values, [tensor(place, 3), tensor(place, 3)])
        graph.output(old, total, b, y)
    model = session(place).load(graph)
    arrays = [np.ones(1, np.float32), floats(3), -floats(3)]

    def check() -> Any:
        return maxlab.compare(model, *(at(x, place) for x in arrays))

    found = check()
    assert found.ok, found.message
    assert "3 custom kernels without one not checked" in found.message

    @library.reference("running")
    def running(state: Array, x: Array) -> Array:
        total: Array = x.cumsum() + state[0]
        state[0] = total[-1]
        return total

    @library.reference("exchange")
    def exchange(scale: Array, a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        old = b.copy()
        b[...], c[...] = c.copy(), old
        return old, a * scale

    found = check()
    assert found.ok, found.message
    assert "1 custom kernel without one" in found.message

    @library.reference("running")
    def wrong(state: Array, x: Array) -> Array:
        state[0] = 8
        total: Array = x.cumsum() + 1
        return total

    found = check()
    assert not found.ok
    assert "running" in found.message


def test_a_profile_and_a_view(place: DeviceRef) -> None:
    model = session(place).load(counting(place, [KERNELS]))
    given = at(floats(4), place)
    profile = model.profile(given, runs=2, warmup=1)
    (kernel,) = profile.kernels
    assert kernel.name == "increment"
    (step,) = model.plan.steps
    ((read, written),) = step.traffic().values()
    assert (
        str(read) == str(written) == str(4 * model.compiled.source.inputs[0].tensor_type.shape[0])
    )


def test_one_memory_for_two_buffers_of_a_kernel(place: DeviceRef) -> None:
    types = [tensor(place, "n"), buffer(place, "n"), buffer(place, "n"), buffer(place, "n")]
    with Graph("g", input_types=types, custom_extensions=[KERNELS]) as graph:
        x, *buffers = graph.inputs
        call("exchange", [x.tensor, *(b.buffer for b in buffers)], [types[0], types[0]])
        graph.output()
    model = session(place).load(graph)
    given, a, b = (at(floats(4), place) for _ in range(3))
    for wrong in ([given, a, b, b], [given, b, a, b], [given, b, b, a]):
        with pytest.raises(ValueError, match="which the same kernel takes") as caught:
            model(*wrong)
        assert isinstance(caught.value, MaxlabError)
        assert caught.value.code == "ML781"
    np.testing.assert_array_equal(numpy(b), floats(4))
    with Graph("apart", input_types=types[1:3], custom_extensions=[KERNELS]) as graph:
        for value in graph.inputs:
            call("increment", [value.buffer])
        graph.output()
    session(place).load(graph)(b, b)  # one kernel behind the other
    np.testing.assert_array_equal(numpy(b), floats(4) + 2)


BUFFER, TENSOR = buffer(CPU, "n"), tensor(CPU, "n")
WRONG: list[tuple[str, type[Exception], Any]] = [
    ("ML787", TypeError, lambda b, x: call("look", [x], [x.type])),
    ("ML787", TypeError, lambda b, x: ops.inplace_custom("look", CPU, [], [x.type])),
    ("ML788", TypeError, lambda b, x: call("running", [x, b], [x.type])),
    ("ML789", ValueError, lambda b, x: call("exchange", [x, b, b, b], [x.type] * 2)),
    ("ML789", ValueError, lambda b, x: call("exchange", [x, b, _made(b), b], [x.type] * 2)),
    ("ML790", TypeError, lambda b, x: ops.custom("increment", CPU, [x], [x.type])),
    ("ML760", ValueError, lambda b, x: call("incremental", [b])),
    ("ML764", ValueError, lambda b, x: call("increment", [b, b])),
    ("ML764", ValueError, lambda b, x: call("increment", [b], [x.type])),
    ("ML765", ValueError, lambda b, x: call("increment", [_made(b, DType.int8)])),
    ("ML766", ValueError, lambda b, x: call("running", [b, x], [x.type])),
    ("ML767", ValueError, lambda b, x: call("increment", [b], TO=2)),
    ("ML768", TypeError, lambda b, x: call("increment", [b], BY=1.5)),
    ("ML768", TypeError, lambda b, x: ops.inplace_custom("increment", CPU, b)),
    ("ML768", TypeError, lambda b, x: ops.inplace_custom(b, CPU, [b])),
    ("ML769", ValueError, lambda b, x: ops.inplace_custom("increment", GPU, [b])),
    ("ML397", TypeError, lambda b, x: ops.inplace_custom("increment", 1.5, [b])),
]


def _made(b: Any, dtype: DType = DType.float32) -> Any:
    return ops.buffer_create(BufferType(dtype, b.shape, b.device))


@pytest.mark.parametrize(("code", "kind", "wrong"), WRONG)
def test_mistakes_are_found_when_the_op_is_made(
    code: str, kind: type[Exception], wrong: Any
) -> None:
    with Graph("g", input_types=[BUFFER, TENSOR], custom_extensions=[KERNELS]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        with pytest.raises(MaxlabError) as caught:
            wrong(b, x)
        assert len([op for op in graph.function.ops if "custom" in op.name]) == 0
    assert caught.value.code == code
    assert isinstance(caught.value, kind)
    assert caught.value.at is not None
    assert Path(caught.value.at.file).name == Path(__file__).name


@pytest.mark.parametrize(
    "text",
    [
        "// @op f(x: float32[n])\n// @both\nx[i] = 0;",
        "// @op f(x: float32[n]) -> ()\n// @both\nx[i] = 0;",
        "// @op f(x: float32[n]) -> (inout y: float32[n])\n// @both\ny[i] = 0;",
        "// @op f(out x: float32[n])\n// @both\nx[i] = 0;",
        "// @op f(inout x: float32[n]) ->\n// @both\nx[i] = 0;",
    ],
)
def test_declarations_that_change_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read") as caught:
        KernelLibrary().add_source(text)
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == "ML761"
