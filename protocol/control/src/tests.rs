use core::num::NonZeroU16;
use core::time::Duration;

use proptest::prelude::*;
use tombolo_base::{ChannelId, DomainId, Isa, NodeId};
use tombolo_capability::{CapabilityId, Extent, Rights};
use tombolo_link::{ChannelConfig, Side, TransportKind};
use tombolo_naming::{
    Answer, Comparison, Condition, DeleteCause, Event, EventMask, Lifetime, NameFault, Notice, ObjectInfo,
    Operation, Query, Record, Scope, SetMode, Value,
};

use crate::*;

fn domain(index: u32) -> DomainId {
    DomainId::new(NodeId(1), NonZeroU16::MIN, index)
}

fn grant() -> Grant {
    Grant {
        channel: ChannelId(9),
        side: Side::B,
        peer: domain(4),
        peer_node: "arm0".into(),
        transport: TransportKind::Window,
        config: ChannelConfig::default(),
        window: Some(WindowPlace {
            offset_bytes: 4096,
            length_bytes: 36_864,
            ring: Some(3),
            caches: None,
            group: None,
        }),
        hop: ChannelId(12),
        via: vec![RelayNode { node: NodeId(0), name: "host".into() }],
    }
}

/// Formats eight-byte words in hexadecimal, in byte order.
fn words(message: &impl Wire) -> Vec<String> {
    let bytes = message.to_bytes().unwrap();
    bytes.chunks(8).map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect()).collect()
}

fn connect() -> ClientMessage {
    let body = Request::Connect {
        scope: Scope::Node("n".into()),
        name: "pong".into(),
        timeout: Duration::from_nanos(5),
        config: ChannelConfig::default(),
        by: None,
    };
    ClientMessage { request: 0x0102, body }
}

fn connected() -> MonitorMessage {
    MonitorMessage { request: request(Request::CONNECT, 1), body: Reply::Connect { grant: grant() } }
}

#[test]
fn request_encoding_is_golden() {
    let expected = [
        "0400080002020100",
        "0300000008000000",
        "4800000000000000",
        "5800000004000000",
        "0500000000000000",
        "4000000040000000",
        "0000000000000000",
        "0000000000000000",
        "0000000000000000",
        "5000000001000000",
        "6e00000000000000",
        "706f6e6700000000",
    ];
    assert_eq!(words(&connect()), expected);
    // The server knows which call it answers.
    let read = ClientMessage::from_bytes(&connect().to_bytes().unwrap()).unwrap();
    assert_eq!(read, ClientMessage { request: request(Request::CONNECT, 0x0102), ..connect() });
    assert_eq!(read.number(), 0x0102);
    assert_eq!(words(&read), expected);
}

#[test]
fn replies_and_orders_round_trip() {
    let replies = [
        (request(Request::CONNECT, 7), Reply::Connect { grant: grant() }),
        (
            request(Request::EXPORT, 0x00ff_ffff),
            Reply::Failed { fault: Fault::NameTaken { name: "x".into(), owner: domain(3) } },
        ),
        (request(Request::KILL, 1), Reply::Done),
        (0, Reply::Ended { domain: domain(1), exit: Exit::NodeLost { cause: "gone".into() } }),
        (0, Reply::Output { domain: domain(1), stream: 2, bytes: b"text\xff".to_vec() }),
    ];
    for (request, body) in replies {
        let message = MonitorMessage { request, body };
        assert_eq!(MonitorMessage::from_bytes(&message.to_bytes().unwrap()), Ok(message));
    }
    let order = Order::Start {
        order: StartOrder {
            domain: domain(8),
            build: [5; 32],
            program: ProgramSpec {
                name: "program".into(),
                arguments: vec!["a".into(), String::new()],
                environment: vec![("K".into(), "V".into())],
                directory: "/".into(),
                stdin: true,
                cpus: CpuPlacement { cpus: vec![0, 513], real_time_priority: 9 },
                side: Some("SIDE_FD".into()),
            },
        },
    };
    assert_eq!(Order::from_bytes(&order.to_bytes().unwrap()), Ok(order));
}

#[test]
fn reply_must_match_its_call() {
    let refused = |ordinal, body| {
        let message = MonitorMessage { request: request(ordinal, 1), body };
        assert_eq!(message.to_bytes(), Err(Unsendable::Answer { ordinal }));
    };
    refused(Request::KILL, Reply::Connect { grant: grant() });
    refused(Request::CONNECT, Reply::Done);
    refused(99, Reply::Done);
    assert_eq!(request(Request::KILL, 0), 0, "call number 0 asks for no answer");
    // A one-way message has no number, regardless of what its sender sets.
    let taken = ClientMessage { request: 5, body: Request::Accepted { count: 1 } };
    assert_eq!(ClientMessage::from_bytes(&taken.to_bytes().unwrap()).unwrap().request, 0);
}

#[test]
fn truncated_messages_are_refused() {
    let bytes = connected().to_bytes().unwrap();
    for length in 0..bytes.len() {
        assert!(MonitorMessage::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(MonitorMessage::from_bytes(&longer), Err(Malformed::Short));
}

#[test]
fn overlong_fields_are_refused_by_name() {
    let max = crate::records::MAX_GIVEN_NAME as usize;
    let restart = |bytes: usize| ClientMessage {
        request: 1,
        body: Request::Restart { node: "n".repeat(bytes), force: false },
    };
    for bytes in [max - 1, max] {
        assert!(ClientMessage::from_bytes(&restart(bytes).to_bytes().unwrap()).is_ok());
    }
    let error = restart(max + 1).to_bytes().unwrap_err();
    assert_eq!(error.to_string(), "`Restart.node` has 1025 elements or bytes; the interface allows 1024");
    // A list whose declared length exceeds the limit, with all of its bytes.
    let mut bytes = restart(max).to_bytes().unwrap();
    bytes[12..16].copy_from_slice(&(max as u32 + 1).to_le_bytes());
    bytes.extend([0; 8]);
    assert!(matches!(
        ClientMessage::from_bytes(&bytes),
        Err(Malformed::TooMany { count: 1025, max: 1024, .. })
    ));
}

#[test]
fn whole_message_has_a_limit() {
    let input = |bytes: usize| ClientMessage {
        request: 1,
        body: Request::Input { domain: domain(1), stream: 0, bytes: vec![7; bytes] },
    };
    let around = input(0).to_bytes().unwrap().len();
    let max = MAX_MESSAGE_BYTES - around;
    for bytes in [max - 1, max] {
        assert_eq!(input(bytes).to_bytes().unwrap().len(), MAX_MESSAGE_BYTES);
    }
    let length_bytes = MAX_MESSAGE_BYTES + 8;
    let error = Unsendable::TooLong { length_bytes, max_bytes: MAX_MESSAGE_BYTES };
    assert_eq!(input(max + 1).to_bytes(), Err(error));
    // A container of the longest client message can still be sent.
    let message = input(max).to_bytes().unwrap();
    assert!(Report::Asked { connection: 1, message: message.clone() }.to_bytes().is_ok());
    let attachments = vec![Attachment::Interrupt { vector: 1, window: 0 }; 16];
    let deliver = Order::Deliver { connection: 1, channel: ChannelId(1), attachments, message };
    assert!(deliver.to_bytes().is_ok());
}

#[test]
fn an_answer_that_cannot_be_sent_is_replaced_by_a_fault() {
    let bytes = vec![0; MAX_MESSAGE_BYTES];
    let read = MonitorMessage {
        request: request(Request::TRACE_READ, 3),
        body: Reply::TraceRead { bytes: bytes.clone() },
    };
    let decoded = MonitorMessage::from_bytes(&encode_or_fault(&read)).unwrap();
    assert_eq!(decoded.request, read.request);
    assert!(matches!(decoded.body, Reply::Failed { fault: Fault::Limit { .. } }));
    let event = MonitorMessage { request: 0, body: Reply::Output { domain: domain(1), stream: 1, bytes } };
    let decoded = MonitorMessage::from_bytes(&encode_or_fault(&event)).unwrap();
    assert!(matches!(decoded.body, Reply::TurnedAway { fault: Fault::Limit { .. } }));
}

/// A list with a wrong length causes no allocation: its elements must be present.
#[test]
fn wrong_length_is_refused() {
    let bytes = Request::Spawn {
        spawn: SpawnRequest {
            node: "n".into(),
            own_image: true,
            program: ProgramSpec { arguments: vec!["a".into()], ..ProgramSpec::new("") },
            given: Vec::new(),
        },
    };
    let mut bytes = ClientMessage { request: 1, body: bytes }.to_bytes().unwrap();
    // The struct lies inline behind the header; its arguments are its fourth word.
    let count = 8 + 24 + 4;
    assert_eq!(bytes[count..count + 4], [1, 0, 0, 0]);
    bytes[count..count + 4].copy_from_slice(&4096_u32.to_le_bytes());
    assert!(matches!(ClientMessage::from_bytes(&bytes), Err(Malformed::Reference { .. })));
}

#[test]
fn undefined_values_are_refused() {
    let bytes = connect().to_bytes().unwrap();
    let word = bytes.chunks(8).position(|word| word[..2] == [64, 0]).expect("64-byte slots") * 8;
    let mut wrong = bytes.clone();
    wrong[word] = 65;
    assert!(matches!(ClientMessage::from_bytes(&wrong), Err(Malformed::Meaning { .. })));
    let down = |ordinal: u8| {
        let mut bytes = ClientMessage { request: 1, body: Request::Down }.to_bytes().unwrap();
        bytes[0] = ordinal;
        ClientMessage::from_bytes(&bytes)
    };
    assert!(down(Request::DOWN as u8).is_ok());
    assert_eq!(down(99), Err(Malformed::Unknown { ordinal: 99 }));
}

#[test]
fn faults_read_as_sentences() {
    let fault = Fault::NoBuildForIsa {
        image: "x.tbi".into(),
        node: "arm0".into(),
        isa: Isa::Aarch64.into(),
        available: vec![Isa::X86_64.into(), Isa::S390x.into()],
    };
    assert_eq!(
        fault.to_string(),
        "x.tbi has no build for aarch64, which node arm0 runs; it has x86_64 and s390x \
         (`tombolo build` makes one for every node)"
    );
}

fn record() -> Record {
    let attributes = [
        ("b".to_owned(), Value::from(true)),
        ("f".to_owned(), Value::from(1.5)),
        ("i".to_owned(), Value::from(-2)),
        ("t".to_owned(), Value::from("text")),
        ("x".to_owned(), Value::from(&[1_u8, 2][..])),
    ];
    Record {
        name: "n".into(),
        attributes: attributes.into(),
        version: 7,
        owner: Some(domain(3)),
        endpoint: true,
    }
}

/// One operation of each kind.
fn operations() -> Vec<Operation> {
    let (name, timeout) = (String::from("n"), Duration::from_nanos(5));
    let query = Query::glob("a*").has("a").compare("b", Comparison::GreaterOrEqual, 3).matching("c", "^d$");
    let condition = Condition::Fenced { lock: "l".into(), token: 9 };
    vec![
        Operation::Find { query: query.clone(), after: "m".into(), limit: 5 },
        Operation::Await { query: Query::regex("^r"), timeout },
        Operation::Set {
            name: name.clone(),
            attributes: record().attributes,
            remove: vec!["old".into()],
            mode: SetMode::Sequential,
            lifetime: Lifetime::Persistent,
            condition: condition.clone(),
            want_previous: true,
        },
        Operation::Delete { name: name.clone(), condition: Condition::Version(4), want_previous: false },
        Operation::Watch { query: Query::any(), events: EventMask::RECORDS, once: true, capacity: 8 },
        Operation::Taken { watch: 1, count: 2 },
        Operation::Unwatch { watch: 1 },
        Operation::Publish { name: name.clone(), attributes: record().attributes },
        Operation::Lock { name: name.clone(), timeout },
        Operation::Unlock { name: name.clone(), token: 3 },
        Operation::Semaphore { name: name.clone(), permits: 4 },
        Operation::Acquire { name: name.clone(), permits: 1, timeout },
        Operation::Release { permit: 6, forget: true },
        Operation::Post { name: name.clone(), permits: 2 },
        Operation::RemoveSemaphore { name: name.clone() },
        Operation::Join { name, parties: 3 },
        Operation::Meet { place: 7, timeout },
        Operation::Leave { place: 7 },
        Operation::Cancel { request: 8 },
        Operation::Objects { after: ("lock".into(), "n".into()) },
    ]
}

fn find() -> ClientMessage {
    let operation = Operation::Find {
        query: Query::exact("ab").compare("c", Comparison::Less, 5),
        after: String::new(),
        limit: 9,
    };
    ClientMessage { request: 3, body: Request::Names { scope: Scope::Own, operation } }
}

fn derive() -> ClientMessage {
    let body = Request::CapabilityDerive {
        capability: CapabilityId(0x0102_0304_0506_0708),
        extent: Some(Extent { offset_bytes: 4096, length_bytes: 8192 }),
        rights: Rights::READ | Rights::GRANT,
        holder: Some(domain(9)),
        channel: ChannelId(7),
    };
    ClientMessage { request: request(Request::CAPABILITY_DERIVE, 0x0102), body }
}

#[test]
fn capability_request_encoding_is_golden() {
    let expected = [
        "3d00080002020100",
        "0807060504030201",
        "0100000000000000",
        "0010000000000000",
        "0020000000000000",
        "0500000000000000",
        "0100000000000000",
        "0900000001000100",
        "0700000000000000",
    ];
    assert_eq!(words(&derive()), expected);
    let read = ClientMessage::from_bytes(&derive().to_bytes().unwrap()).unwrap();
    assert_eq!((read.number(), read.body), (0x0102, derive().body));
}

#[test]
fn naming_request_encoding_is_golden() {
    let expected = [
        "1e00040002030000",
        "0200000000000000",
        "0000000000000000",
        "0100000028000000",
        "2800000000000000",
        "0100000008000000",
        "5000000000000000",
        "6000000001000000",
        "0000000000000000",
        "0900000000000000",
        "5800000002000000",
        "6162000000000000",
        "7800000001000000",
        "0200000018000000",
        "8000000000000000",
        "6300000000000000",
        "0200000000000000",
        "0100000008000000",
        "9800000000000000",
        "0500000000000000",
    ];
    assert_eq!(words(&find()), expected);
    assert!(is_naming_request(&find().to_bytes().unwrap()));
    assert!(
        !is_naming_request(&connect().to_bytes().unwrap())
            && !is_naming_request(&[30; 8])
            && !is_naming_request(&[2])
    );
}

fn deleted() -> MonitorMessage {
    let mut record = record();
    record.attributes.retain(|name, _| name == "i" || name == "t");
    let event = Event::Deleted { record, cause: DeleteCause::OwnerGone };
    let notice = Notice { watch: 5, lost: 1, last: true, event };
    MonitorMessage { request: 0, body: Reply::Noticed { origin: Some(NodeId(2)), notice } }
}

#[test]
fn notice_encoding_is_golden() {
    let expected = [
        "3600060001000000",
        "0100020000000000",
        "0500000000000000",
        "0100000000000000",
        "0100000000000000",
        "0200000038000000",
        "3800000000000000",
        "7000000001000000",
        "7800000002000000",
        "0700000000000000",
        "0100000000000000",
        "0300000001000100",
        "0100000000000000",
        "0100000000000000",
        "6e00000000000000",
        "a800000001000000",
        "0100000008000000",
        "b000000000000000",
        "b800000001000000",
        "0300000008000000",
        "c000000000000000",
        "6900000000000000",
        "feffffffffffffff",
        "7400000000000000",
        "c800000004000000",
        "7465787400000000",
    ];
    assert_eq!(words(&deleted()), expected);
}

#[test]
fn name_operations_round_trip_and_every_truncation_is_refused() {
    for operation in operations() {
        for scope in [Scope::Machine, Scope::Own, Scope::Node("arm0".into())] {
            let body = Request::Names { scope, operation: operation.clone() };
            let message = ClientMessage { request: request(Request::NAMES, 7), body };
            let bytes = message.to_bytes().unwrap();
            for length in 0..bytes.len() {
                assert!(
                    ClientMessage::from_bytes(&bytes[..length]).is_err(),
                    "{operation:?} cut at {length}"
                );
            }
            assert_eq!(ClientMessage::from_bytes(&bytes), Ok(message));
        }
    }
    let answers = [
        Answer::Done,
        Answer::Found { records: vec![record(), record()], next: Some("n".into()) },
        Answer::Changed { name: "n".into(), version: 1, previous: Some(record()) },
        Answer::Watching { watch: 1, records: vec![record()], next: None },
        Answer::Met { generation: 2, leader: true },
        Answer::Objects {
            objects: vec![ObjectInfo {
                kind: "lock".into(),
                name: "n".into(),
                holders: vec![domain(1)],
                count: 3,
                waiting: 4,
            }],
            more: true,
        },
    ];
    let names = request(Request::NAMES, 7);
    for answer in answers {
        let message = MonitorMessage { request: names, body: Reply::Names { origin: None, answer } };
        assert_eq!(MonitorMessage::from_bytes(&message.to_bytes().unwrap()), Ok(message));
    }
    let fault = NameFault::BarrierBroken { name: "b".into(), by: Some(domain(2)), died: true };
    assert_eq!(fault.to_string(), "domain 1.1.2 died, so the barrier 'b' can never complete");
    let message = MonitorMessage { request: names, body: Reply::Failed { fault: Fault::Name { fault } } };
    assert_eq!(MonitorMessage::from_bytes(&message.to_bytes().unwrap()), Ok(message));
}

#[test]
fn attributes_have_one_encoding() {
    let attributes = ["a", "b"].map(|name| (name.to_owned(), Value::from(true)));
    let operation = Operation::Publish { name: String::new(), attributes: attributes.into() };
    let message = ClientMessage { request: 1, body: Request::Names { scope: Scope::Machine, operation } };
    let mut bytes = message.to_bytes().unwrap();
    // The names are one byte long, in words of their own.
    let places: Vec<usize> = (0..bytes.len())
        .step_by(8)
        .filter(|at| matches!(bytes[*at..][..8], [b'a' | b'b', 0, 0, 0, 0, 0, 0, 0]))
        .collect();
    let [first, second] = places[..] else { panic!("{places:?}") };
    bytes.swap(first, second);
    let order = Malformed::Meaning { what: "map in the order of its keys" };
    assert_eq!(ClientMessage::from_bytes(&bytes), Err(order));
    bytes[first] = b'a';
    assert_eq!(ClientMessage::from_bytes(&bytes), Err(order), "each once");
}

/// Everything that can be decoded can be encoded, and then decodes to the same value.
fn check_round_trip<M: Wire + PartialEq + core::fmt::Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(message) = M::from_bytes(bytes) {
        let again = message.to_bytes().map(|bytes| M::from_bytes(&bytes));
        prop_assert_eq!(again, Ok(Ok(message)));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_flipped_byte_of_an_operation_never_panics(
        which in 0_usize..20, index in any::<usize>(), value in any::<u8>(),
    ) {
        let body = Request::Names { scope: Scope::Own, operation: operations()[which].clone() };
        let mut bytes = ClientMessage { request: 1, body }.to_bytes().unwrap();
        let index = index % bytes.len();
        bytes[index] = value;
        check_round_trip::<ClientMessage>(&bytes)?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        check_round_trip::<ClientMessage>(&bytes)?;
        check_round_trip::<MonitorMessage>(&bytes)?;
        check_round_trip::<Order>(&bytes)?;
        check_round_trip::<Report>(&bytes)?;
    }

    #[test]
    fn a_flipped_byte_never_panics(index in any::<usize>(), value in any::<u8>()) {
        let mut bytes = connected().to_bytes().unwrap();
        let index = index % bytes.len();
        bytes[index] = value;
        check_round_trip::<MonitorMessage>(&bytes)?;
    }
}

/// Frozen: builds that differ in everything else must understand these.
#[test]
fn handshake_encodings_are_golden() {
    let body = Request::Attach { version: 0x0403_0201, program: "p".into() };
    let attach = ClientMessage { request: 1, body };
    assert_eq!(
        words(&attach),
        ["0100020002010000", "0102030400000000", "1800000001000000", "7000000000000000",]
    );
    let fault = Fault::Refused { why: "no".into() };
    let refused = MonitorMessage { request: request(Request::ATTACH, 1), body: Reply::Failed { fault } };
    assert_eq!(
        words(&refused),
        ["0100020004010000", "0c00000008000000", "1800000000000000", "2000000002000000", "6e6f000000000000",]
    );
    let welcome = Order::Welcome { node: NodeId(3), name: "n".into(), machine: "m".into() };
    assert_eq!(
        words(&welcome),
        [
            "0100030001000000",
            "0300000000000000",
            "2000000001000000",
            "2800000001000000",
            "6e00000000000000",
            "6d00000000000000",
        ]
    );
    let ready = Report::Ready { version: 0x0403_0201, isa: Isa::X86_64, cores: 2, pid: 5 };
    assert_eq!(words(&ready), ["6500020001000000", "0102030401000200", "0500000000000000",]);
}

#[test]
fn only_root_socket_names_are_parsed() {
    let root = socket_name(1000, "lab", None);
    assert_eq!(root, "tombolo/1000/lab");
    assert_eq!(parse_socket_name(&root), Some((1000, "lab")));
    let agent = socket_name(1000, "lab", Some("arm0"));
    assert_eq!(agent, "tombolo/1000/lab/arm0");
    assert_eq!(parse_socket_name(&agent), None);
}

#[test]
fn a_node_is_starting_while_it_is_neither_up_nor_down() {
    let node = |up: bool, cause: &str| NodeInfo {
        up,
        cause: cause.into(),
        ..NodeInfo::new(NodeId(1), "n", NodeKind::Vm, Isa::current())
    };
    let starting = [(false, STARTING), (false, "killed"), (true, STARTING), (true, "")];
    let starting = starting.map(|(up, cause)| node(up, cause).is_starting());
    assert_eq!(starting, [true, false, false, false]);
}

#[test]
fn fingerprint_covers_both_interfaces_and_channels() {
    let hash = |one: u64, next: u64| {
        let bytes: Vec<u8> = one.to_le_bytes().into_iter().chain(next.to_le_bytes()).collect();
        tombolo_base::hash::fnv1a(&bytes)
    };
    let interfaces = hash(monitor::MONITOR_FINGERPRINT, agent::AGENT_FINGERPRINT);
    let all = hash(interfaces, u64::from(tombolo_link::hello::PROTOCOL_VERSION));
    assert_eq!(FINGERPRINT, (all & 0xffff_ffff) as u32 ^ (all >> 32) as u32);
    assert_eq!(NODE_LISTENERS, 0x8000_0000);
    assert_eq!(MAX_TRACE_READ_BYTES, 49_152);
}
