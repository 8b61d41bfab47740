//! No request exceeds its bound, and the bounds of single items are nearly reached.
//!
//! `cargo xtask bounds` runs it with `--cfg sim`; without that, steps are not counted.
#![cfg(sim)]

use std::collections::BTreeMap;

use tombolo_base::steps::counted;
use tombolo_base::{Random, SharedMemory, Steps};
use tombolo_hub::{
    BatchBuf, Client, CountWord, Description, Hubs, Kind, Limits, Operation, Outcome, Output, Request, Taken,
    bound,
};

const CLIENTS: u64 = 5;
const OFFER_NS: u64 = 1000;

/// Hubs of one kind, and the state of their clients.
struct TestHubs {
    hubs: Hubs,
    random: Random,
    now: u64,
    number: u32,
    waits: Vec<(Client, u32)>,
    offers: BTreeMap<(Client, u32), u32>,
    held: Vec<(Client, u32, u64)>,
    /// Maximum steps of a request for one item.
    max_steps: Steps,
}

impl TestHubs {
    fn new(kind: Kind, capacity: u32, hubs: usize, seed: u64) -> TestHubs {
        let limits = Limits { requests_per_client: 6, offer_ns: OFFER_NS };
        let mut hubs_under_test = TestHubs {
            hubs: Hubs::new(limits),
            random: Random::new(seed),
            now: 0,
            number: 0,
            waits: Vec::new(),
            offers: BTreeMap::new(),
            held: Vec::new(),
            max_steps: Steps::NONE,
        };
        for hub in 0..hubs {
            let inheritance = kind == Kind::Resource && hubs > 1;
            let named = Description::new(&format!("hub{hub}"), kind);
            let description = Description { capacity, inheritance, ..named };
            hubs_under_test.hubs.add(description).expect("it is a good description");
        }
        (0..CLIENTS).for_each(|client| hubs_under_test.hubs.add_client(Client(client), client));
        hubs_under_test
    }

    /// Sends a request, and compares its steps with the bound.
    fn send(&mut self, client: Client, request: &Request<'_>) {
        let limit = self.hubs.bound(client, request);
        let (result, steps) = counted(|| self.hubs.request(&|| self.now, client, request));
        result.expect("the clients keep to the protocol");
        assert!(steps.within(limit), "{request:?}: {steps:?} exceeds {limit:?}");
        if matches!(request.operation, Operation::Put { .. } | Operation::Get) {
            self.max_steps = self.max_steps.max(steps);
        }
        self.collect_outputs();
    }

    fn collect_outputs(&mut self) {
        for output in self.hubs.take_outputs() {
            let Output::Answer(key, outcome) = output else { continue };
            let request_key = (key.client, key.number);
            match &outcome {
                Outcome::Offered(offer) => drop(self.offers.insert(request_key, *offer)),
                Outcome::Revoked => drop(self.offers.remove(&request_key)),
                Outcome::Done(Taken::Block { token, .. }) => {
                    self.held.push((key.client, self.hub_of(key.number), *token));
                }
                _ => {}
            }
            if outcome.is_final() {
                self.offers.remove(&request_key);
                self.waits.retain(|waits| *waits != request_key);
            }
        }
    }

    /// Returns the hub of a request, by its number.
    fn hub_of(&self, number: u32) -> u32 {
        number % self.hubs.len() as u32
    }

    fn step(&mut self, kind: Kind) {
        let client = Client(self.random.below(CLIENTS));
        self.number += 1;
        let (number, hub) = (self.number, self.hub_of(self.number));
        let priority = self.random.below(4) as u8;
        let tentative = self.random.chance(400);
        let timeout_us = if self.random.chance(300) { 0 } else { self.random.below(50) as u32 };
        let request = |operation| Request { number, hub, priority, tentative, timeout_us, operation };
        let value: &[u8] = if kind.has_values() { b"value" } else { &[] };
        let mut batch = BatchBuf::new();
        for _ in 0..1 + self.random.below(8) {
            assert!(batch.push(b"one of several"));
        }
        match self.random.below(100) {
            0..25 if !kind.has_holders() => self.begin(client, &request(Operation::Put { value })),
            0..50 => self.begin(client, &request(Operation::Get)),
            50..65 if kind == Kind::Fifo => {
                let puts = self.random.chance(500);
                let (values, max_values) = (batch.batch().expect("it has values"), batch.count());
                let operation =
                    if puts { Operation::PutMany { values } } else { Operation::GetMany { max_values } };
                self.begin(client, &Request { tentative: false, ..request(operation) });
            }
            50..70 => self.claim(request(Operation::Get)),
            70..78 => {
                let Some((client, number)) = self.random_waiting() else { return };
                self.send(client, &Request { number, ..request(Operation::Withdraw) });
            }
            78..88 if !self.held.is_empty() => {
                let index = self.random.index(self.held.len());
                let (client, hub, token) = self.held.swap_remove(index);
                self.send(client, &Request { hub, ..request(Operation::GiveBack { token }) });
            }
            88 => self.send(client, &request(Operation::Status)),
            89 => self.send(client, &request(Operation::Raise)),
            90 if self.random.chance(20) => self.send(client, &request(Operation::Close)),
            91 => {
                let name = format!("hub{hub}");
                let open = Operation::Open { name: &name, kind: None, value_type: 0 };
                self.send(client, &request(open));
            }
            92 => self.end(client),
            _ => self.tick(),
        }
    }

    fn begin(&mut self, client: Client, request: &Request<'_>) {
        self.waits.push((client, request.number));
        self.send(client, request);
    }

    fn random_waiting(&mut self) -> Option<(Client, u32)> {
        let count = self.waits.len();
        (count > 0).then(|| self.waits[self.random.index(count)])
    }

    /// Claims an offer, and sometimes takes the claim back.
    fn claim(&mut self, request: Request<'_>) {
        let Some(((client, number), offer)) =
            self.offers.first_key_value().map(|(request_key, offer)| (*request_key, *offer))
        else {
            return;
        };
        self.send(client, &Request { number, operation: Operation::Claim { offer }, ..request });
        if self.random.chance(300) {
            self.send(client, &Request { number, operation: Operation::Unclaim { offer }, ..request });
        }
    }

    fn end(&mut self, client: Client) {
        let limit = self.hubs.removal_bound(client);
        let ((), steps) = counted(|| self.hubs.remove_client(self.now, client));
        assert!(steps.within(limit), "the end of a client: {steps:?} exceeds {limit:?}");
        self.waits.retain(|(owner, _)| *owner != client);
        self.offers.retain(|(owner, _), _| *owner != client);
        self.held.retain(|(holder, ..)| *holder != client);
        self.hubs.add_client(client, client.0);
        self.collect_outputs();
    }

    fn tick(&mut self) {
        self.now += self.random.below(30_000);
        let limit = self.hubs.tick_bound();
        let ((), steps) = counted(|| self.hubs.tick(self.now));
        assert!(steps.within(limit), "a tick: {steps:?} exceeds {limit:?}");
        self.collect_outputs();
    }
}

#[test]
fn requests_stay_within_their_bounds_and_nearly_reach_them() {
    for kind in Kind::ALL {
        let mut max_steps = Steps::NONE;
        for seed in 0..200 {
            let capacity = match kind {
                Kind::Port => 0,
                Kind::Event | Kind::Resource => 1,
                _ => 1 + seed as u32 % 4,
            };
            let mut hubs_under_test = TestHubs::new(kind, capacity, 1, seed);
            (0..300).for_each(|_| hubs_under_test.step(kind));
            max_steps = max_steps.max(hubs_under_test.max_steps);
        }
        let limit = bound::operation(kind, 1);
        println!("{kind}: at most {max_steps:?} of {limit:?}");
        // The bound for all kinds includes operations that one kind of hub does not have.
        assert!((max_steps + Steps::of(3, 3)).total() >= limit.total(), "{kind}: {max_steps:?} of {limit:?}");
    }
}

#[test]
fn lent_count_costs_one_memory_operation() {
    let memory = SharedMemory::zeroed(8);
    let count = CountWord::new(&memory.words()[0]);
    count.lend(0);
    for (expected, act) in [(true, true), (false, true), (true, false), (false, false)] {
        let (done, steps) = counted(|| if act { count.put(1) } else { count.get() });
        assert_eq!((done, steps), (expected, bound::LENT_COUNT));
    }
}

#[test]
fn owners_in_chains_stay_within_their_bounds() {
    for seed in 0..200 {
        let mut hubs_under_test = TestHubs::new(Kind::Resource, 1, 3, seed);
        (0..300).for_each(|_| hubs_under_test.step(Kind::Resource));
    }
}

/// A claim may start a chain in which a value makes room for another.
#[test]
fn claim_serves_at_most_all_waiting_requests() {
    let mut hubs = Hubs::new(Limits { requests_per_client: 100, offer_ns: OFFER_NS });
    hubs.add(Description::new("fifo", Kind::Fifo)).expect("it is a good description");
    (0..2).for_each(|client| hubs.add_client(Client(client), client));
    let send = |hubs: &mut Hubs, client, number, tentative, operation| {
        let request = Request { number, hub: 0, priority: 0, tentative, timeout_us: 1_000_000, operation };
        let limit = hubs.bound(Client(client), &request);
        let (result, steps) = counted(|| hubs.request(&|| 0, Client(client), &request));
        result.expect("the client keeps to the protocol");
        assert!(steps.within(limit), "{request:?}: {steps:?} exceeds {limit:?}");
        (hubs.take_outputs().len(), steps, limit)
    };
    send(&mut hubs, 0, 1, true, Operation::Put { value: b"first" });
    for number in 2..=40 {
        send(&mut hubs, 0, number, false, Operation::Put { value: b"next" });
        send(&mut hubs, 1, number, false, Operation::Get);
    }
    let (answers, steps, limit) = send(&mut hubs, 0, 1, false, Operation::Claim { offer: 1 });
    assert_eq!(answers, 79, "the values of all go through the one place");
    assert!(steps.total() * 2 > limit.total(), "{steps:?} of {limit:?}");
}
