"""The command line; see `harmonicalign.adapters.cli`."""

from harmonicalign.adapters.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
