use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tombolo_control::{MonitorMessage, Reply, Request};
use tombolo_link::{Side, TransportKind};
use tombolo_naming::{Answer, Operation as Asked};
use tombolo_platform::socket::{self, SocketKind};

use super::*;
use crate::spawn::Exit;
use crate::testing::{LONG, Monitor, block_on, grant, pair, pair_over};
use crate::waitset::{Ready, WaitSet};

/// Polls a future once, with a waker that has no effect.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

const KINDS: [TransportKind; 2] = [TransportKind::Shm, TransportKind::Socket];

#[test]
fn messages_come_and_go() {
    for kind in KINDS {
        let (mut near, mut far) = pair_over(kind);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = Vec::new();
                for _ in 0..1_000 {
                    far.recv_into(&mut buffer).unwrap();
                    far.send(&buffer).unwrap();
                }
            });
            block_on(assert_send(async {
                let mut buffer = Vec::new();
                for number in 0..1_000_u32 {
                    near.send_async(&number.to_le_bytes()).await.unwrap();
                    near.recv_into_async(&mut buffer).await.unwrap();
                    assert_eq!(buffer, number.to_le_bytes());
                }
            }));
        });
    }
}

#[test]
fn two_ends_of_one_thread_talk() {
    // Through rings that are far smaller than the messages.
    let (mut near, mut far) = pair();
    let message = vec![7; near.max_message_bytes()];
    let sends = async {
        for _ in 0..100 {
            near.send_async(&message).await.unwrap();
        }
    };
    let receives = async {
        let mut buffer = Vec::new();
        for _ in 0..100 {
            far.recv_into_async(&mut buffer).await.unwrap();
            assert_eq!(buffer, message);
        }
    };
    let (mut sends, mut receives) = (Box::pin(sends), Box::pin(receives));
    let (mut sent, mut received) = (false, false);
    block_on(std::future::poll_fn(|context| {
        sent = sent || sends.as_mut().poll(context).is_ready();
        received = received || receives.as_mut().poll(context).is_ready();
        if sent && received { Poll::Ready(()) } else { Poll::Pending }
    }));
}

#[test]
fn a_future_that_is_dropped_loses_nothing() {
    for kind in KINDS {
        let (mut near, mut far) = pair_over(kind);
        let mut buffer = Vec::new();
        for round in 0..50_u8 {
            assert!(poll_once(near.recv_into_async(&mut buffer)).is_pending());
            {
                let mut dropped = pin!(near.recv_into_async(&mut buffer));
                assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                far.send(&[round]).unwrap();
            }
            let received = block_on(near.recv_into_async(&mut buffer));
            assert_eq!((received.unwrap(), buffer.as_slice()), (1, &[round][..]));
        }
        // A send that found no room.
        let message = vec![1; near.max_message_bytes()];
        let mut sent = 0;
        while poll_once(near.send_async(&message)).is_ready() {
            sent += 1;
        }
        let stats = near.stats().messages_sent;
        assert!(poll_once(near.send_async(b"not sent")).is_pending());
        assert_eq!(near.stats().messages_sent, stats);
        for _ in 0..stats {
            far.recv_into(&mut buffer).unwrap();
            assert!(buffer != b"not sent");
            sent -= i32::from(buffer == message).min(sent);
            // Later operations flush what a stream has accepted.
            let _ = poll_once(near.recv_into_async(&mut Vec::new()));
        }
        assert_eq!(sent, 0);
        block_on(near.send_async(b"sent")).unwrap();
        far.recv_into(&mut buffer).unwrap();
        assert_eq!(buffer, b"sent");
    }
}

#[test]
fn deadlines_and_ends_end_a_wait() {
    for kind in KINDS {
        let (mut near, far) = pair_over(kind);
        let mut buffer = Vec::new();
        for timeout in [Duration::ZERO, Duration::from_millis(3)] {
            let result = block_on(near.within(timeout).recv_into_async(&mut buffer));
            assert!(matches!(result, Err(Error::TimedOut { .. })), "{result:?}");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                drop(far);
            });
            let result = block_on(near.recv_into_async(&mut buffer));
            assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
        });
        let result = block_on(near.send_async(b"x"));
        assert!(matches!(result, Err(Error::Closed { .. })), "{result:?}");
    }
}

#[test]
fn sleeping_takes_its_time() {
    let deadline = Deadline::after(Duration::from_millis(3));
    block_on(assert_send(sleep(Duration::from_millis(3)))).unwrap();
    assert!(deadline.passed());
    block_on(sleep(Duration::ZERO)).unwrap();
    assert!(poll_once(sleep(LONG)).is_pending());
}

#[test]
fn monitor_replies_and_notifies() {
    let (domain, monitor) = Monitor::with_domain();
    let (listener, child) = monitor.listener_and_child(&domain);
    let short = Duration::from_millis(2);
    assert!(matches!(block_on(listener.within(short).accept_async()), Err(Error::TimedOut { .. })));
    assert!(poll_once(listener.accept_async()).is_pending());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(short);
            drop(monitor.connect(5).join().unwrap());
            monitor.end_child(child.id(), 4);
            let (request, body) = monitor.next_request();
            assert!(matches!(body, Request::Connect { .. }));
            let (a, b) = socket::pair(SocketKind::Stream).unwrap();
            monitor.send_reply(
                request,
                Reply::Connect { grant: grant(Side::A, TransportKind::Socket) },
                &[&a],
            );
            let (domain, other) = Monitor::with_domain();
            let (request, _) = std::thread::scope(|scope| {
                let connects = scope.spawn(|| block_on(domain.connect_async("x")).map(drop));
                let request = other.next_request();
                let granted = grant(Side::B, TransportKind::Socket);
                other.send_reply(request.0, Reply::Connect { grant: granted }, &[&b]);
                connects.join().unwrap().unwrap();
                request
            });
            assert!(request > 0);
        });
        drop(block_on(assert_send(listener.accept_async())).unwrap());
        assert_eq!(block_on(child.wait_async(LONG)).unwrap(), Exit::Exited { status: 4 });
        assert_eq!(block_on(domain.next_exit_async(LONG)).unwrap().0, child.id());
        let connect = domain.connect_async("name");
        drop(block_on(assert_send(connect)).unwrap());
    });
    // The reply to a dropped future is dropped with what it grants, and the peer is informed.
    assert!(poll_once(domain.connect_async("name")).is_pending());
    let (request, _) = monitor.next_request();
    let (a, b) = socket::pair(SocketKind::Stream).unwrap();
    monitor.send_reply(request, Reply::Connect { grant: grant(Side::A, TransportKind::Shm) }, &[&a]);
    drop(a);
    assert!(matches!(domain.next_exit(short), Err(Error::TimedOut { .. })));
    assert_eq!(
        socket::receive(&b, &mut [0; 8]).unwrap().length,
        1,
        "the peer was not told that there will be no channel"
    );
    assert_eq!(socket::receive(&b, &mut [0; 8]).unwrap().length, 0, "the grant is still held");
    drop(monitor);
    assert!(matches!(block_on(listener.accept_async()), Err(Error::MonitorLost { .. })));
}

/// Returns the messages to the monitor of a future about names that is dropped before, or after, `answer` is
/// read.
fn dropped<T>(question: impl Future<Output = Result<T, Error>>, answer: Answer, heard: bool) -> Vec<Asked>
where
    T: std::fmt::Debug,
{
    QUESTIONS.with(|(domain, monitor)| {
        let mut question = Box::pin(question);
        assert!(poll_once(question.as_mut()).is_pending());
        let (request, asked) = monitor.next_about_names();
        let number = MonitorMessage::number_of(request);
        let say = || monitor.send_reply(request, Reply::Names { origin: None, answer: answer.clone() }, &[]);
        let hear =
            || assert!(matches!(domain.next_exit(Duration::from_millis(1)), Err(Error::TimedOut { .. })));
        let mut all = vec![asked];
        if heard {
            say();
            hear();
        }
        drop(question);
        if !heard {
            say();
            hear();
        }
        // An answer that is awaited arrives after all messages of a dropped future.
        let names = domain.names();
        let mut last = Box::pin(names.delete_async("last"));
        assert!(poll_once(last.as_mut()).is_pending());
        loop {
            let (request, asked) = monitor.next_about_names();
            if request != 0 {
                monitor.send_reply(request, Reply::Names { origin: None, answer: Answer::Done }, &[]);
                assert!(matches!(block_on(last), Err(Error::MonitorProtocol(_))));
                break;
            }
            all.push(if asked == (Asked::Cancel { request: number }) {
                Asked::Cancel { request: 0 }
            } else {
                asked
            });
        }
        all
    })
}

thread_local! {
    static QUESTIONS: (crate::Domain, Monitor) = Monitor::with_domain();
}

#[test]
fn dropped_future_releases_what_it_acquired() {
    let names = QUESTIONS.with(|(domain, _)| domain.names());
    let cancel = Asked::Cancel { request: 0 };
    for heard in [false, true] {
        // The monitor releases these itself when the request is cancelled.
        let lock = names.lock("l").unwrap();
        let all = dropped(assert_send(lock.acquire_async(LONG)), Answer::Locked { token: 3 }, heard);
        assert_eq!(all, [Asked::Lock { name: "l".into(), timeout: LONG }, cancel.clone()]);
        let record = names.wait_for_async("r", LONG);
        let all = dropped(assert_send(record), Answer::Done, heard);
        assert_eq!(all[1..], *std::slice::from_ref(&cancel));
        // These have to be released by the program.
        let watch = names.watch_async("r", crate::names::WatchOptions::default());
        let given = Answer::Watching { watch: 7, records: Vec::new(), next: None };
        let mut all = dropped(assert_send(watch), given, heard);
        all.sort_by_key(|asked| matches!(asked, Asked::Unwatch { .. }));
        assert_eq!(all[1..], [cancel.clone(), Asked::Unwatch { watch: 7 }]);
        let barrier = names.barrier_async("b", 2);
        let mut all = dropped(assert_send(barrier), Answer::Joined { place: 9 }, heard);
        all.sort_by_key(|asked| matches!(asked, Asked::Leave { .. }));
        assert_eq!(all[1..], [cancel.clone(), Asked::Leave { place: 9 }]);
    }
}

#[test]
fn unpolled_future_sends_nothing() {
    let (domain, monitor) = Monitor::with_domain();
    let lock = domain.names().lock("l").unwrap();
    drop(lock.acquire_async(LONG));
    let mut question = Box::pin(lock.acquire_async(LONG));
    assert!(poll_once(question.as_mut()).is_pending());
    let (request, _) = monitor.next_about_names();
    assert_eq!(MonitorMessage::number_of(request), 1);
    monitor.send_reply(request, Reply::Names { origin: None, answer: Answer::Locked { token: 5 } }, &[]);
    let guard = block_on(question).unwrap();
    assert_eq!(guard.fencing_token(), 5);
    // A future that is never polled releases the lock, as dropping the guard does.
    drop(guard.release_async());
    assert_eq!(monitor.next_about_names(), (0, Asked::Unlock { name: "l".into(), token: 5 }));
}

#[test]
fn a_set_is_awaited() {
    let (near, mut far) = pair();
    let mut set = WaitSet::new().unwrap();
    let token = set.add(near).unwrap();
    let short = Duration::from_millis(2);
    assert!(matches!(block_on(set.wait_async(short)), Err(Error::TimedOut { .. })));
    for _ in 0..100 {
        assert!(poll_once(set.wait_async(LONG)).is_pending());
        std::thread::scope(|scope| {
            scope.spawn(|| far.send(b"x").unwrap());
            assert_eq!(block_on(assert_send(set.wait_async(LONG))).unwrap(), Ready::Channel(token));
        });
        set.get_mut(token).unwrap().try_recv_into(&mut Vec::new()).unwrap();
    }
    let timer = set.add_timer(short).unwrap();
    assert_eq!(block_on(set.wait_async(LONG)).unwrap(), Ready::Timer(timer, 1));
}
