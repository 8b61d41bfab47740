//! Names on a real machine. The first part has the cases of the tests of Barrelfish's Octopus, with their
//! names; the second what those could not test: the state after a death.

use std::time::Duration;

use tombolo::Domain;
use tombolo::error::Fault;
use tombolo::names::{
    Attributes, Change, Condition, DeleteCause, EventMask, NameFault, NewRecord, Value, WatchOptions,
};
use tombolo_admin::ObjectInfo;
use tombolo_e2e::{Machine, MachineFile, Running, eventually};

/// Timeout for events that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time to wait where nothing should happen.
const QUIET: Duration = Duration::from_millis(100);

fn host() -> (Machine, Domain) {
    let machine = Machine::up(&MachineFile::host());
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up");
    (machine, domain)
}

/// Returns the locks, semaphores and barriers of the machine.
fn locks(domain: &Domain) -> Vec<ObjectInfo> {
    tombolo_admin::Machine::of(domain).locks("").expect("the machine is up")
}

fn fault<T: std::fmt::Debug>(result: Result<T, tombolo::Error>) -> NameFault {
    let error = result.expect_err("it is refused");
    error.name_fault().unwrap_or_else(|| panic!("{error}")).clone()
}

fn record(text: &str) -> NewRecord {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn missing(name: &str) -> NameFault {
    NameFault::NoSuchName { name: name.into() }
}

#[test]
fn d2getset() {
    let (machine, domain) = host();
    let names = domain.names();
    let get = |query: &str| names.get(query).map(|record| record.to_string());
    let list = |query: &str| -> Vec<String> {
        names.find(query).expect(query).into_iter().map(|record| record.name).collect()
    };
    // Set.
    assert!("q{weqw1,.".parse::<NewRecord>().is_err());
    names.set(&NewRecord::new("object1").with("weight", 20)).unwrap();
    names.set(&record("object3 { attr: 'A text string.', weight: 9, fl: 12.0 }")).unwrap();
    names.set(&record("object4 { attr: 'Somestring', weight: 20, fl: 12.0 }")).unwrap();
    let object5 =
        "object5 { pattern1: '123abab', pattern2: 'StringToTestRegexMatching', pattern3: '10-10-2010' }";
    names.set(&record(object5)).unwrap();
    names.set(&record("object6 { pattern1: '123ababc', pattern2: 'x', pattern3: '21-00-2900' }")).unwrap();
    // Exist.
    assert!(matches!(names.exists("a b"), Err(tombolo::Error::Text { .. })));
    assert!(!names.exists("recordDoesNotExist").unwrap());
    assert!(names.exists("object3 { fl > 10, weight: _ }").unwrap());
    // Get.
    assert_eq!(fault(names.get("recordDoesNotExist")), missing("recordDoesNotExist"));
    assert!(matches!(names.get("parser { error, m, }"), Err(tombolo::Error::Text { .. })));
    assert_eq!(get("object1").unwrap(), "object1 { weight: 20 }");
    let object4 = "object4 { attr: 'Somestring', fl: 12.0, weight: 20 }";
    assert_eq!(get("object4").unwrap(), object4);
    assert_eq!(get("_ { weight >= 10, fl > 11.0 }").unwrap(), object4);
    assert_eq!(names.delete("object4").unwrap().to_string(), object4);
    assert_eq!(fault(names.get("object4")), missing("object4"));
    names.set(&record("object4 { attr: 'Somestring', fl: 12.0, weight: 20 }")).unwrap();
    assert_eq!(get("object4").unwrap(), object4);
    names.delete("object1").unwrap();
    assert_eq!(fault(names.get("object1")), missing("object1"));
    assert_eq!(get("_ { pattern1: r'^12.*ab$' }").unwrap(), object5);
    let date = concat!(
        r"_ { pattern3: r'^(((((((0?[13578])|(1[02]))[\.\-/]?((0?[1-9])|([12]\d)|(3[01])))|(((0?[469])|(11))",
        r"[\.\-/]?((0?[1-9])|([12]\d)|(30)))|((0?2)[\.\-/]?((0?[1-9])|(1\d)|(2[0-8]))))[\.\-/]?(((19)|(20))?",
        r"([\d][\d]))))|((0?2)[\.\-/]?(29)[\.\-/]?(((19)|(20))?(([02468][048])|([13579][26])))))$' }"
    );
    assert_eq!(get(date).unwrap(), object5);
    // Names.
    assert_eq!(list("r'^object.*'"), ["object3", "object4", "object5", "object6"]);
    assert_eq!(list("_ { weight: _ }"), ["object3", "object4"]);
    assert_eq!(list("_ { attr: _, weight: 20 }"), ["object4"]);
    assert_eq!(list("asdfasd"), [""; 0]);
    assert!(matches!(names.find("}+_df}"), Err(tombolo::Error::Text { .. })));
    // Patterns as names.
    for name in ["obj123", "obj1", "obj134"] {
        names.set(&NewRecord::new(name).with("attr", 12)).unwrap();
    }
    assert_eq!(get("r'obj.$' { attr: 12 }").unwrap(), "obj1 { attr: 12 }");
    assert!("r'obj.$' { attr: 12 }".parse::<NewRecord>().is_err());
    assert_eq!(list("r'^obj.$'"), ["obj1"]);
    assert_eq!(fault(names.delete("r'obj.$'")), NameFault::BadName { name: "r'obj.$'".into() });
    machine.down();
}

#[test]
fn d2read() {
    let (machine, domain) = host();
    let names = domain.names();
    for text in ["record", "record {}"] {
        names.set(&record(text)).unwrap();
        assert_eq!(names.get("record").unwrap().name, "record");
    }
    names.set(&record("record { attr1: 'Test String 123' }")).unwrap();
    assert_eq!(names.get("record").unwrap().text("attr1"), Ok("Test String 123"));
    names
        .set(&record("record2 { str: 'string', float: 12.0, integer: 1212, yes: true, raw: x'00ff' }"))
        .unwrap();
    let read = names.get("record2").unwrap();
    assert_eq!((read.float("float"), read.text("str")), (Ok(12.0), Ok("string")));
    assert_eq!((read.integer("integer"), read.bool("yes")), (Ok(1212), Ok(true)));
    assert_eq!(read.bytes("raw"), Ok(&[0_u8, 0xff][..]));
    let wrong = read.integer("str").expect_err("text is no integer").to_string();
    assert_eq!(wrong, "attribute 'str' of record 'record2' is text, not an integer");
    assert!(read.integer("absent").is_err());
    machine.down();
}

#[test]
fn d2trigger() {
    let (machine, domain) = host();
    let names = domain.names();
    for text in ["obj1 { attr: 1 }", "obj2 { attr: 2 }", "obj3 { attr: 3 }"] {
        names.set(&record(text)).unwrap();
    }
    let once = WatchOptions { events: EventMask::DELETE, once: true, capacity: 4 };
    let mut watch = names.watch("r'^obj.$' { attr: 3 }", once).unwrap();
    assert_eq!(watch.current().iter().map(ToString::to_string).collect::<Vec<_>>(), ["obj3 { attr: 3 }"]);
    names.delete("obj3").unwrap();
    let notice = watch.next(PATIENCE).unwrap();
    assert!(notice.last && matches!(notice.change, Change::Deleted(_, DeleteCause::Deleted)));
    assert!(matches!(fault(watch.next(QUIET)), NameFault::NoSuchWatch { .. }));
    let mut watch = names.watch("obj2", WatchOptions::default()).unwrap();
    names.delete("obj2").unwrap();
    assert!(matches!(watch.next(PATIENCE).unwrap().change, Change::Deleted(..)));
    names.set(&record("obj2 { attr: 'asdf' }")).unwrap();
    assert!(matches!(watch.next(PATIENCE).unwrap().change, Change::Set(..)));
    assert_eq!(watch.try_next(), Ok(None));
    watch.stop().unwrap();
    let notice = watch.next(PATIENCE).unwrap();
    assert!(notice.last && matches!(notice.change, Change::Ended(_)), "told when removed");
    machine.down();
}

#[test]
fn d2pubsub() {
    let (machine, subscriber) = host();
    let publisher = Domain::attach_to_machine(machine.name()).unwrap();
    let names = subscriber.names();
    assert!(matches!(names.subscribe("111 [] attr: 10 }", 256), Err(tombolo::Error::Text { .. })));
    let queries = ["_ { fl: 1.01, attr: 10 }", "_ { str: r'test.txt' }", "_ { age > 9 }", "r'^msg_(6|7)$'"];
    let mut subscriptions = queries.map(|query| names.subscribe(query, 256).unwrap());
    let texts = [
        "msg_1 { age: 9 }",
        "msg_2 { age: 10 }",
        "msg_3 { str: 123, age: '8' }",
        "msg_4 { str: 'test.txt' }",
        "msg_5 { str: 'test.txt', attr: 10, fl: 1.01 }",
        "msg_6 { type: 'test', pattern: '123123' }",
        "msg_7 { type: 'test' }",
    ];
    let told = texts.map(|text| publisher.names().publish(text).unwrap().told);
    assert_eq!(told, [0, 1, 0, 1, 2, 1, 1]);
    let expected: [&[&str]; 4] = [&["msg_5"], &["msg_4", "msg_5"], &["msg_2"], &["msg_6", "msg_7"]];
    for (subscription, expected) in subscriptions.iter_mut().zip(expected) {
        for name in expected {
            let event = subscription.next(PATIENCE).unwrap();
            assert_eq!((event.record.name.as_str(), event.publisher, event.lost), (*name, publisher.id(), 0));
        }
        assert_eq!(subscription.try_next(), Ok(None));
    }
    let [mut stopped, .., dropped] = subscriptions;
    stopped.stop().unwrap();
    assert_eq!(publisher.names().publish(texts[4]).unwrap().told, 1, "one of two has stopped");
    assert!(matches!(fault(stopped.next(PATIENCE)), NameFault::NoSuchWatch { .. }));
    // Dropping a subscription does not wait for the monitor, so it ends a little later.
    drop(dropped);
    let over = || publisher.names().publish("msg_7").unwrap().told == 0;
    assert!(eventually(over), "somebody subscribes still");
    // A subscriber that does not read its notifications learns how many it lost, and so does the publisher.
    let mut slow = names.subscribe("flood", 4).unwrap();
    let flood = publisher.names().publisher("flood").unwrap();
    let refused: u32 = (0..10).map(|_| flood.publish(Attributes::new()).unwrap().refused).sum();
    assert_eq!(refused, 6);
    assert!((0..4).all(|_| slow.next(PATIENCE).is_ok_and(|event| event.lost == 0)));
    assert!(matches!(slow.next(QUIET), Err(tombolo::Error::TimedOut { .. })));
    flood.publish(Attributes::new()).unwrap();
    assert!(slow.next(PATIENCE).is_ok());
    machine.down();
}

#[test]
fn d2sem() {
    let (machine, domain) = host();
    let semaphore = domain.names().semaphore("sem", 1).unwrap();
    let take = || semaphore.try_acquire(1).unwrap().map(|permit| permit.forget().unwrap()).is_some();
    assert_eq!([take(), take()], [true, false]);
    semaphore.post(1).unwrap();
    semaphore.post(1).unwrap();
    assert_eq!([take(), take(), take()], [true, true, false]);
    let waits = fault(semaphore.acquire(1, QUIET));
    assert_eq!(waits, NameFault::NoPermits { name: "sem".into() });
    semaphore.clone().remove().unwrap();
    assert_eq!(fault(semaphore.post(1)), NameFault::NoSuchSemaphore { name: "sem".into() });
    machine.down();
}

/// Octopus takes its lock 100 000 times without a check; here every turn is checked.
#[test]
fn d2locksimple() {
    let (machine, domain) = host();
    let names = domain.names();
    names.set(&record("counter { count: 0, token: 0 }").persistent()).unwrap();
    let programs: Vec<Running> =
        (0..4).map(|_| machine.start_actor("host", &["count-under-lock", "lock", "500"])).collect();
    for program in programs {
        assert!(program.finish().ok().contains("counted"));
    }
    assert_eq!(names.get("counter").unwrap().integer("count"), Ok(2000), "nobody's turn was lost");
    assert_eq!(locks(&domain), [], "a lock that nobody holds is nothing");
    machine.down();
}

#[test]
fn d2barrier() {
    let (machine, domain) = host();
    let programs: Vec<Running> =
        (0..3).map(|_| machine.start_actor("host", &["meet", "my_barrier", "3", "20"])).collect();
    for program in programs {
        let said = program.finish().ok();
        let met = said.lines().filter(|line| line.starts_with("met ")).count();
        assert!(met == 20 && said.contains("met 20"), "{said}");
    }
    // Waiters that Octopus would block forever.
    let names = domain.names();
    let _first = names.barrier("b", 1).unwrap();
    assert_eq!(fault(names.barrier("b", 1)), NameFault::BarrierFull { name: "b".into(), parties: 1 });
    assert_eq!(fault(names.barrier("b", 2)), NameFault::BarrierDiffers { name: "b".into(), parties: 1 });
    machine.down();
}

/// Octopus stores records under capabilities as ids; here ids are unique names.
#[test]
fn d2getset_idcap() {
    let (machine, domain) = host();
    let names = domain.names();
    let put = |session: i64, io: i64| {
        let record = NewRecord::new("id-").sequential().with("session", session).with("io", io);
        names.set(&record).unwrap().name
    };
    let (first, second) = (put(1, 2), put(3, 4));
    assert_ne!(first, second);
    assert_eq!(names.get(&first).unwrap().to_string(), format!("{first} {{ io: 2, session: 1 }}"));
    assert_eq!(names.get(&second).unwrap().to_string(), format!("{second} {{ io: 4, session: 3 }}"));
    names.delete(&second).unwrap();
    assert_ne!(put(5, 6), second, "ids do not come again");
    machine.down();
}

/// `usr/skb/programs/objecttests.tst`, but for inheritance, which records do not have.
#[test]
fn objecttests() {
    let (machine, domain) = host();
    let names = domain.names();
    names.set(&record("anna { age: 28, hair: blonde, status: single }")).unwrap();
    names.set(&record("arnold { age: 28, weight: 100 }")).unwrap();
    let found = |query: &str| -> Vec<String> {
        names.find(query).expect(query).into_iter().map(|record| record.name).collect()
    };
    assert_eq!(found("_ { age: 28 }"), ["anna", "arnold"]);
    assert_eq!(found("_ { age: 28, hair: blonde }"), ["anna"]);
    assert_eq!((found("_ { status: _ }").len(), found("_ { does_not_exist: _ }").len()), (1, 0));
    names.set(&record("bob { age: 12, ako: john }")).unwrap();
    names.set(&record("bob { age: 13 }").merged()).unwrap();
    assert_eq!(names.get("bob").unwrap().to_string(), "bob { age: 13, ako: 'john' }");
    names.set(&NewRecord::new("arnold").without("weight").without("age")).unwrap();
    assert_eq!(names.get("arnold").unwrap().to_string(), "arnold {}");
    let version = names.get("bob").unwrap().version;
    let only = |version| record("bob { age: 14 }").only_if(Condition::Version(version));
    names.set(&only(version)).unwrap();
    assert!(matches!(fault(names.set(&only(version))), NameFault::WrongVersion { .. }));
    let previous = names.get_and_set(&record("bob { age: 15 }")).unwrap().expect("there was one");
    assert_eq!(previous.get("age"), Ok(&Value::from(14)));
    machine.down();
}

#[test]
fn a_look_up_waits_and_exports_are_records_of_the_same_names() {
    let (machine, domain) = host();
    let names = domain.names();
    assert_eq!(fault(names.wait_for("late", QUIET)), missing("late"));
    let other = machine.start_actor("host", &["serve", "late", "64", "256", "0"]);
    let found = names.wait_for("late", PATIENCE).unwrap();
    assert!(found.endpoint && found.owner.is_some());
    assert!(matches!(fault(names.delete("late")), NameFault::NotYours { .. }));
    let taken = tombolo::ChannelOptions::default().export(&domain, "late");
    assert!(matches!(taken, Err(tombolo::Error::Monitor(Fault::NameTaken { .. }))));
    let mut watch = names.watch("late", WatchOptions::default()).unwrap();
    machine.kill(
        machine
            .domains_on("host")
            .iter()
            .find(|(id, _)| Some(id.clone()) == found.owner.map(|id| id.to_string()))
            .expect("it is listed")
            .1,
    );
    let notice = watch.next(PATIENCE).unwrap();
    assert!(matches!(notice.change, Change::Deleted(_, DeleteCause::OwnerGone)), "{notice:?}");
    drop(other);
    machine.down();
}

#[test]
fn an_export_of_a_node_is_reached_from_there_and_from_elsewhere() {
    let machine = Machine::up(&MachineFile::host_board_and_user());
    let domain = Domain::attach_to_machine(machine.name()).unwrap();
    let options = tombolo::ChannelOptions::default();
    let refused = |name: &str, patience| match options.connect(&domain.within(patience), name) {
        Err(tombolo::Error::Monitor(fault)) => fault,
        other => panic!("{name}: {other:?}"),
    };
    let served = machine.start_actor("s390x-user", &["serve", "@/svc", "64", "64", "0"]);
    served.wait_for("serving");
    for (node, name) in
        [("s390x-user", "@/svc"), ("s390x-user", "@s390x-user/svc"), ("host", "@s390x-user/svc")]
    {
        let said = machine.actor(node, &["connect", name, "64", "64", "0"]).ok();
        assert!(said.contains("connected to s390x-user by"), "{node} {name}: {said}");
    }
    // Listed there, but not a name of the machine or of another node.
    let listed = machine.json(&["names", "@s390x-user/*"]);
    assert_eq!((&listed["names"][0]["name"], &listed["names"][0]["kind"]), (&"svc".into(), &"export".into()));
    assert_eq!(machine.json(&["names"])["names"], serde_json::json!([]));
    for (name, missing) in [("svc", "svc"), ("@/svc", "@host/svc"), ("@host/svc", "@host/svc")] {
        assert_eq!(refused(name, QUIET), Fault::NoSuchName { name: missing.into() });
    }
    // Each node may have its own name `svc`.
    let listener = options.export(&domain, "@host/svc").unwrap();
    assert!(matches!(
        options.export(&domain, "@/svc"),
        Err(tombolo::Error::Monitor(Fault::NameTaken { .. }))
    ));
    let said = machine.actor("host", &["connect", "@s390x-user/svc", "64", "64", "0"]).ok();
    assert!(said.contains("connected to s390x-user by"), "{said}");
    let connecting = machine.start_actor("host", &["connect", "@/svc", "64", "64", "0"]);
    let mut channel = listener.accept().unwrap();
    let mut message = Vec::new();
    channel.recv_into(&mut message).unwrap();
    channel.send(&message).unwrap();
    assert!(connecting.finish().ok().contains("connected to host by"));
    drop(listener);
    assert_eq!(refused("@/svc", QUIET), Fault::NoSuchName { name: "@host/svc".into() });
    // Impossible requests fail immediately.
    let elsewhere = options.export(&domain, "@s390x-user/mine").expect_err("it is another node's");
    assert!(matches!(elsewhere, tombolo::Error::Monitor(Fault::Refused { .. })), "{elsewhere}");
    assert!(matches!(refused("@bare0/svc", PATIENCE), Fault::Refused { .. }));
    assert!(matches!(refused("@nowhere/svc", PATIENCE), Fault::NoSuchNode { .. }));
    // The name ends with its node, and waiters for another of the node's names get an error.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| refused("@s390x-user/later", PATIENCE));
        machine.kill(machine.node("s390x-user")["pid"].as_i64().expect("a process") as i32);
        assert!(matches!(waits.join().unwrap(), Fault::NodeDown { .. }));
    });
    tombolo_admin::Machine::of(&domain).restart_node("s390x-user").unwrap();
    let gone = Fault::NoSuchName { name: "@s390x-user/svc".into() };
    assert_eq!(refused("@s390x-user/svc", QUIET), gone);
    drop(served);
    machine.down();
}

/// Kills the program on `node` that was started last.
fn kill_last(machine: &Machine, node: &str) {
    let (_, pid) = machine.domains_on(node).pop().expect("a domain");
    machine.kill(pid);
}

#[test]
fn lock_passes_on_when_holder_or_waiter_is_killed() {
    let (machine, domain) = host();
    let _holder = machine.start_actor("host", &["hold-lock", "l"]);
    _holder.wait_for("holding");
    let holder_pid = machine.domains_on("host").last().expect("the holder").1;
    let queued = machine.start_actor("host", &["queue-for-lock", "l"]);
    queued.wait_for("queueing");
    let waiting =
        |count: u32| tombolo_e2e::eventually(|| locks(&domain).iter().any(|lock| lock.waiting == count));
    assert!(waiting(1));
    let survivor = machine.start_actor("host", &["queue-for-lock", "l"]);
    assert!(waiting(2));
    let before = locks(&domain)[0].count;
    // The first in the queue dies, then the holder: the second in the queue gets the lock.
    let queued_pid = machine.domains_on("host")[machine.domains_on("host").len() - 2].1;
    machine.kill(queued_pid);
    assert!(waiting(1));
    machine.kill(holder_pid);
    let said = survivor.finish().ok();
    let token: u64 =
        said.lines().find_map(|line| line.strip_prefix("got ")).expect("it got it").parse().unwrap();
    assert!(token > before, "{token} after {before}");
    machine.down();
}

#[test]
fn killed_program_returns_permit_and_breaks_barrier() {
    let (machine, domain) = host();
    let names = domain.names();
    let holder = machine.start_actor("host", &["hold-permit", "s"]);
    holder.wait_for("holding");
    let semaphore = names.semaphore("s", 1).unwrap();
    assert!(semaphore.try_acquire(1).unwrap().is_none());
    kill_last(&machine, "host");
    let permit = semaphore.acquire(1, PATIENCE).unwrap();
    drop(permit);
    let waiting = machine.start_actor("host", &["meet", "b", "2", "1"]);
    waiting.wait_for("joined");
    let absent = machine.start_actor("host", &["stay-away", "b", "2"]);
    absent.wait_for("joined");
    kill_last(&machine, "host");
    let said = waiting.finish().ok();
    assert!(said.contains("died, so the barrier 'b' can never complete"), "{said}");
    machine.down();
}

#[test]
fn a_command_runs_under_a_lock() {
    let (machine, domain) = host();
    let said = machine.tombolo(["names", "lock", "l", "--", "sh", "-c", "echo token $TOMBOLO_FENCING_TOKEN"]);
    assert!(said.ok().starts_with("token "));
    let failed = machine.tombolo(["names", "lock", "l", "--", "sh", "-c", "exit 7"]);
    assert_eq!(failed.status, 7);
    let guard = domain.names().lock("l").unwrap().acquire(PATIENCE).unwrap();
    let held = machine.tombolo(["names", "lock", "-t", "0", "-E", "9", "l", "--", "true"]);
    assert_eq!(held.status, 9);
    guard.release().unwrap();
    assert_eq!(machine.tombolo(["names", "lock", "l"]).status, 2, "without a command it is misused");
    machine.tombolo(["names", "set", "x { a: 1 }"]).ok();
    assert_eq!(machine.tombolo(["names", "get", "x { a < 2 }"]).ok(), "x { a: 1 }\n");
    assert_eq!(machine.json(&["names"])["names"][0]["attributes"]["a"], 1);
    machine.tombolo(["names", "delete", "x"]).ok();
    assert_eq!(machine.tombolo(["names", "get", "x"]).status, 1);
    assert_eq!(machine.tombolo(["names", "set", "x { a"]).status, 1);
    machine.down();
}

#[test]
fn names_of_a_node_end_with_it() {
    let machine = Machine::up(&MachineFile::host().with_user("s390x-user", "s390x").with_vm("arm0", ""));
    let domain = Domain::attach_to_machine(machine.name()).unwrap();
    let names = domain.names();
    for node in ["host", "s390x-user", "arm0"] {
        assert!(machine.actor(node, &["use-own-node"]).ok().contains("told true"), "{node}");
    }
    let stays = machine.start_actor("s390x-user", &["set-and-stay", "@/svc { load: 3 }"]);
    stays.wait_for("set");
    let found = names.wait_for("@s390x-user/svc { load < 5 }", PATIENCE).unwrap();
    assert_eq!(found.integer("load"), Ok(3));
    assert!(!names.exists("svc").unwrap() && !names.exists("@/svc").unwrap());
    names.set(&record("@s390x-user/lasting").persistent()).unwrap();
    let mut watch = names.watch("@s390x-user/*", WatchOptions::default()).unwrap();
    assert_eq!(watch.current().len(), 2);
    let first = names.lock("@s390x-user/l").unwrap().acquire(PATIENCE).unwrap();
    let token = first.fencing_token();
    let node = machine.node("s390x-user")["pid"].as_i64().expect("a process") as i32;
    machine.kill(node);
    let last = std::iter::from_fn(|| watch.next(PATIENCE).ok()).last().expect("notices");
    assert!(
        last.last && matches!(last.change, Change::Ended(tombolo::names::EndCause::NodeLost)),
        "{last:?}"
    );
    let down = names.get("@s390x-user/svc").expect_err("the node is down");
    assert!(matches!(down, tombolo::Error::Monitor(Fault::NodeDown { .. })), "{down}");
    assert!(first.release().is_err());
    tombolo_admin::Machine::of(&domain).restart_node("s390x-user").unwrap();
    assert_eq!(names.find("@s390x-user/_").unwrap(), [], "with a node go its names");
    let again = names.lock("@s390x-user/l").unwrap().acquire(PATIENCE).unwrap();
    assert!(again.fencing_token() > token, "tokens grow across restarts");
    drop((again, stays));
    machine.down();
}
