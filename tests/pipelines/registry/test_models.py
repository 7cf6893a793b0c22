"""Models of pipelines: what all have, and what those with a cache say of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from maxlab import driver
from maxlab.driver import CPU, Device
from maxlab.dtype import DType
from maxlab.errors import InputError, InputTypeError, UnsupportedError
from maxlab.nn.comm import Signals
from maxlab.nn.kv_cache import KVCacheParams, PagedKVCacheManager
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.interfaces import (
    AlwaysSignalBuffersMixin,
    KVCacheMixin,
    ModelInputs,
    ModelOutputs,
    PipelineModel,
)
from maxlab.pipelines.lib.utils import upper_bounded_default


class Plain(PipelineModel[Any]):
    """A model that is never executed."""

    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        return upper_bounded_default(huggingface_config.longest, pipeline_config.max_length)

    def prepare_initial_token_inputs(self, *args: Any, **kwargs: Any) -> ModelInputs:
        raise NotImplementedError

    def prepare_next_token_inputs(self, *args: Any, **kwargs: Any) -> ModelInputs:
        raise NotImplementedError

    def execute(self, model_inputs: ModelInputs) -> ModelOutputs:
        raise NotImplementedError


class Cached(KVCacheMixin, Plain):
    """A model with a cache, of which it says how large it is."""

    @classmethod
    def get_kv_params(cls, *args: Any, **kwargs: Any) -> KVCacheParams:
        return KVCacheParams(DType.float32, n_kv_heads=2, head_dim=8, page_size=128)

    @classmethod
    def get_num_layers(cls, huggingface_config: Any) -> int:
        return 3

    @classmethod
    def estimate_kv_cache_size(cls, *args: Any, **kwargs: Any) -> int:
        return cls.get_kv_params().bytes_per_block(cls.get_num_layers(None))


class Managed(Cached):
    """A model that makes a manager of its own."""

    def load_kv_manager(self, session: Any, available_cache_memory: int | None) -> Any:
        return ("manager", session, available_cache_memory)


class Always(AlwaysSignalBuffersMixin, Plain):
    """A model that communicates on one device too."""


def made(kind: type[PipelineModel[Any]], devices: list[Device] | None = None, **config: Any) -> Any:
    """A model on the CPU, of a configuration with these settings."""
    cache: Any = SimpleNamespace(available_cache_memory=config.pop("memory", 77))
    given: Any = SimpleNamespace(lora_config=None, max_length=None)
    vars(given).update(config)
    session: Any = "session"
    weights: Any = None
    return kind(
        pipeline_config=given,
        session=session,
        huggingface_config=SimpleNamespace(longest=40),
        encoding=SupportedEncoding.bfloat16,
        devices=[CPU()] if devices is None else devices,
        kv_cache_config=cache,
        weights=weights,
        adapter=None,
        return_logits=ReturnLogits.ALL,
    )


def test_a_model_keeps_what_it_is_made_of() -> None:
    model = made(Plain, max_length=20)
    assert (model.max_seq_len, model.dtype) == (20, DType.bfloat16)
    assert model.return_logits is ReturnLogits.ALL
    assert model.lora_manager is None
    assert not hasattr(model, "kv_manager")
    assert made(Plain).max_seq_len == 40
    with pytest.raises(ValueError, match="at most 40 expected ≠ 41 given"):
        made(Plain, max_length=41)


def test_adapters_are_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        made(Plain, lora_config=SimpleNamespace(enable_lora=True))
    assert caught.value.code == "ML169"


def test_log_probabilities_are_refused_unless_a_model_tells_them() -> None:
    nothing: Any = None
    with pytest.raises(NotImplementedError, match="Plain tells no log probabilities"):
        made(Plain).compute_log_probabilities(nothing, nothing, nothing, nothing, [1], [False])


def test_the_manager_of_a_cache_is_loaded_with_the_memory_it_may_take() -> None:
    assert made(Managed).kv_manager == ("manager", "session", 77)
    page = Cached.estimate_kv_cache_size()
    manager = made(Cached, max_batch_size=2, memory=page).kv_manager
    assert isinstance(manager, PagedKVCacheManager)
    assert (manager.num_free_blocks, manager.max_batch_size, manager.max_seq_len) == (1, 2, 40)
    with pytest.raises(ValueError, match="a cache of at least one page expected"):
        made(Cached, max_batch_size=2, memory=page - 1)


@pytest.mark.parametrize("method", ["get_kv_params", "get_num_layers", "estimate_kv_cache_size"])
def test_a_model_with_a_cache_has_to_say_how_large_it_is(method: str) -> None:
    kind: Any = type("Lacking", (KVCacheMixin, Plain), {})
    assert method in kind.__abstractmethods__
    with pytest.raises(TypeError, match=method):
        made(kind)


@pytest.mark.parametrize(
    ("kind", "on_gpu", "expected"),
    [(Plain, False, 1), (Plain, True, 1), (Managed, False, 1), (Managed, True, 512)],
)
def test_the_size_of_batches(kind: type[PipelineModel[Any]], on_gpu: bool, expected: int) -> None:
    nothing: Any = None
    with driver.simulated():
        devices: list[Device] = [driver.Accelerator() if on_gpu else CPU()]
        found = kind.infer_optimal_batch_size(nothing, 0, nothing, devices, nothing, DType.float32)
    assert found == expected


def test_sizes_that_a_model_tells() -> None:
    model = SimpleNamespace(weights_size=lambda: 1234)
    config: Any = SimpleNamespace(model_config=model)
    assert Plain.estimate_weights_size(config) == 1234
    assert Plain.estimate_activation_memory(config, None) == 0
    assert Cached.estimate_kv_cache_size() == 2 * 3 * 128 * 2 * 8 * 4


def test_signal_buffers_are_made_once_where_they_are_needed() -> None:
    assert made(Plain).signal_buffers == []
    alone = made(Always).signal_buffers
    assert [tuple(one.shape) for one in alone] == [(Signals.NUM_BYTES,)]
    with driver.virtual_cpus(2):
        devices: list[Device] = [CPU(0), CPU(1)]
        model = made(Plain, devices)
        buffers = model.signal_buffers
        assert [one.device for one in buffers] == devices
        assert all(a is b for a, b in zip(model.signal_buffers, buffers, strict=True))
        assert len(made(Always, devices).signal_buffers) == 2


def test_the_example_of_a_longest_text_of_the_reference() -> None:
    class MistralModel(Plain):
        @classmethod
        def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
            try:
                return upper_bounded_default(
                    upper_bound=huggingface_config.max_seq_len,
                    default=pipeline_config.max_length,
                )
            except ValueError as e:
                raise ValueError(
                    "Unable to infer max_length for Mistral, the provided "
                    f"max_length ({pipeline_config.max_length}) exceeds the "
                    f"model's max_seq_len ({huggingface_config.max_seq_len})."
                ) from e

    config = SimpleNamespace(max_seq_len=40)
    for asked, expected in ((None, 40), (20, 20), (40, 40)):
        given = SimpleNamespace(max_length=asked)
        assert MistralModel.calculate_max_seq_len(given, config) == expected
    with pytest.raises(ValueError, match=r"\(41\) exceeds the model's max_seq_len \(40\)"):
        MistralModel.calculate_max_seq_len(SimpleNamespace(max_length=41), config)


@pytest.mark.parametrize(("bound", "default"), [("8", 2), (8, "2"), (None, None), (8, 2.0)])
def test_a_bound_is_an_int(bound: Any, default: Any) -> None:
    with pytest.raises(InputTypeError):
        upper_bounded_default(bound, default)
    with pytest.raises(InputError):
        upper_bounded_default(3, 4)
