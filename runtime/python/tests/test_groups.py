"""Groups of members in one program, each with a thread."""

import os
import unittest

import tombolo
from support import PATIENCE, Task, domain
from tombolo.groups import Group, Joined, Left, Message


def name(what):
    return f"py-groups/{os.getpid()}/{what}"


def member(group, **options):
    """Joins beside members that take part meanwhile."""
    return Group.join(domain(), group, timeout=PATIENCE, **options)


def beside(first, function):
    """What a function returns that needs the first member to take part, and what the first took meanwhile."""
    task, events = Task(function), []
    while task.is_running():
        event = first.try_recv()
        events += [event] if event is not None else []
    return task.result(), events


def joined_beside(test, first):
    """A second member, which the first takes in."""
    second, events = beside(first, lambda: member(first.name))
    test.assertEqual(events or [first.recv(PATIENCE)], [Joined(second.id)])
    return second


class Groups(unittest.TestCase):
    def test_members_take_what_others_broadcast_and_hear_who_joins_and_leaves(self):
        with member(name("two")) as first:
            self.assertEqual(first.recv(), Joined(first.id))
            second = joined_beside(self, first)
            self.assertEqual([peer.member for peer in first.peers], [second.id])
            self.assertEqual(second.peers[0].node, domain().node_name)
            self.assertGreater(second.id, first.id)
            self.assertEqual([second.recv(), second.recv()], [Joined(first.id), Joined(second.id)])
            first.broadcast(b"ready")
            self.assertTrue(first.try_broadcast(bytearray(5000)))
            taken, _ = beside(first, lambda: [second.recv(PATIENCE), second.recv(PATIENCE)])
            _, events = beside(second, lambda: first.flush(PATIENCE))
            self.assertEqual(events, [])
            self.assertEqual(taken, [Message(first.id, b"ready"), Message(first.id, bytes(5000))])
            self.assertIsNone(second.try_recv())
            _, events = beside(first, lambda: second.leave(PATIENCE))
            self.assertEqual(events or [first.recv(PATIENCE)], [Left(second.id, False)])
            second.leave()
            self.assertRaises(tombolo.Closed, second.recv)
            self.assertRaises(tombolo.Closed, second.broadcast, b"")

    def test_with_a_total_order_members_take_their_own(self):
        with member(name("total"), total_order=True) as one:
            self.assertEqual(one.recv(), Joined(one.id))
            one.broadcast(b"mine")
            self.assertEqual(one.recv(PATIENCE), Message(one.id, b"mine"))

    def test_a_member_that_closes_is_heard_of(self):
        with member(name("closes")) as first:
            self.assertEqual(first.recv(), Joined(first.id))
            joined_beside(self, first).close()
            self.assertIsInstance(first.recv(PATIENCE), Left)

    def test_mistakes_are_refused(self):
        with member(name("mistakes"), max_message_bytes=64) as first:
            first.recv()
            self.assertRaises(tombolo.TooLong, first.broadcast, bytes(65))
            self.assertRaises(TypeError, first.broadcast, "text")
            self.assertRaises(tombolo.WouldBlock, first.recv, 0)
            self.assertRaises(tombolo.TimedOut, first.recv, 0.01)
            self.assertRaises(tombolo.InvalidArgument, first.recv, -1)
            self.assertRaises(tombolo.Refused, beside, first, lambda: member(first.name, max_message_bytes=65))
        self.assertRaises(tombolo.InvalidArgument, member, name("mistakes"), fan_out=0)
        self.assertRaises(TypeError, member, name("mistakes"), fans=1)
        self.assertRaises(tombolo.BadName, member, "no name")
