//! The memory that domains trace to. It is made and kept here, so that it outlives the domain: what a domain
//! did just before it was killed can be read.

use std::os::fd::OwnedFd;

use tombolo_base::{DomainId, SharedMemory};
use tombolo_control::MAX_TRACE_READ_BYTES;
use tombolo_platform::error::Context;
use tombolo_platform::{OsError, memory};
use tombolo_trace::layout::{HEAD_BYTES, ROW_BYTES};
use tombolo_trace::{Shape, page};

use super::Agent;

/// A domain's page. Nothing that is read of it is believed: the domain can write all of it.
#[derive(Debug)]
pub(super) struct TracePage {
    file: OwnedFd,
    /// The part with the control word. The rest is read through the file, so as not to be mapped.
    head: SharedMemory,
}

impl TracePage {
    pub(super) fn create(word: u64) -> Result<TracePage, OsError> {
        let shape = Shape::default();
        let file = memory::create_sealed("tombolo-trace", shape.length_bytes() as u64)?;
        let head = memory::map(&file, 0, HEAD_BYTES)?;
        page::format(&head, &shape);
        page::control(&head, word);
        Ok(TracePage { file, head })
    }
}

impl TracePage {
    /// All of it, as its domain has it.
    #[cfg(test)]
    pub(super) fn map_to_write(&self) -> SharedMemory {
        memory::map(&self.file, 0, Shape::default().length_bytes()).expect("it is as long as that")
    }

    /// How many rows are or were in use, as the domain says; never more than there are.
    pub(super) fn rows_in_use(&self) -> usize {
        page::rows_in_use(&self.head, &Shape::default())
    }

    /// Copies rows from `first` on to `rows`; how many bytes of them there are.
    pub(super) fn read_rows(&self, first: usize, rows: &mut [u8]) -> usize {
        let offset_bytes = Shape::default().rows_offset() + first * ROW_BYTES;
        // Of memory it comes whole. What is not read is not compared.
        rustix::io::pread(&self.file, rows, offset_bytes as u64).unwrap_or(0)
    }
}

impl Agent {
    /// Returns the page of a domain, which a second connection of it shares.
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
            page::control(&trace.head, word);
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
