//! Tests of the monitor on a scripted board; the test plays the root.

use std::cell::Cell;
use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::rc::Rc;

use tombolo_base::{ChannelId, DomainId, Isa, NodeId, SharedMemory, WindowId};
use tombolo_control::{Exit, Order, ProgramSpec, Report, StartOrder, Wire};
use tombolo_link::end::{ChannelEnd, DeferredSignals, WakeOrder, channel_memory};
use tombolo_link::window::{CONTROL_OFFSET_BYTES, WindowHeader, control_config};
use tombolo_link::{Handshake, Hello, Side};
use tombolo_platform_bare::board::{Board, Fault, Trap, Window};
use tombolo_platform_bare::call;
use tombolo_platform_bare::elf::{HEADER_BYTES, NOTE_OWNER, NOTE_TYPE, SEGMENT_BYTES};

use crate::node_monitor::{ExitReason, NodeMonitor};

const WINDOW_BYTES: u64 = 1 << 20;
const PROGRAMS: u64 = 0x4040_0000;
const HASH: [u8; 32] = [7; 32];

/// Peer number of the board on its windows.
const OWN_PEER: u16 = 5;

/// Fake board whose program traps as scripted.
struct Scripted {
    windows: Vec<Window>,
    memory: Vec<u8>,
    /// Address of the `Start` structure of the program started last.
    start_at: u64,
    script: Rc<std::cell::RefCell<VecDeque<Trap>>>,
    answers: Rc<std::cell::RefCell<Vec<u64>>>,
    console: Rc<std::cell::RefCell<Vec<u8>>>,
    rung: Rc<Cell<u64>>,
    /// Number of times that the board has rung the root.
    rings: Rc<Cell<u32>>,
    now_ns: u64,
}

impl Board for Scripted {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn sleep(&mut self, until_ns: Option<u64>) {
        self.now_ns = until_ns.unwrap_or(self.now_ns);
    }

    fn take_doorbells(&mut self) -> u64 {
        self.rung.take()
    }

    fn ring(&self, window: &Window, peer: u16, _vector: u16) {
        self.rings.set(self.rings.get() + 1);
        if peer == OWN_PEER {
            self.rung.set(self.rung.get() | window.bells);
        }
    }

    fn own_peer(&self, _window: &Window) -> u16 {
        OWN_PEER
    }

    fn windows(&self) -> &[Window] {
        &self.windows
    }

    fn write_console(&mut self, byte: u8) {
        self.console.borrow_mut().push(byte);
    }

    fn program_memory(&mut self) -> (u64, &mut [u8]) {
        (PROGRAMS, &mut self.memory)
    }

    fn prepare(&mut self, _entry: u64, _stack: u64, argument: u64) {
        self.start_at = argument;
    }

    fn run(&mut self) -> Trap {
        self.script.borrow_mut().pop_front().unwrap_or(Trap::Interrupt)
    }

    fn set_return_value(&mut self, value: u64) {
        self.answers.borrow_mut().push(value);
    }

    fn power_off(&mut self) -> ! {
        panic!("switched off")
    }
}

/// Monitor under test, the root's end of its link, and the shared state of the fake board.
struct Rig {
    monitor: NodeMonitor<Scripted>,
    root: ChannelEnd<DeferredSignals>,
    script: Rc<std::cell::RefCell<VecDeque<Trap>>>,
    answers: Rc<std::cell::RefCell<Vec<u64>>>,
    console: Rc<std::cell::RefCell<Vec<u8>>>,
}

impl Rig {
    /// Creates a board with an open control link that the root has welcomed.
    fn new() -> Rig {
        let window = SharedMemory::zeroed(WINDOW_BYTES as usize);
        let (id, generation) = (WindowId(0), NonZeroU16::MIN);
        WindowHeader { window: id, node: NodeId(1), generation, length_bytes: WINDOW_BYTES, caches: None }
            .write(&window);
        let memory = channel_memory(&window, CONTROL_OFFSET_BYTES, control_config()).unwrap();
        // Completes the handshake in memory first, so that the board's own one finds it done.
        let hello = Hello::new(control_config(), tombolo_base::hash::fnv1a(b"tombolo.control.1"), None);
        let mut theirs = Handshake::start(&memory, Side::A, hello).unwrap();
        let mut ours = Handshake::start(&memory, Side::B, hello).unwrap();
        let (_, _) = (ours.step().unwrap(), theirs.step().unwrap());
        let (order, signals) = (WakeOrder::Fence, DeferredSignals::default());
        let root = ChannelEnd::attach(&memory, Side::B, control_config(), order, signals).unwrap();
        let (script, answers, console) = (Rc::default(), Rc::default(), Rc::default());
        let rings = Rc::new(Cell::new(0));
        let own = Window { memory: window, address: 0x1000, registers_address: 0x2000, bells: 0xf };
        let board = Scripted {
            windows: vec![own, shared_window()],
            memory: vec![0; 4 << 20],
            start_at: 0,
            script: Rc::clone(&script),
            answers: Rc::clone(&answers),
            console: Rc::clone(&console),
            rung: Rc::new(Cell::new(1)),
            rings: Rc::clone(&rings),
            now_ns: 0,
        };
        let mut monitor = NodeMonitor::new(board);
        monitor.open_control_link().unwrap();
        assert!(rings.get() > 0, "the root sleeps until it is rung for the last step");
        let mut rig = Rig { monitor, root, script, answers, console };
        rig.order(&Order::Welcome { node: NodeId(1), name: "b0".into(), machine: "m".into() });
        let ready = rig.run_turns();
        assert!(
            matches!(ready[..], [Report::Ready { isa, cores: 1, .. }] if isa == Isa::current()),
            "{ready:?}"
        );
        rig
    }

    fn order(&mut self, order: &Order) {
        self.root.try_send(&order.to_bytes().unwrap()).unwrap();
    }

    /// Runs a few turns of the main loop and returns the reports.
    fn run_turns(&mut self) -> Vec<Report> {
        let mut reports = Vec::new();
        for _ in 0..8 {
            self.monitor.run_once().unwrap();
            while let Some(bytes) = self.root.try_recv(|message| message.to_vec()).unwrap() {
                reports.push(Report::from_bytes(&bytes).unwrap());
            }
        }
        reports
    }

    fn domain(index: u32) -> DomainId {
        DomainId::new(NodeId(1), NonZeroU16::MIN, index)
    }

    fn start(&mut self, index: u32) -> Vec<Report> {
        let program = program();
        let offset = (WINDOW_BYTES / 2) as usize;
        // The root writes the program into the window.
        let window = self.leaf_window();
        window.copy_in(offset, &program).unwrap();
        self.order(&Order::Program {
            hash: HASH,
            length_bytes: program.len() as u64,
            window_offset_bytes: Some(offset as u64),
            stream: None,
        });
        let order = start_order(Self::domain(index));
        self.order(&Order::Start { order });
        self.run_turns()
    }

    fn leaf_window(&self) -> SharedMemory {
        self.monitor.window().clone()
    }

    fn traps(&self, traps: impl IntoIterator<Item = Trap>) {
        self.script.borrow_mut().extend(traps);
    }
}

/// Returns a window shared with other nodes, number 7 of the machine.
fn shared_window() -> Window {
    let memory = SharedMemory::zeroed(WINDOW_BYTES as usize);
    let (node, generation) = (NodeId::HOST, NonZeroU16::MIN);
    let header =
        WindowHeader { window: WindowId(7), node, generation, length_bytes: WINDOW_BYTES, caches: None };
    header.write(&memory);
    Window { memory, address: 0x4000_0000, registers_address: 0x3000, bells: 0xf0 }
}

fn start_order(domain: DomainId) -> StartOrder {
    StartOrder { domain, build: HASH, program: ProgramSpec::new("prog") }
}

/// Returns the smallest valid program for a board.
fn program() -> Vec<u8> {
    let note_at = (HEADER_BYTES + 2 * SEGMENT_BYTES) as u64;
    let mut bytes = vec![0; note_at as usize];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let mut put = |at: usize, value: u64, width: usize| {
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    };
    let place = PROGRAMS + call::STACK_BYTES;
    put(16, 2, 2);
    put(18, Isa::current().elf_machine().into(), 2);
    put(24, place, 8);
    put(32, HEADER_BYTES as u64, 8);
    put(54, SEGMENT_BYTES as u64, 2);
    put(56, 2, 2);
    for (index, kind) in [(0, 1), (1, 4)] {
        let head = HEADER_BYTES + index * SEGMENT_BYTES;
        put(head, kind, 4);
        put(head + 8, note_at, 8);
        put(head + 24, place, 8);
        put(head + 32, 24, 8);
        put(head + 40, 64, 8);
    }
    for word in [8, 4, NOTE_TYPE] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(NOTE_OWNER);
    bytes.extend(call::VERSION.to_le_bytes());
    bytes
}

fn call(number: u64, arguments: [u64; 4]) -> Trap {
    Trap::Call { number, arguments }
}

#[test]
fn a_program_starts_prints_and_ends() {
    let mut rig = Rig::new();
    // Prints its own ELF note, which lies in its memory.
    let place = PROGRAMS + call::STACK_BYTES + 12;
    rig.traps([call(call::PRINT, [1, place, 7, 0]), call(call::EXIT, [3, 0, 0, 0])]);
    let domain = Rig::domain(1);
    let nothing = Vec::new;
    let expected = vec![
        Report::ProgramTaken { hash: HASH },
        Report::Started { domain, pid: 1 },
        Report::Joined { connection: 1, pid: 1, domain: Some(domain) },
        Report::Output { domain, stream: 1, bytes: b"Tombolo".to_vec() },
        Report::Output { domain, stream: 1, bytes: nothing() },
        Report::Output { domain, stream: 2, bytes: nothing() },
        Report::Left { connection: 1 },
        Report::Ended { domain, exit: Exit::Exited { status: 3 } },
    ];
    assert_eq!(rig.start(1), expected);
    assert_eq!(*rig.answers.borrow(), [7]);
}

#[test]
fn a_program_reaches_all_windows() {
    let mut rig = Rig::new();
    rig.start(1);
    let Scripted { memory, start_at, .. } = rig.monitor.into_board();
    let start = &memory[(start_at - PROGRAMS) as usize..];
    let words: Vec<u64> =
        start[..80].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let [own, shared] = [[0, 0x1000, WINDOW_BYTES, 0x2000], [7, 0x4000_0000, WINDOW_BYTES, 0x3000]];
    assert_eq!(words[0], call::VERSION.into());
    assert_eq!((&words[1..5], &words[5..9], words[9]), (&own[..], &shared[..], 0), "two windows, no third");
}

#[test]
fn fault_is_printed_and_ends_only_the_program() {
    let mut rig = Rig::new();
    let fault = Fault { what: "touched", signal: 11, instruction: 2, address: 1, syndrome: 3 };
    rig.traps([Trap::Fault(fault)]);
    let reports = rig.start(1);
    let ended = Report::Ended { domain: Rig::domain(1), exit: Exit::Signalled { signal: 11 } };
    assert_eq!(reports.last(), Some(&ended));
    rig.run_turns();
    let console = String::from_utf8(rig.console.borrow().clone()).unwrap();
    assert!(console.contains("board: prog touched: address 0x1, instruction 0x2"), "{console}");
    rig.traps([call(call::EXIT, [0; 4])]);
    assert!(
        rig.start(2).contains(&Report::Ended { domain: Rig::domain(2), exit: Exit::Exited { status: 0 } })
    );
}

#[test]
fn looping_program_is_killed_and_releases_its_channels() {
    let mut rig = Rig::new();
    rig.start(1);
    let channel = ChannelId(9);
    let attachments = vec![tombolo_control::Attachment::Lifeline];
    rig.order(&Order::Deliver { connection: 1, channel, attachments, message: Vec::new() });
    rig.order(&Order::Signal { domain: Rig::domain(1), signal: 9 });
    let reports = rig.run_turns();
    assert!(reports.contains(&Report::Released { channel }), "{reports:?}");
    let ended = Report::Ended { domain: Rig::domain(1), exit: Exit::Signalled { signal: 9 } };
    assert_eq!(reports.last(), Some(&ended));
}

#[test]
fn second_or_missing_program_is_refused() {
    let mut rig = Rig::new();
    rig.start(1);
    rig.order(&Order::Start { order: start_order(Rig::domain(2)) });
    let refused = |reports: Vec<Report>, words: &str| {
        let found = reports
            .iter()
            .any(|report| matches!(report, Report::NotStarted { why, .. } if why.contains(words)));
        assert!(found, "{reports:?}");
    };
    refused(rig.run_turns(), "one program at a time");
    rig.order(&Order::Signal { domain: Rig::domain(1), signal: 15 });
    rig.order(&Order::Forget { hash: HASH });
    rig.order(&Order::Start { order: start_order(Rig::domain(3)) });
    refused(rig.run_turns(), "did not arrive");
}

#[test]
fn invalid_calls_are_refused() {
    let mut rig = Rig::new();
    let outside = PROGRAMS + (4 << 20);
    rig.traps([
        call(99, [0; 4]),
        call(call::PRINT, [3, PROGRAMS, 1, 0]),
        call(call::PRINT, [1, outside, 1, 0]),
        call(call::PRINT, [1, PROGRAMS - 1, 1, 0]),
        call(call::PRINT, [1, PROGRAMS, u64::MAX, 0]),
        call(call::REPORT, [PROGRAMS, 4, 0, 0]),
        call(call::ORDER, [PROGRAMS, 4, 0, 0]),
        call(call::PRINT, [1, outside - 1, 1, 0]),
    ]);
    rig.start(1);
    rig.run_turns();
    let no = call::REFUSED;
    assert_eq!(rig.answers.borrow()[..8], [no, no, no, no, no, no, 0, 1]);
}

#[test]
fn sleep_ends_by_timeout_or_order() {
    let mut rig = Rig::new();
    rig.traps([call(call::SLEEP, [5_000, 0, 0, 0]), call(call::SLEEP, [call::FOREVER, 0, 0, 0])]);
    rig.start(1);
    assert_eq!(*rig.answers.borrow(), [0], "the time came, no doorbell rang");
    rig.order(&Order::Deliver {
        connection: 1,
        channel: ChannelId(0),
        attachments: Vec::new(),
        message: Vec::new(),
    });
    rig.run_turns();
    assert_eq!(*rig.answers.borrow(), [0, 1], "bit 0 says that there are orders");
}

#[test]
fn the_root_can_stop_it() {
    let mut rig = Rig::new();
    rig.order(&Order::Stop);
    assert_eq!(rig.monitor.run_once(), Err(ExitReason::Stopped));
}
