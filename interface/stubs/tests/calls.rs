//! Clients and servers over an in-process channel.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_interface::local::{Gone, LocalPort, pair};
use tombolo_interface::{
    BindError, Call, CallError, Decline, Fault, Header, Kind, Malformed, Never, Outgoing, ReplyError,
    Responder, Response, ServeError,
};
use tombolo_stubs::everything::EverythingClient;
use tombolo_stubs::kv::*;
use tombolo_stubs::rights::{BuffersClient, BuffersServer, RightsClient, RightsServer};

const NOW: Duration = Duration::ZERO;

#[derive(Default)]
struct Store {
    values: BTreeMap<String, (Vec<u8>, u64)>,
    waiting: Vec<Responder<KvAwaitChange>>,
}

impl KvHandler for Store {
    fn get<'s>(&'s mut self, request: Call<'_, KvGet>) -> Result<Response<KvGetReply<'s>>, Decline<KvError>> {
        let key = request.key()?.to_string()?;
        let found = self.values.get(&key).ok_or(Decline::Error(KvError::NOT_FOUND))?;
        Ok(KvGetReply { value: &found.0, version: found.1 }.into())
    }

    fn put(&mut self, request: Call<'_, KvPut>) -> Result<Response<KvPutReply>, Decline<KvError>> {
        let key = request.key()?.to_string()?;
        if key == NOT_YOURS {
            return Err(Malformed::Right.into());
        }
        let version = self.values.get(&key).map_or(0, |known| known.1);
        if request.expected()?.is_some_and(|expected| expected != version) {
            return Err(Decline::Error(KvError::CONFLICT));
        }
        self.values.insert(key, (request.value()?.to_vec(), version + 1));
        Ok(KvPutReply { version: version + 1 }.into())
    }

    fn list<'s>(&'s mut self, _: Call<'_, KvList>) -> Result<Response<KvListReply<'s>>, Decline<Never>> {
        Err(Decline::Unserved)
    }

    fn await_change(
        &mut self,
        call: Call<'_, KvAwaitChange>,
    ) -> Result<Response<KvAwaitChangeReply>, Decline<KvError>> {
        let (responder, response) = call.defer();
        self.waiting.push(responder);
        Ok(response)
    }

    fn forget(&mut self, message: KvForgetView<'_>) -> Result<(), Malformed> {
        if message.key()?.to_string()? == NOT_YOURS {
            return Err(Malformed::Right);
        }
        self.values.remove(&message.key()?.to_string()?);
        Ok(())
    }
}

/// Key that stands for a right that the server does not receive.
const NOT_YOURS: &str = "not yours";

#[test]
fn missing_right_fails_only_its_message() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let put = start_put(&mut client, NOT_YOURS, None);
    client.within(NOW).forget(&KvForget { key: NOT_YOURS }).unwrap();
    let next = start_put(&mut client, "b", None);
    serve_all(&mut server, &mut store);
    let refused = client.wait(put).map(|_| ());
    assert_eq!(refused, Err(CallError::Fault(Fault::Refused)));
    assert_eq!(put_result(&mut client, next), Ok(1));
    let counts = server.counts();
    assert_eq!((counts.refused, counts.malformed, counts.messages), (2, 0, 0));
    // In the other direction, the client counts the refused event.
    server.within(NOW).changed(&KvChanged { key: NOT_YOURS, version: 1 }).unwrap();
    client.poll().unwrap();
    assert_eq!((client.counts().refused, client.counts().malformed), (1, 0));
}

#[derive(Default)]
struct Events(Vec<(String, u64)>);

impl KvEvents for Events {
    fn changed(&mut self, event: KvChangedView<'_>) -> Result<(), Malformed> {
        if event.key()?.to_string()? == NOT_YOURS {
            return Err(Malformed::Right);
        }
        self.0.push((event.key()?.to_string()?, event.version()?));
        Ok(())
    }
}

type Client = KvClient<LocalPort, Events>;
type Server = KvServer<LocalPort>;

fn both() -> (Client, Server) {
    let (client, server) = pair(16, 4096);
    (KvClient::bind(client, Events::default()).unwrap(), KvServer::bind(server).unwrap())
}

fn serve_all(server: &mut Server, store: &mut Store) {
    while server.within(NOW).serve_one(store).unwrap() {}
}

fn start_put(client: &mut Client, key: &str, expected: Option<u64>) -> tombolo_interface::Pending<KvPut> {
    client.start(&KvPutRequest { key, value: b"v", expected }).unwrap()
}

/// Waits for a put call. Returns the version or the declared error.
fn put_result(client: &mut Client, call: tombolo_interface::Pending<KvPut>) -> Result<u64, KvError> {
    match client.wait(call) {
        Ok(reply) => Ok(reply.version().unwrap()),
        Err(CallError::Declined(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn results_and_declared_errors_come_back() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let put = start_put(&mut client, "a", Some(0));
    let conflict = start_put(&mut client, "a", Some(0));
    serve_all(&mut server, &mut store);
    assert_eq!(put_result(&mut client, put), Ok(1));
    assert_eq!(put_result(&mut client, conflict), Err(KvError::CONFLICT));

    let get = client.start(&KvGetRequest { key: "a" }).unwrap();
    let none = client.start(&KvGetRequest { key: "b" }).unwrap();
    serve_all(&mut server, &mut store);
    let reply = client.wait(get).unwrap();
    assert_eq!((reply.value().unwrap().to_vec(), reply.version()), (b"v".to_vec(), Ok(1)));
    assert_eq!(client.wait(none).map(|_| ()), Err(CallError::Declined(KvError::NOT_FOUND)));
    assert_eq!((client.counts().calls, client.counts().answers), (4, 4));
    assert_eq!((server.counts().calls, server.counts().answers), (4, 4));
}

#[test]
fn several_calls_are_in_flight_and_are_waited_for_in_any_order() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let mut calls: Vec<_> = ["a", "b", "c"].map(|key| start_put(&mut client, key, None)).into();
    serve_all(&mut server, &mut store);
    client.poll().unwrap();
    assert!(calls.iter().all(|call| client.is_ready(call)));
    calls.reverse();
    for call in calls {
        assert_eq!(put_result(&mut client, call), Ok(1));
    }
    // Messages that arrive before the awaited reply are counted too.
    let calls = ["d", "e", "f"].map(|key| start_put(&mut client, key, None));
    serve_all(&mut server, &mut store);
    server.within(NOW).changed(&KvChanged { key: "d", version: 1 }).unwrap();
    let last = start_put(&mut client, "g", None);
    serve_all(&mut server, &mut store);
    assert_eq!(put_result(&mut client, last), Ok(1));
    assert_eq!((client.counts().answers, client.counts().messages), (7, 1));
    for call in calls {
        assert_eq!(put_result(&mut client, call), Ok(1));
    }
}

#[test]
fn out_of_order_answers_reach_their_calls() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let late = client.start(&KvAwaitChangeRequest { key: "a" }).unwrap();
    let quick = start_put(&mut client, "a", None);
    serve_all(&mut server, &mut store);
    assert_eq!(put_result(&mut client, quick), Ok(1));
    assert!(!client.is_ready(&late));
    let responder = store.waiting.remove(0);
    server.within(NOW).reply(responder, Ok(KvAwaitChangeReply { version: 1 })).unwrap();
    assert_eq!(client.wait(late).unwrap().version(), Ok(1));
    assert_eq!(server.counts().answers, 2);
}

#[test]
fn only_the_intended_call_is_cancelled() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let calls = [0, 1].map(|_| client.start(&KvAwaitChangeRequest { key: "a" }).unwrap());
    assert_eq!(calls.each_ref().map(|call| call.number()), [0x100, 0x101]);
    serve_all(&mut server, &mut store);
    let [first, second] = calls;
    client.cancel(second);
    serve_all(&mut server, &mut store);
    assert!(store.waiting[0].is_awaited() && !store.waiting[1].is_awaited());
    server.within(NOW).reply(store.waiting.remove(0), Ok(KvAwaitChangeReply { version: 1 })).unwrap();
    assert_eq!(client.wait(first).unwrap().version(), Ok(1));
}

#[test]
fn a_deadline_ends_a_call_and_its_late_answer_is_dropped_and_counted() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let slow = client.start(&KvAwaitChangeRequest { key: "a" }).unwrap();
    assert!(server.within(NOW).serve_one(&mut store).unwrap());
    // The reply and the cancellation cross.
    let answered = server.within(NOW).reply(store.waiting.remove(0), Err(KvError::FULL));
    let held = client.port_mut().recv_bytes().unwrap();
    assert_eq!(answered, Ok(()));
    assert_eq!(client.wait(slow).map(|_| ()), Err(CallError::TimedOut));
    server.port_mut().send_bytes(&held);
    client.poll().unwrap();
    assert_eq!(client.counts().late, 1);
    // Another call reuses the slot: the late reply to the first call is not taken for the reply to the
    // second.
    let put = start_put(&mut client, "b", None);
    server.port_mut().send_bytes(&held);
    serve_all(&mut server, &mut store);
    assert_eq!(put_result(&mut client, put), Ok(1));
    assert_eq!(client.counts().late, 2);
}

#[test]
fn server_drops_a_cancelled_call() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let call = client.start(&KvAwaitChangeRequest { key: "a" }).unwrap();
    assert!(server.within(NOW).serve_one(&mut store).unwrap());
    let responder = store.waiting.remove(0);
    assert!(responder.is_awaited());
    client.cancel(call);
    assert!(server.within(NOW).serve_one(&mut store).unwrap());
    assert!(!responder.is_awaited());
    let reply = server.within(NOW).reply(responder, Ok(KvAwaitChangeReply { version: 1 }));
    assert_eq!(reply, Err(ReplyError::NotOutstanding));
    // The server owes no reply for the cancelled call.
    assert_eq!(server.within(NOW).serve_one(&mut store), Ok(false));
    assert_eq!((server.counts().answers, client.poll()), (0, Ok(0)));
}

#[test]
fn dropped_responder_answers_with_a_fault() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let call = client.start(&KvAwaitChangeRequest { key: "a" }).unwrap();
    serve_all(&mut server, &mut store);
    assert!(!client.is_ready(&call));
    store.waiting.clear();
    serve_all(&mut server, &mut store);
    assert_eq!(client.wait(call).map(|_| ()), Err(CallError::Fault(Fault::Dropped)));
    serve_all(&mut server, &mut store);
    assert_eq!((server.counts().answers, client.counts().late), (1, 0), "once");
}

/// The channel has no room for the reply, and the server cannot send it again.
#[test]
fn unsent_reply_becomes_a_fault_once_there_is_room() {
    let (client, server) = pair(1, 4096);
    let mut client = KvClient::bind(client, Events::default()).unwrap();
    let mut server = KvServer::bind(server).unwrap();
    let mut store = Store::default();
    let call = client.start(&KvAwaitChangeRequest { key: "a" }).unwrap();
    serve_all(&mut server, &mut store);
    server.changed(&KvChanged { key: "a", version: 1 }).unwrap();
    let reply = server.within(NOW).reply(store.waiting.remove(0), Ok(KvAwaitChangeReply { version: 1 }));
    assert_eq!(reply, Err(ReplyError::NotSent(CallError::NoRoom)));
    client.poll().unwrap();
    serve_all(&mut server, &mut store);
    assert_eq!(client.wait(call).map(|_| ()), Err(CallError::Fault(Fault::Dropped)));
}

#[test]
fn call_slots_are_limited_and_reused() {
    let (client, _server) = pair(1000, 4096);
    let mut client = KvClient::bind(client, ()).unwrap();
    let request = KvGetRequest { key: "a" };
    let mut calls: Vec<_> = (0..256).map(|_| client.start(&request).unwrap()).collect();
    let refused = client.start(&request).map(|_| ());
    assert_eq!(refused, Err(CallError::InFlight { in_flight: 256 }));
    client.cancel(calls.pop().unwrap());
    let call = client.within(NOW).start(&request).unwrap();
    assert!(!client.is_ready(&call));
    // No caller waits for these calls: their slots are freed at their deadlines.
    drop((call, calls));
    let waited = client.start(&request);
    assert!(waited.is_err(), "the clock has not moved");
}

#[test]
fn the_end_of_the_peer_ends_each_call_and_says_whether_it_can_be_repeated() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let answered = start_put(&mut client, "a", None);
    serve_all(&mut server, &mut store);
    let get = client.start(&KvGetRequest { key: "a" }).unwrap();
    let put = start_put(&mut client, "b", None);
    drop(server);
    // A reply sent before the peer ended is still received.
    assert_eq!(put_result(&mut client, answered), Ok(1));
    let ended = client.wait(get).map(|_| ()).unwrap_err();
    assert_eq!((&ended, ended.end()), (&CallError::Ended { error: Gone, may_repeat: true }, Some(&Gone)));
    assert_eq!(client.wait(put).map(|_| ()), Err(CallError::Ended { error: Gone, may_repeat: false }));
    let unsent = client.within(NOW).start(&KvPutRequest { key: "a", value: b"", expected: None }).map(|_| ());
    assert_eq!(unsent, Err(CallError::Ended { error: Gone, may_repeat: true }));
}

#[test]
fn a_server_notices_the_end_of_its_client() {
    let (client, mut server) = both();
    drop(client);
    assert_eq!(server.serve_one(&mut Store::default()), Err(ServeError::Ended(Gone)));
}

#[test]
fn a_server_notices_why_an_answer_cannot_be_sent() {
    let mut store = Store::default();
    let (mut client, mut server) = both();
    let _ = start_put(&mut client, "a", None);
    drop(client);
    assert_eq!(server.serve_one(&mut store), Err(ServeError::Ended(Gone)));
    let (near, far) = pair(1, 4096);
    let mut client: Client = KvClient::bind(near, Events::default()).unwrap();
    let mut server = KvServer::bind(far).unwrap();
    let _ = start_put(&mut client, "a", None);
    assert_eq!(server.serve_one(&mut store), Ok(true));
    // The client has not received the first reply, so there is no room for the second.
    let _ = start_put(&mut client, "b", None);
    assert_eq!(server.serve_one(&mut store), Err(ServeError::ClientStuck));
}

#[test]
fn client_counts_malformed_messages_while_waiting() {
    let (near, mut far) = pair(16, 4096);
    let mut client: Client = KvClient::bind(near, Events::default()).unwrap();
    let call = start_put(&mut client, "a", None);
    far.send_bytes(&[1]);
    far.send_bytes(&[2; 3]);
    // Servers make no calls.
    let mut bytes = [0; 24];
    let body = KvGetRequest { key: "abcdefgh" };
    Outgoing::new(Header::new(1, Kind::Call, 5), &body).unwrap().write(&mut bytes[..]);
    far.send_bytes(&bytes);
    // An event whose text is not UTF-8.
    let (server, mut beyond) = pair(1, 4096);
    KvServer::bind(server).unwrap().changed(&KvChanged { key: "abcdefgh", version: 1 }).unwrap();
    let mut bytes = beyond.recv_bytes().unwrap();
    let text = bytes.windows(8).position(|part| part == b"abcdefgh").unwrap();
    bytes[text] = 0xff;
    far.send_bytes(&bytes);
    assert!(client.wait(call).is_err());
    assert_eq!((client.counts().malformed, client.counts().messages), (4, 0));
}

#[test]
fn one_way_messages_go_both_ways() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let put = start_put(&mut client, "a", None);
    client.within(NOW).forget(&KvForget { key: "a" }).unwrap();
    serve_all(&mut server, &mut store);
    assert!(store.values.is_empty());
    server.within(NOW).changed(&KvChanged { key: "a", version: 1 }).unwrap();
    assert_eq!(put_result(&mut client, put), Ok(1));
    client.poll().unwrap();
    assert_eq!(client.events().0, [("a".to_owned(), 1)]);
    assert_eq!((client.counts().messages, server.counts().messages), (1, 1));
}

#[test]
fn unknown_or_malformed_message_fails_only_its_call() {
    let (mut client, mut server) = both();
    let mut store = Store::default();
    let list = client.start(&KvListRequest { prefix: "" }).unwrap();
    serve_all(&mut server, &mut store);
    assert_eq!(client.wait(list).map(|_| ()), Err(CallError::Fault(Fault::Unserved)));

    let send = |client: &mut Client, kind, ordinal, bytes: &mut [u8]| {
        let body = KvGetRequest { key: "abcdefgh" };
        let message = Outgoing::new(Header::new(ordinal, kind, 0x00ff_ff01), &body).unwrap();
        message.write(bytes);
        client.port_mut().send_bytes(bytes);
    };
    let mut bytes = [0; 24];
    send(&mut client, Kind::Call, 99, &mut bytes);
    send(&mut client, Kind::Message, 99, &mut bytes);
    send(&mut client, Kind::Reply, 1, &mut bytes);
    let mut broken = [0; 24];
    send(&mut client, Kind::Call, 1, &mut broken);
    broken[16] = 0xff;
    client.port_mut().send_bytes(&broken);
    client.port_mut().send_bytes(&[1, 2, 3]);
    serve_all(&mut server, &mut store);
    let counts = server.counts();
    assert_eq!((counts.unknown, counts.malformed), (2, 3));
    // The channel still works. Replies to calls that this client never made are dropped.
    let put = start_put(&mut client, "a", None);
    serve_all(&mut server, &mut store);
    assert_eq!(put_result(&mut client, put), Ok(1));
    assert_eq!(client.counts().late, 3);
}

#[test]
fn a_message_too_long_for_the_channel_is_not_sent() {
    let (client, server) = pair(4, 128);
    let mut client = KvClient::bind(client, ()).unwrap();
    let mut server = KvServer::bind(server).unwrap();
    let put = |client: &mut KvClient<LocalPort>, value: &[u8]| {
        client.start(&KvPutRequest { key: "a", value, expected: None }).map(|call| client.cancel(call))
    };
    assert_eq!(put(&mut client, &[0; 80]), Ok(()));
    let too_long = CallError::TooLong { length_bytes: 136, max_bytes: 128 };
    assert_eq!(put(&mut client, &[0; 81]), Err(too_long));
    // A reply that is too long is not sent either: the caller gets a fault.
    let mut store = Store::default();
    store.values.insert("b".into(), (vec![0; 200], 1));
    let get = client.start(&KvGetRequest { key: "b" }).unwrap();
    while server.within(NOW).serve_one(&mut store).unwrap() {}
    assert_eq!(client.wait(get).map(|_| ()), Err(CallError::Fault(Fault::TooLong)));
}

#[test]
fn full_channel_refuses_without_side_effects() {
    let (client, _server) = pair(1, 4096);
    let mut client = KvClient::bind(client, ()).unwrap();
    let first = client.within(NOW).start(&KvGetRequest { key: "a" }).unwrap();
    assert_eq!(client.within(NOW).start(&KvGetRequest { key: "a" }).map(|_| ()), Err(CallError::NoRoom));
    assert!(!client.is_ready(&first));
    assert_eq!(client.counts().calls, 1);
}

#[test]
fn a_link_that_cannot_carry_what_an_interface_needs_is_refused_at_bind() {
    let (client, server) = pair(4, 4096);
    assert_eq!(RightsClient::bind(client, ()).err(), Some(BindError::NoCapabilities));
    assert_eq!(RightsServer::bind(server).err(), Some(BindError::NoCapabilities));
    let (client, server) = pair(4, 4096);
    assert_eq!(BuffersClient::bind(client, ()).err(), Some(BindError::NoBuffers));
    assert_eq!(BuffersServer::bind(server).err(), Some(BindError::NoBuffers));
    let (client, _server) = pair(4, 64);
    let short = EverythingClient::bind(client, ()).err();
    assert!(matches!(short, Some(BindError::TooShort { max_bytes: 64, .. })), "{short:?}");
}

#[test]
fn events_cannot_keep_a_call_past_its_deadline() {
    let (client, server) = pair(1000, 4096);
    let mut client = KvClient::bind(client, Events::default()).unwrap();
    let mut server = KvServer::bind(server).unwrap();
    let call = client.within(NOW).start(&KvGetRequest { key: "a" }).unwrap();
    for version in 0..500 {
        server.within(NOW).changed(&KvChanged { key: "a", version }).unwrap();
    }
    assert_eq!(client.wait(call).map(|_| ()), Err(CallError::TimedOut));
    assert!(client.events().0.len() < 500);
}
