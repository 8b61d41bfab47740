//! Hubs on real nodes, served by the real command and used by tasks in this and other processes; kills.

use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tombolo::Domain;
use tombolo_e2e::{DEATH_IS_KNOWN, Machine, MachineFile, Running, eventually, image};
use tombolo_hubs::{Chan, Fault, HubError, Semaphore, Task};

use crate::names_async::run;

/// Timeout for events that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time to wait where nothing should happen.
const QUIET: Duration = Duration::from_millis(100);

fn task(machine: &Machine) -> Task {
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up");
    Task::attach(&domain).expect("a task").within(PATIENCE)
}

pub(crate) fn serve(machine: &Machine, node: &str, hubs: &[&str]) -> Running {
    let on = ["--on", node];
    let serving = machine.start(["hubs", "serve"].iter().chain(hubs).chain(&on));
    serving.wait_for("ready: ");
    serving
}

#[track_caller]
fn fault<T>(result: Result<T, impl Into<HubError>>) -> Fault {
    let error = result.err().expect("it is refused").into();
    error.fault().unwrap_or_else(|| panic!("{error}"))
}

/// Tests hubs of all kinds served on `node`.
fn check_all_kinds(machine: &Machine, node: &str) {
    let hubs =
        ["meet:port", "queue:fifo:2", "go:event", "count:semaphore:3", "guard:resource", "blocks:pool:2:512"];
    let serving = serve(machine, node, &hubs);
    let one = task(machine);
    let queue = one.fifo::<u64>("queue").unwrap();
    assert_eq!((queue.node(), queue.capacity()), (node, 2));
    queue.send(1).unwrap();
    queue.send(2).unwrap();
    let unsent = queue.try_send(3).unwrap_err();
    assert_eq!((unsent.value, unsent.error.fault()), (3, Some(Fault::WouldBlock)));
    thread::scope(|scope| {
        // The other side of the following operations.
        scope.spawn(|| {
            let other = task(machine);
            let meet = other.port::<String>("meet").unwrap();
            assert_eq!(meet.recv().unwrap(), "hello");
            other.event("go").unwrap().wait().unwrap();
            let guard = other.resource("guard").unwrap();
            assert_eq!(fault(guard.try_lock()), Fault::WouldBlock);
            other.semaphore("count").unwrap().signal().unwrap();
            assert!(guard.lock().unwrap().fencing_token() > 1);
            let queue = other.fifo::<u64>("queue").unwrap();
            let values: Vec<u64> = queue.iter().map(Result::unwrap).collect();
            assert_eq!(values, [1, 2, 4]);
        });
        one.port::<String>("meet").unwrap().send("hello".to_owned()).unwrap();
        let owned = one.resource("guard").unwrap().lock().unwrap();
        assert_eq!(fault(one.resource("guard").unwrap().lock()), Fault::AlreadyHeld);
        one.event("go").unwrap().raise().unwrap();
        one.semaphore("count").unwrap().wait().unwrap();
        owned.unlock().unwrap();
        queue.send(4).unwrap();
        queue.close().unwrap();
    });
    assert_eq!(fault(queue.close()), Fault::AlreadyClosed);
    assert_eq!(fault(queue.send(5)), Fault::Closed);
    let pool = one.pool("blocks").unwrap();
    let (mut first, second) = (pool.allocate().unwrap(), pool.allocate().unwrap());
    assert_ne!(first.number(), second.number());
    // A pool's memory is only mapped by tasks on the kernel of the hub's node.
    assert_eq!((pool.is_mapped(), pool.blocks(), pool.block_bytes()), (node == "host", 2, 512));
    if pool.is_mapped() {
        first.write(508, b"kept").unwrap();
        assert!(first.write(509, b"not!").is_err(), "beyond the block");
    }
    assert_eq!(fault(pool.try_allocate()), Fault::WouldBlock);
    let number = first.number();
    drop(first);
    // Another task gets the freed block with its old contents.
    let other = task(machine).pool("blocks").unwrap();
    let again = other.allocate().unwrap();
    assert_eq!(again.number(), number);
    if other.is_mapped() {
        let mut left = [0; 4];
        again.read(508, &mut left).unwrap();
        assert_eq!(&left, b"kept");
    }
    drop((again, second));
    // Hubs of another kind, and missing hubs.
    assert!(matches!(one.semaphore("queue"), Err(HubError::OtherKind { .. })));
    let hasty = one.within(QUIET);
    assert!(matches!(hasty.event("nowhere"), Err(HubError::Unknown { .. })));
    assert_eq!(fault(hasty.port::<u64>("meet").unwrap().recv()), Fault::TimedOut);
    serving.signal(Signal::INT);
    serving.finish().ok();
    assert!(eventually(|| machine.json(&["hubs"])["hubs"].as_array().unwrap().is_empty()));
}

/// A select over hubs of both nodes completes exactly one operation.
fn select(machine: &Machine) {
    let far = serve(machine, "arm0", &["far:fifo:4"]);
    let near = serve(machine, "host", &["near:fifo:4"]);
    let one = task(machine);
    let (near_queue, far_queue) = (one.chan::<u32>("near").unwrap(), one.chan::<u32>("far").unwrap());
    let mut none = one.within(QUIET).select();
    none.recv(&near_queue);
    none.recv(&far_queue);
    assert!(matches!(none.wait(), Err(HubError::NothingReady { .. })));
    let mut twice = one.select();
    twice.recv(&near_queue);
    twice.recv(&near_queue);
    assert!(twice.wait().unwrap_err().to_string().contains("same hub"));
    thread::scope(|scope| {
        let receivers = [0, 1].map(|_| {
            scope.spawn(|| {
                let other = task(machine);
                let (near, far) = (other.chan::<u32>("near").unwrap(), other.chan::<u32>("far").unwrap());
                let mut got = Vec::new();
                loop {
                    let mut select = other.select();
                    let index = select.recv(&near);
                    select.recv(&far);
                    match select.wait() {
                        Ok(chosen) if chosen.index == index => got.push(chosen.value(&near).unwrap()),
                        Ok(chosen) => got.push(chosen.value(&far).unwrap()),
                        Err(error) if error.is_closed() => return got,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        for number in 0..20 {
            near_queue.send(number).unwrap();
            far_queue.send(100 + number).unwrap();
        }
        // Both queues must be empty before the first is closed, so that no value is left behind.
        while !near_queue.is_empty().unwrap() || !far_queue.is_empty().unwrap() {
            thread::sleep(Duration::from_millis(5));
        }
        near_queue.close().unwrap();
        let mut got: Vec<u32> = receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect();
        got.extend(std::iter::from_fn(|| near_queue.try_recv().ok()));
        got.extend(std::iter::from_fn(|| far_queue.try_recv().ok()));
        got.sort_unstable();
        assert_eq!(got, (0..20).chain(100..120).collect::<Vec<_>>());
    });
    // The far server dies: a wait there fails with an error that names the node.
    let domain = machine.domains_on("arm0");
    assert_eq!(domain.len(), 1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| task(machine).chan::<u32>("far").unwrap().recv());
        assert!(eventually(|| machine.json(&["hubs"])["hubs"][0]["getters"][0]["count"] == 1));
        machine.tombolo(["kill", &domain[0].0, "--signal", "KILL"]).ok();
        let begun = std::time::Instant::now();
        let lost = waiting.join().unwrap().unwrap_err();
        assert!(
            matches!(&lost, HubError::Lost { hub, node, .. } if hub == "far" && node == "arm0"),
            "{lost}"
        );
        assert!(begun.elapsed() < DEATH_IS_KNOWN);
    });
    far.finish().fails_with(1, &["its hubs are lost"]);
    near.signal(Signal::INT);
    near.finish().ok();
}

/// Pipelined values keep their order, and unsent values come back.
fn pipelined(machine: &Machine) {
    let serving = serve(machine, "arm0", &["stream:fifo:8"]);
    let one = task(machine);
    let stream = one.fifo::<u32>("stream").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = task(machine);
            let stream = other.fifo::<u32>("stream").unwrap();
            let received: Result<Vec<u32>, _> = stream.receiver(16).collect();
            assert_eq!(received.unwrap(), (0..500).collect::<Vec<_>>());
        });
        let mut sender = stream.sender(32);
        for number in 0..500 {
            sender.send(number).unwrap();
        }
        sender.flush().unwrap();
        stream.close().unwrap();
    });
    let mut late = stream.sender(4);
    let failed = (0..10).find_map(|number| late.send(number).err()).expect("it is closed");
    let unsent: Vec<u32> = (0..).take(failed.values.len()).collect();
    assert!(!unsent.is_empty() && failed.values == unsent, "all come back in order: {:?}", failed.values);
    assert_eq!(failed.error.fault(), Some(Fault::Closed));
    serving.signal(Signal::INT);
    serving.finish().ok();
    check_kept_values(machine);
}

/// Values that a receiver holds unused go to the next operations of its task, in order.
fn check_kept_values(machine: &Machine) {
    let serving = serve(machine, "host", &["kept:fifo:8", "other:fifo:8"]);
    let one = task(machine);
    let (stream, other) = (one.fifo::<u32>("kept").unwrap(), one.fifo::<u32>("other").unwrap());
    let mut sender = stream.sender(8);
    (0..8).for_each(|number| sender.send(number).unwrap());
    sender.flush().unwrap();
    let mut receiver = stream.receiver(4);
    assert_eq!(receiver.recv().unwrap(), 0);
    drop(receiver);
    let mut select = one.select();
    select.recv(&other);
    select.recv(&stream);
    let chosen = select.wait().unwrap();
    assert_eq!((chosen.index, chosen.value(&stream).unwrap()), (1, 1));
    let rest: Vec<u32> = (2..8).map(|_| stream.recv().unwrap()).collect();
    assert_eq!(rest, [2, 3, 4, 5, 6, 7]);
    assert!(stream.try_recv().unwrap_err().is_not_ready());
    // More values than fit: the unsent ones come back.
    let hasty = one.within(Duration::from_millis(50)).fifo::<u32>("other").unwrap();
    let mut sender = hasty.sender(32);
    let failed = (0..40).find_map(|number| sender.send(number).err());
    let failed = failed.or_else(|| sender.flush().err()).expect("the fifo takes 8");
    assert_eq!(failed.error.fault(), Some(Fault::TimedOut), "{failed}");
    let taken: Vec<u32> = std::iter::from_fn(|| other.try_recv().ok()).collect();
    let all: Vec<u32> = taken.iter().chain(&failed.values).copied().collect();
    assert_eq!((taken.len(), all), (8, (0..8 + failed.values.len() as u32).collect()));
    serving.signal(Signal::INT);
    serving.finish().ok();
}

/// Futures of one task wait independently on hubs of both nodes; dropping one withdraws its operation.
fn futures(machine: &Machine) {
    let far = serve(machine, "arm0", &["far:fifo:2", "far-done:semaphore:40"]);
    let near = serve(machine, "host", &["near:fifo:2", "guard:resource", "go:event", "blocks:pool:1:64"]);
    let one = task(machine);
    let (near_queue, far_queue) = (one.chan::<u32>("near").unwrap(), one.chan::<u32>("far").unwrap());
    let done = one.semaphore("far-done").unwrap();
    let received = Mutex::new(Vec::new());
    async fn receive(chan: &Chan<u32>, done: &Semaphore, received: &Mutex<Vec<u32>>) {
        while let Ok(value) = chan.recv_async().await {
            received.lock().unwrap().push(value);
            done.signal_async().await.unwrap();
        }
    }
    let send = async {
        for number in 0..20 {
            near_queue.send_async(number).await.unwrap();
            far_queue.send_async(100 + number).await.unwrap();
        }
        for _ in 0..40 {
            done.wait_async().await.unwrap();
        }
        near_queue.close().unwrap();
        far_queue.close().unwrap();
    };
    run(vec![
        Box::pin(receive(&near_queue, &done, &received)),
        Box::pin(receive(&far_queue, &done, &received)),
        Box::pin(receive(&near_queue, &done, &received)),
        Box::pin(send),
    ]);
    let mut received = received.into_inner().unwrap();
    received.sort_unstable();
    assert_eq!(received, (0..20).chain(100..120).collect::<Vec<_>>());
    let (guard, go) = (one.resource("guard").unwrap(), one.event("go").unwrap());
    let pool = one.pool("blocks").unwrap();
    run(vec![
        Box::pin(async {
            let owned = guard.lock_async().await.unwrap();
            assert_eq!(fault(guard.lock_async().await), Fault::AlreadyHeld);
            owned.unlock().unwrap();
            let hasty = one.within(QUIET).event("go").unwrap();
            assert_eq!(fault(hasty.wait_async().await), Fault::TimedOut);
            let mut select = one.select();
            select.event(&go);
            let block = select.pool(&pool);
            let chosen = select.wait_async().await.unwrap();
            assert_eq!(chosen.index, block);
            assert_eq!(chosen.block(&pool).unwrap().number(), 0);
            drop(pool.allocate_async().await.unwrap());
            go.raise_async().await.unwrap();
        }),
        // Started and dropped: this operation does not get the event.
        Box::pin(async { assert!(go.hub().start_get().unwrap().try_take().unwrap().is_none()) }),
        Box::pin(async {
            let mut select = one.select();
            select.semaphore(&done);
            let event = select.event(&go);
            assert_eq!(select.wait_async().await.unwrap().index, event);
        }),
    ]);
    for serving in [far, near] {
        serving.signal(Signal::INT);
        serving.finish().ok();
    }
}

/// Semaphore counts are shared memory for tasks on the server's kernel, which need the server only to wait.
#[test]
fn shared_counts_need_no_server() {
    let machine = &Machine::up(&MachineFile::host());
    let serving = serve(machine, "host", &["units:semaphore:2", "ready:event"]);
    let server = machine.domains_on("host").pop().expect("the server is a domain").0;
    let signal = |signal: &str| machine.tombolo(["kill", &server, "--signal", signal]).ok();
    let (one, other) = (task(machine), task(machine));
    let (units, ready) = (one.semaphore("units").unwrap(), one.event("ready").unwrap());
    let (theirs, their_event) = (other.semaphore("units").unwrap(), other.event("ready").unwrap());
    signal("STOP");
    for _ in 0..1000 {
        units.signal().unwrap();
        theirs.signal().unwrap();
        theirs.wait().unwrap();
        units.hub().start_get().unwrap().wait().unwrap();
        ready.raise().unwrap();
        their_event.wait().unwrap();
    }
    signal("CONT");
    // The next unit goes to a waiting task, not to one that tries.
    thread::scope(|scope| {
        let waiter = scope.spawn(|| theirs.wait());
        let waits = || !units.hub().status().unwrap().getters.is_empty();
        assert!(eventually(waits), "it waits at the server");
        units.signal().unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(fault(units.try_wait()), Fault::WouldBlock);
    units.signal().unwrap();
    units.signal().unwrap();
    assert_eq!(units.count().unwrap(), 2);
    assert_eq!(fault(units.hub().within(Duration::ZERO).put(&[])), Fault::WouldBlock, "it is full");
    ready.close().unwrap();
    assert_eq!(fault(ready.raise()), Fault::Closed);
    signal("KILL");
    let lost = || matches!(units.wait().and_then(|()| units.signal()), Err(HubError::Lost { .. }));
    assert!(eventually(lost), "the end of the server is known");
    let _ = serving.finish();
}

/// A task that dies while waiting leaves nothing behind.
fn death_of_a_waiter(machine: &Machine) {
    let hubs = ["jobs:fifo:4", "results:port", "done:semaphore:4"];
    let serving = serve(machine, "host", &hubs);
    let pipeline = image("pipeline").display().to_string();
    let worker = machine.start(["run", "--on", "arm0", &pipeline, "work"]);
    let waits = |count: usize| {
        let hubs = machine.json(&["hubs"]);
        let jobs = hubs["hubs"].as_array().unwrap().iter().find(|hub| hub["name"] == "jobs").unwrap();
        jobs["getters"].as_array().unwrap().len() == count
    };
    assert!(eventually(|| waits(1)), "the worker waits");
    let top = machine.json(&["top"]);
    let jobs = top["hubs"].as_array().unwrap().iter().find(|hub| hub["key"] == "jobs").unwrap();
    assert_eq!(
        (&jobs["kind"], &jobs["node"], &jobs["closed"]),
        (&"fifo".into(), &"host".into(), &false.into())
    );
    assert_eq!(jobs["getters"], serde_json::json!([{ "priority": 100, "count": 1 }]));
    let domains = machine.domains_on("arm0");
    machine.tombolo(["kill", &domains[0].0, "--signal", "KILL"]).ok();
    assert!(eventually(|| waits(0)), "nothing of it is left");
    let _ = worker.finish();
    let one = task(machine);
    let jobs = one.fifo::<u64>("jobs").unwrap();
    jobs.send(7).unwrap();
    assert_eq!(jobs.recv().unwrap(), 7, "the dead took nothing");
    serving.signal(Signal::INT);
    serving.finish().ok();
}

/// Runs the example in three placements; only the topology file changes.
fn run_example(machine: &Machine) {
    let folder = machine.folder().join("pipeline");
    fs::create_dir_all(&folder).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pipeline");
    for file in ["app.toml", "two-nodes.toml"] {
        fs::copy(format!("{source}/{file}"), folder.join(file)).unwrap();
    }
    fs::copy(image("pipeline"), folder.join("pipeline.tbi")).unwrap();
    let path = |file: &str| folder.join(file).display().to_string();
    let (app, topology) = (path("app.toml"), path("two-nodes.toml"));
    let spread = machine.tombolo(["hubs", "run", &app, &topology]).ok();
    assert!(spread.contains("[collector@host] the sum is 338350"), "{spread}");
    assert!(spread.contains("[worker-b@arm0]"), "{spread}");
    fs::write(folder.join("big-endian.toml"), "default = 'host'\n[tasks]\nworker-a = 'z0'").unwrap();
    let big_endian = machine.tombolo(["hubs", "run", &app, &path("big-endian.toml")]).ok();
    assert!(big_endian.contains("[worker-a@z0]") && big_endian.contains("338350"), "{big_endian}");
    let together = machine.tombolo(["hubs", "run", &app, "--on", "host"]).ok();
    assert!(together.contains("[collector@host] the sum is 338350"), "{together}");
    // Errors in the topology are named, and nothing is started.
    let check = |topology: &str, status: i32, words: &[&str]| {
        fs::write(folder.join("bad.toml"), topology).unwrap();
        let bad = path("bad.toml");
        machine.tombolo(["hubs", "run", &app, &bad, "--check"]).fails_with(status, words);
    };
    check("default = 'mars'", 1, &["node 'mars', which the machine does not have", "arm0"]);
    check("default = 'host'\n[tasks]\nworker-c = 'host'", 2, &["task 'worker-c'", "worker-a"]);
    check("[hubs]\njobs = 'host'", 2, &["does not place hub 'done'"]);
    check("default = ", 2, &["bad.toml"]);
    machine.tombolo(["hubs", "run", "none.toml", "--on", "host"]).fails_with(2, &["cannot read none.toml"]);
    machine.tombolo(["hubs", "serve", "a:fifo:0"]).fails_with(2, &["invalid capacity 0"]);
    machine.tombolo(["hubs", "serve", "a:port", "a:port"]).fails_with(2, &["two hubs have the name 'a'"]);
    let first = serve(machine, "host", &["a:port"]);
    machine
        .tombolo(["hubs", "serve", "a:event", "--on", "arm0"])
        .fails_with(1, &["hub 'a' is served already"]);
    first.signal(Signal::INT);
    first.finish().ok();
}

#[test]
fn hubs_of_two_nodes() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("z0", "s390x"));
    check_all_kinds(&machine, "host");
    check_all_kinds(&machine, "arm0");
    select(&machine);
    pipelined(&machine);
    futures(&machine);
    death_of_a_waiter(&machine);
    run_example(&machine);
    crate::tasks::on_three_nodes(&machine);
    machine.down();
}
