"""The bad inputs that matter most: each ends with its status and one line that says why, and leaves nothing behind."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from altered import alter, alter_card, seal
from tiny import ROOT, TINY
from watching import bounded_memory

TRAIN_IN = " ".join(["train", *TINY, "--run="])
TRAIN = f"{TRAIN_IN}out"
OWN = "train --config=own.yaml --run=out"
SOUND = """
data: {{class_path: vitspeech.{data}, init_args: {{root: data, batch: 4}}}}
model:
  class_path: vitspeech.{task}
  init_args:
    network:
      class_path: vitspeech.{network}
      init_args: {{tokens: {{class_path: vitspeech.SpeechFrontend, init_args: {{width: 16}}}}}}
    optimizer: {{class_path: torch.optim.AdamW, init_args: {{lr: 0.001}}}}
trainer: {{max_epochs: 1, accelerator: cpu, precision: 32-true, enable_progress_bar: false}}
"""
PROGRESS_BAR = re.compile(r"\[[\d:]+[<,]|\d %, [\d:?]+ left$")


@dataclass(frozen=True)
class Bad:
    """A bad command.

    Args:
        arguments: The command line; {run}, {picture} and so on stand for `places`.
        message: A part of the one line on standard error.
        make: Prepares the current folder.
        status: The exit status.
    """

    arguments: str
    message: str
    make: Callable[[dict[str, Path]], None] = lambda places: None
    status: int = 1


def write(name: str, content: str | bytes = "") -> Callable[[dict], None]:
    """Write a file, and its folder."""

    def make(places: dict) -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def copied(change: Callable[[Path], None], source: str = "run") -> Callable[[dict], None]:
    """Copy the model of a finished run to `m`, and change it."""

    def make(places: dict) -> None:
        shutil.copytree(places[source] / "model", "m")
        change(Path("m"))

    return make


def sounds(listing: str | None, data: str = "AudioFolder") -> Callable[[dict], None]:
    """A config for data in `data`: recordings of two words, and with `listing` a train.csv."""

    def make(places: dict) -> None:
        for word in ("left", "right"):
            for split in ("train", "validation", "test"):
                Path("data", split, word).mkdir(parents=True)
                for number in range(4):
                    shutil.copy(places["recording"], Path("data", split, word, f"{number}.wav"))
        task, network = {
            "AudioFolder": ("Classification", "SpeechClassifier"),
            "TranscribedAudio": ("Recognition", "SpeechRecognizer"),
        }[data]
        Path("own.yaml").write_text(SOUND.format(data=data, task=task, network=network))
        if listing is not None:
            Path("data/train.csv").write_text(listing)

    return make


def link(target: str, name: str) -> Callable[[dict], None]:
    """Make a symbolic link."""
    return lambda places: os.symlink(target, name)


def pipe(name: str) -> Callable[[dict], None]:
    """Make a pipe that nobody writes to."""
    return lambda places: os.mkfifo(name)


def folder(name: str) -> Callable[[dict], None]:
    """Make a folder."""
    return lambda places: Path(name).mkdir(parents=True)


SEQUENCES = "language-model spoken_words/sequences"
OS_SYSTEM = {"class_path": "os.system", "init_args": {"command": "touch run-by-a-config"}}

BAD = {
    # Words that are no command, options that do not exist, numbers out of range
    "no arguments": Bad("predict", "the following arguments are required", status=2),
    "top zero": Bad("predict {run} {picture} --top 0", "below 1", status=2),
    "top nan": Bad("predict {run} {picture} --top nan", "invalid int value", status=2),
    "a beam beyond memory": Bad("transcribe {transcriber} {recording} --beam 1001", "beam=1001 is not within 1"),
    "weight nan": Bad("transcribe {transcriber} {recording} --ctc-weight nan", "within 0 .. 1"),
    "factors nan": Bad("compare {run} --factors nan -o report", "factors=(nan,)"),
    "factors beyond memory": Bad("compare {run} --factors 1e300 -o report", "at most 16"),
    "size negative": Bad("compare timm:resnet18 --size=-4 --data . -o report", "size=-4 px is not within 1"),
    "a distance that is too large": Bad("probe --distances 14 -o out", "distance=14.0 is not a number from 5 to 13"),
    "a beam of a classifier": Bad("evaluate {run} --beam 1", "--beam: is for models that transcribe"),
    "a weight of a classifier": Bad("evaluate {run} --ctc-weight 1", "--ctc-weight: is for models that transcribe"),
    "data without half": Bad("release {run} out --data .", "--data: is for --half"),
    "half without a run": Bad("release {run} --half", "--half: name the folder of a run"),
    "private without a push": Bad("release {run} out --private", "--private: is for --push"),
    "data without int8": Bad("export {run} out --data .", "--data: is for --int8"),
    "a port without a server": Bad("demo {run} --out out --port 99", "--port: nothing is served with --out"),
    # Options that do not go together, for other models or data, or out of their range
    "a recording and symbols": Bad("transcribe no a.wav --symbols 3", "give either recordings or --symbols", status=2),
    "nothing to transcribe": Bad("transcribe no", "give either recordings or --symbols", status=2),
    "times of symbols": Bad("transcribe no --symbols 3 --times", "--times is for recordings", status=2),
    "a table of symbols": Bad("transcribe no --symbols 3 --out a.csv", "--out is for recordings", status=2),
    "units of a text": Bad("transcribe no a.wav --units", "--units is for --times and tables", status=2),
    "a picture of two": Bad("transcribe no a.wav b.wav --picture a.png", "--picture draws one recording", status=2),
    "attention of a folder": Bad("transcribe no . --attention a.png", "--attention draws one recording", status=2),
    "subtitles resumed": Bad("transcribe no a.wav --format srt --resume", "--resume is for --format text", status=2),
    "subtitles of two": Bad("transcribe no a b --format srt", "name a folder for more: --out", status=2),
    "other subtitles": Bad("transcribe no a.wav --format ass", "invalid choice: 'ass'", status=2),
    "a pack of nothing": Bad("pack", "the following arguments are required", status=2),
    "a pack without a folder": Bad("pack shapes/vit", "the following arguments are required", status=2),
    "a pack of an unknown key": Bad("pack shapes/vit a --modle.x=3", "unknown: --modle.x=3", status=2),
    "a pack without workers": Bad("pack shapes/vit a --workers=0", "must be above 0", status=2),
    "a pack of symbols": Bad("pack symbols/reverse a", "cannot be packed; images, clips and recorded utterances can"),
    "a language model of images": Bad(
        "language-model shapes/vit a", "Shapes has no transcripts: a language model is for recognizers"
    ),
    "a language model of no tokens": Bad(f"{SEQUENCES} a --order 0", "order=0"),
    "a language model of no text": Bad(f"{SEQUENCES} a --text missing.txt", "missing.txt"),
    "a language model that is a folder": Bad(f"{SEQUENCES} .", "is a folder"),
    "a test set for validation": Bad(
        "evaluate {recognizer} --split validation --test a", "--test: is for --split test"
    ),
    "another test set": Bad("evaluate {recognizer} --test test-clean", "--test is for models of LibriSpeech"),
    "a beam of zero": Bad("evaluate {recognizer} --beam 0", "beam=0"),
    "a folder for generated data": Bad(
        "evaluate {recognizer} --data a", "--data a: WordSequences reads no files; leave it out"
    ),
    "a weight of CTC alone": Bad("evaluate {recognizer} --ctc-weight 0.5", "ctc_weight: of encoder-decoders"),
    "a table in no format": Bad("evaluate {recognizer} --out a.txt", "a.txt: end the name with .csv or .parquet"),
    "minutes and inputs": Bad(
        "compare {run} --minutes 5 --inputs 40 -o a", "--minutes: chooses --inputs and --answers itself"
    ),
    "an unknown layer": Bad(
        "compare {run} --layers encoder.block.0 -o a", "no layer 'encoder.block.0'; close names: encoder.blocks.0"
    ),
    "one input": Bad("compare {run} --inputs 1 -o a", "1 input: an estimate with an interval needs at least 2"),
    "a size that patches do not divide": Bad(
        "compare {run} --factors 1.03 -o a", "can't take images of 33 px: patch=4 does not divide image=33"
    ),
    "an unknown network of timm": Bad("compare {run} timm:resnet81 -o a", "timm:resnet81: not a timm network; close"),
    "a factor of zero": Bad("compare {run} --factors 0 -o a", "factors=(0.0,) are not sizes above 0"),
    "words that sound alike": Bad("record there their --to a", "sound alike"),
    "no takes": Bad("record lamp --count 0 --to a", "--count=0 is not a number from 1"),
    "a take of nan seconds": Bad("record lamp --seconds nan --to a", "--seconds=nan is not a number"),
    "noise of nan seconds": Bad("record lamp --noise nan --to a", "--noise=nan is not a number from 10"),
    "a speaker that is a path": Bad("record lamp --speaker a/b --to a", "'a/b' cannot name a folder or file"),
    "a table of no sweep": Bad("sweep --table nowhere", "--table nowhere: is not a folder"),
    "a table of a config": Bad("sweep --table . shapes/vit", "--table FOLDER takes no configs and no other options"),
    "a table of a module": Bad("sweep --table . --trust mine", "--table FOLDER takes no configs and no other options"),
    "an unknown config in a sweep": Bad("sweep shapes/vitt -o out", "did you mean shapes/vit"),
    "a seed twice": Bad("sweep shapes/vit -o out --seeds 0 0", "--seeds 0 0: name different seeds"),
    "nothing to vary": Bad("sweep shapes/vit -o out --vary depth", "--vary depth: write it as KEY=A,B,C"),
    "an unknown key in a sweep": Bad(
        "sweep shapes/vit -o out --trainer.max_epoch 3", "vit: unrecognized arguments: --trainer.max_epoch=3"
    ),
    "a run in a sweep": Bad("sweep shapes/vit -o out --run x", "--run: the sweep names the folders of its runs"),
    "no seeds": Bad("probe --distances 9 --seeds 0 -o out", "--seeds=0 is not a number from 1"),
    "a probe with an unknown option": Bad("probe --distances 9 -o out --nonsense", "--nonsense needs a value"),
    "a probe of another data set": Bad("probe --configs shapes/vit -o out", "distance"),
    "words that never end": Bad("stream {speech} {recording} --refractory inf", "refractory"),
    "a path to trust": Bad("predict {run} {picture} --trust ../mine", "is not the name of a module"),
    "an unknown config": Bad("configs shapes/vitt", "did you mean shapes/vit"),
    "a config of bytes": Bad("configs own.yaml", "own.yaml: line 1: not UTF-8", write("own.yaml", b"\xff\xfe")),
    # Inputs that are missing, empty, broken, of another kind, or no files
    "no such picture": Bad("predict {run} {picture} nowhere.png --out a.csv", "nowhere.png: no such file"),
    "an empty picture": Bad("predict {run} a.png", "a.png: empty", write("a.png"), 3),
    "a broken picture": Bad(
        "predict {run} a.png", "a.png: not an image that can be read", write("a.png", b"\x89PNG\r\n\x1a\n1"), 3
    ),
    "a folder without pictures": Bad("predict {run} empty", "no image in this folder", folder("empty")),
    "a picture for a speech model": Bad("predict {speech} {picture}", "not a recording", status=3),
    "a pipe that nobody writes to": Bad("predict {speech} pipe.wav", "pipe.wav", pipe("pipe.wav"), 3),
    "a name in a circle": Bad("predict {run} loop.png", "loop.png", link("loop.png", "loop.png")),
    "a name that is too long": Bad("predict {run} " + "n" * 300, "name too long"),
    "a name with a line break": Bad("predict {run} 'a\nb.png'", "a b.png: no such file"),
    "a broken file with a line break": Bad("predict {run} 'a\nb.png'", "empty", write("a\nb.png"), 3),
    "a broken recording": Bad("transcribe {transcriber} a.wav", "a.wav: not a recording", write("a.wav", "x"), 3),
    "an image model that streams": Bad("stream {run} {recording}", "ViT can't be streamed"),
    "a labeler that transcribes": Bad("transcribe {labeler} a.wav", "use `vitspeech stream`"),
    "recordings for a model of symbols": Bad("transcribe {symbols} a.wav", "use `vitspeech transcribe --symbols`"),
    "symbols for a model of speech": Bad(
        "transcribe {transcriber} --symbols 3", "SpeechTranscriber does not take symbols"
    ),
    "an unknown symbol": Bad(
        "transcribe {symbols} --symbols 3x", "'x' of '3x' is not a symbol of the model; its symbols are 0, 1, 2, 3, 4"
    ),
    "a classifier that transcribes": Bad("transcribe {speech} {recording}", "use `vitspeech predict`"),
    "a transcriber that predicts": Bad("predict {transcriber} {recording}", "use `vitspeech transcribe`"),
    "speech and images compared": Bad("compare {run} {speech} -o report", "compare models of one kind"),
    "attention of a broken picture": Bad("predict {run} a.png --attention out.png", "empty", write("a.png"), 3),
    # Models: folders that are none, files that are missing or altered
    "no model": Bad("predict nowhere {picture}", "nowhere: missing"),
    "a file as a model": Bad("predict file {picture}", "file", write("file")),
    "an empty folder as a model": Bad("evaluate empty", "model.safetensors: missing", folder("empty")),
    "altered weights": Bad(
        "predict m {picture}", "altered", copied(lambda m: (m / "model.safetensors").write_bytes(b""))
    ),
    "a config with an object of Python": Bad(
        "predict m {picture}",
        "config.yaml",
        copied(lambda m: [(m / "config.yaml").write_text("network: !!python/object/apply:os.system [exit]"), seal(m)]),
    ),
    "a config with a million brackets": Bad(
        "predict m {picture}",
        "config.yaml",
        copied(lambda m: [(m / "config.yaml").write_text("network: " + "[" * 1_000_000), seal(m)]),
    ),
    "a network that is a function": Bad(
        "predict m {picture}", "os.system", copied(lambda m: alter(m, "network", to=OS_SYSTEM))
    ),
    "a card that is no JSON": Bad("evaluate m", "card.json", copied(lambda m: (m / "card.json").write_text("{"))),
    "a card whose manifest is a file of the system": Bad(
        "evaluate m",
        "manifest",
        copied(lambda m: alter_card(m, "data", "init_args", "manifests", to=["/etc/passwd"]), "transcriber"),
    ),
    "training items without end": Bad(
        "evaluate m", "training_items.txt", copied(lambda m: os.symlink("/dev/zero", m / "training_items.txt"))
    ),
    # Outputs that cannot be written
    "a table that is an input": Bad("predict {run} {picture} --out {picture}", "is a file to be read"),
    "a table that is a folder": Bad("predict {run} {picture} --out .", "not a regular file"),
    "a table that is a device": Bad("predict {run} {picture} --out /dev/full", "not a regular file"),
    **{
        f"{name} of {verb}": Bad(f"{verb} nowhere a.wav {arguments}", message)
        for verb in ("predict", "transcribe")
        for name, arguments, message in (
            ("a table in no format", "--out a.txt", "--out a.txt: end the name with .csv or .parquet"),
            ("a table without a name", "--resume", "--resume needs the table to resume: name it by --out"),
            ("a table in no folder", "--out nowhere/a.csv", "the folder"),
        )
    },
    "subtitles of another form": Bad(
        "transcribe {recognizer} a --format srt --out a.vtt", "a.vtt: name a folder, or a file .srt for one"
    ),
    "subtitles as a table": Bad("transcribe {recognizer} a --out a.srt", "a.srt: end the name with .csv or .parquet"),
    "a report in a file": Bad("evaluate {recognizer} --report file", "file is not a folder", write("file")),
    "a picture of an unknown format": Bad("predict {run} {picture} --attention a.xyz", "a.xyz: end the name with .png"),
    "a transcript of an unknown format": Bad(
        "transcribe {transcriber} {recording} --picture a", "a: end the name with .png"
    ),
    "a report that is a file": Bad("compare {run} -o file", "file is not a folder", write("file")),
    "a report in a circle": Bad("compare {run} -o loop", "loop is not a folder", link("loop", "loop")),
    "a released model that is a file": Bad("release {run} file", "file", write("file")),
    "a released model in a folder of other things": Bad("release {run} other", "other", write("other/mine.txt")),
    "a released model here": Bad("release {run} .", "the current folder"),
    "an unfinished run": Bad("release empty new", "not a finished run", folder("empty")),
    # Training: options
    "no config": Bad("train --run=out", "required: data, model", status=2),
    "a network as an optimizer": Bad(f"{TRAIN} --model.optimizer=vitspeech.ViT", "optimizer", status=2),
    "a learning rate that is nan": Bad(f"{TRAIN} --model.optimizer.init_args.lr=nan", "lr", status=2),
    "the overlay for GPUs": Bad(f"{TRAIN} --config={ROOT / 'configs/trainer/gpu.yaml'}", "trainer"),
    "a callback that is a function": Bad(f"{TRAIN} --trainer.callbacks=[os.system]", "os.system"),
    "a batch of zero": Bad(f"{TRAIN} --data.init_args.batch=0", "batch"),
    "patches that do not divide the image": Bad(f"{TRAIN} --model.network.init_args.patch=5", "patch"),
    "a speech network for pictures": Bad(f"{TRAIN} --model.network=vitspeech.SpeechClassifier", "waveforms of shape"),
    "a trusted module that does not exist": Bad(f"{TRAIN} --trust=no_such_module", "no_such_module"),
    # Training: folders and data
    "a run that is a file": Bad(f"{TRAIN_IN}file", "file", write("file")),
    "a run that exists": Bad(TRAIN_IN + "{run}", "holds a run already"),
    "a run beside logs of another program": Bad(TRAIN, "out: has logs, a name that a run writes", write("out/logs")),
    "nothing to resume": Bad("train --resume nowhere", "no run to resume"),
    "an empty folder to resume": Bad("train --resume empty", "no run to resume", folder("empty")),
    "no CIFAR-10": Bad(
        "train --config=cifar10/vit --data.root=void --run=out", "void/cifar-10-batches-py: CIFAR-10 is "
    ),
    "no data": Bad(OWN, "data: no such folder", lambda places: [sounds(None)(places), shutil.rmtree("data")]),
    "a listing without a header": Bad(OWN, "train.csv: line 1: no column 'path'", sounds("a.wav,left\n")),
    "a listing with a missing file": Bad(OWN, "train.csv: line 2", sounds("path,label\nnowhere.wav,left\n")),
    "a listing of a device": Bad(OWN, "train.csv: line 2", sounds("path,label\n/dev/zero,left\n")),
    "a listing with too many fields": Bad(OWN, "3 fields, but 2", sounds("path,label\na.wav,left,right\n")),
    "a broken recording in the data": Bad(
        OWN, "0.wav", lambda places: [sounds(None)(places), Path("data/train/left/0.wav").write_text("x")]
    ),
    "a class in the test set alone": Bad(
        OWN,
        "training does not have",
        lambda places: [sounds(None)(places), os.rename("data/test/left", "data/test/up")],
    ),
    "transcripts without a listing": Bad(OWN, "train.csv", sounds(None, "TranscribedAudio")),
}


def contents(folder: Path) -> dict[str, tuple]:
    """Every file, folder and link below a folder with its type, size and time of change."""
    entries = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        entries[os.fsencode(path.relative_to(folder))] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return {name: entry[:1] if os.path.isdir(folder / os.fsdecode(name)) else entry for name, entry in entries.items()}


@pytest.fixture
def places(request, star, words):
    """The finished runs and the files that bad commands name."""
    kinds = ("speech", "transcriber", "recognizer", "labeler", "symbols")
    runs = {kind: request.getfixturevalue(f"finished_{kind}_run") for kind in kinds}
    return runs | {"run": request.getfixturevalue("finished_run"), "picture": star, "recording": words}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_input_is_one_line_and_leaves_nothing(command, places, tmp_path, monkeypatch, name):
    bad = BAD[name]
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    bad.make(places)
    before = contents(tmp_path), contents(places["run"])
    arguments = shlex.split(bad.arguments)
    for key, path in places.items():
        arguments = [argument.replace(f"{{{key}}}", str(path)) for argument in arguments]
    with bounded_memory():
        result = command(*arguments)
    lines = [line for line in re.split(r"[\r\n]", result.stderr) if not PROGRESS_BAR.search(line)]
    if result.returncode == 2:
        lines = [line for line in lines if not line.startswith(("usage: ", "  "))]
    assert result.returncode == bad.status, result.stderr
    assert len([line for line in lines if line.strip()]) == 1, result.stderr
    assert any(part in result.stderr for part in bad.message.split("|")), result.stderr
    assert "Traceback" not in result.stderr
    assert (contents(tmp_path), contents(places["run"])) == before
