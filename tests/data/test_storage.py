"""A data set gives the same batches from memory, from its files, and from the set of Hugging Face it is packed into."""

import re
import shutil
from functools import partial
from pathlib import Path

import numpy
import pytest
import soundfile
import torch
from PIL import Image

from vitspeech.checkpoint.card_dataset import build_data
from vitspeech.data import (
    AudioFolder,
    DataModule,
    HuggingFaceClips,
    HuggingFaceImages,
    HuggingFaceUtterances,
    ImageFolder,
    SpeechCommands,
    TranscribedAudio,
)
from vitspeech.data.clips.speech_commands import FOLDER, URL
from vitspeech.data.pack import LEFT_OUT, pack
from vitspeech.errors import InputError

RANDOM = numpy.random.default_rng(0)
NOISE = "_background_noise_"
PACKED = {ImageFolder: HuggingFaceImages, AudioFolder: HuggingFaceClips, TranscribedAudio: HuggingFaceUtterances}


def sound(path: Path, samples: int, rate_hz: int = 16_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, RANDOM.integers(-9000, 9000, samples).astype(numpy.int16), rate_hz)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("pictures")
    for word in ("ape", "bee"):
        (root / word).mkdir()
        for number in range(40):
            pixels = RANDOM.integers(0, 255, (30 + number, 41, 3)).astype(numpy.uint8)
            Image.fromarray(pixels).save(root / word / f"{number}.{'jpg' if number % 2 else 'png'}")
    return root


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("clips")
    for word in ("no", "yes"):
        for number in range(40):
            sound(root / word / f"p{number % 13}_nohash_{number}.wav", 1700 + 10 * number)
    sound(root / NOISE / "rain.wav", 20_000)
    return root


@pytest.fixture(scope="module")
def speech(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("speech")
    rows = []
    for number in range(60):
        sound(root / f"{number}.wav", 1700 + 30 * number)
        rows.append(f"{number}.wav,{' '.join(['go', 'stop', 'left'][: 1 + number % 3])},p{number % 7}")
    (root / "train.csv").write_text("\n".join(["path,transcript,speaker", *rows]) + "\n")
    return root


@pytest.fixture(scope="module")
def commands(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("commands")
    lists = {"validation": [], "test": []}
    for word in ("cat", "no", "up", "yes"):
        for number in range(12):
            name = f"{word}/{number:08x}_nohash_0.wav"
            sound(root / FOLDER / URL / name, 15_000)
            if number > 7:
                lists["validation" if number < 10 else "test"].append(name)
    for name in ("rain", "tap"):
        sound(root / FOLDER / URL / NOISE / f"{name}.wav", 11 * 16_000)
    for split, name in (("validation", "validation_list.txt"), ("test", "testing_list.txt")):
        (root / FOLDER / URL / name).write_text("\n".join(lists[split]) + "\n")
    return root


@pytest.fixture(params=["pictures", "clips", "speech"])
def kind(request):
    """A data set of files, as a function of its storage."""
    root = str(request.getfixturevalue(request.param))
    kinds = {
        "pictures": partial(ImageFolder, root, image=16, batch=7),
        "clips": partial(AudioFolder, root, seconds=0.1, batch=7),
        "speech": partial(TranscribedAudio, root, units="words", batch=7),
    }
    return kinds[request.param]


def packed(made, folder: Path, **options) -> Path:
    """Pack a data set."""
    pack(made(storage="files"), folder, progress=False, **options)
    return folder


def from_pack(made: partial, folder: Path, **options) -> DataModule:
    """The data set that a data set was packed into."""
    return PACKED[made.func](str(folder), **made.keywords, **options)


def tensors(value) -> list:
    """The tensors of a batch, and its seed."""
    return [part for item in value for part in (item if isinstance(item, tuple) else (item,))]


def batches(data: DataModule) -> list[list]:
    """The batches of an epoch of training, of validation and of test."""
    data.setup("fit")
    loaders = (data.train_dataloader(), data.val_dataloader(), data.test_dataloader())
    return [tensors(batch) for loader in loaders for batch in loader]


def same(one: list[list], other: list[list]) -> None:
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        for a, b in zip(first, second, strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_the_same_from_memory_files_and_a_pack(kind, tmp_path, workers):
    memory = batches(kind())
    same(memory, batches(kind(storage="files", workers=workers)))
    folder = packed(kind, tmp_path / "pack", shard_mb=0.02)
    assert len(list((folder / "train").glob("*.arrow"))) > 1
    same(memory, batches(from_pack(kind, folder)))
    same(memory, batches(from_pack(kind, folder, storage="files", workers=workers)))


def test_batches_by_duration_are_the_same_from_memory_files_and_a_pack(speech, tmp_path):
    made = partial(TranscribedAudio, str(speech), units="words", batch_s=1.5)
    memory = batches(made())
    same(memory, batches(made(storage="files")))
    folder = packed(made, tmp_path / "pack")
    for storage in ("memory", "files"):
        same(memory, batches(from_pack(made, folder, storage=storage)))
    data = made()
    data.setup("fit")
    assert re.fullmatch(r"\d+ batches of up to 1\.5 s, .*% of it padding", data.describe_batches())
    with pytest.raises(InputError, match=r"batch_s=0\.2 does not hold the longest utterance"):
        batches(made(batch_s=0.2))
    lines = {data.describe_batches()}
    data.accumulate = 2  # changes no optimizer step
    assert len(data.training_batches()) % 2 == 0 and {data.describe_batches()} == lines


@pytest.mark.parametrize("storage", ["memory", "files"])
def test_a_pack_says_of_its_items_what_the_files_say(kind, tmp_path, storage):
    whole, alone = kind(), from_pack(kind, packed(kind, tmp_path / "pack"), storage=storage)
    for data in (whole, alone):
        data.prepare_data()
        data.setup("fit")
    assert list(alone.labels) == list(whole.labels) and alone.preprocessing == whole.preprocessing
    assert alone.item_names() == whole.item_names()
    speakers = [getattr(data.read("test"), "speakers", None) for data in (alone, whole)]
    assert speakers[0] == speakers[1] and (kind.func is ImageFolder) == (speakers[0] is None)
    if kind.func is AudioFolder:
        assert torch.equal(alone.noise, whole.noise)
    if kind.func is TranscribedAudio:
        ours, theirs = ([(item.id, item.words) for item in data.read("test").utterances] for data in (alone, whole))
        assert ours == theirs and alone.transcripts("train") == whole.transcripts("train")


@pytest.mark.parametrize("workers", [0, 2])
def test_speech_commands_with_unknown_words_and_silence_are_packed(commands, tmp_path, workers):
    made = partial(SpeechCommands, ["yes", "no"], str(commands), unknown=0.5, silence=0.2, batch=5)
    whole = made()
    memory = batches(whole)
    same(memory, batches(made(storage="files", workers=workers)))
    folder = packed(made, tmp_path / "pack")
    alone = HuggingFaceClips(str(folder), batch=5, makes_silence=True, storage="files", workers=workers)
    alone.prepare_data()
    same(memory, batches(alone))
    assert alone.item_names() == whole.item_names() and torch.equal(alone.noise, whole.noise)
    assert alone.read("test").speakers == whole.read("test").speakers
    clips, labels = whole.train[torch.arange(20), 0][:2]
    assert torch.equal(alone.training_batch(clips, labels, 3)[0], whole.training_batch(clips, labels, 3)[0])


def test_a_model_is_tested_on_the_set_that_the_user_names(kind, tmp_path):
    folder = packed(kind, tmp_path / "pack")
    arguments = {name: value for name, value in kind.keywords.items() if name != "batch"}
    card = {"class_path": f"vitspeech.{PACKED[kind.func].__name__}", "init_args": arguments | {"path": "some/one"}}
    data = build_data(card, DataModule, str(folder))
    same([tensors(batch) for batch in kind().test_dataloader()], [tensors(batch) for batch in data.test_dataloader()])
    with pytest.raises(InputError, match=r"name the folder of the data with --data: .* the card says 'some/one'"):
        build_data(card, DataModule, None)


@pytest.mark.parametrize("storage", ["memory", "files"])
def test_a_broken_clip_of_speech_commands_has_no_name(commands, tmp_path, storage):
    shutil.copytree(commands, tmp_path / "copy")
    made = partial(SpeechCommands, ["yes", "no"], str(tmp_path / "copy"), unknown=0.5, silence=0.2, batch=5)
    whole = made().item_names()
    name = whole["train"][3]
    (tmp_path / "copy" / FOLDER / URL / name).write_bytes(b"no recording")
    data = made(storage=storage, broken=0.1)
    with pytest.warns(UserWarning, match="1 of 24 files of train cannot be read and are left out"):
        data.setup("fit")
    assert data.item_names() == whole | {"train": [item for item in whole["train"] if item != name]}
    assert data.train.labels.tolist().count(3) == 3 and len(data.train) == 23 + 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"storage": "nowhere"}, "storage=nowhere: ImageFolder has memory, files"),
        ({"broken": 1.5}, "broken"),
        ({"workers": -1}, "workers=-1 is not a number from 0"),
    ],
)
def test_arguments_of_storage_are_checked(pictures, change, message):
    with pytest.raises(InputError, match=message):
        ImageFolder(str(pictures), image=16, **change)


def test_a_folder_of_something_else_is_not_overwritten(pictures, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").touch()
    with pytest.raises(InputError, match="mine: holds other files"):
        packed(partial(ImageFolder, str(pictures), image=16), tmp_path / "mine")
    assert [file.name for file in tmp_path.rglob("*")] == ["mine", "thesis.txt"]


def break_file(root: Path, name: str) -> None:
    """Truncate a file after its header."""
    file = root / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("storage", ["memory", "files"])
@pytest.mark.parametrize("which", ["images", "audio"])
def test_a_broken_file_costs_that_file_up_to_a_share(tmp_path, storage, which):
    for number in range(50):
        for word in ("ape", "bee"):
            if which == "audio":
                sound(tmp_path / word / f"{number}.wav", 1800)
            else:
                (tmp_path / word).mkdir(exist_ok=True)
                Image.new("L", (30, 30), 2 * number).save(tmp_path / word / f"{number}.png")
    whole = (AudioFolder if which == "audio" else ImageFolder)(str(tmp_path))
    whole.setup("fit")
    name = whole.item_names()["train"][3]
    (tmp_path / name).write_bytes(b"nothing that can be read")
    made = partial(type(whole), str(tmp_path), storage=storage, workers=0)
    with pytest.raises(InputError, match=str(tmp_path / name)):
        made().setup("fit")
    with pytest.raises(InputError, match=f"1 of {len(whole.train)} files of train .* above broken=0.001"):
        made(broken=0.001).setup("fit")
    data = made(broken=0.05)
    with pytest.warns(UserWarning, match=f"1 of {len(whole.train)} files of train cannot be read and are left out"):
        data.setup("fit")
    assert data.item_names()["train"] == [item for item in whole.item_names()["train"] if item != name]
    kept = torch.tensor([place for place in range(len(whole.train)) if place != 3])
    ours, theirs = data.train[torch.arange(len(kept)), 0], whole.train[kept, 0]
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])


def test_a_pack_leaves_out_what_cannot_be_read_up_to_a_share(tmp_path):
    for number in range(50):
        for word in ("ape", "bee"):
            sound(tmp_path / "clips" / word / f"{number}.wav", 1800)
    made = partial(AudioFolder, str(tmp_path / "clips"), seconds=0.1)
    names = made().item_names()
    (tmp_path / "clips" / names["train"][0]).write_bytes(b"")
    for share, refused in ((0.05, False), (0.001, True)):
        data = made(storage="files", broken=share)
        data.checks_files = False  # as `vitspeech pack` sets it
        if refused:
            with pytest.raises(InputError, match=r"1 of 80 items of train cannot be read, above broken=0\.001; first"):
                pack(data, tmp_path / "less", progress=False)
            continue
        assert pack(data, tmp_path / "pack", progress=False)["train"] == 79
    assert HuggingFaceClips(str(tmp_path / "pack")).item_names() == names | {"train": names["train"][1:]}
    assert names["train"][0] in (tmp_path / "pack" / LEFT_OUT).read_text() and not (tmp_path / "less").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_test_item_that_breaks_later_is_not_replaced_but_named_in_one_line(kind, tmp_path, workers):
    root = tmp_path / "copy"
    shutil.copytree(kind.args[0], root)
    data = kind.func(str(root), **kind.keywords, storage="files", workers=workers)
    data.evaluation_batch = 2
    data.setup("fit")
    loader, last = data.test_dataloader(), data.item_names()["test"][-1]
    (root / last).write_bytes((root / last).read_bytes()[:60])
    with pytest.raises(InputError, match=rf"^{re.escape(str(root / last))}: [^\n]*$"):
        list(loader)
    if workers:  # else the garbage collector does it, and waits 10 s for workers that it has cut off
        loader._iterator._shutdown_workers()


def test_a_file_that_breaks_later_is_replaced_by_another_item_of_its_batch(tmp_path):
    sounds = [tmp_path / f"{number}.flac" for number in range(12)]
    for number, file in enumerate(sounds):
        soundfile.write(file, RANDOM.integers(-9000, 9000, 9000).astype(numpy.int16), 16_000)
        file.with_suffix(".txt").write_text(str(number))
    rows = [f"{file.name},{'go' if number % 2 else 'stop'}" for number, file in enumerate(sounds)]
    for split in ("train", "validation", "test"):
        chosen = rows[:8] if split == "train" else rows[8:10] if split == "validation" else rows[10:]
        (tmp_path / f"{split}.csv").write_text("\n".join(["path,transcript", *chosen]) + "\n")
    data = TranscribedAudio(str(tmp_path), storage="files", workers=0)
    data.setup("fit")
    whole = data.train[torch.arange(4), 0][0]
    break_file(tmp_path, "2.flac")
    with pytest.warns(UserWarning, match=r"2\.flac: .*another item is taken in its place"):
        speech_batch = data.train[torch.arange(4), 0][0]
    assert torch.equal(speech_batch.waveforms[[0, 1, 3]], whole.waveforms[[0, 1, 3]])
    with pytest.warns(UserWarning, match=r"2\.flac: .*another item is taken in its place"):
        alone = data.train[torch.tensor([2]), 0][0]  # there is no other in the batch
    assert torch.equal(alone.waveforms[0, : alone.lengths[0]], whole.waveforms[3, : whole.lengths[3]])
    taken = [row for row in (0, 1, 3) if torch.equal(speech_batch.waveforms[2], whole.waveforms[row])]
    assert taken and torch.equal(speech_batch.units[2], whole.units[taken[0]])
