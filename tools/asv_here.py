"""Puts a commit's package into an environment of asv's, and lets everything else come from the environment around.

python tools/asv_here.py PACKAGE_FOLDER     run by the environment's own Python; see asv.here.json
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

AROUND = "ASV_PACKAGES_OF"
"""Names the environment whose packages are taken; ``.venv`` beside the configuration by default."""


def main() -> None:
    """Copy the package, and name the other environment's packages in a ``.pth`` file, which Python reads after it."""
    package, here = Path(sys.argv[1]), Path(sysconfig.get_path("purelib"))
    around = Path(os.environ.get(AROUND) or Path(os.environ["ASV_CONF_DIR"]) / ".venv")
    packages = around / here.relative_to(sys.prefix)
    if not packages.is_dir():
        sys.exit(f"{packages} is not there; name an environment of Python {sys.version_info[:2]} in {AROUND}")
    shutil.rmtree(here / package.name, ignore_errors=True)
    shutil.copytree(package, here / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    (here / "packages_of_here.pth").write_text(f"{packages}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
