"""The parts of ``scripts/unary_exhaustive``: every unary op on every float32 number."""
