"""What an encoder costs: parameters, FLOPs, training, inference, streaming, and the paths between its tokens.

All encoders are timed in turn, round after round, so that a busy machine slows all of them alike. Clips are noise.
Shapes: B batch, N samples of a clip.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, prod

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import Optimizer
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import measure
from vitspeech.attention import Encoder
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.inference.stream import AudioStream
from vitspeech.models import SpeechCNN

STREAM_S, PUSH_MS = 10, 40
Shape = Sequence[int]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]


@dataclass(frozen=True)
class EncoderCost:
    """What a speech network costs, with its front end and head.

    Args:
        parameters: Number of parameters of the whole network.
        flops_per_second: FLOPs for a second of sound, a multiply-add as two: all matrix products and convolutions from
            the log-mel frames on, as they are computed on CPU: attention within windows also computes scores that its
            mask removes. The spectrogram, which all networks share, and elementwise operations do not count.
        training_clips_per_second: Forward and backward pass and optimizer step of a batch.
        clips_per_second: Inference in batches.
        single_clips_per_second: Inference one clip at a time.
        delay_ms: From the first sample of a token to its output in a stream; `None` if it can't be streamed.
        real_time_factor: Time to stream 10 s of sound in pushes of 40 ms on one thread, divided by 10 s; or `None`.
        path_length: Operations between two tokens one second apart, see `path_length`; `None` if there is no path,
            `unknown` for an encoder of another kind.
    """

    parameters: int
    flops_per_second: float
    training_clips_per_second: float
    clips_per_second: float
    single_clips_per_second: float
    delay_ms: float | None
    real_time_factor: float | None
    path_length: int | str | None


def measure_encoder(network: nn.Module, sample_rate_hz: int = 16000, **settings: object) -> EncoderCost:
    """The cost of one network; see `measure_encoders`, which takes the same settings."""
    return measure_encoders({"ours": network}, sample_rate_hz, **settings)["ours"]


def measure_encoders(
    networks: Mapping[str, nn.Module],
    sample_rate_hz: int = 16000,
    *,
    seconds: float = 1.0,
    batch: int = 128,
    dtype: str = "fp32",
    optimizer: MakeOptimizer = torch.optim.AdamW,
    repeats: int = 5,
    device: str = "cpu",
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, EncoderCost]:
    """The costs of speech networks, timed in turn; the networks are not changed.

    Args:
        networks: Speech networks by name, which map waveforms (B, N) to logits.
        sample_rate_hz: Of their clips.
        seconds: Length of a clip.
        batch: Clips in a batch, in training and inference.
        dtype: Of training and inference: `fp32`, or `bf16` (autocast). Streams are fp32.
        optimizer: Makes the optimizer of training from the parameters.
        repeats: Rounds after the warm-up; the times are medians over them.
        device: `cpu` or `cuda`; streams always run on CPU.
        note: Called with the name and the round of what is running.

    Raises:
        RuntimeError: If a network does not run.
    """
    clips = torch.randn(batch, round(seconds * sample_rate_hz)) / 10
    sound = torch.randn(STREAM_S * sample_rate_hz) / 10
    pushes = sound.split(sample_rate_hz * PUSH_MS // 1000)
    autocast = partial(torch.autocast, torch.device(device).type, torch.bfloat16, enabled=dtype == "bf16")
    calls, streams, flops = {}, {}, {}
    for name, network in networks.items():
        flops[name] = count_flops(network, clips[:1]) / seconds
        resting = copy.deepcopy(network).eval()
        try:
            streams[name] = AudioStream(copy.deepcopy(resting).cpu())
            calls[name, "stream"] = partial(streamed, streams[name], pushes)
        except InputError:
            pass
        there, resting = clips.to(device), resting.to(device)
        forward = torch.inference_mode()(autocast()(resting.forward))
        calls[name, "batch"], calls[name, "single"] = partial(forward, there), partial(forward, there[:1])
        learner = copy.deepcopy(network).to(device).train().requires_grad_(True)
        calls[name, "training"] = partial(train_step, learner, optimizer(learner.parameters()), there, autocast)
    named = {" ".join(key): call for key, call in calls.items()}
    times, failed = measure.interleaved(named, repeats, device=device, note=note)
    if failed:
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in failed.items()))
    took = {key: times[" ".join(key)]["median_ms"] / 1000 for key in calls}
    return {
        name: EncoderCost(
            parameters=sum(parameter.numel() for parameter in network.parameters()),
            flops_per_second=flops[name],
            training_clips_per_second=batch / took[name, "training"],
            clips_per_second=batch / took[name, "batch"],
            single_clips_per_second=1 / took[name, "single"],
            delay_ms=network.context_ms["delay_ms"] if name in streams else None,
            real_time_factor=took[name, "stream"] / STREAM_S if name in streams else None,
            path_length=known_path(network),
        )
        for name, network in networks.items()
    }


def known_path(network: nn.Module) -> int | str | None:
    """The path length for `EncoderCost`."""
    try:
        return path_length(network)
    except InputError:  # an encoder of the user's own
        return "unknown"


def count_flops(network: nn.Module, clips: Tensor) -> int:
    """FLOPs of the matrix products and convolutions of a pass from the log-mel frames on, in evaluation mode.

    They are counted on CPU. Attention runs unfused, and the fused LSTM, which torch's counter does not know, has the
    formula of `lstm_flops`; a GRU is not fused there.

    Args:
        network: A speech network, on any device; a copy of it is used.
        clips: The waveforms (B, N).
    """
    network = copy.deepcopy(network).cpu().eval()
    total = []
    for part in (network, network.tokens.log_mel):
        with (
            torch.no_grad(),
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mkldnn_rnn_layer: lstm_flops}) as counter,
        ):
            part(clips)
        total.append(counter.get_total_flops())
    return total[0] - total[1]


def lstm_flops(x: Shape, from_input: Shape, from_state: Shape, *_: object, **__: object) -> int:
    """FLOPs of an LSTM layer in one direction: both products of every token with the weights of the four gates.

    Args:
        x: The shape of the inputs (T, B, D).
        from_input: That of the weights of the inputs (4H, D).
        from_state: That of the weights of the state (4H, H).
    """
    return 2 * prod(x[:2]) * (prod(from_input) + prod(from_state))


def train_step(network: nn.Module, optimizer: Optimizer, clips: Tensor, autocast: Callable) -> None:
    """One step of training, on the log-sum of the outputs: its cost is that of any loss."""
    with autocast():
        output = network(clips)
    output = output[0] if isinstance(output, tuple) else output  # log-probabilities, lengths
    optimizer.zero_grad()
    output.float().logsumexp(-1).mean().backward()
    optimizer.step()


def streamed(stream: AudioStream, pushes: Iterable[Tensor]) -> None:
    """Push all parts of a recording through a stream on one thread, and end it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for samples in pushes:
            stream.push(samples)
        stream.flush()
    finally:
        torch.set_num_threads(threads)


def path_length(network: nn.Module, seconds: float = 1.0) -> int | None:
    """The fewest operations that a signal passes from one token to the output of a later one.

    Vaswani et al. 2017, sec. 4, compare layers by the length of the paths that signals have to pass between distant
    positions: the shorter, the easier to learn a dependency. With n tokens between the two, an operation is

    - an attention layer: 1 with full attention, ⌈n / left⌉ if all blocks see `left` tokens back (with different windows
      the fewest blocks that reach n);
    - a step of a recurrent layer: n;
    - a convolution that reaches r tokens back, (kernel - 1) / 2 if it is centered: ⌈n / r⌉; so are the convolution
      modules between attention and MLP;
    - a window MLP: 1.

    There is no path where the blocks of the network together do not reach back n tokens. The stem, in which neighboring
    tokens share frames, and the pooling after the encoder are left out.

    Args:
        network: A speech network.
        seconds: Time between the two tokens.

    Raises:
        InputError: If its encoder is of an unknown kind.
    """
    tokens = network.tokens
    distance = ceil(round(1000 * seconds / tokens.milliseconds(tokens.hop_samples), 6))
    encoder = network if isinstance(network, SpeechCNN) else getattr(network, "encoder", None)
    if isinstance(encoder, RecurrentEncoder):
        return distance
    return fewest(distance, steps_back(encoder))


def steps_back(encoder: nn.Module | None) -> list[int | None]:
    """How many tokens each operation of an encoder reaches back; `None` is unlimited.

    Raises:
        InputError: If the encoder is of an unknown kind.
    """
    if isinstance(encoder, Encoder):
        modules = [block.convolution for block in encoder.blocks if block.convolution is not None]
        return [*encoder.left, *(module.left for module in modules)]
    if isinstance(encoder, WindowMLP):
        return [encoder.receptive_field[0]]
    if isinstance(encoder, SpeechCNN):
        convolutions = [module for module in encoder.blocks.modules() if isinstance(module, nn.Conv1d)]
        return [convolution.kernel_size[0] // 2 for convolution in convolutions]
    raise InputError(f"{type(encoder).__name__}: the path length of this kind of encoder is unknown")


def fewest(distance: int, steps: list[int | None]) -> int | None:
    """The fewest of the steps that together cover a distance; `None` if all of them do not."""
    if None in steps:
        return 1
    covered = 0
    for number, step in enumerate(sorted(steps, reverse=True), 1):
        covered += step
        if covered >= distance:
            return number
    return None
