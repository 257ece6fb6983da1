"""Manifests: written and read, altered and broken ones."""

import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitspeech.data.utterances.manifest import Utterance, read_manifest, write_manifest
from vitspeech.files import sha256


def utterance(*said, samples=20_011, noise=("fan", 0), snr_db=120.0):
    """An utterance of words, each given as (clip, first, last, start)."""
    clips, starts = [name for name, *_ in said], [start for *_, start in said]
    cuts = [[first, last] for _, first, last, _ in said]
    return Utterance("u", [f"word {name}" for name in clips], samples, clips, cuts, starts, list(noise), snr_db)


GOOD = utterance(("a", 1201, 2903, 5003), ("b", 701, 4201, 7001), noise=("tap", 17), snr_db=12.25)


def manifest(folder, *lines, name="words.jsonl"):
    """A file of these lines, with its true sum beside it."""
    file = folder / name
    file.write_text("".join(f"{line}\n" for line in lines))
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n")
    return file


def line(**changes):
    return json.dumps(dataclasses.asdict(GOOD) | changes)


@st.composite
def any_utterances(draw):
    count = draw(st.integers(1, 5))

    def listed(each):
        return draw(st.lists(each, min_size=count, max_size=count))

    cuts = [[first, first + lasts] for first, lasts in listed(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)))]
    starts = listed(st.integers(0, 10**6))
    ends = [start + last - first for start, (first, last) in zip(starts, cuts, strict=True)]
    return Utterance(
        draw(st.text()),
        listed(st.text()),
        max(ends) + draw(st.integers(0, 999)),
        listed(st.text()),
        cuts,
        starts,
        [draw(st.text()), draw(st.integers(0, 10**9))],
        draw(st.floats(allow_nan=False, allow_infinity=False)),
    )


@settings(deadline=None, max_examples=40)
@given(st.lists(any_utterances(), min_size=1, max_size=4))
def test_a_manifest_reads_as_it_was_written(utterances):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "words.jsonl"
        digest = write_manifest(utterances, str(file))
        assert digest == sha256(file) == hashlib.sha256(file.read_bytes()).hexdigest()
        assert read_manifest(str(file)) == utterances
        assert [set(json.loads(text)) for text in file.read_bytes().decode("ascii").split("\n")[:-1]] == [
            {"id", "words", "samples", "clips", "cuts", "starts", "noise", "snr_db"} for _ in utterances
        ]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="there is no sha256sum")
def test_sha256sum_agrees_with_the_sums(tmp_path):
    for name in ("b.jsonl", "a b.jsonl", "c.jsonl"):
        write_manifest([GOOD], tmp_path / name)
    write_manifest([GOOD, GOOD], tmp_path / "c.jsonl")
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout.splitlines()) == (0, ["a b.jsonl: OK", "b.jsonl: OK", "c.jsonl: OK"])
    (tmp_path / "b.jsonl").write_text("other")
    assert subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True).returncode == 1


@pytest.mark.parametrize("sums", [None, "", "0" * 64 + "  other.jsonl\n"])
def test_a_manifest_without_a_sum_is_refused(tmp_path, sums):
    file = manifest(tmp_path, line())
    (tmp_path / "SHA256SUMS").unlink() if sums is None else (tmp_path / "SHA256SUMS").write_text(sums)
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: .*SHA256SUMS beside it has no line for it"):
        read_manifest(file)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{broken", "Expecting property name"),
        ("[1, 2]", "mapping"),
        ('{"id": "u"}', "missing 7 required"),
        (line(color="red"), "'color'"),
        (line(words=[], clips=[], cuts=[], starts=[]), "are empty or differ"),
        (line(samples=10_500), "'word b', cut 701 to 4201, does not fit at 7001 of 10500 samples"),
        (line(starts=[-1, 7001]), "'word a', cut 1201 to 2903, does not fit at -1 of 20011 samples"),
        (line(cuts=[[-7, 1201], [701, 4201]]), "'word a', cut -7 to 1201, does not fit"),
        (line(cuts=[[1201], [701, 4201]]), "unpack"),
        (line(cuts=[[1201, 2903.5], [701, 4201]]), "not an integer"),
        (line(samples="20011"), "not supported between|unsupported operand"),
        (line(snr_db="loud"), "must be real number"),
        (line(snr_db=float("nan")), "NaN is not a number"),
        (line(samples=10**11), "above 9,600,000, ten minutes"),
        (line(noise=["hiss", 2**40]), "is not a recording with its first sample"),
        (line(clips=[["a"], "b"]), "the name of a clip is not a text"),
        ("[" * 100_000, "nested deeper"),
        ('{"id": "u", "id": "v"}', "the key 'id' is there twice"),
    ],
)
def test_an_invalid_line_is_reported_with_the_reason(tmp_path, text, reason):
    file = manifest(tmp_path, line(), line(), text, line())
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: line 3 is not a valid utterance: .*(?:{reason})"):
        read_manifest(file)


def test_writing_replaces_manifest_and_checksums_whole_or_not_at_all(tmp_path):
    file = tmp_path / "words.jsonl"
    write_manifest([GOOD], file)
    before = file.read_bytes(), (tmp_path / "SHA256SUMS").read_bytes()
    with pytest.raises(TypeError):
        write_manifest([GOOD, dataclasses.replace(GOOD, snr_db=object())], file)
    assert (file.read_bytes(), (tmp_path / "SHA256SUMS").read_bytes()) == before
    assert {path.name for path in tmp_path.iterdir()} == {"words.jsonl", "SHA256SUMS"}
