"""The clips and speakers behind the errors of a recognizer of words.

python docs/results/error_clips.py TABLE ... [--alone TABLE ...]

A table is what `vitspeech evaluate MODEL --data ROOT --out TABLE` writes, as CSV; those of several seeds are counted
together. The words of the test set are clips, most of which occur several times. `--alone` takes the tables of
classifiers of the same clips.
"""

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from vitspeech.data.clips.speech_commands import speaker
from vitspeech.data.utterances.manifest import read_manifest
from vitspeech.data.utterances.word_sequences import manifest_file
from vitspeech.metrics.word_errors import align, confusions

MANIFEST, COUNT = "speech-commands-1-7", 12


def read_rows(table: str) -> list[dict[str, str]]:
    """The rows of a table."""
    with Path(table).open(newline="") as file:
        return list(csv.DictReader(file))


def misclassified(tables: Sequence[str]) -> set[str]:
    """The names of the clips that every classifier gets wrong when it hears them alone."""
    wrong = ({row["name"] for row in read_rows(table) if row["prediction"] != row["label"]} for table in tables)
    return set.intersection(*wrong)


def main(tables: Sequence[str], alone: Sequence[str]) -> None:
    """Print how many clips and speakers have the errors, the most frequent confusions, and the clips of the first."""
    utterances = {utterance.id: utterance for utterance in read_manifest(manifest_file(MANIFEST))}
    errors, words, aligned, confused = Counter(), Counter(), [], defaultdict(Counter)
    for table in tables:
        for row in read_rows(table):
            if row["test_set"] != MANIFEST:
                continue
            clips = utterances[row["id"]].clips
            alignment = align(row["reference"].split(), row["hypothesis"].split())
            aligned.append(alignment)
            words.update(clips)
            spoken = (pair for pair in alignment.pairs if pair[0] is not None)
            for clip, pair, marks in zip(clips, spoken, alignment.marks_by_word, strict=True):
                errors[clip] += len(marks.strip())
                confused[pair][clip] += 1
    wrong = {clip: count for clip, count in errors.items() if count}
    always = {clip: count for clip, count in wrong.items() if count >= words[clip]}
    speakers = Counter()
    for clip, count in wrong.items():
        speakers[speaker(Path(clip))] += count
    most = sum(count for _, count in speakers.most_common(5))
    print(f"{sum(wrong.values())} errors in {sum(words.values())} words")
    print(f"{len(wrong)} of {len(words)} clips have errors")
    print(f"{len(always)} clips have an error whenever they occur: {sum(always.values())} errors")
    if alone:
        hard = misclassified(alone) & words.keys()
        said, missed = (sum(counts[clip] for clip in hard) for counts in (words, errors))
        print(f"{len(hard)} clips are misclassified by all classifiers: {said} words, {missed} errors")
    everybody = {speaker(Path(clip)) for clip in words}
    print(f"{len(speakers)} of {len(everybody)} speakers have errors; five of them have {most}")
    first, *_ = pairs = confusions(aligned)[:COUNT]
    print("; ".join(f"{hypothesis} for {reference} {count}" for reference, hypothesis, count in pairs))
    for clip, count in confused[first[:2]].most_common(COUNT):
        print(f"{clip}: {count} of {words[clip]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", metavar="TABLE")
    parser.add_argument("--alone", nargs="*", default=[], metavar="TABLE")
    options = parser.parse_args()
    main(options.tables, options.alone)
