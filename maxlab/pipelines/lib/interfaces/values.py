"""The inputs and outputs of a model of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxlab.errors import InputError

if TYPE_CHECKING:
    from maxlab.driver import Tensor

_COMMON = ("lora_ids", "lora_ranks", "kv_cache_inputs")
"""Fields of all inputs; a graph takes them behind those of its own, in this order."""


class ModelInputs:
    """The inputs of one execution of a model. Each model extends it with fields of its own.

    Iterating gives the tensors in the order of the fields, without those that are None. Behind them
    come ``lora_ids``, ``lora_ranks``, and the tensors of ``kv_cache_inputs``.

    Example:
        >>> from dataclasses import dataclass
        >>> from maxlab.driver import Tensor
        >>> from maxlab.dtype import DType
        >>> @dataclass(eq=False)
        ... class Words(ModelInputs):
        ...     tokens: Tensor
        ...     mask: Tensor | None = None
        >>> words = Words(Tensor.zeros((2, 3), DType.int64))
        >>> len(list(words))
        1
    """

    # Defaults of the class and no fields of a dataclass: a subclass may add fields without one.
    kv_cache_inputs: Iterable[Any] | None = None
    """The tensors of the cache of keys and values, for the layers to write to."""
    lora_ids: Tensor | None = None
    """The adapter of each text, by its number."""
    lora_ranks: Tensor | None = None
    """The rank of each adapter."""

    def update(self, **kwargs: Any) -> None:
        """Sets fields. A value of None leaves its field as it is.

        Args:
            **kwargs: The new values by field.

        Raises:
            InputError: ML168 (a ValueError), a name is no field. No field is changed then.
        """
        known = (*self._own(), *_COMMON)
        for name in kwargs:
            if name not in known:
                from difflib import get_close_matches

                near = get_close_matches(name, known, 1)
                raise InputError(
                    "ML168",
                    f"{type(self).__name__} has no field {name!r}",
                    why=[f"its fields are {', '.join(known)}"],
                    fix=f"did you mean {near[0]}?" if near else "pass one of its fields",
                )
        for name, value in kwargs.items():
            if value is not None:
                setattr(self, name, value)

    def _own(self) -> list[str]:
        """The fields that the subclass adds, in their order."""
        declared = getattr(self, "__dataclass_fields__", None)
        names: Iterable[str] = vars(self) if declared is None else declared
        return [name for name in names if name not in _COMMON and not name.startswith("_")]

    def __iter__(self) -> Iterator[Any]:
        for name in (*self._own(), "lora_ids", "lora_ranks"):
            value = getattr(self, name)
            if value is not None:
                yield value
        if self.kv_cache_inputs is not None:
            yield from self.kv_cache_inputs


@dataclass(frozen=True, eq=False)
class ModelOutputs:
    """The outputs of one execution of a model.

    Args:
        logits: The logits of one token or more of each text, shape [tokens, words]; of a model of
            embeddings the embeddings, see ``EmbeddingsPipeline``.
        next_token_logits: The logits of the last token of each text, shape [texts, words].
        logit_offsets: Where the rows of each text begin in ``logits``, and the number of rows:
            integers of shape [texts + 1].
    """

    logits: Tensor
    next_token_logits: Tensor | None = None
    logit_offsets: Tensor | None = None


__all__ = ["ModelInputs", "ModelOutputs"]
