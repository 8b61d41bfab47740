//! Recorders of counters and traces for the channels of a domain.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tombolo_base::{DomainId, Isa};
use tombolo_platform::memory;
use tombolo_trace::layout::HEAD_BYTES;
use tombolo_trace::snapshot::Head;
use tombolo_transport::trace::{EventKind, NewEvent, Recorder};

/// Recorder of the first domain that this program attached as, to which its spans belong.
static OWN: OnceLock<Arc<Recorder>> = OnceLock::new();

/// Identity of a memory file, independent of the descriptor: its device and inode.
type FileId = (u64, u64);

/// Recorders in use, by their page: a second connection of the same domain shares the recorder.
static RECORDERS: Mutex<Vec<(FileId, Weak<Recorder>)>> = Mutex::new(Vec::new());

/// Returns the recorder for a domain's page, if the page arrived with the reply. Without one, nothing is
/// traced.
pub(crate) fn recorder_of(domain: DomainId, fds: Vec<OwnedFd>) -> Arc<Recorder> {
    let Some(page) = fds.into_iter().next().map(File::from) else { return Recorder::disabled() };
    let Ok(id) = page.metadata().map(|page| (page.dev(), page.ino())) else { return Recorder::disabled() };
    let mut recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    recorders.retain(|(_, recorder)| recorder.strong_count() > 0);
    let known = recorders.iter().find(|(of, _)| *of == id);
    if let Some(recorder) = known.and_then(|(_, recorder)| recorder.upgrade()) {
        return recorder;
    }
    let Some(recorder) = open(&page, domain) else { return Recorder::disabled() };
    recorders.push((id, Arc::downgrade(&recorder)));
    OWN.get_or_init(|| recorder.clone());
    recorder
}

fn open(page: &File, domain: DomainId) -> Option<Arc<Recorder>> {
    memory::check_sealed(page, HEAD_BYTES as u64).ok()?;
    let mut head = vec![0; HEAD_BYTES];
    memory::map(page, 0, HEAD_BYTES).ok()?.copy_out(0, &mut head).ok()?;
    let length_bytes = Head::from_bytes(&head).ok()?.shape.length_bytes();
    memory::check_sealed(page, length_bytes as u64).ok()?;
    let memory = memory::map(page, 0, length_bytes).ok()?;
    Recorder::new(memory, domain.to_bits(), Isa::current().code()).ok()
}

/// Records the start of a child that was requested at `ticks`.
pub(crate) fn spawned(recorder: &Arc<Recorder>, ticks: u64, child: DomainId) {
    if recorder.is_on() {
        recorder.record_at(ticks, NewEvent::of(EventKind::Spawn, child.to_bits(), 0));
    }
}

pub(crate) fn child_ended(recorder: &Arc<Recorder>, child: DomainId) {
    if recorder.is_on() {
        recorder.record(NewEvent::of(EventKind::ChildEnded, child.to_bits(), 0));
    }
}

/// Returns the recorder while a trace is being recorded.
#[inline]
pub(crate) fn active_recorder() -> Option<&'static Arc<Recorder>> {
    OWN.get().filter(|recorder| recorder.is_on())
}
