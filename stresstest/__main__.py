"""The entry point of ``stresstest`` and ``python -m stresstest``."""

from __future__ import annotations

import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line. A Ctrl-C that comes before its command has begun, during the imports too, ends it
    like any later one."""
    try:
        from stresstest.cli.app import main as run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.stderr.write("\nInterrupted.\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
