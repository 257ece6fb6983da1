"""Words in audio as it arrives, with an exported model: numpy, ONNX Runtime and soundfile are all it needs.

python run.py talk.wav                              # each word with its times
python run.py --microphone                          # until Ctrl-C; needs the package sounddevice as well
python run.py yes.wav --clip                        # the label of a recording of one word
python run.py first.wav --save-state state.npz      # the recording goes on in the next file
python run.py second.wav --load-state state.npz

From Python, with this folder on the path:

    from run import Model
    model = Model()
    for samples in microphone:     # int16 or floats within ±1, model.sample_rate_hz, any number at a time
        for word in model.push(samples):
            print(word.label, word.start_s, word.end_s)
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from vitspeech.data.audio.levels import fit_length
from vitspeech.export.runner.model_folder import most_probable, read_about, read_each, run_command, softmax
from vitspeech.export.runner.model_graph import Graph
from vitspeech.export.runner.sound import read_sound, within_one
from vitspeech.export.runner.stream_state import check_target, load_state, save_state

FOLDER = Path(__file__).parent
PART_S = 0.1  # of sound pushed at a time
OUTPUTS = ["logits", "valid_out", "state_out"]


class Model:
    """A stream: the graph is one step, which takes `hop_samples` samples and a state, and returns the next state.

    Attributes:
        labels: The name of each class.
        sample_rate_hz: Samples per second.
        hop_samples: Samples of a step.
    """

    def __init__(self, folder: str | Path = FOLDER) -> None:
        self.about = about = read_about(folder)
        self.graph = Graph(folder, about, threads=1)  # a step is too small for more
        self.labels, self.sample_rate_hz, self.hop_samples = (
            about[name] for name in ("labels", "sample_rate_hz", "hop_samples")
        )
        self.decoder = decoder_of(about)
        self.restart()

    def restart(self) -> None:
        """Begin a new recording: a state of zeros, and zeros before the first sample."""
        self.state = numpy.zeros((1, self.about["state_size"]), numpy.float32)
        self.pending = numpy.zeros(self.about["lead_in_samples"], numpy.float32)
        self.steps = 0
        self.decoder.restart()

    def push(self, samples: numpy.ndarray) -> list:
        """Process the next samples (N,): the words that are final, with `label`, `start_s` and `end_s`."""
        return self.decoder.push(self.rows(samples))

    def flush(self) -> list:
        """End the recording: its last words. The model can then be used for another."""
        heard = self.steps * self.hop_samples + len(self.pending) - self.about["lead_in_samples"]
        words = self.decoder.push(self.last_rows()) + self.decoder.flush()
        self.restart()
        return [decided_within(word, heard / self.sample_rate_hz) for word in words]

    def rows(self, samples: numpy.ndarray) -> numpy.ndarray:
        """Process the next samples: (N,) -> the logits that became final (T, C)."""
        self.pending = numpy.concatenate((self.pending, within_one(samples)))
        rows = [numpy.zeros((0, self.graph.outputs["logits"][1]), numpy.float32)]
        while len(self.pending) >= self.hop_samples:
            # The first steps end no token of the recording.
            rows += self.step(self.pending[: self.hop_samples], self.steps >= self.about["first_step"])
            self.pending, self.steps = self.pending[self.hop_samples :], self.steps + 1
        return numpy.concatenate(rows)

    def last_rows(self) -> numpy.ndarray:
        """Steps without audio, which return what waits for its look-ahead: the last logits (T, C)."""
        silence = numpy.zeros(self.hop_samples, numpy.float32)
        rows = [row for _ in range(self.about["steps_ahead"]) for row in self.step(silence, False)]
        return numpy.concatenate([self.rows(silence[:0]), *rows])

    def step(self, samples: numpy.ndarray, valid: bool) -> list[numpy.ndarray]:
        """One step of the graph: a row of logits, or F rows for a labeler (F, C); none while the look-ahead fills."""
        feeds = {"samples": samples[None], "valid": numpy.array([valid], numpy.float32), "state": self.state}
        logits, valid_out, self.state = self.graph.run(OUTPUTS, feeds)
        return [logits] if valid_out[0] > 0.5 else []

    def clip(self, samples: numpy.ndarray) -> numpy.ndarray:
        """The probabilities of a clip of a classifier (N,): the mean of its rows' logits -> (C,).

        What was pushed before is discarded.

        Raises:
            ValueError: If the clip is shorter than one token.
        """
        self.restart()
        rows = numpy.concatenate((self.rows(samples), self.last_rows()))
        self.restart()
        if not len(rows):
            shortest = self.about["window_samples"]
            raise ValueError(f"the clip has {len(samples):,} samples, fewer than the {shortest:,} of one token")
        return softmax(rows.mean(0))


def decided_within(word: Any, duration_s: float) -> Any:
    """A word that is decided at the end of the recording at the latest; only words of classifiers have this time."""
    return replace(word, decided_s=min(word.decided_s, duration_s)) if hasattr(word, "decided_s") else word


def decoder_of(about: dict):
    """The decoder that turns logits into words: keyword spotting, or greedy decoding of CTC or of frame labels."""
    times = {"hop_s": about["row_ms"] / 1000, "first_s": about["first_row_ms"] / 1000}
    if about["task"] != "classification":
        from vitspeech.decoding.unit_runs import UnitDecoder

        least = {"shortest_s": about["shortest_ms"] / 1000, "least_probability": about["least_probability"]}
        return UnitDecoder(about["labels"], **times, **least)
    from vitspeech.decoding.keywords import KeywordDecoder, SpottingSettings

    if about["clip_samples"] < about["window_samples"]:
        raise ValueError("model.json: clip_samples is less than window_samples, those of one token")
    clip_tokens = 1 + (about["clip_samples"] - about["window_samples"]) // about["hop_samples"]
    settings, latency_s = SpottingSettings(**about["spotting"]), about["delay_ms"] / 1000
    return KeywordDecoder(about["labels"], settings, **times, latency_s=latency_s, clip_tokens=clip_tokens)


def main() -> None:
    """Print the words of recordings with their times, or the label of each recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="RECORDING", help="WAV, FLAC, OGG or MP3")
    parser.add_argument("--microphone", action="store_true", help="listen until Ctrl-C")
    parser.add_argument("--clip", action="store_true", help="the label of each recording, which holds one word")
    parser.add_argument("--save-state", metavar="FILE", help="the recording goes on: write the state instead of ending")
    parser.add_argument("--load-state", metavar="FILE", help="go on with the recording whose state was saved")
    options, model = parser.parse_args(), Model()
    if bool(options.files) == options.microphone:
        parser.error("give recordings, or --microphone")
    if options.microphone and (options.clip or options.save_state or options.load_state):
        parser.error("--microphone is without --clip and without a state")
    if (options.save_state or options.load_state) and (options.clip or len(options.files) > 1):
        parser.error("a state is for one recording, without --clip")
    if options.save_state:
        check_target(options.save_state)
    if options.clip and model.about["task"] != "classification":
        parser.error("--clip is for classifiers; this model has other outputs")
    if options.microphone:
        hear(model)
        return
    read = partial(read_sound, rate_hz=model.sample_rate_hz, is_part=bool(options.save_state or options.load_state))
    for path, samples in read_each(options.files, read):
        if options.clip:
            probabilities = model.clip(fit_length(samples, model.about["clip_samples"]))
            print(f"{path}: {most_probable(model.labels, probabilities)}", flush=True)
            continue
        if options.load_state:
            load_state(model, options.load_state)
        if len(options.files) > 1:
            print(f"{path}:", flush=True)
        part = round(PART_S * model.sample_rate_hz)  # as if the audio arrived live
        words = []
        for first in range(0, len(samples), part):
            words += show(model.push(samples[first : first + part]))
        if options.save_state:
            save_state(model, options.save_state)
        else:
            words += show(model.flush())
        if model.about["task"] == "recognition":
            print(to_text(words, model.labels), flush=True)


def hear(model: Model) -> None:
    """Print the words that the microphone hears, until Ctrl-C."""
    from vitspeech.inference.microphone import listen

    try:
        for samples in listen(model.sample_rate_hz, PART_S):
            show(model.push(samples))
    except KeyboardInterrupt:
        show(model.flush())


def to_text(units: list[str], labels: list[str]) -> str:
    """The text of units: words, characters with a space among them, or pieces, of which a mark begins each word."""
    mark = "\N{LOWER ONE EIGHTH BLOCK}"
    are_words = " " not in labels and not any(label.startswith(mark) for label in labels)
    return " ".join((" " if are_words else "").join(units).replace(mark, " ").split())


def show(words: list) -> list[str]:
    """Print words as they come, one on a line, and return their names."""
    for word in words:
        probability = f" {word.probability:.2f}" if hasattr(word, "probability") else ""
        print(f"{word.start_s:8.2f} – {word.end_s:.2f} s  {word.label:12}{probability}".rstrip(), flush=True)
    return [word.label for word in words]


if __name__ == "__main__":
    run_command(main)
