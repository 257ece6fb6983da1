"""Speech benchmarks: the log-mel front end and torchaudio's, networks, reading files, and streaming on one core.

Clips are one second of noise. Shapes: B batch, N samples of a clip, F frames, M mel bins.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy
import soundfile
import torch
from torch import Tensor, nn
from torchaudio.transforms import MelSpectrogram
from tqdm import tqdm

from benchmarks import measure, memory
from vitspeech.attention import EncoderConfig
from vitspeech.checkpoint.model import load
from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, read_audio, walk_audio
from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.clips.noise import pink_noise
from vitspeech.errors import InputError
from vitspeech.files import write_json
from vitspeech.frontends import SpeechFrontend
from vitspeech.frontends.log_mel import LogMel
from vitspeech.inference.stream import AudioStream, stream
from vitspeech.models import SpeechClassifier, SpeechCNN
from vitspeech.models.seq2seq import EncoderDecoder

Note = Callable[[str], None]
LOW_HZ, HIGH_HZ = 20.0, 7600.0
FILES, HELD = 500, 10_000  # clips read from files, and clips in memory
BACKGROUND_S = 320  # as much noise as the training set of Speech Commands has: more than fits into a cache
PUSH_MS, MINUTE, WARM_UP = 10, 6000, 200  # the last two in pushes


@dataclass(frozen=True)
class Settings:
    """The settings of the benchmark.

    Args:
        batch: Clips per call.
        mels: Mel bins M of the front ends and of the networks with random weights.
        checkpoint: Folder of a released speech model; `None` uses the networks of configs/speech_commands with random
            weights.
        stream_minutes: Length of the streamed audio.
        dtypes: Precision of classification: `fp32`, `bf16` (autocast) or both.
        device: `cpu` or `cuda`; reading and streaming always run on CPU.
        repeats: Runs of each call after the warm-up.
    """

    batch: int = 128
    mels: int = 80
    checkpoint: str | None = None
    stream_minutes: float = 60.0
    dtypes: Sequence[str] = ("fp32", "bf16")
    device: str = "cpu"
    repeats: int = 7


def networks(settings: Settings) -> dict[str, nn.Module]:
    """The network of the checkpoint, or those of configs/speech_commands with random weights."""
    if settings.checkpoint is not None:
        network = load(settings.checkpoint).network
        if not hasattr(network, "tokens"):
            raise InputError(f"{settings.checkpoint}: {type(network).__name__} does not take waveforms")
        if isinstance(network, EncoderDecoder):
            raise InputError(f"{settings.checkpoint}: {type(network).__name__} writes unit by unit, which is not timed")
        return {Path(settings.checkpoint).resolve().name: network.to(settings.device)}
    tokens = partial(SpeechFrontend, 128, mels=settings.mels, stride=4)
    windows = {"full": {}, "truncated": {"left": 8, "right": 2}, "causal": {"left": 8, "right": 0}}
    encoder = EncoderConfig(depth=5, mlp_ratio=2.0, convolution=7)
    models = {name: SpeechClassifier(14, tokens(), replace(encoder, **window)) for name, window in windows.items()}
    models["cnn"] = SpeechCNN(14, tokens(), depth=3, kernel=7)
    return {name: network.to(settings.device).eval() for name, network in models.items()}


def timed(calls: dict[str, tuple[measure.Call, int]], settings: Settings, note: Note) -> dict[str, dict[str, Any]]:
    """Times of calls that process a number of clips each, with clips/s.

    Raises:
        RuntimeError: If a call fails.
    """
    runs = {name: torch.inference_mode()(call) for name, (call, _) in calls.items()}
    times, failed = measure.interleaved(runs, settings.repeats, device=settings.device, note=note)
    if failed:
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in failed.items()))
    for name, row in times.items():
        row["clips_per_second"] = 1000 * calls[name][1] / row["median_ms"]
    return times


def torchaudio_log_mel(ours: LogMel) -> Callable[[Tensor], Tensor]:
    """torchaudio's log-mel with our settings: (B, N) -> (B, M, F).

    Its frames are as long as its transform, with the window in the middle: its frame f of 512 samples corresponds to
    ours 56 = (512 - 400) / 2 samples later, and the last one does not fit (97 frames instead of 98 in one second).
    """
    window = {"n_fft": ours.transform, "win_length": ours.window_samples, "hop_length": ours.hop_samples}
    mels = {"n_mels": ours.mels, "f_min": LOW_HZ, "f_max": HIGH_HZ}
    spectrogram = MelSpectrogram(ours.sample_rate_hz, **window, **mels, center=False).to(ours.window.device)
    return lambda waveforms: spectrogram(waveforms).add(ours.epsilon).log()


def log_mel(settings: Settings, note: Note) -> dict[str, Any]:
    """Our front end up to the logarithm, and torchaudio's."""
    ours = LogMel(settings.mels, low_hz=LOW_HZ, high_hz=HIGH_HZ).to(settings.device)
    clips = torch.randn(settings.batch, SAMPLE_RATE_HZ, device=settings.device) / 10
    calls = {"ours": ours.log_energies, "torchaudio": torchaudio_log_mel(ours)}
    return {"times": timed({name: (partial(call, clips), len(clips)) for name, call in calls.items()}, settings, note)}


def classify(settings: Settings, note: Note) -> list[dict[str, Any]]:
    """Classification in each dtype, and the fraction of its time that the log-mel front end takes by itself."""
    models = networks(settings)
    front_end = next(iter(models.values())).tokens.log_mel
    clips = torch.randn(settings.batch, front_end.sample_rate_hz, device=settings.device) / 10
    cells = []
    for dtype in settings.dtypes:
        autocast = torch.autocast(clips.device.type, torch.bfloat16, enabled=dtype == "bf16")
        calls = {name: autocast(network.forward) for name, network in {"log_mel": front_end, **models}.items()}
        calls = {name: (partial(call, clips), len(clips)) for name, call in calls.items()}
        times = timed(calls, settings, lambda text, dtype=dtype: note(f"{dtype}: {text}"))
        for name in models:
            times[name]["log_mel_share"] = times["log_mel"]["median_ms"] / times[name]["median_ms"]
        cells.append({"dtype": dtype, "times": times})
    return cells


def reading(settings: Settings, note: Note) -> dict[str, Any]:
    """Reading single files (from the page cache), batches from memory, and augmenting a batch on the device."""
    data = WaveformData(seconds=1.0, batch=settings.batch, augment=None, seed=0)
    data.noise = pink_noise(BACKGROUND_S * SAMPLE_RATE_HZ // 10).to(settings.device)
    # Allocated by NumPy, in huge pages, as in `read_clips`.
    clips = torch.from_numpy(numpy.empty((HELD, SAMPLE_RATE_HZ), numpy.int16)).random_(-32768, 32768)
    items, order = TensorItems(clips, torch.zeros(HELD, dtype=torch.long)), torch.randint(HELD, (HELD,))
    inputs, *rest = items[torch.randint(HELD, (settings.batch,)), 0]
    with TemporaryDirectory() as folder:
        for number in range(FILES):
            soundfile.write(f"{folder}/{number}.wav", clips[number % HELD].numpy(), SAMPLE_RATE_HZ, subtype="PCM_16")
        files = list(walk_audio([folder]))
        calls = {
            "WAV files one by one": (lambda: [read_audio(file) for file in files], FILES),
            "batches from memory": (lambda: [len(items[part, 0]) for part in order.split(settings.batch)], HELD),
            "a batch augmented": (lambda: data.training_batch(inputs.to(settings.device), *rest), settings.batch),
        }
        return {"files": FILES, "held": HELD, "times": timed(calls, settings, note)}


def state_bytes(sound: AudioStream) -> int:
    """The size of the state of a stream: samples, and the waiting inputs and the past of the encoder."""
    return sum(value.untyped_storage().nbytes() for value in (sound.pending, *sound.encoder.tensors))


def pushed(sound: AudioStream, samples: int, pushes: int, edge: int) -> tuple[numpy.ndarray, list[dict[str, int]]]:
    """Seconds of each push of `samples` samples of int16 noise, and the bytes held at `edge` and at the end."""
    memory.settled()  # returns memory that earlier parts have freed
    seconds, held = numpy.full(pushes, math.nan), []  # written once, so that it does not count as growth
    for _ in range(WARM_UP):
        sound.push(torch.zeros(samples))
    sound.flush()
    for number in tqdm(range(pushes), "stream", unit="push", leave=False, mininterval=1, dynamic_ncols=True):
        noise = torch.randint(-3000, 3000, (samples,), dtype=torch.int16)
        start = time.perf_counter()
        sound.push(noise)
        seconds[number] = time.perf_counter() - start
        if number + 1 in (edge, pushes):
            resident = memory.status_bytes("VmRSS") if memory.STATUS.exists() else memory.high_water()
            held.append({"state_bytes": state_bytes(sound), "resident_bytes": resident})
    return seconds, held


def streaming(settings: Settings, note: Note) -> dict[str, Any]:
    """Stream through the truncated network, or that of the checkpoint, on one CPU core.

    The real-time factor is the time of the pushes over the duration of the audio. `first` and `last` are one minute
    each, or half of a shorter stream.
    """
    models = networks(replace(settings, device="cpu"))
    name = "truncated" if settings.checkpoint is None else next(iter(models))
    try:
        sound = stream(models[name])
    except ValueError as error:
        return {"network": name, "stretches": {}, "not_run": str(error)}
    samples = sound.sample_rate_hz * PUSH_MS // 1000
    # Both ends are at the same position within a token, where a stream of constant state has the same size.
    whole = math.lcm(samples, sound.hop_samples) // samples
    pushes = round(settings.stream_minutes * MINUTE) // whole * whole
    edge = min(MINUTE, pushes // 2) // whole * whole
    note(f"{name}, pushes of {PUSH_MS} ms")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds, held = pushed(sound, samples, pushes, edge)
    finally:
        torch.set_num_threads(threads)
    parts = {"first": (seconds[:edge], held[0]), "last": (seconds[-edge:], held[1]), "all": (seconds, held[1])}
    return {
        "network": name,
        "stretches": {part: summary(durations) | sizes for part, (durations, sizes) in parts.items()},
    }


def summary(seconds: numpy.ndarray) -> dict[str, float]:
    """The report of a range of pushes."""
    milliseconds = 1000 * seconds
    return {
        "minutes": len(seconds) / MINUTE,
        "real_time_factor": float(milliseconds.mean()) / PUSH_MS,
        "longest_push_ms": float(milliseconds.max()),
        "all_but_one_in_1000_ms": float(numpy.quantile(milliseconds, 0.999)),
    }


def benchmark(settings: Settings, path: Path) -> dict[str, Any]:
    """Measure all parts. The report is written to `path` after each."""
    models = networks(settings)
    report = {"benchmark": "speech", "settings": asdict(settings), **measure.origin(settings.device), "complete": False}
    report["parameters"] = {name: sum(each.numel() for each in models[name].parameters()) for name in models}
    parts = {"log_mel": log_mel, "classify": classify, "reading": reading, "stream": streaming}
    with tqdm(parts.items(), unit="part", dynamic_ncols=True) as bar:
        for name, part in bar:
            report[name] = part(settings, lambda text, name=name: measure.describe(bar, f"{name}: {text}"))
            report["complete"] = name == "stream"
            write_json(report, path)
    return report


def table(report: dict[str, Any]) -> str:
    """The report as text: clips/s, then the stream."""
    rate, cells, flow = "{clips_per_second:,.0f}".format_map, report["classify"], report["stream"]
    front_ends = [["log-mel, clips of 1 s", "clips/s (ours / it)"]]
    front_ends += [[name, f"{rate(row)} ({row['ratio']:.2f})"] for name, row in report["log_mel"]["times"].items()]
    classified = [["waveform to logits", "parameters", *(f"{cell['dtype']}: clips/s (log-mel)" for cell in cells)]]
    for name, count in report["parameters"].items():
        rows = [cell["times"][name] for cell in cells]
        classified.append([name, f"{count:,}", *(f"{rate(row)} ({row['log_mel_share']:.0%})" for row in rows)])
    read = [["reading", "clips/s"], *([name, rate(row)] for name, row in report["reading"]["times"].items())]
    head = "minutes|real-time factor|longest push, ms|all but 1 in 1000, ms|state, bytes|resident, bytes"
    line = "{minutes:g}|{real_time_factor:.4f}|{longest_push_ms:.2f}|{all_but_one_in_1000_ms:.2f}"
    line += "|{state_bytes:,}|{resident_bytes:,}"
    streamed = [[f"stream of {flow['network']}, one core", *head.split("|")]]
    streamed += [[name, *line.format_map(row).split("|")] for name, row in flow["stretches"].items()]
    texts = [measure.aligned(rows) for rows in (front_ends, classified, read, streamed)]
    return "\n\n".join([*texts, *([f"not run: {flow['not_run']}"] if "not_run" in flow else [])])
