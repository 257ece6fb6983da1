"""Accuracy when only a part of the input is visible (occlusion; Zeiler and Fergus 2014, arXiv:1311.2901).

- `windows.py`: inputs with everything outside a window replaced.
- `accuracy.py`: the accuracy against the radius of the window.
"""
