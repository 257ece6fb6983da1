"""Exported graphs beside torch: a stream of speech on one core, and pictures.

Shapes: B batch, N samples.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import torch
from tqdm import tqdm

from benchmarks import measure
from vitspeech.checkpoint.model import load
from vitspeech.errors import InputError
from vitspeech.export.folder import GRAPH, export
from vitspeech.export.graphs import session
from vitspeech.files import write_json
from vitspeech.inference.stream import stream

RATE_HZ = 16_000
PUSHES_MS = (10, 40, 100)  # of the stream in torch
SILERO = "silero-vad (voice or not)"
SILERO_SAMPLES, SILERO_CONTEXT = 512, 64
WAKE_WORD = "openWakeWord (one wake word)"
Push = Callable[[numpy.ndarray], Any]


@dataclass(frozen=True)
class Settings:
    """The settings of the benchmark.

    Args:
        speech: Folder of a released speech model that can be streamed.
        images: Folders of released image models.
        batches: Pictures per call.
        seconds: Length of the streamed noise.
        repeats: Passes over the noise, and calls of each image model, after a warm-up.
        compiled: Whether image models are measured compiled by torch as well.
    """

    speech: str = "checkpoints/speech-commands-truncated"
    images: Sequence[str] = ("checkpoints/vit-cifar10", "checkpoints/cnn-cifar10")
    batches: Sequence[int] = (1, 64)
    seconds: float = 20.0
    repeats: int = 7
    compiled: bool = True


def benchmark(settings: Settings, path: Path) -> dict[str, Any]:
    """Measure both parts on one thread. The report is written to `path` after each."""
    report = {"benchmark": "export", "settings": asdict(settings), **measure.origin("cpu"), "complete": False}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tqdm(total=1 + len(settings.images), unit="part", dynamic_ncols=True) as bar:
            measure.describe(bar, "stream")
            report["stream"] = streams(settings)
            bar.update()
            write_json(report, path)
            report["images"] = {}
            for folder in settings.images:
                name = Path(folder).resolve().name
                report["images"][name] = pictures(folder, settings, lambda text: measure.describe(bar, text))
                bar.update()
                write_json(report, path)
    finally:
        torch.set_num_threads(threads)
    report["complete"] = True
    write_json(report, path)
    return report


def streams(settings: Settings) -> dict[str, Any]:
    """The exported stream, the stream in torch, and voice detectors of others, all on the same noise.

    Passes over the noise are interleaved. Of each variant, the real-time factor is that of its median pass; median and
    99 % are those of all its steps.
    """
    generator = numpy.random.default_rng(0)
    noise = (0.05 * generator.standard_normal(round(settings.seconds * RATE_HZ))).astype(numpy.float32)
    variants, not_run = {}, {}
    model = load(settings.speech)
    audio = stream(model)
    if audio.sample_rate_hz != RATE_HZ:
        raise InputError(f"{settings.speech}: takes {audio.sample_rate_hz} Hz, not {RATE_HZ}")
    variants["exported"] = (exported_stream(model), audio.hop_samples)
    for push_ms in PUSHES_MS:
        sound = stream(model)
        variants[f"torch, pushes of {push_ms} ms"] = (sound.push, push_ms * RATE_HZ // 1000)
    for name, make, size in ((SILERO, silero, SILERO_SAMPLES), (WAKE_WORD, wake_word, 1280)):
        try:
            variants[name] = (make(), size)
        except measure.NotRunError as error:
            not_run[name] = str(error)
    seconds: dict[str, list[numpy.ndarray]] = {name: [] for name in variants}
    with torch.inference_mode():
        for number in range(settings.repeats + 1):  # the first one is the warm-up
            for name in list(variants)[:: -1 if number % 2 else 1]:
                durations = timed(*variants[name], noise)
                seconds[name] += [durations] if number else []
    return {"times": {name: summary(passes, variants[name][1]) for name, passes in seconds.items()}, "not_run": not_run}


def timed(push: Push, samples: int, noise: numpy.ndarray) -> numpy.ndarray:
    """Seconds of each push of `samples` samples of the noise (N,)."""
    durations = numpy.empty(len(noise) // samples)
    for number in range(len(durations)):
        part = noise[number * samples : (number + 1) * samples]
        start = time.perf_counter()
        push(part)
        durations[number] = time.perf_counter() - start
    return durations


def summary(passes: Sequence[numpy.ndarray], samples: int) -> dict[str, float]:
    """The report of a variant from the seconds of each of its pushes."""
    milliseconds, duration_ms = 1000 * numpy.stack(passes), 1000 * samples / RATE_HZ
    return {
        "step_ms": duration_ms,
        "real_time_factor": float(numpy.median(milliseconds.mean(1))) / duration_ms,
        "median_ms": float(numpy.median(milliseconds)),
        "all_but_one_in_100_ms": float(numpy.quantile(milliseconds, 0.99)),
    }


def exported_stream(model: Any) -> Push:
    """A step of the exported graph, which keeps the state from one to the next."""
    with tempfile.TemporaryDirectory() as folder:
        metadata = export(model, Path(folder, "stream"))
        if metadata["kind"] != "stream":
            raise InputError(f"{model.folder}: can't be streamed")
        running = session(Path(folder, "stream", GRAPH).read_bytes())
    feeds = {
        "valid": numpy.ones(1, numpy.float32),
        "state": numpy.zeros((1, metadata["state_size"]), numpy.float32),
    }

    def push(samples: numpy.ndarray) -> numpy.ndarray:
        feeds["samples"] = samples[None]
        logits, _, feeds["state"] = running.run(["logits", "valid_out", "state_out"], feeds)
        return logits

    return push


def silero() -> Push:
    """silero-vad's graph for 16 kHz: the probability of voice in each 32 ms; it distinguishes no words.

    Raises:
        NotRunError: If the package is not installed.
    """
    folder = installed("silero_vad", measure.not_installed()) / "data"
    running = session((folder / "silero_vad.onnx").read_bytes())
    feeds = {"state": numpy.zeros((2, 1, 128), numpy.float32), "sr": numpy.array(RATE_HZ)}
    feeds["input"] = numpy.zeros((1, SILERO_CONTEXT), numpy.float32)

    def push(samples: numpy.ndarray) -> numpy.ndarray:
        feeds["input"] = numpy.concatenate((feeds["input"][:, -SILERO_CONTEXT:], samples[None]), axis=1)
        probability, feeds["state"] = running.run(None, feeds)
        return probability

    return push


def wake_word() -> Push:
    """openWakeWord's detector of one wake word, in steps of 80 ms.

    Raises:
        NotRunError: If the package is not installed, or has no models; its wheel has none, and downloads them.
    """
    folder = installed("openwakeword", measure.not_installed("pip install openwakeword")) / "resources/models"
    if not (models := sorted(folder.glob("hey_jarvis*.onnx"))):
        raise measure.NotRunError("its package has no models; openwakeword.utils.download_models() fetches them")
    from openwakeword.model import Model

    detector = Model(wakeword_models=[str(models[0])], inference_framework="onnx")
    return lambda samples: detector.predict((32767 * samples).astype(numpy.int16))


def installed(package: str, error: measure.NotRunError) -> Path:
    """The folder of a package, which is not imported.

    Raises:
        NotRunError: The given `error`, if it is not installed.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise error
    return Path(spec.origin).parent


def pictures(folder: str, settings: Settings, note: Callable[[str], None]) -> list[dict[str, Any]]:
    """Pictures per second of an exported image model, in torch as it is, and compiled.

    The exported graph takes pixels and normalizes them itself; torch gets normalized pictures.
    """
    model = load(folder)
    side = model.preprocessing.get("image")
    if side is None:
        raise InputError(f"{folder}: is no image model")
    with tempfile.TemporaryDirectory() as draft:
        export(model, Path(draft, "images"))
        running = session(Path(draft, "images", GRAPH).read_bytes())
    network = model.network.eval()
    cells = []
    for batch in settings.batches:
        pixels = numpy.random.default_rng(0).integers(0, 256, (batch, side, side, 3), numpy.uint8)
        images = torch.randn(batch, 3, side, side)
        calls = {
            "ours": lambda pixels=pixels: running.run(None, {"pixels": pixels}),
            "torch": lambda images=images: network(images),
        }
        if settings.compiled:
            compiled = torch.compile(network, dynamic=False)
            calls["torch.compile"] = lambda compiled=compiled, images=images: compiled(images)
        runs = {name: torch.inference_mode()(many(call, batch)) for name, call in calls.items()}
        times, not_run = measure.interleaved(
            runs, settings.repeats, note=lambda text, batch=batch: note(f"{Path(folder).name}, batch {batch}: {text}")
        )
        for row in times.values():
            row["images_per_second"] = 1000 * batch * loops(batch) / row["median_ms"]
        cells.append({"batch": batch, "times": times, "not_run": not_run})
    return cells


def many(call: measure.Call, batch: int) -> measure.Call:
    """A call often enough for a time that a clock measures well."""

    def repeated() -> None:
        for _ in range(loops(batch)):
            call()

    return repeated


def loops(batch: int) -> int:
    """Calls per measurement: about as many pictures for every batch."""
    return max(64 // batch, 1)


def table(report: dict[str, Any]) -> str:
    """The report as text: the streams, then pictures per second."""
    rows = [["stream, one core", "step, ms", "real-time factor", "median, ms", "99 %, ms"]]
    line = "{step_ms:g}|{real_time_factor:.4f}|{median_ms:.3f}|{all_but_one_in_100_ms:.3f}"
    rows += [[name, *line.format_map(row).split("|")] for name, row in report["stream"]["times"].items()]
    names = {"ours": "exported", "torch": "torch", "torch.compile": "torch.compile"}
    rates = [["images/s, one core", "batch", *names.values()]]
    for model, cells in report["images"].items():
        for cell in cells:
            found = (cell["times"].get(name) for name in names)
            shown = [f"{row['images_per_second']:,.0f}" if row else "–" for row in found]
            rates.append([model, str(cell["batch"]), *shown])
    failed = [report["stream"]["not_run"], *(cell["not_run"] for cells in report["images"].values() for cell in cells)]
    notes = [f"not run: {name}: {why}" for each in failed for name, why in each.items()]
    notes += ["silero-vad and openWakeWord do another job: they tell voice from silence, or one phrase from all else"]
    return "\n\n".join([measure.aligned(rows), measure.aligned(rates), "\n".join(dict.fromkeys(notes))])
