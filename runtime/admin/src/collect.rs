//! Reads the traces of domains from outside, into a file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tombolo::{DomainId, Error};
use tombolo_control::MAX_TRACE_READ_BYTES;
use tombolo_trace::file::{self, Chunk, DomainHead, FinalState, NodeHead};
use tombolo_trace::layout::{EVENT_BYTES, HEAD_BYTES, ROW_BYTES};
use tombolo_trace::snapshot::{self, Head, RowInfo};

use crate::Machine;
use crate::trace::TracedInfo;

/// Number of rows per chunk.
const ROWS_TOGETHER: usize = 4096;

/// Interval between reads of a domain's counters. They are needed at the end, when the node may be gone.
const ROWS_EVERY: Duration = Duration::from_millis(100);

/// State of reading a domain.
struct Followed {
    /// Number of the domain in the file.
    number: u32,
    /// Next event of each lane.
    cursors: Vec<u64>,
    /// Bytes of text that have been read.
    text_bytes: usize,
    /// Last known fate of the domain.
    final_state: FinalState,
    /// Counters of its channels at the time of the last read, `rows_at`.
    rows: Vec<RowInfo>,
    rows_at: Instant,
}

/// Error of collecting a trace.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The machine cannot be reached, or refuses a request.
    #[error(transparent)]
    Machine(#[from] Error),
    /// The file cannot be written.
    #[error("the trace cannot be written: {0}")]
    Write(#[source] io::Error),
}

/// Reads the traces of a machine's domains into a trace file, while they run or after tracing was stopped.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tombolo_admin::Machine;
/// use tombolo_admin::trace::{Collector, Recording};
///
/// let machine = Machine::of(&tombolo::Domain::attach()?);
/// let mut collector = Collector::new(&machine, std::fs::File::create("job.tbt")?)?;
/// machine.start_trace(Recording { keep_first: false, while_attached: true })?;
/// // For as long as is wanted, again and again:
/// collector.collect()?;
/// machine.stop_trace()?;
/// while collector.collect()? > 0 {}
/// println!("{} events", collector.finish()?.events);
/// machine.stop_trace()?;
/// # Ok(())
/// # }
/// ```
pub struct Collector<W: Write> {
    machine: Machine,
    out: W,
    chunks: u64,
    followed: BTreeMap<DomainId, Followed>,
    /// Whether the machine was tracing at the last read.
    on: bool,
    /// Number of domains that were lost with their node while they were followed.
    lost: usize,
    /// Number of events written.
    events: u64,
    /// Number of events known to be missing.
    missed: u64,
}

impl<W: Write> Collector<W> {
    fn of(machine: &Machine, out: W) -> Self {
        let followed = BTreeMap::new();
        Collector {
            machine: machine.clone(),
            out,
            chunks: 0,
            followed,
            on: false,
            lost: 0,
            events: 0,
            missed: 0,
        }
    }

    /// Starts a trace file and writes its header.
    ///
    /// # Errors
    /// [`CollectError`].
    pub fn new(machine: &Machine, out: W) -> Result<Self, CollectError> {
        let mut collector = Self::of(machine, out);
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = file::header(u64::try_from(created.as_nanos()).unwrap_or(0));
        collector.write_bytes(&header)?;
        let nodes = machine.domain().nodes()?;
        let nodes = nodes
            .into_iter()
            .map(|node| NodeHead {
                id: node.id.0,
                name: node.name,
                kind: node.kind.name().to_owned(),
                isa: node.isa.name().to_owned(),
            })
            .collect();
        let name = machine.domain().machine_name().to_owned();
        collector.write(&Chunk::Machine { name, nodes })?;
        Ok(collector)
    }

    /// Whether the machine was tracing at the last read.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Number of events that were collected.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), CollectError> {
        self.out.write_all(bytes).map_err(CollectError::Write)
    }

    fn write(&mut self, chunk: &Chunk) -> Result<(), CollectError> {
        self.chunks += 1;
        self.write_bytes(&chunk.to_bytes())
    }

    /// Reads a part of a page; `None` if it is gone, for example with its node.
    fn read(&self, id: DomainId, offset: usize, length: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let wanted = (length - bytes.len()).min(MAX_TRACE_READ_BYTES as usize) as u32;
            match self.machine.read_trace(id, (offset + bytes.len()) as u64, wanted) {
                Ok(piece) if piece.is_empty() => return Ok(None),
                Ok(piece) => bytes.extend(piece),
                Err(Error::Monitor(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(bytes))
    }

    fn head(&self, id: DomainId) -> Result<Option<Head>, Error> {
        let bytes = self.read(id, 0, HEAD_BYTES)?;
        // A domain that overwrote its own head is not traced.
        Ok(bytes.and_then(|bytes| Head::from_bytes(&bytes).ok()))
    }

    /// Reads new events; returns their number.
    ///
    /// # Errors
    /// [`CollectError`].
    pub fn collect(&mut self) -> Result<u64, CollectError> {
        let before = self.events;
        let traced = self.machine.traced()?;
        self.on = traced.on;
        for info in &traced.domains {
            if info.id != self.machine.domain().id() {
                self.follow(info)?;
            }
        }
        // A domain that dies leaves its page, unless the node is lost as well.
        let gone = |id: &DomainId| traced.domains.binary_search_by_key(id, |info| info.id).is_err();
        for (_, followed) in self.followed.iter_mut().filter(|(id, of)| of.final_state.alive && gone(id)) {
            followed.final_state.alive = false;
            self.lost += 1;
        }
        Ok(self.events - before)
    }

    /// Flushes the collected data to the file.
    ///
    /// # Errors
    /// [`CollectError::Write`].
    pub fn flush(&mut self) -> Result<(), CollectError> {
        self.out.flush().map_err(CollectError::Write)
    }

    fn follow(&mut self, info: &TracedInfo) -> Result<(), CollectError> {
        let Some(head) = self.head(info.id)? else { return Ok(()) };
        if !self.followed.contains_key(&info.id) {
            // A domain that has started and not initialized its page yet will be followed by a later call.
            if head.identity.domain != info.id.to_bits() {
                return Ok(());
            }
            let number = self.followed.len() as u32;
            let (node, program) = (info.node.clone(), info.program.clone());
            self.write(&Chunk::Domain(DomainHead { identity: head.identity, node, program }))?;
            let cursors = vec![0; head.shape.lanes];
            let final_state = FinalState::default();
            let (rows, rows_at) = (self.rows(info.id)?, Instant::now());
            let followed = Followed { number, cursors, text_bytes: 0, final_state, rows, rows_at };
            self.followed.insert(info.id, followed);
        }
        self.take_texts(info.id, &head)?;
        for lane in 0..head.lanes.len() {
            self.take_lane(info.id, &head, lane)?;
        }
        let late = self.followed.get(&info.id).is_some_and(|of| of.rows_at.elapsed() >= ROWS_EVERY);
        let rows = if late { Some(self.rows(info.id)?) } else { None };
        if let Some(followed) = self.followed.get_mut(&info.id) {
            if let Some(rows) = rows.filter(|rows| !rows.is_empty()) {
                followed.rows = rows;
                followed.rows_at = Instant::now();
            }
            followed.final_state = FinalState { alive: info.alive, losses: head.losses };
        }
        Ok(())
    }

    fn take_texts(&mut self, id: DomainId, head: &Head) -> Result<(), CollectError> {
        let Some(followed) = self.followed.get(&id) else { return Ok(()) };
        let (number, from, to) = (followed.number, followed.text_bytes, head.text_used_bytes);
        if to <= from {
            return Ok(());
        }
        let Some(bytes) = self.read(id, head.shape.text_offset() + from, to - from)? else { return Ok(()) };
        let moved = |(name, text)| (name + from as u64 / 8, text);
        let texts = snapshot::texts(&bytes).into_iter().map(moved).collect();
        self.write(&Chunk::Texts { domain: number, texts })?;
        if let Some(followed) = self.followed.get_mut(&id) {
            followed.text_bytes = to;
        }
        Ok(())
    }

    /// Reads the new events of a lane, piece by piece. Events overwritten meanwhile are counted as missing.
    fn take_lane(&mut self, id: DomainId, head: &Head, lane: usize) -> Result<(), CollectError> {
        let Some(followed) = self.followed.get(&id) else { return Ok(()) };
        let (number, cursor) = (followed.number, followed.cursors.get(lane).copied().unwrap_or(0));
        let readable = head.readable(lane, cursor);
        let end = readable.first + readable.count;
        let mut missed = readable.missed;
        let mut next = readable.first;
        while next < end {
            let (offset, count) = head.contiguous(lane, next, end - next, MAX_TRACE_READ_BYTES as usize);
            let Some(bytes) = self.read(id, offset, count * EVENT_BYTES)? else { break };
            let now = self.head(id)?.map_or(next, |now| now.first_complete(lane));
            let overwritten = now.saturating_sub(next).min(count as u64) as usize;
            let (events, invalid_events) = snapshot::events(&bytes[overwritten * EVENT_BYTES..]);
            missed += overwritten as u64 + invalid_events;
            next += count as u64;
            self.events += events.len() as u64;
            self.missed += missed;
            self.write(&Chunk::Events { domain: number, lane: lane as u32, missed, events })?;
            missed = 0;
        }
        if let Some(cursor) = self.followed.get_mut(&id).and_then(|followed| followed.cursors.get_mut(lane)) {
            *cursor = next.max(*cursor);
        }
        Ok(())
    }

    /// Reads the counters of a domain's channels.
    fn rows(&self, id: DomainId) -> Result<Vec<RowInfo>, Error> {
        let Some(head) = self.head(id)? else { return Ok(Vec::new()) };
        let bytes = self.read(id, head.shape.rows_offset(), head.rows_used * ROW_BYTES)?;
        Ok(snapshot::rows(&bytes.unwrap_or_default()))
    }

    /// Finishes the file: writes counters, the fate of each domain, and the end mark.
    ///
    /// # Errors
    /// [`CollectError`].
    pub fn finish(mut self) -> Result<Summary, CollectError> {
        let ends: Vec<(DomainId, u32, FinalState)> =
            self.followed.iter().map(|(id, followed)| (*id, followed.number, followed.final_state)).collect();
        for (id, domain, final_state) in ends {
            let mut rows = self.rows(id)?;
            if rows.is_empty() {
                // Its node is lost: use the counters of the last read.
                rows = self.followed.get_mut(&id).map(|of| std::mem::take(&mut of.rows)).unwrap_or_default();
            }
            for rows in rows.chunks(ROWS_TOGETHER) {
                self.write(&Chunk::Rows { domain, rows: rows.to_vec() })?;
            }
            self.write(&Chunk::FinalState { domain, final_state })?;
            self.missed += final_state.losses.events_without_lane;
        }
        let chunks = self.chunks;
        self.write(&Chunk::End { chunks })?;
        self.flush()?;
        let (domains, lost) = (self.followed.len(), self.lost);
        Ok(Summary { events: self.events, missed: self.missed, domains, lost })
    }
}

/// Contents of a trace file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Number of events.
    pub events: u64,
    /// Number of events known to be missing: they were overwritten before they were read.
    pub missed: u64,
    /// Number of domains.
    pub domains: usize,
    /// Number of these domains whose last events were lost with their node.
    pub lost: usize,
}

impl Machine {
    /// Returns the counters of every end of a channel of the machine, with its domain.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn channel_rows(&self) -> Result<Vec<(TracedInfo, Vec<RowInfo>)>, Error> {
        let reader = Collector::of(self, io::sink());
        let traced = self.traced()?.domains.into_iter().filter(|info| info.id != self.domain().id());
        traced.map(|info| Ok((info.clone(), reader.rows(info.id)?))).collect()
    }
}
