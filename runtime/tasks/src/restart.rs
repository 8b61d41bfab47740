//! Restarts workers that died, on a separate thread: that takes as long as a program needs to start.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use tombolo::waitset::Waker;
use tombolo::{Domain, Error, Listener, SpawnOptions};

use crate::driver::ConnectedWorker;
use crate::starter::{accept_workers, kill_all, spawn};

/// Maximum number of restarts per place. A worker that dies with every task, for example, is given up.
pub(crate) const MAX_RESTARTS: u32 = 3;

/// Place of a worker: the properties that stay the same after a restart.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) node: u16,
    pub(crate) name: String,
    pub(crate) speed: u32,
    /// Number of restarts left in this place.
    pub(crate) restarts_left: u32,
}

/// Worker that was started for a place, given by its index, or the reason of the failure.
pub(crate) type Started = (usize, Result<ConnectedWorker, String>);

/// Starts workers on request.
#[derive(Debug)]
pub(crate) struct Restarter {
    request_sender: Sender<(usize, Place)>,
    started: Receiver<Started>,
    thread: thread::JoinHandle<()>,
}

impl Restarter {
    /// Starts the thread that starts workers of this program, which connect to this service. `waker` wakes
    /// the thread that [takes](Self::take) the started ones, and `stopped` returns true once no more are
    /// required.
    pub(crate) fn start(
        domain: &Domain,
        listener: Listener,
        (service, program): (String, SpawnOptions),
        waker: Waker,
        stopped: impl Fn() -> bool + Send + 'static,
    ) -> Result<Restarter, Error> {
        let (request_sender, requests) = mpsc::channel::<(usize, Place)>();
        let (results, started) = mpsc::channel();
        let domain = domain.clone();
        let run = move || {
            for (index, place) in requests {
                let result = restart(&domain, &listener, (&service, &program), &place, &stopped);
                if let Err(mpsc::SendError((_, Ok(unwanted)))) = results.send((index, result)) {
                    kill_all(std::iter::once(&unwanted.child));
                }
                waker.wake();
            }
        };
        let thread = thread::Builder::new().name("restart".into()).spawn(run).map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(0);
            Error::Os { operation: "start a thread".into(), errno }
        })?;
        Ok(Restarter { request_sender, started, thread })
    }

    /// Requests a worker for this place. Returns false if the thread has ended.
    pub(crate) fn request(&self, index: usize, place: &Place) -> bool {
        self.request_sender.send((index, place.clone())).is_ok()
    }

    /// Takes the next worker that was started.
    pub(crate) fn take(&self) -> Option<Started> {
        self.started.try_recv().ok()
    }

    /// Ends the thread, and the workers that were not taken.
    pub(crate) fn end(self) {
        drop(self.request_sender);
        let _ = self.thread.join();
        for (_, worker) in self.started.try_iter() {
            if let Ok(worker) = worker {
                kill_all(std::iter::once(&worker.child));
            }
        }
    }
}

fn restart(
    domain: &Domain,
    listener: &Listener,
    (service, program): (&str, &SpawnOptions),
    place: &Place,
    stopped: &impl Fn() -> bool,
) -> Result<ConnectedWorker, String> {
    if stopped() {
        return Err("its program has ended its tasks".to_owned());
    }
    let child = spawn(domain, program, &place.name, service).map_err(|error| error.to_string())?;
    let mut channels = match accept_workers(listener, &[(&child, &place.name)], stopped) {
        Ok(channels) => channels,
        Err(error) => {
            kill_all(std::iter::once(&child));
            return Err(error.to_string());
        }
    };
    let channel = channels.pop().ok_or("it has not connected")?;
    let Place { node, name, speed, .. } = place.clone();
    Ok(ConnectedWorker { child, channel, node, name, speed })
}
