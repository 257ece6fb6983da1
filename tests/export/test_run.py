"""Exported folders in a Python without torch and vitspeech: the same labels, words and times as those of vitspeech."""

import json
import os
import re
import shutil
import subprocess
import warnings

import numpy
import pytest
import soundfile
import torch
from bare import run
from PIL import Image
from tiny import ROOT

import vitspeech
from vitspeech.attention import LearnedPositions
from vitspeech.checkpoint.model import Model
from vitspeech.decoding.search import Search
from vitspeech.export import export
from vitspeech.export.runner.model_folder import run_command
from vitspeech.files import sha256
from vitspeech.inference.spotting import WordSpotter
from vitspeech.inference.transcribe import transcribe_symbols

CHECKPOINTS, SAMPLES = ROOT / "checkpoints", ROOT / "vitspeech" / "samples"
TALK = SAMPLES / "left-right-go.wav"
TRUNCATED = "speech-commands-truncated"
NUMBER = re.compile(r"\d+\.\d+")


def printed(bare, folder, *words):
    """What run.py prints."""
    result = run(bare, folder / "run.py", *words)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def refused(bare, folder, *words, status=1):
    """The one line with which run.py refuses a model, or an input (status 3)."""
    result = run(bare, folder / "run.py", *words)
    assert result.returncode == status and result.stdout == "" and result.stderr.count("\n") == 1, result
    assert result.stderr.startswith("run.py: ")
    return result.stderr


def assert_same(text, expected):
    """The same text with the same numbers, but for the rounding of the last digit."""
    assert NUMBER.sub("#", text) == NUMBER.sub("#", expected)
    for number, other in zip(NUMBER.findall(text), NUMBER.findall(expected), strict=True):
        assert abs(float(number) - float(other)) < 1.01 * 10.0 ** -len(number.partition(".")[2])


def words_of(command, name, path):
    """The lines with words that `vitspeech stream` prints."""
    return "".join(command("stream", CHECKPOINTS / name, path).stdout.splitlines(keepends=True)[1:-1])


def test_the_environment_is_bare(bare):
    for package in ("torch", "vitspeech", "onnx"):
        assert f"No module named '{package}'" in run(bare, "-c", f"import {package}").stderr


def test_pictures_have_the_labels_of_predict(bare, exported, command, tmp_path):
    name = "vit-cifar10"
    cat = Image.open(SAMPLES / "cat.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90°
    cat.save(tmp_path / "turned.jpg", exif=exif)
    cat.convert("L").resize((333, 77)).save(tmp_path / "gray.png")
    cat.convert("P").save(tmp_path / "palette.gif")
    transparent = cat.convert("RGBA")
    transparent.putalpha(Image.linear_gradient("L").resize(cat.size))
    transparent.save(tmp_path / "transparent.png")
    files = [SAMPLES / "cat.jpg", SAMPLES / "horse.jpg", *sorted(tmp_path.iterdir())]
    assert_same(printed(bare, exported(name), *files), command("predict", CHECKPOINTS / name, *files).stdout)


@pytest.mark.parametrize("name", ["speech-commands", "keywords-12"])
def test_recordings_of_a_word_have_the_labels_of_predict(bare, exported, command, name, tmp_path):
    samples, rate_hz = soundfile.read(TALK)
    soundfile.write(tmp_path / "short.wav", samples[10_000:17_000], rate_hz)
    soundfile.write(tmp_path / "stereo.wav", numpy.stack((samples, samples[::-1]), 1), rate_hz, "FLOAT")
    soundfile.write(tmp_path / "24.flac", samples[20_000:41_001], rate_hz, "PCM_24")
    files = [TALK, *sorted(tmp_path.glob("*.*a*"))]
    assert len(files) == 4
    options = ["--clip"] if name == "keywords-12" else []
    text = printed(bare, exported(name), *options, *files)
    assert_same(text, command("predict", CHECKPOINTS / name, *files).stdout)


@pytest.mark.parametrize("name", [TRUNCATED, "keywords-12", "spoken-words-labels"])
def test_a_stream_has_the_words_and_times_of_stream(bare, exported, command, name):
    expected = words_of(command, name, TALK)
    assert [line.split()[4] for line in expected.splitlines()] == ["left", "right", "go"]
    assert_same(printed(bare, exported(name), TALK), expected)
    twice = printed(bare, exported(name), TALK, TALK)
    assert_same(twice, f"{TALK}:\n{expected}" * 2)


FAKE_SOUNDDEVICE = """
import types, numpy, soundfile

class PortAudioError(Exception):
    pass

class InputStream:
    def __init__(self, callback, **options):
        self.callback, self.options = callback, options
    def __enter__(self):
        samples = soundfile.read("talk.wav", dtype="int16")[0]
        time, status = types.SimpleNamespace(inputBufferAdcTime=0.0), types.SimpleNamespace(input_overflow=False)
        for first in range(0, len(samples), self.options["blocksize"]):
            part = samples[first : first + self.options["blocksize"], None]
            self.callback(part, len(part), time, status)
        return self
    def __exit__(self, *_):
        pass
    @property
    def active(self):
        raise KeyboardInterrupt  # Ctrl-C after the last part
"""


def test_the_microphone_is_heard_as_a_file_until_ctrl_c(bare, copied, tmp_path):
    shutil.copy(TALK, tmp_path / "talk.wav")
    (copied / "sounddevice.py").write_text(FAKE_SOUNDDEVICE)
    result = run(bare, copied / "run.py", "--microphone", folder=tmp_path)
    assert result.returncode == 0 and result.stdout == printed(bare, copied, TALK)
    assert "can't keep up" in result.stderr  # the whole recording is there at once


def test_a_microphone_without_its_package_is_refused(bare, exported):
    assert "pip install sounddevice" in refused(bare, exported(TRUNCATED), "--microphone")


def test_ctc_has_the_transcript_and_times_of_greedy_search(bare, exported, command):
    text = printed(bare, exported("spoken-words-ctc"), TALK)
    transcript = command("transcribe", CHECKPOINTS / "spoken-words-ctc", TALK, "--beam", 1).stdout.partition(": ")[2]
    assert_same(text, words_of(command, "spoken-words-ctc", TALK) + transcript)


@pytest.mark.parametrize("name, cut", [
    (TRUNCATED, 29_123),  # within "right"
    (TRUNCATED, -800),  # the second part is shorter than a recording may be
    ("spoken-words-ctc", 29_123),
])  # fmt: skip
def test_a_recording_in_two_files_has_the_words_of_the_whole(bare, exported, name, cut, tmp_path):
    samples, rate_hz = soundfile.read(TALK, dtype="int16")
    parts = [tmp_path / "first.wav", tmp_path / "second.wav"]
    for path, part in zip(parts, (samples[:cut], samples[cut:]), strict=True):
        soundfile.write(path, part, rate_hz)
    first = printed(bare, exported(name), parts[0], "--save-state", tmp_path / "state.npz")
    second = printed(bare, exported(name), parts[1], "--load-state", tmp_path / "state.npz")
    lines = [line for line in (first + second).splitlines() if "–" in line]
    assert_same("\n".join(lines), "\n".join(printed(bare, exported(name), TALK).splitlines()[: len(lines)]))
    assert "left" in first and "go" in second


def test_a_stream_runs_where_nothing_can_be_written(bare, exported):
    script = "import os, sys; sys.path.insert(0, sys.argv.pop(1)); os.access = lambda *_: False; import run; run.main()"
    result = run(bare, "-c", script, exported(TRUNCATED), TALK)
    assert (result.returncode, result.stderr) == (0, "") and "left" in result.stdout


def test_rows_and_words_of_live_audio_are_those_of_the_network(bare, exported, tmp_path):
    name = TRUNCATED
    live = """
import sys, numpy
folder, talk, out = sys.argv[1:]
sys.path.insert(0, folder)
from run import Model, read_sound
model, rows, start = Model(), [], 0
samples = read_sound(talk, model.sample_rate_hz)
for size in [0, 1, 639, 640, 641, 5000, 16000, 99999]:
    rows.append(model.rows(samples[start : start + size]))
    start += size
numpy.save(out, numpy.concatenate((*rows, model.last_rows())))
model.restart()
words = model.push(samples) + model.flush()
print(*(f"{word.label} {word.decided_s:.4f}" for word in words))
"""
    model, samples = vitspeech.load(CHECKPOINTS / name), soundfile.read(TALK, dtype="int16")[0][:54_400]
    soundfile.write(tmp_path / "cut.wav", samples, 16_000)
    result = run(bare, "-c", live, exported(name), tmp_path / "cut.wav", tmp_path / "rows.npy")
    assert result.stderr == ""
    words = WordSpotter(model).words([torch.from_numpy(samples)])
    assert result.stdout.split() == [part for word in words for part in (word.label, f"{word.decided_s:.4f}")]
    assert result.stdout.endswith("go 3.4000\n")  # decided at the end of the recording at the latest
    audio = vitspeech.stream(model)
    expected, computed = torch.cat((audio.push(samples), audio.flush())), numpy.load(tmp_path / "rows.npy")
    assert computed.shape == expected.shape
    assert abs(computed - expected.numpy()).max() < 1e-4 * expected.abs().max()


@pytest.fixture
def copied(exported, tmp_path):
    """A copy of an exported stream, to be altered."""
    return shutil.copytree(exported(TRUNCATED), tmp_path / "copied")


def rewrite(folder, change):
    """Change what model.json holds."""
    about = json.loads((folder / "model.json").read_text())
    change(about)
    (folder / "model.json").write_text(json.dumps(about))


@pytest.mark.parametrize("file", ["model.onnx", "keywords.py"])
def test_an_altered_file_is_refused(bare, copied, file):
    with (copied / file).open("ab") as opened:
        opened.write(b"\n")
    assert f"{file}: altered; its sha256 is not the one in model.json" in refused(bare, copied, TALK)


def test_an_edited_run_py_runs(bare, copied):
    (copied / "run.py").write_text((copied / "run.py").read_text().replace("{word.label", "HEARD {word.label"))
    assert "HEARD left" in printed(bare, copied, TALK)


@pytest.mark.parametrize(
    "change", [lambda about: about["spotting"].update(thresholds=0.1), lambda about: about["labels"].reverse()]
)
def test_an_altered_model_json_is_refused(bare, copied, change):
    rewrite(copied, change)
    assert "model.json: altered; model.onnx says something else" in refused(bare, copied, TALK)


def test_the_graph_of_another_model_is_refused_though_its_checksum_is_noted(bare, copied, exported):
    shutil.copy(exported("keywords-12") / "model.onnx", copied)
    rewrite(copied, lambda about: about["files"].update({"model.onnx": sha256(copied / "model.onnx")}))
    assert "model.onnx says something else" in refused(bare, copied, TALK)


def test_a_state_that_is_missing_or_of_another_model_is_refused(bare, exported, tmp_path):
    folder, state = exported(TRUNCATED), tmp_path / "state.npz"
    assert f"{state}: no such state" in refused(bare, folder, TALK, "--load-state", state)
    printed(bare, exported("keywords-12"), TALK, "--save-state", state)
    assert f"{state}: the state of another model" in refused(bare, folder, TALK, "--load-state", state)


def test_a_state_that_cannot_be_saved_is_refused_before_the_recording_is_read(bare, exported, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, problem in (("no/state.npz", "is not a folder"), ("folder", "not a regular"), ("pipe", "not a regular")):
        assert problem in refused(bare, exported(TRUNCATED), TALK, "--save-state", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_name_that_is_not_utf_8_is_printed_as_it_is(bare, exported, tmp_path):
    whole = tmp_path / os.fsdecode(b"caf\xe9.wav")
    shutil.copy(TALK, whole)
    assert printed(bare, exported(TRUNCATED), whole, TALK).startswith(f"{whole}:\n")


def test_odd_recordings_have_the_transcripts_and_warnings_of_vitspeech(bare, exported, tmp_path):
    name = "spoken-words-ctc"
    samples, rate_hz = soundfile.read(TALK)
    for ending, options in (("ogg", {}), ("flac", {}), ("mp3", {}), ("opus", {"format": "OGG", "subtype": "OPUS"})):
        soundfile.write(tmp_path / f"a.{ending}", samples, rate_hz, **options)
        content = (tmp_path / f"a.{ending}").read_bytes()
        (tmp_path / f"joined.{ending}").write_bytes(2 * content)
        if ending == "mp3":
            (tmp_path / "bare.mp3").write_bytes(content[content.find(content[:2], content.find(b"Xing")) :])
        if ending == "flac":  # the 36 bits of the number of samples, of which 0 is unknown
            (tmp_path / "live.flac").write_bytes(content[:21] + bytes([content[21] & 0xF0]) + bytes(4) + content[26:])
    content = TALK.read_bytes()
    (tmp_path / "piped.wav").write_bytes(content[:4] + bytes(4) + content[8:40] + bytes(4) + content[44:])
    soundfile.write(tmp_path / "gsm.wav", samples, rate_hz, "GSM610")
    soundfile.write(tmp_path / "opposed.wav", numpy.stack((samples, -samples), 1), rate_hz)
    soundfile.write(tmp_path / "zeros.wav", numpy.zeros(9000), rate_hz)
    odd = {"live.flac": "without a mark", "piped.wav": "without a mark", "opposed.wav": "cancel", "zeros.wav": "silent"}
    files = sorted(tmp_path.iterdir())
    result = run(bare, exported(name) / "run.py", *files)
    assert result.returncode == 0 and len(lines := result.stderr.splitlines()) == len(odd)
    for file in files:
        assert file.name not in odd or any(f"warning: {file}: " in line and odd[file.name] in line for line in lines)
    found = re.findall(r"^(\S+):\n(?:.*–.*\n)*(.*)\n", result.stdout, re.MULTILINE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expected = vitspeech.transcribe(vitspeech.load(CHECKPOINTS / name), files, search=Search(beam=1))
        assert found == [(str(path), transcript.text) for path, transcript in expected]
    assert len(caught) == 3 and dict(found)[str(tmp_path / "joined.mp3")] == "left right go left right go"


@pytest.mark.parametrize("call, message", [
    ("push(numpy.full(9, 300.0))", "floats up to 300 are not samples within ±1"),
    ("clip(numpy.zeros(99))", "the clip has 99 samples, fewer than the 1,360 of one token"),
])  # fmt: skip
def test_samples_that_are_not_scaled_or_too_few_are_refused(bare, exported, call, message):
    script = f"import sys; sys.path.insert(0, sys.argv[1]); import numpy, run; run.Model().{call}"
    assert message in run(bare, "-c", script, exported(TRUNCATED)).stderr


def test_recordings_that_cannot_be_read_are_refused(bare, exported, tmp_path):
    folder, samples = exported(TRUNCATED), numpy.zeros(8_000)
    names = "rate short nan loud empty text none cut header".split()
    rate, short, nan, loud, empty, text, none, cut, header = (tmp_path / f"{name}.wav" for name in names)
    soundfile.write(rate, samples, 8_000)
    soundfile.write(short, samples[:100], 16_000)
    soundfile.write(nan, samples + numpy.nan, 16_000, "FLOAT")
    soundfile.write(loud, samples + 9000, 16_000, "FLOAT")
    empty.touch()
    text.write_text("no recording")
    content = TALK.read_bytes()
    cut.write_bytes(content[:20_044])
    header.write_bytes(content[:44])
    problems = {
        rate: "has 8000 Hz, the model needs 16000 Hz; resample it",
        short: "lasts 0.00625 s, below 0.1 s",
        nan: "floats that are not finite",
        loud: "floats up to 9000 are not samples within ±1",
        empty: "empty (0 bytes)",
        cut: "truncated: 20,000 of ",
        header: f"truncated: 0 of {len(content) - 44:,} bytes",
        text: "not a recording that can be read",
        tmp_path: "a folder; give files",
        "/dev/null": "a pipe or a device; give files",
        none: "no such file",
    }
    result = run(bare, folder / "run.py", *problems, tmp_path / "red\x1b[31m.wav")
    *lines, last = result.stderr.splitlines()
    assert result.returncode == 3 and result.stdout == "" and r"red\x1b[31m.wav: no such file" in last
    for line, (path, problem) in zip(lines, problems.items(), strict=True):
        assert line.startswith(f"run.py: {path}: {problem}")


@pytest.mark.parametrize("ending, message", [
    ("mp3", "frames are present"), ("ogg", "a page is cut"),
])  # fmt: skip
def test_truncated_recordings_are_refused(bare, exported, tmp_path, ending, message):
    whole, cut = tmp_path / f"whole.{ending}", tmp_path / f"cut.{ending}"
    soundfile.write(whole, soundfile.read(TALK)[0], 16_000)
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    result = run(bare, exported(TRUNCATED) / "run.py", whole, cut)
    (line,) = result.stderr.splitlines()
    assert result.returncode == 3 and "left" in result.stdout
    assert line.startswith(f"run.py: {cut}: truncated: ") and message in line


def test_pictures_that_cannot_be_read_are_refused(bare, exported, tmp_path):
    folder, broken = exported("vit-cifar10"), tmp_path / "broken.jpg"
    broken.write_bytes((SAMPLES / "cat.jpg").read_bytes()[:500])
    for path, problem in ((broken, "broken or truncated"), (TALK, "not an image"), (tmp_path, "a folder; give files")):
        assert f"{path}: {problem}" in refused(bare, folder, path, status=3)


def test_other_inputs_follow_one_that_cannot_be_read(bare, exported, tmp_path):
    (tmp_path / "broken.jpg").write_text("no picture")
    for name, file in (("vit-cifar10", SAMPLES / "cat.jpg"), ("spoken-words-ctc", TALK)):
        result = run(bare, exported(name) / "run.py", tmp_path / "broken.jpg", file)
        assert result.returncode == 3 and result.stdout.startswith(f"{file}:")
        assert result.stderr.startswith(f"run.py: {tmp_path / 'broken.jpg'}: ") and result.stderr.count("\n") == 1


@pytest.mark.parametrize("redirect, environment, words", [
    ("", {"PYTHONIOENCODING": "ascii"}, "0.54 - 0.98 s  left"),
    ("", {"PYTHONWARNINGS": "error"}, "0.54 – 0.98 s  left"),
    (">&-", {}, ""),
    (">&- 2>&- <&-", {}, ""),
])  # fmt: skip
def test_any_output_will_do(bare, exported, redirect, environment, words):
    command = ["sh", "-c", f'exec "$0" "$@" {redirect}', bare, exported(TRUNCATED) / "run.py", TALK]
    environment = {"PATH": os.environ["PATH"], "PYTHONIOENCODING": "utf-8"} | environment
    result = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert (result.returncode, result.stderr) == (0, "") and words in result.stdout


def test_a_warning_that_the_user_made_an_error_is_one_line():
    with pytest.raises(SystemExit, match=r"^run\.py: old \(UserWarning, an error by .*PYTHONWARNINGS\)$"):
        run_command(lambda: warnings.warn("old", stacklevel=1))


def test_a_missing_package_is_named(bare, exported):
    hidden = """
import runpy, sys
sys.modules["soundfile"] = None
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    result = run(bare, "-c", hidden, exported("spoken-words-ctc") / "run.py", TALK)
    assert (result.returncode, result.stderr) == (1, "run.py: needs soundfile: pip install soundfile\n")


def test_an_encoder_decoder_has_the_transcript_of_greedy_search(bare, exported, command, words):
    options = ["--beam", 1, "--ctc-weight", 0]
    expected = command("transcribe", CHECKPOINTS / "spoken-words-attention", TALK, words, *options).stdout
    assert "left right go" in expected
    assert printed(bare, exported("spoken-words-attention"), TALK, words) == expected


def test_an_encoder_decoder_of_symbols_has_their_transcript_up_to_the_learned_positions(bare, tmp_path):
    torch.manual_seed(0)
    settings = {"depth": 1, "heads": 2, "score": "additive"}
    decoder = settings | {"left": 3}
    network = vitspeech.Seq2Seq(3, 3, 8, settings, decoder=decoder, positions=LearnedPositions(10, 8)).eval()
    network.head.bias.data[-1] = -1e4  # it never outputs the end
    model = Model(network, list("xyz"), {"symbols": list("abc")}, {}, {}, "vitspeech.Transcription")
    about = export(model, folder := tmp_path / "learned")
    assert about["longest_input"] == 10 and about["longest_output"]["most"] == 9 and about["cache_shape"][0] == 2
    for text in ("abcabcabca", "a b c a"):
        (transcript,) = transcribe_symbols(model, [text], search=Search(beam=1))
        found = transcript.text if " " in text else "".join(transcript.text.split())
        assert printed(bare, folder, text) == f"{text} -> {found}\n" and len(transcript.indices) <= 9
    for text, problem in (
        ("abcabcabcab", "has 11 tokens, more than the 10 positions"),
        ("a d", "d is not a symbol of the model; there are a, b, c"),
        (" ", "no symbols"),
    ):
        assert problem in refused(bare, folder, text, status=3)
