"""The files that records are read from: paths of this machine, and addresses that fsspec opens.

`s3://bucket/key`, `gs://`, `https://`, …: whatever has a file system in fsspec. The name of a file is what
the user gave; its label is the name as it may be shown, without the credentials of an address.
"""

from __future__ import annotations

import importlib
import io
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from stresstest.config.credentials.paths import without_keys
from stresstest.errors import UsageError
from stresstest.model.address import clean_url, without_secrets

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")

_BUFFER = 1 << 16
_SILENT = 30
"""Seconds that a web server may be silent; before a file is opened it is asked twice."""
_LONGEST_ANSWER = 55.0
"""Seconds for whatever a file system is asked: some wait without an end, for a server that is silent or sends
a byte a second. A block of 5 MB has time at 100 KB a second."""
_QUERIED = ("http://", "https://")
"""Addresses in which `?` begins a query and is no pattern."""
_WITH_USERINFO = (*_QUERIED, "ftp://", "sftp://", "ssh://", "webdav://", "smb://")
_BARE_PASSWORD = re.compile(r"://[^/\s@:]*:(?!\d{1,5}/)[^@\s]{0,300}[/?#][^@\s]{0,300}@")
"""A password that holds a sign which ends it for most readers of addresses."""
_BUCKETS = ("s3", "s3a", "gs", "gcs")
_NOT_FOUND, _PART, _NO_SUCH_PART = 404, 206, 416
_PATTERN = frozenset("*?[")
_MARKS = (
    "ETag",
    "etag",
    "md5Hash",
    "CRC",
    "mtime",
    "LastModified",
    "Last-Modified",
    "last_modified",
    "updated",
    "created",
)
"""What tells one state of a file from another, the surest first. A listing and a look-up of one file agree on
these, and on nothing else."""


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells one state of a file from another. size: bytes, None where a server does not say; mark: its
    tag, hash or time, "" where it has none."""

    size: int | None
    mark: str


def is_address(name: str) -> bool:
    """Whether the name is an address rather than a path of this machine."""
    return "://" in name


def label(name: str) -> str:
    """The name as it may be shown and written: a signed address keeps its signature to itself, behind a cache
    (`simplecache::https://…`), too, and any address a key in its path."""
    shown = "::".join(
        clean_url(part) if part.lower().startswith(_WITH_USERINFO) else part
        for part in map(without_secrets, name.split("::"))
    )
    return without_keys(shown) if is_address(name) else shown


def expand_names(names: Iterable[str]) -> list[str]:
    """Names, with each pattern in an address replaced by the files that match; the shell expands paths.

    Raises UsageError for a pattern that nothing matches and for file systems that cannot be read.
    """
    found: list[str] = []
    for name in names:
        if not is_address(name) or name.startswith(_QUERIED) or not _PATTERN & set(name):
            found.append(name)
            continue
        try:
            with _os_errors(name):
                system, path = _file_system(name)
                outer = "".join(name.partition("::")[1:])  # of a file within an archive: where that lies
                server = _lost_server(name, path)
                matching = [
                    str(system.unstrip_protocol(each)).replace(":///", f"://{server}/", 1) + outer
                    for each in sorted(system.glob(path))
                ]
        except OSError as error:
            raise UsageError(f"{label(name)} cannot be listed: {error.strerror or error}.") from None
        if not matching:
            raise UsageError(f"No file matches {label(name)}.")
        found += matching
    return found


def _lost_server(name: str, path: str) -> str:
    """The server of an address, with its user, where the path in its file system does not begin with it."""
    rest = name.partition("::")[0].partition("://")[2]
    return "" if path.strip("/") == rest.strip("/") else rest.partition("/")[0]


def file_state(name: str) -> FileState:
    """Size and mark of a file. Raises OSError; UsageError where a library is missing."""
    if not is_address(name):
        about = Path(name).stat()
        return FileState(about.st_size, str(about.st_mtime_ns))
    with _os_errors(name):
        info = _in_time(lambda: _info(name))
    marks = (str(info[key]) for key in _MARKS if info.get(key))
    return FileState(info.get("size"), next(marks, ""))


def is_folder_address(name: str) -> bool:
    """Whether an address ends with a slash or names a bucket alone."""
    if not is_address(name) or name.startswith(_QUERIED):
        return False
    scheme, _, rest = name.partition("://")
    return rest.endswith("/") or (scheme in _BUCKETS and "/" not in rest)


def names_records(reference: str) -> bool:
    """Whether a reference is standard input, a file or an address, and not the name of a run."""
    return reference == "-" or is_address(reference) or Path(reference).is_file()


def open_file(name: str) -> BinaryIO:
    """A file for reading bytes. Raises OSError; UsageError where a library is missing."""
    if not is_address(name):
        return Path(name).open("rb")
    return cast(BinaryIO, io.BufferedReader(_RemoteFile(name), _BUFFER))


class _RemoteFile(io.RawIOBase):
    """A file of fsspec's, whose every error is an OSError without credentials."""

    def __init__(self, name: str) -> None:
        self._name = name
        with _os_errors(name):
            # An archive closes with its file system.
            self._system, self._file = _in_time(lambda: _opened(name))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return getattr(self._file, "size", None) is not None  # a stream says that it is, and is not

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        with _os_errors(self._name):
            return int(_in_time(lambda: self._file.seek(offset, whence)))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        with _os_errors(self._name):
            data = _in_time(lambda: self._file.read(len(view)))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed and hasattr(self, "_file"):
            with _os_errors(self._name):
                self._file.close()
        super().close()


def _info(name: str) -> dict[str, Any]:
    system, path = _file_system(name)
    return dict(system.info(path))


def _opened(name: str) -> tuple[Any, Any]:
    """(the file system, the file)."""
    system, path = _file_system(name)
    file = system.open(path, "rb")
    _limit_parts(file)
    if name.startswith(_QUERIED) and not _gives_parts(file):
        file.close()
        file = system.open(path, "rb", block_size=0)
    return system, file


def _in_time(action: Callable[[], T]) -> T:
    """What a file system gives. Raises what it raises, and TimeoutError where it does not end."""
    answered: Future[T] = Future()

    def act() -> None:
        try:
            answered.set_result(action())
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            answered.set_exception(error)

    # A thread of its own, which nothing waits for when the program ends.
    acting = threading.Thread(target=act, daemon=True)
    acting.start()
    acting.join(_LONGEST_ANSWER)
    if not answered.done():
        raise TimeoutError(f"the server has not answered in {_LONGEST_ANSWER:.0f} s")
    return answered.result()


def _limit_parts(file: Any) -> None:
    """Let the library read no more of a web server's part than was asked for: it reads it whole, and unpacks
    it, whatever its size."""
    from fsspec.asyn import sync
    from fsspec.implementations.http import HTTPFile

    if isinstance(file, HTTPFile):
        file.cache.fetcher = partial(sync, file.loop, _part, file)


async def _part(file: Any, start: int, end: int) -> bytes:
    """These bytes of a file. Raises ValueError for a server that gives more, or no parts."""
    options = dict(file.kwargs)
    headers = {**options.pop("headers", {}), "Range": f"bytes={start}-{end - 1}"}
    asked = await file.session.get(file.fs.encode_url(file.url), headers=headers, **options)
    async with asked as response:
        if response.status == _NO_SUCH_PART:
            return b""
        response.raise_for_status()
        if response.status != _PART and start > 0:
            raise ValueError("the server gives no parts of files")
        found = bytearray()
        async for piece in response.content.iter_chunked(_BUFFER):
            found += piece
            if len(found) > end - start and response.status == _PART:
                raise ValueError("the server gives more of the file than it was asked for")
            if len(found) >= end - start:
                break
    return bytes(found[: end - start])


def _gives_parts(file: Any) -> bool:
    """Whether a web server gives parts of a file that is read in several blocks. Many give it whole or not at
    all, and nothing tells before a part is asked for."""
    size, block = getattr(file, "size", None), getattr(file, "blocksize", None)
    if not size or not block or size <= block:
        return True
    try:
        file.seek(size - 1)
        file.read(1)
    except ValueError:
        return False
    file.seek(0)
    return True


def _file_system(name: str) -> tuple[Any, str]:
    """(the file system, the path in it)."""
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise UsageError(
            f"{label(name)}: reading from an address needs fsspec, which is not installed.",
            hint="Install it with: pip install fsspec",
        ) from None
    try:
        system, path = core.url_to_fs(name, **_timeouts(name))
    except ImportError as error:
        raise UsageError(
            f"{label(name)} cannot be read: the library for this file system is missing ({error})."
        ) from None
    except ValueError as error:
        line = _without_userinfo(" ".join(str(error).split()), name)
        raise UsageError(f"{label(name)} cannot be read: {line}.") from None
    return system, path


def _timeouts(name: str) -> dict[str, Any]:
    """For the client of a web server, which otherwise waits five minutes for one that is silent."""
    if not name.startswith(_QUERIED):
        return {}
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=_SILENT, sock_read=_SILENT)}}


def _without_userinfo(text: str, name: str) -> str:
    """A library's sentence without the user and password of an address, which it may take for a bucket. Of a
    password that nobody has encoded, it may quote any part."""
    if any(map(_BARE_PASSWORD.search, name.split("::"))):
        return "its user or password holds a sign that addresses use: write / as %2F, ? as %3F and # as %23"
    for link in name.split("::"):
        userinfo, at, _ = link.partition("://")[2].partition("/")[0].rpartition("@")
        password = userinfo.partition(":")[2]
        if password:
            text = text.replace(userinfo + at, "").replace(password, "…")
    return without_secrets(text)


def _why_not_found(error: FileNotFoundError) -> str:
    """Why there is no file: fsspec says so of a web server's every refusal, and of its silence."""
    cause: BaseException | None = error
    while cause is not None:
        status = getattr(cause, "status", None)
        if isinstance(cause, TimeoutError):
            return f"the server has not answered for {_SILENT} s"
        if isinstance(status, int) and status != _NOT_FOUND:
            return f"the server refuses it with HTTP {status}"
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            return "the server cannot be reached"
        cause = cause.__cause__
    return "No such file"


@contextmanager
def _os_errors(name: str) -> Iterator[None]:
    """Whatever the library of a file system raises becomes an OSError of one line, without credentials."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001  each file system has exceptions of its own
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        line = _without_userinfo(said.strip().splitlines()[0].replace(name, label(name)), name)
        if isinstance(error, FileNotFoundError):
            line = _why_not_found(error)
        raise OSError(line[:200]) from None
