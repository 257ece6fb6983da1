"""Models as ONNX graphs: a folder that runs on numpy and ONNX Runtime alone, in Python or in a browser."""

from vitspeech.export.folder import export

__all__ = ["export"]
