"""Theoretical and effective receptive fields of layers, and their size.

- `layers.py`: names a layer and arranges its output on a grid.
- `default_layers.py`: the layers that are measured by default.
- `graph.py`: reads the autograd graph.
- `theoretical.py`: the theoretical field, from kernels, strides and attention windows.
- `units.py`: which units of a layer are measured.
- `effective.py`: the effective field, from gradients.
- `field.py`: a field, with how many units could see each offset.
- `extent.py`: its size as numbers with confidence intervals, and that of a uniform field.
- `layer_numbers.py`: all of these for each layer of a network, in px or ms.
"""
