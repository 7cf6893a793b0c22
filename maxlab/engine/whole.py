"""Habits with models, sessions and profiles: which of them can be copied or saved, and what does it
instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from maxlab.driver import Tensor
from maxlab.errors import (
    ArgumentTypeError,
    MissingEntryError,
    MissingKeyError,
    elsewhere,
    shown,
    unlisted,
    untrained,
)
from maxlab.habits import Several

V = TypeVar("V")


class Whole:
    """An object that holds compiled code, threads or memory, so that it is neither pickled nor
    copied."""

    _again: ClassVar[str]
    _called: ClassVar[str]
    _instead: ClassVar[dict[str, str]]
    _listed: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        """Raises: it belongs to one process.

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
    """Methods that users of PyTorch call on a model that runs."""

    def eval(self) -> Self:
        """The model itself: it always runs for inference."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs: what calling the model gives."""
        call: Any = self
        return call(*args, **kwargs)


class Outputs(Several):
    """The outputs of a model: a list of tensors, also where there is one."""

    __slots__ = ()
    told = "a model gives a list, here of"
    name = "outputs"
    more = "; model.output_metadata describes them"


_NAMED = "outputs[0] is the first; model.output_metadata describes them"
elsewhere(
    Outputs,
    "the list of outputs",
    {
        **dict.fromkeys(("keys", "items", "values", "logits", "last_hidden_state"), _NAMED),
        **dict.fromkeys(("pooler_output", "loss", "hidden_states", "outputs"), _NAMED),
        **{
            name: f"of the first output: outputs[0].{name}"
            for name in dir(Tensor)
            if not name.startswith("_") and not hasattr(list, name)
        },
    },
)


class Named(dict[str, V]):
    """Things of a model by name, called ``called`` in messages. A key that is not there raises
    ML976, a KeyError, with those that are.
    """

    __slots__ = ("called",)

    def __init__(self, called: str, entries: Mapping[str, V]) -> None:
        super().__init__(entries)
        self.called = called

    def __missing__(self, key: object) -> NoReturn:
        from difflib import get_close_matches

        near = get_close_matches(str(key), self, 1, 0.4) or list(self)[:1]
        known = ", ".join(map(repr, list(self)[:8])) + (", …" if len(self) > 8 else "")
        raise MissingKeyError(
            "ML976",
            f"{self.called} has no {shown(key)}",
            fix=f"its keys are {known}; write {self.called}[{near[0]!r}]"
            if near
            else f"{self.called} is empty",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (Named, (self.called, dict(self)))


class Numbered(list[V]):
    """Things of a profile by number, called ``called`` in messages. A key or number that is not
    there raises ML976, an IndexError and a KeyError.
    """

    __slots__ = ("called",)

    def __init__(self, called: str, entries: Iterable[V]) -> None:
        super().__init__(entries)
        self.called = called

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except (TypeError, IndexError):
            raise MissingEntryError(
                "ML976",
                f"{self.called} is a list of {len(self)}, and has no {shown(index)}",
                fix=f"its numbers begin at 0: {self.called}[0]",
            ) from None


__all__ = ["AsModule", "Named", "Numbered", "Outputs", "Whole"]
