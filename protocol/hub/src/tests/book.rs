//! Random requests, compared with a simple model of what was sent, taken and held.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Node, hub, request};
use crate::{BatchBuf, Kind, Operation, Outcome, Request, Taken};

#[derive(Clone, Debug)]
enum Step {
    Put {
        client: u64,
        priority: u8,
        tentative: bool,
        timeout_us: u32,
    },
    Get {
        client: u64,
        priority: u8,
        tentative: bool,
        timeout_us: u32,
    },
    PutMany {
        client: u64,
        priority: u8,
        count: usize,
        timeout_us: u32,
    },
    GetMany {
        client: u64,
        priority: u8,
        max_values: u32,
        timeout_us: u32,
    },
    /// Claims or withdraws one of the client's offers.
    Claim {
        client: u64,
        which: usize,
    },
    Withdraw {
        client: u64,
        which: usize,
    },
    GiveBack {
        client: u64,
    },
    Close,
    Die {
        client: u64,
    },
    Pass {
        nanos: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let asked = || (1..=4_u64, 0..3_u8, any::<bool>(), prop_oneof![Just(0_u32), Just(3), Just(1000)]);
    let many = || (1..=4_u64, 0..3_u8, 1..5_usize, prop_oneof![Just(0_u32), Just(3), Just(1000)]);
    let which = || (1..=4_u64, 0..4_usize);
    let step = prop_oneof![
        6 => asked().prop_map(|(client, priority, tentative, timeout_us)| Step::Put { client, priority, tentative, timeout_us }),
        6 => asked().prop_map(|(client, priority, tentative, timeout_us)| Step::Get { client, priority, tentative, timeout_us }),
        4 => many().prop_map(|(client, priority, count, timeout_us)| Step::PutMany { client, priority, count, timeout_us }),
        4 => many().prop_map(|(client, priority, max_values, timeout_us)| Step::GetMany { client, priority, max_values: max_values as u32, timeout_us }),
        6 => which().prop_map(|(client, which)| Step::Claim { client, which }),
        3 => which().prop_map(|(client, which)| Step::Withdraw { client, which }),
        3 => (1..=4_u64).prop_map(|client| Step::GiveBack { client }),
        1 => Just(Step::Close),
        1 => (1..=4_u64).prop_map(|client| Step::Die { client }),
        2 => (0..5000_u64).prop_map(|nanos| Step::Pass { nanos }),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Model of the state, from the clients' point of view.
#[derive(Default)]
struct Model {
    /// Waiting requests by client and number, with the values to be put.
    waits: BTreeMap<(u64, u32), Vec<u16>>,
    offers: BTreeMap<(u64, u32), u32>,
    /// Values that were accepted and not taken, by sender, in order of acceptance.
    sent: BTreeMap<u16, u64>,
    received: BTreeSet<u16>,
    /// Acceptance in order, for a fifo.
    order: VecDeque<u16>,
    units: i64,
    /// Tokens by holder.
    held: BTreeMap<u64, u64>,
    last_token: u64,
    dead: BTreeSet<u64>,
    /// Values of dead clients that waited to be put with others, and that may have been put.
    unknown: BTreeSet<u16>,
}

fn number_of(value: &[u8]) -> u16 {
    value.try_into().map_or(u16::MAX, u16::from_le_bytes)
}

impl Model {
    fn accept(&mut self, client: u64, values: &[u16]) -> Result<(), TestCaseError> {
        for value in values {
            prop_assert!(self.sent.insert(*value, client).is_none());
            self.order.push_back(*value);
        }
        Ok(())
    }

    fn receive(&mut self, value: &[u8]) -> Result<(), TestCaseError> {
        prop_assert!(self.received.insert(number_of(value)), "a value is delivered once");
        Ok(())
    }

    fn check_answers(&mut self, kind: Kind, answers: Vec<(u64, u32, Outcome)>) -> Result<(), TestCaseError> {
        // A rendezvous is reported to the receiver first; acceptance determines the order of a fifo.
        for (client, number, outcome) in answers {
            prop_assert!(!self.dead.contains(&client), "the dead hear nothing");
            let key = (client, number);
            if let Outcome::Offered(offer) = outcome {
                prop_assert!(self.waits.contains_key(&key));
                prop_assert!(self.offers.insert(key, offer).is_none(), "one offer at a time");
                continue;
            }
            if outcome == Outcome::Revoked {
                prop_assert!(self.offers.remove(&key).is_some());
                continue;
            }
            let Some(waited) = self.waits.remove(&key) else {
                prop_assert!(number >= 10_000, "an answer to a request that does not wait: {key:?}");
                if outcome == Outcome::Done(Taken::Put) {
                    self.held
                        .retain(|token, holder| !(*holder == client && *token == u64::from(number - 10_000)));
                }
                continue;
            };
            self.offers.remove(&key);
            match outcome {
                Outcome::Done(Taken::Put) => {
                    self.units += 1;
                    if kind.has_values() {
                        self.accept(client, &waited)?;
                    }
                }
                Outcome::Partial { put, .. } => {
                    prop_assert!((put as usize) < waited.len());
                    self.accept(client, &waited[..put as usize])?;
                }
                Outcome::Done(Taken::Value(value)) => self.receive(&value)?,
                Outcome::Done(Taken::Values(values)) => {
                    prop_assert!(values.count() > 0);
                    values.iter().try_for_each(|value| self.receive(value))?;
                }
                Outcome::Done(Taken::Unit) => self.units -= 1,
                Outcome::Done(Taken::Block { token, .. }) => {
                    prop_assert!(token > self.last_token, "tokens increase");
                    self.last_token = token;
                    self.held.insert(token, client);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn run(kind: Kind, capacity: u32, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut node = Node::new(&[hub(kind, capacity)]);
    let mut model = Model::default();
    let (mut number, mut values) = (0, 0_u16);
    for step in steps {
        match *step {
            Step::Put { client, priority, tentative, timeout_us }
            | Step::Get { client, priority, tentative, timeout_us } => {
                let puts = matches!(step, Step::Put { .. });
                if model.dead.contains(&client) || (puts && kind.has_holders()) {
                    continue;
                }
                number += 1;
                values += 1;
                let value = values.to_le_bytes();
                let bytes: &[u8] = if kind.has_values() { &value } else { &[] };
                let operation = if puts { Operation::Put { value: bytes } } else { Operation::Get };
                model.waits.insert((client, number), if puts { vec![values] } else { vec![] });
                node.send(
                    client,
                    Request { priority, tentative, timeout_us, ..request(number, 0, operation) },
                );
            }
            Step::PutMany { client, priority, timeout_us, .. }
            | Step::GetMany { client, priority, timeout_us, .. } => {
                if model.dead.contains(&client) {
                    continue;
                }
                number += 1;
                let mut batch = BatchBuf::new();
                let (mut sent, mut operation) = (Vec::new(), None);
                match step {
                    Step::GetMany { max_values, .. } => {
                        operation = Some(Operation::GetMany { max_values: *max_values });
                    }
                    Step::PutMany { count, .. } => sent.extend(values + 1..=values + *count as u16),
                    _ => {}
                }
                values += sent.len() as u16;
                sent.iter().for_each(|value| assert!(batch.push(&value.to_le_bytes())));
                let put = batch.batch().map(|values| Operation::PutMany { values });
                let Some(operation) = operation.or(put) else { continue };
                model.waits.insert((client, number), sent);
                node.send(client, Request { priority, timeout_us, ..request(number, 0, operation) });
            }
            Step::Claim { client, which } => {
                let mut own_requests = model.offers.iter().filter(|((owner, _), _)| *owner == client);
                if let Some(((_, number), offer)) = own_requests.nth(which) {
                    node.send(client, request(*number, 0, Operation::Claim { offer: *offer }));
                }
            }
            Step::Withdraw { client, which } => {
                let mut own_requests = model.waits.keys().filter(|(owner, _)| *owner == client);
                if let Some((_, number)) = own_requests.nth(which) {
                    node.send(client, request(*number, 0, Operation::Withdraw));
                }
            }
            Step::GiveBack { client } => {
                if let Some((token, _)) = model.held.iter().find(|(_, holder)| **holder == client) {
                    let (token, number) = (*token, 10_000 + *token as u32);
                    node.send(client, request(number, 0, Operation::GiveBack { token }));
                }
            }
            Step::Close => node.send(4, request(20_000, 0, Operation::Close)),
            Step::Die { client } if client != 4 => {
                model.dead.insert(client);
                let ended =
                    model.waits.iter().filter(|((owner, _), values)| *owner == client && values.len() > 1);
                model.unknown.extend(ended.flat_map(|(_, values)| values));
                model.waits.retain(|(owner, _), _| *owner != client);
                model.offers.retain(|(owner, _), _| *owner != client);
                model.held.retain(|_, holder| *holder != client);
                node.end(client);
            }
            Step::Die { .. } => {}
            Step::Pass { nanos } => node.advance_clock(nanos),
        }
        let answers = node.take_answers();
        model.check_answers(kind, answers)?;
        prop_assert!(model.held.len() <= capacity as usize || kind.has_values() || !kind.has_holders());
        prop_assert_eq!(
            node.hubs.resource_counts()[1].1,
            model.waits.len(),
            "what waits is what was not answered"
        );
    }
    let batches = steps.iter().any(|step| matches!(step, Step::PutMany { .. }));
    check_end((kind, capacity), batches, &mut node, &mut model)
}

fn check_end(
    (kind, capacity): (Kind, u32),
    batches: bool,
    node: &mut Node,
    model: &mut Model,
) -> Result<(), TestCaseError> {
    // All waiting requests time out, and the remaining values can be taken by a live client.
    node.advance_clock(1_000_000_000);
    model.check_answers(kind, node.take_answers())?;
    prop_assert!(model.waits.is_empty() && model.offers.is_empty());
    prop_assert_eq!(
        node.hubs.resource_counts()[2].1
            + node.hubs.resource_counts()[3].1
            + node.hubs.resource_counts()[5].1,
        0
    );
    let mut left = Vec::new();
    for number in 30_000.. {
        node.send(4, Request { timeout_us: 0, ..request(number, 0, Operation::Get) });
        match node.take_answers().pop() {
            Some((.., Outcome::Done(Taken::Value(value)))) => left.push(number_of(&value)),
            Some((.., Outcome::Done(Taken::Unit))) => model.units -= 1,
            Some((.., Outcome::Done(Taken::Block { token, .. }))) => drop(model.held.insert(token, 4)),
            _ => break,
        }
    }
    if kind.has_values() {
        let undelivered: Vec<u16> =
            model.order.iter().copied().filter(|value| !model.received.contains(value)).collect();
        let known = |value: &&u16| !model.unknown.contains(value);
        prop_assert!(model.received.iter().filter(known).all(|value| model.sent.contains_key(value)));
        if batches {
            // Values of a batch are put before its answer is sent, and other values may come in between.
            let left: BTreeSet<u16> = left.iter().filter(known).copied().collect();
            prop_assert_eq!(left, undelivered.into_iter().collect::<BTreeSet<_>>());
        } else {
            prop_assert_eq!(left, undelivered, "what was accepted and not received is there, in order");
        }
    } else if !kind.has_holders() {
        prop_assert_eq!(model.units, 0, "units that were put were taken");
    } else if !node.hubs.hubs[0].closed {
        let free = capacity as usize - model.held.len();
        prop_assert!(kind == Kind::Resource || free == 0, "all blocks that no client held were there");
    }
    for client in 1..=4 {
        node.end(client);
    }
    prop_assert!(
        node.hubs.resource_counts().iter().all(|(_, count)| *count == 0),
        "{:?}",
        node.hubs.resource_counts()
    );
    Ok(())
}

proptest! {
    #[test]
    fn ports(steps in steps()) {
        run(Kind::Port, 0, &steps)?;
    }

    #[test]
    fn fifos(capacity in 1_u32..4, steps in steps()) {
        run(Kind::Fifo, capacity, &steps)?;
    }

    #[test]
    fn semaphores_and_events(capacity in 1_u32..4, steps in steps()) {
        run(Kind::Semaphore, capacity, &steps)?;
        run(Kind::Event, 1, &steps)?;
    }

    #[test]
    fn pools_and_resources(capacity in 1_u32..4, steps in steps()) {
        run(Kind::Pool, capacity, &steps)?;
        run(Kind::Resource, 1, &steps)?;
    }
}
