//! The monitor of a node that is not the host: an agent and a line to the root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use tombolo_base::Isa;
use tombolo_control::FINGERPRINT;
use tombolo_control::{Order, Report, Wire};
use tombolo_link::window::{CONTROL_OFFSET_BYTES, WindowHeader, control_config};
use tombolo_link::{ChannelLayout, Hello, Side};
use tombolo_platform::error::Context;
use tombolo_platform::event::poll;
use tombolo_platform::guest::pci::WindowDevice;
use tombolo_platform::guest::vfio::Interrupts;
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, OsError, memory, socket};
use tombolo_transport::window;

use crate::agent::{Agent, Emulator, GuestWindow};
use crate::link::Line;
use crate::orphans;

/// How long the root may take to answer a node that has just started.
const ROOT_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a node's monitor ends.
#[derive(Debug, thiserror::Error)]
pub enum LeafError {
    /// The root is gone, and the machine with it.
    #[error("the root monitor is gone")]
    RootGone,
    /// The root said something that cannot be.
    #[error("the root broke the protocol: {0}")]
    Protocol(String),
    /// The window is not usable.
    #[error("the window is not usable: {0}")]
    Window(String),
    /// The operating system refused something.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Runs the monitor of a `user` node, whose line to the root is `socket`.
///
/// # Errors
/// [`LeafError`]. That the root said to stop is none.
pub fn run_user(socket: OwnedFd, emulator: Option<Emulator>) -> Result<(), LeafError> {
    rustix::io::ioctl_fionbio(&socket, true).context("use the line to the root")?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).context("use the line to the root")?;
    run(Line::over_socket(socket), emulator, None)
}

/// Runs the monitor of a virtual machine.
///
/// # Errors
/// [`LeafError`]. That the root said to stop is none.
pub fn run_guest() -> Result<(), LeafError> {
    let unusable = |error: &dyn std::fmt::Display| LeafError::Window(error.to_string());
    let device = WindowDevice::find().map_err(|error| unusable(&error))?;
    device.enable()?;
    let bar = device.open_memory()?;
    let registers = device.open_registers()?;
    let interrupts = Interrupts::open(&device).map_err(|error| unusable(&error))?;
    let length = usize::try_from(bar.length_bytes).map_err(|error| unusable(&error))?;
    let whole = memory::map(&bar.file, 0, length)?;
    WindowHeader::read(&whole).map_err(|error| unusable(&error))?;
    let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().context("copy a descriptor");
    let counter = interrupts.eventfds().first().ok_or_else(|| unusable(&"it has no interrupt vectors"))?;
    // Never hangs up: the end of the root is the end of this virtual machine.
    let (lifeline, _far_end) = socket::pair(socket::SocketKind::Stream)?;
    let lent = window::Lent {
        memory: copy(bar.file.as_fd())?,
        offset_bytes: CONTROL_OFFSET_BYTES as u64,
        length_bytes: ChannelLayout::new(control_config()).length_bytes() as u64,
        lifeline,
        bell: copy(counter.as_fd())?,
        ringer: copy(registers.as_fd())?,
        ring: Some(0),
    };
    let hello = Hello::new(control_config(), crate::CONTROL_INTERFACE_HASH, None);
    let channel = window::open(lent, Side::A, hello, Deadline::after(ROOT_TIMEOUT))
        .map_err(|error| unusable(&error))?;
    let window = GuestWindow { memory: bar.file, registers, interrupts };
    run(Line::over_window(channel), None, Some(window))
}

fn run(mut line: Line, emulator: Option<Emulator>, window: Option<GuestWindow>) -> Result<(), LeafError> {
    let (name, machine) = await_welcome(&mut line)?;
    let mut agent = Agent::new(&machine, Some(&name), emulator, None)?;
    if let Some(window) = window {
        agent.set_window(window);
    }
    let ready = Report::Ready {
        version: FINGERPRINT,
        isa: Isa::current(),
        cores: crate::cores(),
        pid: std::process::id() as i32,
    };
    send(&mut line, &ready, None)?;
    loop {
        while let Some((bytes, fds)) = line.receive() {
            let order = Order::from_bytes(&bytes).map_err(|error| LeafError::Protocol(error.to_string()))?;
            if agent.execute(order, fds).is_err() {
                return Ok(());
            }
            // The next order may take long, as to start a program does under emulation; deaths are told before that.
            send_reports(&mut line, &mut agent)?;
        }
        send_reports(&mut line, &mut agent)?;
        agent.end_orphans(&[], |_| false);
        if line.is_gone() {
            agent.destroy_children();
            orphans::end_all();
            return Err(LeafError::RootGone);
        }
        wait(&mut line, &mut agent)?;
    }
}

/// Tells the root what it has to hear.
fn send_reports(line: &mut Line, agent: &mut Agent) -> Result<(), LeafError> {
    while let Some((report, file)) = agent.next_report() {
        send(line, &report, file)?;
    }
    Ok(())
}

/// A report that cannot be sent would leave the root with a picture of this node that is not so.
fn send(line: &mut Line, report: &Report, file: Option<OwnedFd>) -> Result<(), LeafError> {
    let bytes = report.to_bytes().map_err(|error| LeafError::Protocol(format!("a report: {error}")))?;
    line.send(bytes, file.into_iter().collect());
    Ok(())
}

fn wait(line: &mut Line, agent: &mut Agent) -> Result<(), LeafError> {
    let until_tick = |agent: &Agent| {
        let at = agent.next_tick()?;
        Some(Deadline::after(Duration::from_nanos(at.saturating_sub(now_ns()))))
    };
    let quiet = line.about_to_sleep();
    let deadline = if quiet { until_tick(agent) } else { Some(Deadline::after(Duration::ZERO)) };
    agent.let_clients_ask(!line.is_backed_up());
    let (mut sources, mut tokens) = (Vec::new(), Vec::new());
    agent.sources(&mut sources, &mut tokens);
    line.sources(&mut sources);
    let ready = poll(&sources, deadline)?;
    drop(sources);
    line.wake_up();
    agent.tick();
    for (token, ready) in tokens.into_iter().zip(ready) {
        if ready.any() {
            agent.handle(token, ready);
        }
    }
    Ok(())
}

/// The root's first words: who this node is.
fn await_welcome(line: &mut Line) -> Result<(String, String), LeafError> {
    let deadline = Deadline::after(ROOT_TIMEOUT);
    loop {
        if let Some((bytes, _)) = line.receive() {
            return match Order::from_bytes(&bytes) {
                Ok(Order::Welcome { name, machine, .. }) => Ok((name, machine)),
                Ok(_) => Err(LeafError::Protocol("its first order is not a welcome".to_owned())),
                Err(error) => Err(LeafError::Protocol(format!("its welcome cannot be read: {error}"))),
            };
        }
        if line.is_gone() || deadline.passed() {
            return Err(LeafError::RootGone);
        }
        if line.about_to_sleep() {
            let mut sources = Vec::new();
            line.sources(&mut sources);
            poll(&sources, Some(deadline))?;
        }
        line.wake_up();
    }
}
