"""Reading training data: from memory, files and a pack, beside torchvision, with memory and start-up by items."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import soundfile
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder as TorchvisionFolder
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, PILToTensor, Resize
from tqdm import tqdm

from vitspeech.benchmark import measure
from vitspeech.benchmark.data_files import write_clips, write_pictures
from vitspeech.benchmark.data_index import measure_index
from vitspeech.data import AudioFolder, ImageFolder
from vitspeech.data.module import DataModule
from vitspeech.data.storage.pack import pack
from vitspeech.errors import InputError
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

    Raises:
        InputError: If a number is too small.
    """

    items: int = 4000
    batch: int = 128
    workers: Sequence[int] = (0, 1, 2)
    repeats: int = 5
    indices: Sequence[int] = (10_000, 1_000_000, 10_000_000)

    def __post_init__(self) -> None:
        measure.check_counts(batch=self.batch, repeats=self.repeats, **{f"index of {n}": n for n in self.indices})
        if self.items < 2 * self.batch:
            raise InputError(f"items={self.items} is below two batches of {self.batch}")
        if any(not 0 <= count <= 64 for count in self.workers):
            raise InputError(f"workers={list(self.workers)} are not from 0 to 64")


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
    else:
        side = 32 if name == SETS[0] else 224
        write_pictures(files, settings.items, (32, 32) if side == 32 else (320, 240))
        made = partial(ImageFolder, str(files), image=side, batch=settings.batch)
    pack(made(storage="files"), packed, {}, progress=False)
    loaders = {OWNER: (loader(made()))}
    for count in settings.workers:
        loaders[f"files, {count} workers"] = loader(made(storage="files", workers=count))
        loaders[f"pack, {count} workers"] = loader(made(storage=str(packed), workers=count))
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
    rates = {variant: row | {"per_second": counts[variant] / row["median_ms"] * 1000} for variant, row in times.items()}
    shards = sorted(packed.glob("train-*.arrow"))
    read = partial(read_shards, shards)
    seconds, _ = measure.interleaved({"Arrow": read}, settings.repeats, owner="Arrow")
    total = sum(map(rows_of, shards))
    return rates | {
        "Arrow alone, in order": seconds["Arrow"] | {"per_second": total / seconds["Arrow"]["median_ms"] * 1000}
    }


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


def read_shards(shards: Sequence[Path]) -> int:
    """Read the bytes of all inputs in order by Arrow alone, without tensors or batches."""
    total = 0
    for shard in shards:
        reader = pyarrow.ipc.open_file(pyarrow.memory_map(str(shard)))
        for number in range(reader.num_record_batches):
            total += sum(len(value.as_buffer().to_pybytes()) for value in reader.get_batch(number).column(0))
    return total


def rows_of(shard: Path) -> int:
    """The number of items in a shard."""
    reader = pyarrow.ipc.open_file(pyarrow.memory_map(str(shard)))
    return sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))


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
