"""A model behind HTTP, in the form of OpenAI's API: ``python -m maxlab serve MODEL``.

``command`` is the command, ``app`` makes the ASGI application, ``engine`` runs the model,
``requests`` has what may be asked, ``routes`` answers it, and ``limits`` says how much of
everything there may be.
"""

from __future__ import annotations

__all__: list[str] = []
