"""Tasks: functions that a program starts on any node, as Go starts goroutines.

A program registers functions and calls :meth:`Functions.run_worker` before it does anything else. A starter has workers, further
instances of that program on nodes of its choice::

    import tombolo
    from tombolo.tasks import Functions, Tasks

    functions = Functions()

    @functions.register("square", "u64", "u64")
    async def square(context, number):
        return number * number

    if __name__ == "__main__":
        functions.run_worker()
        with Tasks(tombolo.attach(), "host:2") as tasks:
            started = [tasks.go(square, number) for number in range(100)]
            print(sum(task.join() for task in started))

* A function is identified by its name and the types of its argument and result, which are types of hub values: ``u64``, ``text``,
  ``(u64, text)`` for a tuple. Starters and workers may be programs in Rust, C and Python.
* A worker runs its tasks in one asyncio event loop: a task that awaits something, a hub say (:attr:`Context.hubs`), lets others run.
* A task ends once: with its result, or with ``TaskFailed`` and the text of its exception, ``TaskLost`` when its worker died,
  ``TaskCancelled``, or ``TaskRefused`` when its worker has no such function. The tasks of a dead worker are not retried.
"""

from __future__ import annotations

import asyncio
import collections.abc
import os
import struct
import sys
import time
from types import TracebackType
from typing import Any, Awaitable, Callable, Generator, NamedTuple, Optional, Sequence, TypeVar, Union

from . import _native
from ._native import DEFAULT_TIMEOUT, Domain, EmploymentEnd, JoinEnd, TasksEnd, attach
from .errors import Closed, TaskRefused, TimedOut
from .hubs import AsyncTask, _codec

_Self = TypeVar("_Self", bound="Tasks")

#: Body of a task: a coroutine function, or a function that does not wait.
Body = Callable[["Context", Any], Union[Any, Awaitable[Any]]]

_CONVERSION_ERRORS = (struct.error, UnicodeError, TypeError, ValueError, AttributeError)


class Function:
    """Identity of a function that tasks run: its name and the types of its argument and result."""

    def __init__(self, name: str, argument: str = "unit", result: str = "unit") -> None:
        self.name, self.argument, self.result = name, argument, result
        self.number = _native.function_number((name, argument, result))
        self._argument, self._result = _codec(argument), _codec(result)

    def __repr__(self) -> str:
        return f"<tombolo.tasks.Function {self.name}({self.argument}) -> {self.result}>"

    @property
    def _signature(self) -> tuple[str, str, str]:
        return self.name, self.argument, self.result

    def _encode(self, argument: Any) -> bytes:
        try:
            return self._argument.encode(argument)
        except _CONVERSION_ERRORS as error:
            raise TaskRefused(
                f"{argument!r} is not an argument of task {self.name!r}, whose type is '{self.argument}': {error}"
            ) from None

    def _decode(self, result: bytes) -> Any:
        try:
            return self._result.decode(result)
        except _CONVERSION_ERRORS as error:
            raise TaskRefused(
                f"the result of task {self.name!r} is not a value of its type '{self.result}': {error}"
            ) from None


class Join:
    """A started task. ``await`` it in an event loop, such as a worker's. If this is dropped, the task continues."""

    def __init__(self, end: JoinEnd, function: Function, flush: Callable[[], None] = lambda: None) -> None:
        self._end, self._function, self._flush = end, function, flush

    def __repr__(self) -> str:
        return f"<tombolo.tasks.Join of {self._function!r}>"

    def join(self, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """Waits for the task's result, once."""
        return self._function._decode(self._end.wait(timeout))

    def cancel(self) -> None:
        """Cancels the task: at once if it has not begun, otherwise at its next await. Tasks that it has started continue."""
        self._end.cancel()
        self._flush()

    def __await__(self) -> Generator[Any, None, Any]:
        return self.ended().__await__()

    async def ended(self, timeout: float = DEFAULT_TIMEOUT) -> Any:
        """As :meth:`join`, in an event loop."""
        loop = asyncio.get_running_loop()
        changed: asyncio.Future[None] = loop.create_future()

        def on_change() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: changed.done() or changed.set_result(None))

        result = self._end.poll(on_change)
        if result is None:
            try:
                await asyncio.wait_for(changed, None if timeout == float("inf") else timeout)
            except asyncio.TimeoutError:
                raise TimedOut(f"task {self._function.name!r} has not ended in {timeout} s; wait longer, or cancel it") from None
            result = self._end.poll(on_change)
        if result is None:
            raise TimedOut(f"task {self._function.name!r} was waited for twice")
        return self._function._decode(result[0])


class Worker(NamedTuple):
    """A worker of :class:`Tasks`."""

    node: str
    #: Number of tasks that have ended on it.
    ended: int
    #: Number of its current tasks, including waiting ones.
    tasks: int
    alive: bool


class Tasks:
    """The workers of a program, and the tasks on them. :meth:`end`, or the end of a ``with``, ends the workers and cancels running
    tasks.

    `on` lists their nodes, as ``--on`` of ``tombolo run``: ``host:2,arm0``. `program` is a file and its arguments: an image, or an
    executable for each node's instruction set. The default is this script, run by this interpreter.
    """

    def __init__(
        self, domain: Domain, on: str, program: Optional[Sequence[str]] = None, environment: Optional[dict[str, str]] = None
    ) -> None:
        if program is None:
            program = [sys.executable, os.path.abspath(sys.argv[0])]
            path = os.environ.get("PYTHONPATH")
            environment = {**({} if path is None else {"PYTHONPATH": path}), **(environment or {})}
        self._end = TasksEnd(domain, on, list(program), dict(environment or {}))

    def go(self, function: Function, argument: Any = None, node: Optional[str] = None) -> Join:
        """Starts a task on a worker of `node`, or of any node. The task runs when a worker asks for it."""
        return Join(self._end.go(function._signature, function._encode(argument), node), function)

    @property
    def workers(self) -> list[Worker]:
        """Current state of each worker."""
        return [Worker(*worker) for worker in self._end.workers()]

    def end(self) -> None:
        """Ends the workers."""
        self._end.end()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Context:
    """A task's access to its worker."""

    def __init__(self, domain: Domain, employment: EmploymentEnd) -> None:
        self._domain, self._employment = domain, employment
        self._hubs: Optional[AsyncTask] = None

    @property
    def domain(self) -> Domain:
        """The worker's domain."""
        return self._domain

    @property
    def node_name(self) -> str:
        """The name of the worker's node."""
        return self._domain.node_name

    @property
    def hubs(self) -> AsyncTask:
        """The ``AsyncTask`` through which all tasks of the worker use hubs. The worker owns the resources locked with it: to lock one
        against other tasks of the same worker, create a separate ``AsyncTask``.
        """
        if self._hubs is None:
            self._hubs = AsyncTask(self._domain)
        return self._hubs

    def go(self, function: Function, argument: Any = None, node: Optional[str] = None) -> Join:
        """Starts a task on a worker of `node`, or on any worker, this one included."""
        end = self._employment.go(function._signature, function._encode(argument), node)
        return Join(end, function, self._employment.flush)


class Functions:
    """The functions of a program that tasks can run."""

    def __init__(self) -> None:
        self._bodies: dict[int, tuple[Function, Body]] = {}

    def register(self, name: str, argument: str = "unit", result: str = "unit") -> Callable[[Body], Function]:
        """Registers the decorated function, which is called with a :class:`Context` and its argument. Replaces it by the
        :class:`Function` that tasks are started with.
        """

        def add(body: Body) -> Function:
            function = Function(name, argument, result)
            self._bodies[function.number] = function, body
            return function

        return add

    def run_worker(self) -> None:
        """Runs tasks until the starter ends and then exits, if this program was started as a worker. Otherwise does nothing."""
        if _native.is_worker():
            asyncio.run(_Worker(self._bodies).run())
            sys.exit(0)


class _TaskCoroutine(collections.abc.Coroutine[Any, Any, Any]):
    """The coroutine of a task: reports how long it ran to its worker when it first waits, or ends."""

    def __init__(self, coroutine: collections.abc.Coroutine[Any, Any, Any], release: Callable[[float], None]) -> None:
        self._coroutine, self._release = coroutine, release
        self._unreported = True

    def _step(self, step: Callable[..., Any], *values: Any) -> Any:
        start = time.perf_counter()
        try:
            awaited = step(*values)
        except BaseException:
            self._report_run(start)
            raise
        # A coroutine that only yields to others (`sleep(0)`) yields None: that is not a wait.
        if awaited is not None:
            self._report_run(start)
        return awaited

    def _report_run(self, start: float) -> None:
        if self._unreported:
            self._unreported = False
            self._release(time.perf_counter() - start)

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, *values: Any) -> Any:
        return self._step(self._coroutine.throw, *values)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()


class _Worker:
    """Runs a starter's tasks in the event loop."""

    def __init__(self, bodies: dict[int, tuple[Function, Body]]) -> None:
        self._bodies = bodies
        self._tasks: dict[int, asyncio.Task[Any]] = {}

    async def run(self) -> None:
        domain = attach()
        try:
            self._end = EmploymentEnd(domain)
        except Closed:
            return
        self._context = Context(domain, self._end)
        loop = asyncio.get_running_loop()
        self._finished: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._end.fileno(), self._process_instructions)
        loop.call_soon(self._process_instructions)
        try:
            await self._finished
        finally:
            loop.remove_reader(self._end.fileno())

    def _fail(self, error: BaseException) -> None:
        if self._finished.done():
            return
        if isinstance(error, Closed):
            self._finished.set_result(None)
        else:
            self._finished.set_exception(error)

    def _process_instructions(self) -> None:
        try:
            while True:
                instruction = self._end.next()
                if instruction is not None:
                    self._handle_instruction(*instruction)
                    continue
                self._end.flush()
                if not self._end.hear():
                    return
        except Exception as error:
            self._fail(error)

    def _handle_instruction(self, task: int, number: Optional[int], argument: bytes) -> None:
        if number is None:
            running = self._tasks.get(task)
            if running is not None:
                running.cancel()
            return
        function, body = self._bodies.get(number, (None, None))
        if function is None or body is None:
            self._refuse(task, "unknown")
            return
        try:
            value = function._argument.decode(argument)
        except _CONVERSION_ERRORS:
            self._refuse(task, "argument")
            return
        coroutine = _TaskCoroutine(self._run(body, value), self._release)
        started = asyncio.get_running_loop().create_task(coroutine)
        self._tasks[task] = started
        started.add_done_callback(lambda ended: self._ended(task, function, ended))

    async def _run(self, body: Body, value: Any) -> Any:
        result = body(self._context, value)
        return await result if isinstance(result, collections.abc.Awaitable) else result

    def _release(self, seconds: float) -> None:
        try:
            self._end.released(seconds)
        except Exception as error:
            self._fail(error)

    def _refuse(self, task: int, how: str) -> None:
        self._end.failed(task, how, "")
        self._release(0.0)

    def _ended(self, task: int, function: Function, ended: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        try:
            if ended.cancelled():
                self._end.failed(task, "cancelled", "")
                return
            error = ended.exception()
            if error is not None:
                self._end.failed(task, "exception", f"{type(error).__name__}: {error}")
                return
            try:
                result = function._result.encode(ended.result())
            except _CONVERSION_ERRORS as wrong:
                text = f"it returned {ended.result()!r}, which is not a value of its type '{function.result}': {wrong}"
                self._end.failed(task, "exception", text)
                return
            self._end.returned(task, result)
        except Exception as lost:
            self._fail(lost)


__all__ = ["Context", "Function", "Functions", "Join", "Tasks", "Worker"]
