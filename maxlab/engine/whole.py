"""Habits with models, sessions and profiles: which of them can be copied or saved, and what does it
instead."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self

from maxlab.driver import Tensor
from maxlab.errors import ArgumentTypeError, elsewhere, unlisted, untrained


class Whole:
    """An object that holds compiled code, threads or memory, so that it is neither pickled nor
    copied."""

    _again: ClassVar[str]
    _called: ClassVar[str]
    _instead: ClassVar[dict[str, str]]
    _listed: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        """Nothing.

        Raises:
            ArgumentTypeError: ML971, always; it names what is saved instead.
        """
        name = type(self).__name__
        raise ArgumentTypeError(
            "ML971",
            f"a {name} cannot be pickled or copied: it holds what belongs to this process",
            fix=self._again,
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_instead" in cls.__dict__:
            elsewhere(cls, cls._called, cls._instead)
            untrained(cls, cls._called, ("train", "backward", "zero_grad"))
        if "_listed" in cls.__dict__:
            unlisted(cls, cls._called, cls._listed)


class AsModule:
    """What users of PyTorch call on a model that runs."""

    def eval(self) -> Self:
        """The model itself: it always runs for inference."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs: what calling the model gives."""
        call: Any = self
        return call(*args, **kwargs)


class Outputs(list[Any]):
    """The outputs of a model: a list of tensors, also where there is one."""

    __slots__ = ()


elsewhere(
    Outputs,
    "the list of outputs",
    {
        name: f"of the first output: outputs[0].{name}"
        for name in dir(Tensor)
        if not name.startswith("_") and not hasattr(list, name)
    },
)

__all__ = ["AsModule", "Outputs", "Whole"]
