//! A running node: its process, its control link, its window and its console.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tombolo_base::coherence::Caches;
use tombolo_control::{Order, Wire};
use tombolo_link::Side;
use tombolo_link::window::{CONTROL_OFFSET_BYTES, control_config};
use tombolo_link::{ChannelLayout, Hello};
use tombolo_platform::event::{Interest, drain, poll};
use tombolo_platform::process::{ExitOutcome, Process};
use tombolo_platform::{Deadline, Errno, OsError, socket};
use tombolo_transport::stream::StreamChannel;
use tombolo_transport::window::WindowChannel;
use tombolo_transport::{ChannelError, window};

use super::attached::{AttachEvent, JoinThread};
use super::poller::Sources;
use crate::control_link::{ControlLink, Received};
use crate::streams::{CONTROL_STREAM, LinkStreams};

/// Timeout of a virtual machine's handshake once it has begun.
const HANDSHAKE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Maximum time that an emulator outlives its sockets: it has freed its memory by then.
const EMULATOR_EXIT_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(50);

/// Maximum number of bytes retained of a node's error output.
const MAX_STDERR_BYTES: usize = 1024;

/// Control link to a node's agent; for a virtual machine it is opened after booting.
#[derive(Debug)]
pub(super) enum NodeLink {
    /// Not connected yet; messages to be sent first.
    Pending(Vec<Vec<u8>>),
    /// Connected.
    Connected(ControlLink),
}

/// Method of opening the control link once the node's monitor runs.
#[derive(Debug)]
pub(super) enum NodeTransport {
    Window(WindowSide),
    Streams(StreamSide),
}

/// The host's ends of the links of a virtual machine without shared memory.
#[derive(Debug)]
pub(super) struct StreamSide {
    /// Stream on which its monitor is first heard; moved to the control link.
    control: Option<OwnedFd>,
    /// Port of the control link, kept as long as the node runs.
    _port: LinkStreams,
    /// Streams of channels.
    streams: LinkStreams,
}

impl StreamSide {
    /// Creates the links over two sockets, whose other ends the emulator exposes as ports of the machine.
    ///
    /// # Errors
    /// No descriptors or no threads are left.
    pub(super) fn new(control: OwnedFd, streams: OwnedFd) -> Result<Self, OsError> {
        let port = LinkStreams::start(control)?;
        let control = Some(port.open(CONTROL_STREAM)?);
        Ok(StreamSide { control, _port: port, streams: LinkStreams::start(streams)? })
    }
}

/// Window of a virtual machine or a board, as held by the host.
#[derive(Debug)]
pub(super) struct WindowSide {
    /// Memory of its window with the host.
    pub(super) memory: OwnedFd,
    /// Caches between the two sides and the memory; `None` if it is coherent.
    pub(super) caches: Option<Caches>,
    /// Offset of the window in its file.
    pub(super) base_bytes: u64,
    /// Event counter by which its monitor rings the root; the next field rings the node's monitor.
    pub(super) host_bell: OwnedFd,
    pub(super) node_bell: OwnedFd,
    /// Both ends of a lifeline that never hangs up: the death of a virtual machine is detected by its
    /// process.
    pub(super) lifeline: OwnedFd,
    pub(super) _lifeline_far_end: OwnedFd,
}

/// Object by which the end of a node is detected.
#[derive(Debug)]
enum Liveness {
    /// The emulator, a process of this kernel.
    Process(Process),
    /// The window thread of a node that joined by itself.
    Attached(JoinThread),
}

impl Liveness {
    /// Returns a descriptor that is readable when the node may have ended.
    fn ended_fd(&self) -> BorrowedFd<'_> {
        match self {
            Liveness::Process(process) => process.ended_fd(),
            Liveness::Attached(thread) => thread.event_fd(),
        }
    }
}

/// A running node.
#[derive(Debug)]
pub(super) struct RunningNode {
    liveness: Liveness,
    /// Events of its thread other than its end.
    events: Vec<AttachEvent>,
    link: NodeLink,
    transport: Option<NodeTransport>,
    /// Serial line of its console.
    serial: Option<OwnedFd>,
    /// Console input that the serial line has not accepted yet.
    console_input: Vec<u8>,
    /// Standard error of its emulator or monitor. It does not inherit the root's standard error: a process
    /// that reads the output of `tombolo up` would not see its end while the machine is up.
    stderr: Option<OwnedFd>,
    /// Last part of that output.
    stderr_tail: Vec<u8>,
    /// Reason why an order could not be sent.
    send_error: Option<String>,
    /// Whether a descriptor was closed or created since its [`sources`](Self::sources) were last used.
    sources_changed: bool,
}

impl RunningNode {
    pub(super) fn new(mut process: Process, link: NodeLink, vm: Option<(NodeTransport, OwnedFd)>) -> Self {
        let stderr = process.child_mut().stderr.take().map(OwnedFd::from);
        // A pipe that cannot be made non-blocking is not read.
        let stderr = stderr.filter(|pipe| rustix::io::ioctl_fionbio(pipe, true).is_ok());
        let (transport, serial) = vm.unzip();
        Self::with(Liveness::Process(process), link, (transport, serial), stderr)
    }

    /// Creates a node that joins by itself.
    pub(super) fn attached(thread: JoinThread, link: NodeLink, window: WindowSide) -> Self {
        Self::with(Liveness::Attached(thread), link, (Some(NodeTransport::Window(window)), None), None)
    }

    fn with(
        liveness: Liveness,
        link: NodeLink,
        (transport, serial): (Option<NodeTransport>, Option<OwnedFd>),
        stderr: Option<OwnedFd>,
    ) -> Self {
        RunningNode {
            liveness,
            events: Vec::new(),
            link,
            transport,
            serial,
            console_input: Vec::new(),
            stderr,
            stderr_tail: Vec::new(),
            send_error: None,
            sources_changed: true,
        }
    }

    pub(super) fn pid(&self) -> i32 {
        match &self.liveness {
            Liveness::Process(process) => process.pid(),
            Liveness::Attached(_) => 0,
        }
    }

    pub(super) fn send_order(&mut self, order: &Order, fds: Vec<OwnedFd>) {
        let message = match order.to_bytes() {
            Ok(message) => message,
            // Without the order the node would diverge from the root's state.
            Err(error) => {
                self.send_error = Some(format!("an order to it: {error}"));
                return;
            }
        };
        match &mut self.link {
            NodeLink::Pending(first) => first.push(message),
            NodeLink::Connected(link) => link.send(message, fds),
        }
    }

    /// Returns the next message of its agent. The error is the reason why the node is lost, with its last
    /// output.
    pub(super) fn receive(&mut self) -> Result<Option<Received>, String> {
        self.try_receive().map_err(|cause| {
            self.read_stderr();
            let text = String::from_utf8_lossy(&self.stderr_tail);
            match text.lines().map(str::trim).rfind(|line| !line.is_empty()) {
                Some(last) => format!("{cause}: {last}"),
                None => cause,
            }
        })
    }

    /// Reads its error output and retains the last part.
    fn read_stderr(&mut self) {
        let mut piece = [0; 1024];
        while let Some(pipe) = &self.stderr {
            match rustix::io::read(pipe, &mut piece) {
                Ok(count) if count > 0 => {
                    self.stderr_tail.extend_from_slice(&piece[..count]);
                    let excess = self.stderr_tail.len().saturating_sub(MAX_STDERR_BYTES);
                    self.stderr_tail.drain(..excess);
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                _ => (self.stderr, self.sources_changed) = (None, true),
            }
        }
    }

    fn try_receive(&mut self) -> Result<Option<Received>, String> {
        if let Some(cause) = self.send_error.take() {
            return Err(cause);
        }
        if let NodeLink::Pending(_) = self.link
            && let Err(cause) = self.try_open_control()
        {
            self.wait_emulator_exit()?;
            return Err(cause);
        }
        if let NodeLink::Connected(link) = &mut self.link
            && let Some(arrived) = link.receive()
        {
            return Ok(Some(arrived));
        }
        self.check_exit()?;
        match &self.link {
            NodeLink::Connected(link) if link.is_closed() => {
                self.wait_emulator_exit()?;
                Err("its monitor is gone".into())
            }
            _ => Ok(None),
        }
    }

    /// Returns the reason why the emulator of a machine without a window has ended; its sockets close shortly
    /// before.
    fn wait_emulator_exit(&mut self) -> Result<(), String> {
        if let Some(NodeTransport::Streams(_)) = self.transport {
            let soon = Some(Deadline::after(EMULATOR_EXIT_TIMEOUT));
            let _ = poll(&[(self.liveness.ended_fd(), Interest::Read)], soon);
        }
        self.check_exit()
    }

    /// Returns the reason why the node has ended, if it has.
    fn check_exit(&mut self) -> Result<(), String> {
        match &mut self.liveness {
            Liveness::Process(process) => match process.try_reap() {
                Ok(None) => Ok(()),
                Ok(Some(ExitOutcome::Exited(status))) => {
                    Err(format!("its process exited with status {status}"))
                }
                Ok(Some(ExitOutcome::Signalled(signal))) => {
                    Err(format!("its process was ended by signal {signal}"))
                }
                Err(error) => Err(error.to_string()),
            },
            Liveness::Attached(thread) => {
                while let Some(event) = thread.next_event() {
                    match event {
                        AttachEvent::Lost(cause) => return Err(cause),
                        event => self.events.push(event),
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the pending events of a node that joins by itself.
    pub(super) fn take_events(&mut self) -> Vec<AttachEvent> {
        std::mem::take(&mut self.events)
    }

    /// Performs the handshake with a virtual machine that has booted and rung for it.
    fn try_open_control(&mut self) -> Result<(), String> {
        let unopened = |error: ChannelError| format!("cannot open the control link to its monitor: {error}");
        let mut link = match &mut self.transport {
            Some(NodeTransport::Window(window)) if drain(&window.host_bell) => {
                ControlLink::over_window(open_control(window).map_err(unopened)?)
            }
            Some(NodeTransport::Streams(side)) => {
                let Some(socket) = side.control.take_if(|socket| is_readable(socket)) else { return Ok(()) };
                ControlLink::over_stream(open_stream(socket).map_err(unopened)?)
            }
            _ => return Ok(()),
        };
        if let NodeLink::Pending(first) = &mut self.link {
            std::mem::take(first).into_iter().for_each(|message| link.send(message, Vec::new()));
        }
        self.link = NodeLink::Connected(link);
        self.sources_changed = true;
        Ok(())
    }

    /// Returns the streams of channels on the link with it, if it is joined by streams.
    pub(super) fn streams(&self) -> Option<&LinkStreams> {
        match &self.transport {
            Some(NodeTransport::Streams(side)) => Some(&side.streams),
            _ => None,
        }
    }

    /// Returns its console output since the last call.
    pub(super) fn take_console(&mut self) -> Vec<u8> {
        let mut printed = Vec::new();
        let Some(serial) = &self.serial else { return printed };
        let mut piece = [0; 4096];
        while printed.len() < 64 * 1024 {
            match rustix::io::read(serial, &mut piece) {
                Ok(count) if count > 0 => printed.extend_from_slice(&piece[..count]),
                _ => break,
            }
        }
        printed
    }

    pub(super) fn write_console(&mut self, bytes: &[u8]) {
        self.console_input.extend_from_slice(bytes);
        self.flush_console();
    }

    /// Returns the number of typed bytes that its serial line has not accepted.
    pub(super) fn pending_input_bytes(&self) -> usize {
        self.console_input.len()
    }

    fn flush_console(&mut self) {
        let Some(serial) = &self.serial else { return };
        match socket::send(serial, &self.console_input, &[]) {
            Ok(count) => {
                self.console_input.drain(..count);
            }
            Err(Errno::AGAIN) => {}
            Err(_) => self.console_input.clear(),
        }
    }

    pub(super) fn prepare_to_sleep(&mut self) -> bool {
        match &mut self.link {
            NodeLink::Pending(_) => true,
            NodeLink::Connected(link) => link.prepare_to_sleep(),
        }
    }

    /// Returns whether a descriptor was closed or created since the last call.
    pub(super) fn take_sources_changed(&mut self) -> bool {
        std::mem::take(&mut self.sources_changed)
    }

    /// Returns its descriptors with the events to wait for; its link only if `requests_enabled`.
    pub(super) fn sources(&self, requests_enabled: bool) -> Sources<'_> {
        let mut sources = vec![(self.liveness.ended_fd(), Some(Interest::Read))];
        sources.extend(self.stderr.iter().map(|pipe| (pipe.as_fd(), Some(Interest::Read))));
        let mut of_link = Vec::new();
        if let NodeLink::Connected(link) = &self.link {
            link.sources(&mut of_link);
        }
        sources.extend(of_link.into_iter().map(|(fd, interest)| (fd, requests_enabled.then_some(interest))));
        let interest = if self.console_input.is_empty() { Interest::Read } else { Interest::ReadWrite };
        sources.extend(self.serial.iter().map(|serial| (serial.as_fd(), Some(interest))));
        match &self.transport {
            Some(NodeTransport::Window(window)) => {
                let awaited = matches!(self.link, NodeLink::Pending(_));
                sources.push((window.host_bell.as_fd(), awaited.then_some(Interest::Read)));
            }
            Some(NodeTransport::Streams(side)) => {
                sources.extend(side.control.iter().map(|socket| (socket.as_fd(), Some(Interest::Read))));
                sources.push((side.streams.ended_fd(), Some(Interest::Read)));
            }
            None => {}
        }
        sources
    }

    pub(super) fn wake_up(&mut self) {
        if let NodeLink::Connected(link) = &mut self.link {
            link.wake_up();
        }
        if !self.console_input.is_empty() {
            self.flush_console();
        }
        self.read_stderr();
    }

    pub(super) fn destroy(&mut self) {
        match &mut self.liveness {
            Liveness::Process(process) => process.destroy(),
            Liveness::Attached(thread) => thread.destroy(),
        }
    }
}

fn is_readable(socket: &OwnedFd) -> bool {
    let now = Some(Deadline::after(std::time::Duration::ZERO));
    poll(&[(socket.as_fd(), Interest::Read)], now).is_ok_and(|ready| ready[0].any())
}

/// Opens the control channel on a stream that the agent has written to.
fn open_stream(socket: OwnedFd) -> Result<StreamChannel, ChannelError> {
    let hello = Hello::new(control_config(), crate::CONTROL_INTERFACE_HASH, None);
    StreamChannel::open(socket, hello, Deadline::after(HANDSHAKE_TIMEOUT))
}

/// Opens the control channel, whose other side is the virtual machine's agent.
fn open_control(vm: &WindowSide) -> Result<WindowChannel, ChannelError> {
    let copy = |fd: BorrowedFd<'_>| {
        fd.try_clone_to_owned().map_err(|error| {
            ChannelError::Os(tombolo_platform::OsError::from_io("copy a descriptor", &error))
        })
    };
    let lifeline = copy(vm.lifeline.as_fd())?;
    let resources = window::WindowResources {
        memory: copy(vm.memory.as_fd())?,
        offset_bytes: vm.base_bytes + CONTROL_OFFSET_BYTES as u64,
        length_bytes: ChannelLayout::new(control_config()).length_bytes() as u64,
        lifeline,
        bell: copy(vm.host_bell.as_fd())?,
        peer_doorbell: copy(vm.node_bell.as_fd())?,
        doorbell_target: None,
        caches: vm.caches,
        group: None,
    };
    let hello = Hello::new(control_config(), crate::CONTROL_INTERFACE_HASH, None);
    window::open(resources, Side::B, hello, Deadline::after(HANDSHAKE_TIMEOUT))
}
