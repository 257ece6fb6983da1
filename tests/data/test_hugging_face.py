"""Data sets of Hugging Face: on disk in each of its forms, and on the hub, from a stand-in on 127.0.0.1."""

import io
import time
import warnings
from functools import partial
from pathlib import Path

import datasets
import numpy
import pytest
import soundfile
import torch
from hub_server import Hub, reached
from PIL import Image
from pyarrow import Table, parquet

from vitspeech.data import HuggingFaceClips, HuggingFaceImages, HuggingFaceUtterances
from vitspeech.data.audio.reading import read_fitted
from vitspeech.errors import InputError

PICTURES = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["ape", "bee"])})
SPOKEN = {"file": datasets.Value("string"), "audio": datasets.Audio(), "text": datasets.Value("string")}
SPOKEN = datasets.Features(SPOKEN | {"speaker_id": datasets.Value("int64")})
NAME = "some/pictures"


@pytest.fixture(autouse=True)
def hub(monkeypatch, tmp_path):
    """A hub, and a cache of its own for each test."""
    datasets.disable_progress_bars()
    server = Hub()
    reached(server, tmp_path / "home", monkeypatch)
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", server.address)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "home/datasets")
    monkeypatch.setattr(datasets.config, "SLEEP_TIME_ON_THREADS_SHUTDOWN", 0.1)  # 5 s at the end of each stream
    yield server
    server.close()


def png(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (number, 0, 0)).save(file, "png")
    return file.getvalue()


def wav(samples: int, rate_hz: int = 16_000, seed: int = 0) -> bytes:
    file = io.BytesIO()
    sound = numpy.random.default_rng(seed).integers(-9000, 9000, samples).astype(numpy.int16)
    soundfile.write(file, sound, rate_hz, format="wav")
    return file.getvalue()


def write(rows, features, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    schema = None if features is None else features.arrow_schema
    parquet.write_table(Table.from_pylist(rows, schema=schema), file, row_group_size=10)


def pictures(first: int, count: int) -> list[dict]:
    """Pictures of one color, which is their number, with their labels."""
    return [{"img": {"bytes": png(n), "path": None}, "label": n % 2} for n in range(first, first + count)]


@pytest.fixture
def repository(tmp_path) -> Path:
    """80 pictures for training in four files, and 12 for the test."""
    folder = tmp_path / "repository"
    for shard in range(4):
        write(pictures(20 * shard, 20), PICTURES, folder / f"data/train-0000{shard}-of-00004.parquet")
    write(pictures(100, 12), PICTURES, folder / "data/test-00000-of-00001.parquet")
    return folder


def reds(data, split: str) -> list[int]:
    """The numbers of the pictures of a split."""
    items = data.read(split)
    return items[torch.arange(len(items)), 0][0][:, 0, 0, 0].tolist()


def test_a_set_on_the_hub_is_read_by_its_features_and_splits(hub, repository):
    hub.add(NAME, repository)
    data = HuggingFaceImages(NAME, image=8, batch=8)
    data.setup("fit")
    train, validation, test = (reds(data, split) for split in ("train", "validation", "test"))
    assert data.labels == ["ape", "bee"] and test == list(range(100, 112))
    assert sorted(train + validation) == list(range(80)) and 4 <= len(validation) <= 16
    assert data.train.labels.tolist() == [number % 2 for number in train]
    mapped = HuggingFaceImages(NAME, image=8, batch=8, storage="files", workers=0)
    mapped.setup("fit")
    for ours, theirs in zip(data.train_dataloader(), mapped.train_dataloader(), strict=True):
        assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])


def test_a_revision_is_taken_and_a_split_may_be_several(hub, repository):
    hub.add(NAME, repository)
    hub.tags[NAME, "v1"] = 0
    (repository / "data/train-00003-of-00004.parquet").unlink()
    hub.add(NAME, repository)
    made = partial(HuggingFaceImages, NAME, image=8, validation="test")
    assert len(made(revision="v1").read("train")) == 80 and len(made().read("train")) == 60
    assert len(made(train="train+test").read("train")) == 72


def test_labels_are_texts_or_numbers_too_and_may_be_chosen(tmp_path):
    rows = [{"img": {"bytes": png(n), "path": f"{n}.png"}, "word": "cab"[n % 3], "label": n % 3} for n in range(60)]
    write(
        rows,
        datasets.Features(
            {"img": datasets.Image(), "word": datasets.Value("string")} | {"label": datasets.Value("int32")}
        ),
        tmp_path / "own.parquet",
    )
    made = partial(HuggingFaceImages, str(tmp_path / "own.parquet"), image=8)
    assert made().labels == ["0", "1", "2"] and made(label_column="word").labels == ["a", "b", "c"]
    some = made(label_column="word", labels=["c", "b"])
    items = some.read("train")
    assert some.labels == ["c", "b"] and len(some.item_names()["train"]) == len(items) > 25
    assert items.labels.tolist() == [{0: 0, 2: 1}[number % 3] for number in reds(some, "train")]


def test_recordings_of_any_rate_are_read_as_their_files_are(tmp_path):
    files, rows = [], []
    for number, rate_hz in enumerate([8000, 16_000, 48_000] * 8):
        files.append(tmp_path / f"{number}.wav")
        files[-1].write_bytes(wav(rate_hz // 2 + 7 * number, rate_hz, number))
        rows.append({"audio": {"bytes": files[-1].read_bytes(), "path": files[-1].name}, "label": "ab"[number % 2]})
    features = datasets.Features({"audio": datasets.Audio(), "label": datasets.Value("string")})
    for split in ("train", "validation", "test"):
        write(rows, features, tmp_path / f"set/{split}.parquet")
    expected = torch.stack([read_fitted(file, 16_000) for file in files])
    for storage in ("memory", "files"):
        with warnings.catch_warnings(action="ignore"):  # of 8 kHz
            items = HuggingFaceClips(str(tmp_path / "set"), storage=storage).read("train")
        assert torch.equal(items[torch.arange(24), 0][0], expected)


def test_folders_of_pictures_and_recordings_are_read_without_ffmpeg(tmp_path):
    for number in range(24):
        for kind, ending, content in (("pictures", "png", png(number)), ("clips", "wav", wav(16_000, seed=number))):
            file = tmp_path / kind / "ab"[number % 2] / f"{number}.{ending}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    data = HuggingFaceImages(str(tmp_path / "pictures"), image=8)
    assert data.labels == ["a", "b"] and len(reds(data, "train")) == 20
    clips = HuggingFaceClips(str(tmp_path / "clips"))
    first = clips.read("test")[torch.arange(1), 0][0][0]
    assert torch.equal(first, read_fitted(Path(clips.item_names()["test"][0]), 16_000))


def spoken(tmp_path, texts, **columns) -> str:
    """A set of utterances, a third for each split."""
    for part, split in enumerate(("train", "validation", "test")):
        rows = [
            {"file": f"{n}.wav", "audio": {"bytes": wav(4000, seed=n), "path": None}, "text": text, "speaker_id": n % 5}
            for n, text in enumerate(texts)
            if n % 3 == part
        ]
        write(rows, SPOKEN, tmp_path / f"spoken/{split}.parquet")
    return str(tmp_path / "spoken")


@pytest.mark.parametrize("storage", ["memory", "files"])
def test_utterances_have_transcripts_speakers_and_durations(tmp_path, storage):
    data = HuggingFaceUtterances(spoken(tmp_path, ["GO, left", "stop!"] * 9), text="plain", storage=storage)
    data.setup("fit")
    assert [item.words for item in data.train.utterances] == [["go", "left"], ["stop"]] * 3
    assert data.train.seconds.tolist() == [0.25] * 6 and data.read("test").speakers[1] == ["0"]
    speech, _ = data.train[torch.tensor([1, 0]), 0]
    assert [data.labels[unit] for unit in speech.units[0].tolist() if unit >= 0] == [*"stop"]
    assert data.item_names()["test"] == [f"{number}.wav" for number in range(2, 18, 3)]


def test_transcripts_outside_the_units_are_named(tmp_path):
    path = spoken(tmp_path, ["go", "stop", "héllo"] * 6)
    with pytest.raises(InputError, match=r"spoken, test: row 0: 'é' of 'héllo' is outside the vocabulary"):
        HuggingFaceUtterances(path).setup("fit")
    with pytest.warns(UserWarning, match="characters that training does not have"):
        HuggingFaceUtterances(path, vocabulary="training").setup("fit")


@pytest.mark.parametrize("storage", ["memory", "files"])
@pytest.mark.parametrize("wrong", [{"bytes": b"no picture", "path": None}, {"bytes": None, "path": None}, None])
def test_a_row_that_cannot_be_read_costs_that_row(tmp_path, storage, wrong):
    rows = pictures(0, 40)
    rows[7]["img"] = wrong
    for split in ("train", "validation"):
        write(rows if split == "train" else rows[:7], PICTURES, tmp_path / f"set/{split}.parquet")
    write(rows[5:9], PICTURES, tmp_path / "set/test.parquet")
    made = partial(HuggingFaceImages, str(tmp_path / "set"), image=8, batch=8, storage=storage, workers=0)
    problem = r"set, test: row 2: not an image that can be read"
    with pytest.raises(InputError, match=f"1 of 4 files of test cannot be read: .*{problem}"):
        made().setup("fit")
    data = made(broken=0.5)
    with warnings.catch_warnings(action="ignore"):  # of training as well
        data.setup("fit")
    assert reds(data, "test") == [5, 6, 8]
    if storage == "memory":
        assert reds(data, "train") == [*range(7), *range(8, 40)]
    else:
        with pytest.warns(UserWarning, match="row 7: .*another item is taken in its place"):
            inputs, labels, _ = data.train[torch.tensor([4, 7, 9]), 0]
        assert inputs[[0, 2], 0, 0, 0].tolist() == [4, 9] and inputs[1, 0, 0, 0] in (4, 9) and labels[1] in (0, 1)


def test_a_path_in_a_table_opens_no_file(tmp_path):
    (tmp_path / "private.png").write_bytes(png(9))
    rows = [*pictures(0, 3), {"img": {"bytes": None, "path": str(tmp_path / "private.png")}, "label": 0}]
    for split in ("train", "validation", "test"):
        write(rows, PICTURES, tmp_path / f"set/{split}.parquet")
    with pytest.raises(InputError, match=r"row 3, .*private.png: not an image that can be read"):
        HuggingFaceImages(str(tmp_path / "set"), image=8).setup("fit")


TWO = {"near": datasets.Audio(), "far": datasets.Audio(), "label": datasets.ClassLabel(names=["a", "b"])}
TWO = datasets.Features(TWO | {"score": datasets.Value("float32")})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (HuggingFaceClips, r"2 columns of Audio \(near, far\); choose one of near, far: `column`"),
        (partial(HuggingFaceClips, column="nearby"), r"no column 'nearby' \(found: near, far, label, score\)"),
        (HuggingFaceImages, "no column of Image; choose one of near, far, label, score: `column`"),
        (partial(HuggingFaceClips, label_column="score"), "column 'score' of float32 has no labels"),
        (partial(HuggingFaceClips, column="far", label_column="far"), "column 'far' of dict has no labels"),
        (partial(HuggingFaceClips, column="far", test="dev"), r"no split 'dev' \(found: train\)"),
        (partial(HuggingFaceUtterances, column="far"), "no column of texts; choose one of near, far, label, score"),
        (partial(HuggingFaceClips, storage="stream"), "storage=stream holds nothing out; name a split for validation"),
    ],
)
def test_what_does_not_fit_is_one_line_that_says_what_would(tmp_path, made, message):
    sound = {"bytes": wav(4000), "path": None}
    write([{"near": sound, "far": sound, "label": 0, "score": 0.5}] * 9, TWO, tmp_path / "two.parquet")
    data = made(str(tmp_path / "two.parquet"))
    with pytest.raises(InputError, match=rf"^[^\n]*two\.parquet: {message}[^\n]*$"):
        data.setup("fit"), data.labels


def test_a_label_that_training_does_not_have_is_named(tmp_path):
    features = datasets.Features({"img": datasets.Image(), "label": datasets.Value("string")})
    for split, words in (("train", "ab"), ("validation", "ab"), ("test", "ac")):
        rows = [{"img": {"bytes": png(n), "path": None}, "label": words[n % 2]} for n in range(6)]
        write(rows, features, tmp_path / f"set/{split}.parquet")
    with pytest.raises(InputError, match=r"set, test: training does not have the label 'c'; known: a, b"):
        HuggingFaceImages(str(tmp_path / "set"), image=8).read("train")


def test_a_name_that_the_hub_does_not_have_is_one_line(hub):
    with pytest.raises(InputError, match=r"^some/nothing: [^\n]*$"):
        HuggingFaceImages("some/nothing").prepare_data()


def test_the_code_of_a_set_never_runs(hub, tmp_path):
    (tmp_path / "scripted").mkdir()
    (tmp_path / "scripted/scripted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    hub.add("some/scripted", tmp_path / "scripted")
    with pytest.raises(InputError, match=r"scripts are no longer supported.*try `revision: refs/convert/parquet`"):
        HuggingFaceImages("some/scripted").prepare_data()
    assert not (tmp_path / "ran").exists()


def test_without_network_the_cache_is_used_or_one_line_says_so(hub, repository):
    hub.add(NAME, repository)
    HuggingFaceImages(NAME, image=8).prepare_data()
    hub.close()
    assert len(HuggingFaceImages(NAME, image=8).read("test")) == 12
    start = time.monotonic()
    with pytest.raises(InputError, match=r"^some/other: the hub cannot be reached, and the set is not in the cache"):
        HuggingFaceImages("some/other").prepare_data()
    assert time.monotonic() - start < 5


def streamed(**options) -> HuggingFaceImages:
    data = HuggingFaceImages(NAME, image=8, batch=8, storage="stream", validation="test", seed=3, **options)
    data.setup("fit")
    return data


def epoch(data, number: int, begin: int = 0) -> list[tuple]:
    """The numbers of the pictures, the labels and the seed of each batch of an epoch."""
    loader = data.train_dataloader()
    loader.sampler.set_epoch(number)
    loader.sampler.begin_at(number, begin)
    return [(batch[0][:, 0, 0, 0].tolist(), batch[1].tolist(), batch[2]) for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_gives_each_item_once_in_an_epoch_and_goes_on_at_any_batch(hub, repository, workers):
    hub.add(NAME, repository)
    data = streamed(workers=workers, epoch_items=80)
    first, second = epoch(data, 0), epoch(data, 1)
    for batches in (first, second):
        assert sorted(number for numbers, *_ in batches for number in numbers) == list(range(80))
        assert all(labels == [number % 2 for number in numbers] for numbers, labels, _ in batches)
    assert first != second and epoch(data, 0) == first
    assert all(epoch(streamed(workers=workers, epoch_items=80), 1, begin) == second[begin:] for begin in (3, 8))
    assert not any("train" in str(file) for file in Path(datasets.config.HF_DATASETS_CACHE).rglob("*.arrow"))
    assert reds(data, "test") == list(range(100, 112))


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_divide_a_stream(hub, repository, monkeypatch, ranks):
    hub.add(NAME, repository)
    found = []
    for rank in range(ranks):
        for module in ("vitspeech.data.stream", "vitspeech.data.batches"):
            monkeypatch.setattr(f"{module}.process", lambda rank=rank: (rank, ranks))
        found.append(epoch(streamed(workers=0, epoch_items=80), 0))
    assert {len(batches) for batches in found} == {10}
    assert sorted(number for batches in found for numbers, *_ in batches for number in numbers) == list(range(80))


def test_a_stream_of_unknown_length_asks_for_the_items_of_an_epoch(hub, repository):
    hub.add(NAME, repository)
    with pytest.raises(InputError, match="does not state how many items it has; set epoch_items"):
        streamed(workers=0)
    assert len(epoch(streamed(workers=0, epoch_items=16), 0)) == 2
    assert len(epoch(streamed(workers=0, epoch_items=160), 0)) == 20  # it begins again


def test_a_stream_of_joined_splits_has_the_items_that_they_state(hub, repository):
    splits = "".join(f"  - {{name: {name}, num_examples: {count}}}\n" for name, count in (("train", 80), ("test", 12)))
    (repository / "README.md").write_text(f"---\ndataset_info:\n  splits:\n{splits}---\n")
    hub.add(NAME, repository)
    assert len(streamed(workers=0, train="train+test").train) == 92


def test_a_stream_whose_first_rows_cannot_be_read_is_trained_on(hub, tmp_path):
    for split in ("train", "test"):
        rows = pictures(0, 40)
        for row in rows[:9] if split == "train" else ():
            row["img"]["bytes"] = b"no picture"
        write(rows, PICTURES, tmp_path / f"some/data/{split}-00000-of-00001.parquet")
    hub.add(NAME, tmp_path / "some")
    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="another item is taken in its place"):
        patch.setattr("vitspeech.data.stream.BUFFER", 1)  # in their order
        data = streamed(workers=0, epoch_items=32)
        numbers = [numbers for numbers, *_ in epoch(data, 0)]
    assert numbers == [[9] * 8, [9, *range(9, 16)], [*range(16, 24)], [*range(24, 32)]]


@pytest.mark.parametrize("kind", ["imagefolder", "save_to_disk"])
def test_what_is_no_table_is_not_streamed(hub, tmp_path, kind):
    path = "some/folder"
    for split in ("train", "validation", "test"):
        for number in range(4):
            file = tmp_path / "folder" / split / "ab"[number % 2] / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(png(number))
    hub.add(path, tmp_path / "folder")
    if kind == "save_to_disk":
        path = str(tmp_path / "saved")
        datasets.Dataset.from_list(pictures(0, 9), features=PICTURES).save_to_disk(path)
    with pytest.raises(InputError, match=rf"^{path}: storage=stream reads Parquet .*not {kind}; set storage=files$"):
        HuggingFaceImages(path, storage="stream").setup("fit")


def test_noise_is_streamed_too_and_a_row_without_a_recording_is_replaced(tmp_path):
    sound = {"bytes": wav(4000), "path": None}
    splits = ("train", "validation", "test", "noise")
    for split in splits:
        rows = [{"near": sound, "far": None if (split, n) == ("train", 3) else sound, "label": 0} for n in range(8)]
        write(rows, TWO, tmp_path / f"two/{split}.parquet")
    files = "".join(f"  - {{split: {split}, path: {split}.parquet}}\n" for split in splits)
    (tmp_path / "two/README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}---\n")
    data = HuggingFaceClips(str(tmp_path / "two"), column="far", storage="stream", epoch_items=8, batch=8, workers=0)
    data.prepare_data()
    data.setup("fit")
    with pytest.warns(UserWarning, match="another item is taken in its place"):
        (batch,) = data.train_dataloader()
    assert torch.equal(data.noise[-4000:], batch[0][0][6000:10_000]) and len(data.noise) == 8 * 4000
    assert (batch[0] == batch[0][0]).all()


def test_an_utterance_of_a_stream_without_a_transcript_is_replaced(tmp_path):
    path = spoken(tmp_path, [*["go"] * 3, None, *["go"] * 5])
    data = HuggingFaceUtterances(path, storage="stream", epoch_items=3, batch=3, workers=0)
    with pytest.warns(UserWarning, match="the transcript None has no letters; another item is taken in its place"):
        data.setup("fit")
        ((speech, _),) = data.train_dataloader()
    assert (speech.units == speech.units[0]).all() and speech.units.shape == (3, 2)


def test_utterances_are_streamed(tmp_path):
    path = spoken(tmp_path, ["go left", "stop", "go"] * 6)
    data = HuggingFaceUtterances(path, storage="stream", epoch_items=6, batch=3, workers=0)
    data.setup("fit")
    batches = [speech for speech, _ in data.train_dataloader()]
    assert [speech.units.shape[0] for speech in batches] == [3, 3] and data.transcripts("train") == [["go", "left"]] * 6
    with pytest.raises(InputError, match="batch_s: the durations in a stream are not known"):
        HuggingFaceUtterances(path, storage="stream", epoch_items=6, batch_s=3, workers=0).training_batches()
