"""The state of requests while pipelines work on them, and what is checked of it beforehand."""

from __future__ import annotations

from maxlab.errors import InputError
from maxlab.pipelines.core.speech import TTSContext
from maxlab.pipelines.core.text import TextContext
from maxlab.pipelines.core.validators import (
    validate_aspect_ratio_args,
    validate_image_grid_thw_args,
    validate_image_shape_5d,
    validate_initial_prompt_has_image,
    validate_only_one_image,
    validate_requires_vision_context,
    validate_vision_position_ids,
)
from maxlab.pipelines.core.vision import TextAndVisionContext

__all__ = [
    "InputError",
    "TTSContext",
    "TextAndVisionContext",
    "TextContext",
    "validate_aspect_ratio_args",
    "validate_image_grid_thw_args",
    "validate_image_shape_5d",
    "validate_initial_prompt_has_image",
    "validate_only_one_image",
    "validate_requires_vision_context",
    "validate_vision_position_ids",
]
