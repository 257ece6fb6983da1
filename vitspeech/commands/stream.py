"""Recognize words in a recording of any length, or live, and print each with its times as soon as it is final.

vitspeech stream checkpoints/keywords-12 talk.wav                                 # spots single words
vitspeech stream checkpoints/spoken-words-ctc talk.wav                            # transcribes every word
vitspeech stream checkpoints/spoken-words-labels talk.wav                         # words with their starts and ends
vitspeech stream checkpoints/keywords-12 noise.wav --no-words                     # false alarms per hour
vitspeech stream checkpoints/keywords-12 --microphone

Of a model that transcribes, a terminal shows the words that may still change in its last line; each word is printed
once it is final. A model that labels frames prints each run of one label of at least 150 ms with a mean probability of
at least 0.7. A model that spots single words has the thresholds and other settings of its card, which `vitspeech tune`
writes, or the defaults. The first line of the output states them. --picture draws a recording of up to a minute.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vitspeech
from vitspeech import command_line
from vitspeech.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from vitspeech.decoding.keywords import Detection, SpottingSettings
    from vitspeech.decoding.unit_runs import Segment

PART_S = 0.1  # seconds of audio pushed at a time
CLEAR = "\r\x1b[K"  # to the beginning of the line, and erase it


def main(arguments: Sequence[str]) -> None:
    """Run `vitspeech stream`: one line per word, then the real-time factor."""
    options = parse(arguments)

    import torch

    from vitspeech.data.audio.reading import AudioParts
    from vitspeech.inference.microphone import listen
    from vitspeech.inference.spotting import alarms_per_hour

    torch.set_num_threads(1)  # parts of a tenth of a second are too small for more threads
    language = command_line.language_settings(options)
    search = vitspeech.Search((options.beam or 8) if language else 1, **language)
    model = vitspeech.load(options.checkpoint, trust=options.trust)
    listener = listener_of(model, search, options)
    is_transcript = isinstance(listener, vitspeech.TranscriptStream)
    show, hear = (print_transcript, listener.live) if is_transcript else (print_words, listener.words)
    rate = listener.stream.sample_rate_hz
    recording = None if options.microphone else AudioParts(options.file, rate)
    print(first_line(model, listener, options), flush=True)
    if recording is None:
        show(hear(until_interrupt(listen(rate, PART_S))))
        return
    start = time.perf_counter()
    count = show(hear(part for parts in recording for part in parts.split(round(PART_S * rate))))
    audio_s, seconds = recording.duration_s, time.perf_counter() - start
    factor = f"real-time factor {seconds / audio_s:.3f}"
    print(f"{count} words in {audio_s:.1f} s of audio, computed in {seconds:.2f} s ({factor})")
    if options.no_words:
        rate_per_hour, low, high = alarms_per_hour(count, audio_s)
        print(f"false alarms per hour: {rate_per_hour:.1f} (95 % interval {low:.1f} to {high:.1f})")
    if options.picture:
        from vitspeech.plots.transcript import draw_transcript

        draw_transcript(model, Path(options.file), options.picture, search=search)
        print(options.picture)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, which are checked as far as that is possible without the model."""
    parser = command_line.parser("stream", __doc__)
    add = parser.add_argument
    add("checkpoint", help="folder of a released speech model or a finished run")
    add("file", nargs="?", metavar="FILE", help="recording: WAV, FLAC, OGG or MP3, of any length")
    add("--microphone", action="store_true", help="listen until Ctrl-C (needs the extra `live`)")
    spotting = parser.add_argument_group("models that spot single words")
    threshold = "lowest probability of every word (default: the card's, else 0.8)"
    spotting.add_argument("--threshold", dest="thresholds", type=float, metavar="P", help=threshold)
    pause = "shortest time between the ends of two words (default: the card's, else 0)"
    spotting.add_argument("--refractory", dest="refractory_s", type=float, metavar="SECONDS", help=pause)
    add("--no-words", action="store_true", help="FILE holds no words: report false alarms per hour")
    add("--picture", type=Path, metavar="PNG", help="draw FILE with its words, unless single words are spotted")
    add("--beam", type=int, help="hypotheses of a search with a language model (default 8)")
    command_line.add_language_model(parser)
    options = parser.parse_intermixed_args(arguments)
    if (options.file is None) == (not options.microphone):
        parser.error("give either FILE or --microphone")
    if (options.no_words or options.picture) and options.microphone:
        parser.error("--no-words and --picture need a FILE")
    if options.beam is not None and not command_line.language_settings(options):
        parser.error("--beam is for a search with a language model; without one, `stream` is greedy")
    if options.file is not None and Path(options.file).is_dir():
        raise InputError(f"{options.file}: a folder; give one recording")
    if options.picture is not None:
        command_line.check_file(options.picture, "--picture", command_line.PICTURES)
        from vitspeech.plots.spectrogram import check_drawn

        check_drawn(options.file, "--picture")
    return options


def listener_of(model: "vitspeech.Model", search: "vitspeech.Search", options: argparse.Namespace) -> Any:
    """The stream of a model's kind: `TranscriptStream`, `LabelStream` or `WordSpotter`; refuses options of others."""
    from vitspeech.checkpoint.card import read_settings
    from vitspeech.inference.label_stream import is_labeling
    from vitspeech.inference.transcript import is_transcribing

    transcribes, labels = is_transcribing(model), is_labeling(model)
    does = "transcribes" if transcribes else "labels frames" if labels else "spots single words"
    given = command_line.settings(options, "thresholds", "refractory_s")
    if given and (transcribes or labels):
        raise InputError(f"{options.checkpoint} {does}: --threshold and --refractory are for spotting words")
    if search.language_model is not None and not transcribes:
        raise InputError(f"{options.checkpoint} {does}: --language-model is for transcripts")
    if options.picture and not transcribes and not labels:
        raise InputError(f"{options.checkpoint} {does}: --picture is for transcripts and labels of frames")
    if options.picture:
        from vitspeech.plots.transcript import check_drawable

        check_drawable(model)
    settings = read_settings(asdict(model.spotting or vitspeech.SpottingSettings()) | given) if given else None
    return model.stream(settings=settings, search=search if transcribes else None)


def first_line(model: "vitspeech.Model", listener: Any, options: argparse.Namespace) -> str:
    """What the model recognizes, how late, and the settings of a spotter, which may also say something on stderr."""
    from vitspeech.decoding.vocabulary import vocabulary_kind

    kind = vocabulary_kind(model.labels)
    names = ", ".join(model.labels) if kind == "words" else f"{len(model.labels)} {kind}"
    line = [names, f"{1000 * listener.latency_samples / listener.stream.sample_rate_hz:.0f} ms behind"]
    if hasattr(listener, "settings"):
        tell_rejection(options.checkpoint, model.labels)
        given = command_line.settings(options, "thresholds", "refractory_s")
        line.append(operating_point(listener.settings, given, model.spotting is not None))
    return "; ".join(line)


def until_interrupt(parts: "Iterable[Tensor]") -> "Iterator[Tensor]":
    """The parts until Ctrl-C, which ends the recording, so that its last words are decided. A second one interrupts."""
    is_over = False

    def end(*_: object) -> None:
        nonlocal is_over
        is_over = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, end)
    try:
        for part in parts:
            if is_over:
                return
            yield part
    finally:
        signal.signal(signal.SIGINT, before)


def operating_point(settings: "SpottingSettings", given: Collection[str], has_card: bool) -> str:
    """The thresholds and the refractory period, and where each comes from."""
    thresholds = settings.thresholds
    thresholds = sorted(set(thresholds.values())) if isinstance(thresholds, Mapping) else [thresholds]
    shown = f"{thresholds[0]:.2f}" if len(thresholds) == 1 else f"{thresholds[0]:.2f} to {thresholds[-1]:.2f}"
    texts = {"thresholds": f"threshold {shown}", "refractory_s": f"refractory period {settings.refractory_s:g} s"}
    source = "card" if has_card else "default"
    return ", ".join(f"{text} ({'given' if name in given else source})" for name, text in texts.items())


def tell_rejection(name: str, labels: Sequence[str]) -> None:
    """Say on standard error what it means if a model has no labels `unknown` and `silence`."""
    taken = {"unknown": "other words", "silence": "noise and silence"}
    missing = [label for label in taken if label not in labels]
    if missing:
        names, sounds = " and ".join(f"`{label}`" for label in missing), " and ".join(map(taken.get, missing))
        told = f"{name} has no label {names}: it takes {sounds} for its words; train it with these labels to stream it"
        print(told, file=sys.stderr, flush=True)


def print_words(words: "Iterable[Detection | Segment]") -> int:
    """Print each word on a line of its own as it comes, and return their number."""
    count = 0
    for count, word in enumerate(words, start=1):  # noqa: B007
        probability = f" {word.probability:.2f}" if hasattr(word, "probability") else ""
        print(f"{word.start_s:8.2f} – {word.end_s:.2f} s  {word.label:12}{probability}".rstrip(), flush=True)
    return count


def print_transcript(steps: "Iterable[tuple[Sequence[Segment], str]]") -> int:
    """Print each word of `TranscriptStream.live` on a line of its own once it is final, and return their number.

    On a terminal, the last line shows the text that may still change; it is rewritten as that changes.
    """
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    count, shown = 0, ""
    try:
        for words, text in steps:
            if shown and (words or text != shown):
                print(CLEAR, end="")
                shown = ""
            count += print_words(words)
            if is_terminal and text != shown:
                print(text[1 - shutil.get_terminal_size().columns :], end="", flush=True)  # its end, in one line
                shown = text
    finally:
        if shown:
            print(CLEAR, end="", flush=True)
    return count
