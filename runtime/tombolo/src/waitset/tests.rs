use std::os::fd::AsFd;
use std::time::Duration;

use tombolo_link::TransportKind;
use tombolo_platform::event::{eventfd, poll, signal};

use super::*;
use crate::spawn::Exit;
use crate::testing::{LONG, Monitor, pair, pair_over};

fn nothing(set: &mut WaitSet) -> bool {
    matches!(set.wait(Duration::ZERO), Err(Error::TimedOut { .. }))
}

#[test]
fn waitset_reports_every_kind_of_event() {
    let (domain, monitor) = Monitor::with_domain();
    let mut set = WaitSet::new().unwrap();
    let (listener, child) = monitor.listener_and_child(&domain);
    let listening = set.add_listener(&listener).unwrap();
    let childs = set.add_child(&child).unwrap();
    assert!(nothing(&mut set));

    let far = [monitor.connect(5), monitor.connect(5)];
    for left in [1, 0] {
        assert_eq!(set.wait(LONG).unwrap(), Ready::Listener(listening));
        assert_eq!(set.wait(LONG).unwrap(), Ready::Listener(listening), "it was not taken");
        set.add(listener.accept().unwrap()).unwrap();
        assert_eq!(set.channels(), 2 - left);
    }
    assert!(nothing(&mut set));
    let mut far = far.map(|far| far.join().unwrap());
    far[1].try_send(b"hello").unwrap();
    let ready = set.wait(LONG).unwrap();
    let Ready::Channel(token) = ready else { panic!("{ready:?}") };
    assert_eq!(ready.token(), Some(token));
    let mut message = Vec::new();
    assert_eq!(set.get_mut(token).unwrap().try_recv_into(&mut message).unwrap(), Some(5));
    set.try_send(token, &message).unwrap();
    far[1].recv_into(&mut message).unwrap();

    monitor.end_child(child.id(), 3);
    assert_eq!(set.wait(LONG).unwrap(), Ready::Child(childs));
    assert!(nothing(&mut set), "an end is told once");
    assert_eq!(child.wait(Duration::ZERO).unwrap(), Exit::Exited { status: 3 });

    drop(monitor);
    assert_eq!(set.wait(LONG).unwrap(), Ready::Listener(listening));
    assert!(matches!(listener.accept(), Err(Error::MonitorLost { .. })));
    set.remove(listening);
    assert!(nothing(&mut set));
    assert_eq!(set.get(token).unwrap().peer_node(), "host");
}

#[test]
fn events_read_by_other_threads_are_reported() {
    let (domain, monitor) = Monitor::with_domain();
    let listener = std::thread::scope(|scope| {
        scope.spawn(|| monitor.export(9));
        domain.export("name").unwrap()
    });
    let mut set = WaitSet::new().unwrap();
    let token = set.add_listener(&listener).unwrap();
    assert!(nothing(&mut set));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Reads and drops what arrives.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = domain.next_exit(Duration::from_millis(2));
            }
        });
        for _ in 0..200 {
            let far = monitor.connect(9);
            assert_eq!(set.wait(LONG).unwrap(), Ready::Listener(token));
            drop(listener.accept().unwrap());
            drop(far.join().unwrap());
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn listener_or_set_may_be_dropped_first() {
    let (domain, monitor) = Monitor::with_domain();
    let listener = std::thread::scope(|scope| {
        scope.spawn(|| monitor.export(2));
        domain.export("name").unwrap()
    });
    let mut set = WaitSet::new().unwrap();
    let token = set.add_listener(&listener).unwrap();
    let other = set.add_listener(&listener).unwrap();
    drop(listener);
    drop(monitor.connect(2));
    assert!(nothing(&mut set));
    assert!(set.remove(token).is_none() && set.remove(other).is_none());
    assert!(set.watched.is_empty(), "the connection is watched though nothing needs it");
    drop((set, domain));
}

#[test]
fn errors_name_the_channel_and_the_peer() {
    let mut set = WaitSet::new().unwrap();
    for transport in [TransportKind::Shm, TransportKind::Socket] {
        let (near, far) = pair_over(transport);
        let token = set.add(near).unwrap();
        let too_long = vec![0; 1 << 20];
        assert!(matches!(set.try_send(token, &too_long), Err(Error::TooLong { .. })));
        drop(far);
        assert_eq!(set.wait(LONG).unwrap(), Ready::Channel(token));
        let ended = set.get_mut(token).unwrap().try_recv_into(&mut Vec::new());
        assert!(matches!(ended, Err(Error::Closed { node, .. }) if node == "host"));
        set.remove(token).unwrap();
        assert!(matches!(set.try_send(token, b"x"), Err(Error::Os { .. })));
    }
    let error = set.wait(Duration::from_millis(1)).unwrap_err();
    assert!(error.to_string().contains("waitset"), "{error}");
}

/// State of a server for one client.
struct Client {
    channel: Channel,
    name: &'static str,
}

impl Waited for Client {
    type End = Channel;

    fn end(&self) -> &Channel {
        &self.channel
    }

    fn end_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

#[test]
fn set_stores_and_returns_members() {
    let (channel, mut far) = pair();
    let mut client = Client { channel, name: "first" };
    let mut set = WaitSet::new().unwrap();
    let token = set.add(&mut client).unwrap();
    far.try_send(b"hello").unwrap();
    assert_eq!(set.wait(LONG).unwrap(), Ready::Channel(token));
    assert_eq!(set[token].name, "first");
    set[token].channel.recv_into(&mut Vec::new()).unwrap();
    set.remove(token).unwrap();
    drop(set);
    client.channel.send(b"still open").unwrap();
    far.recv_into(&mut Vec::new()).unwrap();
    // It can be added again, also to another set.
    let mut set = WaitSet::new().unwrap();
    let token = set.add(client).unwrap();
    drop(far);
    assert_eq!(set.wait(LONG).unwrap(), Ready::Channel(token));
    assert_eq!(set.remove(token).unwrap().name, "first");
}

#[test]
#[should_panic(expected = "a token of a channel")]
fn a_token_that_is_out_of_date_panics_as_an_index() {
    let mut set: WaitSet = WaitSet::new().unwrap();
    let timer = set.add_timer(LONG).unwrap();
    let _ = &set[timer];
}

#[test]
fn timers_descriptors_and_wakers() {
    let mut set = WaitSet::new().unwrap();
    let counter = eventfd().unwrap();
    let descriptor = set.add_descriptor(&counter, Interest::Read, Trigger::Edge).unwrap();
    let timer = set.add_timer(Duration::from_millis(1)).unwrap();
    assert_eq!(set.wait(LONG).unwrap(), Ready::Timer(timer, 1));
    assert!(!set.reset_timer(timer, Duration::ZERO));
    let deadline = set.add_timer(Duration::ZERO).unwrap();
    assert!(set.reset_timer(deadline, LONG));
    let interval = set.add_interval(Duration::from_millis(1)).unwrap();
    assert!(matches!(set.wait(LONG).unwrap(), Ready::Timer(token, _) if token == interval));
    set.remove(interval);
    signal(&counter).unwrap();
    assert!(
        matches!(set.wait(LONG).unwrap(), Ready::Descriptor(token, ready) if token == descriptor && ready.readable)
    );
    let waker = set.waker();
    std::thread::scope(|scope| {
        scope.spawn(move || waker.wake());
        assert_eq!(set.wait(LONG).unwrap(), Ready::Woken);
    });
    assert!(nothing(&mut set));
}

#[test]
fn an_event_loop_can_poll_a_set_with_listeners() {
    let (domain, monitor) = Monitor::with_domain();
    let listener = std::thread::scope(|scope| {
        scope.spawn(|| monitor.export(1));
        domain.export("name").unwrap()
    });
    let mut set = WaitSet::new().unwrap();
    set.set_spin_ns(0);
    let token = set.add_listener(&listener).unwrap();
    let readable = |set: &WaitSet, timeout| {
        poll(&[(set.as_fd(), Interest::Read)], Some(Deadline::after(timeout))).unwrap()[0].readable
    };
    assert!(readable(&set, Duration::ZERO), "it has to be waited for once");
    while !nothing(&mut set) {}
    assert!(!readable(&set, Duration::ZERO));
    let far = monitor.connect(1);
    assert!(readable(&set, LONG));
    assert_eq!(set.wait(Duration::ZERO).unwrap(), Ready::Listener(token));
    drop(listener.accept().unwrap());
    drop(far.join().unwrap());
    let (near, mut far) = pair();
    let channel = set.add(near).unwrap();
    while !nothing(&mut set) {}
    far.try_send(b"x").unwrap();
    assert!(readable(&set, LONG));
    assert_eq!(set.wait(Duration::ZERO).unwrap(), Ready::Channel(channel));
}
