//! Trace events of hubs: markers of operations, spans of waits, and the fill levels of hubs. While no trace
//! is recorded, each costs a load and a branch.

use tombolo::trace;
use tombolo_hub::{Hubs, Kind, Taken};

/// Records an operation of a task, with the length in bytes or the fencing token of what it took or put.
pub(crate) fn operation(hub: &str, kind: Kind, taken: &Taken) {
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

/// Records the return of a lock or a block, with its fencing token.
pub(crate) fn released(hub: &str, kind: Kind, token: u64) {
    if trace::is_on() {
        mark(hub, if kind == Kind::Resource { "release" } else { "free" }, token);
    }
}

/// Records that a task begins to wait.
pub(crate) fn wait_started(hub: &str) {
    if trace::is_on() {
        mark(hub, "wait", 0);
    }
}

/// Records the span of a wait that blocks its thread.
pub(crate) fn wait_span(hub: &str) -> Option<trace::Span> {
    trace::is_on().then(|| trace::span(&format!("hub {hub}: wait")))
}

/// Records the priority that a task inherits now.
pub(crate) fn inherited_priority(priority: u8) {
    if trace::is_on() {
        trace::marker("hubs: inherit", priority.into());
    }
}

/// Records the number of items and of waiting requests of a hub, at the server. Viewers draw them as lines.
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
