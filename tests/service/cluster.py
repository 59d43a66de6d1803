"""A PostgreSQL server of the tests' own."""

import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import create_engine, text

PLACES = ("", "/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/17/bin")
OWNER = "postgres"


def program(name: str) -> str | None:
    return next((found for place in PLACES if (found := shutil.which(name, path=place or None))), None)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@dataclass(kw_only=True)
class Cluster:
    """A PostgreSQL server of our own, which refuses to run as root and so runs as its packaged user there."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    @property
    def as_user(self) -> dict:
        """Whom the server runs as."""
        return {"user": OWNER, "group": OWNER, "extra_groups": []} if os.getuid() == 0 else {}

    def url(self, name: str) -> str:
        """Address of one of its databases."""
        return f"postgresql+psycopg://{OWNER}@127.0.0.1:{self.port}/{name}"

    def prepare(self) -> None:
        """Make its folder."""
        if os.getuid() == 0:
            shutil.chown(self.folder, OWNER, OWNER)
        command = [program("initdb"), "-D", self.folder / "data", "-U", OWNER, "-A", "trust", "-E", "UTF8"]
        subprocess.run(
            [*command, "--no-sync", "--locale=C"], check=True, capture_output=True, cwd=self.folder, **self.as_user
        )

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [program("postgres"), "-D", self.folder / "data", "-p", str(self.port), "-k", self.folder]
        settings = ("listen_addresses=127.0.0.1", "fsync=off", "max_connections=100", "shared_buffers=64MB")
        options = [part for setting in settings for part in ("-c", setting)]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen([*command, *options], stdout=log, stderr=log, cwd=self.folder, **self.as_user)
        log.close()
        engine = create_engine(self.url("postgres"))
        for _ in range(300):
            try:
                engine.connect().close()
                break
            except Exception:  # noqa: BLE001  (it is starting)
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.1)
        engine.dispose()

    def stop(self) -> None:
        """Stop at once, as a crash would."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(30)
            self.process = None

    def run(self, statement: str) -> None:
        """Run one statement outside of any transaction."""
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()
