//! Requests to the machine beside the screen: output of a domain, and actions on it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tombolo::{DomainId, Error};
use tombolo_admin::{Machine, Signal};
use tombolo_cli_common::output::unpoisoned;
use tombolo_web::{Decoder, StateCache};

use super::app::Action;

/// Interval between two reads of a domain's output.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Maximum length of the retained end of a domain's output, in bytes of text.
const MAX_KEPT_BYTES: usize = 256 << 10;

/// Known output of a domain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Written {
    pub(super) of: Option<DomainId>,
    pub(super) text: String,
    pub(super) trouble: Option<String>,
}

/// Request for the thread.
pub(super) enum Wish {
    Steer(Action, DomainId),
    Look(DomainId),
}

/// Thread that sends requests to the machine.
pub(super) struct Asker {
    wishes: Sender<Wish>,
    said: Receiver<String>,
    written: Arc<Mutex<Written>>,
}

impl Asker {
    pub(super) fn start(cache: &StateCache) -> std::io::Result<Asker> {
        let (wishes, wanted) = channel();
        let (say, said) = channel();
        let written: Arc<Mutex<Written>> = Arc::default();
        let (cache, showing) = (cache.clone(), Arc::clone(&written));
        std::thread::Builder::new()
            .name("asker".into())
            .spawn(move || ask(&cache, &wanted, &say, &showing))?;
        Ok(Asker { wishes, said, written })
    }

    pub(super) fn wish(&self, wish: Wish) {
        // Fails only without the thread, which ends together with this value.
        let _ = self.wishes.send(wish);
    }

    /// Returns the result of a request, if there is a new one.
    pub(super) fn said(&self) -> Option<String> {
        self.said.try_recv().ok()
    }

    pub(super) fn written(&self) -> Written {
        unpoisoned(&self.written).clone()
    }
}

/// The domain being watched, with the position in its output.
#[derive(Default)]
struct OutputPosition {
    id: Option<DomainId>,
    after: u64,
    decoder: [Decoder; 2],
    ended: bool,
}

fn ask(cache: &StateCache, wanted: &Receiver<Wish>, say: &Sender<String>, written: &Mutex<Written>) {
    let mut place = OutputPosition::default();
    loop {
        let wish = match wanted.recv_timeout(LOOK_EVERY) {
            Ok(wish) => Some(wish),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let picture = cache.picture();
        let Some(machine) = picture.domain().map(Machine::of) else { continue };
        match wish {
            Some(Wish::Steer(action, id)) => {
                let _ = say.send(steer(&machine, action, id));
            }
            Some(Wish::Look(id)) => {
                place = OutputPosition { id: Some(id), ..OutputPosition::default() };
                *unpoisoned(written) = Written { of: Some(id), ..Written::default() };
            }
            None => {}
        }
        look(&machine, &mut place, written);
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

/// Adds the new output of a domain.
fn look(machine: &Machine, place: &mut OutputPosition, written: &Mutex<Written>) {
    let Some(id) = place.id.filter(|_| !place.ended) else { return };
    loop {
        let output = match machine.remembered_output(id, place.after) {
            Ok(output) => output,
            Err(Error::MonitorLost { .. }) => return,
            Err(error) => {
                place.ended = true;
                unpoisoned(written).trouble = Some(error.to_string());
                return;
            }
        };
        let mut text = String::new();
        if output.lost_bytes > 0 {
            text.push_str(&format!("[{} bytes are not remembered]\n", output.lost_bytes));
        }
        for piece in &output.pieces {
            text.push_str(&place.decoder[usize::from(piece.stream == 2)].decode(&piece.bytes));
        }
        place.after = output.next;
        place.ended = output.ended && !output.more;
        let mut kept = unpoisoned(written);
        kept.text.push_str(&text);
        if kept.text.len() > MAX_KEPT_BYTES {
            let cut = kept.text.floor_char_boundary(kept.text.len() - MAX_KEPT_BYTES);
            kept.text.drain(..cut);
        }
        if !output.more {
            return;
        }
    }
}
