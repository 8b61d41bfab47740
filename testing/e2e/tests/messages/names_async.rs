//! Names on a real machine with async calls, on a minimal executor.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tombolo::names::{Change, NameFault, NewRecord, WatchOptions};
use tombolo::{Domain, Error};
use tombolo_e2e::{Machine, MachineFile};

/// Timeout for events that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn host() -> (Machine, Domain) {
    let machine = Machine::up(&MachineFile::host());
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up");
    (machine, domain)
}

#[derive(Default)]
struct Signal {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

pub(crate) type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs all tasks on this thread, each when woken.
pub(crate) fn run(tasks: Vec<Task<'_>>) {
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    let mut tasks = tasks;
    loop {
        tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        if tasks.is_empty() {
            return;
        }
        let woken = signal.woken.lock().unwrap();
        let (mut woken, waited) =
            signal.changed.wait_timeout_while(woken, 2 * PATIENCE, |woken| !*woken).unwrap();
        assert!(!waited.timed_out(), "nobody woke {} tasks", tasks.len());
        *woken = false;
    }
}

fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    let mut output = None;
    run(vec![Box::pin(async { output = Some(future.await) })]);
    output.unwrap()
}

fn is_pending<F: Future + ?Sized>(future: Pin<&mut F>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn requests_return_futures() {
    let (machine, domain) = host();
    block_on(async {
        for scope in ["", "@/"] {
            let names = domain.names();
            let of = |name: &str| format!("{scope}{name}");
            let set = names.set_async(&NewRecord::new(&of("sensor")).with("celsius", 21)).await?;
            let query = of("sensor { celsius > 20 }");
            assert_eq!(names.get_async(&query).await?.version, set.version);
            assert_eq!(names.find_async(&of("sens*")).await?.len(), 1);
            let before = names.get_and_set_async(&NewRecord::new(&of("sensor")).with("celsius", 5)).await?;
            assert_eq!(before.map(|record| record.version), Some(set.version));
            assert!(!names.exists_async(&query).await?);
            let late = names.wait_for_async(&query, Duration::from_millis(2)).await;
            assert!(matches!(late.unwrap_err().name_fault(), Some(NameFault::NoSuchName { .. })));
            names.delete_async(&of("sensor")).await?;
            let mut subscriber = names.subscribe_async(&of("alarm"), 256).await?;
            assert_eq!(names.publish_async(&of("alarm { level: 3 }")).await?.told, 1);
            assert_eq!(subscriber.next_async(PATIENCE).await?.record.integer("level"), Ok(3));
            let nothing = subscriber.next_async(Duration::from_millis(2)).await;
            assert!(matches!(nothing, Err(Error::TimedOut { .. })));
            let semaphore = names.semaphore_async(&of("seats"), 1).await?;
            semaphore.acquire_async(1, PATIENCE).await?.forget_async().await?;
            semaphore.post_async(1).await?;
            let permit = semaphore.acquire_async(1, PATIENCE).await?;
            let full = semaphore.acquire_async(1, Duration::from_millis(2)).await;
            assert!(matches!(full.unwrap_err().name_fault(), Some(NameFault::NoPermits { .. })));
            drop(permit);
            let barrier = names.barrier_async(&of("start"), 1).await?;
            assert_eq!(barrier.wait_async(PATIENCE).await?.generation, 1);
            let guard = names.lock(&of("turn"))?.acquire_async(PATIENCE).await?;
            guard.release_async().await?;
            let mut watch = names.watch_async(&of("x"), WatchOptions::default()).await?;
            watch.stop_async().await?;
            assert!(matches!(watch.next_async(PATIENCE).await?.change, Change::Ended(_)));
            let over = watch.next_async(PATIENCE).await;
            assert!(matches!(over.unwrap_err().name_fault(), Some(NameFault::NoSuchWatch { .. })));
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    machine.down();
}

#[test]
fn one_thread_waits_for_many_at_once() {
    const TASKS: u64 = 100;
    let (machine, domain) = host();
    let names = domain.names();
    names.set(&NewRecord::new("counter").with("count", 0)).unwrap();
    let lock = names.lock("turn").unwrap();
    let seats = names.semaphore("seats", 3).unwrap();
    let (lock, seats, names) = (&lock, &seats, &names);
    let tasks = (0..TASKS).map(|_| -> Task<'_> {
        Box::pin(async move {
            let _seat = seats.acquire_async(1, PATIENCE).await.unwrap();
            let guard = lock.acquire_async(PATIENCE).await.unwrap();
            let count = names.get_async("counter").await.unwrap().integer("count").unwrap();
            names.set_async(&NewRecord::new("counter").with("count", count + 1)).await.unwrap();
            guard.release_async().await.unwrap();
        })
    });
    let watches: Task<'_> = Box::pin(async move {
        // Completes only after all queued tasks were served.
        let done = names.wait_for_async(&format!("counter {{ count: {TASKS} }}"), PATIENCE).await;
        assert_eq!(done.unwrap().integer("count"), Ok(TASKS as i64));
    });
    run(tasks.chain([watches]).collect());
    machine.down();
}

#[test]
fn barrier_parties_of_one_thread_meet() {
    let (machine, domain) = host();
    let names = &domain.names();
    let party = || -> Task<'_> {
        Box::pin(async move {
            let barrier = names.barrier_async("meeting", 3).await.unwrap();
            for generation in 1..=20 {
                assert_eq!(barrier.wait_async(PATIENCE).await.unwrap().generation, generation);
            }
        })
    };
    run(vec![party(), party(), party()]);
    // A party that drops its wait has not arrived: the barrier still waits for it.
    let (one, two) = (names.barrier("pair", 2).unwrap(), names.barrier("pair", 2).unwrap());
    assert!(is_pending(pin!(one.wait_async(PATIENCE))));
    assert!(is_pending(pin!(two.wait_async(PATIENCE))));
    let (one, two) = (&one, &two);
    let meets = |barrier: &'static str, meeting: tombolo::names::Meeting| {
        assert_eq!(meeting.generation, 1, "{barrier}");
    };
    run(vec![
        Box::pin(async move { meets("one", one.wait_async(PATIENCE).await.unwrap()) }),
        Box::pin(async move { meets("two", two.wait_async(PATIENCE).await.unwrap()) }),
    ]);
    machine.down();
}

#[test]
fn dropped_future_passes_its_turn_on() {
    let (machine, holder) = host();
    let dropper = Domain::attach_to_machine(machine.name()).unwrap();
    let next = Domain::attach_to_machine(machine.name()).unwrap();
    for scope in ["", "@/"] {
        for given_meanwhile in [false, true] {
            let name = format!("{scope}turn");
            let guard = holder.names().lock(&name).unwrap().acquire(PATIENCE).unwrap();
            let lock = dropper.names().lock(&name).unwrap();
            let mut dropped = Box::pin(lock.acquire_async(PATIENCE));
            assert!(is_pending(dropped.as_mut()));
            // A later request was answered, so the dropper is in the queue.
            assert!(!dropper.names().exists(&format!("{scope}nothing")).unwrap());
            let guard = if given_meanwhile { guard.release().map(|()| None) } else { Ok(Some(guard)) };
            drop(dropped);
            drop(guard.unwrap());
            let lock = next.names().lock(&name).unwrap();
            block_on(lock.acquire_async(PATIENCE)).unwrap().release().unwrap();

            let name = format!("{scope}seats");
            let permit = holder.names().semaphore(&name, 2).unwrap().acquire(2, PATIENCE).unwrap();
            let semaphore = dropper.names().semaphore(&name, 2).unwrap();
            let mut dropped = Box::pin(semaphore.acquire_async(1, PATIENCE));
            assert!(is_pending(dropped.as_mut()));
            assert!(!dropper.names().exists(&format!("{scope}nothing")).unwrap());
            let permit = (!given_meanwhile).then_some(permit);
            assert!(!holder.names().exists(&format!("{scope}nothing")).unwrap());
            drop((dropped, permit));
            let semaphore = next.names().semaphore(&name, 2).unwrap();
            drop(block_on(semaphore.acquire_async(2, PATIENCE)).unwrap());
        }
        // No waiter is left.
        let objects = tombolo_admin::Machine::of(&holder).locks(scope).unwrap();
        assert!(objects.iter().all(|object| object.waiting == 0), "{objects:?}");
    }
    machine.down();
}

#[test]
fn stream_loses_nothing_when_futures_are_dropped() {
    const EVENTS: i64 = 500;
    let (machine, publisher) = host();
    let domain = Domain::attach_to_machine(machine.name()).unwrap();
    let mut subscriber = domain.names().subscribe("tick", EVENTS as u32).unwrap();
    let mut watch =
        domain.names().watch("last", WatchOptions { capacity: 4096, ..Default::default() }).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let names = publisher.names();
            for number in 0..EVENTS {
                assert_eq!(names.publish(&format!("tick {{ number: {number} }}")).unwrap().refused, 0);
                names.set(&NewRecord::new("last").with("number", number)).unwrap();
            }
        });
        block_on(async {
            for number in 0..EVENTS {
                // Polled once and dropped, as `select!` does with a branch that was not ready.
                let event = match now_or_never(subscriber.next_async(PATIENCE)) {
                    Some(event) => event,
                    None => subscriber.next_async(PATIENCE).await,
                };
                let event = event.unwrap();
                assert_eq!((event.record.integer("number"), event.lost), (Ok(number), 0));
                let notice = match now_or_never(watch.next_async(PATIENCE)) {
                    Some(notice) => notice,
                    None => watch.next_async(PATIENCE).await,
                };
                let Change::Set(record) = notice.unwrap().change else { panic!("it was set") };
                assert_eq!(record.integer("number"), Ok(number));
            }
        });
    });
    machine.down();
}

fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn pending_requests_end_with_the_machine() {
    let (machine, domain) = host();
    let names = domain.names();
    let held = names.lock("held").unwrap();
    let _guard = held.acquire(PATIENCE).unwrap();
    let mut subscriber = names.subscribe("never", 256).unwrap();
    let is_lost = |error: Error| assert!(matches!(error, Error::MonitorLost { .. }), "{error}");
    let (names, held) = (&names, &held);
    let mut tasks: Vec<Task<'_>> = vec![
        Box::pin(async move { is_lost(names.wait_for_async("never", PATIENCE).await.unwrap_err()) }),
        Box::pin(async move { is_lost(held.acquire_async(PATIENCE).await.unwrap_err()) }),
        Box::pin(async { is_lost(subscriber.next_async(PATIENCE).await.unwrap_err()) }),
    ];
    for task in &mut tasks {
        assert!(is_pending(task.as_mut()));
    }
    machine.down();
    run(tasks);
}
