"""A key-value store: the example service of the book.

Written by `tombolo idl compile --lang python` from interfaces/kv.tbl.
"""

from __future__ import annotations

import dataclasses as _dataclasses
import enum as _enum
import typing as _typing

from tombolo import stubs as _stubs

#: The longest key, in bytes.
MAX_KEY = 64

#: The longest value, in bytes.
MAX_VALUE = 2048


class KvError(_enum.IntEnum):
    """Why a call was declined."""

    #: The key does not exist.
    NOT_FOUND = 1

    #: The key does not have the expected version.
    CONFLICT = 2

    #: The store is full.
    FULL = 3


_KvError = _stubs.number(KvError, _stubs.U8, True, False)


@_dataclasses.dataclass
class KvGetReply:
    """The results of a call."""

    value: bytes  # up to 2048 bytes
    version: int  # u64


_KvGetReply = _stubs.record(
    KvGetReply,
    16,
    8,
    False,
    [
        ("value", 0, _stubs.blob(2048)),
        ("version", 8, _stubs.U64),
    ],
)


@_dataclasses.dataclass
class KvPutReply:
    """The results of a call."""

    version: int  # u64


_KvPutReply = _stubs.record(
    KvPutReply,
    8,
    8,
    False,
    [
        ("version", 0, _stubs.U64),
    ],
)


@_dataclasses.dataclass
class KvListReply:
    """The results of a call."""

    keys: _typing.List[str]  # up to 64, each of up to 64 bytes


_KvListReply = _stubs.record(
    KvListReply,
    8,
    8,
    False,
    [
        ("keys", 0, _stubs.sequence(_stubs.text(64), 64)),
    ],
)


@_dataclasses.dataclass
class KvAwaitChangeReply:
    """The results of a call."""

    version: int  # u64


_KvAwaitChangeReply = _stubs.record(
    KvAwaitChangeReply,
    8,
    8,
    False,
    [
        ("version", 0, _stubs.U64),
    ],
)


class KvErrorDeclined(_stubs.Declined):
    """The server declined a call; `error` is a Union[KvError, int]."""

    error: _typing.Union[KvError, int]


_KvGetRequest = _stubs.parameters(
    "KvGetRequest",
    8,
    [
        ("key", 0, _stubs.text(64)),
    ],
)
_Kv_get = _stubs.call(1, "get", _KvGetRequest, _KvGetReply, (_KvError, KvErrorDeclined), idempotent=True)


_KvPutRequest = _stubs.parameters(
    "KvPutRequest",
    32,
    [
        ("key", 0, _stubs.text(64)),
        ("value", 8, _stubs.blob(2048)),
        ("expected", 16, _stubs.optional(_stubs.U64)),
    ],
)
_Kv_put = _stubs.call(2, "put", _KvPutRequest, _KvPutReply, (_KvError, KvErrorDeclined))


_KvListRequest = _stubs.parameters(
    "KvListRequest",
    8,
    [
        ("prefix", 0, _stubs.text(64)),
    ],
)
_Kv_list = _stubs.call(3, "list", _KvListRequest, _KvListReply, idempotent=True)


_KvAwaitChangeRequest = _stubs.parameters(
    "KvAwaitChangeRequest",
    8,
    [
        ("key", 0, _stubs.text(64)),
    ],
)
_Kv_await_change = _stubs.call(
    4,
    "await_change",
    _KvAwaitChangeRequest,
    _KvAwaitChangeReply,
    (_KvError, KvErrorDeclined),
    idempotent=True,
)


_KvForget = _stubs.parameters(
    "KvForget",
    8,
    [
        ("key", 0, _stubs.text(64)),
    ],
)
_Kv_forget = _stubs.message(5, "forget", _KvForget)


_KvChanged = _stubs.parameters(
    "KvChanged",
    16,
    [
        ("key", 0, _stubs.text(64)),
        ("version", 8, _stubs.U64),
    ],
)
_Kv_changed = _stubs.message(6, "changed", _KvChanged)


#: A key-value store.
Kv = _stubs.Interface(
    "tombolo.example.Kv", 1,
    hash=0x07b5d475eb0914df,
    fingerprint=0xe720e3936141ea35,
    capabilities=False,
    buffers=False,
    message_bytes=40,
    served=[_Kv_get, _Kv_put, _Kv_list, _Kv_await_change, _Kv_forget],
    heard=[_Kv_changed],
)


class KvEvents:
    """Handles the one-way messages of the server: override the methods that are needed."""

    def changed(self, key: str, version: int) -> None:
        """A key was set by any client."""


class KvClient(_stubs.Client):
    """A key-value store."""

    INTERFACE = Kv

    def get(self, key: str, *, timeout: _typing.Optional[float] = None) -> KvGetReply:
        """Returns the value of a key and its version: the number of times it was set.

        Raises :class:`KvErrorDeclined`.
        """
        return self._call(_Kv_get, (key,), timeout)

    def start_get(self, key: str, *, timeout: _typing.Optional[float] = None) -> _stubs.Pending[KvGetReply]:
        """Starts the call :meth:`get`, to be waited for later."""
        return _stubs.Pending(self, _Kv_get, (key,), timeout)

    def put(
        self,
        key: str,
        value: _stubs.Buffer,
        expected: _typing.Optional[int] = None,
        *,
        timeout: _typing.Optional[float] = None,
    ) -> KvPutReply:
        """Sets a key and returns its new version. Fails if another version was expected.

        Raises :class:`KvErrorDeclined`.
        """
        return self._call(_Kv_put, (key, value, expected), timeout)

    def start_put(
        self,
        key: str,
        value: _stubs.Buffer,
        expected: _typing.Optional[int] = None,
        *,
        timeout: _typing.Optional[float] = None,
    ) -> _stubs.Pending[KvPutReply]:
        """Starts the call :meth:`put`, to be waited for later."""
        return _stubs.Pending(self, _Kv_put, (key, value, expected), timeout)

    def list(self, prefix: str, *, timeout: _typing.Optional[float] = None) -> KvListReply:
        """Returns up to 64 keys that begin with a prefix."""
        return self._call(_Kv_list, (prefix,), timeout)

    def start_list(self, prefix: str, *, timeout: _typing.Optional[float] = None) -> _stubs.Pending[KvListReply]:
        """Starts the call :meth:`list`, to be waited for later."""
        return _stubs.Pending(self, _Kv_list, (prefix,), timeout)

    def await_change(self, key: str, *, timeout: _typing.Optional[float] = None) -> KvAwaitChangeReply:
        """Waits until a key is set, and returns its new version.

        Raises :class:`KvErrorDeclined`.
        """
        return self._call(_Kv_await_change, (key,), timeout)

    def start_await_change(
        self,
        key: str,
        *,
        timeout: _typing.Optional[float] = None,
    ) -> _stubs.Pending[KvAwaitChangeReply]:
        """Starts the call :meth:`await_change`, to be waited for later."""
        return _stubs.Pending(self, _Kv_await_change, (key,), timeout)

    def forget(self, key: str, *, timeout: _typing.Optional[float] = None) -> None:
        """Deletes a key if it exists. There is no answer."""
        self._tell(_Kv_forget, (key,), timeout)


class KvAsyncClient(_stubs.AsyncClient):
    """A key-value store."""

    INTERFACE = Kv

    async def get(self, key: str, *, timeout: _typing.Optional[float] = None) -> KvGetReply:
        """Returns the value of a key and its version: the number of times it was set.

        Raises :class:`KvErrorDeclined`.
        """
        return await self._call(_Kv_get, (key,), timeout)

    async def put(
        self,
        key: str,
        value: _stubs.Buffer,
        expected: _typing.Optional[int] = None,
        *,
        timeout: _typing.Optional[float] = None,
    ) -> KvPutReply:
        """Sets a key and returns its new version. Fails if another version was expected.

        Raises :class:`KvErrorDeclined`.
        """
        return await self._call(_Kv_put, (key, value, expected), timeout)

    async def list(self, prefix: str, *, timeout: _typing.Optional[float] = None) -> KvListReply:
        """Returns up to 64 keys that begin with a prefix."""
        return await self._call(_Kv_list, (prefix,), timeout)

    async def await_change(self, key: str, *, timeout: _typing.Optional[float] = None) -> KvAwaitChangeReply:
        """Waits until a key is set, and returns its new version.

        Raises :class:`KvErrorDeclined`.
        """
        return await self._call(_Kv_await_change, (key,), timeout)

    async def forget(self, key: str, *, timeout: _typing.Optional[float] = None) -> None:
        """Deletes a key if it exists. There is no answer."""
        await self._tell(_Kv_forget, (key,), timeout)


class KvHandler:
    """Handles requests: override the methods that are served, and raise errors to decline calls."""

    def get(self, key: str) -> _typing.Union[KvGetReply, _stubs.Later]:
        """Returns the value of a key and its version: the number of times it was set.

        Raises :class:`KvErrorDeclined`.
        """
        raise _stubs.Unserved("Kv.get is not served here")

    def put(
        self,
        key: str,
        value: bytes,
        expected: _typing.Optional[int],
    ) -> _typing.Union[KvPutReply, _stubs.Later]:
        """Sets a key and returns its new version. Fails if another version was expected.

        Raises :class:`KvErrorDeclined`.
        """
        raise _stubs.Unserved("Kv.put is not served here")

    def list(self, prefix: str) -> _typing.Union[KvListReply, _stubs.Later]:
        """Returns up to 64 keys that begin with a prefix."""
        raise _stubs.Unserved("Kv.list is not served here")

    def await_change(self, key: str) -> _typing.Union[KvAwaitChangeReply, _stubs.Later]:
        """Waits until a key is set, and returns its new version.

        Raises :class:`KvErrorDeclined`.
        """
        raise _stubs.Unserved("Kv.await_change is not served here")

    def forget(self, key: str) -> None:
        """Deletes a key if it exists. There is no answer."""


class KvAsyncHandler:
    """Handles requests: override the methods that are served, and raise errors to decline calls."""

    async def get(self, key: str) -> KvGetReply:
        """Returns the value of a key and its version: the number of times it was set.

        Raises :class:`KvErrorDeclined`.
        """
        raise _stubs.Unserved("Kv.get is not served here")

    async def put(self, key: str, value: bytes, expected: _typing.Optional[int]) -> KvPutReply:
        """Sets a key and returns its new version. Fails if another version was expected.

        Raises :class:`KvErrorDeclined`.
        """
        raise _stubs.Unserved("Kv.put is not served here")

    async def list(self, prefix: str) -> KvListReply:
        """Returns up to 64 keys that begin with a prefix."""
        raise _stubs.Unserved("Kv.list is not served here")

    async def await_change(self, key: str) -> KvAwaitChangeReply:
        """Waits until a key is set, and returns its new version.

        Raises :class:`KvErrorDeclined`.
        """
        raise _stubs.Unserved("Kv.await_change is not served here")

    async def forget(self, key: str) -> None:
        """Deletes a key if it exists. There is no answer."""


class KvServer(_stubs.Server):
    """The serving end of a channel: passes requests to a handler."""

    INTERFACE = Kv

    def changed(self, key: str, version: int, *, timeout: float = 10.0) -> None:
        """A key was set by any client."""
        self._tell(_Kv_changed, (key, version), timeout)


class KvAsyncServer(_stubs.AsyncServer):
    """The serving end of a channel: passes requests to a handler."""

    INTERFACE = Kv

    async def changed(self, key: str, version: int, *, timeout: float = 10.0) -> None:
        """A key was set by any client."""
        await self._tell(_Kv_changed, (key, version), timeout)
