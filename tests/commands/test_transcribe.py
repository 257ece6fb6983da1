"""`vitspeech transcribe`: transcripts, times, tables, and how it fails."""

import csv
import os
from pathlib import Path

import pytest
from running import one_line

import vitspeech
from vitspeech.checkpoint.model import save
from vitspeech.commands.transcribe import inside, table_rows
from vitspeech.data.audio.reading import read_clip
from vitspeech.inference.subtitles import to_subtitles
from vitspeech.inference.transcript import Transcript


def test_transcribe_prints_a_line_a_recording(command, finished_recognizer_run, words):
    model = vitspeech.load(finished_recognizer_run)
    ((_, found),) = vitspeech.transcribe(model, [words], search=vitspeech.Search(beam=1))
    result = command("transcribe", finished_recognizer_run, words, "--beam", 1)
    assert result.returncode == 0 and found.text
    assert result.stdout == f"{words}: {found.text}\n"
    assert command("transcribe", finished_recognizer_run, "--beam", 1, words).stdout == result.stdout


def test_transcribe_prints_when_each_word_was_said(command, finished_recognizer_run, words):
    model = vitspeech.load(finished_recognizer_run)
    ((_, found),) = vitspeech.transcribe(model, [words])
    first, *lines = command("transcribe", finished_recognizer_run, words, "--times").stdout.splitlines()
    assert first == f"{words}: {found.text}" and len(lines) == len(found.units) > 1
    for line, said in zip(lines, found.units, strict=True):
        times, word = line.strip().rsplit("  ", 1)
        assert (times, word) == (f"{said.start_s:.2f} – {said.end_s:.2f} s", said.label)


def test_transcribe_draws_the_encoders_attention(command, finished_recognizer_run, words, tmp_path):
    result = command("transcribe", finished_recognizer_run, words, "--attention", tmp_path / "attention.png")
    assert result.returncode == 0 and result.stdout.splitlines()[-1] == str(tmp_path / "attention.png")
    assert (tmp_path / "attention.png").stat().st_size > 1000


@pytest.fixture
def recordings(words):
    """A folder of 20 good recordings, an empty file and one of another kind."""
    for number in range(20):
        os.link(words, words.with_name(f"{number:02}.wav"))
    words.unlink()
    words.with_name("09b.wav").touch()
    words.with_name("x.wav").write_text("no sound")
    return words.parent


def test_broken_recordings_have_rows_with_their_status(command, finished_recognizer_run, recordings, tmp_path):
    table = tmp_path / "out.csv"
    result = command("transcribe", finished_recognizer_run, recordings, "--out", table)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    files = [row["file"] for row in rows]
    assert files == sorted(files) and set(files) == {str(path) for path in recordings.glob("*.wav")}
    ((_, found),) = vitspeech.transcribe(vitspeech.load(finished_recognizer_run), [files[0]])
    first = [row for row in rows if row["file"] == files[0]]
    assert [row["unit"] for row in first] == [said.label for said in found.words]
    assert [float(row["start_s"]) for row in first] == pytest.approx([said.start_s for said in found.words], abs=1e-3)
    broken = {Path(row.pop("file")).name: row for row in rows if row["status"] != "ok"}
    nothing = {"unit": "", "start_s": "", "end_s": ""}
    assert broken["09b.wav"] == nothing | {"status": "empty (0 bytes)"}
    assert broken["x.wav"]["status"].startswith("not a recording that can be read") and len(broken) == 2
    expected = f"vitspeech transcribe: 2 files could not be read: see the column `status` of {table}"
    assert one_line(result, status=3) == expected and result.stdout == f"{table}\n"


def test_a_broken_recording_has_no_picture(command, finished_recognizer_run, recordings):
    picture = recordings / "out.png"
    result = command("transcribe", finished_recognizer_run, recordings / "09b.wav", "--picture", picture)
    assert "09b.wav: empty (0 bytes)" in one_line(result, status=3) and not picture.exists()


def test_transcribe_accepts_an_encoder_decoder(command, finished_transcriber_run, words):
    search = ["--beam", 2, "--ctc-weight", 0, "--length-penalty", 1]
    result = command("transcribe", finished_transcriber_run, words, *search)
    model = vitspeech.load(finished_transcriber_run)
    ((_, found),) = vitspeech.transcribe(model, [words], search=vitspeech.Search(2, 1.0, 0.0))
    assert result.returncode == 0 and result.stdout == f"{words}: {found.text}\n"


def test_symbols_are_printed_with_the_models_output(command, finished_symbols_run, tmp_path):
    model = vitspeech.load(finished_symbols_run)
    first, second = (said.text for said in vitspeech.transcribe_symbols(model, ["31420", "3 1"]))
    picture = tmp_path / "attention.png"
    result = command("transcribe", finished_symbols_run, "--picture", picture, "--symbols", "31420", "3 1")
    assert result.returncode == 0 and picture.stat().st_size > 1000
    assert result.stdout == f"31420 -> {first.replace(' ', '')}\n3 1 -> {second}\n{picture}\n"


def test_an_interrupted_table_is_resumed_with_the_same_search(
    command, finished_recognizer_run, recordings, tmp_path, monkeypatch
):
    def read(path, *arguments):
        if path.name == "x.wav":
            raise KeyboardInterrupt
        return read_clip(path, *arguments)

    whole, table = tmp_path / "whole.csv", tmp_path / "out.csv"
    command("transcribe", finished_recognizer_run, recordings, "--out", whole)
    monkeypatch.setattr("vitspeech.inference.batches.read_clip", read)
    result = command("transcribe", finished_recognizer_run, recordings, "--out", table)
    assert "has the rows of 16 inputs" in one_line(result, status=130)
    monkeypatch.undo()
    arguments = ("transcribe", finished_recognizer_run, recordings, "--out", table, "--resume")
    assert "beam was 1, and is 8 now" in one_line(command(*arguments, "--beam", 8))
    assert "rows was words, and is units now" in one_line(command(*arguments, "--units"))
    assert command(*arguments).returncode == 3 and table.read_bytes() == whole.read_bytes()


@pytest.fixture
def spelling(finished_recognizer_run, tmp_path):
    """The folder of a model whose units are characters."""
    model = vitspeech.load(finished_recognizer_run)
    model.labels, model.preprocessing["units"] = list(" abcdefg"), "characters"
    save(model, tmp_path / "spelling")
    return tmp_path / "spelling"


@pytest.mark.parametrize("units", [False, True])
def test_times_and_tables_give_words_or_units_on_request(command, spelling, words, tmp_path, units):
    ((_, found),) = vitspeech.transcribe(vitspeech.load(spelling), [words])
    expected = [said.label for said in (found.units if units else found.words)]
    assert found.words and len(found.units) > len(found.words)
    option, table = ["--units"] * units, tmp_path / "out.csv"
    lines = command("transcribe", spelling, words, "--times", *option).stdout.splitlines()
    assert [line.partition(" s  ")[2] for line in lines[1:]] == expected
    command("transcribe", spelling, words, "--out", table, *option)
    assert [row["unit"] for row in csv.DictReader(table.read_text().splitlines())] == expected


def test_units_without_times_have_rows_in_a_table_of_units():
    said = Transcript("ab c", (), 0.0, (0, 1, 3, 2))
    assert [row[1] for row in table_rows(Path("a.wav"), said, "abc ")] == ["a", "b", " ", "c"]
    assert [row[1] for row in table_rows(Path("a.wav"), said, "")] == ["ab", "c"]
    assert table_rows(Path("a.wav"), Transcript("", (), 0.0), "abc ") == [(Path("a.wav"), "", None, None, "ok")]


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_subtitles_of_one_recording_are_printed_or_written(command, finished_recognizer_run, words, tmp_path, form):
    model = vitspeech.load(finished_recognizer_run)
    ((_, found),) = vitspeech.transcribe(model, [words])
    printed = command("transcribe", finished_recognizer_run, words, "--format", form)
    assert printed.returncode == 0 and printed.stdout == to_subtitles(found, form) and found.words
    file = tmp_path / f"out.{form}"
    result = command("transcribe", finished_recognizer_run, words, "--format", form, "--out", file)
    assert result.stdout == f"{file}\n" and file.read_text() == printed.stdout


def test_subtitles_of_a_folder_keep_its_folders(command, finished_recognizer_run, words, tmp_path):
    talks = tmp_path / "talks"
    (talks / "monday").mkdir(parents=True)
    for place in (talks / "a.wav", talks / "monday/a.wav", talks / "b.c.wav"):
        os.link(words, place)
    out = tmp_path / "subtitles/new"
    result = command("transcribe", finished_recognizer_run, talks, words, "--format", "srt", "--out", out)
    expected = [out / name for name in ("a.srt", "b.c.srt", "monday/a.srt", "words.srt")]
    assert result.returncode == 0 and result.stdout.splitlines() == [str(path) for path in expected]
    assert sorted(out.rglob("*.*")) == expected and len({path.read_text() for path in expected}) == 1


def test_subtitles_stay_in_their_folder():
    assert inside(Path("../other/a.wav"), ["."]) == Path("a.wav")
    assert inside(Path("talks/../other/a.wav"), ["talks"]) == Path("a.wav")
    assert inside(Path("talks/../other/x/a.wav"), ["talks", "talks/../other"]) == Path("x/a.wav")
    assert inside(Path("talks/monday/a.wav"), ["talks"]) == Path("monday/a.wav")
    assert inside(Path("talks/monday/a.wav"), ["talks/monday/a.wav"]) == Path("a.wav")


def test_recordings_of_one_name_do_not_replace_each_others_subtitles(command, finished_recognizer_run, words, tmp_path):
    (tmp_path / "other").mkdir()
    os.link(words, tmp_path / "other/words.wav")
    paths = words, tmp_path / "other/words.wav"
    result = command("transcribe", finished_recognizer_run, *paths, "--format", "srt", "--out", tmp_path / "out")
    assert result.stdout == f"{tmp_path / 'out/words.srt'}\n"
    assert f"words.srt has the subtitles of {words}; name another folder" in one_line(result, status=3)


def test_a_long_recording_is_transcribed_but_not_drawn(
    command, finished_recognizer_run, finished_transcriber_run, words, tmp_path, monkeypatch
):
    short = command("transcribe", finished_recognizer_run, words, "--beam", 1).stdout
    monkeypatch.setattr("vitspeech.data.audio.reading.LONGEST_S", 0.5)
    assert command("transcribe", finished_recognizer_run, words, "--beam", 1).stdout == short
    for option in ("--picture", "--attention"):
        result = command("transcribe", finished_recognizer_run, words, option, tmp_path / "out.png")
        assert f"above 0.5 s; {option} draws no longer ones" in one_line(result) and not result.stdout
    result = command("transcribe", finished_transcriber_run, words)
    assert "above 0.5 s; SpeechTranscriber can't be streamed" in one_line(result, status=3)
