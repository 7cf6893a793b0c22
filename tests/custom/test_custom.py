"""Custom ops: kernels of users in C and on the simulator, through the public API."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.compiler import compile_function
from maxlab.dtype import DType
from maxlab.errors import MaxlabError, ToolchainError
from maxlab.graph import DeviceRef, Graph, KernelLibrary, TensorType, ops
from maxlab.ir.printer import generic
from maxlab.lab.documents import document_of
from maxlab.opset import custom

CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
KERNELS = """
// @op grayscale(x: T[h, w, 3]) -> (y: T[h, w])
// @types T: float32 | float16 | bfloat16 | float64
// @params GAIN: int = 1
// @both
T sum = 0;
for (i64 s0 = 0; s0 < x.2; s0++) sum += load(x, 3 * i + s0);
store(y, i, GAIN * sum / 3);

// @op extremes(x: T[*lead, d]) -> (low: T[*lead], high: T[*lead])
// @types T: float32 | int32 | int64 | uint8
// @items lead
// @work d
// @both
T a = load(x, i * d), b = a;
for (i64 j = 1; j < d; j++) {
  const T v = load(x, i * d + j);  // not `load(x, i)`
  a = v < a ? v : a;
  b = b < v ? v : b;
}
store(low, i, a);
store(high, i, b);

// @op convert(x: T[*shape]) -> (y: TO[*shape])
// @types T: float32 | int32 | bool
// @params TO: DType; NEGATE: bool = false; MODE: str = "plain" in "plain", "half"
// @both
#if NEGATE
store(y, i, -(TO)load(x, i));
#else
store(y, i, MODE == MODE_half ? (TO)(load(x, i) / 2) : (TO)load(x, i));
#endif

// @op total(x: float32[n, d]) -> (y: float32[n])
// @items n
// @c work=d
f32 sum = 0;
for (i64 j = 0; j < d; j++) sum += x[i * d + j];
y[i] = sum;
// @cuda block threads=64 shared=256
f32 *const sums = (f32 *)shared;
f32 sum = 0;
for (i64 j = threadIdx.x; j < d; j += blockDim.x) sum += x[i * d + j];
sums[threadIdx.x] = sum;
__syncthreads();
for (unsigned step = 32; step; step /= 2) {
  if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
  __syncthreads();
}
if (threadIdx.x == 0) y[i] = sums[0];
__syncthreads();
// @end

// @op first(x: float32[n]) -> (y: float32[m])
// @params TEXT: str = "a\\n"
// @both
store(y, i, load(x, i) + (TEXT[0] - 97) + sizeof(TEXT));

// @op soft(x: T[n]) -> (y: T[n])
// @types T: float32 | float64
// @both
store(y, i, mx_exp_T(load(x, i)));
""".replace("a\\n", "a")


def run(
    name: str, arrays: list[Any], outs: list[Any], parameters: Any = None, *, gpu: bool = False
) -> list[Any]:
    """The results of the op ``name`` of KERNELS; first sizes are symbolic where ``outs`` say so."""
    place = GPU if gpu else CPU
    types = []
    for array in arrays:
        dims: list[Any] = list(array.shape)
        if dims:
            dims[0] = "n"
        types.append(TensorType(DType.from_numpy(array.dtype), dims, place))
    made = [TensorType(dtype, dims, place) for dtype, dims in outs]
    with Graph("g", input_types=types, custom_extensions=[KERNELS]) as graph:
        graph.output(*ops.custom(name, place, list(graph.inputs), made, parameters))
    if not gpu:
        found = engine.InferenceSession().load(graph)(*arrays)
        return [f.to_numpy() for f in found]
    with driver.simulated():
        device = driver.Accelerator()
        model = engine.InferenceSession(devices=[device]).load(graph)
        found = model(*(driver.Tensor.from_numpy(a).to(device) for a in arrays))
        return [f.to(driver.CPU()).to_numpy() for f in found]


BOTH = pytest.mark.parametrize("gpu", [False, True], ids=["c", "simulator"])


@BOTH
@pytest.mark.parametrize("kind", ["float32", "float16", "float64"])
def test_a_type_variable_and_a_parameter(gpu: bool, kind: str) -> None:
    x = np.random.default_rng(0).random((5, 4, 3)).astype(kind)
    (y,) = run("grayscale", [x], [(DType[kind], ["n", 4])], {"GAIN": 2}, gpu=gpu)
    assert y.dtype == x.dtype
    limit = 2e-3 if kind == "float16" else 1e-6
    np.testing.assert_allclose(y, 2 * x.astype(np.float64).mean(-1), rtol=limit)


@BOTH
@pytest.mark.parametrize("kind", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(7, 3, 5), (6, 4), (0, 5)])
def test_two_results_of_any_rank(gpu: bool, kind: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(0, 200, shape).astype(kind)
    out = (DType[kind], ["n", *shape[1:-1]])
    low, high = run("extremes", [x], [out, out], gpu=gpu)
    np.testing.assert_array_equal(low, x.min(-1))
    np.testing.assert_array_equal(high, x.max(-1))


def test_a_rank_0_result() -> None:
    x = np.array([3, 1, 2], np.int32)
    outs: list[Any] = [(DType.int32, [])] * 2
    assert [int(y) for y in run("extremes", [x], outs)] == [1, 3]


@BOTH
def test_parameters_are_compiled_in(gpu: bool) -> None:
    x = np.array([1.5, -3, 8], np.float32)
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"TO": DType.int32}, [1, -3, 8]),
        ({"TO": DType.float16}, [1.5, -3, 8]),
        ({"TO": DType.bool}, [True, True, True]),
        ({"TO": DType.float32, "NEGATE": True}, [-1.5, 3, -8]),
        ({"TO": DType.float64, "MODE": "half"}, [0.75, -1.5, 4]),
    ]
    for parameters, wanted in cases[: 3 if gpu else 5]:
        (y,) = run("convert", [x], [(parameters["TO"], ["n"])], parameters, gpu=gpu)
        np.testing.assert_array_equal(y, wanted)
        assert DType.from_numpy(y.dtype) is parameters["TO"]


@BOTH
def test_bodies_for_each_target(gpu: bool) -> None:
    x = np.random.default_rng(2).standard_normal((9, 300)).astype(np.float32)
    (y,) = run("total", [x], [(DType.float32, ["n"])], gpu=gpu)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-4, atol=1e-4)


def test_a_free_dim_comes_from_out_types_and_strings_are_strings() -> None:
    x = np.arange(5, dtype=np.float32)
    (y,) = run("first", [x], [(DType.float32, [2])])
    np.testing.assert_array_equal(y, [2, 3])
    (y,) = run("first", [x], [(DType.float32, [2])], {"TEXT": 'b"\\\n'})
    np.testing.assert_array_equal(y, [1 + 5, 2 + 5])


@BOTH
def test_functions_of_the_prelude_by_type(gpu: bool) -> None:
    x = np.linspace(-2, 2, 9, dtype=np.float64)
    (y,) = run("soft", [x], [(DType.float64, ["n"])], gpu=gpu)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-12)


def example(text: str = KERNELS, **more: Any) -> Graph:
    """A graph with one custom op between others."""
    image = TensorType(DType.float32, ["h", 4, 3])
    with Graph("g", input_types=[image], custom_extensions=[text], **more) as graph:
        x = graph.inputs[0].tensor
        (y,) = ops.custom(
            "grayscale", CPU, [ops.permute(x * 2, [0, 1, 2])], [TensorType(DType.float32, ["h", 4])]
        )
        graph.output(y.tensor + 1)
    return graph


IMAGE = np.random.default_rng(3).random((5, 4, 3)).astype(np.float32)


def test_a_saved_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = example()
    assert "grayscale" in str(graph)
    assert "mo.custom" in generic(graph.function)
    graph.save(tmp_path / "g.mlir")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "another user"))
    with mock.patch.dict(custom.DECLARED, clear=True):  # as in another process
        read_again(tmp_path)


def read_again(tmp_path: Path) -> None:
    again = Graph(path=tmp_path / "g.mlir")
    session = engine.InferenceSession()
    with pytest.raises(ValueError, match="no kernel library that was loaded") as caught:
        session.load(again)
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == "ML760"
    with pytest.raises(ValueError, match="no kernel library that was loaded"):
        compile_function(again.function)
    changed = KERNELS.replace("GAIN * sum", "GAIN * 5 * sum")
    beside = Graph(path=tmp_path / "g.mlir", custom_extensions=[changed])
    (y,) = session.load(beside)(IMAGE)
    np.testing.assert_allclose(y.to_numpy(), 10 * IMAGE.mean(-1) + 1, rtol=1e-6)
    (y,) = session.load(again, custom_extensions=[KERNELS])(IMAGE)
    np.testing.assert_allclose(y.to_numpy(), 2 * IMAGE.mean(-1) + 1, rtol=1e-6)


def test_a_session_brings_another_kernel() -> None:
    graph = example()
    other = KERNELS.replace("GAIN * sum", "GAIN * 10 * sum")
    for session, given in (
        (engine.InferenceSession(custom_extensions=other), None),
        (engine.InferenceSession(), [other]),
    ):
        (y,) = session.load(graph, custom_extensions=given)(IMAGE)
        np.testing.assert_allclose(y.to_numpy(), 20 * IMAGE.mean(-1) + 1, rtol=1e-6)
    wrong = "// @op grayscale(x: float32[n]) -> (y: float32[n])\n// @both\ny[i] = 0;\n"
    with pytest.raises(ValueError, match="no parameter 'GAIN'"):
        engine.InferenceSession(custom_extensions=wrong).load(graph)
    wrong = wrong.replace("// @both", "// @params GAIN: int = 1\n// @both")
    with pytest.raises(ValueError, match="rank 1"):
        engine.InferenceSession(custom_extensions=wrong).load(graph)


def test_it_is_shown_by_its_name() -> None:
    model = engine.InferenceSession().load(example())
    assert any(step.name == "grayscale" for step in model.plan.steps)
    document = document_of(model)
    (node,) = (n for n in document["nodes"] if n["op"] == "grayscale")
    assert node["attrs"]["GAIN"] == "1"
    profile = model.profile(IMAGE)
    assert any(k.name == "grayscale" for k in profile.kernels)


def test_compare_leaves_out_what_has_no_reference() -> None:
    library = KernelLibrary()
    library.add_source(KERNELS + "\n// @op own(x: float32[1]) -> (y: float32[1])\n// @c\ny[0] = 0;")
    text = KERNELS.replace("@op soft(", "@op softer(")  # a text that no other test knows
    found = maxlab.compare(engine.InferenceSession().load(example(text)), IMAGE)
    assert found.ok
    assert "1 custom kernel without one not checked" in found.message


def test_compare_uses_a_reference() -> None:
    library = KernelLibrary()
    library.add_source(KERNELS.replace("GAIN * sum", "GAIN * sum * 1"))

    @library.reference("grayscale")
    def grayscale(x: Any, GAIN: int) -> Any:
        return GAIN * x.mean(-1)

    image = TensorType(DType.float32, ["h", 4, 3])
    with Graph("g", input_types=[image], kernel_library=library) as graph:
        out = [TensorType(DType.float32, ["h", 4])]
        graph.output(*ops.custom("grayscale", CPU, [graph.inputs[0]], out, {"GAIN": 3}))
    model = engine.InferenceSession().load(graph)
    assert maxlab.compare(model, np.ones((5, 4, 3), np.float32)).ok

    @library.reference("grayscale")
    def wrong(x: Any, GAIN: int) -> Any:
        return GAIN * x.mean(-1) + 1

    found = maxlab.compare(model, np.ones((5, 4, 3), np.float32))
    assert not found.ok
    assert "grayscale" in found.message


@BOTH
def test_the_compiler_names_the_file_and_the_line(gpu: bool, tmp_path: Path) -> None:
    path = tmp_path / "bad.c"
    path.write_text(
        "// A library.\n\n// @op bad(x: float32[n]) -> (y: float32[n])\n// @both\n"
        "const f32 v = load(x, i);\nstore(y, i, v + missing);\n"
    )
    place = GPU if gpu else CPU
    vector = TensorType(DType.float32, ["n"], place)
    with Graph("g", input_types=[vector], custom_extensions=[path]) as graph:
        graph.output(*ops.custom("bad", place, [graph.inputs[0]], [vector]))
    with driver.simulated():
        session = engine.InferenceSession(devices=[driver.Accelerator()] if gpu else None)
        with pytest.raises(ToolchainError) as caught:
            session.load(graph)
    error = caught.value
    assert error.at is not None
    assert (error.at.file, error.at.line) == (str(path.resolve()), 6)
    assert "missing" in str(error)
    assert any("6 |" in line and "missing" in line for line in error.why)


F32 = TensorType(DType.float32, ["n"])
TO = {"TO": DType.float32}
CUSTOM: Any = ops.custom
ERRORS: list[tuple[str, type[Exception], Any]] = [
    ("ML760", ValueError, lambda x: CUSTOM("greyscale", CPU, [x], [F32])),
    ("ML764", ValueError, lambda x: CUSTOM("soft", CPU, [], [F32])),
    ("ML764", ValueError, lambda x: CUSTOM("soft", CPU, [x], [F32, F32])),
    ("ML765", ValueError, lambda x: CUSTOM("soft", CPU, [ops.cast(x, DType.int8)], [F32])),
    ("ML765", ValueError, lambda x: CUSTOM("soft", CPU, [x], [TensorType(DType.int8, ["n"])])),
    ("ML765", ValueError, lambda x: CUSTOM("convert", CPU, [x], [F32], {"TO": DType.int32})),
    ("ML765", ValueError, lambda x: CUSTOM("convert", CPU, [x], [F32], {"TO": DType.float8_e5m2})),
    ("ML766", ValueError, lambda x: CUSTOM("grayscale", CPU, [x], [F32])),
    ("ML766", ValueError, lambda x: CUSTOM("soft", CPU, [x], [TensorType(F32.dtype, [3])])),
    ("ML766", ValueError, lambda x: CUSTOM("first", CPU, [x], [TensorType(F32.dtype, ["z"])])),
    ("ML766", ValueError, lambda x: CUSTOM("total", CPU, [x], [F32])),
    ("ML767", ValueError, lambda x: CUSTOM("soft", CPU, [x], [F32], {"N": 1})),
    ("ML767", ValueError, lambda x: CUSTOM("convert", CPU, [x], [F32])),
    ("ML767", ValueError, lambda x: CUSTOM("convert", CPU, [x], [F32], {**TO, "MODE": "x"})),
    ("ML768", TypeError, lambda x: CUSTOM("first", CPU, [x], [F32], {"TEXT": 1.5})),
    ("ML768", TypeError, lambda x: CUSTOM("convert", CPU, [x], [F32], {"TO": "float32"})),
    ("ML768", TypeError, lambda x: CUSTOM("soft", CPU, x, [F32])),
    ("ML768", TypeError, lambda x: CUSTOM("soft", CPU, [x], F32)),
    ("ML768", TypeError, lambda x: CUSTOM("soft", CPU, [x], [DType.float32])),
    ("ML768", TypeError, lambda x: CUSTOM(3, CPU, [x], [F32])),
    ("ML768", TypeError, lambda x: CUSTOM("soft", CPU, [x], [F32], 3)),
    ("ML397", TypeError, lambda x: CUSTOM("soft", 1.5, [x], [F32])),
    ("ML317", TypeError, lambda x: CUSTOM("soft", CPU, [1.0], [F32])),
    ("ML769", ValueError, lambda x: CUSTOM("soft", GPU, [x], [F32])),
    ("ML769", ValueError, lambda x: CUSTOM("lonely", GPU, [x], [F32])),
]  # fmt: skip


@pytest.mark.parametrize(("code", "kind", "act"), ERRORS)
def test_errors_name_the_line_and_leave_the_graph(code: str, kind: Any, act: Any) -> None:
    text = KERNELS + "\n// @op lonely(x: float32[n]) -> (y: float32[n])\n// @c\ny[i] = x[i];\n"
    with Graph("g", input_types=[F32], custom_extensions=text) as graph:
        with pytest.raises(kind) as caught:
            act(graph.inputs[0])
        error = caught.value
        assert isinstance(error, MaxlabError)
        assert error.code == code, str(error)
        assert error.at is not None
        assert error.at.file.endswith("test_custom.py")
        assert error.at.line == act.__code__.co_firstlineno
        assert [op.name for op in graph.function.ops if op.name != "mo.cast"] == []


def test_a_subgraph_knows_the_kernels_of_its_graph() -> None:
    with Graph("g", input_types=[F32], custom_extensions=KERNELS) as graph:
        sub = graph.add_subgraph("sub", lambda x: ops.custom("soft", CPU, [x], [F32]), [F32])
        graph.output(*ops.call(sub, graph.inputs[0]))
    (y,) = engine.InferenceSession().load(graph)(np.zeros(3, np.float32))
    np.testing.assert_array_equal(y.to_numpy(), 1)
