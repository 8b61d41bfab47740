//! Requests to the machine beside the screen: batch of a domain, and actions on it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tombolo::{DomainId, Error};
use tombolo_admin::{Machine, Signal};
use tombolo_cli_common::output::lock_unpoisoned;
use tombolo_web::{Decoder, StateCache};

use super::app::Action;

/// Interval between two reads of a domain's batch.
const READ_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum length of the retained end of a domain's batch, in bytes of text.
const MAX_KEPT_BYTES: usize = 256 << 10;

/// Known batch of a domain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DomainOutput {
    pub(super) of: Option<DomainId>,
    pub(super) text: String,
    pub(super) error: Option<String>,
}

/// Request for the thread.
pub(super) enum Request {
    Steer(Action, DomainId),
    ShowOutput(DomainId),
}

/// Thread that sends requests to the machine.
pub(super) struct MachineClient {
    requests: Sender<Request>,
    results: Receiver<String>,
    output: Arc<Mutex<DomainOutput>>,
}

impl MachineClient {
    pub(super) fn start(cache: &StateCache) -> std::io::Result<MachineClient> {
        let (requests, incoming) = channel();
        let (result_sender, results) = channel();
        let output: Arc<Mutex<DomainOutput>> = Arc::default();
        let (cache, shown) = (cache.clone(), Arc::clone(&output));
        std::thread::Builder::new()
            .name("asker".into())
            .spawn(move || handle_requests(&cache, &incoming, &result_sender, &shown))?;
        Ok(MachineClient { requests, results, output })
    }

    pub(super) fn request(&self, request: Request) {
        // Fails only without the thread, which ends together with this value.
        let _ = self.requests.send(request);
    }

    /// Returns the result of a request, if there is a new one.
    pub(super) fn take_result(&self) -> Option<String> {
        self.results.try_recv().ok()
    }

    pub(super) fn output(&self) -> DomainOutput {
        lock_unpoisoned(&self.output).clone()
    }
}

/// The domain being watched, with the position in its batch.
#[derive(Default)]
struct OutputPosition {
    id: Option<DomainId>,
    after: u64,
    decoder: [Decoder; 2],
    ended: bool,
}

fn handle_requests(
    cache: &StateCache,
    incoming: &Receiver<Request>,
    result_sender: &Sender<String>,
    output: &Mutex<DomainOutput>,
) {
    let mut place = OutputPosition::default();
    loop {
        let request = match incoming.recv_timeout(READ_INTERVAL) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let snapshot = cache.snapshot();
        let Some(machine) = snapshot.domain().map(Machine::of) else { continue };
        match request {
            Some(Request::Steer(action, id)) => {
                let _ = result_sender.send(steer(&machine, action, id));
            }
            Some(Request::ShowOutput(id)) => {
                place = OutputPosition { id: Some(id), ..OutputPosition::default() };
                *lock_unpoisoned(output) = DomainOutput { of: Some(id), ..DomainOutput::default() };
            }
            None => {}
        }
        read_output(&machine, &mut place, output);
    }
}

fn steer(machine: &Machine, action: Action, id: DomainId) -> String {
    let done = match action {
        Action::Pause => machine.pause(id).map(|()| "paused"),
        Action::Resume => machine.resume(id).map(|()| "goes on"),
        Action::Kill => machine.kill(id, Signal::KILL, Duration::ZERO).map(|()| "is killed"),
    };
    match done {
        Ok(what) => format!("{id} {what}"),
        Err(error) => error.to_string(),
    }
}

/// Adds the new batch of a domain.
fn read_output(machine: &Machine, place: &mut OutputPosition, output: &Mutex<DomainOutput>) {
    let Some(id) = place.id.filter(|_| !place.ended) else { return };
    loop {
        let batch = match machine.remembered_output(id, place.after) {
            Ok(batch) => batch,
            Err(Error::MonitorLost { .. }) => return,
            Err(error) => {
                place.ended = true;
                lock_unpoisoned(output).error = Some(error.to_string());
                return;
            }
        };
        let mut text = String::new();
        if batch.lost_bytes > 0 {
            text.push_str(&format!("[{} bytes are not remembered]\n", batch.lost_bytes));
        }
        for piece in &batch.pieces {
            text.push_str(&place.decoder[usize::from(piece.stream == 2)].decode(&piece.bytes));
        }
        place.after = batch.next;
        place.ended = batch.ended && !batch.more;
        let mut kept = lock_unpoisoned(output);
        kept.text.push_str(&text);
        if kept.text.len() > MAX_KEPT_BYTES {
            let cut = kept.text.floor_char_boundary(kept.text.len() - MAX_KEPT_BYTES);
            kept.text.drain(..cut);
        }
        if !batch.more {
            return;
        }
    }
}
