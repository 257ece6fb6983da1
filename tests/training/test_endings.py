"""How training ends if it does not finish: one line, the exit status of a shell, and advice that helps."""

import errno
import os
import signal
import sys

import pytest

from vitspeech.errors import InputError
from vitspeech.training.interrupts import clear_ending


def ending(error=None, resume="vitspeech train --resume run"):
    with clear_ending("vitspeech train", lambda: resume):
        if error is not None:
            raise error


def test_an_interrupted_run_says_how_to_continue(capsys):
    with pytest.raises(SystemExit) as ended:
        ending(KeyboardInterrupt())
    assert ended.value.code == 130
    assert capsys.readouterr().err.strip() == "vitspeech train: interrupted; continue with vitspeech train --resume run"
    with pytest.raises(SystemExit):
        ending(SystemExit(1), resume="")  # as Lightning does it; there is no run yet
    assert capsys.readouterr().err.strip() == "vitspeech train: interrupted"


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_sigterm_and_sighup_end_a_run_as_ctrl_c_does(capsys, number, status):
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended, clear_ending("vitspeech train", lambda: "command"):
            os.kill(os.getpid(), number)
            signal.pause()
        assert ended.value.code == status and "interrupted; continue with command" in capsys.readouterr().err
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_sighup_stays_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with clear_ending("vitspeech train", lambda: "command"):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_full_disk_says_where_and_how_to_continue():
    message = "run/last.ckpt: the disk is full; make room, then continue with vitspeech train --resume run"
    with pytest.raises(InputError, match=message):
        ending(OSError(errno.ENOSPC, "No space left on device", "run/last.ckpt"))
    with pytest.raises(FileNotFoundError, match="x"):
        ending(FileNotFoundError(errno.ENOENT, "No such file", "x"))


def test_a_process_that_leaves_a_loss_to_the_first_one_to_report_is_not_interrupted(capsys):
    with pytest.raises(SystemExit) as ended, clear_ending("vitspeech train", lambda: "command"):
        try:
            raise FloatingPointError("the loss is NaN at step 3")
        except FloatingPointError:
            sys.exit(1)
    assert ended.value.code == 1 and not capsys.readouterr().err


def test_a_loss_that_is_not_finite_is_not_to_be_resumed():
    with pytest.raises(FloatingPointError, match=r"step 3\. Resuming would .*; start a new run with a lower learning"):
        ending(FloatingPointError("the loss is NaN at step 3"))
