"""Shared by the tests: the machine that they run on, threads with a result, and a peer program."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any, Callable

import tombolo


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


#: Optional libraries; None where not installed.
numpy = _optional("numpy")
pyarrow = _optional("pyarrow")


def without(name: str) -> str:
    """Returns the reason for which a test is skipped."""
    return f"{name} is not installed"


#: Timeout in seconds that no operation reaches, even on a busy machine.
PATIENCE = 60.0

_domain: tombolo.Domain | None = None
_numbers = iter(range(1, 1_000_000))


def domain() -> tombolo.Domain:
    """Returns this program's domain on the machine that ``TOMBOLO_MACHINE`` names."""
    global _domain
    if _domain is None:
        _domain = tombolo.attach()
    return _domain


def fresh_name(prefix: str) -> str:
    """Returns a name that no other test uses."""
    return f"{prefix}-{domain().id:x}-{next(_numbers)}"


def pair(**options: Any) -> tuple[tombolo.Channel, tombolo.Channel]:
    """Returns both ends of a channel: the connecting one and the accepting one."""
    name = fresh_name("pair")
    slot_bytes = options.get("slot_bytes")
    interface_hash = options.get("interface_hash", 0)
    with domain().export(name, slot_bytes=slot_bytes, interface_hash=interface_hash) as listener:
        accepting = Task(lambda: listener.accept(PATIENCE))
        connected = domain().connect(name, timeout=PATIENCE, **options)
        return connected, accepting.result()


def eventually(attempt: Callable[[], Any], retried: type[BaseException]) -> Any:
    """Repeats `attempt` while it raises `retried`, as the monitor learns of releases by others with a delay; returns its result."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except retried:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def eventually_raises(error: type[BaseException], attempt: Callable[[], Any]) -> None:
    """Repeats `attempt` until it raises `error`, as the monitor learns of deaths with a delay."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            attempt()
        except error:
            return
        time.sleep(0.01)
    raise AssertionError(f"{error.__name__} was not raised")


class Task:
    """Runs a function in its own thread and keeps its result or exception."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._result: Any = None
        self._error: BaseException | None = None

        def run() -> None:
            try:
                self._result = function()
            except BaseException as error:  # noqa: BLE001 - raised again by result()
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise AssertionError("the thread does not end")
        if self._error is not None:
            raise self._error
        return self._result


class Peer:
    """Another program of the same machine that executes code sent to it: see ``peer.py``."""

    def __init__(self) -> None:
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py")
        pipe = subprocess.PIPE
        self._child = subprocess.Popen([sys.executable, program], stdin=pipe, stdout=pipe, text=True)
        try:
            self.id = int(self("domain.id"))
        except BaseException:
            self.kill()
            raise

    def start(self, code: str) -> None:
        """Sends code without waiting for its answer, because it needs this program's part to finish."""
        print(json.dumps(code), file=self._child.stdin, flush=True)

    def answer(self) -> str:
        """Waits for the answer to `start`: a value's ``repr``, or the name of an exception."""
        line = self._child.stdout.readline()
        if not line:
            raise AssertionError("the peer is gone")
        kind, text = json.loads(line)
        return text if kind == "value" else kind

    def __call__(self, code: str) -> str:
        self.start(code)
        return self.answer()

    def kill(self) -> None:
        self._child.kill()
        self._child.communicate()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
