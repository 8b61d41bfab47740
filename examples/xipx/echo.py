#!/usr/bin/env python3
"""Programs that use a message device without any library, through its socket.

    tombolo xipx --on host,arm0                    in another terminal
    echo.py ADDRESS answer CHANNEL                 answers everything that comes to a channel of that node
    echo.py ADDRESS ask NODE CHANNEL WORDS         sends words to a channel of a node, and prints the answer

ADDRESS is what `tombolo xipx` prints for the node that the program runs on, such as
@tombolo-xipx/1000/default/xipx/host. The bytes are described in docs/specs/xipx.md.
"""

import socket
import struct
import sys

NO_NODE = ANY_CHANNEL = 0xFFFF
OPENED, SENT = 0, 1


class Device:
    """A channel of a node's device."""

    def __init__(self, address, channel=ANY_CHANNEL):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(address.replace("@", "\0", 1))
        self.waiting = []
        self._write(NO_NODE, channel, b"")
        self.node, self.nodes, self.channel, _, self.max_bytes = struct.unpack("<4HI", self._answer(OPENED))

    def send(self, node, channel, message):
        self._write(node, channel, message)
        self._answer(SENT)

    def receive(self):
        """A message: source node, source channel, bytes."""
        if self.waiting:
            return self.waiting.pop(0)
        node, channel, payload = self._read()
        if node == NO_NODE:
            raise OSError(payload.decode())
        return node, channel, payload

    def _write(self, node, channel, payload):
        self.socket.sendall(struct.pack("<2HI", node, channel, len(payload)) + payload)

    def _answer(self, expected):
        while True:
            node, code, payload = self._read()
            if node != NO_NODE:
                self.waiting.append((node, code, payload))
            elif code == expected:
                return payload
            else:
                raise OSError(payload.decode())

    def _read(self):
        node, channel, length = struct.unpack("<2HI", self._read_bytes(8))
        return node, channel, self._read_bytes(length)

    def _read_bytes(self, length):
        parts = b""
        while len(parts) < length:
            part = self.socket.recv(length - len(parts))
            if not part:
                raise EOFError("the message device has ended")
            parts += part
        return parts


def main(address, role, *words):
    if role == "answer":
        device = Device(address, int(words[0]))
        print(f"channel {device.channel} of node {device.node} of {device.nodes}", flush=True)
        while True:
            node, channel, message = device.receive()
            device.send(node, channel, message)
            if message == b"stop":
                return
    device = Device(address)
    device.send(int(words[0]), int(words[1]), words[2].encode())
    node, channel, message = device.receive()
    print(f"{message.decode()} (channel {channel} of node {node})")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] not in ("answer", "ask") or len(sys.argv) != 4 + 2 * (sys.argv[2] == "ask"):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except (OSError, EOFError) as error:
        sys.exit(f"error: {error}")
