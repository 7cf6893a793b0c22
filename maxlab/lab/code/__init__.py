"""The cell that builds a graph, and edits of the graph that come back into it.

``reading`` follows which expression made which operation, ``rewriting`` writes anew what the graph
reads there now, ``checking`` runs the result in a copy where that can do no harm, and ``proposing``
puts these together. Nothing is written by guess: what cannot be followed is refused, with a reason.
"""

from __future__ import annotations

from maxlab.lab.code.proposing import Proposal, propose
from maxlab.lab.code.refusing import CodeError
from maxlab.lab.code.trying import rewritten

__all__ = ["CodeError", "Proposal", "propose", "rewritten"]
