"""Transcripts with an exported encoder-decoder: numpy, ONNX Runtime and soundfile are all it needs.

python run.py talk.wav                # of a model of speech
python run.py "3 1 4 1 5" "2 7 1 8"   # of a model of symbols

From Python, with this folder on the path:

    from run import Model
    model = Model()
    units = model(samples)            # int16 or floats within ±1 (N,), model.sample_rate_hz
    print(model.text(units))
"""

import argparse
from pathlib import Path

import numpy

from vitspeech.export.runner.model_folder import read_about, read_each, run_command
from vitspeech.export.runner.model_graph import Graph
from vitspeech.export.runner.sound import read_sound, within_one

FOLDER = Path(__file__).parent
LONGEST_S = 60.0  # of a recording, whose whole length is attended to


class Model:
    """Two graphs: `model.onnx` reads the whole input, `decoder.onnx` outputs one unit a call.

    Attributes:
        labels: The name of each unit.
        symbols: The symbols of the input, or `None` for a model of speech.
        sample_rate_hz: Of recordings; `None` for a model of symbols.
    """

    def __init__(self, folder: str | Path = FOLDER) -> None:
        self.about = read_about(folder)
        self.source = Graph(folder, self.about)
        self.decoder = Graph(folder, self.about, "decoder.onnx", threads=1)  # a unit is too small for more
        self.labels, self.symbols = self.about["labels"], self.about.get("symbols")
        if self.about["end"] != len(self.labels):
            raise ValueError(f"{folder}: model.json: end is not the class after those of the labels")
        self.sample_rate_hz = self.about.get("sample_rate_hz")

    def __call__(self, inputs: numpy.ndarray) -> list[int]:
        """Greedy search: samples, or indices of symbols (N,) -> indices of units."""
        name = "symbols" if self.symbols else "samples"
        inputs = inputs.astype(numpy.int64) if self.symbols else within_one(inputs)
        source, cache = self.source.run(["source", "cache"], {name: inputs[None]})
        units, last = [], self.about["start_unit"]
        for _ in range(self.longest_output(source.shape[3])):
            feeds = {"units": numpy.array([last]), "source": source, "cache": cache}
            log_probs, cache = self.decoder.run(["log_probs", "cache_out"], feeds)
            last = int(log_probs[0].argmax())
            if last == self.about["end"]:
                break
            units.append(last)
        return units

    def longest_output(self, tokens: int) -> int:
        """The number of units at which a search ends, for a source with this number of tokens."""
        longest = self.about["longest_output"]
        units = longest["per_token"] * tokens + longest["besides"]
        return units if longest["most"] is None else min(units, longest["most"])

    def text(self, units: list[int]) -> str:
        """The words of units, separated by spaces."""
        joined = self.about["separator"].join(self.labels[unit] for unit in units)
        return " ".join(joined.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").split())  # begins the first piece of a word

    def read(self, given: str) -> numpy.ndarray:
        """The input from a recording's path: int16 (N,), or from a text of symbols: their indices (N,).

        Symbols are separated by spaces; if all are single characters, also not at all.

        Raises:
            ValueError: As `read_sound`, or if a recording is shorter than one token or longer than `LONGEST_S`, a
                symbol is unknown, there are none, or there are more tokens than positions.
        """
        problem = ""
        if self.symbols:
            parts = list("".join(given.split())) if all(len(symbol) == 1 for symbol in self.symbols) else given.split()
            known = [self.symbols.index(part) for part in parts if part in self.symbols]
            inputs, tokens = numpy.array(known), len(parts)
            if not parts:
                problem = "no symbols"
            elif unknown := [part for part in parts if part not in self.symbols]:
                problem = f"{unknown[0]} is not a symbol of the model; there are {', '.join(self.symbols)}"
        else:
            inputs, shortest = read_sound(given, self.sample_rate_hz), self.about["window_samples"]
            tokens = 1 + (len(inputs) - shortest) // self.about["hop_samples"]
            if tokens < 1:
                problem = f"has {len(inputs):,} samples, fewer than the {shortest:,} of one token"
            elif len(inputs) > LONGEST_S * self.sample_rate_hz:
                problem = f"lasts {len(inputs) / self.sample_rate_hz:.1f} s, above {LONGEST_S:g} s"
        if not problem and (most := self.about["longest_input"]) is not None and tokens > most:
            problem = f"has {tokens:,} tokens, more than the {most:,} positions of the model"
        if problem:
            raise ValueError(f"{given}: {problem}")
        return inputs


def main() -> None:
    """Print the transcript of each recording, or of each sequence of symbols."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="WAV, FLAC, OGG or MP3; or symbols")
    inputs, model = parser.parse_args().inputs, Model()
    for given, content in read_each(inputs, model.read):
        text = model.text(model(content))
        if model.symbols:
            spaced = any(character.isspace() for character in given) or any(len(label) > 1 for label in model.labels)
            print(f"{given} -> {text if spaced else text.replace(' ', '')}", flush=True)
        else:
            print(f"{given}: {text}", flush=True)


if __name__ == "__main__":
    run_command(main)
