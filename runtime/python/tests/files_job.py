"""Files that a job was granted, in Python: ``data`` to read, ``out`` to write. Run by the tests of whole machines."""

from __future__ import annotations

import io
import os

import tombolo
from support import numpy
from tombolo.files import BUFFER_BYTES, RawFile


def expect(what, actual, expected):
    """Exits the program if a value is not the expected one."""
    if actual != expected:
        raise SystemExit(f"{what}: {actual!r}, not {expected!r}")


def expect_raises(kind, attempt, *words):
    """Exits the program if `attempt` does not raise `kind` with the words in its text."""
    try:
        attempt()
    except kind as error:
        expect(f"{error!r} says it", [word for word in words if word not in str(error)], [])
        return
    raise SystemExit(f"not refused with {kind.__name__}")


def pattern(length):
    """Returns test bytes that depend on their position."""
    return bytes((at * 31 ^ at >> 8) & 0xFF for at in range(length))


def read_all(files, path):
    """Returns all bytes of a file."""
    with files.open(path, "rb") as file:
        return file.read()


def look(files):
    """Lists, and attributes of files."""
    expect("granted", files.granted(), ["data/", "out/"])
    names = [(entry.name, entry.is_folder) for entry in files.list("data")]
    expect("list", names, [("below", True), ("hello", False), ("île", False)])
    info = files.stat("data/hello")
    expect("stat", (info.is_folder, info.writable, info.length), (False, False, 27))
    assert info.modified_ns > 1_500_000_000 * 10**9
    expect("a folder", (files.stat("out").is_folder, files.stat("out").writable), (True, True))


def read(files):
    """Text, bytes, lines, positions."""
    with files.open("data/hello") as text:
        expect("lines", list(text), ["hello from the host\n", "zwölf\n"])
    with files.open("data/hello", encoding="latin-1") as text:
        expect("another encoding", text.read()[-7:], "zwÃ¶lf\n")
    with files.open("data/île", "rb", buffering=0) as raw:
        assert isinstance(raw, RawFile) and raw.readable() and not raw.writable() and raw.seekable()
        expect("the end", raw.seek(-3, io.SEEK_END), 5)
        expect("what is there", (raw.readall(), raw.tell(), raw.read(10)), (b"fgh", 8, b""))
        expect("anywhere", (raw.read_at(2, 3), raw.read_at(100, 3), raw.length()), (b"cde", b"", 8))
        into = bytearray(10)
        expect("into", (raw.read_into(6, into), bytes(into[:3])), (2, b"gh\0"))
        expect_raises(ValueError, lambda: raw.seek(-1), "before the beginning")
        expect_raises(io.UnsupportedOperation, lambda: raw.write(b"x"))
    expect_raises(ValueError, lambda: raw.read(1), "closed")
    raw.close()


def write(files):
    """Writes more than all buffers hold, in parts and at once, and reads it again."""
    content = pattern(3 * BUFFER_BYTES + 77)
    with files.open("out/large", "wb") as out:
        expect("at once", out.write(content[:1000]), 1000)
        out.write(memoryview(content)[1000:])
    with files.open("out/large", "rb") as again:
        assert isinstance(again, io.BufferedReader)
        assert again.read() == content, "what was written is read"
        again.seek(BUFFER_BYTES - 5)
        expect("across a buffer", again.read(10), content[BUFFER_BYTES - 5 : BUFFER_BYTES + 5])
    with files.open("out/large", "r+b") as both:
        both.seek(10)
        both.write(b"changed")
        both.seek(8)
        expect("read behind it", both.read(11), content[8:10] + b"changed" + content[17:19])
        expect("cut", both.truncate(100), 100)
    expect("its length", files.stat("out/large").length, 100)
    with files.open("out/large", "ab") as more:
        more.write(b"more")
    expect("added", read_all(files, "out/large")[-6:], content[98:100] + b"more")
    with files.open("out/text", "x") as text:
        print("größte Insel", file=text)
    expect("text", read_all(files, "out/text"), "größte Insel\n".encode())
    expect_raises(FileExistsError, lambda: files.open("out/text", "x"), "it is there already")
    with files.open("out/text", "wb", buffering=0) as raw:
        raw.write_at(5, b"x")
        raw.sync()
    expect("zeros between", read_all(files, "out/text"), b"\0\0\0\0\0x")


def bring(files):
    """Maps: read in place, changed and written back."""
    numbers = list(range(1000))
    with files.open("out/numbers", "wb") as out:
        out.write(b"".join(number.to_bytes(4, "little") for number in numbers))
    mapped = files.map("out/numbers", "r+")
    with memoryview(mapped).cast("I") as view:
        expect("numbers", (len(view), sum(view)), (1000, sum(numbers)))
    if numpy is not None:
        array = numpy.frombuffer(mapped, "uint32")
        assert array.base is mapped or numpy.shares_memory(array, numpy.frombuffer(mapped, "uint8"))
        expect("an array", int(array.sum()), sum(numbers))
        array[7] = 70000
        del array
    else:
        mapped[28:32] = (70000).to_bytes(4, "little")
    mapped.flush(28, 32)
    with files.map("out/numbers", "r+", offset=4, length=8) as part:
        expect("a part", bytes(part), b"\1\0\0\0\2\0\0\0")
        part[0] = 99
    expect("written back", files.map("out/numbers")[:8], b"\0\0\0\0" + b"\x63\0\0\0")
    expect("the changed one", int.from_bytes(files.map("out/numbers", offset=28, length=4), "little"), 70000)
    expect_raises(tombolo.FileEnded, lambda: files.map("out/numbers", offset=3999, length=2), "ends after 1 of the 2")
    expect("none of it", len(files.map("out/numbers", offset=5000)), 0)
    read_only = files.map("data/hello")
    read_only[0] = 0
    expect_raises(io.UnsupportedOperation, read_only.flush)


def refusals(files):
    """Refused operations, some of them with Python's own exceptions."""
    expect_raises(FileNotFoundError, lambda: files.open("data/none"), "data/none", "no such file")
    expect_raises(PermissionError, lambda: files.open("data/hello", "w"), "for reading only")
    expect_raises(PermissionError, lambda: files.open("secret"), "not granted")
    expect_raises(PermissionError, lambda: files.open("data/../secret"))
    expect_raises(IsADirectoryError, lambda: files.open("data/below"))
    expect_raises(NotADirectoryError, lambda: files.list("data/hello"))
    expect_raises(tombolo.NotGranted, lambda: files.stat("/etc/passwd"))
    expect_raises(tombolo.FileError, lambda: files.open("data/hello", "r+b"))
    for mode in ("", "q", "rw", "rbt", "r++", "b"):
        expect_raises(ValueError, lambda mode=mode: files.open("data/hello", mode), "invalid mode")
    expect_raises(ValueError, lambda: files.open("data/hello", "rb", encoding="utf-8"))
    expect_raises(ValueError, lambda: files.open("data/hello", buffering=0))
    expect_raises(tombolo.Error, lambda: tombolo.attach().files(buffers=1), "choose 2 to 64")
    expect_raises(tombolo.NotGranted, lambda: tombolo.attach().files(name="nobody", timeout=1))


def main():
    """Runs every part."""
    domain = tombolo.attach()
    files = domain.files()
    for part in (look, read, write, bring, refusals):
        part(files)
        print(part.__name__, flush=True)
    small = domain.files(buffer_bytes=4096, buffers=2, timeout=30)
    small_content = pattern(100_000)
    with small.open("out/small", "wb") as out:
        out.write(small_content)
    assert read_all(small, "out/small") == small_content, "through little memory"
    for name in ("large", "text", "numbers", "small"):
        # Files cannot be removed from here; the test removes them.
        with small.open(f"out/{name}", "wb"):
            pass
    print("all of it on", domain.node_name, os.uname().machine)


if __name__ == "__main__":
    main()
