"""Compiled models in files, ``.mlmodel``: docs/adr/032-kept-models.md has the format.

`contents` says what is in a file and runs nothing of it. Nothing is imported here, so that a model
is loaded without what builds graphs.
"""
