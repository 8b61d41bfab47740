"""Files of the host, or of a program that serves files, as Python file objects.

A job started with ``tombolo run --grant PATH`` can open them on any node::

    files = tombolo.attach().files()
    with files.open("web.mtx") as lines:
        print(sum(1 for line in lines))
    with files.open("results/count.bin", "wb") as out:
        out.write(numpy.arange(10))
    numbers = numpy.frombuffer(files.map("numbers.f32"), "float32")
"""

from __future__ import annotations

import io
import os
from typing import Any, NamedTuple, Optional, Union

from ._native import FileService, OpenFile
from .errors import FileEnded

PathLike = Union[str, "os.PathLike[str]"]

#: How much a buffered file reads and writes at once: large enough to hide the latency of a long
#: path to the server.
BUFFER_BYTES = 1 << 20


class FileInfo(NamedTuple):
    """Metadata of a file or folder."""

    is_folder: bool
    #: Whether it was granted for writing.
    writable: bool
    #: In bytes; 0 for a folder.
    length: int
    #: Time of the last change of its content, in nanoseconds since 1970.
    modified_ns: int


class FolderEntry(NamedTuple):
    """An entry of a folder."""

    name: str
    is_folder: bool


class RawFile(io.RawIOBase):
    """An unbuffered open file: each call is a call to the server. Opened by ``files.open(path, mode, buffering=0)``.

    It is a raw file for ``io.BufferedReader`` and the like. In addition, it reads and writes at any offset.
    """

    def __init__(self, file: OpenFile, path: PathLike, mode: str) -> None:
        self._file = file
        self._at = 0
        self.name = path
        self.mode = mode

    def __repr__(self) -> str:
        state = "closed " if self.closed else ""
        return f"<{state}tombolo.files.RawFile name={self.name!r} mode={self.mode!r}>"

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readable(self) -> bool:
        self._check()
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        self._check()
        return self.mode != "rb"

    def seekable(self) -> bool:
        self._check()
        return True

    def _check_mode(self, possible: bool, what: str) -> None:
        if not possible:
            raise io.UnsupportedOperation(f"it was not opened for {what}")

    def readinto(self, target: Any) -> int:
        """Reads at the current position, up to the size of the target."""
        self._check_mode(self.readable(), "reading")
        count = self._file.read_into(self._at, target)
        self._at += count
        return count

    def readall(self) -> bytes:
        """Reads all bytes from the current position."""
        self._check_mode(self.readable(), "reading")
        data = self._file.read_at(self._at, (1 << 63) - 1)
        self._at += len(data)
        return data

    def write(self, data: Any) -> int:
        """Writes all bytes at the current position."""
        self._check_mode(self.writable(), "writing")
        if "a" in self.mode:
            self._at = self._file.length()
        count = self._file.write(self._at, data)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Sets the position and returns it."""
        self._check()
        if whence == io.SEEK_SET:
            at = offset
        elif whence == io.SEEK_CUR:
            at = self._at + offset
        elif whence == io.SEEK_END:
            at = self._file.length() + offset
        else:
            raise ValueError(f"whence is {whence}, not 0, 1 or 2")
        if at < 0:
            raise ValueError(f"position {at} is before the beginning of the file")
        self._at = at
        return at

    def tell(self) -> int:
        """Returns the current position."""
        self._check()
        return self._at

    def truncate(self, size: Optional[int] = None) -> int:
        """Truncates the file to `size`, or to the current position by default, or extends it with zeros."""
        self._check_mode(self.writable(), "writing")
        length = self._at if size is None else size
        if length < 0:
            raise ValueError(f"a length of {length}")
        self._file.set_length(length)
        return length

    def read_at(self, offset: int, length: int) -> bytes:
        """Reads up to `length` bytes at `offset`; fewer only at the end of the file."""
        self._check_mode(self.readable(), "reading")
        return self._file.read_at(offset, length)

    def read_into(self, offset: int, target: Any) -> int:
        """Reads into any writable buffer, such as a numpy array. Returns the number of bytes: fewer only at the end of the file."""
        self._check_mode(self.readable(), "reading")
        return self._file.read_into(offset, target)

    def write_at(self, offset: int, data: Any) -> int:
        """Writes all bytes at `offset`; a gap after the end of the file is filled with zeros."""
        self._check_mode(self.writable(), "writing")
        return self._file.write(offset, data)

    def length(self) -> int:
        """Returns the file's current length, in bytes."""
        self._check()
        return self._file.length()

    def sync(self) -> None:
        """Waits until all writes are on disk."""
        self._check()
        self._file.sync()

    def map(self, offset: int = 0, length: Optional[int] = None) -> "FileMap":
        """Copies a part of the file into memory, to its end by default. See :class:`FileMap`."""
        self._check_mode(self.readable(), "reading")
        if length is None:
            length = max(self._file.length() - offset, 0)
        return FileMap(self, offset, length)

    def close(self) -> None:
        """Closes the file. Closing it again does nothing."""
        if not self.closed:
            super().close()
            self._file.close()


class FileMap(bytearray):
    """A private copy of a part of a file in this program's memory.

    ``numpy.frombuffer(mapped, "float32")`` and ``memoryview(mapped)`` access it without another copy. Changes reach the file with
    :meth:`flush`, or at the end of a ``with`` without an exception, and are lost otherwise. Do not change its size.
    """

    def __init__(self, file: RawFile, offset: int, length: int) -> None:
        super().__init__(length)
        self.file = file
        self.offset = offset
        # Length at creation, to detect changes: only a view would prevent resizing.
        self._length = length
        count = file.read_into(offset, self) if length else 0
        if count < length:
            raise FileEnded(f"{os.fspath(file.name)} ends after {count} of the {length} bytes to be read")

    def flush(self, start: int = 0, end: Optional[int] = None) -> None:
        """Writes back the bytes from `start` to `end`, all by default."""
        if len(self) != self._length:
            raise ValueError(f"{self._length} bytes of the file are {len(self)} by now: write them by themselves")
        with memoryview(self) as whole:
            self.file.write_at(self.offset + start, whole[start : self._length if end is None else end])

    def __enter__(self) -> "FileMap":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and not self.file.closed and self.file.writable():
            self.flush()


class Files:
    """The files that were granted to this program's job, from :meth:`Domain.files`. Threads may share it; operations are serialized.

    Paths are those that the user wrote after ``--grant``, and paths below them.
    """

    def __init__(self, service: FileService) -> None:
        self._service = service

    def open(
        self,
        path: PathLike,
        mode: str = "r",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> Any:
        """Opens a file with the modes of the built-in ``open``: text, or bytes with ``b`` in the mode; buffered, or a
        :class:`RawFile` with ``buffering=0``. Text is UTF-8 by default.
        """
        kind, binary = _parse_mode(mode)
        if binary and (encoding, errors, newline) != (None, None, None):
            raise ValueError("binary mode takes no encoding, errors or newline")
        if buffering == 0 and not binary:
            raise ValueError("text is buffered")
        path = os.fspath(path)
        write = kind != "r"
        opened = self._service.open(path, write, kind[0] in "wa", kind[0] == "x", kind[0] == "w")
        raw = RawFile(opened, path, kind.replace("+", "b+") if "+" in kind else kind + "b")
        try:
            return _wrap_layers(raw, binary, buffering, (encoding, errors, newline))
        except BaseException:
            raw.close()
            raise

    def map(self, path: PathLike, mode: str = "r", offset: int = 0, length: Optional[int] = None) -> FileMap:
        """Copies a file into memory, to its end by default: ``"r"`` to read it, ``"r+"`` to change it. See :class:`FileMap`."""
        if mode not in ("r", "r+"):
            raise ValueError(f"mode {mode!r} is neither 'r' nor 'r+'")
        return self.open(path, mode.replace("r", "rb"), buffering=0).map(offset, length)

    def stat(self, path: PathLike) -> FileInfo:
        """Returns the metadata of a file or folder."""
        return FileInfo(*self._service.stat(os.fspath(path)))

    def list(self, path: PathLike) -> list[FolderEntry]:
        """Lists the entries of a folder, in byte order of their names."""
        return [FolderEntry(*entry) for entry in self._service.list(os.fspath(path))]

    def granted(self) -> list[str]:
        """Lists the granted paths as the user wrote them; they can be opened or listed."""
        return self._service.granted()


def _parse_mode(mode: str) -> tuple[str, bool]:
    """Parses a mode of ``open``: returns it without the text or binary flag, and whether it is binary."""
    letters = sorted(mode)
    kinds = [letter for letter in letters if letter in "rwxa"]
    rest = [letter for letter in letters if letter not in "rwxa"]
    if len(kinds) != 1 or len(set(rest)) != len(rest) or not set(rest) <= set("bt+") or {"b", "t"} <= set(rest):
        raise ValueError(f"invalid mode: {mode!r}")
    return kinds[0] + ("+" if "+" in rest else ""), "b" in rest


def _wrap_layers(raw: RawFile, binary: bool, buffering: int, text: tuple[Any, Any, Any]) -> Any:
    """Wraps a raw file in the layers that ``open`` would use."""
    if buffering == 0:
        return raw
    size = BUFFER_BYTES if buffering in (-1, 1) else buffering
    if raw.readable() and raw.writable():
        buffered: Any = io.BufferedRandom(raw, size)
    else:
        buffered = (io.BufferedWriter if raw.writable() else io.BufferedReader)(raw, size)
    if "a" in raw.mode:
        buffered.seek(0, io.SEEK_END)
    if binary:
        return buffered
    encoding, errors, newline = text
    return io.TextIOWrapper(buffered, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)


__all__ = ["FileInfo", "FileMap", "Files", "FolderEntry", "RawFile"]
