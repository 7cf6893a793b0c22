"""Qwen2.5-VL beside transformers: patches, vectors of images, logits and texts."""

from __future__ import annotations

import itertools
import json
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import FileError, InputError, UnsupportedError
from maxlab.graph import DeviceRef
from maxlab.interfaces import ImageMetadata
from maxlab.nn.rotary_embedding import rotary_embedding_of
from maxlab.pipelines.architectures.llama import LlamaModel
from maxlab.pipelines.architectures.qwen2_5_vl import Qwen25VLModel, Qwen25VLTokenizer
from maxlab.pipelines.architectures.qwen2_5_vl.language import sections_of, text_config
from maxlab.pipelines.architectures.qwen2_5_vl.layout import layout_of, token_positions
from maxlab.pipelines.architectures.qwen2_5_vl.patches import PatchSettings
from maxlab.pipelines.architectures.qwen2_5_vl.vision import VisionTower
from maxlab.pipelines.core import TextAndVisionContext
from maxlab.pipelines.lib.tokenizer.images import open_image
from tests.pipelines.decoders.running import CLOSE, Run, Text
from tests.pipelines.decoders.test_decoders import NARROW
from tests.pipelines.vision.asking import COUNT, compare, context, logits, request
from tests.pipelines.vision.conftest import Pipe, made
from tests.pipelines.vision.folders import SEES, picture, vision_folder

PROMPTS: list[tuple[str, tuple[bytes, ...]]] = [
    (f"What {SEES} is{SEES} here", (picture(24, 40), picture(40, 16, 1))),
    ("The quick brown fox", ()),
    (SEES, (picture(13, 57, 2),)),
    ("ends with <|vision_start|><|image_pad|>", (picture(60, 20, 3),)),
]
"""Prompts with two images, with none, and with one that begins or ends them."""

PUBLISHED: dict[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128000,
    "max_window_layers": 70,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "tie_word_embeddings": True,
    "vocab_size": 151936,
    "vision_config": {
        "depth": 32,
        "hidden_act": "silu",
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "in_chans": 3,
        "out_hidden_size": 2048,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "tokens_per_second": 2,
        "temporal_patch_size": 2,
    },
}
"""Entries of config.json of Qwen2.5-VL of 3 B weights."""


def model_of(pipeline: Pipe) -> Qwen25VLModel:
    model = pipeline._pipeline_model
    assert isinstance(model, Qwen25VLModel)
    return model


# ------------------------------------------------------------ before the model
@pytest.mark.parametrize("size", [(24, 24), (13, 57), (200, 90), (3, 5), (301, 2)])
def test_patches_are_those_of_transformers(tiny: tuple[Path, Any], size: tuple[int, int]) -> None:
    from transformers.models.qwen2_vl import image_processing_pil_qwen2_vl as theirs

    told = json.loads((tiny[0] / "preprocessor_config.json").read_text())
    image = open_image(picture(*size), "the image")
    wanted = theirs.Qwen2VLImageProcessorPil.from_pretrained(str(tiny[0]))(
        images=[image], return_tensors="np"
    )
    found, grid = PatchSettings.read(told, "tiny").patches(image)
    np.testing.assert_array_equal(found, wanted["pixel_values"])
    assert [list(grid)] == wanted["image_grid_thw"].tolist()


def test_sizes_are_those_of_transformers() -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    for height, width in itertools.product((1, 27, 29, 480, 1333, 3000), repeat=2):
        if max(height, width) <= 200 * min(height, width):
            assert PatchSettings().size_of(height, width) == smart_resize(height, width)


@pytest.mark.parametrize(
    "entries",
    [
        {"do_resize": False},
        {"size": 5},
        {"patch_size": 0},
        {"merge_size": 1.5},
        {"image_std": [1, 0, 1]},
        {"image_mean": [1, 2]},
        {"rescale_factor": "x"},
        {"max_pixels": True},
    ],
)
def test_settings_of_images_that_are_not_read_are_refused(entries: dict[str, Any]) -> None:
    with pytest.raises(FileError) as caught:
        PatchSettings.read(entries, "tiny")
    assert caught.value.code == "ML152"
    assert next(iter(entries)) in str(caught.value)


def test_layouts_and_positions_are_those_of_transformers(tiny: tuple[Path, Any]) -> None:
    import torch
    from transformers import vision_utils

    random = np.random.default_rng(0)
    for _ in range(12):
        sizes = 2 * random.integers(1, 9, (random.integers(1, 4), 2))
        grids = [(1, int(height), int(width)) for height, width in sizes]
        given = torch.tensor(grids)
        found = layout_of(grids, merge=2, window=3)
        order, windows = vision_utils.get_vision_window_index(given, 2, 24, 4)
        np.testing.assert_array_equal(found.order, order)
        np.testing.assert_array_equal(found.windows, windows)
        np.testing.assert_array_equal(found.frames, vision_utils.get_vision_cu_seqlens(given))
        places = vision_utils.get_vision_position_ids(given, 2).reshape(-1, 4, 2)[order]
        np.testing.assert_array_equal(found.places.reshape(-1, 4, 2), places)
        np.testing.assert_array_equal(found.order[found.back], np.arange(len(order)))
        kinds, spans = [0] * int(random.integers(1, 5)), []
        for _, height, width in grids:
            spans.append((len(kinds), len(kinds) + height * width // 4))
            kinds += [1] * (height * width // 4) + [0] * int(random.integers(1, 5))
        ids = torch.tensor([kinds])
        wanted, delta = tiny[1].model.get_rope_index(ids, ids, given)
        stop = len(kinds)
        np.testing.assert_array_equal(token_positions(0, stop, spans, grids, 2), wanted[:, 0])
        start = int(random.integers(0, stop))
        np.testing.assert_array_equal(
            token_positions(start, stop, spans, grids, 2), wanted[:, 0, start:]
        )
        behind = token_positions(stop + 3, stop + 4, spans, grids, 2)
        assert behind.tolist() == [[stop + 3 + int(delta)]] * 3


def test_a_prompt_has_a_token_for_each_square_of_patches(tiny: tuple[Path, Any]) -> None:
    tokenizer = Qwen25VLTokenizer(str(tiny[0]))
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "image"}]
    messages = [{"role": "user", "content": parts}]
    made = context(tokenizer, messages, picture(24, 40), picture(40, 16, 1))
    told = tokenizer.delegate.decode(made.prompt_tokens)
    pads = ["<|image_pad|>" * count for count in (15, 10)]
    seen = "".join(f"<|vision_start|>{one}<|vision_end|>" for one in pads)
    assert told == f"<|im_start|>user\na{seen}<|im_end|>\n<|im_start|>assistant\n"
    assert made.extra_model_args["image_grid_thw"].tolist() == [[1, 10, 6], [1, 4, 10]]
    side_by_side = context(
        tokenizer, "<|image_pad|><|image_pad|>", picture(24, 40), picture(40, 16, 1)
    )
    ranges = [(one.start_idx, one.end_idx) for one in side_by_side.images]
    assert ranges == [(0, 15), (15, 25)]


@pytest.mark.parametrize(
    ("prompt", "images"),
    [
        ("no place", (picture(8, 8),)),
        (SEES + SEES, (picture(8, 8),)),
        (SEES, (picture(402, 2),)),
    ],
)
def test_images_without_a_place_or_a_shape_are_refused(
    tiny: tuple[Path, Any], prompt: str, images: tuple[bytes, ...]
) -> None:
    with pytest.raises(InputError) as caught:
        context(Qwen25VLTokenizer(str(tiny[0])), prompt, *images)
    assert caught.value.code == "ML162"


def test_a_folder_without_settings_of_images_is_refused(
    tiny: tuple[Path, Any], tmp_path: Path
) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((tiny[0] / name).read_bytes())
    with pytest.raises(FileError) as caught:
        Qwen25VLTokenizer(str(tmp_path))
    assert caught.value.code == "ML152"
    assert "preprocessor_config.json" in str(caught.value)


# ------------------------------------------------------------ the model
def test_vectors_of_images_are_those_of_transformers(
    pipeline: Pipe, tiny: tuple[Path, Any]
) -> None:
    import torch

    made = context(pipeline.tokenizer, *PROMPTS[0][:1], *PROMPTS[0][1])
    grids = made.extra_model_args["image_grid_thw"]
    with torch.no_grad():
        wanted = (
            tiny[1]
            .model.visual(
                torch.from_numpy(np.concatenate(made.pixel_values)),
                grid_thw=torch.from_numpy(grids),
            )
            .pooler_output.numpy()
        )
    found = model_of(pipeline).encode_images(made.pixel_values, [tuple(one) for one in grids])
    np.testing.assert_allclose(found.to_numpy(), wanted, atol=CLOSE, rtol=CLOSE)
    with pytest.raises(InputError) as caught:
        model_of(pipeline).encode_images(made.pixel_values[:1], [(1, 4, 10)])
    assert caught.value.code == "ML162"


def test_a_mixed_batch_says_what_transformers_say(pipeline: Pipe, tiny: tuple[Path, Any]) -> None:
    run = Run(model_of(pipeline))
    texts = []
    for prompt, images in PROMPTS:
        made = context(pipeline.tokenizer, prompt, *images)
        run.manager.claim(made.request_id)
        texts.append(Text(made))
    run.write(*texts, count=COUNT)
    for text in texts:
        compare(text, tiny[1])
    assert max(len(set(text.tokens[-COUNT:])) for text in texts) >= 20
    run.end(*texts)


def test_prompts_with_images_are_answered_together_and_alone(pipeline: Pipe) -> None:
    together = pipeline.generate([request(prompt, *images) for prompt, images in PROMPTS])
    alone = [pipeline.generate(request(prompt, *images))[0] for prompt, images in PROMPTS]
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    run = Run(model_of(pipeline))
    made = context(pipeline.tokenizer, PROMPTS[0][0], *PROMPTS[0][1])
    run.manager.claim(made.request_id)
    text = Text(made)
    run.write(text, count=COUNT)  # a step at a time
    assert text.tokens[-COUNT:] == list(together[0].tokens)
    run.end(text)


def test_a_context_without_its_grid_is_refused(pipeline: Pipe) -> None:
    pixels = np.zeros((4, 96), np.float32)
    (number,) = pipeline.tokenizer.vision_token_ids  # type: ignore[attr-defined]
    made = TextAndVisionContext(
        max_length=9,
        tokens=np.array([7, number, 8]),
        vision_token_ids=[number],
        images=[ImageMetadata(start_idx=1, end_idx=2, pixel_values=pixels)],
    )
    with pytest.raises(InputError) as caught:
        model_of(pipeline).prepare_initial_token_inputs([made])
    assert caught.value.code == "ML162"


def test_what_is_not_computed_is_refused(tiny: tuple[Path, Any], tmp_path: Path) -> None:
    text = deepcopy(tiny[1].config.text_config)
    text.rope_parameters["mrope_section"] = [1, 2, 4]
    with pytest.raises(UnsupportedError) as caught:
        sections_of(text)
    assert caught.value.code == "ML169"
    with pytest.raises(UnsupportedError) as caught:
        made(tiny[0], enable_lora=True)
    assert caught.value.code == "ML169"
    drafted: Any = SimpleNamespace(draft_model_config=object())
    with pytest.raises(UnsupportedError, match="draft model") as caught:
        Qwen25VLModel(drafted)
    assert caught.value.code == "ML169"


def test_images_for_a_model_of_texts_are_refused(
    pipeline: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not LlamaModel.reads_images
    monkeypatch.setattr(Qwen25VLModel, "reads_images", False)
    with pytest.raises(InputError, match="reads texts alone") as caught:
        pipeline.generate(request(SEES, picture(8, 8)))
    assert caught.value.code == "ML162"
    assert pipeline.generate(request("a", max_new_tokens=1))


def test_the_configuration_of_the_published_model_is_read() -> None:
    """Its entries about texts stand beside those about images."""
    import transformers

    config = transformers.Qwen2_5_VLConfig(**PUBLISHED)
    text = text_config(config)
    assert sections_of(text) == [16, 24, 24]
    assert (text.hidden_size, text.tie_word_embeddings, text.sliding_window) == (2048, True, None)
    assert Qwen25VLModel.get_num_layers(config) == 36
    rope = rotary_embedding_of(text, 64)
    assert (rope.head_dim, rope.theta) == (128, 1000000.0)
    tower = VisionTower(config.vision_config, DType.bfloat16, DeviceRef.CPU())
    assert (tower.pixels, len(tower.blocks), sorted(tower.whole)) == (1176, 32, [7, 15, 23, 31])
    pipes: list[Any] = [
        SimpleNamespace(prefill_chunk_size=tokens, max_length=4096) for tokens in (1024, 2**20)
    ]
    few, many = (Qwen25VLModel.estimate_activation_memory(one, config) for one in pipes)
    assert few == 1024 * 4 * (1176 + 2 * 1280 + 3 * 3420) * 4
    assert many == 4 * few  # no more than the longest text
    settings = PatchSettings.read(
        {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "merge_size": 2}, "published"
    )
    assert settings.size_of(480, 640) == (476, 644)


def test_tied_logits_and_names_of_other_checkpoints(tmp_path: Path) -> None:
    """Newer checkpoints put the parts below ``model``, small ones share a table, and later layers
    may see a window."""
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "tied"
    folder.mkdir()
    model = vision_folder(
        folder, 1, tied=True, use_sliding_window=True, sliding_window=9, max_window_layers=1
    )
    state = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in state
    moved = {
        f"model.{name.replace('model.', 'language_model.')}": value for name, value in state.items()
    }
    save_file(moved, folder / "model.safetensors", {"format": "pt"})
    pipe = made(folder, enable_echo=True)
    run = Run(model_of(pipe))
    one = context(pipe.tokenizer, PROMPTS[0][0], *PROMPTS[0][1])
    run.manager.claim(one.request_id)
    text = Text(one)
    run.write(text, count=2)
    compare(text, model, 2)


@pytest.mark.parametrize("name", NARROW)
def test_numbers_of_16_bits(name: str, tmp_path: Path) -> None:
    """Near the model in float32, and not equal to it."""
    import torch

    model = vision_folder(tmp_path)
    model.to(getattr(torch, name)).save_pretrained(tmp_path)
    pipe = made(tmp_path, enable_echo=True, quantization_encoding=name)
    run = Run(model_of(pipe))
    one = context(pipe.tokenizer, PROMPTS[0][0], *PROMPTS[0][1])
    run.manager.claim(one.request_id)
    text = Text(one)
    run.step(text)
    wanted = logits(model.float(), one, text.tokens[:-1])
    found = np.stack([text.rows[place] for place in range(len(wanted))])
    off = np.linalg.norm(found - wanted, axis=-1) / np.linalg.norm(wanted, axis=-1)
    assert 1e-4 < np.median(off) < NARROW[name]
