"""The parts of pipelines: configurations, repositories of models, tokenizers, and the pipelines.

Import each from its module, such as ``maxlab.pipelines.lib.hf_utils``.
"""
