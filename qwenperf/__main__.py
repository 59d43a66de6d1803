"""``python -m qwenperf``: the command line without an installed script."""

from qwenperf.cli import main

if __name__ == "__main__":
    main()
