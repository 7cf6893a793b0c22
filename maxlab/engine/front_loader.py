"""The functions of the layers above that models call: `LOADER`. They are imported when they are
called, so that a model runs without the code that builds and compiles graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxlab import trace

if TYPE_CHECKING:
    from maxlab.compiler import Options
    from maxlab.engine.model import Model


class Loader:
    """Profiles, saves and loads again the models that sessions have loaded."""

    def profile(self, model: Model, inputs: Sequence[Any], *, runs: int, warmup: int) -> Any:
        """The ``Profile`` of ``model`` on ``inputs``."""
        from maxlab.engine.profile import profile_model

        return profile_model(model, inputs, runs=runs, warmup=warmup)

    def load_again(self, model: Model, *, options: Options, num_threads: int) -> Model:
        """The graph and weights of ``model`` as another model, loaded as it was."""
        made: Model = trace.reading("load_again")(model, options=options, num_threads=num_threads)
        return made

    def save(self, model: Model, path: Any, weights: Any) -> str:
        """The digest of the file at ``path``, which now holds ``model``."""
        from maxlab.engine.kept.saving import save_model

        return save_model(model, path, weights)

    def pickled(self, model: Model) -> tuple[Any, ...]:
        """The function that pickle calls to make ``model`` again, and its arguments."""
        made: tuple[Any, ...] = trace.reading("pickled")(model)
        return made


LOADER = Loader()

__all__ = ["LOADER"]
