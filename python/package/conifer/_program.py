"""The command ``conifer``: the program in Rust, in the process of the interpreter."""

from __future__ import annotations

import signal
import sys

from . import _conifer


def main() -> None:
    """Run the command line of the process and exit with its status."""
    # Ctrl-C must end the program at once: Python would only notice it after the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_conifer.run(sys.argv))
