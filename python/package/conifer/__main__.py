"""``python -m conifer``: the command ``conifer``."""

from ._program import main

main()
