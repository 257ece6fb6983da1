"""Attention models for images and speech: train, run and understand them.

The names in `__all__` are the public interface: what configs, scripts and users import. They stand in `__init__.pyi`,
where type checkers find them, too. Each is loaded on first use (PEP 562), so `import vitspeech` itself takes
milliseconds and does not import torch.
"""

from vitspeech.lazy_names import on_first_use

__version__ = "0.2.0"
_ELSEWHERE = dict.fromkeys(("create_model", "from_pretrained", "pipeline", "AutoModel", "load_model"), "vitspeech.load")
_ELSEWHERE |= {verb: f"the command `vitspeech {verb}`" for verb in ("compare", "evaluate", "export", "record", "train")}
_ELSEWHERE |= {
    "Attention": "vitspeech.MultiHeadAttention",
    "Trainer": "the command `vitspeech train`, or a loop of your own",
    "TransformerEncoder": "vitspeech.Encoder",
    "VisionTransformer": "vitspeech.ViT",
    "list_models": "the folders in checkpoints/ of the repository",
    "save_pretrained": "vitspeech.save",
}
__getattr__, __dir__, __all__ = on_first_use(__name__, _ELSEWHERE)
