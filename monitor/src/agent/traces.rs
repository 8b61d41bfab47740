//! Memory that domains trace to. It is created and kept here, so that it outlives the domain: the last events
//! before its death can be read.

use std::os::fd::OwnedFd;

use tombolo_base::{DomainId, SharedMemory};
use tombolo_control::MAX_TRACE_READ_BYTES;
use tombolo_platform::error::Context;
use tombolo_platform::{OsError, memory};
use tombolo_trace::layout::{HEAD_BYTES, ROW_BYTES};
use tombolo_trace::{Shape, page};

use super::Agent;

/// Trace page of a domain. Its content is untrusted: the domain can write all of it.
#[derive(Debug)]
pub(super) struct TracePage {
    file: OwnedFd,
    /// Mapping of the part with the control word. The rest is read through the file instead of a mapping.
    head: SharedMemory,
}

impl TracePage {
    pub(super) fn create(word: u64) -> Result<TracePage, OsError> {
        let shape = Shape::default();
        let file = memory::create_sealed("tombolo-trace", shape.length_bytes() as u64)?;
        let head = memory::map(&file, 0, HEAD_BYTES)?;
        page::init_page(&head, &shape);
        page::set_control(&head, word);
        Ok(TracePage { file, head })
    }
}

impl TracePage {
    /// Maps the whole page, as its domain does.
    #[cfg(test)]
    pub(super) fn map_to_write(&self) -> SharedMemory {
        memory::map(&self.file, 0, Shape::default().length_bytes()).expect("it is as long as that")
    }

    /// Returns the number of rows that are or were in use according to the domain, clamped to the maximum.
    pub(super) fn rows_in_use(&self) -> usize {
        page::rows_in_use(&self.head, &Shape::default())
    }

    /// Copies rows from `first` on to `rows`. Returns the number of bytes.
    pub(super) fn read_rows(&self, first: usize, rows: &mut [u8]) -> usize {
        let offset_bytes = Shape::default().rows_offset() + first * ROW_BYTES;
        // A memory file is read in one call. Unread bytes are not compared.
        rustix::io::pread(&self.file, rows, offset_bytes as u64).unwrap_or(0)
    }
}

impl Agent {
    /// Returns the page of a domain; a second connection of the domain shares it.
    pub(super) fn trace_page(&mut self, domain: DomainId) -> Result<OwnedFd, OsError> {
        if !self.traces.contains_key(&domain) {
            self.traces.insert(domain, TracePage::create(self.trace_word)?);
        }
        let file = &self.traces[&domain].file;
        file.try_clone().context("copy a descriptor")
    }

    /// Starts or stops tracing on this node.
    pub(super) fn trace(&mut self, word: u64) {
        self.trace_word = word;
        for trace in self.traces.values() {
            page::set_control(&trace.head, word);
        }
    }

    pub(super) fn read_trace(&mut self, ticket: u64, domain: DomainId, offset_bytes: u64, length_bytes: u32) {
        let bytes = self.traces.get(&domain).and_then(|trace| {
            let mut bytes = vec![0; length_bytes.min(MAX_TRACE_READ_BYTES) as usize];
            let mut filled = 0;
            while filled < bytes.len() {
                match rustix::io::pread(&trace.file, &mut bytes[filled..], offset_bytes + filled as u64) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return None,
                }
            }
            bytes.truncate(filled);
            Some(bytes)
        });
        self.core.trace_read(ticket, bytes);
    }

    pub(super) fn forget_trace(&mut self, domain: DomainId) {
        self.traces.remove(&domain);
    }
}
