"""Readings of compiled models and their runs: what they cost and why, whether they are right, and
what changed between two of them.

Everything here looks at graphs, plans, profiles and the event stream, and changes none of them.
"""
