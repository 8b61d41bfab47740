//! The monitor of a node other than the host: an agent and a control link to the root.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_base::{Isa, NodeId, WindowId};
use tombolo_control::FINGERPRINT;
use tombolo_control::{Order, Report, Wire};
use tombolo_link::window::{CONTROL_OFFSET_BYTES, CONTROL_VECTOR, WindowHeader, control_config};
use tombolo_link::{ChannelLayout, Hello, Side};
use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::guest::init::Parameters;
use tombolo_platform::guest::interrupts::Interrupts;
use tombolo_platform::guest::pci::WindowDevice;
use tombolo_platform::guest::ports;
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, OsError, memory, socket};
use tombolo_transport::stream::StreamChannel;
use tombolo_transport::window;

use crate::agent::{Agent, Emulator, GuestBells, GuestWindow};
use crate::control_link::ControlLink;
use crate::orphans;
use crate::streams::{CONTROL_STREAM, LinkStreams};

/// Timeout for the root to answer a node that has just started.
const ROOT_TIMEOUT: Duration = Duration::from_secs(60);

/// Reason why a node's monitor ends.
#[derive(Debug, thiserror::Error)]
pub enum NodeMonitorError {
    /// The root is gone, and the machine with it.
    #[error("the root monitor is gone")]
    RootClosed,
    /// The root sent an invalid message.
    #[error("the root broke the protocol: {0}")]
    Protocol(String),
    /// The ports of the machine are not usable.
    #[error("the link with the host is not usable: {0}")]
    Link(String),
    /// The window is not usable.
    #[error("the window is not usable: {0}")]
    Window(String),
    /// The operating system refused an operation.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Runs the monitor of a `user` node, whose control link to the root is `socket`.
///
/// # Errors
/// [`NodeMonitorError`]; a stop order of the root is not an error.
pub fn run_user(socket: OwnedFd, emulator: Option<Emulator>) -> Result<(), NodeMonitorError> {
    rustix::io::ioctl_fionbio(&socket, true).context("use the control link to the root")?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)
        .context("use the control link to the root")?;
    run_monitor(ControlLink::over_socket(socket), emulator, HostConnection::Kernel)
}

/// Runs the monitor of a virtual machine.
///
/// # Errors
/// [`NodeMonitorError`]; a stop order of the root is not an error.
pub fn run_guest() -> Result<(), NodeMonitorError> {
    let (parameter, by_ports) = ports::LINK;
    if Parameters::read()?.get(parameter) == Some(by_ports) { run_with_ports() } else { run_with_windows() }
}

/// Runs the monitor of a virtual machine that is joined to the host only by byte streams.
fn run_with_ports() -> Result<(), NodeMonitorError> {
    let link = |error: &dyn std::fmt::Display| NodeMonitorError::Link(error.to_string());
    let deadline = Deadline::after(ROOT_TIMEOUT);
    let control = ports::open(ports::CONTROL, deadline).map_err(|error| link(&error))?;
    let streams = ports::open(ports::STREAMS, deadline).map_err(|error| link(&error))?;
    // Kept as long as this function runs.
    let port = LinkStreams::start(control)?;
    let hello = Hello::new(control_config(), crate::CONTROL_INTERFACE_HASH, None);
    let channel =
        StreamChannel::open(port.open(CONTROL_STREAM)?, hello, deadline).map_err(|error| link(&error))?;
    run_monitor(
        ControlLink::over_stream(channel),
        None,
        HostConnection::Streams(LinkStreams::start(streams)?),
    )
}

/// Runs the monitor of a virtual machine behind windows.
fn run_with_windows() -> Result<(), NodeMonitorError> {
    let unusable = |error: &dyn std::fmt::Display| NodeMonitorError::Window(error.to_string());
    let mut windows = BTreeMap::new();
    let mut own = None;
    for device in WindowDevice::find_all().map_err(|error| unusable(&error))? {
        let (header, window) = open_window(&device)?;
        // The root creates one window for this node alone, for the control link.
        if header.node != NodeId::HOST {
            own = Some(header);
        }
        windows.insert(header.window, window);
    }
    let header = own.ok_or_else(|| unusable(&"none of its windows is that of this node with the host"))?;
    let own = header.window;
    let window = windows.get(&own).ok_or_else(|| unusable(&"it is missing"))?;
    let bar = &window.memory;
    let registers = window.bells.registers().ok_or_else(|| unusable(&"it has no registers"))?;
    let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().context("copy a descriptor");
    let counter = window.bells.incoming(CONTROL_VECTOR);
    let counter = counter.ok_or_else(|| unusable(&"it has no interrupt vectors"))?;
    // Never hangs up: when the root ends, so does this virtual machine.
    let (lifeline, _far_end) = socket::pair(socket::SocketKind::Stream)?;
    let resources = window::WindowResources {
        memory: copy(bar.as_fd())?,
        offset_bytes: CONTROL_OFFSET_BYTES as u64,
        length_bytes: ChannelLayout::new(control_config()).length_bytes() as u64,
        lifeline,
        bell: copy(counter)?,
        peer_doorbell: copy(registers)?,
        doorbell_target: Some(0),
        caches: header.caches,
        group: None,
    };
    let hello = Hello::new(control_config(), crate::CONTROL_INTERFACE_HASH, None);
    let channel = window::open(resources, Side::A, hello, Deadline::after(ROOT_TIMEOUT))
        .map_err(|error| unusable(&error))?;
    run_monitor(ControlLink::over_window(channel), None, HostConnection::Windows(own, windows))
}

/// Opens a window and reads the header written by the root.
fn open_window(device: &WindowDevice) -> Result<(WindowHeader, GuestWindow), NodeMonitorError> {
    let unusable = |error: &dyn std::fmt::Display| {
        NodeMonitorError::Window(format!("device {}: {error}", device.address()))
    };
    device.enable()?;
    let bar = device.open_memory()?;
    let registers = device.open_registers()?;
    let interrupts = Interrupts::open(device).map_err(|error| unusable(&error))?;
    let length = usize::try_from(bar.length_bytes).map_err(|error| unusable(&error))?;
    let whole = memory::map(&bar.file, 0, length)?;
    let header = WindowHeader::read(&whole).map_err(|error| unusable(&error))?;
    let bells = GuestBells::Device { registers, interrupts };
    Ok((header, GuestWindow { memory: bar.file, bells, caches: header.caches }))
}

/// Connection of a node to others.
pub(crate) enum HostConnection {
    /// The kernel shared with the host.
    Kernel,
    /// Windows, with the id of the one shared with the host.
    Windows(WindowId, BTreeMap<WindowId, GuestWindow>),
    /// Byte streams.
    Streams(LinkStreams),
}

pub(crate) fn run_monitor(
    mut link: ControlLink,
    emulator: Option<Emulator>,
    joined: HostConnection,
) -> Result<(), NodeMonitorError> {
    let (name, machine) = await_welcome(&mut link)?;
    let mut agent = Agent::new(&machine, Some(&name), emulator, None)?;
    match joined {
        HostConnection::Kernel => {}
        HostConnection::Windows(own, windows) => agent.set_windows(own, windows)?,
        HostConnection::Streams(streams) => agent.set_streams(streams),
    }
    let ready = Report::Ready {
        version: FINGERPRINT,
        isa: Isa::current(),
        cores: crate::cores(),
        pid: std::process::id() as i32,
    };
    send(&mut link, &ready, None)?;
    loop {
        while let Some((bytes, fds)) = link.receive() {
            let order =
                Order::from_bytes(&bytes).map_err(|error| NodeMonitorError::Protocol(error.to_string()))?;
            if agent.execute(order, fds).is_err() {
                return Ok(());
            }
            // The next order may take long, such as starting a program under emulation; report deaths first.
            send_reports(&mut link, &mut agent)?;
        }
        send_reports(&mut link, &mut agent)?;
        agent.kill_orphans(&[], |_| false);
        if link.is_closed() {
            agent.destroy_children();
            orphans::kill_all();
            return Err(NodeMonitorError::RootClosed);
        }
        wait(&mut link, &mut agent)?;
    }
}

/// Sends the agent's reports to the root.
fn send_reports(link: &mut ControlLink, agent: &mut Agent) -> Result<(), NodeMonitorError> {
    while let Some((report, file)) = agent.next_report() {
        send(link, &report, file)?;
    }
    Ok(())
}

/// Sends a report. If it cannot be encoded the monitor ends: without it the root's state of this node would
/// be wrong.
fn send(link: &mut ControlLink, report: &Report, file: Option<OwnedFd>) -> Result<(), NodeMonitorError> {
    let bytes =
        report.to_bytes().map_err(|error| NodeMonitorError::Protocol(format!("a report: {error}")))?;
    link.send(bytes, file.into_iter().collect());
    Ok(())
}

fn wait(link: &mut ControlLink, agent: &mut Agent) -> Result<(), NodeMonitorError> {
    let until_tick = |agent: &Agent| {
        let at = agent.next_tick()?;
        Some(Deadline::after(Duration::from_nanos(at.saturating_sub(now_ns()))))
    };
    let quiet = link.prepare_to_sleep();
    let deadline = if quiet { until_tick(agent) } else { Some(Deadline::after(Duration::ZERO)) };
    agent.set_requests_enabled(!link.is_backed_up());
    agent.arm();
    let mut sources = vec![(agent.ready_fd(), Interest::Read)];
    link.sources(&mut sources);
    let ready = poll(&sources, deadline)?;
    drop(sources);
    link.wake_up();
    agent.tick();
    if ready[0].any() {
        agent.serve()?;
    }
    Ok(())
}

/// Waits for the root's first message: the names of this node and of the machine.
fn await_welcome(link: &mut ControlLink) -> Result<(String, String), NodeMonitorError> {
    let deadline = Deadline::after(ROOT_TIMEOUT);
    loop {
        if let Some((bytes, _)) = link.receive() {
            return match Order::from_bytes(&bytes) {
                Ok(Order::Welcome { name, machine, .. }) => Ok((name, machine)),
                Ok(_) => Err(NodeMonitorError::Protocol("its first message is not a welcome".to_owned())),
                Err(error) => Err(NodeMonitorError::Protocol(format!("cannot decode its welcome: {error}"))),
            };
        }
        if link.is_closed() || deadline.passed() {
            return Err(NodeMonitorError::RootClosed);
        }
        if link.prepare_to_sleep() {
            let mut sources = Vec::new();
            link.sources(&mut sources);
            poll(&sources, Some(deadline))?;
        }
        link.wake_up();
    }
}
