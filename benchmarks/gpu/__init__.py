"""Benchmarks of the GPU side, timed by the device's own clock; see ``__main__``."""
