"""Conditions on sizes, tested when sizes are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from maxlab.compiler.op_facts import OpFacts
from maxlab.errors import InputError
from maxlab.ir.poly import Poly
from maxlab.opset.checks import Check


@dataclass(slots=True)
class Guard:
    """Conditions on sizes.

    Attributes:
        checks: The conditions that ops state.
        differences: Sizes that may come out negative or undefined, with the ops that make them.
    """

    checks: list[tuple[OpFacts, Check]] = field(default_factory=list)
    differences: dict[Poly, OpFacts] = field(default_factory=dict)

    @property
    def stated(self) -> bool:
        """Whether there is something to test."""
        return bool(self.checks or self.differences)

    def test(self, env: Mapping[str, int]) -> None:
        """Raises unless the sizes ``env`` fulfil all of it.

        Raises:
            InputError: ML603, a condition does not hold; ML623, a size is negative; ML624, a
                division by zero.
        """
        for poly, op in self.differences.items():
            size = evaluated(poly, env, op)
            if size < 0:
                raise InputError(
                    "ML623",
                    f"{op.word} would make a dim of the negative size {size}: "
                    f"{poly} ({sizes_text(env)})",
                    at=op.at,
                    fix="pass larger inputs",
                )
        for op, check in self.checks:
            left, right = (evaluated(poly, env, op) for poly in (check.left, check.right))
            if not check.compare(left, right):
                sizes = sizes_text(env)
                raise InputError(
                    "ML603",
                    f"{check.message}: {left} {check.relation} {right} does not hold"
                    + (f" ({sizes})" if sizes else ""),
                    at=op.at,
                    fix="pass inputs of sizes for which it holds",
                )

    def holds(self, env: Mapping[str, int]) -> bool:
        """Whether all of it holds of the sizes ``env``."""
        try:
            self.test(env)
        except InputError:
            return False
        return True


def may_fail(poly: Poly) -> bool:
    """Whether the size ``poly`` may come out negative or undefined: it subtracts or divides."""
    return any(
        scale < 0 or any(not isinstance(atom, str) for atom, _ in monomial)
        for monomial, scale in poly.terms
    )


def evaluated(poly: Poly, env: Mapping[str, int], op: OpFacts | None) -> int:
    """The size ``poly`` of ``op``.

    Raises:
        InputError: ML624, a division by zero.
    """
    try:
        return poly.evaluate(env)
    except ZeroDivisionError:
        raise InputError(
            "ML624",
            f"the size {poly} is a division by zero ({sizes_text(env)})",
            at=op.at if op is not None else None,
            fix="pass larger inputs",
        ) from None


def sizes_text(env: Mapping[str, int]) -> str:
    """The sizes of ``env`` as a message names them."""
    return ", ".join(f"{name} = {size}" for name, size in env.items())


__all__ = ["Guard", "evaluated", "may_fail", "sizes_text"]
