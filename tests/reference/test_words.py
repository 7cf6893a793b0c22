"""What the pages say in words: of arguments, results and errors that no example shows."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import config, engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, InvalidPathError, MaxlabError, NoGraphError
from maxlab.graph import (
    BufferType,
    DeviceRef,
    Dim,
    FilterLayout,
    Graph,
    Shape,
    TensorType,
    TensorValue,
    Type,
    Weight,
    ops,
)
from maxlab.graph.weights import SafetensorWeights, WeightData, load_weights, weights_format
from tests.reference.examples import Array, run

F32, I32, I64, BOOL = DType.float32, DType.int32, DType.int64, DType.bool
CPU = DeviceRef.CPU()
VECTOR = TensorType(F32, [2, 3])
Build = Callable[..., Any]


def outputs(build: Build, types: Sequence[Type], *inputs: Any) -> list[Array]:
    """What the graph that ``build`` makes of inputs of ``types`` gives for ``inputs``."""
    return run(Graph("g", build, types), *inputs)


def shapes(build: Build, *types: Type) -> list[list[Dim]]:
    """The shapes of what ``build`` returns."""
    made = Graph("g", build, types).output_types
    return [list(t.shape) for t in made if isinstance(t, TensorType)]


# ---------------------------------------------------------------- shapes and types
def test_a_shape_prints_as_its_sizes() -> None:
    shape = Shape(["batch", 4, Dim("batch") * 2])
    assert str(shape) == f"{shape}" == "[batch, 4, batch * 2]"
    assert repr(shape) == "[Dim('batch'), Dim(4), Dim('batch') * Dim(2)]"
    assert str(Shape()) == "[]"


@pytest.mark.parametrize("wrong", ["batch", b"ab", 3, 1.5, None])
def test_a_shape_is_a_sequence(wrong: Any) -> None:
    for make in (Shape, lambda shape: TensorType(F32, shape), lambda s: BufferType(F32, s)):
        with pytest.raises(ArgumentTypeError, match="ML744") as caught:
            make(wrong)
        assert isinstance(caught.value, TypeError)


def test_a_type_keeps_its_layout_when_it_is_copied() -> None:
    type = TensorType(F32, ["n", 3], DeviceRef.GPU(1), FilterLayout.RSCF)
    again = pickle.loads(pickle.dumps(type))
    assert again == type
    assert again._layout is FilterLayout.RSCF


# ---------------------------------------------------------------- values and graphs
def test_the_ready_chain_is_made_once() -> None:
    with Graph("g") as graph:
        chain = graph.always_ready_chain
        assert graph.always_ready_chain is chain
        assert len(graph.function.ops) == 1


def test_a_failed_op_takes_the_ready_chain_back() -> None:
    graph = Graph("g")

    def forward() -> TensorValue:
        assert graph.always_ready_chain is not None
        raise ZeroDivisionError

    with graph, pytest.raises(ZeroDivisionError):
        graph.add_subgraph("s", forward)
    with graph:
        assert graph.always_ready_chain.to_mlir().op in graph.function.ops


def test_a_tensor_is_no_opaque_handle() -> None:
    with Graph("g", input_types=[TensorType(F32, [2])]) as graph:
        with pytest.raises(TypeError, match="not an opaque handle"):
            _ = graph.inputs[0].opaque
        with pytest.raises(TypeError, match="not a buffer"):
            _ = graph.inputs[0].buffer


# ---------------------------------------------------------------- max, min, argmax
@pytest.mark.parametrize("axis", [None, 0, -1, 7])
def test_the_axis_is_ignored_beside_two_tensors(axis: int | None) -> None:
    types = [TensorType(F32, ["n"]), TensorType(F32, ["n"])]
    x, y = np.array([1, 5], np.float32), np.array([4, 2], np.float32)
    most, least = outputs(
        lambda a, b: (ops.max(a, b, axis=axis), ops.min(a, b, axis=axis)), types, x, y
    )
    assert most.tolist() == [4, 5]
    assert least.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_an_empty_axis_has_no_index(name: str) -> None:
    op = getattr(ops, name)
    with pytest.raises(ValueError, match=f"{name}: axis 1 is empty"):
        shapes(op, TensorType(F32, [2, 0]))
    model = engine.InferenceSession().load(Graph("g", op, [TensorType(F32, ["m", "n"])]))
    with pytest.raises(ValueError, match=rf"{name}: axis -1 is empty[\s\S]*ML603"):
        model.execute(np.zeros((2, 0), np.float32))
    assert model.execute(np.zeros((0, 2), np.float32))[0].shape == (0, 1)


TWO: Any = np.int32(2)
AXES: list[tuple[str, Build]] = [
    ("sum", ops.sum),
    ("argmax", ops.argmax),
    ("softmax", ops.softmax),
    ("cumsum", ops.cumsum),
    ("max", lambda x, axis: ops.max(x, axis=axis)),
    ("squeeze", lambda x, axis: ops.squeeze(x[:, :1], axis)),
    ("unsqueeze", ops.unsqueeze),
    ("transpose", lambda x, axis: ops.transpose(x, axis, 0)),
    ("permute", lambda x, axis: ops.permute(x, [axis, 0])),
    ("concat", lambda x, axis: ops.concat([x, x], axis)),
    ("stack", lambda x, axis: ops.stack([x, x], axis)),
    ("split", lambda x, axis: ops.split(x, [1, 2], axis)),
    ("chunk", lambda x, axis: ops.chunk(x, 3, axis)),
    ("gather", lambda x, axis: ops.gather(x, [0], axis)),
    ("flatten", lambda x, axis: ops.flatten(x, 0, axis)),
    ("repeat_interleave", lambda x, axis: ops.repeat_interleave(x, 2, axis)),
    ("top_k", lambda x, axis: ops.top_k(x, TWO, axis)),
]


@pytest.mark.parametrize(("name", "op"), AXES, ids=[name for name, _ in AXES])
def test_an_axis_may_be_an_integer_of_numpy(name: str, op: Build) -> None:
    graphs = [Graph("g", lambda x, a=axis: op(x, a), [VECTOR]) for axis in (1, np.int64(1))]
    texts = [
        re.sub(r" *//.*", "", str(graph)) for graph in graphs
    ]  # without the lines of this file
    assert texts[0] == texts[1]
    assert graphs[0].output_types == graphs[1].output_types


# ---------------------------------------------------------------- shape ops
@pytest.mark.parametrize(
    ("size", "chunks", "part"),
    [
        (6, 3, 2),
        (0, 2, 0),
        (Dim("n"), 1, Dim("n")),
        (Dim("n") * 2, 2, Dim("n")),
        (Dim("n") * Dim("m") * 6, 3, Dim("n") * Dim("m") * 2),
        (Dim("n") * 4 + 8, 4, Dim("n") + 2),
    ],
)
def test_chunk_needs_a_provable_division(size: Any, chunks: int, part: Any) -> None:
    symbols = [TensorType(F32, [name]) for name in ("n", "m")]
    made = shapes(lambda *v: ops.chunk(v[2], chunks, 1), *symbols, TensorType(F32, [2, size]))
    assert made == [[Dim(2), Dim(part)]] * chunks


@pytest.mark.parametrize(
    ("size", "chunks"), [(5, 2), (6, 0), (6, -3), (Dim("n"), 2), (Dim("n") * 2 + 1, 2)]
)
def test_chunk_of_what_may_leave_a_rest(size: Any, chunks: int) -> None:
    with pytest.raises(ValueError, match="ML342"):
        shapes(lambda n, x: ops.chunk(x, chunks), TensorType(F32, ["n"]), TensorType(F32, [size]))


def test_chunks_of_a_symbolic_dim_run() -> None:
    types = [TensorType(F32, ["n"]), TensorType(F32, [Dim("n") * 2])]
    x = np.arange(6, dtype=np.float32)
    found = outputs(lambda n, v: ops.chunk(v, 2), types, x[:3], x)
    assert [part.tolist() for part in found] == [[0, 1, 2], [3, 4, 5]]


def test_interleaved_complex_numbers_of_a_provably_even_dim() -> None:
    types = [TensorType(F32, ["n"]), TensorType(F32, [2, Dim("n") * 2])]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    (found,) = outputs(lambda n, v: ops.as_interleaved_complex(v), types, x[0, :2], x)
    np.testing.assert_array_equal(found, x.reshape(2, 2, 2))
    for odd in (3, Dim("n"), Dim("n") * 2 + 1):
        with pytest.raises(ValueError, match="ML385"):
            shapes(
                lambda n, v: ops.as_interleaved_complex(v),
                TensorType(F32, ["n"]),
                TensorType(F32, [odd]),
            )


REPEATS: list[tuple[Any, list[int]]] = [
    ([2, 3], [2, 3]),
    ((0, 4), [0, 4]),
    (np.array([1, 0], np.int32), [1, 0]),
    ([3], [3, 3]),
    ([0, 0], [0, 0]),
]


@pytest.mark.parametrize(("repeats", "counts"), REPEATS, ids=str)
def test_known_repeats_need_no_name(repeats: Any, counts: list[int]) -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    want = np.repeat(x, counts, 0)
    for given in (repeats, lambda: TensorValue(np.asarray(repeats))):

        def build(v: TensorValue, given: Any = given) -> TensorValue:
            made = ops.repeat_interleave(v, given() if callable(given) else given, axis=0)
            assert made.shape == list(want.shape)
            return made

        np.testing.assert_array_equal(outputs(build, [TensorType(F32, [2, 2])], x)[0], want)


def test_one_known_repeat_of_a_symbolic_dim() -> None:
    def build(v: TensorValue) -> TensorValue:
        made = ops.repeat_interleave(v, [3], axis=0)
        assert made.shape == [Dim("n") * 3]
        return made

    x = np.array([5, 6], np.float32)
    assert outputs(build, [TensorType(F32, ["n"])], x)[0].tolist() == [5, 5, 5, 6, 6, 6]


def test_repeats_of_an_axis_without_elements() -> None:
    build: Build = lambda v, r: ops.repeat_interleave(v, r, axis=0, out_dim="k")  # noqa: E731
    types = [TensorType(F32, [0, 2]), TensorType(I64, [0])]
    found = outputs(build, types, np.zeros((0, 2), np.float32), np.zeros(0, np.int64))
    assert found[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("repeats", "code"), [([1, -1], "ML339"), ([1, 2, 3], "ML205"), ([1.5, 2.0], "ML102")]
)
def test_known_repeats_that_cannot_be(repeats: Any, code: str) -> None:
    with pytest.raises(ValueError, match=code):
        shapes(lambda v: ops.repeat_interleave(v, repeats, axis=0), TensorType(F32, [2, 2]))


# ---------------------------------------------------------------- ranges
@pytest.mark.parametrize(
    ("bounds", "dtype"),
    [
        (lambda n, k: (0, 4, 1), F32),
        (lambda n, k: (0.5, 2.0, 0.5), F32),
        (lambda n, k: (0, Dim("n"), 1), I64),
        (lambda n, k: (0, n.shape[0], 1), I64),
        (lambda n, k: (0, k, 1), I32),
        (lambda n, k: (k, 4, 1), I32),
    ],
)
def test_the_dtype_of_a_range_without_one(bounds: Build, dtype: DType) -> None:
    def build(n: TensorValue, k: TensorValue) -> TensorValue:
        start, stop, step = bounds(n, k)
        name = "k" if isinstance(start, TensorValue) or isinstance(stop, TensorValue) else None
        made = ops.range(start, stop, step, name, device=CPU)
        assert made.dtype is dtype
        return made

    types = [TensorType(F32, ["n"]), TensorType(I32, [])]
    (found,) = outputs(build, types, np.ones(3, np.float32), np.array(2, np.int32))
    assert found.dtype == dtype.to_numpy()
    assert found.ndim == 1


def test_the_bounds_of_a_range_have_its_dtype() -> None:
    def build(a: TensorValue, b: TensorValue) -> TensorValue:
        return ops.range(a, b, out_dim="k", dtype=I64, device=CPU)

    with pytest.raises(ValueError, match=r"a bound is int32, the range int64[\s\S]*ML110"):
        shapes(build, TensorType(I64, []), TensorType(I32, []))
    found = outputs(build, [TensorType(I64, [])] * 2, np.array(2), np.array(5))
    assert found[0].tolist() == [2, 3, 4]


# ---------------------------------------------------------------- messages name the user's op
NAMED: list[tuple[str, Build, list[Type], str]] = [
    ("stack", lambda x, y: ops.stack([x, y]), [VECTOR, TensorType(I32, [2, 3])], "ML110"),
    ("stack", lambda x, y: ops.stack([x, y]), [VECTOR, TensorType(F32, [2, "m"])], "ML210"),
    ("stack", lambda x, y: ops.stack([x, y]), [VECTOR, TensorType(F32, [2])], "ML210"),
    (
        "pad",
        lambda x, v: ops.pad(x, [1] * 4, value=v),
        [VECTOR, TensorType(DType.float64, [])],
        "ML110",
    ),
    ("range", lambda: ops.range(0, 10, 3, out_dim=5, dtype=I64, device=CPU), [], "ML206"),
    ("fold", lambda x: ops.fold(x, (3, 3, 3), (2, 2)), [TensorType(F32, [1, 8, 4])], "ML367"),  # type: ignore[arg-type]
    ("fold", lambda x: ops.fold(x, 3, (2, 2)), [TensorType(F32, [1, 8, 4])], "ML367"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("op", "build", "types", "code"), NAMED)
def test_errors_name_the_op_that_was_called(
    op: str, build: Build, types: list[Type], code: str
) -> None:
    with pytest.raises(MaxlabError) as caught:
        shapes(build, *types)
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == code
    assert caught.value.what.startswith(f"{op}: ")


# ---------------------------------------------------------------- weights
@pytest.mark.parametrize(
    "use", [lambda w: w + 1, lambda w: 2 @ w, lambda w: w.T, ops.sin, ops.print]
)
def test_a_weight_without_a_graph_says_that_it_needs_one(use: Build) -> None:
    with pytest.raises(NoGraphError, match="the weight 'layers.0.w' needs a graph") as caught:
        use(Weight("layers.0.w", F32, [2, 2]))
    assert isinstance(caught.value, LookupError)


def external(*types: TensorType) -> Graph:
    """A graph that declares the weight ``w`` with each of ``types``."""
    with Graph("weights") as graph:
        graph.output(*[ops.constant_external("w", type) for type in types])
    return graph


@pytest.mark.parametrize("second", [TensorType(F32, [1]), TensorType(I32, [3])], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_one_name_with_two_types_is_refused(second: TensorType, turned: bool) -> None:
    types = [TensorType(F32, [3]), second]
    graph = external(*(types[::-1] if turned else types))
    for type in types:  # neither array can be right for both
        array = np.ones(list(type.shape.static_dims), type.dtype.to_numpy())
        with pytest.raises(ValueError, match="ML745"):
            engine.InferenceSession().load(graph, weights_registry={"w": array})


def test_one_name_with_one_type_is_one_weight() -> None:
    graph = external(TensorType(F32, [3]), TensorType(F32, [3]))
    array = np.array([1, 2, 3], np.float32)
    model = engine.InferenceSession().load(graph, weights_registry={"w": array})
    assert [out.to_numpy().tolist() for out in model.execute()] == [[1, 2, 3]] * 2


@pytest.mark.parametrize("dtype", [DType.bfloat16, DType.float16, DType.float8_e4m3fn])
def test_data_of_every_dtype_can_be_handed_over(dtype: DType) -> None:
    data = WeightData.from_numpy(np.array([[1, -2], [0.5, 4]], np.float32), "w").astype(dtype)
    tensor = Tensor.from_dlpack(data)
    assert tensor.dtype is dtype
    assert tensor.shape == (2, 2)
    assert [x.item() for row in tensor for x in row] == [1, -2, 0.5, 4]


@pytest.mark.parametrize("path", ["model.safetensors", Path("model.safetensors")])
def test_one_path_is_no_list_of_files(path: Any) -> None:
    for read in (SafetensorWeights, load_weights, weights_format):
        with pytest.raises(ValueError, match=r"write \[Path\('model\.safetensors'\)\]"):
            read(path)


# ---------------------------------------------------------------- settings and devices
@pytest.mark.parametrize(
    ("setter", "value"),
    [
        ("set_mojo_log_level", "info"),
        ("set_mojo_log_level", engine.LogLevel.DEBUG),
        ("set_mojo_assert_level", "all"),
        ("set_split_k_reduction_precision", "OUTPUT"),
        ("use_old_top_k_kernel", "true"),
        ("gpu_profiling", engine.GPUProfilingMode.ON),
    ],
)
def test_options_of_a_session(setter: str, value: Any) -> None:
    getattr(engine.InferenceSession(), setter)(value)


def test_allgather_on_one_device() -> None:
    with Graph("gather", input_types=[TensorType(F32, ["n"]), BufferType(F32, [4])]) as graph:
        x, signal = graph.inputs
        assert ops.allgather([], []) == []
        graph.output(*ops.allgather([x.tensor], [signal.buffer], axis=0))
    found = run(graph, np.array([1, 2], np.float32), np.zeros(4, np.float32))
    assert [out.tolist() for out in found] == [[1, 2]]


# ---------------------------------------------------------------- engine, settings
@pytest.mark.parametrize("path", ["nothing.mlir", "."])
def test_a_path_without_a_graph(path: str) -> None:
    for load in (engine.InferenceSession().load, lambda p: Graph(path=p)):
        with pytest.raises(InvalidPathError, match="ML793") as caught:
            load(path)
        assert isinstance(caught.value, RuntimeError)
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("env", "on"),
    [
        ({}, False),
        ({"MODULAR_ENABLE_PROFILING": "1"}, True),
        ({"MAXLAB_ENABLE_PROFILING": "1"}, True),
        ({"MODULAR_ENABLE_PROFILING": "0"}, False),
        ({"MODULAR_ENABLE_PROFILING": ""}, False),
        ({"MODULAR_ENABLE_PROFILING": "0", "MAXLAB_ENABLE_PROFILING": "1"}, True),
    ],
)
def test_the_variables_that_turn_profiling_on(env: dict[str, str], on: bool) -> None:
    assert config.read_config(env).profiling is on


def test_threads_of_one_core_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = {0: "0,4\n", 4: "0,4\n", 1: "1,5\n", 6: "6\n"}
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(cores))
    monkeypatch.setattr(config, "_core_of", cores.__getitem__)
    assert config.read_config({}).num_threads == 3
    assert config.read_config({"MAXLAB_NUM_THREADS": "7"}).num_threads == 7


def test_a_core_that_the_kernel_does_not_tell() -> None:
    assert config._core_of(10**9) == str(10**9)
