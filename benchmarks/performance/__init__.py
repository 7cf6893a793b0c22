"""What maxlab takes beside its peers, row by row: ``python -m benchmarks.performance``."""
