"""Theoretical and effective receptive fields of layers, and their size.

- `layers.py`: names a layer and arranges its output on a grid; the layers that are measured by default.
- `graph.py`: reads the autograd graph.
- `theoretical.py`: the theoretical field, from kernels, strides and attention windows.
- `effective.py`: the effective field, from gradients, and which units of a layer are measured.
- `measures.py`: a field, its size as numbers with confidence intervals, and that of a uniform field.
- `layer_numbers.py`: all of these for each layer of a network, in px or ms.
"""
