"""Groups of members in one program, each with a thread."""

import os
import unittest

import tombolo
from support import PATIENCE, Task, domain
from tombolo.groups import Group, Joined, Left, Message


def group_name(suffix):
    return f"py-groups/{os.getpid()}/{suffix}"


def join_group(group, **options):
    """Joins a group whose other members receive meanwhile."""
    return Group.join(domain(), group, timeout=PATIENCE, **options)


def run_while_receiving(first, function):
    """Runs a function while a member receives; returns its result and the events that the member received."""
    task, events = Task(function), []
    while task.is_running():
        event = first.try_recv()
        events += [event] if event is not None else []
    return task.result(), events


def join_second(test, first):
    """Joins the group of `first` as a second member."""
    second, events = run_while_receiving(first, lambda: join_group(first.name))
    test.assertEqual(events or [first.recv(PATIENCE)], [Joined(second.id)])
    return second


class Groups(unittest.TestCase):
    def test_members_receive_messages_joins_and_leaves(self):
        with join_group(group_name("two")) as first:
            self.assertEqual(first.recv(), Joined(first.id))
            second = join_second(self, first)
            self.assertEqual([peer.member for peer in first.peers], [second.id])
            self.assertEqual(second.peers[0].node, domain().node_name)
            self.assertGreater(second.id, first.id)
            self.assertEqual([second.recv(), second.recv()], [Joined(first.id), Joined(second.id)])
            first.broadcast(b"ready")
            self.assertTrue(first.try_broadcast(bytearray(5000)))
            received, _ = run_while_receiving(first, lambda: [second.recv(PATIENCE), second.recv(PATIENCE)])
            _, events = run_while_receiving(second, lambda: first.flush(PATIENCE))
            self.assertEqual(events, [])
            self.assertEqual(received, [Message(first.id, b"ready"), Message(first.id, bytes(5000))])
            self.assertIsNone(second.try_recv())
            _, events = run_while_receiving(first, lambda: second.leave(PATIENCE))
            self.assertEqual(events or [first.recv(PATIENCE)], [Left(second.id, False)])
            second.leave()
            self.assertRaises(tombolo.Closed, second.recv)
            self.assertRaises(tombolo.Closed, second.broadcast, b"")

    def test_total_order_includes_own_messages(self):
        with join_group(group_name("total"), total_order=True) as one:
            self.assertEqual(one.recv(), Joined(one.id))
            one.broadcast(b"mine")
            self.assertEqual(one.recv(PATIENCE), Message(one.id, b"mine"))

    def test_closed_member_is_reported(self):
        with join_group(group_name("closes")) as first:
            self.assertEqual(first.recv(), Joined(first.id))
            join_second(self, first).close()
            self.assertIsInstance(first.recv(PATIENCE), Left)

    def test_mistakes_are_refused(self):
        with join_group(group_name("mistakes"), max_message_bytes=64) as first:
            first.recv()
            self.assertRaises(tombolo.TooLong, first.broadcast, bytes(65))
            self.assertRaises(TypeError, first.broadcast, "text")
            self.assertRaises(tombolo.WouldBlock, first.recv, 0)
            self.assertRaises(tombolo.TimedOut, first.recv, 0.01)
            self.assertRaises(tombolo.InvalidArgument, first.recv, -1)
            self.assertRaises(tombolo.Refused, run_while_receiving, first, lambda: join_group(first.name, max_message_bytes=65))
        self.assertRaises(tombolo.InvalidArgument, join_group, group_name("mistakes"), fan_out=0)
        self.assertRaises(TypeError, join_group, group_name("mistakes"), fans=1)
        self.assertRaises(tombolo.BadName, join_group, "no name")
