"""The notebook side: what turns graphs, models and profiles into something to look at.

Nothing below imports this package; objects reach it through the hooks of ``maxlab.trace``. It reads
the graph, the plan and the profile, and changes none of them.

``snapshot``  a graph, model or profile as a document (``protocol`` declares it)
``display``   what a notebook shows for an object, in every form that a front end may know
``widget``    ``GraphView``, the interactive view
``export``    one HTML page that needs no network
``requests``  requests, contexts and batches of pipelines, and ``SamplingView``
``steps``     ``StepView``: what layers did in the steps of a model
``cuda_sim``  ``%%cuda_sim``: CUDA kernels on the CPU, their mistakes, threads and memory
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxlab.lab.requests.widget import SamplingView
    from maxlab.lab.steps import StepView
    from maxlab.lab.widget import GraphView

__all__ = ["GraphView", "SamplingView", "StepView"]


def __getattr__(name: str) -> Any:
    # ipywidgets takes a tenth of a second to import, and a text listing does not need it.
    if name == "GraphView":
        from maxlab.lab.widget import GraphView

        return GraphView
    if name == "SamplingView":
        from maxlab.lab.requests.widget import SamplingView

        return SamplingView
    if name == "StepView":
        from maxlab.lab.steps import StepView

        return StepView
    raise AttributeError(f"module 'maxlab.lab' has no attribute {name!r}")
