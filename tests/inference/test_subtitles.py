"""Subtitles: valid files, lines that can be read, and cues that end at pauses."""

import html
from pathlib import Path

import pytest
import webvtt

from vitspeech.decoding.unit_runs import Segment
from vitspeech.inference.subtitles import LINE, Cue, to_cues, to_subtitles
from vitspeech.inference.transcript import Transcript


def said(text, *, start_s=0.0, each_s=0.3, gap_s=0.1):
    """The words of a text, one after the other."""
    step_s = each_s + gap_s
    return [Segment(word, start_s + n * step_s, start_s + n * step_s + each_s) for n, word in enumerate(text.split())]


def transcript(words):
    text = " ".join(word.label for word in words)
    return Transcript(text, tuple(words), -1.0, words=tuple(words))


def parsed(content: str, form: str, folder: Path):
    """The cues as (start, end, lines), read by another program."""
    file = folder / f"a.{form}"
    file.write_text(content, encoding="utf-8")
    read = webvtt.read if form == "vtt" else webvtt.from_srt
    return [(cue.start_in_seconds, cue.end_in_seconds, cue.lines) for cue in read(str(file))]


WORDS = [
    *said("it is a truth universally acknowledged that a single man in possession of a good fortune must be in want"),
    *said("of a wife", start_s=20),
    *said("größer <b>fett</b> & so -->", start_s=3599.4, gap_s=0.2),
]


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_another_program_reads_every_cue(form, tmp_path):
    cues, read = to_cues(WORDS), parsed(to_subtitles(transcript(WORDS), form), form, tmp_path)
    assert len(read) == len(cues) > 3
    for (start_s, end_s, lines), cue in zip(read, cues, strict=True):
        assert int(cue.start_s) == int(start_s) and int(cue.end_s) == int(end_s)
        assert [html.unescape(line) if form == "vtt" else line for line in lines] == list(cue.lines)
    assert " ".join(line for cue in cues for line in cue.lines) == " ".join(word.label for word in WORDS)


def test_webvtt_has_a_header_dots_and_escapes():
    words = [Segment("<i>", 0.5, 0.75), Segment("&", 0.8, 0.9), Segment("-->", 1.0, 2.0)]
    assert to_subtitles(transcript(words), "vtt") == (
        "WEBVTT\n\n00:00:00.500 --> 00:00:02.000\n&lt;i&gt; &amp; --&gt;\n"
    )


def test_lines_have_42_letters_and_cues_two_lines_and_seven_seconds():
    words = said("seven words of a few letters each make a line and then some more " * 30, each_s=0.2, gap_s=0.0)
    cues = to_cues(words)
    assert all(len(cue.lines) <= 2 and len(line) <= LINE for cue in cues for line in cue.lines)
    assert max(len(cue.lines) for cue in cues) == 2
    slow = to_cues(said("a b c d e f g h i j k l m n o p q r s t", each_s=0.8, gap_s=0.2))
    assert all(cue.end_s - cue.start_s <= 7.0 for cue in slow) and len(slow) == 3


def test_a_cue_ends_at_a_pause_and_is_shown_for_a_second_unless_the_next_one_begins():
    words = [Segment("a", 1.0, 1.1), Segment("b", 1.5, 1.6), Segment("c", 2.41, 2.5), Segment("d", 9.0, 9.1)]
    assert to_cues(words) == [Cue(1.0, 2.0, ("a b",)), Cue(2.41, 3.41, ("c",)), Cue(9.0, 10.0, ("d",))]
    # The second one would be shown for longer, but the third begins.
    close = to_cues([Segment("a", 1.0, 1.05), Segment("b", 1.86, 1.9)])
    assert [cue.end_s for cue in close] == pytest.approx([1.86, 2.86])


def test_a_transcript_without_times_has_no_subtitles():
    with pytest.raises(ValueError, match="need the times of words"):
        to_subtitles(Transcript("left go", (), -1.0), "srt")
