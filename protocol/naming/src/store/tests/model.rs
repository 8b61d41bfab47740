//! Random operations, compared with simple models.

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

use crate::records::Record;

#[derive(Clone, Debug)]
enum Step {
    Set { session: u64, name: u8, value: i64, own: bool, merge: bool },
    Delete { name: u8 },
    Close { session: u64 },
    Lock { session: u64, name: u8 },
    Unlock { which: usize },
    Cancel { which: usize },
    Acquire { session: u64, count: u32 },
    Release { which: usize },
    Join { session: u64 },
    Meet { which: usize },
    Leave { which: usize },
    Tick { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 1_u64..=4;
    prop_oneof![
        6 => (session(), 0_u8..6, 0_i64..10, any::<bool>(), any::<bool>())
            .prop_map(|(session, name, value, own, merge)| Step::Set { session, name, value, own, merge }),
        2 => (0_u8..6).prop_map(|name| Step::Delete { name }),
        1 => session().prop_map(|session| Step::Close { session }),
        5 => (session(), 0_u8..2).prop_map(|(session, name)| Step::Lock { session, name }),
        4 => any::<usize>().prop_map(|which| Step::Unlock { which }),
        2 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        4 => (session(), 1_u32..3).prop_map(|(session, count)| Step::Acquire { session, count }),
        3 => any::<usize>().prop_map(|which| Step::Release { which }),
        3 => session().prop_map(|session| Step::Join { session }),
        4 => any::<usize>().prop_map(|which| Step::Meet { which }),
        1 => any::<usize>().prop_map(|which| Step::Leave { which }),
        2 => (0_u64..1500).prop_map(|millis| Step::Tick { millis }),
    ]
}

/// Objects that the clients believe they hold.
#[derive(Default)]
struct ModelState {
    /// Requests that wait or were granted something, as session and number.
    requests: Vec<(u64, u32)>,
    locks: Vec<(u64, String, u64)>,
    lock_names: BTreeMap<u32, String>,
    permits: Vec<(u64, u64, u32)>,
    permit_counts: BTreeMap<u32, u32>,
    places: Vec<(u64, u64)>,
    last_token: u64,
}

const PERMITS: u32 = 3;

impl ModelState {
    /// Processes answers and checks the invariants.
    fn process_answers(&mut self, bench: &mut Bench) -> Result<(), TestCaseError> {
        for (session, request, result) in core::mem::take(&mut bench.answers) {
            match result {
                Ok(Answer::Locked { token }) => {
                    prop_assert!(token > self.last_token, "tokens grow");
                    self.last_token = token;
                    let name = self.lock_names[&request].clone();
                    prop_assert!(
                        self.locks.iter().all(|(_, locked, _)| *locked != name),
                        "one holder at a time"
                    );
                    self.locks.push((session, name, token));
                }
                Ok(Answer::Acquired { permit }) => {
                    self.permits.push((session, permit, self.permit_counts[&request]));
                    let held: u32 = self.permits.iter().map(|(.., count)| count).sum();
                    prop_assert!(held <= PERMITS, "no more permits than there are");
                }
                Ok(Answer::Joined { place }) => self.places.push((session, place)),
                _ => {}
            }
        }
        Ok(())
    }

    fn remove_session(&mut self, session: u64) {
        self.requests.retain(|(of, _)| *of != session);
        self.locks.retain(|(of, ..)| *of != session);
        self.permits.retain(|(of, ..)| *of != session);
        self.places.retain(|(of, _)| *of != session);
    }
}

fn pick<T>(list: &[T], which: usize) -> Option<usize> {
    (!list.is_empty()).then(|| which % list.len())
}

proptest! {
    #[test]
    fn random_operations_agree_with_the_model(steps in proptest::collection::vec(step(), 1..120)) {
        let mut bench = Bench::new();
        // An idle session that watches everything.
        bench.naming.open(Session(99), domain(99));
        bench.watch_with(99, Query::any(), EventMask::RECORDS, false, 4096).unwrap();
        bench.call(99, Operation::Semaphore { name: "s".into(), permits: PERMITS }).unwrap();
        let mut records: BTreeMap<String, (i64, Option<u64>, bool)> = BTreeMap::new();
        let mut mirror: BTreeMap<String, Record> = BTreeMap::new();
        let mut model = ModelState::default();
        for step in steps {
            match step {
                Step::Set { session, name, value, own, merge } => {
                    let mode = if merge { SetMode::Merge } else { SetMode::Replace };
                    let lifetime = if own { Lifetime::Transient } else { Lifetime::Persistent };
                    let key = alloc::format!("n{name}");
                    let text = alloc::format!("{key} {{ {}: {value} }}", if merge { "b" } else { "a" });
                    bench.call(session, Bench::change(&text, mode, lifetime, Condition::Always)).unwrap();
                    let owner = own.then_some(session);
                    match records.get_mut(&key).filter(|_| merge) {
                        // A merge keeps the owner, and the other attribute.
                        Some(record) => record.2 = true,
                        None => {
                            records.insert(key, (value, owner, false));
                        }
                    }
                }
                Step::Delete { name } => {
                    let key = alloc::format!("n{name}");
                    prop_assert_eq!(bench.delete(1, &key).is_ok(), records.remove(&key).is_some());
                }
                Step::Close { session } => {
                    model.remove_session(session);
                    bench.close(session);
                    bench.naming.open(Session(session), domain(session));
                    records.retain(|_, (_, owner, _)| *owner != Some(session));
                }
                Step::Lock { session, name } => {
                    let name = alloc::format!("l{name}");
                    model.lock_names.insert(bench.last_request + 1, name.clone());
                    let request = bench.send(session, Operation::Lock { name, timeout: SECOND });
                    model.requests.push((session, request));
                }
                Step::Unlock { which } => {
                    if let Some(index) = pick(&model.locks, which) {
                        let (session, name, token) = model.locks.swap_remove(index);
                        bench.send(session, Operation::Unlock { name, token });
                    }
                }
                Step::Cancel { which } => {
                    if let Some(index) = pick(&model.requests, which) {
                        let (session, request) = model.requests.swap_remove(index);
                        // Everything that it was granted is returned.
                        let granted = bench.naming.locks.iter().find(|(_, l)| l.is_granted_to((Session(session), request)));
                        let lock = granted.map(|(name, _)| name.clone());
                        model.locks.retain(|(_, name, _)| Some(name) != lock.as_ref());
                        let permits = &bench.naming.permits;
                        model.permits.retain(|(of, id, _)| {
                            *of != session || permits.get(id).is_none_or(|permit| permit.request != request)
                        });
                        bench.send(session, Operation::Cancel { request });
                    }
                }
                Step::Acquire { session, count } => {
                    model.permit_counts.insert(bench.last_request + 1, count);
                    let acquire = Operation::Acquire { name: "s".into(), permits: count, timeout: SECOND };
                    let request = bench.send(session, acquire);
                    model.requests.push((session, request));
                }
                Step::Release { which } => {
                    if let Some(index) = pick(&model.permits, which) {
                        let (session, permit, _) = model.permits.swap_remove(index);
                        bench.send(session, Operation::Release { permit, forget: false });
                    }
                }
                Step::Join { session } => {
                    bench.send(session, Operation::Join { name: "b".into(), parties: 2 });
                }
                Step::Meet { which } => {
                    if let Some(index) = pick(&model.places, which) {
                        let (session, place) = model.places[index];
                        bench.send(session, Operation::Meet { place, timeout: SECOND });
                    }
                }
                Step::Leave { which } => {
                    if let Some(index) = pick(&model.places, which) {
                        let (session, place) = model.places.swap_remove(index);
                        bench.send(session, Operation::Leave { place });
                    }
                }
                Step::Tick { millis } => bench.tick(Duration::from_millis(millis)),
            }
            model.process_answers(&mut bench)?;
            for (_, notice) in core::mem::take(&mut bench.notices) {
                prop_assert_eq!(notice.lost, 0);
                match notice.event {
                    Event::Set { record } => drop(mirror.insert(record.name.clone(), record)),
                    Event::Deleted { record, .. } => drop(mirror.remove(&record.name)),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            // The scope, the model and the watchers agree.
            let stored: Vec<Record> =
                bench.naming.records.keys().filter_map(|name| bench.naming.record(&name.0)).collect();
            prop_assert_eq!(&stored, &mirror.values().cloned().collect::<Vec<_>>());
            prop_assert_eq!(stored.len(), records.len());
            for record in stored {
                let (value, owner, merged) = &records[&record.name];
                prop_assert_eq!(record.owner, owner.map(domain));
                prop_assert!(*merged || record.attributes.values().eq([&crate::Value::from(*value)]));
            }
            // No free object has a waiter, and every wait has a deadline.
            let semaphore = &bench.naming.semaphores["s"];
            let next = semaphore.queue.front().map(|(_, count)| *count);
            prop_assert!(next.is_none_or(|count| count > semaphore.free));
            let taken: u32 = bench.naming.permits.values().map(|permit| permit.count).sum();
            prop_assert_eq!(taken + semaphore.free, PERMITS);
            prop_assert_eq!(bench.naming.waits.len(), bench.naming.deadlines.len());
        }
        // When all sessions are gone, none of their state is left.
        (1..=4).for_each(|session| bench.close(session));
        let naming = &bench.naming;
        prop_assert!(naming.locks.is_empty() && naming.permits.is_empty() && naming.waits.is_empty());
        prop_assert!(naming.barriers.is_empty() && naming.places.is_empty() && naming.barrier_names.is_empty());
        prop_assert!(naming.deadlines.is_empty());
        prop_assert_eq!(naming.records.len(), records.values().filter(|(_, owner, _)| owner.is_none()).count());
    }
}
