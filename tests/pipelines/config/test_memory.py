"""What a pipeline takes of the memory: against what is really allocated, and what would fit."""

from __future__ import annotations

import csv
import io
import xml.dom.minidom
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxlab
from maxlab.driver import CPU, Tensor, memory_stats
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import InputError, InputTypeError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.graph.weights import load_weights
from maxlab.pipelines.lib import config_resolving
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.memory_estimation import GPU_GIGABYTES, MemoryEstimate, gpu_memory
from maxlab.pipelines.lib.model_shape import shape_of
from tests.pipelines.config import folders

LLAMA = folders.LLAMA


@contextmanager
def free(nbytes: int) -> Iterator[None]:
    """A block in which the devices have so many bytes free."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config_resolving, "free_memory", lambda devices: nbytes)
        yield


# ---------------------------------------------------------------- against real allocations
def test_weights_are_those_that_are_loaded(tiny: str) -> None:
    estimate = PipelineConfig(model_path=tiny).estimate_memory()
    path = Path(tiny) / "model.safetensors"
    arrays = [np.asarray(one.data().data) for _, one in load_weights([path]).items()]
    head = int.from_bytes(path.read_bytes()[:8], "little") + 8
    assert estimate.weights == sum(array.nbytes for array in arrays) + head


@pytest.mark.parametrize(("batch", "length", "page"), [(3, 100, 64), (1, 128, 128), (4, 1, 16)])
def test_the_cache_is_what_its_blocks_take(tiny: str, batch: int, length: int, page: int) -> None:
    config = PipelineConfig(
        model_path=tiny, max_batch_size=batch, max_length=length, kv_cache_page_size=page
    )
    pages = batch * -(-length // page)
    heads, head = LLAMA["num_key_value_heads"], LLAMA["hidden_size"] // LLAMA["num_attention_heads"]
    blocks = (pages, 2, LLAMA["num_hidden_layers"], page, heads, head)
    before = memory_stats().live
    held = Tensor.zeros(blocks, DType.float32, CPU())
    taken = memory_stats().live - before
    estimate = config.estimate_memory()
    assert held.num_elements * 4 == estimate.cache
    assert estimate.cache <= taken < estimate.cache + 4096


@pytest.mark.parametrize(
    ("hidden", "heads", "kv_heads", "head", "between"),
    [(64, 4, 2, 16, 96), (32, 8, 8, 16, 48), (16, 2, 1, 8, 128)],
)
def test_activations_are_near_those_of_a_compiled_layer(
    hidden: int, heads: int, kv_heads: int, head: int, between: int
) -> None:
    """The layer of a Llama without the scores of attention, which no kernel keeps whole."""
    tokens = 512

    def of(*shape: int) -> TensorType:
        return TensorType(DType.float32, shape, DeviceRef.CPU())

    def norm(x: TensorValue) -> TensorValue:
        ones = ops.constant(np.ones(hidden, np.float32), DType.float32, DeviceRef.CPU())
        return ops.rms_norm(x, ones, 1e-6)

    def layer(x: Any, q: Any, k: Any, v: Any, o: Any, gate: Any, up: Any, down: Any) -> Any:
        y = norm(x)
        query, key, value = y @ q, y @ k, y @ v
        for part in (key, value):
            query = query + ops.concat([part] * (heads // kv_heads), 1) * 0.5
        x = x + query @ o
        y = norm(x)
        return x + (ops.silu(y @ gate) * (y @ up)) @ down

    inner = [of(hidden, heads * head), *[of(hidden, kv_heads * head)] * 2, of(heads * head, hidden)]
    outer = [*[of(hidden, between)] * 2, of(between, hidden)]
    graph = Graph("layer", layer, [of(tokens, hidden), *inner, *outer])
    plan = maxlab.memory(InferenceSession().load(graph))
    shape = shape_of(
        SimpleNamespace(
            architectures=["LlamaForCausalLM"],
            hidden_size=hidden,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head,
            intermediate_size=between,
            num_hidden_layers=1,
            vocab_size=8,
        )
    )
    really = plan.arena + tokens * hidden * 4  # the arena, and the layer's input beside it
    assert really <= shape.widest * 4 * tokens <= 1.6 * really


# ---------------------------------------------------------------- what fits
ESTIMATES = st.builds(
    MemoryEstimate,
    device=st.just("cpu"),
    free=st.just(10**7),
    budget=st.integers(0, 10**6),
    weights=st.integers(0, 10**5),
    fixed_activations=st.integers(0, 1000),
    per_active_token=st.integers(0, 50),
    per_sequence=st.integers(0, 50),
    active_tokens=st.none() | st.integers(1, 500),
    per_token=st.integers(0, 100),
    page=st.integers(1, 64),
    batch=st.integers(1, 8),
    length=st.integers(1, 100),
    most_length=st.none() | st.integers(1, 4000),
)


@given(ESTIMATES, st.integers(1, 50))
def test_what_is_said_to_fit_fits_and_no_more(estimate: MemoryEstimate, number: int) -> None:
    batch = estimate.largest_batch(number, most=10**4)
    if batch:
        assert estimate.needed_for(batch, number) <= estimate.budget
    if batch < 10**4:
        assert estimate.needed_for(batch + 1, number) > estimate.budget
    length = estimate.longest_length(number)
    most = estimate.most_length or 2**31 - 1
    assert length <= most
    if length:
        assert estimate.needed_for(number, length) <= estimate.budget
    if length < most:
        assert estimate.needed_for(number, length + 1) > estimate.budget
    assert sum(nbytes for _, nbytes in estimate.parts()) == max(estimate.needed, estimate.budget)


def test_a_small_memory_clamps_the_length(tiny: str, caplog: pytest.LogCaptureFixture) -> None:
    large = PipelineConfig(model_path=tiny).estimate_memory()
    room = large.weights + large.activations_of(1, 128) + large.cache_of(1, 128)
    with free(int(room / 0.9) + 1):
        config = PipelineConfig(model_path=tiny)
        assert (config.max_length, config.max_batch_size) == (128, 1)
        assert config.estimate_memory().fits
        asked = PipelineConfig(model_path=tiny, max_length=200)
        assert asked.max_length == 128
        assert "200 tokens do not fit" in caplog.text
        assert PipelineConfig(model_path=tiny, max_length=100).max_length == 100
    asked.resolve()  # with memory again, as much as was asked for and no more
    assert asked.max_length == 200
    available = config.model_config.kv_cache_config.available_cache_memory
    assert available is not None
    assert 0 <= available - large.cache_of(1, 128) < large.cache_of(1, 128)


def test_a_batch_that_does_not_fit_at_once_is_told(
    tiny: str, caplog: pytest.LogCaptureFixture
) -> None:
    with free(10**6):
        config = PipelineConfig(model_path=tiny, max_batch_size=500, max_length=256)
    assert config.max_batch_size == 500  # most sequences are shorter than the longest
    assert "of max_batch_size=500 sequences fit" in caplog.text


def test_a_model_that_does_not_fit_is_refused(tiny: str) -> None:
    with free(5000), pytest.raises(InputError, match="ML135") as raised:
        PipelineConfig(model_path=tiny)
    for part in ("its weights take 4.07 kB", "5.00 kB are free", "a GPU that has it is T4"):
        assert part in str(raised.value)


def test_the_utilization_and_the_chunk_change_what_fits(tiny: str) -> None:
    with free(10**6):
        half = PipelineConfig(model_path=tiny, device_memory_utilization=0.5).estimate_memory()
        most = PipelineConfig(model_path=tiny, device_memory_utilization=1.0).estimate_memory()
        assert (half.budget, most.budget) == (500_000, 1_000_000)
        small = PipelineConfig(model_path=tiny, prefill_chunk_size=16).estimate_memory()
        whole = PipelineConfig(model_path=tiny, prefill_chunk_size=16, enable_chunked_prefill=False)
        assert small.activations_of(1, 256) < whole.estimate_memory().activations_of(1, 256)


def test_echo_keeps_the_logits_of_every_token(tiny: str) -> None:
    plain = PipelineConfig(model_path=tiny).estimate_memory()
    echo = PipelineConfig(model_path=tiny, enable_echo=True).estimate_memory()
    assert echo.activations_of(1, 10) == plain.activations_of(1, 10) + 10 * LLAMA["vocab_size"] * 4


def test_a_model_without_a_cache_has_none(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers not installed; extra oracle has it")
    config = PipelineConfig(model_path=folders.model(tmp_path / "bert", folders.BERT))
    estimate = config.estimate_memory()
    assert (estimate.per_token, estimate.cache, estimate.per_sequence) == (0, 0, 0)
    assert config.max_length == 64
    assert config.model_config.kv_cache_config.available_cache_memory == 0


@pytest.mark.parametrize(
    ("changed", "cached"),
    [
        ({}, 2 * 2 * 8),
        ({"num_key_value_heads": None}, 2 * 4 * 8),
        ({"head_dim": 5}, 2 * 2 * 5),
        ({"kv_lora_rank": 12, "qk_rope_head_dim": 4}, 16),
        ({"architectures": ["LlamaModel"]}, 0),
    ],
)
def test_the_cache_of_a_token(changed: dict[str, Any], cached: int) -> None:
    assert shape_of(SimpleNamespace(**{**LLAMA, **changed})).cached == cached


@pytest.mark.parametrize("value", [0, -1, "8", 2.0, True, 10**30, [8]])
@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers", "head_dim"])
def test_a_size_that_is_no_count_is_refused(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        shape_of(SimpleNamespace(**{**LLAMA, name: value}))


# ---------------------------------------------------------------- named GPUs
def test_every_gpu_of_the_table_is_found() -> None:
    for name, gigabytes in GPU_GIGABYTES.items():
        for text in (name, name.lower(), f"NVIDIA {name}", name.replace("-", " ")):
            assert gpu_memory(text) == (name, gigabytes * 10**9)
        assert gpu_memory(f"4x {name}") == (f"4x {name}", 4 * gigabytes * 10**9)


@pytest.mark.parametrize("name", ["", "H1000", "0x H100", "x H100", "9999x H100", "\0", "a" * 999])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="ML137") as raised:
        gpu_memory(name)
    assert len(str(raised.value)) < 500


def test_a_name_is_a_text() -> None:
    with pytest.raises(InputTypeError):
        gpu_memory(80)  # type: ignore[arg-type]


def test_the_memory_of_a_named_gpu_is_used(tiny: str) -> None:
    config = PipelineConfig(model_path=tiny, device_memory_utilization=0.5)
    estimate = config.estimate_memory(on="h100")
    assert (estimate.device, estimate.budget) == ("H100", 40 * 10**9)
    assert str(estimate).startswith("Memory on H100: ")


# ---------------------------------------------------------------- showing
def test_the_picture_is_to_scale_and_says_its_numbers(tiny: str) -> None:
    with free(10**6):
        estimate = PipelineConfig(model_path=tiny, max_batch_size=2).estimate_memory()
    page = estimate._repr_html_()
    svg = xml.dom.minidom.parseString(page[page.index("<svg") : page.index("</svg>") + 6])
    widths = [float(one.getAttribute("width")) for one in svg.getElementsByTagName("rect")][1:]
    for width, (_, nbytes) in zip(widths, estimate.parts(), strict=True):
        assert width == pytest.approx(nbytes / estimate.budget * 640, abs=0.01)
    for word in ("http:", "https:", "<script", "<img"):
        assert word not in page
    rows = list(csv.reader(io.StringIO(estimate.to_csv())))
    assert rows[0] == ["part", "memory [B]", "share of the budget"]
    assert [int(row[1]) for row in rows[1:]] == [nbytes for _, nbytes in estimate.parts()]
    told = str(estimate).splitlines()
    assert told[0].endswith("fits")
    for row in ((256, estimate.largest_batch(256)), (8, estimate.longest_length(8))):
        assert any(line.split() == [str(one) for one in row] for line in told)
        assert f"<tr><td>{row[0]}</td><td>{row[1]}</td></tr>" in page


def test_too_much_is_told(tiny: str) -> None:
    with free(10**6):
        config = PipelineConfig(model_path=tiny, max_batch_size=500, max_length=256)
        estimate = config.estimate_memory()
    assert not estimate.fits
    assert "too much" in estimate.title()
    assert "too much" in estimate._repr_html_()
