"""``StepRecorder``: what it records is what layers computed; files of it, whole and damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine, nn, trace
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, DocumentError, MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType, Weight
from maxlab.nn.attention import AttentionWithRope, MHAMaskVariant
from maxlab.nn.kv_cache import KVCacheParams, PagedCacheInputSymbols, PagedCacheValues
from maxlab.nn.lora import add_lora, set_lora_batch_info
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.steps import SeenExperts, StepRecorder, StepRecording
from tests.cpu_and_gpu import at, numpy, session
from tests.nn.running import Array, filled, random

F32, U32, CPU = DType.float32, DType.uint32, DeviceRef.CPU()
HEADS, KEYS, SIZE, PAGE, LAYERS, PAGES = 4, 2, 8, 4, 2, 9
HIDDEN = HEADS * SIZE
PARAMS = KVCacheParams(F32, n_kv_heads=KEYS, head_dim=SIZE, page_size=PAGE)
ROPE = RotaryEmbedding(HIDDEN, HEADS, 10000.0, 64, interleaved=False)
TABLE = np.array([[7, 2, 5], [2, 0, PAGES]], np.uint32)
"""Shuffled pages; both sequences have page 2, and the second has no third one."""


@pytest.fixture(autouse=True)
def _no_hooks_left() -> Any:
    yield
    nn.clear_hooks()


class Windowed(AttentionWithRope):
    mask_variant = MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK
    local_window_size = 3


class Chunked(AttentionWithRope):
    mask_variant = MHAMaskVariant.CHUNKED_CAUSAL_MASK
    local_window_size = 4


class Tilted(AttentionWithRope):
    mask_variant = MHAMaskVariant.CAUSAL_ALIBI_MASK

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.sinks = Weight("sinks", F32, [HEADS], CPU)

    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args)  # hooks see this call and that


class Ran:
    """One layer of attention that ran: its recorder, and a function that runs it again."""

    def __init__(
        self, kind: type[AttentionWithRope], place: DeviceRef = CPU, **options: Any
    ) -> None:
        self.place = place
        self.layer = kind(
            rope=ROPE,
            num_attention_heads=HEADS,
            num_key_value_heads=KEYS,
            hidden_size=HIDDEN,
            kv_params=PARAMS,
            devices=[place],
        )
        filled(self.layer)
        state = dict(self.layer.state_dict()) | {"o_proj.weight": np.eye(HIDDEN, dtype=np.float32)}
        self.layer.load_state_dict(state)
        self.recorder = StepRecorder(**options)
        types = [
            TensorType(U32, [], CPU),
            TensorType(F32, ["tokens", HIDDEN], place),
            TensorType(U32, ["ends"], place),
            *PagedCacheInputSymbols.of(PARAMS, LAYERS, place),
        ]
        with Graph("attention", input_types=types) as graph:
            number, x, offsets = (value.tensor for value in graph.inputs[:3])
            cache = PagedCacheValues.of(graph.inputs[3:])
            graph.output(self.layer(number, x, cache, ROPE.freqs_cis, offsets))
        self.recorder.remove()
        self.model = session(place).load(graph, weights_registry=state)

    def run(self, blocks: Array, new: list[int], cached: list[int]) -> tuple[Array, Array]:
        """The output, and the pages after it."""
        pages = at(blocks, self.place)
        longest = max(a + b for a, b in zip(new, cached, strict=True))
        there = (
            random(sum(new), HIDDEN),
            np.cumsum([0, *new]).astype(np.uint32),
            np.array(cached, np.uint32),
            TABLE,
        )
        x, ends, lengths, table = (at(array, self.place) for array in there)
        layer = Tensor.from_numpy(np.array(1, np.uint32))
        most = Tensor.from_numpy(np.array([[max(new), longest]], np.uint32))
        (y,) = self.model(layer, x, ends, pages, lengths, table, most)
        return numpy(y), numpy(pages)


@pytest.fixture(scope="module")
def plain() -> Ran:
    return Ran(AttentionWithRope)


@pytest.mark.parametrize("kind", [None, Windowed, Chunked, Tilted])
def test_the_weights_make_the_output_of_the_layer(
    plain: Ran, kind: type[AttentionWithRope] | None
) -> None:
    weights_make_the_output(plain if kind is None else Ran(kind))


def test_the_weights_on_a_gpu() -> None:
    with driver.simulated():
        weights_make_the_output(Ran(AttentionWithRope, DeviceRef.GPU()))


def weights_make_the_output(ran: Ran) -> None:
    """Recorded weights times the values in the pages are what the kernel gave."""
    new, cached = [5, 2], [3, 4]
    y, pages = ran.run(random(PAGES, 2, LAYERS, PAGE, KEYS, SIZE), new, cached)
    step = ran.recorder.recording[-1]
    begin = 0
    for number, (count, before) in enumerate(zip(new, cached, strict=True)):
        seen = step.attention("", number, 0)
        assert seen.position == before
        weights = seen.weights[number]  # [heads, queries, keys]
        places = np.arange(before + count)
        values = pages[TABLE[number, places // PAGE], 1, 1, places % PAGE]
        values = np.repeat(values, HEADS // KEYS, axis=1)
        made = np.einsum("hqk,khd->qhd", weights, values).reshape(count, HIDDEN)
        np.testing.assert_allclose(made, y[begin : begin + count], rtol=1e-4, atol=1e-5)
        assert not weights[:, ~seen.allowed()].any()
        begin += count
    assert step.layers() == [""], "once, also where a subclass calls super()"


def test_pages_of_a_step(plain: Ran) -> None:
    blocks = random(PAGES, 2, LAYERS, PAGE, KEYS, SIZE)
    blocks[5, 0, 1, 0, 1, 3] = np.nan  # the layer is 1: position 8 of the first sequence
    blocks[0, 0, 0] = np.nan  # another layer
    blocks[2, 1, 1] = np.nan  # values, which are not looked at
    plain.run(blocks, [2, 1], [9, 4])
    pages = plain.recorder.recording[-1].pages()
    assert pages.states() == [
        [(7, "prefix"), (2, "shared"), (5, "poisoned")],
        [(2, "shared"), (0, "own")],
    ]
    assert pages.poisoned == {"": [5]}
    assert "sequence 0       9    2  7 2= 5!" in repr(pages)
    assert "page 5: poisoned" in pages._repr_html_()
    assert len(pages.to_csv().splitlines()) == 6
    seen = plain.recorder.recording[-1].attention()
    assert np.isnan(seen.by_head).any()
    assert "[!" in repr(seen)
    assert "#d62728" in seen._repr_html_()


def test_what_a_picture_of_attention_says(plain: Ran) -> None:
    plain.run(random(PAGES, 2, LAYERS, PAGE, KEYS, SIZE), [3, 1], [4, 2])
    seen = plain.recorder.recording[-1].attention(query=0)
    page, text = seen._repr_html_(), repr(seen)
    assert "query at position 4" in text
    assert "mask causal" in page
    assert text.splitlines()[2].count("|") == 2, "two keys come after the query"
    for head, row in enumerate(seen.by_head):
        for key, weight in enumerate(row[:5]):
            assert f"head {head}, key {key}: {weight:.4f}" in page
    shares = seen.by_head.astype(np.float64)
    safe = np.where(shares > 0, shares, 1)
    np.testing.assert_allclose(seen.entropy(), -(shares * np.log2(safe)).sum(1), atol=1e-6)
    with pytest.raises(ArgumentError, match="ML473"):
        seen.at(sequence=2)
    with pytest.raises(ArgumentError, match="ML473"):
        seen.at(query=3)


def test_few_queries_and_some_layers() -> None:
    ran = Ran(AttentionWithRope, queries=2)
    ran.run(random(PAGES, 2, LAYERS, PAGE, KEYS, SIZE), [5, 1], [0, 0])
    seen = ran.recorder.recording[-1].attention()
    assert [one.shape for one in seen.weights] == [(HEADS, 2, 5), (HEADS, 1, 1)]
    assert seen.first == (3, 0)
    none = Ran(AttentionWithRope, layers=["layers.3"])
    none.run(random(PAGES, 2, LAYERS, PAGE, KEYS, SIZE), [1, 1], [0, 0])
    assert len(none.recorder.recording) == 0


# ---------------------------------------------------------------- experts and adapters
class Both(nn.Module):
    """Experts, then a perceptron with adapters."""

    def __init__(self) -> None:
        self.experts = nn.moe.MoE([CPU], 8, 5, 2, 4, dtype=F32)
        self.mlp = nn.MLP(F32, None, 8, 6, [CPU])
        add_lora(self.mlp, 3, 2, F32)

    def __call__(self, x: Any) -> Any:
        return self.mlp(x + self.experts(x))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A recorder with a file, its path, and a function that runs the model."""
    module = Both()
    state = filled(module)
    path = tmp_path_factory.mktemp("steps") / "steps.jsonl"
    recorder = StepRecorder(path, keep=3)
    recorder.name_adapters(lambda: {1: "<poems>"})
    types = [
        TensorType(F32, ["rows", 8]),
        TensorType(DType.int32, ["n"]),
        TensorType(U32, ["n"]),
        TensorType(U32, ["ends"]),
    ]
    with Graph("both", input_types=types) as graph:
        x, *batch = (value.tensor for value in graph.inputs)
        set_lora_batch_info(module, *batch)
        graph.output(module(x))
    recorder.remove()
    model = engine.InferenceSession().load(graph, weights_registry=state)

    def run(x: Array) -> None:
        ids, ranks = np.array([1, -1], np.int32), np.array([2, 0], np.uint32)
        model(x, ids, ranks, np.array([0, 3, len(x)], np.uint32))

    return recorder, path, run, state


Kept = tuple[StepRecorder, Path, Callable[[Array], None], dict[str, Any]]


def test_experts_and_adapters(both: Kept) -> None:
    recorder, _, run, state = both
    x = random(7, 8)
    run(x)
    step = recorder.recording[-1]
    best = np.argsort(-(x @ state["experts.gate.gate_score.weight"].T), axis=1)[:, :2]
    counts = np.bincount(best.ravel(), minlength=5)
    assert step.experts().counts["experts"].tolist() == counts.tolist()
    for expert, count in enumerate(counts):
        if count:
            assert f"expert {expert}: {count} tokens" in step._repr_html_()
    adapters = step.adapters()
    assert (adapters.rows(), adapters.layers) == ({1: 3, -1: 4}, 3)
    assert "3 of 7 rows use 1 adapter, in 3 layers" in repr(adapters)
    assert "&lt;poems&gt;" in adapters._repr_html_()
    assert "<poems>" not in adapters._repr_html_()
    assert [row[2:] for row in adapters._records()] == [("<poems>", 2, 0, 3), ("the base", 0, 3, 4)]
    with pytest.raises(ArgumentError, match="no pages was recorded|ML473"):
        step.pages()


def test_steps_go_and_files_keep_them(both: Kept) -> None:
    recorder, path, run, _ = both
    for rows in range(4, 9):
        run(random(rows, 8))
    assert len(recorder.recording) == 3, "as many as are kept"
    last = recorder.recording[-1]
    kept = [event for event in trace.recorder().events("layer") if event.data.get("step") == 0]
    assert not any(event.data.get("run") == recorder._run for event in kept), "it went there too"
    replayed = StepRecording.from_file(path)
    assert len(replayed) == last.number + 1
    assert repr(replayed[-1]) == repr(last)
    assert [one.number for one in replayed] == list(range(last.number + 1))


def test_a_file_whose_process_was_killed(both: Kept, tmp_path: Path) -> None:
    _, path, run, _ = both
    run(random(4, 8))
    content = path.read_bytes()
    for cut in (1, 30):
        (tmp_path / "cut").write_bytes(content[:-cut])
        assert len(StepRecording.from_file(tmp_path / "cut")) == len(StepRecording.from_file(path))


@pytest.mark.parametrize("damage", range(7))
def test_a_damaged_file(both: Kept, tmp_path: Path, damage: int) -> None:
    _, path, run, _ = both
    run(random(4, 8))
    head, *lines = path.read_text().splitlines()
    data = [json.loads(line) for line in lines]
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda one: one.update(step="1"),
        lambda one: one.pop("counts", None),
        lambda one: one.get("counts", {}).update(shape=[99999]),
        lambda one: one.get("counts", {}).update(dtype="|O"),
        lambda one: one.get("counts", {}).update(data="!"),
    ]
    if damage < len(changes):
        for one in data:
            changes[damage](one)
        text = "\n".join([head, *map(json.dumps, data), ""])
    else:
        text = "[" * 100_000 + "\n" if damage == 5 else f"{head}\n{'[' * 100_000}\n"
    (tmp_path / "damaged").write_text(text)
    with pytest.raises(DocumentError, match="ML474"):
        StepRecording.from_file(tmp_path / "damaged")[-1].experts()


def test_arguments(tmp_path: Path) -> None:
    unfit: list[dict[str, Any]] = [{"queries": 0}, {"keep": True}, {"layers": "a"}]
    for given in unfit:
        with pytest.raises(ArgumentTypeError, match="ML475"):
            StepRecorder(**given)
    recorder = StepRecorder(tmp_path / "file")
    wrong: Any = 3
    for call in (recorder.follow, recorder.name_adapters):
        with pytest.raises(ArgumentTypeError, match="ML475"):
            call(wrong)
    recorder.close()
    with pytest.raises(MaxlabError, match="ML001"):
        StepRecorder(tmp_path)
    with pytest.raises(IndexError):
        recorder.recording[0]


def test_a_recorder_that_was_closed(tmp_path: Path) -> None:
    layer = nn.moe.MoE([CPU], 8, 3, 1, 4, dtype=F32)
    state = filled(layer)
    recorder = StepRecorder(tmp_path / "steps")
    graph = Graph("experts", layer, [TensorType(F32, ["n", 8])])
    model = engine.InferenceSession().load(graph, weights_registry=state)
    model(random(2, 8))
    recorder.close()
    recorder.close()
    model(random(2, 8))
    assert len(recorder.recording) == len(StepRecording.from_file(tmp_path / "steps")) == 1


def test_a_picture_of_many_experts() -> None:
    counts = np.arange(200)
    page = SeenExperts({"<layer>": counts})._repr_html_()
    assert page.count("<rect") == 64
    assert "expert 199: 199 tokens" in page
    assert "<layer>" not in page
    assert "no tokens" in repr(SeenExperts({"": np.zeros(4, np.int64)}))
