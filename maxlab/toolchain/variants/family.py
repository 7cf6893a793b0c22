"""Families of kernels and their variants: `Variant`, `Trial` and `Family`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from maxlab.toolchain.compiler import cpu_features

Case = tuple[int, ...]
"""The sizes that a choice is made for, in the order of `Family.axes`."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to do the work of a family.

    Attributes:
        name: The way in words, such as ``"128 x 512, depth 384"``; it tells it from the others of
            its family, and is what a verdict on disk says.
        data: What the kernel is told of it.
        bits: Variants with the same word here give the same bits for the same numbers.
        needs: Features of the CPU without which it cannot run, named as the system names them:
            ``"avx512f"``.
    """

    name: str
    data: tuple[int, ...] = ()
    bits: str = "same"
    needs: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Trial:
    """Work that variants are timed on.

    Attributes:
        run: Does the work once with a variant, by the thread that calls it alone: one or two
            milliseconds of work. It keeps alive the memory that it uses.
        words: The work in words: ``"256 x 1024 x 1024"``.
    """

    run: Callable[[Variant], object]
    words: str


class Family(ABC):
    """Kernels that do the same work in several ways.

    Attributes:
        name: A word that is a part of a file's name: ``"products"``.
        axes: The names of the sizes of a case: ``("m", "n", "k")``.
        member: Of families of generated kernels, which one it is: its symbol. Each has verdicts of
            its own.
    """

    name: str
    axes: tuple[str, ...]
    member: str = ""

    @abstractmethod
    def variants(self, case: Case) -> Sequence[Variant]:
        """The variants that apply to ``case``, on any CPU, the guess first: what is taken as long
        as nothing was measured. It is alone where there is too little work to measure for."""

    @abstractmethod
    def shape_class(self, case: Case) -> Case:
        """The case that stands for all that are about as large as ``case``: they share a
        verdict."""

    @abstractmethod
    def trial(self, case: Case) -> Trial:
        """The work that variants are timed on, for a class."""

    def words(self, case: Case) -> str:
        """A case in words, such as ``"m=512 n=4096 k=4096"``."""
        return " ".join(f"{axis}={size}" for axis, size in zip(self.axes, case, strict=True))

    def usable(self, case: Case, *, exact: bool = True) -> list[Variant]:
        """The variants for ``case`` that this CPU can run, the guess first.

        Args:
            exact: Leave out those that give other bits than the guess.
        """
        found = [one for one in self.variants(case) if one.needs <= cpu_features()]
        return [one for one in found if not exact or one.bits == found[0].bits]


def rounded(size: int) -> int:
    """``size`` rounded up to 1, 2, 3, 4, 6, 8, 12, 16 … : a power of two, or half as much again.

    Example:
        >>> [rounded(n) for n in (0, 1, 5, 7, 100, 1024, 1025)]
        [1, 1, 6, 8, 128, 1024, 1536]
    """
    power = 1 << max(size - 1, 0).bit_length()
    return power if power < 4 or size > power // 4 * 3 else power // 4 * 3


__all__ = ["Case", "Family", "Trial", "Variant", "rounded"]
