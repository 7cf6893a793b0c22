"""Models in 8-bit floats from a folder, against transformers with the numbers of the codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab import driver
from maxlab.driver import DeviceSpec
from maxlab.dtype import DType
from maxlab.pipelines.architectures import llama, mistral, qwen2, qwen3
from maxlab.pipelines.lib import config_enums
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from tests.pipelines.decoders.float8_folders import FORMATS, float8_folder
from tests.pipelines.decoders.running import Run, compare, decoder_of, moved

FLOAT8 = SupportedEncoding.float8_e4m3fn


@pytest.fixture
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Activations and caches of float32, so that rounding to 8 bits is all that is rounded."""
    facts = config_enums._Facts(DType.float8_e4m3fn, DType.float32)
    monkeypatch.setitem(config_enums._FACTS, FLOAT8, facts)


ROWS = [
    *((kind, llama.ARCHITECTURES[0]) for kind in FORMATS),
    ("static", qwen2.ARCHITECTURES[0]),
    ("blocks", qwen3.ARCHITECTURES[0]),
    ("channels", mistral.ARCHITECTURES[0]),
]
"""Formats of scales, and architectures."""


@pytest.mark.usefixtures("_wide")
@pytest.mark.parametrize(("kind", "architecture"), ROWS)
def test_logits_and_texts(tmp_path: Path, kind: str, architecture: SupportedArchitecture) -> None:
    wanted = float8_folder(tmp_path, kind, name=architecture.name)
    model = decoder_of(tmp_path, architecture)
    assert model.encoding is FLOAT8
    run = Run(model)
    texts = [run.begin(prompt) for prompt in ([5, 9, 200, 17], list(range(30, 53)))]
    run.write(*texts, count=6)
    for text in texts:
        apart = moved(wanted, text.tokens[:-1]) if kind != "static" else None
        compare(text, 6, wanted, apart)
    run.end(*texts)
    slots = [slot for slot in model.model.plan.slots if slot.kind == "weight"]
    file = (tmp_path / "model.safetensors").stat().st_size
    assert sum(slot.nbytes.evaluate({}) for slot in slots) < file  # nothing was made wider


@pytest.mark.usefixtures("_wide")
def test_several_devices(tmp_path: Path) -> None:
    """With scales of the checkpoint for inputs a part of a row is rounded as the whole is."""
    wanted = float8_folder(tmp_path, "static")
    with driver.virtual_cpus(2):
        specs = [DeviceSpec(number, "cpu") for number in range(2)]
        run = Run(decoder_of(tmp_path, llama.ARCHITECTURES[0], device_specs=specs))
        texts = [run.begin(prompt) for prompt in ([5, 9, 200, 17], list(range(30, 53)))]
        run.write(*texts, count=3)
        for text in texts:
            compare(text, 3, wanted)


def test_activations_of_16_bits(tmp_path: Path) -> None:
    """As the encoding has them: as far from float32 as transformers are in bfloat16."""
    import torch

    wanted = float8_folder(tmp_path, "channels", torch.bfloat16)
    run = Run(decoder_of(tmp_path, llama.ARCHITECTURES[0]))
    text = run.begin(list(range(40, 60)))
    run.write(text, count=1)
    tokens = torch.tensor([text.tokens[:-1]])
    with torch.no_grad():
        exact = wanted(tokens).logits[0].numpy()
        halves = wanted.to(torch.bfloat16)(tokens).logits[0].float().numpy()
    made = np.stack([text.rows[place] for place in range(20)])
    ours, theirs = (np.linalg.norm(y - exact, axis=-1).mean() for y in (made, halves))
    assert ours < 1.5 * theirs
    assert theirs < 0.2 * np.linalg.norm(exact, axis=-1).mean()
