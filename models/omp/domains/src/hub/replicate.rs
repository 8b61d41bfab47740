//! Replication of read-only data on nodes behind a window.

use super::{FromHub, Hub, Kernel, ProcessState};
use crate::request::{Request, RequestKind};
use crate::{calls, replica};

/// Replicated ranges, and requests in flight.
#[derive(Default)]
pub(super) struct Replicas {
    /// Replicated ranges, applied to processes that start later.
    ranges: Vec<(u64, u64)>,
    /// Requests in flight, each with the number of processes that have not replied yet.
    waiting: Vec<(u64, usize)>,
}

impl Hub {
    /// Returns whether processes of a node access shared memory through a window.
    fn is_behind_window(&self, node: usize) -> bool {
        // Pages that are sent are in the node's own memory already, while they are only read.
        self.mapped.paged_ranges().is_none() && matches!(self.job_nodes[node].kernel, Kernel::Virtual(_))
    }

    /// Executes the request of a thread.
    pub(super) fn handle_request(&mut self, address: u64) {
        // SAFETY: the address comes from a thread of the job or from a worker, which is trusted like one; a
        // request stays allocated until it is completed.
        let Some(request) = (unsafe { (address as *const Request).as_ref() }) else { return };
        match request.kind() {
            Some(RequestKind::Replicate) => self.replicate(request, false),
            Some(RequestKind::Restore) => self.replicate(request, true),
            Some(RequestKind::Call) => self.call(request),
            None => request.complete(libc_errors::INVALID),
        }
    }

    /// Forwards a call to the process that is to make it.
    fn call(&mut self, request: &'static Request) {
        let [_, _, process, _] = request.words;
        let Some(index) = usize::try_from(process).unwrap_or(usize::MAX).checked_sub(1) else {
            return calls::serve(request);
        };
        match self.processes.get(index).map(|process| &process.state) {
            Some(ProcessState::Ready { .. }) => {
                self.send_to(index, FromHub::Call { request: std::ptr::from_ref(request) as u64 });
            }
            Some(_) | None => request.complete(libc_errors::NO_PROCESS),
        }
    }

    /// Replicates data, or shares it again, in all processes behind a window.
    fn replicate(&mut self, request: &Request, restore: bool) {
        let [begin, bytes, ..] = request.words;
        let layout = self.mapped.layout();
        let last = begin.checked_add(bytes.max(1) - 1);
        let ends = (layout.offset_of(begin), last.and_then(|last| layout.offset_of(last)));
        let (Some(first), Some(last)) = ends else { return request.complete(libc_errors::INVALID) };
        if last.wrapping_sub(first) != bytes.max(1) - 1 {
            return request.complete(libc_errors::INVALID);
        }
        self.replicas.ranges = subtract_range(&self.replicas.ranges, (begin, begin + bytes));
        if !restore {
            self.replicas.ranges.push((begin, begin + bytes));
        }
        if self.is_behind_window(0) {
            request.set_error(replica::apply(&self.mapped, begin, bytes, restore).into());
        }
        let is_affected = |hub: &Self, index: usize| {
            let process = &hub.processes[index];
            matches!(process.state, ProcessState::Ready { .. }) && hub.is_behind_window(process.node)
        };
        let all: Vec<usize> = (0..self.processes.len()).filter(|&index| is_affected(self, index)).collect();
        if all.is_empty() {
            return request.complete(0);
        }
        let address = std::ptr::from_ref(request) as u64;
        self.replicas.waiting.push((address, all.len()));
        for index in all {
            self.send_to(index, FromHub::Replicate { request: address, begin, bytes, restore });
        }
    }

    /// Handles the reply of a process; the last one completes the request.
    pub(super) fn handle_replicated(&mut self, address: u64, error: u64) {
        let waiting = &mut self.replicas.waiting;
        let Some(index) = waiting.iter().position(|(waits, _)| *waits == address) else { return };
        // SAFETY: a request stays allocated until it is completed, which happens below.
        let Some(request) = (unsafe { (address as *const Request).as_ref() }) else { return };
        request.set_error(error);
        waiting[index].1 -= 1;
        if waiting[index].1 == 0 {
            waiting.swap_remove(index);
            request.complete(0);
        }
    }

    /// Replicates the current ranges in a process that has just become ready.
    pub(super) fn send_replicas_to(&mut self, index: usize) {
        if !self.is_behind_window(self.processes[index].node) {
            return;
        }
        for (begin, end) in self.replicas.ranges.clone() {
            let message = FromHub::Replicate { request: 0, begin, bytes: end - begin, restore: false };
            self.send_to(index, message);
        }
    }
}

/// Errno values that the program gets.
mod libc_errors {
    /// `EINVAL`.
    pub(super) const INVALID: u64 = 22;
    /// `ESRCH`.
    pub(super) const NO_PROCESS: u64 = 3;
}

/// Subtracts a range from a list of ranges.
fn subtract_range(ranges: &[(u64, u64)], (begin, end): (u64, u64)) -> Vec<(u64, u64)> {
    let parts = ranges.iter().flat_map(|&(first, last)| [(first, last.min(begin)), (first.max(end), last)]);
    parts.filter(|(first, last)| first < last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_range_is_removed_from_replicas() {
        let ranges = [(10, 20), (30, 40)];
        assert_eq!(subtract_range(&ranges, (15, 35)), [(10, 15), (35, 40)]);
        assert_eq!(subtract_range(&ranges, (12, 14)), [(10, 12), (14, 20), (30, 40)]);
        assert_eq!(subtract_range(&ranges, (0, 50)), []);
        assert_eq!(subtract_range(&ranges, (20, 30)), ranges);
    }
}
