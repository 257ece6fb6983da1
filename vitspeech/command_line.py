"""What every script does with bad input: one line, an exit status, no traceback."""

import os
import sys
import warnings
from collections.abc import Callable

BAD_INPUT = (ValueError, OSError, FloatingPointError)


def run(main: Callable[[], None]) -> None:
    """Run a script's `main`; what it says of bad input is printed as one line, with exit status 1.

    A warning is one line, too. With VITSPEECH_TRACEBACK set the traceback is shown instead.
    """
    script = os.path.basename(sys.argv[0])
    usual = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"{script}: warning: {' '.join(str(message).split())}\n"
    if os.environ.get("VITSPEECH_TRACEBACK"):
        main()
        return
    try:
        main()
    except BAD_INPUT as error:
        sys.exit(f"{script}: {' '.join(str(error).split())}")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        warnings.formatwarning = usual
