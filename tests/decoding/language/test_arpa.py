"""ARPA files: what is written is read again, files of other tools, and broken ones."""

import io
import math
import random

import pytest

from vitspeech.decoding.language import arpa
from vitspeech.decoding.language.kneser_ney import estimate

LABELS = [" ", *"abc"]
UTTERANCES = [[1, 2, 0, 3], [1, 1, 0, 2], [3], [2, 0, 1, 2, 3, 0, 1]]
SMALL = """# made by hand

\\data\\
ngram 1=4
ngram 2=3

\\1-grams:
-99\t<s>\t-0.5
-1.0\t</s>
-0.3 yes -0.2
-0.6\tno\t-0.1

\\2-grams:
-0.2\t<s> yes
-0.4\tyes no
-0.7\tno </s>

\\end\\
"""


def written(model, *comments):
    file = io.StringIO()
    arpa.write(model, file, comments)
    return file.getvalue()


def read_text(text, tmp_path):
    path = tmp_path / "model.arpa"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return arpa.read(path)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_a_model_that_is_written_is_read_again(order, tmp_path):
    model = estimate(UTTERANCES, LABELS, order, kind="characters")
    text = written(model, "any comment")
    again = read_text(text, tmp_path)
    assert text.startswith("# any comment\n# units: characters\n\n\\data\\\nngram 1=6\n") and "\t<space>" in text
    assert (again.vocabulary, again.sizes, again.kind) == (model.vocabulary, model.sizes, "characters")
    assert again.perplexity(UTTERANCES) == pytest.approx(model.perplexity(UTTERANCES), rel=1e-5)
    assert written(again, "any comment") == text
    assert again.checksum == read_text(text, tmp_path).checksum != model.checksum


def test_a_byte_order_mark_and_other_ends_of_lines_change_nothing(tmp_path):
    checksum = read_text(SMALL, tmp_path).checksum
    bare = SMALL.partition("\n\n")[2]  # so that the mark is before \\data\\
    for text in ("\ufeff" + bare, SMALL.replace("\n", "\r\n"), ("\ufeff" + bare).replace("\n", "\r")):
        assert read_text(text, tmp_path).checksum == checksum


def test_the_order_of_the_lines_does_not_matter(tmp_path):
    model = estimate(UTTERANCES, LABELS, 3, kind="characters")
    sections = written(model).split("\n\n")
    for place, section in enumerate(sections):
        title, *rows = section.strip().splitlines()
        if title.endswith("-grams:"):
            random.Random(0).shuffle(rows)
            sections[place] = "\n".join([title, *rows])
    again = read_text("\n\n".join(sections) + "\n", tmp_path)
    for utterance in UTTERANCES:
        names = [LABELS[unit] for unit in utterance]
        assert again.score([again.index[name] for name in names]) == pytest.approx(model.score(utterance), rel=1e-5)


def test_scores_are_those_of_the_file(tmp_path):
    model = read_text(SMALL, tmp_path)
    yes, no, end = (model.index[name] for name in ("yes", "no", "</s>"))
    ten = math.log(10)
    assert model.score([yes, no]) == pytest.approx((-0.2 - 0.4 - 0.7) * ten)
    assert model.score([no]) == pytest.approx((-0.5 - 0.6 - 0.7) * ten)
    assert model.score([yes]) == pytest.approx((-0.2 - 0.2 - 1.0) * ten)
    assert model.row(model.start)[end] == pytest.approx(-1.5 * ten)
    assert model.kind is None


def test_scores_are_those_of_kenlm(tmp_path):
    kenlm = pytest.importorskip("kenlm", reason="KenLM is not installed")
    model = estimate(UTTERANCES, LABELS, 4, kind="characters")
    read_text(written(model), tmp_path)
    other = kenlm.Model(str(tmp_path / "model.arpa"))
    for utterance in [*UTTERANCES, [3, 3, 0, 0, 1]]:
        text = " ".join(arpa.name_of(LABELS[unit]) for unit in utterance)
        assert model.score(utterance) / math.log(10) == pytest.approx(other.score(text), rel=1e-5)


def test_a_pruned_model_whose_suffixes_are_missing_backs_off_further(tmp_path):
    text = SMALL.replace("ngram 2=3", "ngram 2=2\nngram 3=1")
    text = text.replace("-0.7\tno </s>\n\n", "\n\\3-grams:\n-0.1\t<s> yes no\n\n")
    model = read_text(text, tmp_path)
    yes, no = model.index["yes"], model.index["no"]
    state = model.advance(model.advance(model.start, yes), no)
    assert model.row(state)[yes] == pytest.approx((-0.1 - 0.3) * math.log(10))  # `yes no` has no weight, `no` has


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("\\data\\", "data", r"has no line \\data\\; a language model is an ARPA file"),
        ("ngram 1=4", "ngram 1=four", "line 4: 'ngram 1=four' in the place of ngram 1=COUNT"),
        ("ngram 1=4\nngram 2=3\n", "", r"line 5: the header has the numbers of n-grams \[\]"),
        ("\\end\\", "", "in the place of .*end"),
        ("-0.4\tyes no", "-0.4\tyes maybe", "line 15: 'maybe' is not among the 1-grams"),
        ("-0.4\tyes no", "x\tyes no", "line 15: .* does not begin or end with a number"),
        ("-0.4\tyes no", "0.4\tyes no", "line 15: 0.4 or no is not a base-10 logarithm"),
        ("-0.4\tyes no", "-0.4\t<s> yes", "line 15: the n-gram is there twice"),
        ("-1.0\t</s>", "-1.0\tend", "</s> is not among the 1-grams"),
        ("# made by hand", "# units: syllables", "line 1: units are 'syllables', not words, characters, pieces"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(old, new, message, tmp_path):
    assert old in SMALL
    with pytest.raises(ValueError, match=message) as caught:
        read_text(SMALL.replace(old, new), tmp_path)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(tmp_path / "model.arpa"))


def test_a_context_that_is_missing_is_refused_with_its_line(tmp_path):
    text = SMALL.replace("ngram 2=3", "ngram 2=3\nngram 3=1")
    text = text.replace("\\end\\", "\\3-grams:\n-0.1\tno yes no\n\n\\end\\")
    with pytest.raises(ValueError, match="line 20: its context 'no yes' is not among the 2-grams"):
        read_text(text, tmp_path)


@pytest.mark.parametrize("content", [b"\x80\x00\xff\n" * 9, b"", b"hello\n", SMALL.encode().replace(b"yes", b"\xff")])
def test_other_files_are_refused(content, tmp_path):
    with pytest.raises(ValueError, match="a language model is an ARPA file") as caught:
        read_text(content, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("token", ["a b", "", "\t", "<space>", "a\u00a0b"])
def test_tokens_that_a_file_cannot_have_are_refused(token):
    with pytest.raises(ValueError, match="cannot be a token of a language model"):
        written(estimate([[0]], [token], 2))
