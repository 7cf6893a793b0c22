"""The names of the operands of operations."""

from __future__ import annotations

from maxlab.lab.palette import offers


def operand_names(op: str) -> list[str]:
    """The names of the operands of ``op``, by the parameters of ``ops`` that they are given by.

    A name that ends with `` 0`` is the first of as many as there are; an operation that ``ops``
    does not have as such has none.

    Example:
        >>> operand_names("where"), operand_names("concat"), operand_names("no_such")
        (['condition', 'x', 'y'], ['original_vals 0'], [])
    """
    offer = offers().get(op)
    if offer is None:
        return []
    return [
        p.name if p.kind == "value" else f"{p.name} 0"
        for p in offer.parameters
        if p.kind in ("value", "values")
    ]


def names_of_operands() -> dict[str, list[str]]:
    """The names of the operands of every operation that has some, by its name."""
    found = {name: operand_names(name) for name in offers()}
    return {name: names for name, names in found.items() if names}


__all__ = ["names_of_operands", "operand_names"]
