"""``python -m stresstest``."""

from stresstest.cli.main import main

main()
