"""What tests have in common: the machine that they run on, and threads that end."""

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


#: What the package works with and does not need; None where it is not installed.
numpy = _optional("numpy")
pyarrow = _optional("pyarrow")


def without(name: str) -> str:
    """Why a test is skipped."""
    return f"{name} is not installed"


#: How long anything may take on a machine that is busy with other things, in seconds.
PATIENCE = 60.0

_domain: tombolo.Domain | None = None
_numbers = iter(range(1, 1_000_000))


def domain() -> tombolo.Domain:
    """This program as a domain of the machine that ``TOMBOLO_MACHINE`` names."""
    global _domain
    if _domain is None:
        _domain = tombolo.attach()
    return _domain


def fresh_name(prefix: str) -> str:
    """A name that no other test has."""
    return f"{prefix}-{domain().id:x}-{next(_numbers)}"


def pair(**options: Any) -> tuple[tombolo.Channel, tombolo.Channel]:
    """Both ends of a channel: who connected, and who accepted."""
    name = fresh_name("pair")
    slot_bytes = options.get("slot_bytes")
    interface_hash = options.get("interface_hash", 0)
    with domain().export(name, slot_bytes=slot_bytes, interface_hash=interface_hash) as listener:
        accepting = Task(lambda: listener.accept(PATIENCE))
        connected = domain().connect(name, timeout=PATIENCE, **options)
        return connected, accepting.result()


def eventually(attempt: Callable[[], Any], until_not: type[BaseException]) -> Any:
    """What `attempt` returns once it does not raise that: what others have let go the monitor learns a moment later."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except until_not:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def eventually_raises(error: type[BaseException], attempt: Callable[[], Any]) -> None:
    """Waits until `attempt` raises that: of what has died the monitor learns a moment later."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            attempt()
        except error:
            return
        time.sleep(0.01)
    raise AssertionError(f"{error.__name__} was not raised")


class Task:
    """A function in a thread of its own, with what became of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._outcome: Any = None
        self._error: BaseException | None = None

        def run() -> None:
            try:
                self._outcome = function()
            except BaseException as error:  # noqa: BLE001 - told to whoever asks for the result
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
        return self._outcome


class Peer:
    """Another program of the same machine, which does what it is told: see ``peer.py``."""

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
        """Tells it something that takes until this program does its part."""
        print(json.dumps(code), file=self._child.stdin, flush=True)

    def answer(self) -> str:
        """What came of what was started: a value's ``repr``, or the name of an exception."""
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
