//! Hub functions for jobs whose memory is sent in pages.

use std::sync::OnceLock;
use std::time::Duration;

use tombolo::Error;
use tombolo_omp_team::job::report::{self, Memory};

use super::{Hub, ProcessState};
use crate::fatal;
use crate::memory::Mapped;
use crate::node_selection::MemoryKind;
use crate::paged_memory::PagedRanges;

impl Hub {
    /// Admits a process that connects for pages. If it ends meanwhile, the machine reports that.
    pub(super) fn accept_page_channel(&mut self) {
        let (Some((_, listener)), Some(sent)) = (&self.pages_listener, self.mapped.paged_ranges()) else {
            return;
        };
        let channel = match listener.within(Duration::ZERO).accept() {
            Ok(channel) => channel,
            Err(Error::TimedOut { .. } | Error::Refused { .. }) => return,
            Err(error) => fatal(format_args!("no worker can connect any more: {error}")),
        };
        let node = channel.peer_node().to_owned();
        let wanted = |number: u32, peer| {
            let process = (number as usize).checked_sub(1).and_then(|index| self.processes.get(index));
            process.is_some_and(|process| {
                process.child.id() == peer && matches!(process.state, ProcessState::Joining { .. })
            })
        };
        match sent.admit(channel, wanted) {
            Ok(()) | Err(tombolo_pages::Error::Tombolo(_)) => {}
            Err(error) => fatal(format_args!("node {node} cannot have pages of the job: {error}")),
        }
    }
}

/// Memory of the job, for its report.
static MEMORY_SOURCE: OnceLock<(MemoryKind, Option<PagedRanges>)> = OnceLock::new();

/// Registers the source of the report's data about the job's memory.
pub(super) fn set_report_source(memory: &MemoryKind, mapped: &Mapped) {
    let _ = MEMORY_SOURCE.set((memory.clone(), mapped.paged_ranges().copied()));
    report::set_memory_source(|| match MEMORY_SOURCE.get() {
        Some((_, Some(ranges))) => Memory::Pages(ranges.faults()),
        Some((MemoryKind::Window { node, .. }, _)) => Memory::Window(node.clone()),
        _ => Memory::Kernel,
    });
}
