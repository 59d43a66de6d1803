"""Compiled programs in a file, so that a later process of the same code on the same machine compiles nothing.

    magic line, SHA-256 of all that follows (32 bytes), length of the header (8 bytes), header (JSON), payloads

Such a file is code: loading it runs what is in it. Load only files that you wrote, from a folder that nobody else
writes to: the hash tells a damaged file, not a forged one. Nothing in it is unpickled before the hash, the
environment, the engine and the hash of each program's text have been compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable

from qwenperf.decode import stamp
from qwenperf.decode.plan import Planned
from qwenperf.decode.process import compile_cache_is_on
from qwenperf.decode.programs import Built
from qwenperf.errors import ExecutablesError, OutputError

MAGIC = b"qwenperf executables 1\n"
_DIGEST, _LENGTH = 32, 8
_ENTRY = {"name": str, "key": list, "text": str, "bytes": int}
"""What the header tells of a program."""


def save(path: Path, planned: Sequence[Planned], code: Mapping[str, Any]) -> None:
    """Write the executables of ``planned``, compiling those that are missing, whole or not at all.

    Raises:
      ExecutablesError: this platform's executables, or one of these, cannot be saved; or they may have come from the
        persistent compilation cache.
      OutputError: ``path`` cannot be written.
    """
    if compile_cache_is_on():
        # On CPU such a program is saved without its functions, loads, and fails in its first call.
        raise ExecutablesError(
            "JAX's persistent compilation cache is on, and a program that came from it cannot be saved whole.",
            advice="Save them in a process without JAX_COMPILATION_CACHE_DIR.",
        )
    entries, payloads = [], []
    for program in planned:
        built = program.build()
        payload = _serialized(program.name, built)
        text = stamp.text_hash(built.lowered)
        entries.append({"name": program.name, "key": list(program.key), "text": text, "bytes": len(payload)})
        payloads.append(payload)
    header = json.dumps({"environment": stamp.environment(), "code": code, "programs": entries}).encode()
    body = b"".join((len(header).to_bytes(_LENGTH, "big"), header, *payloads))
    _write(path, MAGIC + hashlib.sha256(body).digest() + body)


def load(path: Path, planned: Sequence[Planned], code: Mapping[str, Any]) -> None:
    """Give each function of ``planned`` its executable from ``path``; nothing is compiled.

    Raises:
      ExecutablesError: no such file, a damaged one, or one that was made elsewhere or from other code; names the
        fields that differ. No function has been given anything then.
    """
    header, payloads = _read(path)
    _check(path, "environment", header["environment"], stamp.environment())
    _check(path, "engine", header["code"], json.loads(json.dumps(code)))
    # All texts are compared before the first payload is touched.
    found = [(program, *_found(path, program, header["programs"])) for program in planned]
    loaded = []
    for program, entry, lowered in found:
        payload = payloads[entry["start"] : entry["start"] + entry["bytes"]]
        loaded.append((program, Built(lowered=lowered, compiled=_deserialized(path, payload, lowered))))
    for program, built in loaded:
        program.call.executables.built[program.key] = built


def _found(
    path: Path, program: Planned, entries: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], jax.stages.Lowered]:
    """Return a program's entry, and the program as it is lowered here, to the same text."""
    same = [entry for entry in entries if (entry["name"], tuple(entry["key"])) == (program.name, program.key)]
    if not same:
        known = ", ".join(f"{entry['name']} for {entry['key']}" for entry in entries)
        raise ExecutablesError(f"{path} has no {program.name} for {list(program.key)}; it has {known}.")
    lowered = program.lower()
    if stamp.text_hash(lowered) != same[0]["text"]:
        raise ExecutablesError(f"{path} is of other code: the text of {program.name} {list(program.key)} differs.")
    return same[0], lowered


def _serialized(name: str, built: Built) -> bytes:
    try:
        payload: bytes = serialize_executable.serialize(built.compiled)[0]
    except (NotImplementedError, ValueError, jax.errors.JaxRuntimeError) as error:
        raise ExecutablesError(
            f"{name} cannot be saved: {error}.", advice="Use start=declared, which compiles at the start."
        ) from error
    return payload


def _deserialized(path: Path, payload: bytes, lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    # The trees come from the program as it is lowered here, so that they need not be in the file.
    devices = jax.devices()[:1]
    try:
        compiled: jax.stages.Compiled = serialize_executable.deserialize_and_load(
            payload, lowered.in_tree, lowered.out_tree, execution_devices=devices
        )
    except Exception as error:  # unpickling raises whatever a payload makes it raise
        raise ExecutablesError(f"{path} cannot be loaded: {type(error).__name__}: {error}.") from error
    return compiled


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the header, and the payloads with it telling where each starts; the hash holds."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ExecutablesError(f"{path} cannot be read: {_why(error)}.") from error
    if not content.startswith(MAGIC):
        raise ExecutablesError(f"{path} is no file of saved executables, or one of another version of them.")
    digest, body = content[len(MAGIC) :][:_DIGEST], content[len(MAGIC) + _DIGEST :]
    if hashlib.sha256(body).digest() != digest:
        raise ExecutablesError(f"{path} is cut short or damaged: its hash differs.")
    end = _LENGTH + int.from_bytes(body[:_LENGTH], "big")
    header, payloads = _header(path, body[_LENGTH:end]), body[end:]
    start = 0
    for entry in header["programs"]:
        entry["start"], start = start, start + entry["bytes"]
    if start != len(payloads):
        raise ExecutablesError(f"{path} has {len(payloads)} bytes of programs where its header tells of {start}.")
    return header, payloads


def _header(path: Path, text: bytes) -> dict[str, Any]:
    """Return the header, with all that is read of it there and of its kind."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExecutablesError(f"{path} has a header that is no JSON: {error}.") from error
    if not isinstance(header, dict):
        raise ExecutablesError(f"{path} has a header that is no object.")
    for name, kind in (("environment", dict), ("code", dict), ("programs", list)):
        if not isinstance(header.get(name), kind):
            raise ExecutablesError(f"{path} has a header without {name}, or with one that cannot be read.")
    for index, entry in enumerate(header["programs"]):
        if not isinstance(entry, dict) or [type(entry.get(name)) for name in _ENTRY] != list(_ENTRY.values()):
            raise ExecutablesError(f"{path} has a header whose program {index} is not told by {', '.join(_ENTRY)}.")
        if entry["bytes"] < 0:
            raise ExecutablesError(f"{path} has a header whose program {index} has {entry['bytes']} bytes.")
    return header


def _check(path: Path, what: str, saved: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    try:
        found = list(stamp.differences(saved, here))
    except TypeError as error:
        raise ExecutablesError(f"{path} has a header whose {what} cannot be compared: {error}.") from error
    if found:
        raise ExecutablesError(f"{path} was made for another {what}: {'; '.join(found)}.")


def _write(path: Path, content: bytes) -> None:
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except (OSError, ValueError) as error:
        told = f"{path} cannot be written: {_why(error)}."
        raise OutputError(told, advice="Give a writable place.") from error


def _why(error: OSError | ValueError) -> str:
    """Say why a path cannot be used: one with a null byte is a ValueError."""
    return getattr(error, "strerror", None) or str(error)
