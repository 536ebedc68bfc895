"""``python -m harmonicalign.cli``."""

from harmonicalign.cli import main

main()
