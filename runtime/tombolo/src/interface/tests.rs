//! Calls over channels.

use tombolo_interfaces::kv::{
    Kv, KvAwaitChange, KvAwaitChangeReply, KvAwaitChangeRequest, KvAwaitChangeRequestView, KvClient, KvError,
    KvForget, KvForgetView, KvGet, KvGetReply, KvGetRequest, KvGetRequestView, KvHandler, KvList,
    KvListReply, KvListRequestView, KvPut, KvPutReply, KvPutRequest, KvPutRequestView, KvServer,
};
use tombolo_interfaces::rights::{BuffersClient, BuffersServer, RightsClient, RightsServer};

use std::future::Future;
use std::task::{Context, Waker};

use super::*;
use crate::testing::{LONG, block_on, pair_over};

/// Holds one value.
#[derive(Default)]
struct One {
    value: Vec<u8>,
    version: u64,
}

impl KvHandler for One {
    fn get<'s>(
        &'s mut self,
        _: Later<KvGet>,
        _: KvGetRequestView<'_>,
    ) -> Result<KvGetReply<'s>, Decline<KvError>> {
        Ok(KvGetReply { value: &self.value, version: self.version })
    }

    fn put(
        &mut self,
        _: Later<KvPut>,
        request: KvPutRequestView<'_>,
    ) -> Result<KvPutReply, Decline<KvError>> {
        self.value = request.value()?.to_vec();
        self.version += 1;
        Ok(KvPutReply { version: self.version })
    }

    fn list<'s>(
        &'s mut self,
        _: Later<KvList>,
        _: KvListRequestView<'_>,
    ) -> Result<KvListReply<'s>, Decline<Never>> {
        Err(Decline::Unserved)
    }

    fn await_change(
        &mut self,
        _: Later<KvAwaitChange>,
        _: KvAwaitChangeRequestView<'_>,
    ) -> Result<KvAwaitChangeReply, Decline<KvError>> {
        Err(Decline::Error(KvError::FULL))
    }

    fn forget(&mut self, _: KvForgetView<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Serves until the client is gone.
fn serve(channel: Channel) -> u64 {
    let mut server = KvServer::bind(channel).unwrap();
    let mut one = One::default();
    while server.serve_one(&mut one, LONG).is_ok_and(|came| came) {}
    one.version
}

#[test]
fn calls_pass_over_every_kind_of_channel() {
    for transport in [TransportKind::Shm, TransportKind::Socket] {
        let (a, b) = pair_over(transport);
        let serving = std::thread::spawn(move || serve(b));
        let mut client = KvClient::bind(a, ()).unwrap();
        for round in 1..=100_u64 {
            // Lengths that end within words and slots.
            let value = vec![round as u8; (round * 19) as usize];
            let put = KvPutRequest { key: "k", value: &value, expected: None };
            let version = client.put(&put, LONG, |answer| answer.expect("no error").version());
            assert_eq!(version.unwrap(), round);
            let read = client.get(&KvGetRequest { key: "k" }, LONG, |answer| {
                let reply = answer.expect("no error");
                Ok((reply.value()?.to_vec(), reply.version()?))
            });
            assert_eq!(read.unwrap(), (value, round));
        }
        drop(client);
        assert_eq!(serving.join().unwrap(), 100);
    }
}

#[test]
fn the_end_of_the_server_is_the_end_of_a_call() {
    let (a, b) = pair_over(TransportKind::Shm);
    let mut client = KvClient::bind(a, ()).unwrap();
    let call = client.start(&KvGetRequest { key: "k" }, LONG).unwrap();
    drop(b);
    let ended = client.wait(call, |_| Ok(()));
    assert!(
        matches!(ended, Err(CallError::Ended { ref error, may_repeat: true }) if error.is_peer_gone()),
        "{ended:?}"
    );
}

/// A server that answers `await_change` when it is told to, over a channel with a client that tasks share.
struct Slow {
    client: SharedClient<Kv>,
    server: KvServer<Channel>,
    asked: Asked,
}

/// Answers nothing at once.
#[derive(Default)]
struct Asked(Vec<Later<KvAwaitChange>>);

impl KvHandler for Asked {
    fn get<'s>(
        &'s mut self,
        _: Later<KvGet>,
        _: KvGetRequestView<'_>,
    ) -> Result<KvGetReply<'s>, Decline<KvError>> {
        Err(Decline::Unserved)
    }

    fn put(&mut self, _: Later<KvPut>, _: KvPutRequestView<'_>) -> Result<KvPutReply, Decline<KvError>> {
        Err(Decline::Unserved)
    }

    fn list<'s>(
        &'s mut self,
        _: Later<KvList>,
        _: KvListRequestView<'_>,
    ) -> Result<KvListReply<'s>, Decline<Never>> {
        Err(Decline::Unserved)
    }

    fn await_change(
        &mut self,
        call: Later<KvAwaitChange>,
        _: KvAwaitChangeRequestView<'_>,
    ) -> Result<KvAwaitChangeReply, Decline<KvError>> {
        self.0.push(call);
        Err(Decline::Later)
    }

    fn forget(&mut self, _: KvForgetView<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

impl Slow {
    fn over(transport: TransportKind) -> Slow {
        let (near, far) = pair_over(transport);
        let client = SharedClient::bind(near, ()).unwrap();
        Slow { client, server: KvServer::bind(far).unwrap(), asked: Asked::default() }
    }

    fn serve(&mut self, messages: usize) {
        for _ in 0..messages {
            assert!(self.server.serve_one(&mut self.asked, LONG).unwrap());
        }
    }
}

const REQUEST: KvAwaitChangeRequest<'_> = KvAwaitChangeRequest { key: "k" };

/// The version that a call of a task is answered with.
async fn change(client: &SharedClient<Kv>, timeout: Duration) -> Result<u64, CallError<Error>> {
    client.call(&REQUEST, timeout, |answer| answer.expect("no error").version()).await
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn calls_of_several_tasks_are_in_flight_and_answered_in_any_order() {
    for transport in [TransportKind::Shm, TransportKind::Socket] {
        let mut slow = Slow::over(transport);
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let client = slow.client.clone();
                std::thread::spawn(move || block_on(assert_send(change(&client, LONG))).unwrap())
            })
            .collect();
        slow.serve(8);
        let mut calls = std::mem::take(&mut slow.asked.0);
        calls.reverse();
        for (version, call) in calls.into_iter().enumerate() {
            slow.server.reply(call, Ok(KvAwaitChangeReply { version: version as u64 }), LONG).unwrap();
        }
        let mut versions: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
        versions.sort_unstable();
        assert_eq!(versions, (0..8).collect::<Vec<_>>());
        assert_eq!(slow.client.with(|client| client.counts().answers), 8);
    }
}

/// Whoever is answered has used the channel, and whoever waits for the rest must be woken by it again.
#[test]
fn one_answer_leaves_the_others_awake() {
    for _ in 0..200 {
        let mut slow = Slow::over(TransportKind::Shm);
        let (first, second) = (slow.client.clone(), slow.client.clone());
        let mut answered = Box::pin(change(&first, LONG));
        assert!(!poll_once(answered.as_mut()));
        slow.serve(1);
        let staying = std::thread::spawn(move || block_on(change(&second, LONG)));
        slow.serve(1);
        let calls = std::mem::take(&mut slow.asked.0);
        slow.server.reply(calls[0], Ok(KvAwaitChangeReply { version: 1 }), LONG).unwrap();
        assert!(matches!(block_on(answered), Ok(1)));
        slow.server.reply(calls[1], Ok(KvAwaitChangeReply { version: 2 }), LONG).unwrap();
        assert_eq!(staying.join().unwrap().unwrap(), 2);
    }
}

#[test]
fn a_call_that_is_dropped_is_cancelled_and_leaves_the_others_awake() {
    let mut slow = Slow::over(TransportKind::Shm);
    let client = slow.client.clone();
    let staying = std::thread::spawn(move || block_on(change(&client, LONG)));
    slow.serve(1);
    // The last one that was polled is the one that the channel wakes; nobody would wake the other.
    let client = slow.client.clone();
    let mut dropped = Box::pin(change(&client, LONG));
    assert!(!poll_once(dropped.as_mut()));
    slow.serve(1);
    drop(dropped);
    slow.serve(1);
    let [first, second] = slow.asked.0[..] else { panic!("two calls") };
    assert!(slow.server.is_outstanding(first) && !slow.server.is_outstanding(second));
    slow.server.reply(first, Ok(KvAwaitChangeReply { version: 5 }), LONG).unwrap();
    assert_eq!(staying.join().unwrap().unwrap(), 5);
}

#[test]
fn deadlines_end_calls_of_tasks_one_by_one() {
    let mut slow = Slow::over(TransportKind::Shm);
    let client = slow.client.clone();
    let patient = std::thread::spawn(move || block_on(change(&client, LONG)));
    slow.serve(1);
    let impatient = block_on(change(&slow.client, Duration::from_millis(5)));
    assert!(matches!(impatient, Err(CallError::TimedOut)), "{impatient:?}");
    // The call, and that it was given up.
    slow.serve(2);
    let [first, second] = slow.asked.0[..] else { panic!("two calls") };
    assert!(!slow.server.is_outstanding(second));
    slow.server.reply(first, Ok(KvAwaitChangeReply { version: 1 }), LONG).unwrap();
    assert_eq!(patient.join().unwrap().unwrap(), 1);
}

#[test]
fn the_end_of_the_server_ends_the_calls_of_all_tasks() {
    let mut slow = Slow::over(TransportKind::Shm);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let client = slow.client.clone();
            std::thread::spawn(move || block_on(change(&client, LONG)))
        })
        .collect();
    slow.serve(4);
    let Slow { client, server, .. } = slow;
    drop(server);
    for task in tasks {
        let ended = task.join().unwrap();
        assert!(
            matches!(ended, Err(CallError::Ended { ref error, may_repeat: true }) if error.is_peer_gone()),
            "{ended:?}"
        );
    }
    let unsent = block_on(change(&client, LONG));
    assert!(matches!(unsent, Err(CallError::Ended { may_repeat: true, .. })), "{unsent:?}");
}

#[test]
fn tasks_wait_for_room() {
    let mut slow = Slow::over(TransportKind::Shm);
    let client = slow.client.clone();
    let telling = std::thread::spawn(move || {
        block_on(async {
            // Many times what the channel holds.
            for _ in 0..5_000 {
                client.tell(&KvForget { key: "a key of some length" }, LONG).await.unwrap();
            }
            change(&client, LONG).await
        })
    });
    slow.serve(5_001);
    let call = slow.asked.0[0];
    slow.server.reply(call, Ok(KvAwaitChangeReply { version: 2 }), LONG).unwrap();
    assert_eq!(telling.join().unwrap().unwrap(), 2);
    assert_eq!(slow.server.counts().messages, 5_000);
}

#[test]
fn what_a_hostile_server_sends_fails_one_call_of_a_task_at_most() {
    let (near, mut far) = pair_over(TransportKind::Shm);
    let client = SharedClient::<Kv>::bind(near, ()).unwrap();
    let mut call = Box::pin(change(&client, LONG));
    assert!(!poll_once(call.as_mut()));
    let mut request = Vec::new();
    far.recv_into(&mut request, LONG).unwrap();
    // No message at all; an answer to a call that was never made; one of another kind, to this one.
    let answer = |kind: u8, ordinal: u16, number: [u8; 3]| {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&ordinal.to_le_bytes());
        bytes[2] = 1;
        bytes[4] = kind;
        bytes[5..8].copy_from_slice(&number);
        bytes
    };
    let number = [request[5], request[6], request[7]];
    far.send(&[1, 2, 3], LONG).unwrap();
    far.send(&answer(3, 4, [9, 9, 9]), LONG).unwrap();
    far.send(&answer(3, 1, number), LONG).unwrap();
    let refused = block_on(call);
    assert!(matches!(refused, Err(CallError::Malformed(Malformed::Answer))), "{refused:?}");
    // The same answer again: its call is over.
    far.send(&answer(3, 4, number), LONG).unwrap();
    let mut call = Box::pin(change(&client, LONG));
    assert!(!poll_once(call.as_mut()));
    far.recv_into(&mut request, LONG).unwrap();
    far.send(&answer(3, 4, [request[5], request[6], request[7]]), LONG).unwrap();
    assert_eq!(block_on(call).unwrap(), 0);
    let counts = client.with(|client| client.counts());
    assert_eq!((counts.malformed, counts.late), (1, 2));
}

#[test]
fn rights_are_carried_in_memory_and_refused_on_streams_and_buffers_where_nothing_is_beside() {
    for (transport, carries) in [(TransportKind::Shm, true), (TransportKind::Socket, false)] {
        let (a, b) = pair_over(transport);
        let refused = (!carries).then_some(BindError::NoCapabilities);
        assert_eq!(RightsClient::bind(a, ()).err(), refused);
        assert_eq!(RightsServer::bind(b).err(), refused);
        let (a, b) = pair_over(transport);
        assert_eq!(BuffersClient::bind(a, ()).err(), Some(BindError::NoBuffers));
        assert_eq!(BuffersServer::bind(b).err(), Some(BindError::NoBuffers));
    }
}
