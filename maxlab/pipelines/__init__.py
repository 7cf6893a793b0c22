"""Serving of models: the state of requests, `core`, and older import paths of ``nn``."""
