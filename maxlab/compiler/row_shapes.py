"""Rows that a GPU keeps in registers: how the elements of a row are spread over threads."""

from __future__ import annotations

from dataclasses import dataclass, replace

WARP = 32
VECTOR_BYTES = 16
"""The widest access of one thread."""
MAX_VECTOR = 8


@dataclass(frozen=True, slots=True)
class RowShape:
    """A row in the registers of some threads: vector ``n * lanes + i`` is in the lane ``i``.

    Attributes:
        lanes: Threads that share a row, a power of two: a part of a warp, a warp, or a block.
        rows: Rows of a block, at most.
        vector: Elements that lie side by side in a lane, and are read and written at once.
        count: Vectors of a lane.
        least: Elements that rows have more than: of vectors that all rows fill none is tested.
    """

    lanes: int
    rows: int
    vector: int
    count: int
    least: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.rows

    @property
    def capacity(self) -> int:
        """The longest row."""
        return self.lanes * self.vector * self.count

    def holds(self, width: int) -> bool:
        """Whether rows of ``width`` elements can be spread so."""
        return self.least < width <= self.capacity and width % self.vector == 0


BLOCK = 256
"""Threads of a block that has several rows."""
MOST_LANES = 1024
LEAST_LANES = 8
"""Lanes that read as much beside each other as a transfer of memory brings."""
USUAL_VECTORS, USUAL = 4, 16
"""Vectors of a lane, or elements where these come one by one: enough loads on their way, and
registers left for other blocks."""


def shape_of(width: int, vector: int, most: int, least: int = 1) -> RowShape | None:
    """The shape for rows of ``width`` elements; None where they are too long or empty.

    Args:
        width: Elements of a row.
        vector: Elements of a vector, of which a row is a whole number.
        most: Elements that a lane may have.
        least: Lanes of a row, at least.
    """
    vectors = -(-width // vector)
    usual = max(min(USUAL_VECTORS if vector > 1 else USUAL, most // vector), 1)
    lanes = max(_power(min(vectors, LEAST_LANES)), _power(-(-vectors // usual)), least)
    if lanes > WARP and -(-vectors // (lanes // 2)) <= min(usual + usual // 2, most // vector):
        lanes = max(lanes // 2, WARP)  # a few more of each are better than many idle lanes
    if lanes > MOST_LANES // 2:  # then two blocks have room beside each other
        lanes = MOST_LANES // 2 if vectors * vector <= most * MOST_LANES // 2 else MOST_LANES
    count = -(-vectors // lanes)
    most = min(most, USUAL) if lanes == MOST_LANES else most  # it has 64 registers
    if vectors == 0 or (count * vector > most and count > 1):
        return None
    return RowShape(lanes, max(BLOCK // lanes, 1) if lanes <= WARP else 1, vector, count)


def shapes_of(vector: int, most: int, least: int = 1) -> tuple[RowShape, ...]:
    """Shapes for rows of any width, the smallest first: each holds rows twice as long as the one
    before it. Behind those for vectors are those whose elements come one by one.
    """
    found: list[RowShape] = []
    for size in (vector, 1) if vector > 1 else (1,):
        width, before = 2 * LEAST_LANES * size, 0
        few = most if size > 1 else min(most, USUAL)  # each has an address, too
        while (shape := shape_of(width, size, few, least)) is not None:
            if size == 1 and shape.lanes == MOST_LANES:
                break  # they have too few registers for that
            if shape.capacity > before:
                found.append(replace(shape, least=before))
                before = shape.capacity
            width *= 2
    return tuple(found)


def _power(number: int) -> int:
    """The smallest power of two that is not below ``number``."""
    return 1 << max(number - 1, 0).bit_length()


__all__ = ["MAX_VECTOR", "VECTOR_BYTES", "WARP", "RowShape", "shape_of", "shapes_of"]
