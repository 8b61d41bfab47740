//! The node that serves the disk.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use tombolo::waitset::Waker;
use tombolo::{Buffer, Channel, Domain, Ready, Token, WaitSet};
use tombolo_virtqueue::{Features, Request, Status};

use super::disk::Disk;
use crate::failure::Failure;
use crate::print_status;
use crate::queue::{Acceptor, Event, Queue};

/// Timeout of a single wait for events.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum number of clients of a read-only disk. A writable one has a single client.
const MAX_CLIENTS: usize = 16;

/// Serves a disk to attaching nodes, until this node's monitor ends.
pub(crate) fn serve(domain: &Domain, name: &str, disk: &Arc<Disk>) -> Result<(), Failure> {
    let configuration = disk.configuration();
    let max_clients = if configuration.features.has(Features::READ_ONLY) { MAX_CLIENTS } else { 1 };
    // The set has no channels; the acceptor wakes it.
    let mut set: WaitSet<Channel> = WaitSet::new()?;
    let acceptor = Acceptor::start(domain, name, (configuration, 0), set.waker(), ())?;
    print_status(&format!(
        "ready: '{name}' on {}, {} bytes",
        domain.node_name(),
        configuration.capacity_bytes
    ));
    let mut clients: Vec<JoinHandle<()>> = Vec::new();
    loop {
        match set.wait(IDLE_TIMEOUT) {
            Ok(_) | Err(tombolo::Error::TimedOut { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(queue) = acceptor.try_next()? {
            clients.retain(|client| !client.is_finished());
            let node = queue.peer_node().to_owned();
            if clients.len() >= max_clients {
                print_status(&format!(
                    "refused: {node}: {max_clients} attached it already, the most for this disk"
                ));
                continue;
            }
            print_status(&format!("attached: {node}"));
            let disk = Arc::clone(disk);
            let run = move || match serve_client(queue, &disk) {
                Ok(()) => {}
                Err(failure) => print_status(&format!("detached: {node}: {failure}")),
            };
            let started = std::thread::Builder::new().name("client".into()).spawn(run);
            clients.push(started.map_err(|error| {
                tombolo_platform::OsError::from_io("start a thread that serves a disk", &error)
            })?);
        }
    }
}

/// A request with its buffer.
type Job = (Request, Buffer);

/// Serves one client until its channel ends.
fn serve_client(queue: Queue<()>, disk: &Arc<Disk>) -> Result<(), Failure> {
    let mut set = WaitSet::new()?;
    let waker = set.waker();
    let token = set.add(queue)?;
    let (slow, jobs) = mpsc::channel::<Job>();
    let (sender, done) = mpsc::channel();
    let worker = {
        let disk = Arc::clone(disk);
        move || work(&disk, &jobs, &sender, &waker)
    };
    let started = std::thread::Builder::new().name("disk".into()).spawn(worker);
    let worker = started.map_err(|error| tombolo_platform::OsError::from_io("start a thread", &error))?;
    let served = serve_requests(&mut set, token, disk, (&slow, &done));
    // Ends the worker, after the requests that it has begun.
    drop((slow, set));
    let _ = worker.join();
    served
}

/// Executes slow requests, so that reads need not wait for them: replies may overtake one another.
fn work(disk: &Disk, jobs: &Receiver<Job>, done: &Sender<(Job, Status)>, waker: &Waker) {
    for (request, mut buffer) in jobs {
        let status = disk.execute(&request, &mut buffer);
        if done.send(((request, buffer), status)).is_err() {
            return;
        }
        waker.wake();
    }
}

fn serve_requests(
    set: &mut WaitSet<Queue<()>>,
    token: Token,
    disk: &Disk,
    (slow, done): (&Sender<Job>, &Receiver<(Job, Status)>),
) -> Result<(), Failure> {
    loop {
        while let Some(event) = set[token].try_next()? {
            // This side makes no requests.
            let Event::Request(request, allowed, mut buffer) = event else { continue };
            match allowed {
                Err(status) => set[token].reply(&request, status, buffer)?,
                Ok(()) if Disk::is_slow(&request) => {
                    // The worker ends together with this function.
                    let _ = slow.send((request, buffer));
                }
                Ok(()) => {
                    let status = disk.execute(&request, &mut buffer);
                    set[token].reply(&request, status, buffer)?;
                }
            }
        }
        while let Ok(((request, buffer), status)) = done.try_recv() {
            set[token].reply(&request, status, buffer)?;
        }
        match set.wait(IDLE_TIMEOUT) {
            Ok(Ready::Channel(_) | Ready::Woken) | Err(tombolo::Error::TimedOut { .. }) => {}
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
