use core::num::NonZeroU16;
use core::time::Duration;

use proptest::prelude::*;
use tombolo_base::{ChannelId, DomainId, Isa, NodeId};
use tombolo_link::{ChannelConfig, Side, TransportKind};

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
            name: "pong".into(),
            timeout: Duration::from_nanos(5),
            config: ChannelConfig::default(),
        },
    };
    let expected =
        [2, 1, 0, 0, 4, 4, 0, 0, 0, b'p', b'o', b'n', b'g', 5, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 0, 0, 0];
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
fn names() {
    assert!(is_name("pong") && is_name("a/b:c.d_e-9") && is_name(&"n".repeat(MAX_NAME_BYTES)));
    for name in ["", "with space", "ümlaut", "new\nline", &"n".repeat(MAX_NAME_BYTES + 1)] {
        assert!(!is_name(name), "{name:?}");
    }
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

proptest! {
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
