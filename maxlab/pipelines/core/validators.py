"""Checks of contexts that architectures ask for before a request is worked on."""

from __future__ import annotations

from maxlab.errors import InputError
from maxlab.pipelines.core.text import TextContext
from maxlab.pipelines.core.vision import TextAndVisionContext


def _refused(context: TextContext, expected: str, got: str) -> InputError:
    return InputError("ML993", f"request {context.request_id}: {expected} expected ≠ {got}")


def _vision(context: TextContext) -> TextAndVisionContext:
    if not isinstance(context, TextAndVisionContext):
        raise _refused(context, "a TextAndVisionContext", f"a {type(context).__name__} given")
    return context


def _needs(context: TextContext, names: tuple[str, ...]) -> None:
    """Raises when images are to be encoded and the arrays ``names`` are not there."""
    seen = _vision(context)
    lacking = [name for name in names if name not in seen.extra_model_args]
    if seen.needs_vision_encoding and lacking:
        raise _refused(
            context,
            f"extra_model_args with {' and '.join(names)}",
            f"{', '.join(seen.extra_model_args) or 'none'} given",
        )


def validate_requires_vision_context(context: TextContext | TextAndVisionContext) -> None:
    """Raises unless the context can have images.

    Args:
        context: The context of a request.

    Raises:
        InputError: It is no `TextAndVisionContext`.
    """
    _vision(context)


def validate_initial_prompt_has_image(context: TextContext | TextAndVisionContext) -> None:
    """Raises for a prompt without an image, before anything is generated.

    Args:
        context: The context of a request.

    Raises:
        InputError: There is no image.
    """
    if context.is_initial_prompt and not _vision(context).images:
        raise _refused(context, "a prompt with an image", "none given")


def validate_only_one_image(context: TextContext | TextAndVisionContext) -> None:
    """Raises for more than one image.

    Args:
        context: The context of a request.

    Raises:
        InputError: There are two images or more.
    """
    count = len(_vision(context).images)
    if count > 1:
        raise _refused(context, "at most one image", f"{count} given")


def validate_image_shape_5d(context: TextContext | TextAndVisionContext) -> None:
    """Raises for an image whose pixels have not five axes.

    Args:
        context: The context of a request.

    Raises:
        InputError: An image has another number of axes.
    """
    for image in _vision(context).images:
        if image.pixel_values.ndim != 5:
            raise _refused(
                context, "pixels with 5 axes", f"the shape {list(image.pixel_values.shape)} given"
            )


def validate_aspect_ratio_args(context: TextContext | TextAndVisionContext) -> None:
    """Raises when images are to be encoded without their aspect ratios.

    Args:
        context: The context of a request.

    Raises:
        InputError: ``extra_model_args`` lacks ``aspect_ratio_ids`` or ``aspect_ratio_mask``.
    """
    _needs(context, ("aspect_ratio_ids", "aspect_ratio_mask"))


def validate_image_grid_thw_args(context: TextContext | TextAndVisionContext) -> None:
    """Raises when images are to be encoded without their grids.

    Args:
        context: The context of a request.

    Raises:
        InputError: ``extra_model_args`` lacks ``image_grid_thw``.
    """
    _needs(context, ("image_grid_thw",))


def validate_vision_position_ids(context: TextContext | TextAndVisionContext) -> None:
    """Raises when images are to be encoded without the places of their patches.

    Args:
        context: The context of a request.

    Raises:
        InputError: ``extra_model_args`` lacks ``vision_position_ids``.
    """
    _needs(context, ("vision_position_ids",))
