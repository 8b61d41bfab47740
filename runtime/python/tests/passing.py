"""Rights in messages: copied, moved, several, none; and those that are refused."""

from __future__ import annotations

import tombolo
from tombolo import Right, Rights

PATIENCE = 100.0
LENGTH = 8192
#: Number of refused calls of each client.
REFUSED = 4


def expect(what, actual, expected):
    """Exits the program if the peer did not send the expected value."""
    if actual != expected:
        raise SystemExit(f"{what}: {actual!r}, not {expected!r}")


def pattern(seed):
    """Returns test bytes that depend on their position."""
    return bytes((at * 31 ^ at >> 8 ^ seed) & 0xFF for at in range(LENGTH))


def byte_sum(capability):
    """Returns the sum of all bytes of the memory."""
    with capability.map(Rights.READ) as mapping:
        return sum(mapping.read())


def serve(rights, domain, channel):
    """Serves one client."""

    class Adder(rights.RightsHandler):
        def __init__(self):
            self.client = channel.far_end
            self.notice = None

        def _add(self, right):
            with domain.accept(self.client, right) as capability:
                return byte_sum(capability)

        def pass_(self, endpoint, region, any, parts):
            # The region outlives this program's right because a copy of the right goes back.
            with domain.accept(self.client, region) as taken:
                number = byte_sum(taken)
                for right in [any, *parts]:
                    number += 0 if right is None else self._add(right)
                back = tombolo.Capability.copy_to(taken, self.client, Rights.READ)
            self.notice = endpoint, number
            return rights.RightsPassReply(number, back)

    handler = Adder()
    with rights.RightsServer(channel, handler) as server:
        try:
            while server.serve_one(PATIENCE):
                if handler.notice is not None:
                    endpoint, number = handler.notice
                    handler.notice = None
                    with domain.connect_to(endpoint, timeout=PATIENCE) as channel_back:
                        channel_back.send(number.to_bytes(8, "little"), PATIENCE)
        except tombolo.PeerGone:
            pass
        expect("calls that were refused", server.counts["refused"], REFUSED)


def call(rights, domain, name, window):
    """Calls one server. The memory is in the window of node `window`, or of this kernel if None."""

    def create_filled(seed):
        region = domain.create_region(LENGTH, node=window, window=window is not None)
        with region.map() as mapping:
            mapping.write(0, pattern(seed))
        return region

    with rights.RightsClient.connect(domain, name, timeout=PATIENCE) as client, domain.listen() as listener:
        server, endpoint = client.far_end, listener.endpoint

        def ask(region, any=None, parts=()):
            return client.pass_(endpoint, region, any, parts, timeout=PATIENCE)

        def expect_refused(what, *words):
            try:
                ask(*words)
            except tombolo.RightRefused:
                return
            raise SystemExit(f"{what} was not refused")

        lent = create_filled(1)
        half = lent.derive((LENGTH // 2, LENGTH // 2), Rights.READ | Rights.GRANT)
        for with_any, count in ((True, 4), (False, 0), (False, 1)):
            region = create_filled(2).move_to(server)
            any = tombolo.Capability.copy_to(lent, server, Rights.READ) if with_any else None
            parts = [half.copy_to(server, Rights.READ) for _ in range(count)]
            expected = sum(pattern(2)) + with_any * sum(pattern(1)) + count * sum(pattern(1)[LENGTH // 2 :])
            reply = ask(region, any, parts)
            expect("the sum", reply.sum, expected)
            with domain.accept(server, reply.back) as back:
                expect("what came back", (byte_sum(back), back.rights), (sum(pattern(2)), Rights.READ))
            with listener.accept(PATIENCE) as channel:
                expect("what the endpoint was told", channel.receive(PATIENCE), expected.to_bytes(8, "little"))
        expect_refused("a right that was taken up", region)
        returned = create_filled(3).move_to(server)
        with domain.take_back(returned) as fresh:
            expect_refused("a right that was taken back", returned)
            expect_refused("a right that was never granted", Right(fresh.id, 2, True))
        revoked = half.copy_to(server, Rights.READ)
        half.revoke(PATIENCE)
        expect_refused("a right that was revoked", create_filled(4).move_to(server), revoked)
        half.close()
        lent.close()


BUFFER_BYTES = 65536
LENGTHS = (8, 4096, BUFFER_BYTES - 8, BUFFER_BYTES)
#: Number of refused calls of each client that passes buffers.
REFUSED_BUFFERS = 3


def content(seed, length):
    """Returns test bytes of a buffer."""
    return bytes((at * 31 ^ at >> 8 ^ seed) & 0xFF for at in range(length))


def serve_buffers(rights, domain, channel):
    """Serves one client."""
    transfers = channel.open_bulk(domain, timeout=PATIENCE)

    class Adder(rights.BuffersHandler):
        def pass_(self, given, lent):
            number, back = 0, None
            for index, right in enumerate(given):
                buffer = transfers.claim(right, 0)
                number += sum(buffer.read())
                if index == 0:
                    back = buffer
                else:
                    buffer.close()
            if lent is not None:
                shared = transfers.claim(lent, 0)
                number += sum(shared.read())
                shared.close()
            return rights.BuffersPassReply(number, None if back is None else transfers.move_to(back, PATIENCE))

    with rights.BuffersServer(channel, Adder()) as server:
        server.serve()
        expect("calls that were refused", server.counts["refused"], REFUSED_BUFFERS)
    transfers.close()


def call_buffers(rights, domain, name, window):
    """Calls one server. The pool is in the window of node `window`, or in memory of this kernel if None."""
    channel = domain.connect(name, interface_hash=rights.BuffersClient.INTERFACE.hash, timeout=PATIENCE)
    pool = domain.create_pool(BUFFER_BYTES, 6, reachable_from=window)
    transfers = channel.open_bulk(domain, [pool], timeout=PATIENCE)

    def create_filled(seed, length):
        buffer = pool.take()
        buffer.write(content(seed, length))
        buffer.set_part(0, length)
        return buffer

    with rights.BuffersClient(channel, timeout=PATIENCE) as client:

        def expect_refused(what, right):
            try:
                client.pass_([right], None)
            except tombolo.RightRefused:
                return
            raise SystemExit(f"{what} was not refused")

        for count in (0, 1, 4, 2, 4, 4):
            expected = sum(content(9, 128)) + sum(sum(content(seed, LENGTHS[seed])) for seed in range(count))
            given = transfers.move_to([create_filled(seed, LENGTHS[seed]) for seed in range(count)]) if count else []
            lent, kept = transfers.share(create_filled(9, 128))
            reply = client.pass_(given, lent)
            expect("the sum", reply.sum, expected)
            expect("whether one came back", reply.back is not None, count > 0)
            if reply.back is not None:
                back = transfers.claim(reply.back, PATIENCE)
                expect("what came back", back.read(), content(0, LENGTHS[0]))
                back.close()
                claimed = given[0]
            kept.close()
        expect_refused("a buffer that was claimed", claimed)
        expect_refused("a buffer that was never sent", claimed._replace(object=claimed.object ^ 0x40000000))
        lent, kept = transfers.share(create_filled(1, 64))
        expect_refused("a buffer that was lent", lent.given_away())
        kept.close()
    transfers.close()
