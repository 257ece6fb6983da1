"""What is compared: a released model or a network of timm, before and after training, at any size of input.

Shapes: B batch, N image side in pixels or samples of a clip, T tokens, D width, R rows of tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data import resolve_data_config
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech import checkpoint
from vitspeech.data.images.module import normalize
from vitspeech.models import SpeechTranscriber, TimmModel, ViT
from vitspeech.receptive.fields.default_layers import default_layers
from vitspeech.receptive.fields.layers import INPUT, Layer
from vitspeech.receptive.initialization import initialize_from

TIMM = "timm:"
SEED = 0  # of untrained weights


@dataclass(frozen=True)
class Subject:
    """A model under comparison.

    Args:
        name: What it is called in the report.
        trained: Whether its weights are there; those of timm's networks are only fetched on demand.
        size: Side in px of the pictures, or seconds of the clips, that it was made for.
        preprocessing: `image`, `mean` and `std` of pictures, or `sample_rate_hz` and `seconds` of clips.
        labels: Of its answers; `None` where they are not known, or where it gives transcripts.
        model: The released model.
        timm_name: The network's name in timm.
    """

    name: str
    trained: bool
    size: float
    preprocessing: dict[str, Any]
    labels: Sequence[str] | None
    model: checkpoint.Model | None = field(default=None, repr=False)
    timm_name: str | None = None

    @property
    def hears(self) -> bool:
        """Whether it takes sound."""
        return "sample_rate_hz" in self.preprocessing

    @property
    def gives_labels(self) -> bool:
        """Whether it answers a whole input with one label."""
        return self.model is None or "units" not in self.preprocessing

    @property
    def source(self) -> Layer:
        """Where gradients end: at a picture's pixels, or at the log-mel frames of a clip."""
        return Layer("tokens.log_mel", "mel") if self.hears else Layer(INPUT)

    def network(self, *, trained: bool = True, size: float | None = None, sample: Tensor | None = None) -> nn.Module:
        """The network in evaluation mode.

        Args:
            trained: With its weights, or as it was before training (seed 0).
            size: Of the inputs in px or seconds; `None` is `size`. Positions learned for another number of tokens are
                interpolated (bicubic), as in Dosovitskiy et al. 2021, sec. 3.2.
            sample: Inputs from which an untrained network sets what depends on data, as in its first step of training.

        Raises:
            ValueError: If there are no weights, or the network can't take the size.
            ConnectionError: If weights of timm can't be fetched.
        """
        size = self.size if size is None else size
        if trained and not self.trained:
            raise ValueError(f"{self.name} has no trained weights here; --pretrained fetches those of timm")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            try:
                made = self.of_timm(trained, int(size)) if self.model is None else self.of_checkpoint(trained, size)
            except (ValueError, AssertionError) as error:
                raise ValueError(f"{self.name} can't take {self.described(size)}: {error}") from None
        made = made.eval().requires_grad_(False)
        if not trained and sample is not None:
            initialize_from(made, sample)
        return made

    def described(self, size: float) -> str:
        """A size in words."""
        return f"clips of {size:g} s" if self.hears else f"pictures of {size:g} px"

    def of_timm(self, trained: bool, size: int) -> nn.Module:
        """A network of timm, made for pictures of that side where it is made for one."""
        try:
            try:
                return timm.create_model(self.timm_name, pretrained=trained, img_size=size)
            except TypeError:  # takes pictures of any size
                return timm.create_model(self.timm_name, pretrained=trained)
        except OSError as error:
            raise ConnectionError(f"{self.name}: timm can't get its weights: {error}") from None

    def of_checkpoint(self, trained: bool, size: float) -> nn.Module:
        """The released network, rebuilt for pictures of that side."""
        config = self.model.config
        arguments = dict(config.get("init_args") or {})
        try:
            resized = config | {"init_args": with_size(self.model.network, arguments, int(size))}
            made = checkpoint.build(resized, self.model.trust)
        except TypeError:  # a network of timm that takes pictures of any size
            made = checkpoint.build(config, self.model.trust)
        if trained:
            weights = self.model.network.state_dict()
            for name, tensor in made.state_dict().items():
                if tensor.shape != weights[name].shape:
                    weights[name] = resampled(weights[name], len(tensor))
            made.load_state_dict(weights)
        return made

    def inputs(self, raw: Tensor, size: float | None = None) -> Tensor:
        """What the network takes: uint8 pictures (B, 3, N, N), scaled to the size, or int16 clips (B, N), each followed
        by the next ones until it is long enough."""
        size = self.size if size is None else size
        if self.hears:
            count = round(size * self.preprocessing["sample_rate_hz"])
            repeats = -(-count // raw.shape[1])
            joined = torch.cat([raw.roll(-number, 0) for number in range(repeats)], dim=1)
            return joined[:, :count] / 32768
        if raw.shape[-1] != size:
            raw = F.interpolate(raw.float(), int(size), mode="bicubic", antialias=True).clamp(0, 255)
        return normalize(raw, self.preprocessing["mean"], self.preprocessing["std"])

    def layers(self, network: nn.Module, inputs: Tensor) -> list[Layer]:
        """The layers that are measured; see `default_layers`."""
        return default_layers(network, inputs)


def subject(name: str, *, size: int | None = None, pretrained: bool = False, trust: Sequence[str] = ()) -> Subject:
    """A model by what the command line calls it.

    Args:
        name: Folder of a released model or a finished run, or `timm:NAME`.
        size: Side in px of what networks of timm are made for; `None` is that of their own weights.
        pretrained: Whether networks of timm come with their weights; timm fetches what it does not have.
        trust: Modules of your own whose classes released models may use; see `vitspeech.load`.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If timm has no network of that name, or the folder's model can't be loaded or takes more than one
            input.
    """
    if not name.startswith(TIMM):
        model = checkpoint.load(name, trust=trust)
        if isinstance(model.network, SpeechTranscriber):
            raise ValueError(f"{name}: SpeechTranscriber takes a transcript, too; give a model that takes sound alone")
        hears = "sample_rate_hz" in model.preprocessing
        own = model.preprocessing.get("seconds", 1.0) if hears else model.preprocessing["image"]
        labels = None if "units" in model.preprocessing else model.labels
        folder = Path(name).resolve()
        folder = folder.parent if folder.name == "model" else folder
        return Subject(folder.name, True, own, model.preprocessing, labels, model)
    timm_name = name.removeprefix(TIMM)
    if not timm.is_model(timm_name) or ":" in timm_name:
        close = ", ".join(get_close_matches(timm_name, timm.list_models(), n=5)) or "none; see timm.list_models()"
        raise ValueError(f"{name}: not a network of timm; close names: {close}")
    own = resolve_data_config(pretrained_cfg=timm.get_pretrained_cfg(timm_name).to_dict())
    side = size or own["input_size"][-1]
    preprocessing = {"image": side, "mean": list(own["mean"]), "std": list(own["std"])}
    return Subject(name, pretrained, side, preprocessing, None, timm_name=timm_name)


def subjects_named(
    names: Sequence[str], *, size: int | None = None, pretrained: bool = False, trust: Sequence[str] = ()
) -> list[Subject]:
    """Models by what the command line calls them; see `subject`.

    Args:
        names: At least one.
        size: Side in px of what networks of timm are made for; `None` is that of the first released model's pictures.
        pretrained: Whether networks of timm come with their weights.
        trust: Modules of your own whose classes released models may use.
    """
    released = [subject(name, trust=trust) for name in names if not name.startswith(TIMM)]
    seeing = [found for found in released if not found.hears]
    size = int(seeing[0].size) if size is None and seeing else size
    others = iter(released)
    return [
        subject(name, size=size, pretrained=pretrained) if name.startswith(TIMM) else next(others) for name in names
    ]


def with_size(network: nn.Module, arguments: dict[str, Any], size: int) -> dict[str, Any]:
    """A network's arguments, changed where they say for which pictures it is made."""
    if isinstance(network, ViT):
        return arguments | {"image": size}
    if isinstance(network, TimmModel):
        return arguments | {"options": (arguments.get("options") or {}) | {"img_size": size}}
    return arguments


def resampled(table: Tensor, tokens: int) -> Tensor:
    """Positions of a square of tokens, interpolated for another one: (T, D) -> (tokens, D)."""
    side, wanted = math.isqrt(len(table)), math.isqrt(tokens)
    grid = table.T.unflatten(1, (side, side))[None]
    return F.interpolate(grid, (wanted, wanted), mode="bicubic", antialias=True)[0].flatten(1).T.contiguous()
