"""``StepView``: the steps of a recording, chosen by number, while they come or afterwards."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from maxlab import trace
from maxlab.errors import ArgumentTypeError, MaxlabError, shown
from maxlab.lab.mime import forms_of
from maxlab.markup import escape
from maxlab.nn.steps import Step, StepRecorder, StepRecording

_PAUSE_S = 0.2
"""Steps that come faster are drawn together."""


class StepView:
    """A view of the layers of a model in a step: numbers choose the step, the sequence and the
    query, a list the layer. While the model runs it follows the last step.

    Args:
        source: A recorder, or a recording, such as that of a file.

    Attributes:
        recording: What is shown.
        step: The place of the step that is shown; -1 follows the last one.
        layer: The path of the layer whose attention is shown; empty for the last layer.
        sequence: The number of the sequence.
        query: The place of the query among those that were kept; -1 is the last one.

    Raises:
        ArgumentTypeError: ML475, ``source`` is neither.

    Example:
        >>> from maxlab.nn.steps import StepRecording
        >>> StepView(StepRecording())
        StepView(no steps yet)
    """

    def __init__(self, source: StepRecorder | StepRecording) -> None:
        recording = source.recording if isinstance(source, StepRecorder) else source
        if not isinstance(recording, StepRecording):
            raise ArgumentTypeError(
                "ML475",
                f"StepView takes a StepRecorder or a StepRecording, got {shown(source)}",
                fix="pass a recorder, or StepRecording.from_file(path)",
            )
        self.recording = recording
        self.step, self.layer, self.sequence, self.query = -1, "", 0, -1
        self._lock = threading.RLock()
        self._box: Any = None
        self._timer: threading.Timer | None = None

    # ------------------------------------------------------------ what is shown
    def _step(self) -> Step | None:
        count = len(self.recording)
        if not count:
            return None
        return self.recording[self.step if -count <= self.step < count else -1]

    def _parts(self) -> list[Any]:
        """The objects that are shown, attention as it is chosen."""
        step = self._step()
        if step is None:
            return []
        found: list[Any] = []
        layers = step.layers()
        if layers:
            seen = step.attention(self.layer if self.layer in layers else -1)
            sequence = min(max(self.sequence, 0), len(seen.weights) - 1)
            kept = seen.weights[sequence].shape[1]
            if kept:
                seen = seen.at(sequence, self.query if -kept <= self.query < kept else -1)
                found.append(seen)
            found.append(step.pages())
        for read in (step.experts, step.adapters):
            try:
                found.append(read())
            except MaxlabError as error:
                if error.code != "ML473":
                    raise
        return found

    def _page(self) -> str:
        try:
            parts = self._parts()
        except MaxlabError as error:
            return f"<p>{escape(str(error))}</p>"
        if not parts:
            return "<p>No step was recorded yet.</p>"
        return "".join(f'<div style="margin:0 0 14px">{part._repr_html_()}</div>' for part in parts)

    def _text(self) -> str:
        try:
            return "\n".join(map(repr, self._parts()))
        except MaxlabError as error:
            return str(error)

    def __repr__(self) -> str:
        step = self._step()
        if step is None:
            return "StepView(no steps yet)"
        return f"StepView(step {step.number}, {len(self.recording)} kept)"

    def _plain(self) -> str:
        return f"{self!r}\n{self._text()}".rstrip()

    def _repr_mimebundle_(
        self,
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        return forms_of(
            include,
            exclude,
            text=self._plain,
            page=self._page,
            view=lambda: self.box,
            minor=0,
        )

    # ------------------------------------------------------------ controls
    @property
    def box(self) -> Any:
        """The controls and the picture, a box of ipywidgets; the same one each time."""
        with self._lock:
            if self._box is None:
                self._make()
                self.recording.listen(self._came)
        return self._box

    def _make(self) -> None:
        import ipywidgets

        style = {"description_width": "70px"}

        def number(name: str) -> Any:
            # Not a slider: those of ipywidgets have no name for screen readers.
            made = ipywidgets.BoundedIntText(
                0, 0, 0, description=name, style=style, layout=ipywidgets.Layout(width="150px")
            )
            made.observe(self._moved, "value")
            return made

        self._steps, self._sequences, self._queries = map(number, ("step", "sequence", "query"))
        self._layers = ipywidgets.Dropdown(
            options=[], description="layer", style=style, layout=ipywidgets.Layout(width="290px")
        )
        self._layers.observe(self._moved, "value")
        self._follow = ipywidgets.Checkbox(
            True,
            description="follow the last step",
            indent=False,
            layout=ipywidgets.Layout(width="180px", margin="2px 0 2px 74px"),
        )
        self._follow.observe(self._moved, "value")
        self._shown = ipywidgets.HTML()
        controls = ipywidgets.Box(
            [self._steps, self._layers, self._sequences, self._queries, self._follow],
            layout=ipywidgets.Layout(flex_flow="row wrap"),
        )
        self._box = ipywidgets.VBox([controls, self._shown])
        self._busy = False
        self.refresh()

    def refresh(self) -> None:
        """Draws what is chosen, and gives the numbers their ends."""
        with self._lock:
            if self._box is None:
                return
            self._busy = True
            try:
                self._set_ends()
            finally:
                self._busy = False
            self._shown.value = self._page()

    def _set_ends(self) -> None:
        step = self._step()
        if step is None:
            return
        count = len(self.recording)
        _end(self._steps, count - 1, self.step if 0 <= self.step < count else count - 1)
        self._follow.value = self.step < 0
        layers = step.layers()
        if tuple(self._layers.options) != tuple(layers):
            self._layers.options = layers
        if not layers:
            return
        self._layers.value = self.layer if self.layer in layers else layers[-1]
        seen = step.attention(self._layers.value)
        sequences = len(seen.weights)
        sequence = min(max(self.sequence, 0), sequences - 1)
        _end(self._sequences, sequences - 1, sequence)
        kept = seen.weights[sequence].shape[1]
        _end(self._queries, max(kept - 1, 0), self.query if 0 <= self.query < kept else kept - 1)

    def _moved(self, change: Any) -> None:
        """A control was moved by the user."""
        if self._busy:
            return
        with self._lock:
            if change["owner"] is self._steps:
                self.step = self._steps.value
            elif change["owner"] is self._follow:
                self.step = -1 if self._follow.value else self._steps.value
            elif change["owner"] is self._layers:
                self.layer = self._layers.value or ""
            elif change["owner"] is self._sequences:
                self.sequence, self.query = self._sequences.value, -1
            else:
                last = self._queries.value == self._queries.max
                self.query = -1 if last else self._queries.value
            self.refresh()

    def _came(self) -> None:
        """Something was recorded: draw it soon."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(_PAUSE_S, self._draw_soon)
                self._timer.daemon = True
                self._timer.start()

    def _draw_soon(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.refresh()
        except Exception as error:  # nobody waits for this thread
            trace.emit("warning", "steps", message=str(error))


def _end(number: Any, most: int, value: int) -> None:
    """Lets ``number`` be 0 to ``most``."""
    number.max = max(most, 0)
    number.value = min(max(value, 0), number.max)
    number.disabled = most < 1


__all__ = ["StepView"]
