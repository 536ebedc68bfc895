"""``python -m harmonicalign.cli``."""

from harmonicalign.adapters.cli import main

main()
