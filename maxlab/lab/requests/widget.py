"""``SamplingView``: sliders of sampling parameters, and what they do to one distribution."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Collection
from typing import Any, get_args

import anywidget
import numpy as np
import numpy.typing as npt
import traitlets

from maxlab import trace
from maxlab.errors import MaxlabError
from maxlab.interfaces import SamplingParams, TextGenerationContext, fields
from maxlab.lab import bundle
from maxlab.lab.mime import forms_of
from maxlab.lab.protocol import reader
from maxlab.lab.protocol.sampling import SamplingControl, SamplingName
from maxlab.lab.requests import chart
from maxlab.lab.requests.facts import facts_of
from maxlab.lab.requests.style import CSS, page
from maxlab.lab.widget import loader
from maxlab.markup import escape
from maxlab.pipelines.core.showing import texts_of
from maxlab.pipelines.lib.sampling_reference import (
    Distribution,
    Tokens,
    distribution,
    next_distribution,
)

MOST_DRAWN = 10_000
"""Tokens that one draw takes."""
_SEED = re.compile("[0-9]{1,20}")

# Name, label, the ends of the slider, its step, and the largest number of the box.
_CONTROLS: tuple[tuple[SamplingName, str, float, float, float, float | None], ...] = (
    ("temperature", "temperature", 0, 2, 0.05, None),
    ("top_k", "top-k", -1, 100, 1, 255),
    ("top_p", "top-p", 0, 1, 0.01, 1),
    ("min_p", "min-p", 0, 1, 0.01, 1),
    ("repetition_penalty", "repetition penalty", 0.05, 2, 0.05, None),
    ("frequency_penalty", "frequency penalty", -2, 2, 0.1, None),
    ("presence_penalty", "presence penalty", -2, 2, 0.1, None),
)
NAMES: tuple[SamplingName, ...] = get_args(SamplingName)
"""The parameters with a slider."""


def controls() -> list[SamplingControl]:
    """The sliders, with what the documentation of `SamplingParams` says of each."""
    meanings = {fact.name: fact.meaning for fact in facts_of(SamplingParams())}
    return [
        {
            "name": name,
            "label": label,
            "help": meanings[name].replace("``", ""),
            "least": least,
            "most": most,
            "step": step,
            "limit": limit,
        }
        for name, label, least, most, step, limit in _CONTROLS
    ]


class _Seed(traitlets.Unicode[str, Any]):
    """The text of an int, which may be set as an int too."""

    def validate(self, obj: Any, value: Any) -> Any:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return super().validate(obj, str(value) if is_number else value)


class SamplingView(anywidget.AnyWidget):
    """The distribution of the next token, and controls of the parameters that it is drawn by.

    Each parameter is an attribute that can be set and observed, such as ``view.temperature``. The
    numbers are those of `maxlab.pipelines.lib.sampling_reference`, computed in Python.

    Args:
        logits: Of each token of the vocabulary, shape [tokens].
        params: The parameters to begin with; those of ``context``, or of `SamplingParams`.
        context: The state of a request: its tokens are penalised, and before its least number of
            tokens none that ends it is drawn.
        tokenizer: What gives the texts of tokens, as that of `TextContext.show`.
        prompt: The tokens of the prompt, where there is no context.
        generated: The tokens that were generated, where there is no context.
        count: How many tokens have bars: the most probable ones, 1 or more.

    Attributes:
        problem: Why the chart is not of the settings: the message of an error; empty when it is.
        revision: Grows with each answer to a change.

    Raises:
        InputTypeError, InputError: As by `distribution`; ML982, a context and tokens besides.
        UnsupportedError: ML186, as by `next_distribution`.

    Example:
        >>> from maxlab.lab import SamplingView
        >>> view = SamplingView(np.log([0.5, 0.3, 0.2]), SamplingParams(top_k=2, seed=1))
        >>> view
        SamplingView(2 of 3 tokens kept, top_k=2)
        >>> view.top_p = 0.4
        >>> view.distribution.kept, view.draw(3)
        (1, [0, 0, 0])
    """

    _esm = loader()

    kind = traitlets.Unicode("sampling").tag(sync=True)
    controls: traitlets.List[SamplingControl] = traitlets.List().tag(sync=True)
    temperature = traitlets.CFloat(1.0).tag(sync=True)
    top_k = traitlets.CInt(-1).tag(sync=True)
    top_p = traitlets.CFloat(1.0).tag(sync=True)
    min_p = traitlets.CFloat(0.0).tag(sync=True)
    repetition_penalty = traitlets.CFloat(1.0).tag(sync=True)
    frequency_penalty = traitlets.CFloat(0.0).tag(sync=True)
    presence_penalty = traitlets.CFloat(0.0).tag(sync=True)
    seed = _Seed("0").tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)
    css = traitlets.Unicode(CSS).tag(sync=True)
    page = traitlets.Unicode("").tag(sync=True)
    problem = traitlets.Unicode("").tag(sync=True)
    revision = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        logits: npt.ArrayLike,
        params: SamplingParams | None = None,
        *,
        context: TextGenerationContext | None = None,
        tokenizer: Any = None,
        prompt: Tokens = (),
        generated: Tokens = (),
        count: int = 20,
    ) -> None:
        if context is not None:
            fields.instance(TextGenerationContext)("context", context)
            if len(prompt) or len(generated):
                raise fields.contradiction(
                    "SamplingView has a context and tokens besides",
                    "leave prompt and generated out: they are those of the context",
                )
            params = params or context.sampling_params
        params = params or SamplingParams()
        fields.instance(SamplingParams)("params", params)
        fields.integer(1)("count", count)
        self._base = params
        self._logits = np.array(logits)
        self._context = context
        self._tokens = (tuple(prompt), tuple(generated))
        self._texts = texts_of(tokenizer)
        self._count = count
        self._drawn: list[int] = []
        self._working = threading.Lock()
        self._found = self._compute(params)
        super().__init__(
            controls=controls(),
            seed=str(params.seed),
            **{name: getattr(params, name) for name in NAMES},
        )
        self._show()
        self.observe(self._changed, [*NAMES, "seed"])
        self.on_msg(self._received)

    # ------------------------------------------------------------ what is shown
    @property
    def params(self) -> SamplingParams:
        """The parameters as the controls are set; what has no control is as it was given.

        Raises:
            InputError: A control is set to what the parameter cannot be, which `problem` says too.
        """
        set_to = {name: getattr(self, name) for name in NAMES}
        if not _SEED.fullmatch(self.seed):
            raise fields.out_of_range("seed", self.seed, "an int in [0, 2**64)")
        return dataclasses.replace(self._base, seed=int(self.seed), **set_to)

    @property
    def distribution(self) -> Distribution:
        """The distribution that the chart shows."""
        return self._found

    @property
    def drawn(self) -> list[int]:
        """The tokens that were drawn since a control was moved."""
        return list(self._drawn)

    def draw(self, count: int = 1) -> list[int]:
        """Tokens that are drawn, which the chart shows; the same ones for the same seed.

        Args:
            count: How many, in [1, 10000]; each is drawn as if it were the only one.

        Raises:
            InputTypeError, InputError: ``count`` is no such number; or the settings are none.
        """
        fields.integer(1, MOST_DRAWN)("count", count)
        with self._working:
            self._drawn = self._found.draw(self.params.seed, count).tolist()
            self._show()
        return self.drawn

    def __repr__(self) -> str:
        found = self._found
        try:
            params = self.params
        except MaxlabError as error:
            return f"SamplingView({error.what})"
        changed = [
            f"{fact.name}={fact.value:g}"
            for fact in facts_of(params)
            if fact.name in NAMES and fact.is_default is False
        ]
        kept = f"{found.kept} of {len(found.rules)} tokens kept"
        return f"SamplingView({', '.join([kept, *changed])})"

    def _repr_mimebundle_(
        self,
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        **_: Any,
    ) -> Any:
        return forms_of(
            include,
            exclude,
            text=self._text,
            page=lambda: page(self.label, self._settings() + self.page),
            view=lambda: self,
            still=True,
        )

    def _text(self) -> str:
        return f"{self!r}\n{chart.text(self._found, self._texts, min(self._count, 10))}"

    def _settings(self) -> str:
        """The settings of the controls, for a page without them."""
        said = [(label, getattr(self, name)) for name, label, *_ in _CONTROLS]
        cells = [f"<span>{escape(label)} <b>{value:g}</b></span>" for label, value in said]
        cells.append(f"<span>seed <b>{escape(self.seed)}</b></span>")
        return f'<section><div class="mx-rq-numbers">{"".join(cells)}</div></section>'

    # ------------------------------------------------------------ changes
    def _compute(self, params: SamplingParams) -> Distribution:
        if self._context is not None:
            return next_distribution(self._logits, self._context, params)
        prompt, generated = self._tokens
        return distribution(self._logits, params, prompt=prompt, generated=generated)

    def _show(self) -> None:
        body = chart.body(self._found, self._texts, self._count, self._drawn)
        position = self._found.position
        with self.hold_sync():
            self.label = f"The token at place {position}"
            self.page = body
            self.problem = ""
            self.revision += 1

    def _changed(self, change: Any) -> None:
        """Compute anew; what cannot be is said, and the chart stays as it was."""
        del change
        with self._working:
            try:
                self._found = self._compute(self.params)
            except MaxlabError as error:
                with self.hold_sync():
                    self.problem = error.what
                    self.revision += 1
                return
            self._drawn = []
            self._show()

    def _received(self, _widget: object, content: Any, _buffers: object) -> None:
        """Answer a message of the page; called on any thread."""
        try:
            message = reader.sampling_message(content)
            if message["type"] == "need_bundle":
                self.send(*bundle.message())
            else:
                self.draw(message["count"])
        except Exception as error:  # a page can only be told, and the kernel must go on
            trace.emit("warning", "sampling", message=str(error), request=str(content)[:200])
            with self.hold_sync():
                self.problem = error.what if isinstance(error, MaxlabError) else str(error)
                self.revision += 1


__all__ = ["NAMES", "SamplingView", "controls"]
