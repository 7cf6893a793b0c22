"""The parts of ``scripts/gpu_check``. Those that run before anything is installed import the
standard library only: all but `sanitized` and `watch`.
"""
