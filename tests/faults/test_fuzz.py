"""Files of others, changed at random: reading one works or raises an InputError or OSError, and does nothing else.

Each test changes good files for a minute. A failure names its number: `VITSPEECH_FUZZ=1234` runs that change alone, and
`VITSPEECH_FUZZ_S` sets the seconds.
"""

import hashlib
import io
import itertools
import json
import os
import pickle
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy
import pytest
import soundfile
import torch
import yaml
from mutations import mutated_bytes, mutated_tree
from PIL import Image
from watching import watched

import vitspeech
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.data.audio.reading import read_clip
from vitspeech.data.images.reading import read_picture
from vitspeech.errors import InputError
from vitspeech.training.checkpoints import check_same_run, read_checkpoint
from vitspeech.training.config import config_chain, find_config
from vitspeech.training.train import TrainingCLI

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECONDS = float(os.environ.get("VITSPEECH_FUZZ_S", 60))


def fuzz(name: str, folder: Path, prepare: Callable[[Random], Callable[[], object]]) -> None:
    """Prepare and run one case after the other until the time is over.

    Args:
        name: Of the test; together with the number of a case it determines the changes.
        folder: The only one that cases may read from and write to.
        prepare: Writes the files of a case, and returns what reads them.
    """
    numbers = [int(os.environ["VITSPEECH_FUZZ"])] if "VITSPEECH_FUZZ" in os.environ else itertools.count()
    start, refused = time.monotonic(), 0
    for number in numbers:
        read = prepare(Random(f"{name} {number}"))
        try:
            with warnings.catch_warnings(), watched(folder):
                warnings.simplefilter("ignore")
                read()
        except (InputError, OSError) as error:
            assert "\n" not in str(error).strip() or len(str(error)) < 2000  # commands print it in one line
            refused += 1
        except BaseException as error:
            raise AssertionError(f"{name}, case {number}: {type(error).__name__}: {error}") from error
        if time.monotonic() - start > SECONDS:
            break
    print(f"{name}: {number + 1} cases, {refused} refused")
    assert "VITSPEECH_FUZZ" in os.environ or 0 < refused <= number


@pytest.fixture
def pictures() -> dict[str, bytes]:
    """Good pictures of noise by their endings."""
    pixels = numpy.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=numpy.uint8)
    contents = {}
    modes = {"png": "RGB L P RGBA I;16", "gif": "P", "webp": "RGB RGBA", "bmp": "RGB L P", "tiff": "RGB L P F"}
    for ending in ("png", "jpeg", "webp", "bmp", "gif", "tiff", "ppm"):
        for mode in modes.get(ending, "RGB L").split():
            file = io.BytesIO()
            Image.fromarray(pixels).convert("L" if mode == "I;16" else mode).convert(mode).save(file, ending)
            contents[f"{mode}.{ending}"] = file.getvalue()
    return contents


def fuzz_files(kind, folder, contents, read):
    """`fuzz` reading files whose good contents, by their names, are altered."""

    def prepare(random):
        name = random.choice(sorted(contents))
        (folder / name).write_bytes(mutated_bytes(contents[name], random))
        return lambda: read(folder / name)

    fuzz(kind, folder, prepare)


def test_pictures(tmp_path, pictures):
    def read(path):
        picture = read_picture(path, 32)
        assert picture.shape == (3, 32, 32) and picture.dtype == torch.uint8

    fuzz_files("pictures", tmp_path, pictures, read)


@pytest.fixture
def recordings(tmp_path) -> dict[str, bytes]:
    """Good recordings of noise by their endings."""
    samples = 0.1 * numpy.random.default_rng(0).standard_normal((4000, 2))
    kinds = ("wav PCM_16", "wav FLOAT", "wav PCM_24", "flac PCM_16", "ogg VORBIS", "ogg OPUS", "mp3 MPEG_LAYER_III")
    contents = {}
    for kind in kinds:
        ending, subtype = kind.split()
        file = tmp_path / f"good.{ending}"
        soundfile.write(file, samples if subtype == "FLOAT" else samples[:, 0], 16_000, subtype=subtype)
        contents[f"{subtype}.{ending}"] = file.read_bytes()
    return contents


def test_recordings(tmp_path, recordings):
    def read(path):
        samples = read_clip(path)
        assert samples.dtype == torch.int16 and samples.dim() == 1

    fuzz_files("recordings", tmp_path, recordings, read)


CONFIGS = "shapes/vit shapes/cnn two_marks/vit spoken_words/truncated speech_commands/full cifar10/timm".split()


def test_configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("raise RuntimeError('imported')\n")

    def prepare(random):
        file = config_chain(find_config(random.choice(CONFIGS)))[0]
        if random.random() < 0.2:
            (tmp_path / "own.yaml").write_bytes(mutated_bytes(file.read_bytes(), random))
        else:
            tree = mutated_tree(yaml.safe_load(file.read_text()), random)
            (tmp_path / "own.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))

        def read():
            try:
                TrainingCLI(["--config=own.yaml", "--run=out"])
            except SystemExit as stopped:
                assert stopped.code in (1, 2)

        return read

    fuzz("configs", tmp_path, prepare)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["image", "speech", "transcriber"])
def test_released_models(
    tmp_path, finished_run, finished_speech_run, finished_transcriber_run, star, words, monkeypatch, kind
):
    run = {"image": finished_run, "speech": finished_speech_run, "transcriber": finished_transcriber_run}[kind]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("raise RuntimeError('imported')\n")
    model = tmp_path / "m"
    model.mkdir()
    good = {name: (run / "model" / name).read_bytes() for name in ("model.safetensors", "config.yaml", "card.json")}

    def prepare(random):
        contents = dict(good)
        name = random.choice(sorted(good))
        if name == "model.safetensors" or random.random() < 0.1:
            contents[name] = mutated_bytes(contents[name], random)
        elif name == "config.yaml":
            contents[name] = yaml.safe_dump(mutated_tree(yaml.safe_load(contents[name]), random)).encode()
        else:
            contents[name] = json.dumps(mutated_tree(json.loads(contents[name]), random)).encode()
        if name != "card.json":
            card = json.loads(contents["card.json"])
            card |= {"sha256": hashlib.sha256(contents["model.safetensors"]).hexdigest()}
            card |= {"config_sha256": hashlib.sha256(contents["config.yaml"]).hexdigest()}
            contents["card.json"] = json.dumps(card).encode()
        for file, content in contents.items():
            (model / file).write_bytes(content)

        def read():
            loaded = vitspeech.load(model)
            if kind == "transcriber":
                list(vitspeech.transcribe(loaded, [words], search=vitspeech.Search(beam=1)))
            else:
                list(vitspeech.predict(loaded, [star if kind == "image" else words]))
            if name == "card.json":
                card_dataset(loaded, None)

        return read

    fuzz(f"released model, {kind}", tmp_path, prepare)


def test_manifests(tmp_path, monkeypatch):
    source = vitspeech.SpokenWords(["up", "down"], count=50)
    data = vitspeech.WordSequences(source, count=20)
    good = [vars(utterance) for utterance in itertools.islice(data.test_sets()["drawn"].utterances, 2)]
    for name in ("word_clips", "backgrounds"):  # synthesized once
        found = getattr(source, name)("test")
        monkeypatch.setattr(source, name, lambda split, found=found: found)
    file = tmp_path / "own.jsonl"

    def prepare(random):
        is_good = random.random() < 0.1  # a changed one is rarely valid, so that a short run has none
        lines = [json.dumps(utterance if is_good else mutated_tree(utterance, random)) for utterance in good]
        content = "".join(f"{line}\n" for line in lines).encode()
        if random.random() < 0.2:
            content = mutated_bytes("".join(f"{json.dumps(utterance)}\n" for utterance in good).encode(), random)
        sums = f"{hashlib.sha256(content).hexdigest()}  own.jsonl\n".encode()
        if random.random() < 0.1:
            sums = mutated_bytes(sums, random)
        file.write_bytes(content)
        (tmp_path / "SHA256SUMS").write_bytes(sums)

        def read():
            test_sets = vitspeech.WordSequences(source, count=20, manifests=[str(file)]).test_sets()
            items = next(iter(test_sets.values()))
            for index in range(len(items)):
                items[torch.tensor([index]), 0]

        return read

    fuzz("manifests", tmp_path, prepare)


class Function:
    """Pickles as a call of `os.system`."""

    def __reduce__(self) -> tuple:
        return os.system, ("touch run-by-a-checkpoint",)


def mutated_archive(content: bytes, random: Random) -> bytes:
    """A checkpoint with a changed part or a changed name of one; its checksums are right."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
        names = old.namelist()
        changed = random.choice([*names, *[name for name in names if name.endswith("data.pkl")] * len(names)])
        for name in names:
            part, change = old.read(name), random.randrange(10) if name == changed else -1
            if change == 0:
                continue
            if change == 1:
                part = pickle.dumps({"state_dict": Function()}, protocol=2)
            elif change == 2:
                name = random.choice(("../../x", "/etc/x", "x"))
            elif change > 2:
                part = mutated_bytes(part, random)
            new.writestr(name, part)
    return file.getvalue()


def mutated_checkpoint(content: bytes, random: Random) -> bytes:
    """A checkpoint whose contents are changed before it is saved."""
    checkpoint = torch.load(io.BytesIO(content), weights_only=True)
    key = random.choice(sorted(checkpoint))
    if random.random() < 0.8:
        checkpoint = checkpoint | {key: mutated_tree(checkpoint[key], random)}
    else:
        del checkpoint[key]
    file = io.BytesIO()
    torch.save(checkpoint, file)
    return file.getvalue()


def test_checkpoints(tmp_path, finished_run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = (finished_run / "last.ckpt").read_bytes()
    file = tmp_path / "last.ckpt"
    cli = TrainingCLI([f"--resume={finished_run}"])
    cli.datamodule.setup("fit")

    def prepare(random):
        change = random.choice((mutated_bytes, mutated_archive, mutated_checkpoint))
        file.write_bytes(change(good, random))
        return lambda: read_checkpoint(file, lambda saved: check_same_run(saved, cli.model, cli.datamodule))

    fuzz("checkpoints", tmp_path, prepare)
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]
