"""Whole programs on top of pipelines: a model of language that is asked by a function call.

``llm`` has `LLM`, which runs a model in a process of its own.
"""

from __future__ import annotations

__all__: list[str] = []
