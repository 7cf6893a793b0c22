"""The members of the ZIP archives that ``torch.save`` writes."""

from __future__ import annotations

from maxlab.graph.weights.mapped import MappedFile
from maxlab.stored import DamagedError, PackedError
from maxlab.stored import members as members_of


def members(file: MappedFile) -> dict[str, tuple[int, int]]:
    """``(begin, nbytes)`` of each member of an archive, by name.

    Raises:
        WeightError: ML633, the archive is cut off or contradicts itself; ML637, members are
            compressed or encrypted.
    """
    try:
        return members_of(file.map)
    except DamagedError as error:
        raise file.bad(str(error)) from error
    except PackedError as error:
        fix = "save it again with torch.save, which stores members as they are"
        raise file.unreadable(str(error), fix) from error
