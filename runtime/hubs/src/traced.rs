//! What hubs add to a trace, while one is recorded: markers of what tasks did, spans of their waits, and how
//! full hubs are. Elsewhere each costs a load and a branch.

use tombolo::trace;
use tombolo_hub::{Hubs, Kind, Taken};

/// Notes what a task did: what it took or put, with its length in bytes or the fencing token.
pub(crate) fn done(hub: &str, kind: Kind, taken: &Taken) {
    if !trace::is_on() {
        return;
    }
    let what = match (kind, taken) {
        (Kind::Port | Kind::Fifo, Taken::Put) => "send",
        (Kind::Port | Kind::Fifo, _) => "receive",
        (Kind::Event, Taken::Put) => "raise",
        (Kind::Event, _) => "event",
        (Kind::Semaphore, Taken::Put) => "signal",
        (Kind::Semaphore, _) => "count down",
        (Kind::Resource, _) => "acquire",
        (Kind::Pool, _) => "allocate",
    };
    let value = match taken {
        Taken::Value(bytes) => bytes.len() as u64,
        Taken::Values(values) => values.iter().map(|value| value.len() as u64).sum(),
        Taken::Block { token, .. } => *token,
        Taken::Put | Taken::Unit => 0,
    };
    mark(hub, what, value);
}

/// Notes that a lock or a block is given back, with its fencing token.
pub(crate) fn gave_back(hub: &str, kind: Kind, token: u64) {
    if trace::is_on() {
        mark(hub, if kind == Kind::Resource { "release" } else { "free" }, token);
    }
}

/// Notes that a task begins to wait.
pub(crate) fn waits(hub: &str) {
    if trace::is_on() {
        mark(hub, "wait", 0);
    }
}

/// A span of a wait that blocks its thread.
pub(crate) fn wait(hub: &str) -> Option<trace::Span> {
    trace::is_on().then(|| trace::span(&format!("hub {hub}: wait")))
}

/// Notes the priority that a task inherits now.
pub(crate) fn inherits(priority: u8) {
    if trace::is_on() {
        trace::marker("hubs: inherit", priority.into());
    }
}

/// Notes at the server how many items a hub has and how many requests wait, which viewers draw as lines.
pub(crate) fn depth(hubs: &Hubs, number: u32) {
    if trace::is_on()
        && let Some((hub, depth, waiting)) = hubs.load(number)
    {
        trace::value(&format!("hub {hub}: depth"), depth);
        trace::value(&format!("hub {hub}: waiting"), waiting);
    }
}

fn mark(hub: &str, what: &str, value: u64) {
    trace::marker(&format!("hub {hub}: {what}"), value);
}
