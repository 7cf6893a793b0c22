"""Qwen2.5-VL in a pipeline: images are encoded when their tokens are computed, each once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab import nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import InputError, UnsupportedError
from maxlab.graph import Graph, TensorType
from maxlab.graph.weights import WeightData
from maxlab.pipelines.architectures.decoder import DecoderInputs, DecoderModel
from maxlab.pipelines.architectures.decoder_parts import Given
from maxlab.pipelines.architectures.qwen2_5_vl.language import Qwen25VL, text_config
from maxlab.pipelines.architectures.qwen2_5_vl.layout import Grid, layout_of, token_positions
from maxlab.pipelines.core import TextAndVisionContext, TextContext
from maxlab.pipelines.lib.interfaces import ModelInputs

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

GRIDS = "image_grid_thw"
"""The argument of a context that has the grid of each image: frames, rows, columns."""


def convert_safetensor_state_dict(
    state_dict: Mapping[str, Any], huggingface_config: Any = None, **unused_kwargs: Any
) -> dict[str, WeightData]:
    """The weights of a checkpoint by the names of `Qwen25VL`.

    Args:
        state_dict: The weights by the names of the checkpoint, with those of the part that sees
            under ``visual`` or ``model.visual``, and those of the text under ``model`` or
            ``model.language_model``.
        huggingface_config: The configuration of the checkpoint.
        **unused_kwargs: Other configurations, which the names do not depend on.
    """
    tied = getattr(huggingface_config, "tie_word_embeddings", False)
    found: dict[str, WeightData] = {}
    for full, weight in state_dict.items():
        name = full.removeprefix("model.").removeprefix("language_model.")
        if name.endswith("rotary_emb.inv_freq") or (tied and name == "lm_head.weight"):
            continue
        data = weight.data()
        name = name.replace("visual.merger.mlp.0.", "visual.merger.up.")
        name = name.replace("visual.merger.mlp.2.", "visual.merger.down.")
        if name == "visual.patch_embed.proj.weight":  # a convolution whose steps do not overlap
            name = "visual.patch_embed.weight"
            array = np.asarray(data.data)
            data = WeightData.from_numpy(array.reshape(len(array), -1), name)
        found[name] = data
    return found


@dataclass(eq=False)
class Qwen25VLInputs(DecoderInputs):
    """The tokens of a ragged batch, with images.

    Args:
        position_ids: The positions of the tokens in time, height and width, int64 [3, tokens].
        image_embeddings: The vectors of the tokens of images, [image_tokens, hidden_size].
        image_places: Which of the tokens these are, int64 [image_tokens, 1].
    """

    position_ids: Tensor
    image_embeddings: Tensor
    image_places: Tensor
    _next: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


class Qwen25VLModel(DecoderModel):
    """Qwen2.5-VL in a pipeline.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), several devices, adapters, or a draft
            model.
    """

    module = Qwen25VL
    text_config = staticmethod(text_config)
    takes_adapters = False
    reads_images = True

    def __init__(self, pipeline_config: PipelineConfig, *args: Any, **kwargs: Any) -> None:
        if pipeline_config.draft_model_config is not None:
            raise UnsupportedError(
                "ML169",
                "Qwen2.5-VL with a draft model is not computed",
                why=["a draft model sees no images"],
                fix="leave the draft model out",
            )
        super().__init__(pipeline_config, *args, **kwargs)

    # ------------------------------------------------------------ graphs
    def more_types(self, config: Any, given: Given) -> list[TensorType]:
        """The inputs of the graph behind tokens: positions, and tokens of images.

        Args:
            config: The configuration of the checkpoint.
            given: What the layers are made with.
        """
        size = text_config(config).hidden_size
        return [
            TensorType(DType.int64, [3, "tokens"], given.device),
            TensorType(given.dtype, ["image_tokens", size], given.device),
            TensorType(DType.int64, ["image_tokens", 1], given.device),
        ]

    def load_more(self, module: nn.Module, given: Given) -> None:
        """Loads the graph of the part that sees.

        Args:
            module: The layers, with their weights.
            given: What they were made with.
        """
        assert isinstance(module, Qwen25VL)
        tower = module.visual
        with Graph("qwen2_5_vl_vision", input_types=tower.input_types()) as graph:
            graph.output(tower(*(value.tensor for value in graph.inputs)))
        self.vision_model = self.session.load(graph, weights_registry=module.state_dict())
        config = self.huggingface_config.vision_config
        self._unit, self._pixels = tower.unit, tower.pixels
        self._merge = int(config.spatial_merge_size)
        self._window = config.window_size // config.spatial_merge_size // config.patch_size
        self._none = Tensor.zeros(
            (0, text_config(self.huggingface_config).hidden_size), given.dtype, self.devices[0]
        )

    # ------------------------------------------------------------ sizes
    @classmethod
    def estimate_activation_memory(
        cls, pipeline_config: PipelineConfig, huggingface_config: Any
    ) -> int:
        """The bytes for the values of patches, where all tokens that a step reads of prompts are
        those of images.

        A single image may have more tokens than a step reads otherwise, and needs more then.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The configuration of the checkpoint.
        """
        vision = huggingface_config.vision_config
        longest = cls.calculate_max_seq_len(pipeline_config, huggingface_config)
        tokens = min(longest, pipeline_config.prefill_chunk_size)
        pixels = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
        # The residual and its norm, and queries, keys, values and what attention makes of them, or
        # the two halves of the gated product and their product; counted as float32.
        hidden, between = vision.hidden_size, vision.intermediate_size
        widest = 2 * hidden + max(4 * hidden, 3 * between)
        return int(tokens * vision.spatial_merge_size**2 * (pixels + widest) * 4)

    # ------------------------------------------------------------ runs
    def encode_images(
        self, pixels: Sequence[npt.NDArray[np.floating[Any]]], grids: Sequence[Grid]
    ) -> Tensor:
        """The vectors of the tokens of images, one image after the other, [tokens, hidden_size].

        Args:
            pixels: The pixels of the patches of each image, floats [patches, pixels].
            grids: The grid of each image.

        Raises:
            InputError: ML162 (a ValueError), pixels that are not those of the grid.
        """
        for one, grid in zip(pixels, grids, strict=True):
            if one.shape != (np.prod(grid), self._pixels) or grid[1] % self._merge or (
                grid[2] % self._merge
            ):  # fmt: skip
                raise InputError(
                    "ML162",
                    f"{np.prod(grid)} patches of {self._pixels} numbers, of the grid {grid}, "
                    f"expected ≠ {list(one.shape)} given",
                    fix="make contexts with the tokenizer of the model",
                )
        layout = layout_of(grids, self._merge, self._window)
        patches = np.concatenate(pixels).astype(np.float32, copy=False)
        squares = patches.reshape(-1, self._unit, self._pixels)[layout.order]
        given = (
            squares,
            layout.places.reshape(-1, self._unit, 2),
            layout.back,
            layout.windows,
            layout.frames,
        )
        longest = Tensor.from_numpy(np.array([layout.longest], np.uint32))
        found = self.vision_model(*(self._here(one) for one in given), longest)
        return found[0]

    def _here(self, array: npt.NDArray[Any]) -> Tensor:
        """An array on the device of the model."""
        return Tensor.from_numpy(np.ascontiguousarray(array)).to(self.devices[0])

    def prepare_initial_token_inputs(
        self,
        context_batch: Sequence[TextContext],
        kv_cache_inputs: Iterable[Any] | None = None,
        return_n_logits: int = 1,
    ) -> Qwen25VLInputs:
        """The next tokens of each text, and the images among them, which are encoded here.

        Args:
            context_batch: The states of the requests.
            kv_cache_inputs: The tensors of the cache, or what its manager gives for each device.
            return_n_logits: The number of tokens of each text whose logits are returned.

        Raises:
            InputError: ML981, there are no logits of so many tokens; ML162, the pixels of an image
                are not those of its grid (each a ValueError).
        """
        plain = super().prepare_initial_token_inputs(
            context_batch, kv_cache_inputs, return_n_logits
        )
        positions, following = [], []
        pixels: list[npt.NDArray[np.floating[Any]]] = []
        grids: list[Grid] = []
        places: list[npt.NDArray[np.int64]] = []
        row = 0
        for context in context_batch:
            start, stop = context.start_idx, context.active_idx
            images = context.images if isinstance(context, TextAndVisionContext) else []
            of_images = grids_of(context)
            spans = [(one.start_idx, one.end_idx) for one in images]
            # One more: the position of the token that is drawn.
            found = token_positions(start, stop + 1, spans, of_images, self._merge)
            positions.append(found[:, :-1])
            following.append(found[0, -1])
            for image, grid in zip(images, of_images, strict=True):
                if start <= image.start_idx and image.end_idx <= stop:
                    pixels.append(image.pixel_values)
                    grids.append(grid)
                    places.append(np.arange(image.start_idx, image.end_idx) - start + row)
            row += stop - start
        embeddings = self.encode_images(pixels, grids) if pixels else self._none
        made = Qwen25VLInputs(
            plain.tokens,
            plain.input_row_offsets,
            plain.return_n_logits,
            self._here(np.concatenate([np.zeros((3, 0), np.int64), *positions], axis=1)),
            embeddings,
            self._here(np.concatenate([np.zeros(0, np.int64), *places]).reshape(-1, 1)),
            np.array(following, np.int64),
        )
        made.kv_cache_inputs = plain.kv_cache_inputs
        return made

    def prepare_next_token_inputs(
        self, next_tokens: Tensor, prev_model_inputs: ModelInputs
    ) -> Qwen25VLInputs:
        """One token of each text, which was drawn, and the cache as before.

        Args:
            next_tokens: The tokens that were drawn, int64 [texts].
            prev_model_inputs: The inputs before, `Qwen25VLInputs`.
        """
        assert isinstance(prev_model_inputs, Qwen25VLInputs)
        plain = super().prepare_next_token_inputs(next_tokens, prev_model_inputs)
        following = prev_model_inputs._next
        made = Qwen25VLInputs(
            plain.tokens,
            plain.input_row_offsets,
            plain.return_n_logits,
            self._here(np.tile(following, (3, 1))),
            self._none,
            self._here(np.zeros((0, 1), np.int64)),
            following + 1,
        )
        made.kv_cache_inputs = plain.kv_cache_inputs
        return made


def grids_of(context: TextContext) -> list[Grid]:
    """The grid of each image of a request.

    Args:
        context: The state of the request.

    Raises:
        InputError: ML162 (a ValueError), there are more or fewer than images.
    """
    if not isinstance(context, TextAndVisionContext):
        return []
    found = context.extra_model_args.get(GRIDS)
    rows = [] if found is None else np.asarray(found).reshape(-1, 3).tolist()
    if len(rows) != len(context.images):
        raise InputError(
            "ML162",
            f"request {context.request_id}: {GRIDS} of {len(context.images)} images expected ≠ "
            f"{len(rows)} rows given",
            fix="make contexts with the tokenizer of the model",
        )
    return [(int(a), int(b), int(c)) for a, b, c in rows]


__all__ = [
    "GRIDS",
    "Qwen25VLInputs",
    "Qwen25VLModel",
    "convert_safetensor_state_dict",
    "grids_of",
]
