"""Label recordings of one word with an exported model: numpy, ONNX Runtime and soundfile are all it needs.

python run.py yes.wav no.wav

From Python, with this folder on the path:

    from run import Model
    model = Model()
    probabilities = model(clips)   # int16 or floats within ±1 (B, model.samples) -> (B, C), of model.labels
"""

import argparse
from pathlib import Path

import numpy

from vitspeech.data.audio.levels import fit_length
from vitspeech.export.runner.model_folder import most_probable, read_about, read_each, run_command, softmax
from vitspeech.export.runner.model_graph import Graph
from vitspeech.export.runner.sound import read_sound, within_one

FOLDER = Path(__file__).parent


class Model:
    """A classifier of clips.

    Attributes:
        labels: The name of each class.
        sample_rate_hz: Sample rate of a clip.
        samples: Length of a clip N.
    """

    def __init__(self, folder: str | Path = FOLDER) -> None:
        self.about = read_about(folder)
        self.graph = Graph(folder, self.about)
        self.labels, self.samples = self.about["labels"], self.about["samples"]
        self.sample_rate_hz = self.about["sample_rate_hz"]

    def __call__(self, clips: numpy.ndarray) -> numpy.ndarray:
        """The probabilities of clips: int16 or floats within ±1 (B, N) -> (B, C)."""
        return softmax(self.graph.run(["logits"], {"samples": within_one(clips)})[0])


def main() -> None:
    """Print the three most probable labels of each recording; of a long one, of the clip with most energy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="RECORDING", help="WAV, FLAC, OGG or MP3")
    files, model = parser.parse_args().files, Model()
    for path, samples in read_each(files, lambda path: read_sound(path, model.sample_rate_hz)):
        clip = fit_length(samples, model.samples)
        print(f"{path}: {most_probable(model.labels, model(clip[None])[0])}", flush=True)


if __name__ == "__main__":
    run_command(main)
