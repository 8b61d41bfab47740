//! The root's side of a node that joins by itself: a thread that offers its window, accepts a joiner, and
//! monitors its heartbeat.

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tombolo_base::{CacheMaintenance, NodeId, SharedMemory};
use tombolo_control::FINGERPRINT;
use tombolo_link::either::{Either, EitherMemory};
use tombolo_link::rendezvous::{Bells, Host, HostEvent, Nonce, RENDEZVOUS_BYTES, Terms};
use tombolo_link::window::{CONTROL_OFFSET_BYTES, CONTROL_VECTOR, WindowHeader, heap_offset_bytes};
use tombolo_machine::{AttachedNode, Machine, Node, WindowKey};
use tombolo_platform::event::{Interest, drain, eventfd, poll, signal};
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, Errno, OsError, lock_unpoisoned, socket};

use super::node::{NodeLink, RunningNode, WindowSide};
use super::text;
use super::windows::Windows;
use crate::polled_bells::{HEARTBEAT_NS, JoinSide, PolledBells};
use crate::random_nonce;

/// Polling period of an offer.
const OFFER_PERIOD: Duration = Duration::from_millis(5);

/// Event that the thread reports to the root.
#[derive(Debug)]
pub(super) enum AttachEvent {
    /// A joiner was refused.
    Refused(String),
    /// A joiner was accepted; the window begins at that offset of its file.
    Joined { base_bytes: u64 },
    /// The node is lost, and the thread ends.
    Lost(String),
}

/// The root's handle of the thread.
#[derive(Debug)]
pub(super) struct JoinThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    events: Mutex<VecDeque<AttachEvent>>,
    /// Readable when there are events.
    events_ready: OwnedFd,
    /// Readable when the thread is to end.
    stop: OwnedFd,
}

impl Shared {
    fn push_event(&self, event: AttachEvent) {
        lock_unpoisoned(&self.events).push_back(event);
        // The counter belongs to this process.
        let _ = signal(&self.events_ready);
    }
}

impl JoinThread {
    pub(super) fn event_fd(&self) -> BorrowedFd<'_> {
        self.shared.events_ready.as_fd()
    }

    /// Returns the thread's next event.
    pub(super) fn next_event(&self) -> Option<AttachEvent> {
        let mut events = lock_unpoisoned(&self.shared.events);
        if events.is_empty() {
            drain(&self.shared.events_ready);
        }
        events.pop_front()
    }

    /// Withdraws the offer or notifies the joiner of the end, and waits for the thread.
    pub(super) fn destroy(&mut self) {
        let _ = signal(&self.shared.stop);
        if let Some(thread) = self.thread.take() {
            // The thread never blocks longer than a millisecond.
            let _ = thread.join();
        }
    }
}

impl Drop for JoinThread {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// State of the thread.
struct OfferedWindow {
    window: SharedMemory,
    key: WindowKey,
    header: WindowHeader,
    bells: (Vec<OwnedFd>, Vec<OwnedFd>),
}

/// Opens the window of a node and offers it.
pub(super) fn start(
    node: &Node,
    attached: &AttachedNode,
    generation: NonZeroU16,
    machine: &Machine,
    windows: &mut Windows,
) -> Result<(RunningNode, u64), String> {
    let window = machine.own_window(node.id).ok_or("it has no window")?;
    let length_bytes = window.length_bytes();
    let key = WindowKey::read(attached.key.as_deref()).map_err(text)?;
    let opened = attached
        .window
        .open(Some(length_bytes))
        .map_err(|error| format!("cannot use its window {}: {error}", attached.window))?;
    let base_bytes = opened.base_bytes;
    let file = opened.file.try_clone().map_err(text)?;
    let memory = windows.attach(window, opened.file, base_bytes)?;
    let peers = window.peer(NodeId::HOST).zip(window.peer(node.id));
    let (of_host, of_node) = peers.ok_or("it has no window with the host")?;
    let bells = (windows.bells(window.id, of_host)?, windows.bells(window.id, of_node)?);
    let caches = window.caches;
    let header = WindowHeader { window: window.id, node: node.id, generation, length_bytes, caches };
    let terms = attached.terms(node.isa, FINGERPRINT, length_bytes);
    let silence_ns = u64::from(attached.silence_s) * 1_000_000_000;
    let name = (node.id, node.name.as_str(), machine.name());
    let session = random_nonce().map_err(text)?;
    let page = memory.slice(0, RENDEZVOUS_BYTES).map_err(text)?;
    let shared = Arc::new(Shared {
        events: Mutex::default(),
        events_ready: eventfd().map_err(text)?,
        stop: eventfd().map_err(text)?,
    });
    let bell = |bells: &[OwnedFd]| {
        let control = bells.get(usize::from(CONTROL_VECTOR)).ok_or("its window has no doorbell")?;
        control.try_clone().map_err(text)
    };
    let (host_bell, node_bell) = (bell(&bells.0)?, bell(&bells.1)?);
    let offered = OfferedWindow { window: memory, key, header, bells };
    let offer = Offer { terms, name, session, silence_ns };
    let thread = match EitherMemory::view(page, caches).map_err(text)? {
        Either::Coherent(page) => offer.start(page, offered, Arc::clone(&shared)),
        Either::Flushed(page) => offer.start(page, offered, Arc::clone(&shared)),
    };
    let thread = JoinThread { shared, thread: Some(thread.map_err(text)?) };
    let (lifeline, far_end) = socket::pair(socket::SocketKind::Stream).map_err(text)?;
    let side = WindowSide {
        memory: file,
        caches,
        base_bytes,
        host_bell,
        node_bell,
        lifeline,
        _lifeline_far_end: far_end,
    };
    Ok((RunningNode::attached(thread, NodeLink::Pending(Vec::new()), side), base_bytes))
}

/// Terms of the offer, and its node.
struct Offer<'a> {
    terms: Terms,
    name: (NodeId, &'a str, &'a str),
    session: Nonce,
    silence_ns: u64,
}

impl Offer<'_> {
    /// Starts the thread, with `page` as its view of the first page of the window.
    fn start<C: CacheMaintenance>(
        self,
        page: SharedMemory<C>,
        offered: OfferedWindow,
        shared: Arc<Shared>,
    ) -> std::io::Result<JoinHandle<()>> {
        let host = Host::open(&page, self.terms, self.name, self.session, self.silence_ns);
        std::thread::Builder::new()
            .name(format!("window-{}", self.name.1))
            .spawn(move || serve_window(host, &page, &offered, &shared))
    }
}

fn serve_window<C: CacheMaintenance>(
    mut host: Host,
    page: &SharedMemory<C>,
    offered: &OfferedWindow,
    shared: &Shared,
) {
    let joined = await_joiner(&mut host, page, offered, shared);
    let mut end = JoinSide::Host(host);
    let lost = match joined {
        Ok(Some(bells)) => {
            let bells = PolledBells {
                window: page,
                key: &offered.key,
                end: &mut end,
                bells,
                incoming: &offered.bells.0,
                outgoing: &offered.bells.1,
                stop: &[shared.stop.as_fd()],
            };
            bells.run()
        }
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    // Also notifies a joiner presumed dead: if it is alive, it must know.
    end.leave(page);
    match lost {
        Ok(Some(loss)) => shared.push_event(AttachEvent::Lost(loss.to_string())),
        Ok(None) => {}
        Err(error) => shared.push_event(AttachEvent::Lost(error.to_string())),
    }
}

/// Waits until a joiner was accepted; `None` when told to stop.
fn await_joiner<C: CacheMaintenance>(
    host: &mut Host,
    page: &SharedMemory<C>,
    offered: &OfferedWindow,
    shared: &Shared,
) -> Result<Option<Bells>, OsError> {
    let OfferedWindow { window, key, header, .. } = offered;
    let mut next_heartbeat_ns = 0;
    loop {
        let now = now_ns();
        if now >= next_heartbeat_ns {
            host.write_heartbeat(page);
            next_heartbeat_ns = now + HEARTBEAT_NS;
        }
        match host.poll(page, now, key) {
            HostEvent::Nothing | HostEvent::Lost(_) => {}
            HostEvent::Refused(error) => shared.push_event(AttachEvent::Refused(error.to_string())),
            HostEvent::Claimed(claim) => {
                let control = window
                    .slice(CONTROL_OFFSET_BYTES, heap_offset_bytes() - CONTROL_OFFSET_BYTES)
                    .map_err(|_| OsError::new("clear the control channel", Errno::NODEV))?;
                control.clear();
                if let Some(caches) = header.caches {
                    caches.write_back(&control);
                }
                header.write(page);
                let base_bytes = claim.base_bytes;
                let bells = host.accept(page, claim, header.generation, now_ns(), key);
                shared.push_event(AttachEvent::Joined { base_bytes });
                return Ok(Some(bells));
            }
        }
        let ready = poll(&[(shared.stop.as_fd(), Interest::Read)], Some(Deadline::after(OFFER_PERIOD)))?;
        if ready[0].any() {
            return Ok(None);
        }
    }
}
