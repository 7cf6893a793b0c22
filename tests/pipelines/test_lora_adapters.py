"""Adapters in folders: what is read, what is refused, and that nothing changes then."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from maxlab.driver import CPU, Accelerator
from maxlab.dtype import DType
from maxlab.errors import InputError
from maxlab.graph import DeviceRef
from maxlab.interfaces import LoRAOperation, LoRARequest, LoRAStatus
from maxlab.nn.lora import LinearLoRA
from maxlab.pipelines.lib.config import LoRAConfig
from maxlab.pipelines.lib.lora import LoRAManager
from maxlab.pipelines.lib.lora_adapter import read_adapter
from tests.cpu_and_gpu import numpy

Array = np.ndarray[Any, Any]
F32, RANK = DType.float32, 4
SIZES = {"layers.0.self_attn.q_proj": (6, 10), "layers.0.mlp.up_proj": (6, 8)}
LAYERS = {
    path: LinearLoRA(inputs, outputs, 2, RANK, F32, DeviceRef.CPU())
    for path, (inputs, outputs) in SIZES.items()
}
STEM = "base_model.model.model."
Q, UP = SIZES


def matrices(seed: int = 0, rank: int = 2) -> dict[str, Array]:
    """Random matrices of all layers, by the names of a file."""
    rng = np.random.default_rng(seed)
    found = {}
    for path, (inputs, outputs) in SIZES.items():
        for letter, shape in (("A", (rank, inputs)), ("B", (outputs, rank))):
            found[f"{STEM}{path}.lora_{letter}.weight"] = rng.normal(size=shape).astype(np.float32)
    return found


def write(folder: Path, weights: dict[str, Array] | None = None, **entries: Any) -> Path:
    """Writes an adapter; ``entries`` stand in its configuration, None for none."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "bias": "none"} | entries
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save_file(matrices() if weights is None else weights, folder / "adapter_model.safetensors")
    return folder


def manager(slots: int = 2) -> LoRAManager:
    config = LoRAConfig(enable_lora=True, max_num_loras=slots, max_lora_rank=RANK)
    return LoRAManager(config, LAYERS, F32, CPU(), ["base"])


def slots_of(one: LoRAManager) -> dict[str, Array]:
    return {name: tensor.to_numpy().copy() for name, tensor in one.weights.items()}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_factor_is_in_one_matrix_once(tmp_path: Path, dtype: str) -> None:
    kind = DType[dtype].ml_numpy
    given = {name: value.astype(kind) for name, value in matrices().items()}
    found = read_adapter("a", str(write(tmp_path / "a", given)), LAYERS, F32, RANK)
    assert found.rank == 2
    size = sum(2 * (i + o) * 4 for i, o in SIZES.values())
    assert repr(found).endswith(f"rank=2, 2 layers, {size} bytes)")
    for path in SIZES:
        a, b = (given[f"{STEM}{path}.lora_{letter}.weight"] for letter in "AB")
        np.testing.assert_array_equal(found.layers[path].a, a.astype(np.float32))
        np.testing.assert_array_equal(found.layers[path].b, b.astype(np.float32) * 3)


@pytest.mark.parametrize(
    ("entries", "factors"),
    [
        ({"use_rslora": True}, (6 / 2**0.5, 6 / 2**0.5)),
        ({"alpha_pattern": {"up_proj": 1}}, (3, 0.5)),
        ({"alpha_pattern": {r".*\.0\.self_attn\.q_proj": 8}}, (4, 3)),
        ({"alpha_pattern": {"proj": 8}}, (3, 3)),
        ({"init_lora_weights": "gaussian"}, (3, 3)),
    ],
    ids=["rslora", "name", "expression", "part of a name", "gaussian"],
)
def test_factors_of_layers(
    tmp_path: Path, entries: dict[str, Any], factors: tuple[float, float]
) -> None:
    found = read_adapter("a", str(write(tmp_path / "a", **entries)), LAYERS, F32, RANK)
    for path, factor in zip(SIZES, factors, strict=True):
        b = matrices()[f"{STEM}{path}.lora_B.weight"]
        np.testing.assert_allclose(found.layers[path].b, b * factor, rtol=1e-6)


def _without(name: str) -> dict[str, Array]:
    return {full: value for full, value in matrices().items() if not full.endswith(name)}


def _with(name: str, value: Array) -> dict[str, Array]:
    return matrices() | {name: value}


REFUSED: dict[str, tuple[Callable[[Path], Any], str, LoRAStatus]] = {
    "no folder": (lambda p: None, "ML537", LoRAStatus.LOAD_INVALID_PATH),
    "a file": (lambda p: p.write_text("x"), "ML537", LoRAStatus.LOAD_INVALID_PATH),
    **{
        name: (make, code, LoRAStatus.LOAD_INVALID_ADAPTER)
        for name, (make, code) in {
            "an empty folder": (lambda p: p.mkdir(), "ML537"),
            "no weights": (
                lambda p: (write(p) / "adapter_model.safetensors").unlink(),
                "ML537",
            ),
            "damaged weights": (
                lambda p: (write(p) / "adapter_model.safetensors").write_bytes(b"\x10" * 40),
                "ML537",
            ),
            "a damaged configuration": (
                lambda p: (write(p) / "adapter_config.json").write_text("{"),
                "ML537",
            ),
            "nothing in it": (lambda p: write(p, {"x.lora_A": np.ones(1, np.float32)}), "ML537"),
            "another kind": (lambda p: write(p, peft_type="IA3"), "ML537"),
            "DoRA": (lambda p: write(p, use_dora=True), "ML537"),
            "trained biases": (lambda p: write(p, bias="all"), "ML537"),
            "whole layers": (lambda p: write(p, modules_to_save=["lm_head"]), "ML537"),
            "PiSSA": (lambda p: write(p, init_lora_weights="pissa_niter_4"), "ML537"),
            "a rank of 0": (lambda p: write(p, r=0), "ML537"),
            "no alpha": (lambda p: write(p, lora_alpha=None), "ML537"),
            "no expression": (lambda p: write(p, rank_pattern={"(": 2}), "ML537"),
            "A alone": (lambda p: write(p, _without("q_proj.lora_B.weight")), "ML537"),
            "an embedding": (
                lambda p: write(p, _with(f"{STEM}embed.lora_embedding_A", np.ones(2, np.float32))),
                "ML537",
            ),
            "a rank above the largest": (lambda p: write(p, matrices(0, 5), r=5), "ML538"),
            "an unknown layer": (
                lambda p: write(
                    p, _with(f"{STEM}layers.1.self_attn.q_proj.lora_A.weight", np.ones((2, 6)))
                ),
                "ML538",
            ),
            "another rank than told": (lambda p: write(p, r=3), "ML538"),
            "other inputs": (
                lambda p: write(p, _with(f"{STEM}{Q}.lora_A.weight", np.ones((2, 7), np.float32))),
                "ML538",
            ),
            "outputs first": (
                lambda p: write(p, _with(f"{STEM}{UP}.lora_B.weight", np.ones((2, 8), np.float32))),
                "ML538",
            ),
            "integers": (
                lambda p: write(p, _with(f"{STEM}{Q}.lora_A.weight", np.ones((2, 6), np.int32))),
                "ML538",
            ),
            "NaN": (
                lambda p: write(
                    p, _with(f"{STEM}{Q}.lora_A.weight", np.full((2, 6), np.nan, np.float32))
                ),
                "ML538",
            ),
        }.items()
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_and_nothing_changes(tmp_path: Path, name: str) -> None:
    make, code, status = REFUSED[name]
    path = tmp_path / "bad"
    make(path)
    one = manager()
    one.load_adapter(f"good={write(tmp_path / 'good')}")
    one.get_lora_graph_inputs([_Asks("good")])
    before = slots_of(one)
    with pytest.raises(InputError) as caught:
        one.load_adapter(str(path), "bad")
    assert caught.value.code == code
    answer = one.answer(LoRARequest(LoRAOperation.LOAD, "bad", str(path)))
    assert answer.status is status
    assert code in answer.message
    assert one.loras == ["good"]
    for key, value in slots_of(one).items():
        np.testing.assert_array_equal(value, before[key])


class _Asks:
    """What the manager reads of the state of a request."""

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name


def test_requests_and_answers(tmp_path: Path) -> None:
    one, folder = manager(), str(write(tmp_path / "a"))

    def ask(operation: LoRAOperation, name: str | None = None, path: str | None = None) -> Any:
        return one.answer(LoRARequest(operation, name, path))

    load, unload = LoRAOperation.LOAD, LoRAOperation.UNLOAD
    assert ask(load, "a", folder).status is LoRAStatus.SUCCESS
    assert ask(load, "a", folder).status is LoRAStatus.LOAD_NAME_EXISTS
    assert ask(load, "base", folder).status is LoRAStatus.LOAD_NAME_EXISTS
    assert ask(load, "b").status is LoRAStatus.LOAD_INVALID_PATH
    assert ask(load, None, folder).status is LoRAStatus.SUCCESS, "its name is the path"
    listed = ask(LoRAOperation.LIST)
    assert (listed.status, listed.message) == (LoRAStatus.SUCCESS, ["a", folder])
    assert ask(unload, "a").status is LoRAStatus.SUCCESS
    assert ask(unload, "a").status is LoRAStatus.UNLOAD_NAME_NONEXISTENT
    assert ask(unload).status is LoRAStatus.UNLOAD_NAME_NONEXISTENT
    assert one.loras == [folder]


def test_slots_ids_and_ranks(tmp_path: Path) -> None:
    one = manager()
    for seed, name in enumerate("abc"):
        one.load_adapter(f"{name}={write(tmp_path / name, matrices(seed, seed + 1), r=seed + 1)}")

    def ids(*names: str) -> tuple[list[int], list[int]]:
        found = one.get_lora_graph_inputs([_Asks(name) for name in names])
        slots, ranks = (tensor.to_numpy().tolist() for tensor in found)
        return slots, ranks

    assert ids("base", "", "c", "a", "c") == ([-1, -1, 0, 1, 0], [0, 0, 3, 1, 3])
    b = one.weights[f"{Q}.lora_B.weight"].to_numpy()
    np.testing.assert_allclose(b[0, :, :3], matrices(2, 3)[f"{STEM}{Q}.lora_B.weight"] * 2)
    assert not b[0, :, 3:].any()
    assert ids("c", "b") == ([0, 1], [3, 2]), "a was used longest ago"
    assert one.active == ["c", "b"]
    assert repr(one) == "LoRAManager(3 adapters, 2 of 2 slots in use, ranks up to 4)"
    one.unload_adapter("c")
    assert ids("a") == ([0], [1]), "the slot is free"
    assert not one.weights[f"{Q}.lora_A.weight"].to_numpy()[0, 1:].any(), "nothing of c is left"
    assert ids() == ([], [])


def test_requests_of_one_adapter_side_by_side(tmp_path: Path) -> None:
    one = manager()
    names = ("base", "b", "a", "", "b", "a", "b")
    batch = [_Asks(name) for name in names]
    found = one.sort_lora_batch(batch)
    assert [each.model_name for each in found] == ["b", "b", "b", "a", "a", "base", ""]
    assert [batch.index(each) for each in found] == [1, 4, 6, 2, 5, 0, 3], "in their order"


def test_slots_of_another_dtype(tmp_path: Path, place: DeviceRef) -> None:
    """They are rounded once, behind the factor, and may be on a GPU."""
    device = CPU() if place.is_cpu() else Accelerator()
    config = LoRAConfig(enable_lora=True, max_num_loras=2, max_lora_rank=RANK)
    one = LoRAManager(config, LAYERS, DType.bfloat16, device)
    one.load_adapter(f"a={write(tmp_path / 'a', matrices(4))}")
    one.get_lora_graph_inputs([_Asks(""), _Asks("a")])
    slot = numpy(one.weights[f"{Q}.lora_B.weight"])[0, :, :2]
    wanted = (matrices(4)[f"{STEM}{Q}.lora_B.weight"] * 3).astype(DType.bfloat16.ml_numpy)
    np.testing.assert_array_equal(slot, wanted)


def test_keys_of_prefixes_follow_the_content(tmp_path: Path) -> None:
    one = manager()
    for name, seed in (("a", 0), ("same", 0), ("b", 1)):
        one.load_adapter(f"{name}={write(tmp_path / name, matrices(seed))}")
    key = {name: one.prefix_key(_Asks(name)) for name in ("", "base", "a", "same", "b")}
    assert key[""] == key["base"] == ""
    assert key["a"] == key["same"] != key["b"]
    one.unload_adapter("b")
    with pytest.raises(InputError) as caught:
        one.prefix_key(_Asks("b"))
    assert caught.value.code == "ML539"


def test_an_adapter_is_in_memory(tmp_path: Path) -> None:
    """What becomes of its files does not matter once it is loaded."""
    one, folder = manager(), write(tmp_path / "a")
    one.load_adapter(f"a={folder}")
    (folder / "adapter_model.safetensors").write_bytes(b"")
    one.get_lora_graph_inputs([_Asks("a")])
    b = one.weights[f"{Q}.lora_B.weight"].to_numpy()[0, :, :2]
    np.testing.assert_allclose(b, matrices()[f"{STEM}{Q}.lora_B.weight"] * 3)


def test_one_name_is_loaded_once_by_many_threads(tmp_path: Path) -> None:
    one, folder = manager(), str(write(tmp_path / "a"))
    found: list[LoRAStatus] = []
    request = LoRARequest(LoRAOperation.LOAD, "a", folder)
    threads = [
        threading.Thread(target=lambda: found.append(one.answer(request).status)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [LoRAStatus.LOAD_NAME_EXISTS] * 7 + [LoRAStatus.SUCCESS]
