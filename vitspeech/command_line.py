"""What every script does with bad input: one line, an exit status, no traceback."""

import os
import sys
from collections.abc import Callable

BAD_INPUT = (ValueError, OSError, FloatingPointError)


def run(main: Callable[[], None]) -> None:
    """Run a script's `main`; what it says of bad input is printed as one line, with exit status 1.

    With VITSPEECH_TRACEBACK set the traceback is shown instead.
    """
    if os.environ.get("VITSPEECH_TRACEBACK"):
        main()
        return
    try:
        main()
    except BAD_INPUT as error:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {' '.join(str(error).split())}")
    except KeyboardInterrupt:
        sys.exit(130)
