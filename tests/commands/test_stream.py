"""`vitspeech stream`: words with times, false alarms, and models that cannot stream."""

import re
import signal

import pytest
import soundfile
import torch
from running import one_line

import vitspeech
from vitspeech.checkpoint.model import save
from vitspeech.commands.stream import print_transcript, until_interrupt
from vitspeech.data.audio.reading import AudioParts
from vitspeech.decoding.unit_runs import Segment
from vitspeech.inference.label_stream import LabelStream
from vitspeech.metrics.intervals import poisson_interval


@pytest.fixture
def sure(finished_speech_run, tmp_path):
    """A spotter that is as sure as a network that has been trained for longer."""
    model = vitspeech.load(finished_speech_run)
    with torch.no_grad():
        model.network.head.weight.mul_(20)
        model.network.head.bias[-2:] -= 50  # of unknown and silence
    save(model, tmp_path / "sure")
    return tmp_path / "sure"


def test_stream_prints_words_with_their_times(command, sure, words):
    result = command("stream", sure, words, "--threshold", "0.05", "--refractory", "0")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0].endswith("; 365 ms behind; threshold 0.05 (given), refractory period 0 s (given)")
    assert "real-time factor" in lines[-1] and not result.stderr
    assert len(lines) > 2 and all(
        re.fullmatch(r" *\d+\.\d\d – \d+\.\d\d s  \w+ +[01]\.\d\d", line) for line in lines[1:-1]
    )


def test_options_may_stand_before_the_recording(command, sure, words):
    result = command("stream", sure, "--threshold", "0.05", words)
    assert result.returncode == 0 and "threshold 0.05 (given)" in result.stdout


@pytest.mark.parametrize(
    ("run", "options"),
    [
        ("sure", ["--threshold", "0.05", "--refractory", "0"]),
        ("finished_recognizer_run", []),
        ("finished_labeler_run", []),
    ],
)
def test_the_microphone_is_heard_as_a_file_until_ctrl_c(command, request, words, monkeypatch, run, options):
    def listen(sample_rate_hz, part_s):
        for part in AudioParts(words, sample_rate_hz):
            yield from part.split(round(part_s * sample_rate_hz))
        signal.raise_signal(signal.SIGINT)
        yield torch.zeros(1000, dtype=torch.int16)

    folder = request.getfixturevalue(run)
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


def test_stream_says_what_a_model_without_silence_does(command, finished_speech_run, words, tmp_path):
    model = vitspeech.load(finished_speech_run)
    model.labels[-1] = "quiet"
    save(model, tmp_path / "model")
    result = command("stream", tmp_path / "model", words)
    assert result.returncode == 0 and "real-time factor" in result.stdout
    assert "has no label `silence`: it takes noise and silence for its words" in one_line(result, status=0)


def test_stream_counts_false_alarms_an_hour(command, sure, words):
    hours, counts = soundfile.info(words).duration / 3600, []
    for threshold in (0.05, 0.999):
        result = command("stream", sure, words, "--threshold", threshold, "--no-words")
        *lines, last = result.stdout.splitlines()
        counts.append(count := len(lines) - 2)
        low, high = (bound / hours for bound in poisson_interval(count))
        expected = f"false alarms per hour: {count / hours:.1f} (95 % interval {low:.1f} to {high:.1f})"
        assert last == expected
    assert counts[0] > counts[1]


def test_stream_refuses_a_recording_that_is_too_short_for_a_word(command, finished_speech_run, tmp_path):
    soundfile.write(tmp_path / "one.wav", [0.0], 16_000)
    result = command("stream", finished_speech_run, tmp_path / "one.wav")
    assert "below 0.1 s, too short to hold a word" in one_line(result) and not result.stdout


def test_stream_prints_recognized_words_with_their_times(command, finished_recognizer_run, words):
    result = command("stream", finished_recognizer_run, words)
    first, *lines, last = result.stdout.splitlines()
    model = vitspeech.load(finished_recognizer_run)
    ((_, found),) = vitspeech.transcribe(model, [words], search=vitspeech.Search(beam=1))
    assert first == f"{', '.join(model.labels)}; 245 ms behind"
    expected = [f"{said.start_s:8.2f} – {said.end_s:.2f} s  {said.label}" for said in found.units]
    assert lines == expected and len(lines) > 1
    assert re.fullmatch(rf"{len(lines)} words in \d\.\d s of audio, .*real-time factor 0\.\d+\)", last)


def test_stream_prints_and_draws_the_words_of_a_labeler_with_their_starts_and_ends(
    command, finished_labeler_run, words, tmp_path
):
    model = vitspeech.load(finished_labeler_run)
    bias = model.network.head.bias.data.view(-1, len(model.labels) + 1)
    bias[:, 0] += 100  # all frames have the first word
    save(model, tmp_path / "labeler")
    picture = tmp_path / "words.png"
    result = command("stream", tmp_path / "labeler", words, "--picture", picture)
    first, *lines, last, drawn = result.stdout.splitlines()
    assert drawn == str(picture) and picture.exists()
    samples = torch.from_numpy(soundfile.read(words, dtype="int16")[0])
    found = list(LabelStream(model).words(samples.split(1_600)))
    assert first.startswith(f"{', '.join(model.labels)}; ")
    assert lines == [f"{said.start_s:8.2f} – {said.end_s:.2f} s  {said.label}" for said in found]
    assert len(lines) == 1 and last.startswith("1 words in ")


STEPS = [((), "le"), ((), "le"), ((), "left"), ((Segment("left", 0.5, 0.75),), "go"), ((Segment("go", 1, 2),), "")]
LINES = ["    0.50 – 0.75 s  left", "    1.00 – 2.00 s  go"]


def show_on_terminal(monkeypatch):
    """Make standard output a terminal of ten columns."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "10")


def test_a_terminal_shows_what_may_still_change_in_its_last_line(monkeypatch, capsys):
    show_on_terminal(monkeypatch)
    clear = "\r\x1b[K"
    assert print_transcript(STEPS) == 2
    printed = capsys.readouterr().out
    assert printed == f"le{clear}left{clear}{LINES[0]}\ngo{clear}{LINES[1]}\n"
    print_transcript([((), "one two three four")])
    assert capsys.readouterr().out == f"hree four{clear}"  # its end, in one line


def test_an_interruption_clears_the_line_of_a_terminal(monkeypatch, capsys):
    show_on_terminal(monkeypatch)

    def interrupted():
        yield (), "left"
        raise KeyboardInterrupt

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


@pytest.mark.parametrize(
    ("run", "arguments", "message"),
    [
        ("speech", "WORDS --threshold 2", "threshold=2.0 is not within 0 .. 1"),
        ("speech", "WORDS --refractory nan", "refractory_s=nan is not within"),
        ("speech", ".", ".: a folder; give one recording"),
        ("speech", "WORDS --picture a.png", "spots single words: --picture is for transcripts and labels of frames"),
        ("recognizer", "WORDS --threshold 0.9", "--threshold and --refractory are for spotting words"),
        ("labeler", "WORDS --language-model MODEL", "labels frames: --language-model is for transcripts"),
        ("transcriber", "WORDS", "SpeechTranscriber can't be streamed: its decoder needs the whole recording"),
    ],
)
def test_options_and_files_that_a_model_does_not_take_are_one_line(
    request, command, words, tmp_path, monkeypatch, run, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "MODEL").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 <unk>\n\n\\end\\\n")
    words.rename("WORDS")
    result = command("stream", request.getfixturevalue(f"finished_{run}_run"), *arguments.split())
    assert message in one_line(result) and not result.stdout


@pytest.mark.parametrize("arguments", [[], ["--microphone", "--picture", "a.png"], ["a.wav", "--beam", "4"]])
def test_options_that_need_another_are_refused_with_status_two(command, arguments):
    result = command("stream", "no model is read", *arguments)
    assert result.returncode == 2 and ("FILE" in result.stderr or "language model" in result.stderr)
