"""The sizes of the batches that a pipeline has run, and the file that they are written to."""

from __future__ import annotations

import json
import os
import weakref
from dataclasses import asdict, dataclass

from maxlab import files

FILENAME = "MAX_BATCH_INFO_FILENAME"
"""The variable of the environment that names the file."""


@dataclass
class BatchInfo:
    """The sizes of one batch.

    Args:
        past_seq_lens: For each request, the number of its tokens that were cached before.
        seq_lens: For each request, the number of tokens that went in: of its prompt, or 1.
        num_steps: The number of steps.

    Example:
        >>> BatchInfo(past_seq_lens=[0, 17], seq_lens=[5, 1], num_steps=1).seq_lens
        [5, 1]
    """

    past_seq_lens: list[int]
    """The number of cached tokens of each request."""
    seq_lens: list[int]
    """The number of tokens of each request that went in."""
    num_steps: int
    """The number of steps."""


class BatchInfos:
    """Collects the sizes of batches, and writes them as JSON when its owner goes or Python ends.

    The file has one object, ``{"batch_data": [...]}``, with an entry for each batch. Nothing is
    collected while the variable `FILENAME` is not set.

    Args:
        owner: The pipeline.
    """

    def __init__(self, owner: object) -> None:
        self.path = os.environ.get(FILENAME)
        self._infos: list[BatchInfo] = []
        self._write = weakref.finalize(owner, _write, self.path, self._infos)

    def add(self, info: BatchInfo) -> None:
        """Collects the sizes of one batch.

        Args:
            info: The sizes.
        """
        if self.path is not None:
            self._infos.append(info)

    def shorten(self, num_steps: int) -> None:
        """Corrects the number of steps of the last batch, which ended before all were taken.

        Args:
            num_steps: The number of steps that were taken.
        """
        if self._infos:
            self._infos[-1].num_steps = num_steps


def _write(path: str | None, infos: list[BatchInfo]) -> None:
    if path is not None:
        text = json.dumps({"batch_data": [asdict(one) for one in infos]}, indent=2)
        files.write_text(path, text)


__all__ = ["FILENAME", "BatchInfo", "BatchInfos"]
