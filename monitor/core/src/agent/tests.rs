//! An agent's decisions, driven by orders and events alone. Descriptors are numbers.

use std::num::NonZeroU16;

use tombolo_base::{ChannelId, DomainId, NodeId, WindowId};
use tombolo_control::{
    Attachment, AttachmentWindow, Exit, MAX_MESSAGE_BYTES, Order, ProgramSpec, Report, StartOrder,
};

use super::{
    Action, AgentCore, Item, MAX_QUEUED_BYTES, MAX_QUEUED_DESCRIPTORS, PAUSE_QUEUED_BYTES, PIECE_BYTES,
    ProcessInfo, ProgramSource, QUEUED_OVERHEAD_BYTES, Stopped,
};

mod names;
mod samples;

type Agent = AgentCore<u32>;

const CHANNEL: ChannelId = ChannelId(7);

fn domain(index: u32) -> DomainId {
    DomainId::new(NodeId(1), NonZeroU16::MIN, index)
}

fn reports(agent: &mut Agent) -> Vec<Report> {
    std::iter::from_fn(|| agent.next_report()).map(|(report, _)| report).collect()
}

fn actions(agent: &mut Agent) -> Vec<Action<u32>> {
    std::iter::from_fn(|| agent.next_action()).collect()
}

/// Returns an agent with one domain, process 50, that has an input.
fn with_child() -> Agent {
    let mut agent = Agent::new();
    agent.child_started(domain(1), 50, &[0]);
    assert_eq!(reports(&mut agent), [Report::Started { domain: domain(1), pid: 50 }]);
    agent
}

fn deliver(connection: u32, attachments: Vec<Attachment>) -> Order {
    Order::Deliver { connection, channel: CHANNEL, attachments, message: vec![1] }
}

#[test]
fn client_numbers_are_unique_and_domain_found_by_pid() {
    let mut agent = with_child();
    assert_eq!(agent.client_connected(50, true), Some(1));
    agent.client_disconnected(1);
    agent.client_disconnected(1);
    assert_eq!(agent.client_connected(51, true), Some(2));
    assert_eq!(agent.client_connected(51, false), None);
    let joined = |connection, pid, domain| Report::Joined { connection, pid, domain };
    let expected = [joined(1, 50, Some(domain(1))), Report::Left { connection: 1 }, joined(2, 51, None)];
    assert_eq!(reports(&mut agent), expected);
    assert_eq!(actions(&mut agent), [Action::Close { connection: 1 }]);
}

#[test]
fn message_length_is_checked() {
    for (length, truncated, good) in [
        (0, false, false),
        (1, false, true),
        (MAX_MESSAGE_BYTES, false, true),
        (MAX_MESSAGE_BYTES, true, false),
        (MAX_MESSAGE_BYTES + 1, false, false),
    ] {
        let mut agent = Agent::new();
        agent.client_connected(9, true);
        agent.next_report();
        agent.client_message_received(1, vec![0; length], truncated, Some(5));
        let (report, file) = agent.next_report().unwrap();
        assert_eq!(matches!(report, Report::Asked { .. }), good, "{length}");
        assert_eq!(file.is_some(), good);
        assert_eq!(agent.next_action().is_some(), !good);
    }
}

/// Returns an agent with one client and a message of `length_bytes` to it.
fn with_client(length_bytes: usize, attachments: usize) -> (Agent, Order) {
    let mut agent = Agent::new();
    agent.client_connected(9, true);
    agent.next_report();
    let message = vec![0; length_bytes - QUEUED_OVERHEAD_BYTES];
    let attachments = vec![Attachment::Registers(AttachmentWindow { window: 0 }); attachments];
    (agent, Order::Deliver { connection: 1, channel: CHANNEL, attachments, message })
}

#[test]
fn slow_client_is_paused_and_then_dropped() {
    let (mut agent, order) = with_client(PAUSE_QUEUED_BYTES, 0);
    assert!(agent.should_read_client(1));
    agent.execute(order.clone(), vec![]).unwrap();
    assert!(!agent.should_read_client(1));
    agent.client_message_sent(1);
    assert!(agent.should_read_client(1));
    agent.set_requests_enabled(false);
    assert!(!agent.should_read_client(1));
    for _ in 0..MAX_QUEUED_BYTES / PAUSE_QUEUED_BYTES {
        agent.execute(order.clone(), vec![]).unwrap();
        actions(&mut agent);
    }
    assert!(reports(&mut agent).is_empty());
    agent.execute(order, vec![]).unwrap();
    assert_eq!(reports(&mut agent), [Report::Left { connection: 1 }]);
    assert_eq!(actions(&mut agent).pop(), Some(Action::Close { connection: 1 }));
}

#[test]
fn queued_descriptors_are_limited() {
    let (mut agent, order) = with_client(100, 4);
    for _ in 0..MAX_QUEUED_DESCRIPTORS / 4 {
        agent.execute(order.clone(), vec![]).unwrap();
    }
    assert!(reports(&mut agent).is_empty());
    agent.client_message_sent(1);
    agent.execute(order.clone(), vec![]).unwrap();
    assert!(reports(&mut agent).is_empty());
    agent.execute(order, vec![]).unwrap();
    assert_eq!(reports(&mut agent), [Report::Left { connection: 1 }]);
}

#[test]
fn trace_pages_follow_the_root_orders() {
    let mut agent = Agent::new();
    let of = domain(3);
    agent.execute(Order::Trace { word: 5 }, vec![]).unwrap();
    let read = Order::TraceRead { ticket: 7, domain: of, offset_bytes: 8, length_bytes: 16 };
    agent.execute(read, vec![]).unwrap();
    agent.execute(Order::TraceForget { domain: of }, vec![]).unwrap();
    let expected = [
        Action::Trace { word: 5 },
        Action::ReadTrace { ticket: 7, domain: of, offset_bytes: 8, length_bytes: 16 },
        Action::ForgetTrace { domain: of },
    ];
    assert_eq!(actions(&mut agent), expected);
    agent.trace_read(7, Some(vec![1]));
    agent.trace_read(8, None);
    let answer = |ticket, bytes: Option<Vec<u8>>| Report::TraceBytes { ticket, bytes };
    assert_eq!(reports(&mut agent), [answer(7, Some(vec![1])), answer(8, None)]);
}

#[test]
fn descriptors_are_passed_in_order_with_gaps() {
    let mut agent = Agent::new();
    let attachments = vec![
        Attachment::Passed,
        Attachment::Lifeline,
        Attachment::Interrupt { vector: 3, window: 4 },
        Attachment::Passed,
        Attachment::SharedBell { offset_bytes: 8192, window: 4, accepting: true, group: Some(4104) },
    ];
    agent.execute(deliver(9, attachments), vec![42]).unwrap();
    let Some(Action::Send { connection: 9, channel: CHANNEL, items, .. }) = agent.next_action() else {
        panic!()
    };
    let window = WindowId(4);
    let shared = Item::SharedBell { window, offset_bytes: 8192, accepting: true, group: Some(4104) };
    assert_eq!(items, [Item::Passed(42), Item::Lifeline, Item::Interrupt(window, 3), Item::Missing, shared]);
}

#[test]
fn a_lifeline_is_released_once_and_hung_up_while_it_is_there() {
    let mut agent = Agent::new();
    agent.execute(Order::HangUp { channel: CHANNEL }, vec![]).unwrap();
    assert!(actions(&mut agent).is_empty());
    agent.lifeline_created(CHANNEL);
    agent.execute(Order::HangUp { channel: CHANNEL }, vec![]).unwrap();
    assert_eq!(actions(&mut agent), [Action::HangUp { channel: CHANNEL }]);
    agent.lifeline_closed(CHANNEL);
    agent.lifeline_closed(CHANNEL);
    assert_eq!(actions(&mut agent), [Action::CloseLifeline { channel: CHANNEL }]);
    assert_eq!(reports(&mut agent), [Report::Released { channel: CHANNEL }]);
    agent.lifeline_failed(ChannelId(8));
    assert_eq!(reports(&mut agent), [Report::Released { channel: ChannelId(8) }]);
}

#[test]
fn output_reading_is_flow_controlled() {
    let mut agent = with_child();
    let taken = |bytes| Order::OutputTaken { domain: domain(1), stream: 1, bytes };
    for _ in 0..8 {
        assert!(agent.may_read_output(domain(1), 1));
        agent.output_read(domain(1), 1, vec![0; PIECE_BYTES]);
    }
    assert!(!agent.may_read_output(domain(1), 1) && agent.may_read_output(domain(1), 2));
    agent.execute(taken(PIECE_BYTES as u32), vec![]).unwrap();
    assert!(agent.may_read_output(domain(1), 1));
    // The number of pieces is limited regardless of their length.
    let mut agent = with_child();
    (0..8).for_each(|_| agent.output_read(domain(1), 1, vec![0]));
    assert!(!agent.may_read_output(domain(1), 1));
    agent.execute(taken(1), vec![]).unwrap();
    assert!(agent.may_read_output(domain(1), 1));
}

#[test]
fn exit_is_reported_once_after_all_output() {
    let mut agent = with_child();
    let exit = Exit::Exited { status: 3 };
    agent.output_read(domain(1), 2, vec![]);
    agent.child_exited(domain(1), exit.clone());
    assert!(agent.take_orphans_expected() && !agent.take_orphans_expected());
    agent.execute(Order::Signal { domain: domain(1), signal: 9 }, vec![]).unwrap();
    assert!(actions(&mut agent).is_empty(), "a reaped process has no number of its own");
    agent.output_read(domain(1), 1, b"last".to_vec());
    agent.output_read(domain(1), 1, vec![]);
    agent.output_read(domain(1), 1, vec![]);
    agent.child_exited(domain(1), exit.clone());
    let output = |stream, bytes: &[u8]| Report::Output { domain: domain(1), stream, bytes: bytes.to_vec() };
    let expected =
        [output(2, b""), output(1, b"last"), output(1, b""), Report::Ended { domain: domain(1), exit }];
    assert_eq!(reports(&mut agent), expected);
}

#[test]
fn input_is_written_piecewise_and_closed() {
    let mut agent = with_child();
    let feed = |bytes: &[u8]| Order::Input { domain: domain(1), stream: 0, bytes: bytes.to_vec() };
    let taken = Report::InputTaken { domain: domain(1), stream: 0 };
    agent.execute(feed(b"abc"), vec![]).unwrap();
    assert_eq!(actions(&mut agent), [Action::WriteInput { domain: domain(1), stream: 0 }]);
    agent.input_written(domain(1), 0, 2);
    assert_eq!(agent.next_input(domain(1), 0), Some(&b"c"[..]));
    assert!(reports(&mut agent).is_empty());
    agent.execute(feed(b""), vec![]).unwrap();
    agent.input_written(domain(1), 0, 1);
    assert_eq!(reports(&mut agent), [taken.clone(), taken.clone()]);
    assert!(actions(&mut agent).contains(&Action::CloseInput { domain: domain(1), stream: 0 }));
    assert_eq!(agent.next_input(domain(1), 0), None);
    agent.execute(feed(b"late"), vec![]).unwrap();
    assert_eq!(reports(&mut agent).as_slice(), std::slice::from_ref(&taken));
    // A closed input discards the rest.
    let mut agent = with_child();
    agent.execute(feed(b"abc"), vec![]).unwrap();
    agent.input_closed(domain(1), 0);
    assert_eq!(reports(&mut agent), [taken]);
}

#[test]
fn side_stream_is_bidirectional_with_independent_ends() {
    let mut agent = Agent::new();
    agent.child_started(domain(1), 50, &[3]);
    reports(&mut agent);
    let feed = |bytes: &[u8]| Order::Input { domain: domain(1), stream: 3, bytes: bytes.to_vec() };
    let taken = Report::InputTaken { domain: domain(1), stream: 3 };
    // There is no other input.
    agent.execute(Order::Input { domain: domain(1), stream: 0, bytes: b"x".to_vec() }, vec![]).unwrap();
    assert_eq!(reports(&mut agent), [Report::InputTaken { domain: domain(1), stream: 0 }]);
    agent.execute(feed(b"ask"), vec![]).unwrap();
    assert_eq!(actions(&mut agent).last(), Some(&Action::WriteInput { domain: domain(1), stream: 3 }));
    agent.input_written(domain(1), 3, 3);
    // Its output is still read at the reader's pace, independent of its input.
    agent.execute(feed(b""), vec![]).unwrap();
    assert!(actions(&mut agent).contains(&Action::CloseInput { domain: domain(1), stream: 3 }));
    for _ in 0..8 {
        assert!(agent.may_read_output(domain(1), 3));
        agent.output_read(domain(1), 3, b"answer".to_vec());
    }
    assert!(!agent.may_read_output(domain(1), 3) && agent.may_read_output(domain(1), 1));
    agent.execute(Order::OutputTaken { domain: domain(1), stream: 3, bytes: 6 }, vec![]).unwrap();
    assert!(agent.may_read_output(domain(1), 3));
    let said = reports(&mut agent);
    assert_eq!(said[..2], [taken.clone(), taken]);
    assert_eq!(said.len(), 10);
    // The report of the domain's end waits for the end of the side stream too.
    let exit = Exit::Exited { status: 0 };
    agent.child_exited(domain(1), exit.clone());
    [1, 2].into_iter().for_each(|stream| agent.output_read(domain(1), stream, vec![]));
    assert!(reports(&mut agent).iter().all(|report| !matches!(report, Report::Ended { .. })));
    agent.output_read(domain(1), 3, vec![]);
    assert_eq!(reports(&mut agent).last(), Some(&Report::Ended { domain: domain(1), exit }));
}

#[test]
fn programs_arrive_by_descriptor_window_or_stream() {
    let mut agent = Agent::new();
    let hash = [5; 32];
    let program =
        |window_offset_bytes, stream| Order::Program { hash, length_bytes: 99, window_offset_bytes, stream };
    agent.execute(program(None, None), vec![3]).unwrap();
    agent.execute(program(Some(4096), None), vec![]).unwrap();
    agent.execute(program(None, Some(ChannelId(7))), vec![]).unwrap();
    let window = ProgramSource::Window { offset_bytes: 4096, length_bytes: 99 };
    let stream = ProgramSource::Stream { stream: ChannelId(7), length_bytes: 99 };
    let expected = [ProgramSource::Passed(Some(3)), window, stream];
    let expected = expected.map(|source| Action::Keep { hash, source });
    assert_eq!(actions(&mut agent), expected);
    agent.program_copied(hash);
    assert_eq!(reports(&mut agent), [Report::ProgramTaken { hash }]);
    let order = StartOrder { domain: domain(2), build: hash, program: ProgramSpec::new("p") };
    agent.execute(Order::Start { order: order.clone() }, vec![]).unwrap();
    assert_eq!(actions(&mut agent), [Action::Start { order }]);
    agent.child_start_failed(domain(2), "no".into());
    assert_eq!(reports(&mut agent), [Report::NotStarted { domain: domain(2), why: "no".into() }]);
    assert!(agent.take_orphans_expected());
    assert_eq!(agent.execute(Order::Stop, vec![]), Err(Stopped));
}

#[test]
fn orphans_belong_to_no_living_domain() {
    let agent = with_child();
    let process = |pid, group| ProcessInfo { pid, group };
    let (nobody, nowhere) = (|| None, |_| false);
    assert!(!agent.is_orphan(process(50, 50), nobody, nowhere), "the domain itself");
    assert!(!agent.is_orphan(process(60, 50), nobody, nowhere), "of its group");
    assert!(!agent.is_orphan(process(60, 60), || Some(domain(1)), nowhere), "of its environment");
    assert!(
        !agent.is_orphan(process(60, 60), || Some(domain(2)), |of| of == domain(2)),
        "of a domain elsewhere"
    );
    assert!(agent.is_orphan(process(60, 60), || Some(domain(2)), nowhere));
    assert!(agent.is_orphan(process(60, 60), nobody, nowhere));
}
