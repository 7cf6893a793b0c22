"""Where the parts of images lie: patches in their windows, and tokens in a text.

An image is a grid of patches. Each square of ``merge`` by ``merge`` patches becomes one token; the
patches of a token follow each other, and the tokens go row by row. S. Bai et al., "Qwen2.5-VL
Technical Report", 2025, arXiv:2502.13923, describes the windows and the positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Grid = tuple[int, int, int]
"""The frames, rows and columns of the patches of an image; an image has one frame."""


@dataclass(frozen=True)
class Layout:
    """The patches of several images, in the order that the layers with windows take them.

    Attributes:
        order: The token that stands at each place, int64 [tokens].
        back: The place of each token, int64 [tokens].
        places: The row and the column of each patch in its image, float32 [patches, 2], in the new
            order.
        windows: Where the patches of each window begin, uint32 [windows + 1].
        frames: Where the patches of each frame begin, uint32 [frames + 1].
    """

    order: npt.NDArray[np.int64]
    back: npt.NDArray[np.int64]
    places: npt.NDArray[np.float32]
    windows: npt.NDArray[np.uint32]
    frames: npt.NDArray[np.uint32]

    @property
    def longest(self) -> int:
        """The most patches of a window or a frame."""
        return int(max(np.diff(self.windows).max(), np.diff(self.frames).max()))


def layout_of(grids: Sequence[Grid], merge: int, window: int) -> Layout:
    """The layout of images.

    Args:
        grids: The grid of each image.
        merge: The patches along a side of a token.
        window: The tokens along a side of a window. Windows at the lower and the right edge of an
            image are smaller.

    Example:
        >>> layout_of([(1, 4, 6)], merge=2, window=2).order  # two rows of three tokens
        array([0, 1, 3, 4, 2, 5])
        >>> layout_of([(1, 4, 6)], merge=2, window=2).windows  # of four tokens, and of two
        array([ 0, 16, 24], dtype=uint32)
    """
    order: list[npt.NDArray[np.int64]] = []
    places, windows, frames, first = [], [0], [0], 0
    unit = merge * merge
    for count, height, width in grids:
        rows, columns = height // merge, width // merge
        numbers = first + np.arange(count * rows * columns).reshape(count, rows, columns)
        first += numbers.size
        for frame in numbers:
            for row in range(0, rows, window):
                for column in range(0, columns, window):
                    inside = frame[row : row + window, column : column + window].reshape(-1)
                    order.append(inside)
                    windows.append(windows[-1] + inside.size * unit)
            frames.append(frames[-1] + frame.size * unit)
        grid = np.indices((rows, merge, columns, merge))
        of_patches = np.stack([grid[0] * merge + grid[1], grid[2] * merge + grid[3]], axis=-1)
        of_tokens = of_patches.transpose(0, 2, 1, 3, 4).reshape(-1, unit, 2)
        places.append(np.tile(of_tokens, (count, 1, 1)))
    taken = np.concatenate(order).astype(np.int64)
    return Layout(
        taken,
        np.argsort(taken),
        np.concatenate(places)[taken].reshape(-1, 2).astype(np.float32),
        np.array(windows, np.uint32),
        np.array(frames, np.uint32),
    )


def token_positions(
    start: int, stop: int, spans: Sequence[tuple[int, int]], grids: Sequence[Grid], merge: int
) -> npt.NDArray[np.int64]:
    """The positions of the tokens of a text in time, height and width, int64 [3, stop - start].

    Those of a text's token are equal, and follow the largest one before it. Tokens of an image
    begin there, and count its frames, rows and columns.

    Args:
        start: The first token.
        stop: One past the last token.
        spans: The first token of each image of the text, and one past its last.
        grids: The grid of each image.
        merge: The patches along a side of a token.

    Example:
        >>> token_positions(0, 7, [(1, 5)], [(1, 4, 4)], merge=2)
        array([[0, 1, 1, 1, 1, 3, 4],
               [0, 1, 1, 2, 2, 3, 4],
               [0, 1, 2, 1, 2, 3, 4]])
    """
    found = np.tile(np.arange(stop, dtype=np.int64), (3, 1))
    for (first, end), (count, height, width) in zip(spans, grids, strict=True):
        if first >= stop:
            break
        rows, columns = height // merge, width // merge
        inside = np.indices((count, rows, columns), np.int64).reshape(3, -1)
        found[:, first:end] = (found[0, first] + inside)[:, : stop - first]
        found[:, end:] += max(rows, columns) - (end - first)
    return found[:, start:]


__all__ = ["Grid", "Layout", "layout_of", "token_positions"]
