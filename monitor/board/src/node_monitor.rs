//! The monitor's main loop: executes orders of the root, runs one program, and reports.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use tombolo_base::{ChannelId, DomainId, Isa, SharedMemory, WindowId};
use tombolo_control::FINGERPRINT;
use tombolo_control::{
    Attachment, Exit, MAX_MESSAGE_BYTES, MonitorMessage, Order, Reply, Report, StartOrder, Wire,
    encode_or_fault,
};
use tombolo_link::window::{CONTROL_VECTOR, WindowHeader};
use tombolo_platform_bare::board::{Board, Fault, Trap, Window};
use tombolo_platform_bare::call;
use tombolo_platform_bare::console::OutputBuffer;

use crate::control_link::{ControlLink, Opening};
use crate::running::{RunningProgram, load};

/// Timeout for the handshake with the root and for the first doorbell on every window, in nanoseconds.
const ROOT_TIMEOUT_NS: u64 = 60_000_000_000;

/// Interval at which the doorbells are rung again during the handshake, in nanoseconds.
const RING_RETRY_NS: u64 = 1_000_000;

/// Maximum number of queued reports at which the program still runs.
const MAX_BACKLOG: usize = 64;

/// Maximum number of bytes written to the console per turn of the main loop.
const CONSOLE_BURST: usize = 256;

/// Size of the console's output buffer, in bytes.
const CONSOLE_BYTES: usize = 16 * 1024;

/// Signals that do not end a program by default: SIGCHLD, SIGCONT, SIGURG, SIGWINCH.
const HARMLESS_SIGNALS: [u8; 4] = [17, 18, 23, 28];

/// Peer number of the root on the window with the host.
const ROOT_PEER: u16 = 0;

/// Reason why a board's monitor ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExitReason {
    /// The root ordered it to stop.
    Stopped,
    /// The window or the control link to the root cannot be used.
    Window(String),
    /// The root is gone, or sent something invalid.
    Root(String),
}

impl ExitReason {
    pub(crate) fn window(error: impl fmt::Display) -> ExitReason {
        ExitReason::Window(error.to_string())
    }

    pub(crate) fn link(error: impl fmt::Display) -> ExitReason {
        ExitReason::Root(error.to_string())
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitReason::Stopped => f.write_str("stopped"),
            ExitReason::Window(why) => write!(f, "the window is not usable: {why}"),
            ExitReason::Root(why) => write!(f, "lost the root monitor: {why}"),
        }
    }
}

/// The monitor of a board.
pub struct NodeMonitor<B> {
    board: B,
    /// Ids of the board's windows in the machine, in the board's order.
    windows: Vec<WindowId>,
    link: Option<ControlLink>,
    programs: BTreeMap<[u8; 32], Vec<u8>>,
    running: Option<RunningProgram>,
    next_connection: u32,
    console: Box<OutputBuffer<CONSOLE_BYTES>>,
}

impl<B: Board> NodeMonitor<B> {
    /// Creates a monitor for `board` that has not contacted the root yet.
    pub fn new(board: B) -> Self {
        NodeMonitor {
            board,
            windows: Vec::new(),
            link: None,
            programs: BTreeMap::new(),
            running: None,
            next_connection: 1,
            console: Box::default(),
        }
    }

    /// Writes the remaining console output and returns the board.
    pub fn into_board(mut self) -> B {
        while let Some(byte) = self.console.take() {
            self.board.write_console(byte);
        }
        self.board
    }

    /// Returns the memory of the window with the host.
    pub(crate) fn window(&self) -> &SharedMemory {
        &self.board.windows()[0].memory
    }

    /// Prints a line on the console.
    pub fn print_line(&mut self, line: fmt::Arguments<'_>) {
        self.console.write(format!("{line}\n").as_bytes());
    }

    /// Runs the main loop until the monitor has to end; returns the reason.
    pub fn serve(&mut self) -> ExitReason {
        match self.try_serve() {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    fn try_serve(&mut self) -> Result<core::convert::Infallible, ExitReason> {
        self.open_control_link()?;
        loop {
            self.run_once()?;
        }
    }

    /// Performs the handshake with the root.
    ///
    /// The emulator connects the doorbells of a window while the board is already running, and silently drops
    /// doorbells rung before that. So the root is rung repeatedly until it answers, and on the other windows
    /// the board rings itself. The emulator connects the board's own doorbells last, so the first interrupt
    /// on a window proves that all its other peers can be rung.
    pub(crate) fn open_control_link(&mut self) -> Result<(), ExitReason> {
        let header = |window: &Window| WindowHeader::read(&window.memory).map(|header| header.window);
        let windows: Result<_, _> = self.board.windows().iter().map(header).collect();
        self.windows = windows.map_err(ExitReason::window)?;
        let mut opening = Opening::start(self.window())?;
        let deadline_ns = self.board.now_ns() + ROOT_TIMEOUT_NS;
        let mut rung = 0;
        loop {
            if self.link.is_none() {
                self.link = opening.step()?;
            }
            // Also after the last step: the root waits for it, and no other ring would follow soon.
            self.ring_root_now();
            rung |= self.board.take_doorbells();
            let is_silent = |window: &&Window| rung & window.bells == 0;
            if self.link.is_some() && !self.board.windows().iter().any(|window| is_silent(&window)) {
                return Ok(());
            }
            for window in self.board.windows()[1..].iter().filter(is_silent) {
                self.board.ring(window, self.board.own_peer(window), CONTROL_VECTOR);
            }
            let now_ns = self.board.now_ns();
            if now_ns > deadline_ns {
                return Err(ExitReason::Root("it did not answer".into()));
            }
            self.board.sleep(Some(now_ns + RING_RETRY_NS));
        }
    }

    /// Performs one turn of the main loop: exchanges messages, then runs the program for a while or sleeps.
    pub(crate) fn run_once(&mut self) -> Result<(), ExitReason> {
        self.process_io()?;
        let now_ns = self.board.now_ns();
        let backlog = self.link.as_ref().map_or(0, ControlLink::backlog);
        match &mut self.running {
            Some(running) if backlog <= MAX_BACKLOG => {
                if running.asleep_until_ns.is_some() {
                    if !running.is_due(now_ns) {
                        return self.sleep();
                    }
                    running.asleep_until_ns = None;
                    let rung = running.take_rung();
                    self.board.set_return_value(rung);
                }
                self.run()
            }
            _ => self.sleep(),
        }
    }

    /// Runs the program until it makes a call, faults, or a doorbell rings. The monitor does not poll its
    /// link meanwhile. It is announced as asleep, so the root rings for every order, which also interrupts a
    /// program that never calls.
    fn run(&mut self) -> Result<(), ExitReason> {
        let may_run = self.link()?.prepare_to_sleep();
        self.ring_root();
        let trap = may_run.then(|| self.board.run());
        self.link()?.end_sleep();
        trap.into_iter().for_each(|trap| self.handle_trap(trap));
        Ok(())
    }

    /// Polls doorbells, executes received orders, sends reports and output, and writes to the console.
    fn process_io(&mut self) -> Result<(), ExitReason> {
        let rung = self.board.take_doorbells();
        if let Some(running) = &mut self.running {
            running.rung |= rung;
        }
        while let Some(order) = self.link()?.receive()? {
            self.handle_order(order)?;
        }
        self.report_output();
        self.link()?.flush()?;
        self.ring_root();
        for _ in 0..CONSOLE_BURST {
            match self.console.take() {
                Some(byte) => self.board.write_console(byte),
                None => break,
            }
        }
        Ok(())
    }

    fn link(&mut self) -> Result<&mut ControlLink, ExitReason> {
        self.link.as_mut().ok_or_else(|| ExitReason::Root("the control link is not open".into()))
    }

    fn ring_root(&mut self) {
        if self.link.as_mut().is_some_and(ControlLink::take_pending_ring) {
            self.ring_root_now();
        }
    }

    fn ring_root_now(&self) {
        self.board.ring(&self.board.windows()[0], ROOT_PEER, CONTROL_VECTOR);
    }

    fn sleep(&mut self) -> Result<(), ExitReason> {
        if !self.console.is_drained() {
            return Ok(());
        }
        let until_ns = self
            .running
            .as_ref()
            .and_then(|running| running.asleep_until_ns)
            .filter(|until_ns| *until_ns != call::FOREVER);
        let may_sleep = self.link()?.prepare_to_sleep();
        // The last check of the ring may have returned credit that the root waits for.
        self.ring_root();
        if may_sleep {
            self.board.sleep(until_ns);
        }
        self.link()?.end_sleep();
        Ok(())
    }

    pub(crate) fn report(&mut self, report: &Report) {
        if let Some(link) = &mut self.link {
            link.report(report);
        }
    }

    fn handle_order(&mut self, encoded: Vec<u8>) -> Result<(), ExitReason> {
        match Order::from_bytes(&encoded).map_err(ExitReason::link)? {
            Order::Welcome { name, machine, .. } => self.handle_welcome(&name, &machine),
            Order::Program { hash, length_bytes, window_offset_bytes, .. } => {
                self.store_program(hash, length_bytes, window_offset_bytes);
            }
            Order::Forget { hash } => {
                self.programs.remove(&hash);
            }
            Order::Start { order } => self.start(&order),
            Order::Signal { domain, signal } if !HARMLESS_SIGNALS.contains(&signal) => {
                if self.running.as_ref().is_some_and(|running| running.domain == domain) {
                    self.end(Exit::Signalled { signal });
                }
            }
            Order::Deliver { connection, channel, attachments, .. } => {
                self.deliver(connection, channel, &attachments, encoded);
            }
            Order::HangUp { channel } => {
                if let Some(running) = &mut self.running
                    && running.channels.contains(&channel)
                {
                    running.orders.push_back(encoded);
                }
            }
            // Programs on boards have no standard input: input is acknowledged and discarded, as in the pipe
            // of a program that does not read it.
            Order::Input { domain, stream, .. } => self.report(&Report::InputTaken { domain, stream }),
            Order::OutputTaken { domain, stream, bytes } => self.output_taken(domain, stream, bytes as usize),
            Order::Dismiss { connection } => {
                if self.running.as_ref().is_some_and(|running| running.connection == connection) {
                    self.end(Exit::Signalled { signal: 9 });
                }
            }
            Order::Stop => return Err(ExitReason::Stopped),
            Order::TraceRead { ticket, .. } => self.report(&Report::TraceBytes { ticket, bytes: None }),
            Order::NamesAsked { domain, connection, request, .. } => {
                self.refuse_names(domain, connection, request);
            }
            // Unexpected: the root refuses regions in the memory of boards, which have none for them.
            Order::RegionMake { region, .. } => {
                let failed = Some("a board keeps no memory for regions".into());
                self.report(&Report::RegionMade { region, failed, read_only: false });
            }
            Order::RegionSeal { region, .. } => {
                let failed = Some("a board keeps no memory for regions".into());
                self.report(&Report::RegionSealed { region, failed });
            }
            Order::RegionForget { .. } => {}
            Order::Probe { ticket } => self.report(&Report::Probed { ticket }),
            Order::SetFrequency { ticket, .. } => {
                let failed = Some("a board runs as fast as it does: it has no governors".into());
                self.report(&Report::FrequencySet { ticket, failed });
            }
            // A board has no kernel to sample, and no frequency to restore.
            Order::Sample { .. } | Order::RestoreFrequency => {}
            Order::Admitted { .. } | Order::ServeNames { .. } | Order::NamesLeft { .. } => {}
            // Programs on boards are not traced, because no memory is writable by both them and the monitor.
            Order::Trace { .. } | Order::TraceForget { .. } | Order::Signal { .. } => {}
        }
        Ok(())
    }

    /// Refuses a request for names: a board runs one program at a time and has no names of its own.
    fn refuse_names(&mut self, domain: DomainId, connection: u32, request: u32) {
        let fault = tombolo_control::Fault::Refused { why: "a board has no names of its own".into() };
        let message = encode_or_fault(&MonitorMessage { request, body: Reply::Failed { fault } });
        self.report(&Report::NamesSay { domain, connection, message });
    }

    fn handle_welcome(&mut self, name: &str, machine: &str) {
        let (_, memory) = self.board.program_memory();
        let mib = memory.len() >> 20;
        let isa = Isa::current();
        self.print_line(format_args!("board: {name} of machine {machine}, {isa}, {mib} MiB for programs"));
        self.report(&Report::Ready { version: FINGERPRINT, isa, cores: 1, pid: 1 });
    }

    /// Copies a program out of the window and stores it. If that fails, the start that follows reports it.
    fn store_program(&mut self, hash: [u8; 32], length_bytes: u64, window_offset_bytes: Option<u64>) {
        let copied = window_offset_bytes.and_then(|offset_bytes| {
            let length = usize::try_from(length_bytes).ok()?;
            let offset = usize::try_from(offset_bytes).ok()?;
            let part = self.window().slice(offset, length.checked_next_multiple_of(8)?).ok()?;
            if let Some(caches) = WindowHeader::read(self.window()).ok()?.caches {
                caches.invalidate(&part);
            }
            let mut program = Vec::new();
            program.try_reserve_exact(length).ok()?;
            program.resize(length, 0);
            part.copy_out(0, &mut program).ok()?;
            Some(program)
        });
        if let Some(program) = copied {
            self.programs.insert(hash, program);
        }
        self.report(&Report::ProgramTaken { hash });
    }

    fn start(&mut self, order: &StartOrder) {
        let domain = order.domain;
        let connection = self.next_connection;
        let started = match (&self.running, self.programs.get(&order.build)) {
            (Some(running), _) => Err(format!(
                "a board runs one program at a time, and {} is running (domain {})",
                running.name, running.domain
            )),
            (None, None) => Err("the program did not arrive: the board has too little memory for it, raise \
                                 `memory_mib` in the machine file"
                .to_string()),
            (None, Some(program)) => match (Order::Start { order: order.clone() }).to_bytes() {
                Ok(order_bytes) => load((&mut self.board, &self.windows), program, &order_bytes, connection)
                    .map_err(|error| format!("{} cannot run on this board: {error}", order.program.name)),
                Err(error) => Err(format!("the start of {} cannot be encoded: {error}", order.program.name)),
            },
        };
        match started {
            Ok(()) => {
                self.next_connection = self.next_connection.wrapping_add(1);
                self.running = Some(RunningProgram::new(order, connection));
                self.report(&Report::Started { domain, pid: 1 });
                self.report(&Report::Joined { connection, pid: 1, domain: Some(domain) });
            }
            Err(why) => self.report(&Report::NotStarted { domain, why }),
        }
    }

    fn deliver(&mut self, connection: u32, channel: ChannelId, attachments: &[Attachment], encoded: Vec<u8>) {
        let lifeline = attachments.contains(&Attachment::Lifeline);
        match &mut self.running {
            Some(running) if running.connection == connection => {
                if lifeline {
                    running.channels.insert(channel);
                }
                running.orders.push_back(encoded);
            }
            // The program that this was for has ended, and its end of the channel with it.
            _ if lifeline => self.report(&Report::Released { channel }),
            _ => {}
        }
    }

    fn output_taken(&mut self, domain: DomainId, stream: u8, bytes: usize) {
        if let Some(running) = self.running.as_mut().filter(|running| running.domain == domain)
            && let Some(output) = running.outputs.get_mut(usize::from(stream).wrapping_sub(1))
        {
            output.taken(bytes);
        }
    }

    fn report_output(&mut self) {
        let (Some(running), Some(link)) = (&mut self.running, &mut self.link) else { return };
        for (stream, output) in (1..).zip(&mut running.outputs) {
            while let Some(piece) = output.next_piece() {
                link.report(&Report::Output { domain: running.domain, stream, bytes: piece });
            }
        }
    }

    fn handle_trap(&mut self, trap: Trap) {
        match trap {
            // The next turn polls the doorbells.
            Trap::Interrupt => {}
            Trap::Call { number: call::EXIT, arguments } => {
                self.end(Exit::Exited { status: arguments[0] as u8 });
            }
            Trap::Call { number: call::SLEEP, arguments } => {
                if let Some(running) = &mut self.running {
                    running.asleep_until_ns = Some(arguments[0]);
                }
            }
            Trap::Call { number, arguments } => {
                let answer = self.handle_call(number, arguments).unwrap_or(call::REFUSED);
                self.board.set_return_value(answer);
            }
            Trap::Fault(fault) => self.handle_fault(fault),
        }
    }

    /// Executes a call of the program and returns its result; `None` for an invalid call.
    fn handle_call(&mut self, number: u64, arguments: [u64; 4]) -> Option<u64> {
        let [first, second, third, _] = arguments;
        match number {
            call::PRINT => {
                let bytes = program_slice(&mut self.board, second, third)?;
                let taken = match first {
                    0 => self.console.write(bytes),
                    1 | 2 => self.running.as_mut()?.outputs[first as usize - 1].write(bytes),
                    _ => return None,
                };
                Some(taken as u64)
            }
            call::REPORT => {
                let bytes = program_slice(&mut self.board, first, second)?;
                let report = Report::from_bytes(bytes).ok()?;
                let running = self.running.as_mut()?;
                let is_own_report = match &report {
                    Report::Asked { connection, message } => {
                        *connection == running.connection && message.len() <= MAX_MESSAGE_BYTES
                    }
                    Report::Released { channel } => running.channels.remove(channel),
                    _ => false,
                };
                if !is_own_report {
                    return None;
                }
                self.report(&report);
                Some(0)
            }
            call::ORDER => {
                let buffer = program_slice(&mut self.board, first, second)?;
                let orders = &mut self.running.as_mut()?.orders;
                let Some(order) = orders.front() else { return Some(0) };
                buffer.get_mut(..order.len())?.copy_from_slice(order);
                let length = order.len();
                orders.pop_front();
                Some(length as u64)
            }
            _ => None,
        }
    }

    fn handle_fault(&mut self, fault: Fault) {
        let Some(running) = &mut self.running else { return };
        let Fault { what, signal, instruction, address, syndrome } = fault;
        let text = format!(
            "board: {} {what}: address {address:#x}, instruction {instruction:#x}, syndrome {syndrome:#x}\n",
            running.name
        );
        running.outputs[1].write(text.as_bytes());
        self.console.write(text.as_bytes());
        self.end(Exit::Signalled { signal });
    }

    /// Ends the program. Reports its remaining output first, then its channels, then its exit.
    fn end(&mut self, exit: Exit) {
        let Some(mut running) = self.running.take() else { return };
        let domain = running.domain;
        for (stream, output) in (1..).zip(&mut running.outputs) {
            while let Some(piece) = output.piece() {
                self.report(&Report::Output { domain, stream, bytes: piece });
            }
            self.report(&Report::Output { domain, stream, bytes: Vec::new() });
        }
        for channel in core::mem::take(&mut running.channels) {
            self.report(&Report::Released { channel });
        }
        self.report(&Report::Left { connection: running.connection });
        self.report(&Report::Ended { domain, exit });
    }
}

/// Returns a part of the program's memory by its address on the board; `None` if it is out of bounds.
fn program_slice(board: &mut impl Board, address: u64, length_bytes: u64) -> Option<&mut [u8]> {
    let (from, memory) = board.program_memory();
    let start = usize::try_from(address.checked_sub(from)?).ok()?;
    let end = start.checked_add(usize::try_from(length_bytes).ok()?)?;
    memory.get_mut(start..end)
}
