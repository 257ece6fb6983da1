"""Warnings are ignored in the body, also of several threads, and not after it."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from vitspeech.data.images.reading import no_warnings


def test_threads_leave_the_filters_as_they_were():
    def read(number):
        with no_warnings():
            warnings.warn("odd metadata", stacklevel=1)
            time.sleep(0.001 * (number % 5))
            warnings.warn("odd metadata", stacklevel=1)

    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(read, range(60)))
    assert warnings.filters == before
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard", stacklevel=1)


def test_an_error_in_the_body_ends_it():
    before = list(warnings.filters)
    with pytest.raises(OSError), no_warnings():
        raise OSError
    assert warnings.filters == before
