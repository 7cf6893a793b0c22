"""Graphs with branches, loops, buffers, subgraphs, custom kernels, devices, dims, draws and
documents, as the programs that build them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import (
    BufferType,
    Comment,
    DeviceRef,
    Dim,
    Draft,
    Editor,
    FilterLayout,
    Graph,
    Lesson,
    OpaqueType,
    ShardingStrategy,
    TensorType,
    TensorValue,
    Weight,
    ops,
)
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.ir import Constant
from maxlab.opset import OPSET
from maxlab.pipelines.lib.sampling import SamplingConfig
from maxlab.pipelines.lib.sampling.sampling import token_sampler
from tests.custom.test_opaque import KERNELS as HANDLES
from tests.graph.code.rebuilt import built, rebuilt, require_formatted, same
from tests.graph.code.test_every_op import ELSEWHERE

F32, I64, BOOL = DType.float32, DType.int64, DType.bool
HOST = DeviceRef.CPU()
ROW = TensorType(F32, ["n"])
MATRIX = TensorType(F32, ["n", 4])
Make = Callable[[], Graph]
MADE: dict[str, Make] = {}


def made(make: Make) -> Make:
    MADE[make.__name__] = make
    return make


# ---------------------------------------------------------------- control
@made
def branches() -> Graph:
    with Graph("branches", input_types=[ROW, TensorType(BOOL, [])]) as graph:
        x, flag = (v.tensor for v in graph.inputs)

        def then() -> TensorValue:
            y = ops.exp(x) + 1
            ops.print(y, "y")
            return y * y

        (y,) = ops.cond(flag, [ROW], then, lambda: x)
        ops.cond(flag, None, lambda: ops.print("only then"), lambda: None)
        a, b = ops.cond(flag, [ROW, ROW], lambda: [y, ops.relu(x)], lambda: [x, y])
        graph.output(a, b, y)
    return graph


@made
def loops() -> Graph:
    number = TensorType(I64, [])
    with Graph("collatz", input_types=[number, ROW]) as graph:
        n, x = (v.tensor for v in graph.inputs)
        zero = ops.constant(0, I64, HOST)
        weight = Weight("w", F32, [1])

        def turn(n: TensorValue, steps: TensorValue) -> tuple[TensorValue, TensorValue]:
            (halved,) = ops.cond(n % 2 == 0, [number], lambda: n // 2, lambda: n * 3 + 1)
            return halved, steps + 1

        n, steps = ops.while_loop((n, zero), lambda n, steps: n > 1, turn)
        (y,) = ops.while_loop([x], lambda y: ops.max(y)[0] < 9, lambda y: y + ops.exp(x) * weight)
        graph.output(steps, y)
    return graph


# ---------------------------------------------------------------- effects
@made
def buffers() -> Graph:
    types = [BufferType(F32, ["n", 4]), TensorType(I64, [])]
    with Graph("buffers", input_types=types) as graph:
        cache, at = graph.inputs[0].buffer, graph.inputs[1].tensor
        value = ops.buffer_load(cache)
        ops.buffer_store(cache, value * 2)
        cache[at] = ops.exp(cache[0])
        cache[1:3, 2] = cache[0:2, 3]
        more = ops.buffer_create(BufferType(F32, [4]))
        ops.buffer_store(more, 0.5)
        ops.print("hello")
        ops.print("a text", "label")
        ops.print(value, "value")
        n = cache.shape[0]
        cache[(slice(at, None), "rest"), 0] = 1.0
        ops.buffer_store_slice(cache, value[:2], [slice(at, at + 2)])

        def body(k: TensorValue) -> TensorValue:
            cache[k] = ops.buffer_load(more)
            return k + 1

        ops.while_loop([at], lambda k: k < 3, body)
        ops.cond(at > 2, None, lambda: ops.print("large"), lambda: None)
        graph.output(ops.buffer_load(cache), more[...], ops.shape_to_tensor([n]))
    return graph


@made
def pages() -> Graph:
    u32 = DType.uint32
    types = [
        BufferType(F32, ["pages", 2, 3, 16, 2, 8]),
        *(TensorType(u32, shape) for shape in (["ends"], ["batch"], ["batch", "most"], [])),
        TensorType(F32, ["rows", 64]),
        TensorType(F32, [4]),
        TensorType(u32, ["ends"]),
        TensorType(F32, [9, 48, 4]),
        TensorType(DType.int32, ["groups"]),
        TensorType(u32, ["groups"]),
        TensorType(u32, ["bounds"]),
    ]
    with Graph("pages", input_types=types) as graph:
        cache, *given = graph.inputs
        first, lengths, table, layer, x, sinks, ends, b, *groups = (v.tensor for v in given)
        at = first, lengths, table, layer
        ops.cache_store(cache.buffer, *at, x, part=0, parts=2, column=32)
        q = x[:, :32].reshape([-1, 4, 8])
        y = ops.cache_attention(cache.buffer, *at, q, scale=0.25)
        z = ops.cache_attention(cache.buffer, *at, q, ends, sinks, mask="chunk", window=5)
        k = ops.cache_load(cache.buffer, *at, "rows", part=1)
        ops.cache_add_lora(cache.buffer, *at, x, b, *groups, part=0, parts=2, column=8)
        graph.output(y, z, k, ops.lora_product(x, b, *groups, cut="columns", column=4, row=2))
    return graph


@made
def sampler() -> Graph:
    return token_sampler(SamplingConfig(do_penalties=True, enable_min_tokens=True), HOST)


@made
def latent_vectors() -> Graph:
    u32 = DType.uint32
    types = [
        BufferType(F32, ["pages", 1, 3, 16, 1, 12]),
        *(TensorType(u32, shape) for shape in (["ends"], ["batch"], ["batch", "most"], [])),
        TensorType(F32, ["rows", 4, 10]),
        TensorType(F32, [48, 8]),
        TensorType(DType.int64, []),
    ]
    with Graph("latent", input_types=types) as graph:
        cache, *given = graph.inputs
        first, lengths, table, layer, q, weight, count = (v.tensor for v in given)
        at = cache.buffer, first, lengths, table, layer
        both = ops.latent_expand(*at, count, weight, 32).reshape([32, 4, 12])
        y, state = ops.latent_chunk(*at, q, both, both, first, lengths, rope=4, size=6, column=6)
        more = ops.latent_chunk(
            *at, q, both, both, first, lengths, y, state, rope=4, size=6, mask="null", scale=0.5
        )
        inside = ops.pad(q, [0, 0, 0, 0, 0, 2])
        z = ops.latent_attention(*at, inside, size=8, scale=0.25)
        graph.output(*more, z, ops.latent_load(*at, count, 32, 8))
    return graph


@made
def several_devices() -> Graph:
    gpus = [DeviceRef.GPU(0), DeviceRef.GPU(1)]
    types = [TensorType(F32, ["n", 4], gpu) for gpu in gpus]
    signals = [BufferType(DType.uint8, [1024], gpu) for gpu in gpus]
    with Graph("devices", input_types=[*types, *signals]) as graph:
        x, y = (v.tensor for v in graph.inputs[:2])
        w = Weight("w", F32, [4, 4], gpus[0])
        there = ops.constant_external("there", TensorType(F32, [4], gpus[1]))
        buffers = [v.buffer for v in graph.inputs[2:]]
        joined = ops.allgather([x @ w, y + there], buffers, axis=1)
        summed = ops.allreduce.sum([x, y], buffers)
        fixed = ops.constant(np.arange(4, dtype=np.float32), device=gpus[1])
        ops.print(x.to(HOST))
        graph.output(*joined, *summed, (y * fixed).to(HOST), y.to(gpus[0]))
    return graph


@made
def draws() -> Graph:
    like = TensorType(F32, [3])
    with Graph("draws", input_types=[ROW, ops.random.SeedType]) as graph:
        ops.random.set_seed(7)
        a = ops.random.uniform(like)
        b = ops.random.normal(like, mean=2)
        c = ops.random.uniform(TensorType(DType.float64, [3]), range=(-1, 1))
        ops.random.set_seed(graph.inputs[1].tensor)
        d = ops.random.normal(TensorType(F32, ["n"]), mean=0, std=0.5)

        def body(x: TensorValue) -> TensorValue:
            return x + ops.random.uniform(TensorType(F32, ["n"]))

        (e,) = ops.while_loop([graph.inputs[0]], lambda x: ops.max(x)[0] < 4, body)
        ops.random.set_seed(0)
        graph.output(a + b, c, d, e, ops.random.uniform(like))
    return graph


# ---------------------------------------------------------------- functions
@made
def subgraphs() -> Graph:
    def dense(x: TensorValue) -> TensorValue:
        w = Weight("w", F32, [4, 4], _placeholder=True)
        return ops.relu(x @ w + Weight("shared", F32, [4]))

    with Graph("subgraphs", input_types=[MATRIX]) as graph:
        x = graph.inputs[0].tensor
        double = graph.add_subgraph("double", lambda x: x * 2, [MATRIX])
        layer = graph.add_subgraph("layer", dense, [MATRIX])
        for number in range(3):
            x = ops.call(layer, x, prefix=f"layers.{number}.")[0].tensor
        (y,) = ops.call(double, x)
        (z,) = ops.call(double, y)
        graph.output(z, x)
    return graph


KERNELS = r"""
// @op scale(x: T[*shape]) -> (y: T[*shape])
// @types T: float32 | float16
// @params BY: int = 2
// @both
store(y, i, BY * load(x, i)); // a \ in a comment

// @op increment(inout x: T[*shape])
// @types T: float32 | int32
// @both
store(x, i, load(x, i) + 1);
"""


@made
def custom_kernels() -> Graph:
    types = [ROW, BufferType(F32, ["n"])]
    with Graph("kernels", input_types=types, custom_extensions=[KERNELS]) as graph:
        x, state = graph.inputs[0].tensor, graph.inputs[1].buffer
        (y,) = ops.custom("scale", HOST, [x], [ROW], {"BY": 3})
        (z,) = ops.custom("scale", HOST, [ops.exp(y)], [ROW])
        ops.inplace_custom("increment", HOST, [state])
        graph.output(z, ops.buffer_load(state))
    return graph


@made
def handles() -> Graph:
    types = [OpaqueType("counter"), BufferType(I64, [2]), TensorType(I64, [])]
    with Graph("handles", input_types=types, custom_extensions=[HANDLES]) as graph:
        held, live, start = graph.inputs[0].opaque, graph.inputs[1].buffer, graph.inputs[2].tensor
        (more,) = ops.inplace_custom("counter_new", HOST, [live, start], [OpaqueType("counter")])
        for handle in (held, more):
            ops.inplace_custom("counter_add", HOST, [handle, start])
        (told,) = ops.custom("counter_at", HOST, [more], [TensorType(I64, [])])
        graph.output(told, more)
    return graph


# ---------------------------------------------------------------- types
@made
def dims() -> Graph:
    types = [TensorType(F32, ["n", "m"]), TensorType(BOOL, ["n"]), TensorType(I64, [])]
    with Graph("dims", input_types=types) as graph:
        x, mask, at = (v.tensor for v in graph.inputs)
        flat = x.reshape([Dim("n") * Dim("m")]).rebind(["k"], "flat")
        count = ops.range(0, Dim("n") * 2 + 1, dtype=I64, device=HOST)
        hits = ops.nonzero(mask, "hits")
        steps = ops.range(at, at + 4, 1, "steps", device=HOST)
        parts = [x[1:, : Dim("m") // 2], x[:, Dim("m") - 1], x[:, 0], x[-1], x[::2, ::-1]]
        wide = hits.cast(F32).broadcast_to(["hits", "m"])
        part = x[(slice(at, None), "late")]
        picked = ops.masked_scatter(x, x > 0, flat, "positive")
        several = ops.repeat_interleave(flat, at.broadcast_to(["k"]), 0, "several")
        sizes = ops.shape_to_tensor([Dim("hits"), Dim("m") * 3])
        graph.output(
            flat, count, hits, steps, *parts, wide, part, picked, several, sizes, x[..., None]
        )
    return graph


@made
def filters() -> Graph:
    layout = FilterLayout.FCRS
    types = [TensorType(F32, [1, 8, 8, 3]), TensorType(F32, [16, 3, 3, 3])]
    with Graph("filters", input_types=types) as graph:
        x, w = (v.tensor for v in graph.inputs)
        w = ops.rebind(w, w.shape, layout=layout)
        y = ops.conv2d(
            x, w, padding=(1, 1, 1, 1), filter_layout=layout, bias=np.ones(16, np.float32)
        )
        z = ops.conv2d_transpose(y, np.ones((2, 2, 4, 16), np.float32), stride=(2, 2))
        graph.output(z)
    return graph


@made
def quantised() -> Graph:
    encoding = QuantizationEncoding.Q4_0
    packed = Weight("w", DType.uint8, [8, 36], HOST, encoding)
    with Graph("quantised", input_types=[TensorType(F32, ["n", 64])]) as graph:
        y = ops.qmatmul(encoding, None, graph.inputs[0].tensor, packed)
        graph.output(y, ops.dequantize(encoding, packed))
    return graph


@made
def weights() -> Graph:
    whole = Weight("whole", F32, [8, 4])
    whole.sharding_strategy = ShardingStrategy.rowwise(2)
    with Graph("weights", input_types=[TensorType(F32, ["n", 4])]) as graph:
        x = graph.inputs[0].tensor
        for shard in whole.shard([HOST, HOST]):
            x = x + ops.sum(shard, axis=0)
        odd = [Weight(name, F32, [4]) for name in ("a.name", "a.data", "class.0.1st", "a..b", " ")]
        for weight in odd:
            x = x * weight
        aligned = Weight("aligned", F32, [4], align=64)
        graph.add_weight(Weight("unread", F32, [2]))
        graph.output(x == aligned, aligned > x, aligned)
    return graph


CONSTANTS: list[np.ndarray[Any, Any]] = [
    np.array([0.1, -0.0, 1e-45, 3.4e38], np.float32),
    np.array([np.nan, np.inf, -np.inf], np.float32),
    np.array([0x7FC01234], np.uint32).view(np.float32),
    np.array([[1, 2], [3, 4]], np.int8),
    np.array(True),
    np.array(5, np.uint64),
    np.zeros((2, 0, 3), np.float16),
    np.zeros((64, 64), np.float32),
    np.full((9,), -np.inf, np.float32),
    np.arange(3000, dtype=np.float64),
    np.arange(90).astype(DType.bfloat16.ml_numpy),
    np.arange(8).astype(DType.float8_e4m3fn.ml_numpy),
]


@made
def constants() -> Graph:
    with Graph("constants") as graph:
        values = [graph.op("constant", [], value=Constant(a), device=HOST)[0] for a in CONSTANTS]
        shared = ops.constant(3, F32, HOST)
        graph.output(*values, values[0] * shared, values[0] + shared, 2 - values[0], values[0] ** 2)
    return graph


@made
def primitives() -> Graph:
    with Graph("primitives", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        (a,) = graph.op("recip", [x])
        (b,) = graph.op("iota", [], shape=(2, 3), axis=1, dtype=I64, device=HOST)
        (c,) = graph.op("cast", [x], dtype=F32)
        _ = ops.negate(-x)
        ops.exp(x)
        graph.output(a, b, c, ops.negate(-c), ~~(x > 0), (2.0**x) ** 3)
    return graph


@made
def names() -> Graph:
    with Graph("a 'name' with \"both\"", input_types=[ROW, TensorType(BOOL, ["n"])]) as graph:
        x, mask = (v.tensor for v in graph.inputs)
        hidden = ops.exp(x)
        sum_ = hidden + 1
        graph.name_values({"the mask": mask, "2nd": sum_}, x=x, hidden=hidden)
        graph.output(ops.where(mask, sum_ * hidden, 0))
    return graph


@made
def nothing() -> Graph:
    return Graph("nothing")


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_a_graph_is_built_again(make: Make, tmp_path: Path) -> None:
    graph = make()
    path = tmp_path / "written.py"
    rebuilt(graph, path)
    again = built(path.read_text("utf-8"), path)
    assert list(again.subgraphs) == list(graph.subgraphs)
    assert len(again.function.calls) == len(graph.function.calls)
    require_formatted(tmp_path)


def test_they_have_the_operations_without_samples() -> None:
    found = {op.name for make in MADE.values() for op in make().function.walk()}
    assert ELSEWHERE - found == {"mo.call", "mo.host", "mo.watch"}
    assert set(OPSET) >= ELSEWHERE


def test_text_without_a_path_is_that_of_the_file(tmp_path: Path) -> None:
    for make in MADE.values():
        if make is not constants:
            graph = make()
            assert graph.to_python() == graph.to_python(tmp_path / "written.py")


# ---------------------------------------------------------------- scopes
def dense(x: TensorValue, name: str) -> TensorValue:
    w = Weight(f"{name}.weight", F32, [4, 4])
    return x @ w.T + Weight(f"{name}.bias", F32, [4])


def block(x: TensorValue, mask: TensorValue, name: str) -> TensorValue:
    y = ops.where(mask, dense(x, f"{name}.first"), 0)
    return x + ops.gelu(dense(y, f"{name}.second"))


def network(layers: int) -> Graph:
    with Graph("network", input_types=[MATRIX, TensorType(BOOL, ["n", 4])]) as graph:
        x, mask = (v.tensor for v in graph.inputs)
        for number in range(layers):
            x = block(x, mask, f"blocks.{number}")
        graph.output(x)
    return graph


def test_equal_scopes_are_one_function_and_a_loop(tmp_path: Path) -> None:
    texts = [rebuilt(network(layers), tmp_path / f"net{layers}.py") for layers in (3, 40)]
    assert texts[0].replace("range(3)", "range(40)") == texts[1]
    assert texts[0].count("\ndef ") == 2
    require_formatted(tmp_path)


def test_the_program_computes_the_same(tmp_path: Path) -> None:
    graph = network(2)
    data = {
        op.attrs["name"]: np.random.default_rng(n).standard_normal(
            [int(d) for d in op.attrs["type"].shape], np.float32
        )
        for n, op in enumerate(graph.function.ops)
        if op.name == "mo.constant.external"
    }
    path = tmp_path / "net.py"
    text = rebuilt(graph, path, data)
    assert "allocate()" in text
    names: dict[str, object] = {"__file__": str(path)}
    exec(compile(text, str(path), "exec"), names)
    x, mask = np.ones((2, 4), np.float32), np.ones((2, 4), bool)
    session = engine.InferenceSession()
    first = session.load(graph, weights_registry=data)(x, mask)[0].to_numpy()
    read = names["weights"].allocated_weights  # type: ignore[attr-defined]
    second = session.load(names["graph"], weights_registry=read)(x, mask)[0].to_numpy()
    assert first.tobytes() == second.tobytes()


# ---------------------------------------------------------------- documents
def test_comments_and_drafts_are_comments(tmp_path: Path) -> None:
    graph = network(2)
    document = graph.document
    (exp,) = [op.id for op in graph.function.ops if op.name == "mo.gelu"][:1]
    document.comments.append(Comment(id="c0", text="smooth\n# not code: '''", on=exp))
    document.comments.append(Comment(id="c1", text="A network\x0bimport os " + "long " * 40))
    document.drafts.append(
        Draft(id="n90", name="mo.matmul", reason="no partner", operands=("v0", None))
    )
    document.lesson = Lesson(title="Blocks", says="two of them", hints=("look",))
    text = rebuilt(graph, tmp_path / "noted.py")
    for line in (
        "# Blocks",
        "# Hint: look",
        "# A network",
        "    # smooth",
        "    # # not code: '''",
        "    # Draft n90: mo.matmul(v0, ?): no partner",
    ):
        assert line in text.splitlines(), text
    assert text.count("\ndef block") == 2  # the other block has no comment
    require_formatted(tmp_path)


def test_an_edited_graph(tmp_path: Path) -> None:
    graph = network(2)
    editor = Editor(graph)
    first = next(op.id for op in graph.function.ops if op.name == "mo.gelu")
    editor.replace(first, "relu")
    (relu,) = [op for op in graph.function.ops if op.name == "mo.relu"]
    editor.rename(relu.result.id, "cut off")
    assert "cut off" in rebuilt(graph, tmp_path / "edited.py")


def test_a_saved_graph_of_a_stranger_is_not_trusted(tmp_path: Path) -> None:
    custom_kernels().save(tmp_path / "kernels.mlgraph")
    read = Graph(path=tmp_path / "kernels.mlgraph")
    text = read.to_python()
    assert "custom_extensions=KERNELS" in text
    assert not same(read, built(text, tmp_path / "kernels.py"))


def test_an_array_that_is_named_becomes_a_value_of_that_name() -> None:
    with Graph("named", input_types=[TensorType(DType.float32, [2])]) as graph:
        graph.name_values(table=np.ones(2, np.float32))
        graph.output(graph.inputs[0].tensor)
    assert [v.name for op in graph.function.ops for v in op.results] == ["table"]


LONG_ROWS = [
    np.linspace(-1, 1, 64, dtype=np.float32),
    np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16),
    np.linspace(-1, 1, 61, dtype=np.float32),
    np.linspace(-1, 1, 62).reshape(2, 31),
    np.linspace(-1, 1, 31, dtype=np.float32).reshape(1, 31),
    np.arange(2**40, 2**40 + 61),
    np.arange(64) % 3 == 0,
    np.arange(64, dtype=np.uint8),
]


@pytest.mark.parametrize("array", LONG_ROWS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_numbers_of_a_constant_stand_in_rows(array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    kind = DType.from_numpy(array.dtype)
    made = ops.constant
    graph = Graph("g", lambda x: made(array, kind, x.device) == x, [TensorType(kind, array.shape)])
    text = rebuilt(graph, tmp_path / "net.py")
    require_formatted(tmp_path)
    numbers = [line for line in text.splitlines() if line.strip().startswith("[") and "]" in line]
    assert len(numbers) > 2
    assert all(line.count(",") > 1 for line in numbers[:-1]), text
