"""A model that serves adapters, against transformers with the adapters merged into its weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.errors import InputError, UnsupportedError
from maxlab.interfaces import LoRAOperation, LoRARequest, LoRAStatus
from maxlab.pipelines.architectures import llama
from maxlab.pipelines.architectures.decoder import DecoderModel
from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.lora import LoRAManager
from maxlab.pipelines.lib.registry import PipelineRegistry
from tests.pipelines.decoders.adapters import ATTENTION, adapter_folder
from tests.pipelines.decoders.running import Run, compare, decoder_of
from tests.pipelines.decoders.test_decoders import ROWS
from tests.pipelines.decoders.tiny import SIZES, decoder_folder

COUNT = 12
"""Tokens that are drawn."""


@dataclass
class Served:
    """A model with two slots, and what transformers makes of the base and of four adapters."""

    folder: Path
    model: DecoderModel
    oracles: dict[str, Any]
    base_bytes: dict[str, bytes]

    @property
    def manager(self) -> LoRAManager:
        assert self.model.lora_manager is not None
        return self.model.lora_manager

    def ask(self, operation: LoRAOperation, name: str, path: str | None = None) -> LoRAStatus:
        where = None if path is None else str(self.folder / path)
        return self.manager.answer(LoRARequest(operation, name, where)).status


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("lora")
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    mine.register(llama.ARCHITECTURES[0])
    base = decoder_folder(folder / "base", "LlamaForCausalLM", seed=3)
    oracles = {
        "": base,
        "four": adapter_folder(folder / "four", base, 1, 4, 8.0, ATTENTION),
        "eight": adapter_folder(folder / "eight", base, 2, 8, 4.0),
        "mixed": adapter_folder(
            folder / "mixed", base, 3, 2, 3.0, use_rslora=True, rank_pattern={"v_proj": 5},
            alpha_pattern={"down_proj": 6.0},
        ),
        "other": adapter_folder(folder / "other", base, 4, 3, 6.0),
    }  # fmt: skip
    model = decoder_of(
        folder / "base",
        llama.ARCHITECTURES[0],
        enable_lora=True,
        max_num_loras=2,
        max_lora_rank=8,
        lora_paths=[f"four={folder / 'four'}", f"eight={folder / 'eight'}"],
    )
    yield Served(folder, model, oracles, _base_bytes(model))
    use_registry(before)


def _base_bytes(model: DecoderModel) -> dict[str, bytes]:
    """All weights of the base as the model holds them."""
    weights = {k: v for k, v in model.model.weights.items() if ".lora_" not in k}
    assert len(weights) > 10
    return {name: tensor.to_numpy().tobytes() for name, tensor in weights.items()}


def _prompt(seed: int, length: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(3, SIZES["vocab_size"], length)


def test_the_base_and_two_adapters_in_one_batch(served: Served) -> None:
    run = Run(served.model)
    names = ("four", "", "eight", "four")
    texts = [
        run.begin(_prompt(seed, length), name)
        for seed, (name, length) in enumerate(zip(names, (9, 12, 140, 1), strict=True))
    ]
    run.write(*texts, count=COUNT)
    for name, text in zip(names, texts, strict=True):
        compare(text, COUNT, served.oracles[name])
    same = run.begin(texts[0].tokens[:9])
    run.write(same, count=1)
    far = np.abs(same.rows[8] - texts[0].rows[8]).max()
    assert far > 0.1, "the adapter says something else than the base"
    run.end(same)
    assert _base_bytes(served.model) == served.base_bytes
    run.end(*texts)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft reads what transformers will drop
def test_folders_are_those_of_peft(served: Served) -> None:
    """What peft reads of the folders that these tests write, and a folder that peft writes."""
    peft = pytest.importorskip("peft", reason="peft not installed")
    for name in ("eight", "mixed"):
        read = peft.PeftModel.from_pretrained(
            copy.deepcopy(served.oracles[""]), str(served.folder / name)
        ).merge_and_unload()
        for path, weight in served.oracles[name].state_dict().items():
            found = read.state_dict()[path].numpy()
            np.testing.assert_allclose(found, weight.numpy(), atol=1e-6, err_msg=path)
    config = peft.LoraConfig(
        r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights=False
    )
    model = peft.get_peft_model(copy.deepcopy(served.oracles[""]), config)
    model.save_pretrained(str(served.folder / "written"))
    assert served.ask(LoRAOperation.LOAD, "written", "written") is LoRAStatus.SUCCESS
    run = Run(served.model)
    text = run.begin(_prompt(9, 11), "written")
    run.write(text, count=COUNT)
    compare(text, COUNT, model)
    run.end(text)
    assert served.ask(LoRAOperation.UNLOAD, "written") is LoRAStatus.SUCCESS


def test_an_adapter_comes_in_for_the_one_used_longest_ago(served: Served) -> None:
    """Nothing is compiled anew, and the same slots hold other adapters."""
    run, manager, executable = Run(served.model), served.manager, served.model.model
    assert served.ask(LoRAOperation.LOAD, "mixed", "mixed") is LoRAStatus.SUCCESS
    assert manager.loras == ["four", "eight", "mixed"]
    copies = 0
    for names, active, more in (
        (("four", "eight"), ["four", "eight"], None),
        (("four", ""), ["eight", "four"], 0),
        (("mixed", "four"), ["four", "mixed"], 1),
        (("eight", "mixed"), ["mixed", "eight"], 1),
    ):
        before = manager.num_copies
        texts = [run.begin(_prompt(7, 11), name) for name in names]
        run.write(*texts, count=3)
        for name, text in zip(names, texts, strict=True):
            compare(text, 3, served.oracles[name])
        run.end(*texts)
        assert set(manager.active) == set(active)
        if more is not None:
            assert manager.num_copies == before + more
        copies = manager.num_copies
    assert copies
    assert served.model.model is executable
    assert served.ask(LoRAOperation.UNLOAD, "mixed") is LoRAStatus.SUCCESS


def test_another_adapter_by_the_same_name(served: Served) -> None:
    """A prefix that the first one computed is not taken for the second."""
    run, manager, prompt = Run(served.model), served.manager, _prompt(11, 150)
    for path in ("mixed", "other", "mixed"):
        assert served.ask(LoRAOperation.LOAD, "swapped", path) is LoRAStatus.SUCCESS
        text = run.begin(prompt, "swapped")
        run.write(text, count=4)
        compare(text, 4, served.oracles[path])
        before = run.computed
        again = run.begin(prompt, "swapped")
        run.write(again, count=1)
        assert run.computed == before + 150 - 128, "the same adapter shares its pages"
        run.end(text, again)
        assert served.ask(LoRAOperation.UNLOAD, "swapped") is LoRAStatus.SUCCESS
    base = run.begin(prompt)
    run.write(base, count=2)
    compare(base, 2, served.oracles[""])
    run.end(base)
    assert _base_bytes(served.model) == served.base_bytes
    assert "swapped" not in manager


def test_names_that_no_adapter_has_and_too_many_adapters(served: Served) -> None:
    manager = served.manager
    assert served.ask(LoRAOperation.LOAD, "third", "other") is LoRAStatus.SUCCESS
    run = Run(served.model)
    texts = [run.begin(_prompt(1, 5), name) for name in ("four", "eight", "third")]
    before = manager.active
    with pytest.raises(InputError) as caught:
        run.step(*texts)
    assert caught.value.code == "ML540"
    run.end(*texts)
    assert served.ask(LoRAOperation.UNLOAD, "third") is LoRAStatus.SUCCESS
    text = run.begin(_prompt(1, 5), "third")
    with pytest.raises(InputError, match="no adapter 'third'") as caught:
        run.step(text)
    assert caught.value.code == "ML539"
    run.end(text)
    assert manager.active == before
    for name in ("base", str(served.folder / "base")):
        manager.require_adapter(run.begin(_prompt(1, 5), name).context)


OTHERS = {row.name: row for row in ROWS if row.name not in ("phi3", "phi3-long")}


@pytest.mark.parametrize("name", OTHERS)
def test_every_architecture_takes_adapters(name: str, tmp_path: Path) -> None:
    row = OTHERS[name]
    base = decoder_folder(tmp_path / "base", row.architecture.name, row.seed, **row.entries)
    oracles = {"": base, "a": adapter_folder(tmp_path / "a", base, 5, 4, 4.0)}
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    try:
        mine.register(row.architecture)
        model = decoder_of(
            tmp_path / "base", row.architecture, enable_lora=True, max_lora_rank=5,
            lora_paths=[f"a={tmp_path / 'a'}"],
        )  # fmt: skip
    finally:
        use_registry(before)
    run = Run(model)
    texts = {name: run.begin(_prompt(5, 30), name) for name in oracles}
    run.write(*texts.values(), count=3)
    for name, text in texts.items():
        compare(text, 3, oracles[name])


def test_the_memory_of_the_slots_is_estimated(served: Served) -> None:
    config = served.model.pipeline_config
    plain = PipelineConfig(model_path=config.model_config.model_path, max_batch_size=4)
    more = config.estimate_memory().weights - plain.estimate_memory().weights
    assert more == served.manager.nbytes > 0


def test_other_pipelines_refuse_adapters(tmp_path: Path) -> None:
    class Plain(llama.LlamaModel):
        takes_adapters = False

    given: Any = SimpleNamespace(lora_config=object())
    rest: list[Any] = [None] * 8
    with pytest.raises(UnsupportedError) as caught:
        Plain(given, *rest)
    assert caught.value.code == "ML169"
