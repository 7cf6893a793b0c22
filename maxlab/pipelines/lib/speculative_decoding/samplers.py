"""The compiled samplers of speculative decoding: they draw draft tokens, and check them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU, Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.sampling import SamplingConfig
from maxlab.pipelines.lib.sampling.adjusting import ADJUSTING
from maxlab.pipelines.lib.sampling.inputs import in_order, min_tokens_masks, sampler_arrays
from maxlab.pipelines.lib.speculative_decoding import graphs


@dataclass(frozen=True)
class Rules:
    """The rules of the requests of a batch for drawing, on the host; each of shape [requests].

    Attributes:
        top_k: int64.
        temperature: float64.
        top_p: float64.
        min_p: float64.
        seed: uint64, that of the next token.
    """

    top_k: npt.NDArray[np.int64]
    temperature: npt.NDArray[np.float64]
    top_p: npt.NDArray[np.float64]
    min_p: npt.NDArray[np.float64]
    seed: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, config: SamplingConfig, batch: Sequence[Any]) -> Rules:
        """The rules of requests.

        Args:
            config: The features of the sampler.
            batch: The states of the requests.
        """
        arrays = sampler_arrays(config, batch)
        return cls(**{name: arrays[name] for name in (*graphs.RULES, "seed")})

    def tensors(self, device: Any) -> list[Tensor]:
        """The rules of `graphs.RULES`, and the seed, on a device.

        Args:
            device: The device.
        """
        return [on(getattr(self, name), device) for name in (*graphs.RULES, "seed")]


class Samplers:
    """The samplers for a draft model and its target.

    Args:
        config: The features of the sampler of the pipeline.
        target: The model that checks.
        draft: The model that proposes.
    """

    def __init__(
        self, config: SamplingConfig, target: PipelineModel[Any], draft: PipelineModel[Any]
    ) -> None:
        self.config = replace(config, enable_variable_logits=False, enable_structured_output=False)
        self.device, self.draft_device = target.devices[0], draft.devices[0]
        here, there = map(DeviceRef.from_device, (self.device, self.draft_device))
        load, dtype = target.session.load, self.config.out_dtype
        adjust = graphs.adjusting_graph
        self._adjusts = {here: load(adjust(self.config, here))}
        if there not in self._adjusts:
            self._adjusts[there] = draft.session.load(adjust(self.config, there))
        self._draw = draft.session.load(graphs.draft_sampler(dtype, there))
        self._merge = load(graphs.merging_graph(here))
        self._check = load(graphs.checking_graph(dtype, here))

    def adjusted(
        self, device: Any, batch: Sequence[Any], logits: Tensor, rows: npt.NDArray[np.int64]
    ) -> Tensor:
        """Rows of logits after penalties, and without tokens that come too early,
        [requests, tokens].

        Args:
            device: Where the logits are.
            batch: The state of the request of each row, with the tokens before the one that the
                logits are of.
            logits: Floats of shape [all rows, tokens].
            rows: The rows, one for each of ``batch``.
        """
        arrays: dict[str, Any] = {"logits": logits, "rows": on(rows, device)}
        given = sampler_arrays(self.config, batch)
        arrays |= {name: on(given[name], device) for name in ADJUSTING if name in given}
        if self.config.enable_min_tokens:
            arrays["min_tokens_mask"] = on(min_tokens_masks(batch, 1)[0], device)
        where = DeviceRef.from_device(device)
        types = graphs.adjusting_types(self.config, where)
        made: list[Tensor] = self._adjusts[where](*in_order(types, arrays))
        return made[0]

    def draw(
        self, logits: Tensor, tokens: Tensor, told: Tensor, *rules: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draft tokens, int64 [requests]; and all of them with their logits, [requests, steps].

        Args:
            logits: The adjusted logits, [requests, tokens].
            tokens: The draft tokens before, int64 [requests, steps].
            told: Their logits, float32.
            rules: What `graphs.draft_sampler` takes behind these, in its order, as numbers of any
                dtype.
        """
        kinds = (DType.int64, *[DType.float64] * 3, DType.uint64, DType.int64, DType.float64)
        given = [as_dtype(one, kind) for one, kind in zip(rules, kinds, strict=True)]
        new, every, logits_of_all = self._draw(logits, tokens, told, *given)
        return new, every, logits_of_all

    def merge(self, tokens: Tensor, offsets: Tensor, draft: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens of each text with its draft tokens behind them, and where each begins.

        Args:
            tokens: The tokens of all texts, int64 [tokens].
            offsets: Where those of each text begin, uint32 [texts + 1].
            draft: The draft tokens, int64 [texts, steps].
        """
        merged, ends = self._merge(tokens, offsets, draft.to(self.device))
        return merged, ends

    def check(
        self, rules: Rules, tokens: Tensor, told: Tensor, draft: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """How many draft tokens are kept, and the tokens that follow; as
        `RejectionSamplerWithResiduals` has them.

        Args:
            rules: The rules of the requests.
            tokens: The draft tokens, int64 [requests, steps].
            told: Their logits, float32.
            draft: The draft's adjusted logits, [steps, requests, tokens].
            target: The target's, [requests * (steps + 1), tokens].
        """
        given = [one.to(self.device) for one in (tokens, told, draft)]
        kept, recovered, bonus = self._check(*given, target, *rules.tensors(self.device))
        return kept, recovered, bonus


def on(array: npt.NDArray[Any], device: Any) -> Tensor:
    """The tensor of an array on a device."""
    made: Tensor = Tensor.from_numpy(np.asarray(array, order="C")).to(device)
    return made


def as_dtype(tensor: Tensor, dtype: DType) -> Tensor:
    """``tensor`` with its numbers in ``dtype``; itself where they are."""
    if tensor.dtype is dtype:
        return tensor
    array: npt.NDArray[Any] = tensor.to(CPU()).to_numpy().astype(dtype.to_numpy())
    return on(array, tensor.device)


__all__ = ["Rules", "Samplers", "as_dtype", "on"]
