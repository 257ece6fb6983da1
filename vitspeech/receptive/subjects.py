"""The models that are compared: released models or timm networks, before and after training, at any input size.

Shapes: B batch, N image side in pixels or samples of a clip, T tokens, D width, R rows of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import timm
import torch
from timm.data import resolve_data_config
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech import checkpoint
from vitspeech.checkpoint.transfer import interpolate_positions
from vitspeech.data.images.reading import normalize
from vitspeech.errors import InputError
from vitspeech.models import MaskedSpeechModel, SpeechTranscriber, TimmModel, ViT
from vitspeech.receptive.fields.layers import INPUT, Layer
from vitspeech.receptive.initialization import initialize_from

TIMM = "timm:"
LARGEST_SIZE = 4096  # px
SEED = 0  # for untrained weights


@dataclass(frozen=True)
class Subject:
    """A model in a comparison.

    Args:
        name: Its name in the report.
        trained: Whether trained weights are available; those of timm networks are only downloaded on request.
        size: The input size it was made for: side of images in px, or length of clips in seconds.
        preprocessing: `image`, `mean` and `std` for images, or `sample_rate_hz` and `seconds` for clips.
        labels: The names of its classes; `None` if they are not known, or if it outputs transcripts.
        model: The released model, if it is one.
        timm_name: The network's name in timm, if it is from there.
        device: The device that `network` and `inputs` are on; networks are initialized on the CPU, so that they are the
            same for every device.
    """

    name: str
    trained: bool
    size: float
    preprocessing: dict[str, Any]
    labels: Sequence[str] | None
    model: checkpoint.Model | None = field(default=None, repr=False)
    timm_name: str | None = None
    device: str = "cpu"

    @property
    def takes_audio(self) -> bool:
        """Whether its inputs are audio; otherwise they are images."""
        return "sample_rate_hz" in self.preprocessing

    @property
    def unit(self) -> str:
        """The unit of its lengths: px, or ms for audio."""
        return "ms" if self.takes_audio else "px"

    @property
    def predicts_label(self) -> bool:
        """Whether it predicts a single label per input."""
        return self.model is None or "units" not in self.preprocessing

    @property
    def source(self) -> Layer:
        """The layer with respect to which fields are measured: the pixels, or the log-mel frames."""
        return Layer("tokens.log_mel", "mel") if self.takes_audio else Layer(INPUT)

    def network(self, *, trained: bool = True, size: float | None = None, sample: Tensor | None = None) -> nn.Module:
        """The network in evaluation mode.

        Args:
            trained: With trained weights, or as initialized with seed 0.
            size: Of the inputs, in px or seconds; `None` is the size it was made for. Learned positions are
                interpolated (bicubic) for another number of tokens, as in Dosovitskiy et al. 2021, sec. 3.2.
            sample: Inputs for the data-dependent initialization of an untrained network, see `initialize_from`.
        """
        size = self.size if size is None else size
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(SEED)  # leaves those of GPUs as they are
            try:
                network = self.build_timm(trained, int(size)) if self.model is None else self.rebuild(trained, size)
                network = network.eval().requires_grad_(False)
                if self.model is None and sample is not None:
                    network(sample[:1].cpu())  # many networks of timm notice only now that they can't take the size
            except (ValueError, AssertionError, RuntimeError) as error:
                raise InputError(f"{self.name} can't take {self.inputs_text(size)}: {error}") from None
        if not trained and sample is not None:
            initialize_from(network, sample.cpu())
        return network.to(self.device)

    def size_text(self, size: float) -> str:
        """An input size with its unit."""
        return f"{size:g} s" if self.takes_audio else f"{size:g} px"

    def inputs_text(self, size: float) -> str:
        """Inputs of a size in words."""
        return f"clips of {size:g} s" if self.takes_audio else f"images of {size:g} px"

    def build_timm(self, trained: bool, size: int) -> nn.Module:
        """The timm network, for images of that side if its architecture depends on it."""
        try:
            try:
                return timm.create_model(self.timm_name, pretrained=trained, img_size=size)
            except TypeError:  # takes images of any size
                return timm.create_model(self.timm_name, pretrained=trained)
        except OSError as error:
            raise ConnectionError(f"{self.name}: timm can't download its weights: {error}") from None

    def rebuild(self, trained: bool, size: float) -> nn.Module:
        """The released network, rebuilt for images of that side."""
        config = self.model.config
        arguments = dict(config.get("init_args") or {})
        if isinstance(self.model.network, ViT | TimmModel):
            arguments["image"] = int(size)
        if options := arguments.get("options"):  # of a timm network, where they come before `image`
            arguments["options"] = {name: value for name, value in options.items() if name != "img_size"}
        network = checkpoint.build(config | {"init_args": arguments}, self.model.trust)
        if trained:
            weights = self.model.network.state_dict()
            for name, tensor in network.state_dict().items():
                if tensor.shape == weights[name].shape:
                    continue
                resized = interpolate_positions(name, weights[name], tensor.shape, network)
                if resized is None:
                    shapes = f"the shape {tuple(tensor.shape)} instead of {tuple(weights[name].shape)}"
                    raise InputError(
                        f"{name} would have {shapes}, and only learned positions of a square of tokens are interpolated"
                    )
                weights[name] = resized
            network.load_state_dict(weights)
        return network

    def inputs(self, raw: Tensor, size: float | None = None) -> Tensor:
        """The network's input, from uint8 images (B, 3, N, N) or int16 clips (B, N).

        Images are scaled to the size. A clip is followed by the next ones until it is long enough.
        """
        size = self.size if size is None else size
        if self.takes_audio:
            count = round(size * self.preprocessing["sample_rate_hz"])
            repeats = -(-count // raw.shape[1])
            waveforms = torch.cat([raw.roll(-number, 0) for number in range(repeats)], dim=1)
            return (waveforms[:, :count] / 32768).to(self.device)
        if raw.shape[-1] != size:
            raw = F.interpolate(raw.float(), int(size), mode="bicubic", antialias=True).clamp(0, 255)
        return normalize(raw, self.preprocessing["mean"], self.preprocessing["std"]).to(self.device)


def subject(name: str, *, size: int | None = None, pretrained: bool = False, trust: Sequence[str] = ()) -> Subject:
    """Load a model by its name on the command line: the folder of a released model or a finished run, or `timm:NAME`.

    Options as in `subjects_named`; a `size` of `None` is that of timm's pretrained weights.
    """
    if size is not None and not 1 <= size <= LARGEST_SIZE:
        raise InputError(f"size={size} px is not within 1 .. {LARGEST_SIZE}")
    if not name.startswith(TIMM):
        model = checkpoint.load(name, trust=trust)
        if "symbols" in model.preprocessing or isinstance(model.network, SpeechTranscriber | MaskedSpeechModel):
            kind = type(model.network).__name__
            raise InputError(f"{name}: {kind} is not a network of images or audio alone; compare supports only those")
        takes_audio = "sample_rate_hz" in model.preprocessing
        own_size = model.preprocessing.get("seconds", 1.0) if takes_audio else model.preprocessing["image"]
        labels = None if "units" in model.preprocessing else model.labels
        folder = Path(name).resolve()
        folder = folder.parent if folder.name == "model" else folder
        return Subject(folder.name, True, own_size, model.preprocessing, labels, model)
    timm_name = name.removeprefix(TIMM)
    if not timm.is_model(timm_name) or ":" in timm_name:
        close = ", ".join(get_close_matches(timm_name, timm.list_models(), n=5)) or "none; see timm.list_models()"
        raise InputError(f"{name}: not a timm network; close names: {close}")
    config = resolve_data_config(pretrained_cfg=timm.get_pretrained_cfg(timm_name).to_dict())
    side = size or config["input_size"][-1]
    preprocessing = {"image": side, "mean": list(config["mean"]), "std": list(config["std"])}
    return Subject(name, pretrained, side, preprocessing, None, timm_name=timm_name)


def subjects_named(
    names: Sequence[str],
    *,
    size: int | None = None,
    pretrained: bool = False,
    trust: Sequence[str] = (),
    device: str = "cpu",
) -> list[Subject]:
    """Load models by their names on the command line; see `subject`.

    Args:
        names: At least one.
        size: Image side in px for timm networks; `None` uses the size of the first released model that takes images.
        pretrained: Whether timm networks are loaded with pretrained weights, which timm downloads if necessary.
        trust: Modules of your own whose classes released models may use; see `vitspeech.load`.
        device: The device that networks and inputs are on.
    """
    if (size is not None or pretrained) and not any(name.startswith(TIMM) for name in names):
        raise InputError(
            f"{'--pretrained' if pretrained else '--size'}: is for networks of timm, such as timm:resnet18"
        )
    released = {name: subject(name, trust=trust) for name in names if not name.startswith(TIMM)}
    sizes = [int(model.size) for model in released.values() if not model.takes_audio]
    size = sizes[0] if size is None and sizes else size
    subjects = [released.get(name) or subject(name, size=size, pretrained=pretrained) for name in names]
    return [replace(subject, device=device) for subject in subjects]
