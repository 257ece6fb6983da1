"""Runs of frame labels as words, by `itertools.groupby`: what the decoders of frame labels are compared with."""

from itertools import groupby

from vitspeech.metrics.word_times import TimedWord


def words_of(labels, *, silence, first_s, frame_s, shortest_s, probabilities=None, least_probability=0.0):
    """The words of labels (F,): runs that last `shortest_s`, and whose mean probability is not too low."""
    words, end = [], 0
    for label, run in groupby(labels.tolist()):
        start, end = end, end + len([*run])
        mean = 1.0 if probabilities is None else probabilities[start:end].double().mean().item()
        if label != silence and (end - start) * frame_s >= shortest_s - 1e-9 and mean >= least_probability:
            words.append(TimedWord(label, first_s + start * frame_s, first_s + end * frame_s))
    return words
