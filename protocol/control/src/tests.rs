use core::num::NonZeroU16;
use core::time::Duration;

use proptest::prelude::*;
use tombolo_base::{ChannelId, DomainId, Isa, NodeId};
use tombolo_link::{ChannelConfig, Side, TransportKind};
use tombolo_naming::{
    Answer, Attributes, Comparison, Condition, DeleteCause, Event, EventMask, Lifetime, NameFault, Notice,
    ObjectInfo, Operation, Query, Record, Scope, SetMode, Value,
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
        window: Some(WindowPlace { offset_bytes: 4096, length_bytes: 36_864, ring: Some(3) }),
    }
}

#[test]
fn a_request_is_golden() {
    let message = ClientMessage {
        request: 0x0102,
        body: Request::Connect {
            scope: Scope::Node("n".into()),
            name: "pong".into(),
            timeout: Duration::from_nanos(5),
            config: ChannelConfig::default(),
        },
    };
    let expected = [
        2, 1, 0, 0, 4, 3, 1, 0, 0, 0, b'n', 4, 0, 0, 0, b'p', b'o', b'n', b'g', 5, 0, 0, 0, 0, 0, 0, 0, 64,
        0, 64, 0, 0, 0, 0,
    ];
    assert_eq!(message.to_bytes(), expected);
    assert_eq!(ClientMessage::from_bytes(&expected), Ok(message));
}

#[test]
fn replies_and_orders_come_back_as_they_went() {
    let replies = [
        Reply::Connected { grant: grant() },
        Reply::Failed { fault: Fault::NameTaken { name: "x".into(), owner: domain(3) } },
        Reply::Ended { domain: domain(1), exit: Exit::NodeLost { cause: "gone".into() } },
        Reply::Output { domain: domain(1), stream: 2, bytes: Bytes(b"text\xff".to_vec()) },
    ];
    for body in replies {
        let message = MonitorMessage { request: 7, body };
        assert_eq!(MonitorMessage::from_bytes(&message.to_bytes()), Ok(message));
    }
    let order = Order::Start {
        order: StartOrder {
            domain: domain(8),
            program: [5; 32],
            name: "program".into(),
            arguments: vec!["a".into(), String::new()],
            environment: vec![("K".into(), "V".into())],
            directory: "/".into(),
            stdin: true,
            seat: Seat { cpus: vec![0, 513], real_time_priority: 9 },
        },
    };
    assert_eq!(Order::from_bytes(&order.to_bytes()), Ok(order));
}

#[test]
fn every_cut_of_a_message_is_short_and_never_a_panic() {
    let bytes = MonitorMessage { request: 1, body: Reply::Connected { grant: grant() } }.to_bytes();
    for length in 0..bytes.len() {
        assert_eq!(MonitorMessage::from_bytes(&bytes[..length]), Err(DecodeError::Short), "{length}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(MonitorMessage::from_bytes(&longer), Err(DecodeError::Trailing(1)));
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

/// Every operation, once.
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

#[test]
fn a_request_about_names_is_golden() {
    let operation = Operation::Find {
        query: Query::exact("ab").compare("c", Comparison::Less, 5),
        after: String::new(),
        limit: 9,
    };
    let message = ClientMessage { request: 3, body: Request::Names { scope: Scope::Own, operation } };
    let expected = [
        3, 0, 0, 0, 30, 2, // request, names, own
        1, 1, 2, 0, 0, 0, b'a', b'b', // find, exact
        1, 0, 0, 0, 1, 0, 0, 0, b'c', 2, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0, // one constraint: c < 5
        0, 0, 0, 0, 9, 0, 0, 0, // after, limit
    ];
    assert_eq!(message.to_bytes(), expected);
    assert!(ClientMessage::is_about_names(&expected));
    assert!(!ClientMessage::is_about_names(&[30, 30, 30, 30, 9]) && !ClientMessage::is_about_names(&[1]));
}

#[test]
fn a_notice_is_golden() {
    let mut record = record();
    record.attributes.retain(|name, _| name == "i" || name == "t");
    let notice = Notice {
        watch: 5,
        lost: 1,
        last: true,
        event: Event::Deleted { record, cause: DeleteCause::OwnerGone },
    };
    let body = Reply::Noticed { origin: Some(NodeId(2)), notice };
    let expected = [
        0, 0, 0, 0, 31, 1, 2, 0, // event, noticed, node 2
        5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, // watch, lost, last
        2, 1, 0, 0, 0, b'n', // deleted n
        2, 0, 0, 0, 1, 0, 0, 0, b'i', 1, 254, 255, 255, 255, 255, 255, 255, 255, // i: -2
        1, 0, 0, 0, b't', 3, 4, 0, 0, 0, b't', b'e', b'x', b't', // t: 'text'
        7, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 1, 0, 1, 0, 1, 1, // version, owner, endpoint, cause
    ];
    assert_eq!(MonitorMessage { request: 0, body }.to_bytes(), expected);
}

#[test]
fn what_is_said_of_names_comes_back_as_it_went_and_every_cut_is_short() {
    for operation in operations() {
        for scope in [Scope::Machine, Scope::Own, Scope::Node("arm0".into())] {
            let body = Request::Names { scope, operation: operation.clone() };
            let message = ClientMessage { request: 7, body };
            let bytes = message.to_bytes();
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
    for answer in answers {
        let message = MonitorMessage { request: 7, body: Reply::Named { origin: None, answer } };
        assert_eq!(MonitorMessage::from_bytes(&message.to_bytes()), Ok(message));
    }
    let fault = NameFault::BarrierBroken { name: "b".into(), by: Some(domain(2)), died: true };
    assert_eq!(fault.to_string(), "domain 1.1.2 died, and the barrier 'b' would wait for it for ever");
    let message = MonitorMessage { request: 7, body: Reply::Failed { fault: Fault::Name { fault } } };
    assert_eq!(MonitorMessage::from_bytes(&message.to_bytes()), Ok(message));
}

#[test]
fn attributes_have_one_encoding() {
    let mut bytes = Vec::new();
    2_u32.encode(&mut bytes);
    for name in ["b", "a"] {
        name.to_owned().encode(&mut bytes);
        Value::from(true).encode(&mut bytes);
    }
    assert!(matches!(
        Attributes::from_bytes(&bytes),
        Err(DecodeError::Tag { what: "attribute in order", tag: 1 })
    ));
}

proptest! {
    #[test]
    fn a_flipped_byte_of_an_operation_never_panics(which in 0_usize..20, index in any::<usize>(), value in any::<u8>()) {
        let mut bytes = operations()[which].to_bytes();
        let index = index % bytes.len();
        bytes[index] = value;
        if let Ok(operation) = Operation::from_bytes(&bytes) {
            prop_assert_eq!(operation.to_bytes(), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = ClientMessage::from_bytes(&bytes);
        let _ = MonitorMessage::from_bytes(&bytes);
        let _ = Order::from_bytes(&bytes);
        let _ = Report::from_bytes(&bytes);
    }

    #[test]
    fn a_flipped_byte_never_panics(index in 0_usize..64, value in any::<u8>()) {
        let mut bytes = MonitorMessage { request: 1, body: Reply::Connected { grant: grant() } }.to_bytes();
        let index = index % bytes.len();
        bytes[index] = value;
        if let Ok(message) = MonitorMessage::from_bytes(&bytes) {
            prop_assert_eq!(message.to_bytes(), bytes);
        }
    }
}

#[allow(unreachable_pub)]
mod shapes {
    //! What makes two builds different, and what they can still say to each other.

    use super::*;
    use crate::wire::{wire_enum, wire_struct};

    macro_rules! shape_of_struct {
        ($($fields:tt)*) => {{
            wire_struct! { #[allow(dead_code)] Sample { $($fields)* } }
            Sample::SHAPE
        }};
    }

    macro_rules! shape_of_enum {
        ($($variants:tt)*) => {{
            wire_enum! { #[allow(dead_code)] Sample { $($variants)* } }
            Sample::SHAPE
        }};
    }

    #[test]
    fn every_change_of_a_table_shows() {
        let shapes = [
            shape_of_struct!(a: u32,),
            shape_of_struct!(b: u32,),
            shape_of_struct!(a: u64,),
            shape_of_struct!(a: i32,),
            shape_of_struct!(a: Vec<u32>,),
            shape_of_struct!(a: Option<u32>,),
            shape_of_struct!(a: u32, b: u16,),
            shape_of_struct!(b: u16, a: u32,),
            shape_of_enum!(1 => A {}),
            shape_of_enum!(2 => A {}),
            shape_of_enum!(1 => B {}),
            shape_of_enum!(1 => A { a: u32, }),
            shape_of_enum!(1 => A { a: String, }),
            shape_of_enum!(1 => A {} 2 => B {}),
            shape_of_enum!(2 => B {} 1 => A {}),
        ];
        for (index, shape) in shapes.iter().enumerate() {
            assert!(!shapes[..index].contains(shape), "{index}");
        }
        assert_eq!(shape_of_struct!(a: u32,), shape_of_struct!(a: u32,));
    }

    #[test]
    fn a_change_deep_inside_shows() {
        mod other {
            use crate::wire::wire_struct;
            wire_struct! { Inner { a: u8, } }
            wire_struct! { Outer { inner: Vec<(u8, Inner)>, } }
        }
        wire_struct! { Inner { a: u8, b: u8, } }
        wire_struct! { Outer { inner: Vec<(u8, Inner)>, } }
        assert_ne!(Outer::SHAPE, other::Outer::SHAPE);
    }

    /// What never changes: these have to be understood by builds that differ in all else.
    #[test]
    fn first_words_are_golden() {
        let attach =
            ClientMessage { request: 1, body: Request::Attach { version: 0x0403_0201, program: "p".into() } };
        assert_eq!(attach.to_bytes(), [1, 0, 0, 0, 1, 1, 2, 3, 4, 1, 0, 0, 0, b'p']);
        let fault = Fault::Refused { why: "no".into() };
        let refused = MonitorMessage { request: 1, body: Reply::Failed { fault } };
        assert_eq!(refused.to_bytes(), [1, 0, 0, 0, 1, 12, 2, 0, 0, 0, b'n', b'o']);
        let welcome = Order::Welcome { node: NodeId(3), name: "n".into(), machine: "m".into() };
        assert_eq!(welcome.to_bytes(), [1, 3, 0, 1, 0, 0, 0, b'n', 1, 0, 0, 0, b'm']);
        let ready = Report::Ready { version: 0x0403_0201, isa: Isa::X86_64, cores: 2, pid: 5 };
        assert_eq!(ready.to_bytes(), [1, 1, 2, 3, 4, Isa::X86_64.code(), 2, 0, 5, 0, 0, 0]);
    }
}
