"""Tensors of 8-bit floats in graphs: how they are made, products of them, and layers with them.

``nn.kernels`` has the functions that are meant for everyone.
"""
