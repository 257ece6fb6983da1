"""What a speech classifier attends to in one recording, drawn under its spectrogram.

Shapes: B batch, N samples, T tokens, D model width, H heads, L layers, R hops of the pooling, C classes.
"""

from pathlib import Path

import numpy
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from torch import Tensor

from vitspeech.attention import SelfAttentivePooling, window_mask
from vitspeech.checkpoint.folder import Model
from vitspeech.frontends.log_mel import LogMel
from vitspeech.inference.predict import readers
from vitspeech.models import SpeechClassifier
from vitspeech.plots.style import BLUE, GREEN, SPECTROGRAM, VERMILION

LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, ":"))  # dashes tell them apart in gray
TICKS_HZ = (250, 500, 1000, 2000, 4000, 8000, 16_000)
SCALE = {"1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2, "1": 1, "2": 2, "4": 4, "8": 8}  # one, so that pictures compare


@torch.no_grad()
def encode(network: SpeechClassifier, waveforms: Tensor) -> tuple[Tensor, Tensor]:
    """`forward_features` with its attention written out, so that the same pass gives the weights, too.

    Shape:
        (B, N) -> (B, T, D), weights (L, B, H, T, T)
    """
    x, weights = network.tokens(waveforms), []
    for block in network.encoder.blocks:
        attention = block.attention
        query, key, value = attention.project(block.attention_norm(x), None)
        attended, shares = attention.attend(query, key, value, attention.allowed(query, key, None, None))
        x = block.finish(x, attention.output(attended.transpose(1, 2).flatten(2)))
        weights.append(shares)
    return network.encoder.norm(x), torch.stack(weights)


def attention_weights(network: SpeechClassifier, waveform: Tensor) -> Tensor:
    """The attention weights of every layer and head; a row is one query's, zero outside its window.

    Args:
        network: In evaluation mode.
        waveform: Samples within ±1.

    Shape:
        (N,) -> (L, H, T, T)
    """
    return encode(network, waveform[None])[1][:, 0]


@torch.no_grad()
def draw_attention(model: Model, file: Path, path: Path) -> None:
    """Draw one recording's spectrogram, what each layer attends to, the labels over time, and the last layer's map.

    Times are the clip's: the stretch of most energy of a longer recording, or a shorter one padded on both sides. A
    token stands at the center of its samples. Attention is a multiple of what each key would get if every query shared
    equally among those it may see: 1 / T, or more in a window.

    Args:
        model: From `vitspeech.load`; its network is a `SpeechClassifier`.
        file: The recording.
        path: The picture: PNG, or what else its ending names to matplotlib.

    Raises:
        FileNotFoundError: If the recording or the picture's folder does not exist.
        ValueError: If the network has no attention over speech, or the recording is empty or broken.
    """
    network = model.network
    if not isinstance(network, SpeechClassifier):
        reason = "has no attention" if "sample_rate_hz" in model.preprocessing else "sees pictures"
        reason = "is drawn by scripts/transcribe.py --picture" if "units" in model.preprocessing else reason
        raise ValueError(f"--attention draws classifiers of speech; {type(network).__name__} {reason}")
    waveforms = readers(model.preprocessing)[1]([file]).to(next(network.parameters()).device)
    encoded, weights = encode(network, waveforms)
    clip = network.head(network.pooling(encoded))[0].softmax(-1).cpu()
    weights, tokens = weights[:, 0].mean(1).cpu(), encoded.shape[1]
    contexts = zip(network.encoder.left, network.encoder.right, strict=True)
    allowed = torch.stack([window_mask(tokens, tokens, *context) for context in contexts])
    uniform = allowed / allowed.sum(-1, keepdim=True)
    received, rows = weights.mean(1) / uniform.mean(1), [str(layer) for layer in range(1, len(weights) + 1)]
    if isinstance(network.pooling, SelfAttentivePooling):
        hops = network.pooling.weights(encoded)[0].cpu() * tokens
        received, rows = torch.cat((received, hops)), rows + ["pooling"] * len(hops)

    log_mel, single = network.tokens.log_mel, network.pooling.factor == 1
    borders = cells(tokens, network.tokens.hop_samples, network.tokens.window_samples, log_mel.sample_rate_hz)
    heights = [2.6, 0.9 + 0.16 * len(rows), *([1.5] if single else [])]
    figure = Figure(figsize=(14, 1.3 + sum(heights)), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.5, 1), wspace=0.02)
    panels = left.subplots(len(heights), sharex=True, height_ratios=heights)
    draw_spectrogram(panels[0], log_mel, waveforms)
    panels[0].set_title(f"{file.name}: “{model.labels[clip.argmax()]}”, probability {clip.max():.3f}", parse_math=False)
    draw_times(panels[1], received.numpy(), (*borders[[0, -1]], len(rows) - 0.5, -0.5), pad=0.01)
    panels[1].set_yticks(range(len(rows)), rows)
    panels[1].set(ylabel="layer", title="attention that each moment receives, mean over heads and queries")
    if single:  # otherwise the head takes all hops at once, and nothing can be said of one token
        draw_labels(panels[2], clip, network.frame_logits(encoded)[0].softmax(-1).cpu().numpy(), model.labels, borders)
    panels[-1].set(xlabel="time in the clip (s)", xlim=(0, waveforms.shape[1] / log_mel.sample_rate_hz))
    pairs, last = right.subplots(subplot_kw={"box_aspect": 1}), weights[-1] / uniform[-1]
    draw_times(pairs, last.numpy(), tuple(borders[[0, -1, -1, 0]]), location="bottom", shrink=0.8)
    window = "" if allowed[-1].all() else "; gray: outside its window"
    pairs.set(title=f"last layer, mean over heads{window}", xlabel="time of key (s)", ylabel="time of query (s)")
    figure.savefig(path, dpi=130, format=path.suffix[1:] or "png")


def draw_spectrogram(axes: Axes, log_mel: LogMel, waveforms: Tensor) -> None:
    """The first clip's log-mel energies; ticks stand where their frequencies lie among the mel bins."""
    energies = log_mel.log_energies(waveforms)[0].T.cpu().numpy() * (10 / numpy.log(10))
    borders = cells(energies.shape[1], log_mel.hop_samples, log_mel.window_samples, log_mel.sample_rate_hz)
    span = (*borders[[0, -1]], -0.5, len(energies) - 0.5)
    image = axes.imshow(energies, cmap=SPECTROGRAM, aspect="auto", origin="lower", extent=span)
    axes.figure.colorbar(image, ax=axes, label="energy (dB)", pad=0.01)
    centers_hz = log_mel.centers_hz.numpy()
    ticks = [tick for tick in TICKS_HZ if centers_hz[0] < tick < centers_hz[-1]]
    axes.set_yticks(numpy.interp(ticks, centers_hz, range(len(energies))), [f"{tick:,}" for tick in ticks])
    axes.set_ylabel("frequency (Hz), mel scale")


def draw_labels(axes: Axes, clip: Tensor, tokens: numpy.ndarray, labels: list[str], borders: numpy.ndarray) -> None:
    """Probabilities of the clip's likeliest labels (C,) at each token (T, C)."""
    likeliest, middles = clip.argsort(descending=True).tolist(), (borders[1:] + borders[:-1]) / 2
    for (color, dashes), place in zip(LINES, likeliest, strict=False):
        label = f"“{labels[place]}”, clip {clip[place]:.3f}"
        axes.plot(middles, tokens[:, place], dashes, color=color, linewidth=2, label=label)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(LINES), columnspacing=1.5, frameon=False)
    axes.set(ylabel="probability\nat each token", ylim=(0, 1.02))
    axes.grid(alpha=0.3)


def draw_times(axes: Axes, times: numpy.ndarray, span: tuple[float, ...], **bar: object) -> None:
    """Attention as a multiple of the uniform: white is 1, orange more, purple less, gray (NaN) can't be seen."""
    norm = LogNorm(SCALE["1/8"], SCALE["8"])
    shown = numpy.maximum(times, norm.vmin)  # zero, which a weight may be, has no logarithm
    image = axes.imshow(shown, cmap="PuOr_r", norm=norm, aspect="auto", interpolation="nearest", extent=span)
    axes.set_facecolor("0.8")
    drawn = axes.figure.colorbar(image, ax=axes, label="attention\n(× uniform)", extend="both", **bar)
    drawn.set_ticks(list(SCALE.values()), labels=list(SCALE))
    drawn.minorticks_off()


def cells(count: int, hop: int, window: int, rate_hz: int) -> numpy.ndarray:
    """Borders in seconds of `count` cells, a hop wide, each around the center of its window: (count + 1,)."""
    return ((numpy.arange(count + 1) - 0.5) * hop + window / 2) / rate_hz
