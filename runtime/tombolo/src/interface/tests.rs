//! Calls over channels.

use tombolo_stubs::kv::{
    Kv, KvAwaitChange, KvAwaitChangeReply, KvAwaitChangeRequest, KvClient, KvError, KvForget, KvForgetView,
    KvGet, KvGetReply, KvGetRequest, KvHandler, KvList, KvListReply, KvPut, KvPutReply, KvPutRequest,
    KvServer,
};
use tombolo_stubs::rights::{BuffersClient, BuffersServer, RightsClient, RightsServer};

use std::future::Future;
use std::task::{Context, Waker};

use super::*;
use crate::testing::{LONG, Monitor, block_on, pair_over};

/// Store with a single value.
#[derive(Default)]
struct One {
    value: Vec<u8>,
    version: u64,
}

impl KvHandler for One {
    fn get<'s>(&'s mut self, _: Call<'_, KvGet>) -> Result<Response<KvGetReply<'s>>, Decline<KvError>> {
        Ok(KvGetReply { value: &self.value, version: self.version }.into())
    }

    fn put(&mut self, request: Call<'_, KvPut>) -> Result<Response<KvPutReply>, Decline<KvError>> {
        self.value = request.value()?.to_vec();
        self.version += 1;
        Ok(KvPutReply { version: self.version }.into())
    }

    fn list<'s>(&'s mut self, _: Call<'_, KvList>) -> Result<Response<KvListReply<'s>>, Decline<Never>> {
        Err(Decline::Unserved)
    }

    fn await_change(
        &mut self,
        _: Call<'_, KvAwaitChange>,
    ) -> Result<Response<KvAwaitChangeReply>, Decline<KvError>> {
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
    while server.serve_one(&mut one).is_ok_and(|came| came) {}
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
            assert_eq!(client.put(&put).unwrap().version(), Ok(round));
            let reply = client.get(&KvGetRequest { key: "k" }).unwrap();
            assert_eq!((reply.value().unwrap().to_vec(), reply.version().unwrap()), (value, round));
        }
        drop(client);
        assert_eq!(serving.join().unwrap(), 100);
    }
}

#[test]
fn the_end_of_the_server_is_the_end_of_a_call() {
    let (a, b) = pair_over(TransportKind::Shm);
    let mut client = KvClient::bind(a, ()).unwrap();
    let call = client.start(&KvGetRequest { key: "k" }).unwrap();
    drop(b);
    let ended = client.wait(call);
    assert!(
        matches!(ended, Err(CallError::Ended { ref error, may_repeat: true }) if error.is_peer_gone()),
        "{ended:?}"
    );
}

/// Server that answers `await_change` on request, over a channel with a client that tasks share.
struct Slow {
    client: SharedClient<Kv>,
    server: KvServer<Channel>,
    asked: Asked,
}

/// Handler that answers nothing immediately.
#[derive(Default)]
struct Asked(Vec<Responder<KvAwaitChange>>);

impl Asked {
    fn take<const N: usize>(&mut self) -> [Responder<KvAwaitChange>; N] {
        std::mem::take(&mut self.0).try_into().expect("as many calls")
    }
}

impl KvHandler for Asked {
    fn get<'s>(&'s mut self, _: Call<'_, KvGet>) -> Result<Response<KvGetReply<'s>>, Decline<KvError>> {
        Err(Decline::Unserved)
    }

    fn put(&mut self, _: Call<'_, KvPut>) -> Result<Response<KvPutReply>, Decline<KvError>> {
        Err(Decline::Unserved)
    }

    fn list<'s>(&'s mut self, _: Call<'_, KvList>) -> Result<Response<KvListReply<'s>>, Decline<Never>> {
        Err(Decline::Unserved)
    }

    fn await_change(
        &mut self,
        call: Call<'_, KvAwaitChange>,
    ) -> Result<Response<KvAwaitChangeReply>, Decline<KvError>> {
        let (responder, response) = call.defer();
        self.0.push(responder);
        Ok(response)
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
            assert!(self.server.serve_one(&mut self.asked).unwrap());
        }
    }
}

const REQUEST: KvAwaitChangeRequest<'_> = KvAwaitChangeRequest { key: "k" };

/// Makes a call as a task; returns the version in its answer.
async fn change(client: &SharedClient<Kv>, timeout: Duration) -> Result<u64, CallError<Error, KvError>> {
    match client.within(timeout).call(&REQUEST).await {
        Ok(answer) => Ok(answer.read()?.version()?),
        Err(CallError::TimedOut) => Err(CallError::TimedOut),
        Err(CallError::Malformed(malformed)) => Err(malformed.into()),
        Err(CallError::Fault(fault)) => Err(CallError::Fault(fault)),
        Err(CallError::Ended { error, may_repeat }) => Err(CallError::Ended { error, may_repeat }),
        Err(other) => panic!("{other:?}"),
    }
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
            slow.server.reply(call, Ok(KvAwaitChangeReply { version: version as u64 })).unwrap();
        }
        let mut versions: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
        versions.sort_unstable();
        assert_eq!(versions, (0..8).collect::<Vec<_>>());
        assert_eq!(slow.client.with(|client| client.counts().answers), 8);
    }
}

/// A task that gets its answer has used the channel; the tasks that still wait must be woken by the channel
/// again.
#[test]
fn one_answer_leaves_others_wakeable() {
    for _ in 0..200 {
        let mut slow = Slow::over(TransportKind::Shm);
        let (first, second) = (slow.client.clone(), slow.client.clone());
        let mut answered = Box::pin(change(&first, LONG));
        assert!(!poll_once(answered.as_mut()));
        slow.serve(1);
        let staying = std::thread::spawn(move || block_on(change(&second, LONG)));
        slow.serve(1);
        let [one, other] = slow.asked.take();
        slow.server.reply(one, Ok(KvAwaitChangeReply { version: 1 })).unwrap();
        assert!(matches!(block_on(answered), Ok(1)));
        slow.server.reply(other, Ok(KvAwaitChangeReply { version: 2 })).unwrap();
        assert_eq!(staying.join().unwrap().unwrap(), 2);
    }
}

#[test]
fn a_call_that_is_dropped_is_cancelled_and_leaves_the_others_awake() {
    let mut slow = Slow::over(TransportKind::Shm);
    let client = slow.client.clone();
    let staying = std::thread::spawn(move || block_on(change(&client, LONG)));
    slow.serve(1);
    // The channel wakes the last task that was polled; the other one would not be woken.
    let client = slow.client.clone();
    let mut dropped = Box::pin(change(&client, LONG));
    assert!(!poll_once(dropped.as_mut()));
    slow.serve(1);
    drop(dropped);
    slow.serve(1);
    let [first, second] = slow.asked.take();
    assert!(first.is_awaited() && !second.is_awaited());
    slow.server.reply(first, Ok(KvAwaitChangeReply { version: 5 })).unwrap();
    let cancelled = slow.server.reply(second, Ok(KvAwaitChangeReply { version: 6 }));
    assert_eq!(cancelled, Err(ReplyError::NotOutstanding));
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
    // The call, and its cancellation.
    slow.serve(2);
    let [first, second] = slow.asked.take();
    assert!(!second.is_awaited());
    slow.server.reply(first, Ok(KvAwaitChangeReply { version: 1 })).unwrap();
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
            // Many times the capacity of the channel.
            for _ in 0..5_000 {
                client.tell(&KvForget { key: "a key of some length" }).await.unwrap();
            }
            change(&client, LONG).await
        })
    });
    slow.serve(5_001);
    let [call] = slow.asked.take();
    slow.server.reply(call, Ok(KvAwaitChangeReply { version: 2 })).unwrap();
    assert_eq!(telling.join().unwrap().unwrap(), 2);
    assert_eq!(slow.server.counts().messages, 5_000);
}

#[test]
fn a_responder_that_is_dropped_ends_the_call() {
    let mut slow = Slow::over(TransportKind::Shm);
    let client = slow.client.clone();
    let waiting = std::thread::spawn(move || block_on(change(&client, LONG)));
    slow.serve(1);
    let [responder] = slow.asked.take();
    drop(responder);
    assert_eq!(slow.server.within(Duration::ZERO).serve_one(&mut slow.asked), Ok(false));
    let ended = waiting.join().unwrap();
    assert!(matches!(ended, Err(CallError::Fault(Fault::Dropped))), "{ended:?}");
    assert_eq!(slow.server.counts().answers, 1);
}

#[test]
fn hostile_server_fails_at_most_one_call() {
    let (near, mut far) = pair_over(TransportKind::Shm);
    let client = SharedClient::<Kv>::bind(near, ()).unwrap();
    let mut call = Box::pin(change(&client, LONG));
    assert!(!poll_once(call.as_mut()));
    let mut request = Vec::new();
    far.recv_into(&mut request).unwrap();
    // No message at all; an answer to a call that was never made; one of another kind, to this call.
    let answer = |kind: u8, ordinal: u16, number: [u8; 3]| {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&ordinal.to_le_bytes());
        bytes[2] = 1;
        bytes[4] = kind;
        bytes[5..8].copy_from_slice(&number);
        bytes
    };
    let number = [request[5], request[6], request[7]];
    far.send(&[1, 2, 3]).unwrap();
    far.send(&answer(3, 4, [9, 9, 9])).unwrap();
    far.send(&answer(3, 1, number)).unwrap();
    let refused = block_on(call);
    assert!(matches!(refused, Err(CallError::Malformed(Malformed::Answer))), "{refused:?}");
    // The same answer again: its call has ended.
    far.send(&answer(3, 4, number)).unwrap();
    let mut call = Box::pin(change(&client, LONG));
    assert!(!poll_once(call.as_mut()));
    far.recv_into(&mut request).unwrap();
    far.send(&answer(3, 4, [request[5], request[6], request[7]])).unwrap();
    assert_eq!(block_on(call).unwrap(), 0);
    let counts = client.with(|client| client.counts());
    assert_eq!((counts.malformed, counts.late), (1, 2));
}

#[test]
fn rights_need_memory_and_buffers_a_companion() {
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

#[test]
fn a_service_has_many_clients_and_none_ends_it() {
    let (domain, monitor) = Monitor::with_domain();
    let mut service = std::thread::scope(|scope| {
        scope.spawn(|| monitor.export(5));
        Service::<Kv>::export(&domain, "kv").unwrap()
    });
    let mut one = One::default();
    let options = || ChannelOptions::default().interface_hash(Kv::HASH);
    let mut channels = Vec::new();
    for clients in 1..=3 {
        let connecting = monitor.connect_with(5, options());
        assert!(matches!(service.serve_one(&mut one), Ok(Turn::Connected(_))));
        assert_eq!(service.clients(), clients);
        channels.push(connecting.join().unwrap());
    }
    // A client of another interface is refused.
    let connecting = monitor.connect_with(5, options().interface_hash(1));
    assert!(matches!(service.serve_one(&mut one), Ok(Turn::Refused(Error::Refused { .. }))));
    assert!(connecting.join().is_err(), "it was refused there, too");

    let mut clients: Vec<_> =
        channels.into_iter().map(|channel| KvClient::bind(channel, ()).unwrap()).collect();
    let put = KvPutRequest { key: "k", value: b"v", expected: None };
    let calls: Vec<_> = clients.iter_mut().map(|client| client.start(&put).unwrap()).collect();
    for _ in 0..3 {
        assert!(matches!(service.serve_one(&mut one), Ok(Turn::Served(_))));
    }
    let versions =
        clients.iter_mut().zip(calls).map(|(client, call)| client.wait(call).unwrap().version().unwrap());
    let mut versions: Vec<_> = versions.collect();
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3], "one value for all");

    drop(clients.pop());
    assert!(matches!(service.serve_one(&mut one), Ok(Turn::Left(_, Error::Closed { .. }))));
    assert_eq!(service.clients(), 2);
    let call = clients[0].start(&put).unwrap();
    assert!(matches!(service.serve_one(&mut one), Ok(Turn::Served(_))));
    assert_eq!(clients[0].wait(call).unwrap().version(), Ok(4));
    assert!(matches!(service.within(Duration::ZERO).serve_one(&mut one), Err(Error::TimedOut { .. })));
}

/// Creates a service with `clients` clients.
fn service_with(clients: usize) -> (crate::Domain, Monitor, Service<Kv>, Vec<KvClient<Channel>>) {
    let (domain, monitor) = Monitor::with_domain();
    let mut service = std::thread::scope(|scope| {
        scope.spawn(|| monitor.export(5));
        Service::<Kv>::export(&domain, "kv").unwrap()
    });
    let mut one = One::default();
    let connect = |_| {
        let options = ChannelOptions::default().interface_hash(Kv::HASH);
        let connecting = monitor.connect_with(5, options);
        assert!(matches!(service.serve_one(&mut one), Ok(Turn::Connected(_))));
        KvClient::bind(connecting.join().unwrap(), ()).unwrap()
    };
    let clients = (0..clients).map(connect).collect();
    (domain, monitor, service, clients)
}

#[test]
fn slow_client_does_not_block_others() {
    let (_domain, _monitor, mut service, mut clients) = service_with(2);
    let mut one = One::default();
    let put = KvPutRequest { key: "k", value: b"v", expected: None };
    let mut calls = Vec::new();
    // Until its answers fill its ring and its queue, and its calls fill the other ring.
    loop {
        let started = clients[0].try_start(&put);
        let served = service.within(Duration::ZERO).serve_one(&mut one);
        match (started, served) {
            (Ok(call), Ok(Turn::Served(_)) | Err(Error::TimedOut { .. })) => calls.push(call),
            (Err(CallError::NoRoom), Ok(Turn::Served(_))) => {}
            (Err(CallError::NoRoom), Err(Error::TimedOut { .. })) => break,
            other => panic!("{other:?}"),
        }
    }
    let before = one.version;
    assert!(before < calls.len() as u64, "calls are left in the ring");

    let call = clients[1].start(&put).unwrap();
    assert!(matches!(service.serve_one(&mut one), Ok(Turn::Served(_))));
    assert_eq!(clients[1].wait(call).unwrap().version(), Ok(before + 1));

    // It receives all of its answers in order once it takes them.
    let count = calls.len() as u64;
    let mut last = 0;
    for call in calls {
        while !clients[0].is_ready(&call) {
            let served = service.within(Duration::ZERO).serve_one(&mut one);
            assert!(matches!(served, Ok(Turn::Served(_)) | Err(Error::TimedOut { .. })), "{served:?}");
            clients[0].poll().unwrap();
        }
        let version = clients[0].wait(call).unwrap().version().unwrap();
        assert!(version > last);
        last = version;
    }
    assert_eq!(one.version, count + 1);
    drop(clients);
    for _ in 0..2 {
        assert!(matches!(service.serve_one(&mut one), Ok(Turn::Left(_, Error::Closed { .. }))));
    }
}

#[test]
fn a_service_is_served_by_futures_too() {
    let (_domain, monitor, mut service, mut clients) = service_with(1);
    let mut one = One::default();
    let put = KvPutRequest { key: "k", value: b"v", expected: None };
    let call = clients[0].start(&put).unwrap();
    assert!(matches!(block_on(service.serve_one_async(&mut one)), Ok(Turn::Served(_))));
    assert_eq!(clients[0].wait(call).unwrap().version(), Ok(1));
    let options = ChannelOptions::default().interface_hash(Kv::HASH);
    let connecting = monitor.connect_with(5, options);
    assert!(matches!(block_on(service.serve_one_async(&mut one)), Ok(Turn::Connected(_))));
    drop(connecting.join().unwrap());
    assert!(matches!(block_on(service.serve_one_async(&mut one)), Ok(Turn::Left(_, Error::Closed { .. }))));
    let nothing = block_on(service.within(Duration::from_millis(1)).serve_one_async(&mut one));
    assert!(matches!(nothing, Err(Error::TimedOut { .. })));
}

#[test]
fn servers_and_clients_are_members_of_a_waitset() {
    let (a, b) = pair_over(TransportKind::Shm);
    let (c, d) = pair_over(TransportKind::Shm);
    let mut servers = crate::WaitSet::new().unwrap();
    let first = servers.add(KvServer::bind(b).unwrap()).unwrap();
    let second = servers.add(KvServer::bind(d).unwrap()).unwrap();
    let (mut a, mut c) = (KvClient::bind(a, ()).unwrap(), KvClient::bind(c, ()).unwrap());
    let mut one = One::default();
    let mut serve = |token| {
        assert_eq!(servers.wait(LONG).unwrap(), crate::Ready::Channel(token));
        servers[token].within(Duration::ZERO).serve_one(&mut one)
    };

    let put = c.start(&KvPutRequest { key: "k", value: b"v", expected: None }).unwrap();
    assert!(serve(second).unwrap());
    let get = a.start(&KvGetRequest { key: "k" }).unwrap();
    assert!(serve(first).unwrap());
    assert_eq!(a.wait(get).unwrap().version(), Ok(1));

    let mut clients = crate::WaitSet::new().unwrap();
    let token = clients.add(&mut c).unwrap();
    assert_eq!(clients.wait(LONG).unwrap(), crate::Ready::Channel(token));
    assert_eq!(clients[token].wait(put).unwrap().version(), Ok(1));
    drop(clients);
    drop(c);
    assert!(matches!(serve(second), Err(ServeError::Ended(error)) if error.is_peer_gone()));
}
