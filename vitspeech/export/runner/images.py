"""Label images with an exported model: numpy, ONNX Runtime and Pillow are all it needs.

python run.py cat.jpg dog.png

From Python, with this folder on the path:

    from run import Model, read_picture
    model = Model()
    probabilities = model(read_picture("cat.jpg", model.side)[None])   # (1, C), of model.labels
"""

import argparse
from pathlib import Path

import numpy

from vitspeech.export.runner.model_folder import check_file, most_probable, read_about, read_each, run_command
from vitspeech.export.runner.model_graph import Graph

FOLDER = Path(__file__).parent


class Model:
    """A classifier of images.

    Attributes:
        labels: The name of each class.
        side: Side of an image in pixels.
    """

    def __init__(self, folder: str | Path = FOLDER) -> None:
        self.about = read_about(folder)
        self.graph = Graph(folder, self.about)
        self.labels, self.side = self.about["labels"], self.about["side"]

    def __call__(self, pixels: numpy.ndarray) -> numpy.ndarray:
        """The probabilities of images: uint8 (B, side, side, 3), RGB -> (B, C). The graph normalizes the pixels."""
        return self.graph.run(["probabilities"], {"pixels": pixels})[0]


def read_picture(path: str | Path, side: int) -> numpy.ndarray:
    """Read an image of any size and scale its center square: uint8 (side, side, 3), RGB.

    EXIF rotation is applied, transparent pixels are blended with white.
    """
    from vitspeech.data.images.pictures import read_square  # needs Pillow

    check_file(path)
    return read_square(Path(path), side, path)


def main() -> None:
    """Print the three most probable labels of each image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="IMAGE", help="BMP, GIF, JPEG, PNG, PPM, TIFF or WebP, any size")
    files, model = parser.parse_args().files, Model()
    for path, pixels in read_each(files, lambda path: read_picture(path, model.side)):
        (probabilities,) = model(pixels[None])
        print(f"{path}: {most_probable(model.labels, probabilities)}", flush=True)


if __name__ == "__main__":
    run_command(main)
