"""``python -m stresstest``."""

from stresstest.cli.app import main

main()
