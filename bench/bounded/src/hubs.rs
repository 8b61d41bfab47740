//! Requests to hubs, by the state machine that serves them.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use tombolo_hub::{BatchBuf, Client, Description, Hubs, Kind, Limits, Operation, Request, bound};

use crate::measure::{Clock, Row};

const VALUE: [u8; 64] = [7; 64];

/// Values of a request that has several.
const SEVERAL: u32 = 16;

/// One hub, and two clients that use it by turns.
struct Pair {
    hubs: Hubs,
    number: u32,
}

impl Pair {
    fn new(kind: Kind, capacity: u32) -> Option<Pair> {
        let mut hubs = Hubs::new(Limits::default());
        hubs.add(Description { capacity, ..Description::new("hub", kind) }).ok()?;
        (0..2).for_each(|client| hubs.add_client(Client(client), client));
        Some(Pair { hubs, number: 0 })
    }

    /// A request of one of the clients; how many answers it brought.
    fn ask(&mut self, client: u64, operation: Operation<'_>) -> usize {
        self.number = self.number.wrapping_add(1);
        let (number, timeout_us) = (self.number, 1_000_000);
        let request = Request { number, hub: 0, priority: 0, tentative: false, timeout_us, operation };
        let asked = self.hubs.request(&|| 0, Client(client), &request);
        asked.map_or(0, |()| self.hubs.take_outputs().len())
    }

    fn put(&mut self, value: &[u8]) -> usize {
        self.ask(0, Operation::Put { value })
    }

    fn get(&mut self) -> usize {
        self.ask(1, Operation::Get)
    }
}

/// Measures requests that find what they need, and one at a port where another waits.
pub(crate) fn rows(clock: &Clock) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(mut pair) = Pair::new(Kind::Semaphore, 4) {
        let steps = bound::operation(Kind::Semaphore, 1);
        let (signal, wait) = (|pair: &mut Pair| pair.put(&[]), Pair::get);
        rows.push(clock.row_of_tables("hub: signal a semaphore", steps, &mut pair, (signal, wait)));
        rows.push(clock.row_of_tables("hub: wait for a semaphore", steps, &mut pair, (wait, signal)));
    }
    let put = |pair: &mut Pair| pair.put(&VALUE);
    if let Some(mut pair) = Pair::new(Kind::Fifo, 64) {
        let steps = bound::operation(Kind::Fifo, 1);
        rows.push(clock.row_of_tables("hub: put 64 B", steps, &mut pair, (put, Pair::get)));
        rows.push(clock.row_of_tables("hub: get 64 B", steps, &mut pair, (Pair::get, put)));
    }
    rows.extend(several(clock));
    if let Some(mut pair) = Pair::new(Kind::Port, 0) {
        let steps = bound::operation(Kind::Port, 1);
        rows.push(clock.row_of_tables("hub: meet at a port", steps, &mut pair, (Pair::get, put)));
    }
    rows
}

fn several(clock: &Clock) -> Option<Row> {
    let mut batch = BatchBuf::new();
    let fits = (0..SEVERAL).all(|_| batch.push(&VALUE));
    let values = batch.batch().filter(|_| fits)?;
    let mut pair = Pair::new(Kind::Fifo, 64)?;
    let put = |pair: &mut Pair| pair.ask(0, Operation::PutMany { values });
    let get = |pair: &mut Pair| pair.ask(1, Operation::GetMany { max_values: SEVERAL });
    let steps = bound::operation(Kind::Fifo, SEVERAL.into());
    Some(clock.row_of_tables("hub: put 16 of 64 B", steps, &mut pair, (put, get)))
}
