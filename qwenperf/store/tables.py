"""The tables of an index, and its statements. An index is made from runs, and made anew rather than mended.

Points lie in the order in which a series is read, so that a window is one stretch of one tree: hence the key. ``at`` is
when the commit was made, or where that is unknown when the run was measured.
"""

from __future__ import annotations

VERSION = 4
"""Of the tables and of what is written into them; another version is left alone, and made anew from the runs.

2: the environments of other tools' runs. 3: which readings they told before.
4: versions of benchmarks.
"""

CREATE = (
    """CREATE TABLE runs (
      id INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL, digest TEXT NOT NULL,
      problem TEXT NOT NULL DEFAULT '', name TEXT NOT NULL DEFAULT '', at REAL NOT NULL DEFAULT 0,
      measured REAL NOT NULL DEFAULT 0, measured_at TEXT NOT NULL DEFAULT '', suite TEXT NOT NULL DEFAULT '',
      sha TEXT NOT NULL DEFAULT '', committed_at TEXT NOT NULL DEFAULT '', branch TEXT NOT NULL DEFAULT '',
      dirty INTEGER NOT NULL DEFAULT 0, environment TEXT NOT NULL DEFAULT '', class TEXT NOT NULL DEFAULT '',
      cases INTEGER NOT NULL DEFAULT 0, interrupted INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX runs_by_name ON runs (name)",
    "CREATE INDEX runs_by_sha ON runs (sha)",
    """CREATE TABLE series (
      id INTEGER PRIMARY KEY, case_id TEXT NOT NULL, metric TEXT NOT NULL, unit TEXT NOT NULL,
      direction TEXT NOT NULL, kind TEXT NOT NULL, version TEXT NOT NULL DEFAULT '',
      UNIQUE (case_id, metric, unit, direction, kind, version))""",
    """CREATE TABLE points (
      series INTEGER NOT NULL, at REAL NOT NULL, measured REAL NOT NULL, run INTEGER NOT NULL, value REAL NOT NULL,
      low REAL, high REAL, coverage REAL, samples INTEGER NOT NULL, trace TEXT,
      reading TEXT, PRIMARY KEY (series, at, measured, run)) WITHOUT ROWID""",
    "CREATE INDEX points_by_reading ON points (series, reading) WHERE reading IS NOT NULL",
)

RUN_COLUMNS = (
    "name", "folder", "at", "measured_at", "suite", "sha", "committed_at", "branch", "dirty", "environment", "class",
    "cases", "interrupted",
)  # fmt: skip
"""In the order of the fields of ``StoredRun``."""

INSERT_RUN = f"""INSERT INTO runs (stamp, digest, measured, {", ".join(RUN_COLUMNS)})
  VALUES ({", ".join("?" * (len(RUN_COLUMNS) + 3))})"""  # noqa: S608  (names of columns, all ours)

INSERT_PROBLEM = "INSERT INTO runs (folder, stamp, digest, problem) VALUES (?, ?, ?, ?)"

_SHAPE = "case_id, metric, unit, direction, kind, version"

INSERT_SERIES = f"INSERT OR IGNORE INTO series ({_SHAPE}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608  (the same)

SERIES = f"SELECT id FROM series WHERE ({_SHAPE}) = (?, ?, ?, ?, ?, ?)"  # noqa: S608  (the same)

INSERT_POINT = "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

DROP_POINTS = """DELETE FROM points WHERE series IN (SELECT id FROM series)
  AND run = ? AND at = ? AND measured = ?"""

DROP_EMPTY_SERIES = """DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM points WHERE points.series = series.id)"""

RUNS = f"""SELECT {", ".join(RUN_COLUMNS)} FROM runs WHERE problem = '' {{conditions}}
  ORDER BY at DESC, measured DESC, name DESC LIMIT ?"""  # noqa: S608  (the same)

POINTS = """SELECT points.series, points.at, points.value, points.low, points.high, points.coverage, points.samples,
    points.trace, runs.name, runs.measured_at, runs.sha, runs.committed_at, runs.branch, runs.environment, runs.class,
    runs.dirty
  FROM points CROSS JOIN runs ON runs.id = points.run
  WHERE points.series IN ({series}) {conditions}
    AND (points.reading IS NULL OR NOT EXISTS (SELECT 1 FROM points AS told
      WHERE told.series = points.series AND told.reading = points.reading
      AND (told.at, told.measured, told.run) < (points.at, points.measured, points.run)))
  ORDER BY points.at DESC, points.measured DESC, runs.name DESC LIMIT ?"""
"""What another tool's file told twice is there once, as it was first told."""

CLASHES = """SELECT runs.name, min(series.case_id), max(series.case_id) FROM points
  JOIN series ON series.id = points.series JOIN runs ON runs.id = points.run
  WHERE points.series IN ({series}) GROUP BY points.run HAVING min(series.case_id) < max(series.case_id) LIMIT 1"""
