//! Choice of an engine, its explanation, and the outcome of a request.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_engine::attach::Attach;
use tombolo_engine::cpu::{Caller, Threads};
use tombolo_engine::{
    Abilities, Completion, Curve, Direction, Effort, Engine, Location, Manager, Reach, Refusal, Rejected,
    Request, RequestId, Route, Unable,
};
use tombolo_platform::copy::CopyLoop;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, OsError};

const MAPPED: Route = Route::copy(Reach::Mapped, Reach::Mapped);

fn curve(points: &[(u64, u64)]) -> Curve {
    Curve::from_points(points.iter().copied()).unwrap()
}

/// The caller is cheap for short requests and slow for long ones; the threads are the opposite.
fn manager(limit: usize) -> Manager {
    let mut manager = Manager::new();
    manager.add(Box::new(Caller::new(CopyLoop::Best, limit))).unwrap();
    manager.add(Box::new(Threads::start(CopyLoop::Best, 2, limit).unwrap())).unwrap();
    manager.add(Box::new(Attach::start(limit).unwrap())).unwrap();
    manager.set_curve("caller", MAPPED, curve(&[(64, 10), (1 << 20, 100_000)]));
    manager.set_curve("threads-2", MAPPED, curve(&[(64, 20_000), (1 << 20, 60_000)]));
    manager
}

fn request(length: usize) -> (Request, SharedMemory) {
    let (source, target) = (SharedMemory::zeroed(length), SharedMemory::zeroed(length));
    source.words().iter().for_each(|word| word.store(7, std::sync::atomic::Ordering::Relaxed));
    (Request::copy(Location::mapped(&source), Location::mapped(&target), length as u64), target)
}

#[test]
fn the_cheapest_is_chosen_by_the_length() {
    let manager = manager(4);
    for (length, engine) in [(64, "caller"), (65_536, "caller"), (1 << 20, "threads-2")] {
        let choice = manager.choose(&request(length).0).unwrap();
        assert_eq!(choice.chosen().engine, engine, "{length}");
        assert!(choice.chosen().estimate.as_ref().is_ok_and(|estimate| estimate.measured()));
        assert_eq!(manager.explain(&[MAPPED], length as u64), Ok(choice.clone()), "without memory");
        let last = choice.candidates.last().unwrap();
        assert_eq!(last.engine, "attach", "those that cannot are last");
        assert!(last.estimate.as_ref().unwrap_err().to_string().contains("mapped-mapped"));
    }
}

#[test]
fn without_measurements_orders_of_magnitude_decide() {
    let mut manager = Manager::new();
    manager.add(Box::new(Threads::start(CopyLoop::Best, 1, 1).unwrap())).unwrap();
    manager.add(Box::new(Caller::new(CopyLoop::Best, 1))).unwrap();
    let choice = manager.choose(&request(64).0).unwrap();
    assert_eq!(choice.chosen().engine, "caller");
    assert!(choice.chosen().estimate.as_ref().is_ok_and(|estimate| !estimate.measured()));
}

#[test]
fn without_a_capable_engine_the_error_lists_the_reasons() {
    let mut manager = Manager::new();
    assert!(
        matches!(manager.submit(&request(64).0), Err(Unable::NoEngine { candidates }) if candidates.is_empty())
    );
    manager.add(Box::new(Attach::start(1).unwrap())).unwrap();
    let refused = manager.submit(&request(64).0).unwrap_err();
    assert!(refused.to_string().contains("attach: the engine does not reach mapped-mapped"), "{refused}");
    assert_eq!(manager.in_flight(), 0);
}

#[test]
fn full_engine_falls_back_to_the_next_best() {
    let mut manager = manager(1);
    let [first, second, third] = [(); 3].map(|()| request(1 << 20).0);
    let first = manager.submit(&first).unwrap();
    let second = manager.submit(&second).unwrap();
    assert_ne!(first, second);
    assert_eq!(manager.submit(&third).unwrap_err(), Unable::Busy);
    let mut completed = Vec::new();
    while completed.len() < 2 {
        let until = Deadline::after(Duration::from_secs(60));
        assert!(poll(&[(manager.descriptor().unwrap(), Interest::Read)], Some(until)).unwrap()[0].readable);
        while let Some((ticket, completion)) = manager.take() {
            assert_eq!(completion.result, Ok(()));
            completed.push(ticket);
        }
    }
    completed.sort_unstable();
    let mut tickets = [first, second];
    tickets.sort_unstable();
    assert_eq!(completed, tickets);
    assert_eq!(manager.in_flight(), 0);
    assert!(!manager.cancel(first));
}

#[test]
fn cheapest_alternative_is_chosen() {
    let manager = manager(4);
    let (mapped, _) = request(4096);
    let unreachable =
        Location::Far { memory: tombolo_engine::far::MemoryId { index: 0, generation: 1 }, offset_bytes: 0 };
    let far = Request::copy(unreachable.clone(), unreachable, 4096);
    let choice = manager.choose_way(&[far, mapped]).unwrap();
    assert_eq!((choice.chosen().way, choice.chosen().engine.as_str()), (1, "caller"));
    assert_eq!(choice.candidates.len(), 6);
}

#[test]
fn measurements_determine_the_choice() {
    let mut manager = Manager::new();
    manager.add(Box::new(Caller::new(CopyLoop::Best, 1))).unwrap();
    manager.add(Box::new(Threads::start(CopyLoop::Best, 2, 1).unwrap())).unwrap();
    manager.add(Box::new(Attach::start(1).unwrap())).unwrap();
    let (source, target) = (SharedMemory::zeroed(1 << 20), SharedMemory::zeroed(1 << 20));
    let (source, target) = (Location::mapped(&source), Location::mapped(&target));
    let effort = Effort { max_bytes: 1 << 20, rounds: 3, timeout: Duration::from_secs(60) };
    let copy = Direction::Copy { source, target: target.clone() };
    assert_eq!(manager.calibrate(&copy, effort), []);
    assert_eq!(manager.calibrate(&Direction::Fill { target }, effort), []);
    let known: Vec<_> = manager.curves().map(|(engine, route, _)| (engine, route.to_string())).collect();
    let expected = ["caller", "threads-2"]
        .map(|engine| [(engine, "mapped-mapped".to_owned()), (engine, "fill-mapped".to_owned())]);
    assert_eq!(known, expected.concat());
    for (_, _, curve) in manager.curves() {
        assert_eq!(curve.points().len(), 5);
        assert!(curve.points().is_sorted());
    }
    assert!(manager.choose(&request(64).0).unwrap().chosen().estimate.as_ref().unwrap().measured());
}

#[test]
fn a_completed_copy_is_in_place() {
    let mut manager = manager(8);
    for length in [64, 4096, 1 << 20] {
        let (request, target) = request(length);
        let ticket = manager.submit(&request).unwrap();
        let until = Deadline::after(Duration::from_secs(60));
        let (completed, completion) = loop {
            poll(&[(manager.descriptor().unwrap(), Interest::Read)], Some(until)).unwrap();
            if let Some(taken) = manager.take() {
                break taken;
            }
        };
        assert_eq!((completed, completion.result), (ticket, Ok(())));
        assert!(target.words().iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 7));
    }
}

/// Engine whose requests last until the test ends them.
struct Held {
    threads: Threads,
    requests: Arc<Mutex<Vec<(RequestId, Request)>>>,
}

impl Engine for Held {
    fn name(&self) -> &str {
        "held"
    }

    fn abilities(&self) -> Abilities {
        Abilities::MAPPED | Abilities::FILL | Abilities::BACKGROUND
    }

    fn limit(&self) -> usize {
        8
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        self.threads.check(request)
    }

    fn submit(&mut self, request: Request) -> Result<RequestId, Rejected> {
        let id = self.threads.submit(request.clone().fenced())?;
        self.requests.lock().unwrap().push((id, request));
        Ok(id)
    }

    fn cancel(&mut self, _: RequestId) -> bool {
        false
    }

    fn take(&mut self) -> Option<Completion> {
        if self.in_progress() == 0 { self.threads.take() } else { None }
    }

    fn in_flight(&self) -> usize {
        self.threads.in_flight()
    }

    fn in_progress(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    fn conflict(&self, request: &Request) -> Option<RequestId> {
        let requests = self.requests.lock().unwrap();
        requests.iter().find(|(_, held)| held.conflicts(request)).map(|(id, _)| *id)
    }

    fn descriptor(&mut self) -> Result<BorrowedFd<'_>, OsError> {
        self.threads.descriptor()
    }
}

/// Engines know only their own requests; the manager compares the requests of all.
#[test]
fn conflicts_and_fences_hold_between_engines() {
    let mut manager = manager(4);
    let requests = Arc::default();
    let threads = Threads::start(CopyLoop::Best, 1, 8).unwrap();
    manager.add(Box::new(Held { threads, requests: Arc::clone(&requests) })).unwrap();
    manager.set_curve("held", MAPPED, curve(&[(64, 30_000), (1 << 20, 10_000)]));
    let (long, target) = request(1 << 20);
    let held = manager.submit(&long).unwrap();
    let with = requests.lock().unwrap()[0].0;
    // Short requests go to the caller, which would execute this one at once.
    let short = |offset_bytes| {
        let target = Location::Mapped { memory: target.clone(), offset_bytes };
        Request::copy(Location::mapped(&request(64).1), target, 64)
    };
    assert_eq!(manager.submit(&short(8)).unwrap_err(), Unable::InUse { engine: "held".into(), with });
    assert_eq!(manager.submit(&long).unwrap_err(), Unable::InUse { engine: "held".into(), with });
    let (other, _) = request(64);
    manager.submit(&other).unwrap();
    // A fenced request goes to the engine whose requests it must wait for.
    let fenced = manager.submit(&short(8).fenced()).unwrap();
    assert_eq!(requests.lock().unwrap().len(), 2);
    requests.lock().unwrap().clear();
    let mut ended = Vec::new();
    while ended.len() < 3 {
        ended.extend(manager.take());
    }
    assert!(ended.iter().all(|(_, completion)| completion.result == Ok(())), "{ended:?}");
    assert!(
        ended.iter().any(|(ticket, _)| *ticket == held) && ended.iter().any(|(ticket, _)| *ticket == fenced)
    );
    assert_eq!(target.words()[1].load(std::sync::atomic::Ordering::Relaxed), 0, "the last to write it");
    // Requests on two engines cannot be fenced against on one.
    let second = Arc::default();
    let threads = Threads::start(CopyLoop::Best, 1, 8).unwrap();
    let name = "held".to_owned();
    manager.add(Box::new(Held { threads, requests: Arc::clone(&second) })).unwrap();
    second.lock().unwrap().push((with, other));
    manager.submit(&long).unwrap();
    let engines = vec![name.clone(), name];
    assert_eq!(manager.submit(&short(8).fenced()).unwrap_err(), Unable::Fenced { engines });
}

/// Read-only memory is a source for processors, and nothing else.
#[test]
fn memory_that_cannot_be_written_is_copied_from() {
    use tombolo_platform::memory::{MapOptions, RevocableMapping, create_sealed, map};
    use tombolo_platform::socket::{SocketKind, pair};
    let file = create_sealed("tombolo-test-read-only", 8192).unwrap();
    map(&file, 0, 8192).unwrap().copy_in(0, &[7; 8192]).unwrap();
    let (_ours, lifeline) = pair(SocketKind::Stream).unwrap();
    let options = MapOptions { writable: false, address: None, alignment_bytes: 0, populate: false };
    let memory = RevocableMapping::map(&file, 0, 8192, options, lifeline).unwrap();
    let place = |offset_bytes| Location::ReadOnly { memory: memory.clone(), offset_bytes };
    let target = SharedMemory::zeroed(8192);
    let mut manager = Manager::new();
    manager.add(Box::new(Caller::new(CopyLoop::Best, 4))).unwrap();
    manager.add(Box::new(Attach::start(4).unwrap())).unwrap();
    manager.submit(&Request::copy(place(3), Location::mapped(&target), 8000)).unwrap();
    assert_eq!(manager.take().expect("it is done at once").1.result, Ok(()));
    let mut found = vec![0; 8192];
    target.copy_out(0, &mut found).unwrap();
    assert!(found[..8000].iter().all(|byte| *byte == 7) && found[8000..].iter().all(|byte| *byte == 0));
    for wrong in [
        Request::copy(Location::mapped(&target), place(0), 8),
        Request::fill(place(0), 1, 8),
        Request::copy(place(8190), Location::mapped(&target), 8),
        Request::copy(place(0), place(64), 8),
    ] {
        assert!(matches!(manager.submit(&wrong), Err(Unable::NoEngine { .. })), "{wrong:?}");
    }
}
