"""The tokenizer of Qwen2.5-VL: images become patches without torchvision."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy.typing as npt

from maxlab.errors import FileError, shown
from maxlab.interfaces.needing import needed_by
from maxlab.pipelines.architectures.qwen2_5_vl.patches import PatchProcessor, PatchSettings
from maxlab.pipelines.lib.tokenizer import TextAndVisionTokenizer, loading
from maxlab.pipelines.lib.tokenizer.base import PretrainedTokenizer

IMAGE_TOKEN = "<|image_pad|>"
"""The token of an image where no config.json names one."""


class Qwen25VLTokenizer(TextAndVisionTokenizer):
    """Makes contexts of texts and images for Qwen2.5-VL.

    Args:
        model_path: A folder with the files of a tokenizer and a preprocessor_config.json, or the
            name of a repository.
        **arguments: As of `TextAndVisionTokenizer`.

    Raises:
        InputTypeError, InputError, FileError, MissingFileError, UnsupportedError: As by
            `TextAndVisionTokenizer`; ML152, a setting of images is wrong, or the tokenizer has no
            token of images.
        MissingPackageError: ML979, a package is not installed.
    """

    def __init__(self, model_path: str, **arguments: Any) -> None:
        super().__init__(model_path, **arguments)
        tokenizer = self.delegate
        given = getattr(
            getattr(self._model_config, "huggingface_config", None), "image_token_id", None
        )
        if given is None:
            given = tokenizer.get_vocab().get(IMAGE_TOKEN)
        if not isinstance(given, int) or not 0 <= given < len(tokenizer):
            raise FileError(
                "ML152",
                f"{model_path}: a tokenizer with the token {IMAGE_TOKEN} expected ≠ "
                f"{shown(given)} of {len(tokenizer)} tokens given",
                fix="give the folder of a model that sees",
            )
        settings = PatchSettings.read(self._image_settings(), model_path)
        self.processor = PatchProcessor(tokenizer, settings, given, self._processor_template())
        self.vision_token_ids = [given]

    def _token_counts(self, others: Mapping[str, npt.NDArray[Any]]) -> list[int]:
        unit = self.processor.settings.merge_size**2
        return [int(one) // unit for one in others["image_grid_thw"].prod(axis=1)]

    def _load(self) -> Any:
        return PretrainedTokenizer._load(self)

    def _image_settings(self) -> dict[str, Any]:
        """The entries of preprocessor_config.json, or of the part of processor_config.json."""
        with needed_by("the tokenizer of a model that sees", "transformers"):
            maker = import_module("transformers.image_processing_base").ImageProcessingMixin
        try:
            found, _ = maker.get_image_processor_dict(
                self._repo.repo_id, revision=self._repo.revision
            )
        except (OSError, ValueError) as error:
            raise FileError(
                "ML152",
                f"{self.model_path}: preprocessor_config.json expected ≠ "
                f"{shown(str(error), 200)[1:-1]}",
                fix="save the processor of the model beside its tokenizer",
            ) from error
        return dict(found)

    def _processor_template(self) -> Any:
        """The chat template in chat_template.json, which older files of processors have; None
        without one."""
        folder = loading.local_folder(self._repo.repo_id)
        path = None if folder is None else Path(folder) / "chat_template.json"
        if path is None or not path.exists():
            return None
        return loading.read_object(path).get("chat_template")


__all__ = ["IMAGE_TOKEN", "Qwen25VLTokenizer"]
