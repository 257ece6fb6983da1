"""`vitspeech stream`: words with times, false alarms, and models that cannot stream."""

import re
import signal

import pytest
import soundfile
import torch
from running import one_line
from tiny import ROOT

import vitspeech
from vitspeech.checkpoint.model import save
from vitspeech.commands.stream import print_transcript, until_interrupt
from vitspeech.data.audio.reading import AudioParts
from vitspeech.decoding.vocabulary import Segment
from vitspeech.inference.label_stream import LabelStream
from vitspeech.metrics.intervals import poisson_interval
from vitspeech.samples import FOLDER


def test_stream_prints_words_with_their_times(command, finished_speech_run, words, tmp_path):
    model = vitspeech.load(finished_speech_run)
    with torch.no_grad():
        model.network.head.weight.mul_(20)  # as sure as a network that has been trained for longer
    save(model, tmp_path / "sure")
    result = command("stream", tmp_path / "sure", words, "--threshold", "0.05", "--refractory", "0")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0].endswith("; 365 ms behind; threshold 0.05 (given), refractory period 0 s (given)")
    assert "real-time factor" in lines[-1] and not result.stderr
    assert len(lines) > 2 and all(
        re.fullmatch(r" *\d+\.\d\d – \d+\.\d\d s  \w+ +[01]\.\d\d", line) for line in lines[1:-1]
    )


@pytest.mark.parametrize(
    ("run", "options"),
    [
        ("finished_speech_run", ["--threshold", "0.05", "--refractory", "0"]),
        ("finished_recognizer_run", []),
        ("finished_labeler_run", []),
    ],
)
def test_the_microphone_is_heard_as_a_file_until_ctrl_c(command, request, words, tmp_path, monkeypatch, run, options):
    def listen(sample_rate_hz, part_s):
        for part in AudioParts(words, sample_rate_hz):
            yield from part.split(round(part_s * sample_rate_hz))
        signal.raise_signal(signal.SIGINT)
        yield torch.zeros(1000, dtype=torch.int16)

    folder = request.getfixturevalue(run)
    if run == "finished_speech_run":
        model, folder = vitspeech.load(folder), tmp_path / "sure"
        with torch.no_grad():
            model.network.head.weight.mul_(20)
        save(model, folder)
    first, *lines, _ = command("stream", folder, words, *options).stdout.splitlines()
    monkeypatch.setattr("vitspeech.inference.microphone.listen", listen)
    result = command("stream", folder, "--microphone", *options)
    assert result.returncode == 0 and result.stdout.splitlines() == [first, *lines]
    assert lines or run == "finished_labeler_run"


def test_stream_takes_the_settings_of_the_card_and_says_so(command, finished_speech_run, words, tmp_path):
    model = vitspeech.load(finished_speech_run)
    first = command("stream", finished_speech_run, words).stdout.splitlines()[0]
    assert first.endswith("; threshold 0.80 (default), refractory period 0 s (default)")
    thresholds = {label: 0.61 + 0.01 * number for number, label in enumerate(model.labels[:-2])}
    model.card["spotting"] = {"thresholds": thresholds, "refractory_s": 0.5, "smoothing_s": 0.2}
    save(model, tmp_path / "tuned")
    first = command("stream", tmp_path / "tuned", words).stdout.splitlines()[0]
    assert first.endswith("; 405 ms behind; threshold 0.61 to 0.68 (card), refractory period 0.5 s (card)")
    first = command("stream", tmp_path / "tuned", words, "--threshold", "0.9").stdout.splitlines()[0]
    assert first.endswith("; threshold 0.90 (given), refractory period 0.5 s (card)")


@pytest.mark.parametrize(
    ("unknown", "silence", "message"),
    [
        ("unknown", "quiet", "has no label `silence`: it takes noise and silence for its words"),
        ("strange", "silence", "has no label `unknown`: it takes other words for its words"),
        ("a", "b", "has no label `unknown` and `silence`: it takes other words and noise and silence for its words"),
    ],
)
def test_stream_says_what_a_model_without_unknown_or_silence_does(
    command, finished_speech_run, words, tmp_path, unknown, silence, message
):
    model = vitspeech.load(finished_speech_run)
    model.labels[-2:] = [unknown, silence]
    save(model, tmp_path / "model")
    result = command("stream", tmp_path / "model", words)
    assert result.returncode == 0 and "real-time factor" in result.stdout
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


def test_stream_counts_false_alarms_an_hour(command, finished_speech_run, words, tmp_path):
    model = vitspeech.load(finished_speech_run)
    with torch.no_grad():
        model.network.head.weight.mul_(20)
    save(model, tmp_path / "sure")
    hours, counts = soundfile.info(words).duration / 3600, []
    for threshold in (0.05, 0.999):
        result = command("stream", tmp_path / "sure", words, "--threshold", threshold, "--no-words")
        *lines, last = result.stdout.splitlines()
        counts.append(count := len(lines) - 2)
        low, high = (bound / hours for bound in poisson_interval(count))
        expected = f"false alarms per hour: {count / hours:.1f} (95 % interval {low:.1f} to {high:.1f})"
        assert last == expected
    assert counts[0] > counts[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.wav"], "missing.wav"),
        ([ROOT / "README.md"], "not a recording"),
        ([ROOT / "tests"], "tests: a folder; give one recording"),
        ([ROOT / "README.md", "--threshold", "2"], "threshold=2.0 is not within 0 .. 1"),
        ([FOLDER / "left-right-go.wav", "--threshold", "nan"], "threshold=nan is not within 0 .. 1"),
        ([FOLDER / "left-right-go.wav", "--refractory", "nan"], "refractory_s=nan is not a number of seconds"),
        ([FOLDER / "left-right-go.wav", "--refractory", "inf"], "refractory_s=inf is not a number of seconds"),
    ],
)
def test_stream_reports_an_error_in_one_line(command, finished_speech_run, arguments, message):
    result = command("stream", finished_speech_run, *arguments)
    assert message in one_line(result) and not result.stdout


def test_stream_refuses_a_recording_that_is_too_short_for_a_word(command, finished_speech_run, tmp_path):
    soundfile.write(tmp_path / "one.wav", [0.0], 16_000)
    result = command("stream", finished_speech_run, tmp_path / "one.wav")
    assert "below 0.1 s, too short to hold a word" in one_line(result) and not result.stdout


def test_stream_refuses_options_of_spotting_for_a_model_that_transcribes(command, finished_recognizer_run, words):
    result = command("stream", finished_recognizer_run, words, "--threshold", "0.9")
    assert "--threshold and --refractory are for spotting words" in one_line(result)


def test_stream_needs_a_file_or_the_microphone(command, finished_speech_run):
    result = command("stream", finished_speech_run)
    assert result.returncode == 2 and "give either FILE or --microphone" in result.stderr


def test_stream_refuses_an_image_model(command, finished_run, words):
    assert "ViT can't be streamed: it has no encoder" in one_line(command("stream", finished_run, words))


def test_stream_prints_recognized_words_with_their_times(command, finished_recognizer_run, words):
    result = command("stream", finished_recognizer_run, words)
    first, *lines, last = result.stdout.splitlines()
    model = vitspeech.load(finished_recognizer_run)
    ((_, found),) = vitspeech.transcribe(model, [words], search=vitspeech.Search(beam=1))
    assert first == f"{', '.join(model.labels)}; 245 ms behind"
    expected = [f"{said.start_s:8.2f} – {said.end_s:.2f} s  {said.label}" for said in found.units]
    assert lines == expected and len(lines) > 1
    assert re.fullmatch(rf"{len(lines)} words in \d\.\d s of audio, .*real-time factor 0\.\d+\)", last)


@pytest.mark.parametrize("picture", [False, True])
def test_stream_prints_the_words_of_a_labeler_with_their_starts_and_ends(
    command, finished_labeler_run, words, tmp_path, picture
):
    model = vitspeech.load(finished_labeler_run)
    bias = model.network.head.bias.data.view(-1, len(model.labels) + 1)
    bias[:, 0] += 100  # all frames have the first word
    save(model, tmp_path / "labeler")
    drawn = ["--picture", tmp_path / "words.png"] if picture else []
    first, *lines, last = command("stream", tmp_path / "labeler", words, *drawn).stdout.splitlines()
    if picture:
        assert last == str(tmp_path / "words.png")
        last = lines.pop()
    samples = torch.from_numpy(soundfile.read(words, dtype="int16")[0])
    found = list(LabelStream(model).words(samples.split(1_600)))
    assert first.startswith(f"{', '.join(model.labels)}; ")
    assert lines == [f"{said.start_s:8.2f} – {said.end_s:.2f} s  {said.label}" for said in found]
    assert len(lines) == 1 and last.startswith("1 words in ")
    assert (tmp_path / "words.png").exists() == picture


def test_the_options_of_a_labeler(command, finished_labeler_run, words, tmp_path):
    result = command("stream", finished_labeler_run, words, "--threshold", "0.5")
    assert "labels frames: --threshold and --refractory are for spotting words" in one_line(result)
    (tmp_path / "model.arpa").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 <unk>\n\n\\end\\\n")
    result = command("stream", finished_labeler_run, words, "--language-model", tmp_path / "model.arpa")
    assert "labels frames: --language-model is for transcripts" in one_line(result)
    assert "false alarms per hour: " in command("stream", finished_labeler_run, words, "--no-words").stdout


def test_a_spotter_has_no_picture(command, finished_speech_run, words, tmp_path):
    result = command("stream", finished_speech_run, words, "--picture", tmp_path / "a.png")
    assert "spots single words: --picture is for transcripts and labels of frames" in one_line(result)
    result = command("stream", finished_speech_run, "--microphone", "--picture", tmp_path / "a.png")
    assert result.returncode == 2 and "--no-words and --picture need a FILE" in result.stderr


STEPS = [((), "le"), ((), "le"), ((), "left"), ((Segment("left", 0.5, 0.75),), "go"), ((Segment("go", 1, 2),), "")]
LINES = ["    0.50 – 0.75 s  left", "    1.00 – 2.00 s  go"]


def test_a_terminal_shows_what_may_still_change_in_its_last_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    clear = "\r\x1b[K"
    assert print_transcript(STEPS) == 2
    printed = capsys.readouterr().out
    assert printed == f"le{clear}left{clear}{LINES[0]}\ngo{clear}{LINES[1]}\n"


def test_a_long_text_is_cut_to_the_terminals_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "10")
    print_transcript([((), "one two three four")])
    assert capsys.readouterr().out == "hree four\r\x1b[K"


def interrupted():
    yield (), "left"
    raise KeyboardInterrupt


def test_an_interruption_clears_the_line_of_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(KeyboardInterrupt):
        print_transcript(interrupted())
    assert capsys.readouterr().out == "left\r\x1b[K"


@pytest.fixture
def interruptible():
    """Jobs in the background ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interruption_ends_the_recording_and_a_second_one_the_command(interruptible):
    before = signal.getsignal(signal.SIGINT)
    parts = until_interrupt(iter("abc"))
    assert next(parts) == "a"
    signal.raise_signal(signal.SIGINT)
    assert list(parts) == [] and signal.getsignal(signal.SIGINT) is before
    parts = until_interrupt(iter("abc"))
    next(parts)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("term", [None, "dumb"])
def test_other_outputs_get_final_words_and_no_control_characters(monkeypatch, capsys, term):
    if term:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("TERM", term)
    assert print_transcript(STEPS) == 2
    assert capsys.readouterr().out.splitlines() == LINES


def test_a_model_of_characters_prints_words_and_how_many_characters_it_has(
    command, finished_recognizer_run, words, tmp_path
):
    model = vitspeech.load(finished_recognizer_run)
    model.labels, model.preprocessing["units"] = list(" abcdefg"), "characters"
    save(model, tmp_path / "characters")
    first, *lines, _ = command("stream", tmp_path / "characters", words).stdout.splitlines()
    ((_, found),) = vitspeech.transcribe(model, [words], search=vitspeech.Search(beam=1))
    assert first.startswith(f"{len(model.labels)} characters; ")
    assert [line.split("  ")[-1] for line in lines] == found.text.split() and len(found.words) > 0


def test_stream_refuses_an_encoder_decoder(command, finished_transcriber_run, words):
    message = "SpeechTranscriber can't be streamed: its decoder needs the whole recording"
    assert message in one_line(command("stream", finished_transcriber_run, words))
