"""The operations on files of runs and comparisons, and on the uploads that they come by."""

from __future__ import annotations

from qwenperf.service.api import uploads
from qwenperf.service.api.operations import PREFIX, Operation, Parameter, many, named, text, thing, whole
from qwenperf.service.db.files import Kind

_PROJECT = f"{PREFIX}/projects/{{project}}"
_UPLOAD = f"{_PROJECT}/uploads/{{upload}}"
_FILE = thing(path=text(maxLength=400), sha256=text(pattern="^[0-9a-f]{64}$"), size=whole(minimum=0))
_OFFSET = Parameter(
    name=uploads.OFFSET, schema=whole(minimum=0), about="Offset of the first byte sent.", place="header", required=True
)
_RANGE = Parameter(name="Range", schema=text(), about="`bytes=FIRST-LAST`.", place="header")


def _of(kind: Kind, name: str) -> tuple[Operation, ...]:
    """Return the operations on files of runs or comparisons; ``name`` is in their ids."""
    place = f"{_PROJECT}/{kind}s/{{{kind}}}/files"
    return (
        Operation(
            id=f"list{name}s", method="GET", path=place, handler=uploads.list_files, scope="read",
            about=f"Files of a {kind}.", answers={200: thing(files=many(named("File")))},
        ),
        Operation(
            id=f"announce{name}", method="POST", path=place, handler=uploads.announce, scope="push",
            about=f"Announce a file of a {kind}; the answer says where to send it, and from which byte on.",
            body=_FILE, answers={200: named("Upload"), 201: named("Upload")}, problems=(409, 413, 415, 422),
        ),
        Operation(
            id=f"get{name}", method="GET", path=f"{place}/{{path}}", handler=uploads.read_file, scope="read",
            about=f"A file of a {kind}, or a range of its bytes.", parameters=(_RANGE,),
            answers={200: "application/octet-stream", 206: "application/octet-stream"}, problems=(416,),
        ),
    )  # fmt: skip


FILES = (
    *_of("run", "File"),
    *_of("comparison", "ComparisonFile"),
    Operation(
        id="getUpload", method="GET", path=_UPLOAD, handler=uploads.show_upload, scope="push",
        about="How far an upload has come.", answers={200: named("Upload")},
    ),
    Operation(
        id="appendToUpload", method="PATCH", path=_UPLOAD, handler=uploads.append, scope="push",
        about="Send bytes from an offset on. With the last one the file is checked, and there.",
        parameters=(_OFFSET,), body="application/octet-stream", answers={200: named("Upload")},
        problems=(409, 413, 422),
    ),
    Operation(
        id="dropUpload", method="DELETE", path=_UPLOAD, handler=uploads.give_up, scope="push",
        about="Give an upload up.", answers={204: None},
    ),
)  # fmt: skip
