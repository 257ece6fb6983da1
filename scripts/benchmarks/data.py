"""Reading training data: from memory, files and Arrow files, beside torchvision, with memory and start-up by items.

The files are written for it. Pictures are smooth with some noise, as photographs are.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import soundfile
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder as TorchvisionFolder
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, PILToTensor, Resize
from tqdm import tqdm

from benchmarks import measure
from benchmarks.data_index import measure_index
from vitspeech.data import AudioFolder, HuggingFaceClips, HuggingFaceImages, ImageFolder
from vitspeech.data.module import DataModule
from vitspeech.data.pack import pack
from vitspeech.files import write_json

SETS = ("pictures of 32 px", "pictures of 224 px", "clips of 1 s")
OWNER = "memory"


@dataclass(frozen=True)
class Settings:
    """The settings of the benchmark.

    Args:
        items: Files of each set.
        batch: Items per batch.
        workers: Numbers of worker processes; 0 reads in the main process.
        repeats: Epochs of each variant after a warm-up.
        indices: Numbers of items whose memory and start-up are measured.
    """

    items: int = 4000
    batch: int = 128
    workers: Sequence[int] = (0, 1, 2)
    repeats: int = 5
    indices: Sequence[int] = (10_000, 1_000_000, 10_000_000)


def benchmark(settings: Settings, path: Path | None = None) -> dict[str, Any]:
    """Measure everything; the report is written to `path` after each part."""
    report = {"settings": asdict(settings), "reading": {}, "index": [], **measure.origin("cpu")}
    with tempfile.TemporaryDirectory(prefix="vitspeech-") as folder:
        for name in SETS:
            report["reading"][name] = reading(name, Path(folder, name.replace(" ", "-")), settings)
            if path:
                write_json(report, path)
        for count in settings.indices:
            report["index"].append(measure_index(Path(folder, f"index-{count}"), count))
            if path:
                write_json(report, path)
    return report


def reading(name: str, folder: Path, settings: Settings) -> dict[str, dict[str, Any]]:
    """Items per second of each variant that reads one set."""
    files, packed = folder / "files", folder / "pack"
    if name == SETS[2]:
        write_clips(files, settings.items)
        made = partial(AudioFolder, str(files), batch=settings.batch)
        mapped = partial(HuggingFaceClips, str(packed), batch=settings.batch, storage="files")
    else:
        side = 32 if name == SETS[0] else 224
        write_pictures(files, settings.items, (32, 32) if side == 32 else (320, 240))
        made = partial(ImageFolder, str(files), image=side, batch=settings.batch)
        mapped = partial(HuggingFaceImages, str(packed), image=side, batch=settings.batch, storage="files")
    pack(made(storage="files"), packed, progress=False)
    loaders = {OWNER: (loader(made()))}
    for count in settings.workers:
        loaders[f"files, {count} workers"] = loader(made(storage="files", workers=count))
        loaders[f"Arrow files, {count} workers"] = loader(mapped(workers=count))
        other = (
            plain_clips(files, settings.batch, count) if name == SETS[2] else torchvision(files, side, settings, count)
        )
        loaders[f"{'DataLoader of soundfile' if name == SETS[2] else 'torchvision'}, {count} workers"] = other
    counts = {variant: sum(len(batch[1]) for batch in batches) for variant, batches in loaders.items()}
    calls: dict[str, Callable[[], None]] = {variant: partial(run, batches) for variant, batches in loaders.items()}
    bar = tqdm(desc=name, leave=False)
    with bar:
        times, _ = measure.interleaved(
            calls, settings.repeats, owner=OWNER, note=lambda text: bar.set_postfix_str(text) or bar.update()
        )
    return {variant: row | {"per_second": counts[variant] / row["median_ms"] * 1000} for variant, row in times.items()}


def loader(data: DataModule) -> DataLoader:
    """The loader of training batches."""
    data.setup("fit")
    return data.train_dataloader()


def run(batches: Iterable[Any]) -> None:
    """One epoch; every batch is looked at once."""
    for batch in batches:
        batch[0].view(-1)[0].item()


def torchvision(files: Path, side: int, settings: Settings, workers: int) -> DataLoader:
    """torchvision's `ImageFolder` in a `DataLoader`, with pictures of the same size."""
    transform = Compose([Resize(side, InterpolationMode.BICUBIC), CenterCrop(side), PILToTensor()])
    return shuffled(TorchvisionFolder(str(files), transform), settings.batch, workers)


class Clips(Dataset):
    """Clips read one by one by soundfile, as a data set is usually written."""

    def __init__(self, files: Path) -> None:
        self.files = sorted(files.glob("*/*.wav"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.from_numpy(soundfile.read(self.files[index], dtype="int16")[0]), index


def plain_clips(files: Path, batch: int, workers: int) -> DataLoader:
    """`Clips` in a `DataLoader`."""
    return shuffled(Clips(files), batch, workers)


def shuffled(items: Dataset, batch: int, workers: int) -> DataLoader:
    """A `DataLoader` as it is usually made."""
    return DataLoader(items, batch, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=workers > 0)


def table(report: dict[str, Any]) -> str:
    """The report as text."""
    lines = []
    for name, rates in report["reading"].items():
        lines += [f"{name}: items/s (median; slowest to fastest)"]
        for variant, row in rates.items():
            each = sorted(row["per_second"] * row["median_ms"] / sample for sample in row["samples_ms"])
            lines.append(f"  {variant:36} {row['per_second']:10,.0f}  ({each[0]:,.0f} to {each[-1]:,.0f})")
    lines += ["", f"{'items':>12} {'bytes an item':>14} {'to the first batch':>19} {'to the last batch':>18}"]
    for row in report["index"]:
        times = f"{row['first_batch_s']:17.2f} s {row['last_batch_s']:16.2f} s"
        lines.append(f"{row['items']:12,} {row['bytes_per_item']:14.1f} {times}")
    return "\n".join(lines)


CLASSES = 10


def write_pictures(folder: Path, count: int, size: tuple[int, int]) -> None:
    """Write JPEG files into folders of classes.

    Args:
        folder: Its folders are the classes.
        count: Number of files.
        size: Width and height in pixels.
    """
    random = numpy.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3)).astype(numpy.uint8)).resize(size, Image.BICUBIC)
        pixels = numpy.asarray(coarse, numpy.int16) + random.integers(-12, 13, (size[1], size[0], 1))
        picture = Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))
        picture.save(place(folder, number, "jpg"), quality=90)


def write_clips(folder: Path, count: int) -> None:
    """Write WAV files of a second, 16 kHz, into folders of classes."""
    random = numpy.random.default_rng(0)
    for number in range(count):
        samples = 6000 * random.standard_normal(16_000)
        soundfile.write(place(folder, number, "wav"), samples.clip(-32768, 32767).astype(numpy.int16), 16_000)


def place(folder: Path, number: int, ending: str) -> Path:
    """The path of a file, in a folder that is made if it is missing."""
    path = folder / f"class{number % CLASSES}" / f"{number:06}.{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
