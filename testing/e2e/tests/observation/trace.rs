//! Traces, counters and captures of running machines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;
use tombolo_e2e::{Machine, MachineFile, Running, actor_image, eventually, host_actor};

/// Records a run of the test program and returns the trace file.
fn record(machine: &Machine, on: &str, words: &[&str]) -> PathBuf {
    let file = machine.folder().join(format!("{}.tbt", on.replace([',', ':'], "-")));
    let tombolo = tombolo_e2e::tombolo();
    let image = if on.contains("arm0") || on.contains("user") { actor_image() } else { host_actor() };
    let mut command = machine.command();
    command.args(["trace", "record", "-o"]).arg(&file).arg("--").arg(tombolo).args(["run", "--on", on]);
    command.arg(image).args(words);
    tombolo_e2e::Running::start(&mut command).finish().ok();
    file
}

/// Returns the events printed by `trace show`.
fn show(machine: &Machine, file: &Path) -> Vec<Value> {
    let text = machine.tombolo(["trace".as_ref(), "show".as_ref(), file.as_os_str(), "--json".as_ref()]).ok();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
}

fn stats(machine: &Machine, file: &Path) -> Value {
    machine.json(&["trace", "stats", file.to_str().expect("a path of ours")])
}

/// Asserts that no event precedes its cause, across the nodes' clocks.
fn assert_causal(events: &[Value]) {
    let number =
        |event: &Value, key: &str| event[key].as_u64().unwrap_or_else(|| panic!("no {key}: {event}"));
    let mut last_ns = 0;
    let mut of_thread: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for (line, event) in events.iter().enumerate() {
        assert!(number(event, "time_ns") >= last_ns, "times ascend: {event}");
        last_ns = number(event, "time_ns");
        let thread = (event["domain"].as_str().expect("a domain").to_owned(), number(event, "thread"));
        let clock = number(event, "logical_clock");
        assert!(of_thread.insert(thread, clock).unwrap_or(0) < clock, "clocks of a thread ascend: {event}");
        if event["event"] == "receive" {
            let cause = number(event, "cause") as usize;
            assert!(cause < line, "a send comes first: {event}");
            let send = &events[cause];
            assert!(number(send, "logical_clock") < clock, "{send} {event}");
            for key in ["channel", "message", "bytes"] {
                assert_eq!(send[key], event[key], "{send} {event}");
            }
        }
    }
}

/// Parses the fields of a protocol buffer: numbers by value, others as bytes.
fn fields(mut input: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(input: &mut &[u8]) -> u64 {
        let length = input.iter().position(|byte| byte & 0x80 == 0).expect("the end of a number") + 1;
        let (bytes, rest) = input.split_at(length);
        *input = rest;
        bytes.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
    }
    let mut found = Vec::new();
    while !input.is_empty() {
        let tag = varint(&mut input);
        match tag & 7 {
            0 => found.push((tag >> 3, varint(&mut input), &[][..])),
            1 => {
                let (bytes, rest) = input.split_first_chunk::<8>().expect("eight bytes");
                found.push((tag >> 3, u64::from_le_bytes(*bytes), &[]));
                input = rest;
            }
            2 => {
                let length = varint(&mut input) as usize;
                let (bytes, rest) = input.split_at(length);
                found.push((tag >> 3, 0, bytes));
                input = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

/// Asserts that the export consists of packets and has a flow from each of `messages` sends to its receive.
fn assert_perfetto(machine: &Machine, file: &Path, messages: usize) {
    let export = file.with_extension("pftrace");
    let words =
        ["trace".as_ref(), "export".as_ref(), file.as_os_str(), "--perfetto".as_ref(), export.as_os_str()];
    machine.tombolo(words).ok();
    let bytes = std::fs::read(&export).expect("an export");
    let (mut from, mut to) = (BTreeSet::new(), BTreeSet::new());
    for (field, _, packet) in fields(&bytes) {
        assert_eq!(field, 1, "a trace is packets");
        for (_, _, event) in fields(packet).into_iter().filter(|(field, ..)| *field == 11) {
            for (field, value, _) in fields(event) {
                match field {
                    47 => assert!(from.insert(value), "an arrow starts twice"),
                    48 => assert!(to.insert(value), "an arrow ends twice"),
                    _ => {}
                }
            }
        }
    }
    assert_eq!((from.len(), &from), (messages, &to));
}

#[test]
fn run_on_three_node_kinds_yields_one_causal_trace() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x"));
    for (on, kernels) in [("host,s390x-user", 1), ("s390x-user,arm0", 2)] {
        let file = record(&machine, on, &["exchange", "200"]);
        let events = show(&machine, &file);
        assert_causal(&events);
        let stats = stats(&machine, &file);
        assert_eq!(
            (&stats["missed_events"], &stats["receives_without_send"]),
            (&0.into(), &0.into()),
            "{stats}"
        );
        let directions = stats["directions"].as_array().expect("directions");
        // Two channels in both directions: 200 messages each and two last messages.
        assert_eq!(directions.len(), 4, "{stats}");
        let received: u64 = directions.iter().map(|one| one["received"].as_u64().expect("a number")).sum();
        assert_eq!(received, 802, "{stats}");
        assert!(directions.iter().all(|one| one["latency_p99_ns"].is_u64()), "{stats}");
        let clocks = stats["clocks"].as_array().expect("clocks");
        assert_eq!(clocks.len(), kernels, "{stats}");
        assert!(
            clocks.iter().all(|clock| clock["known"] == true && clock["uncertain_ns"].is_u64()),
            "{stats}"
        );
        assert_perfetto(&machine, &file, 802);
        // The program that started them is in the trace, too, and comes first.
        assert_eq!(events[0]["event"], "spawn", "{}", events[0]);
    }
    machine.down();
}

#[test]
fn last_events_of_killed_domain_are_kept() {
    let machine = Machine::up(&MachineFile::host().with_user("riscv-user", "riscv64"));
    machine.tombolo(["trace", "start"]).ok();
    machine.tombolo(["trace", "start"]).fails_with(1, &["is already tracing"]);
    let victim = machine.start_actor("riscv-user", &["hold", "victim"]);
    victim.wait_for("serving");
    let survivor = machine.start_actor("host", &["lose-peer", "recv", "victim"]);
    victim.wait_for("holding");
    let [(id, pid)] = &machine.domains_on("riscv-user")[..] else { panic!("one victim") };
    machine.kill(*pid);
    victim.finish().fails_with(137, &["SIGKILL"]);
    survivor.finish().ok();

    let file = machine.folder().join("crash.tbt");
    let dump = || machine.tombolo(["trace".as_ref(), "dump".as_ref(), "-o".as_ref(), file.as_os_str()]).ok();
    // Repeated dumps while the machine traces.
    dump();
    dump();
    machine.tombolo(["trace", "stop"]).ok();
    dump();
    let events = show(&machine, &file);
    assert_causal(&events);
    let of_victim: Vec<&str> = events
        .iter()
        .filter(|event| event["domain"] == id.as_str())
        .filter_map(|event| event["event"].as_str())
        .filter(|event| !["sleep", "wake"].contains(event))
        .collect();
    assert_eq!(of_victim, ["open", "receive"], "and nothing of its end, which it did not see");
    let gone = events.iter().find(|event| event["event"] == "gone").expect("the survivor noticed");
    assert!(gone["text"].as_str().is_some_and(|text| text.ends_with("died")), "{gone}");
    let stats = stats(&machine, &file);
    let dead =
        stats["domains"].as_array().expect("domains").iter().find(|domain| domain["id"] == id.as_str());
    assert_eq!(dead.expect("the victim")["alive"], false);
    // The monitor drops the events of ended domains once they are read.
    dump();
    assert!(show(&machine, &file).is_empty());
    machine.down();
}

#[test]
fn programs_add_spans_markers_and_values() {
    let machine = Machine::up(&MachineFile::host());
    let file = record(&machine, "host", &["marks"]);
    let events = show(&machine, &file);
    let texts: Vec<&str> = events
        .iter()
        .filter(|event| !event["name"].is_null())
        .filter_map(|event| event["text"].as_str())
        .collect();
    assert_eq!(
        texts[6..12],
        [
            "begin 'outer'",
            "begin 'inner'",
            "marker 'round': 1",
            "end 'inner'",
            "value 'level': 10",
            "end 'outer'"
        ]
    );
    assert_eq!(texts.len(), 60);
    // Without a recording, marks of the program have no effect.
    machine.actor("host", &["marks"]).ok();
    machine.down();
}

#[test]
fn counters_of_stuck_domain_are_readable() {
    let machine = Machine::up(&MachineFile::host());
    let holder = machine.start_actor("host", &["hold", "stuck"]);
    holder.wait_for("serving");
    let sender = machine.start_actor("host", &["lose-peer", "send", "stuck"]);
    holder.wait_for("holding");
    // The peer receives only the first message; the sender fills the ring and sleeps.
    let channels = || machine.json(&["channels"])["channels"].as_array().expect("channels").clone();
    let is_stuck = |one: &Value| {
        let number = |key: &str| one[key].as_u64().unwrap_or(0);
        number("received") == 1 && number("depth") >= 1 && number("sent") == number("depth") + 1
    };
    assert!(eventually(|| channels().iter().any(is_stuck)), "{:?}", channels());
    assert_eq!(channels().len(), 2, "a line for each direction");
    let shown = machine.tombolo(["channels"]).ok();
    assert!(shown.starts_with("CHANNEL  LINK") && shown.contains("shm"), "{shown}");
    let [(_, holding), _] = &machine.domains_on("host")[..] else { panic!("two domains") };
    machine.kill(*holding);
    let _ = (holder.finish(), sender.finish());
    machine.down();
}

#[test]
fn open_channels_are_counted_until_closed() {
    let machine = Machine::up(&MachineFile::host());
    let server = machine.start_actor("host", &["serve", "echo", "64", "64", "0"]);
    server.wait_for("serving");
    let open = || {
        let domains = machine.json(&["ps"])["domains"].take();
        let actors = domains.as_array().expect("domains").iter().filter(|one| one["program"] == "actor");
        actors.map(|one| one["channels"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(open(), [Value::from(0)]);
    for _ in 0..3 {
        machine.actor("host", &["connect", "echo", "64", "64", "0"]).ok();
    }
    assert!(eventually(|| open() == [Value::from(0)]), "{:?}", open());
    let holder = machine.start_actor("host", &["hold", "held"]);
    holder.wait_for("serving");
    let other = machine.start_actor("host", &["lose-peer", "recv", "held"]);
    holder.wait_for("holding");
    let mut counts = open();
    counts.sort_by_key(|count| count.as_u64());
    assert_eq!(counts, [0, 1, 1].map(Value::from));
    server.signal(rustix::process::Signal::INT);
    holder.signal(rustix::process::Signal::KILL);
    let _ = (server.finish(), holder.finish(), other.finish());
    machine.down();
}

#[test]
fn captured_channel_is_replayed_to_either_end() {
    let machine = Machine::up(&MachineFile::host());
    let captures = machine.folder().join("captures");
    let actor = host_actor();
    let capture = |words: &[&str]| {
        let mut command = machine.command();
        command.arg("run").arg("--capture").arg(&captures).arg(&actor).args(words);
        tombolo_e2e::Running::start(&mut command)
    };
    let server = capture(&["serve", "echo", "64", "64", "0"]);
    server.wait_for("serving");
    capture(&["connect", "echo", "64", "64", "0"]).finish().ok();
    server.wait_for("served");
    server.signal(rustix::process::Signal::INT);
    let _ = server.finish();
    let (connecting, accepting) =
        (captures.join("channel-1-connecting.tbc"), captures.join("channel-1-accepting.tbc"));
    let shown = machine.tombolo(["capture".as_ref(), "show".as_ref(), connecting.as_os_str()]).ok();
    let said: Vec<&str> = shown.lines().filter_map(|line| line.split(" us  ").nth(1)).collect();
    let ping = ["sent      4 B \"ping\"", "received  4 B \"ping\"", "closed here", "end: 1 sent, 1 received"];
    assert_eq!(said, ping, "{shown}");

    // Replays the server's part against a real client.
    let replay = |file: &Path, name: &str| {
        let words = ["replay".as_ref(), file.as_os_str(), "--name".as_ref(), name.as_ref()];
        machine.start(words.into_iter().chain(["--timeout".as_ref(), "60".as_ref()]))
    };
    let server = replay(&connecting, "again");
    machine.actor("host", &["connect", "again", "64", "64", "0"]).ok();
    server.finish().ok();
    // A client that sends something else is detected.
    let server = replay(&connecting, "other");
    let _ = machine.actor("host", &["lose-peer", "recv", "other"]);
    server
        .finish()
        .fails_with(1, &["channel-1-connecting.tbc: at byte 64", "\"ping\" then", "\"first\" now"]);
    // Replays the client's part against a real server.
    let server = machine.start_actor("host", &["serve", "real", "64", "64", "0"]);
    server.wait_for("serving");
    replay(&accepting, "real").finish().ok();
    server.wait_for("served");
    server.signal(rustix::process::Signal::INT);
    let _ = server.finish();
    machine.down();
}

#[test]
fn damaged_files_are_refused_by_name_and_offset() {
    let machine = Machine::up(&MachineFile::host());
    let file = record(&machine, "host", &["marks"]);
    let whole = std::fs::read(&file).expect("a trace");
    let damaged = machine.folder().join("damaged.tbt");
    let read = |bytes: &[u8], words: &[&str]| {
        std::fs::write(&damaged, bytes).expect("a file");
        machine.tombolo(["trace", words[0], "damaged.tbt"].into_iter().chain(words[1..].iter().copied()))
    };
    for length in [0, 8, 31] {
        read(&whole[..length], &["stats"]).fails_with(2, &["damaged.tbt: at byte 0", "cut short"]);
    }
    read(&whole[..whole.len() - 9], &["show"])
        .fails_with(2, &["damaged.tbt: at byte ", "cut short", "--salvage"]);
    read(&whole[..whole.len() - 9], &["show", "--salvage"]).ok();
    let mut changed = whole.clone();
    changed[40] ^= 1;
    read(&changed, &["stats"]).fails_with(2, &["damaged.tbt: at byte 32", "corrupt"]);
    read(b"no trace", &["export", "--perfetto", "x.pftrace"]).fails_with(2, &["not a trace file"]);
    machine.tombolo(["trace", "show", "nowhere.tbt"]).fails_with(2, &["cannot read nowhere.tbt"]);
    machine.tombolo(["capture", "show", "damaged.tbt"]).fails_with(2, &["damaged.tbt: not a capture"]);
    machine.tombolo(["replay", "nowhere.tbc", "--name", "x"]).fails_with(2, &["cannot read nowhere.tbc"]);
    machine
        .tombolo(["trace", "record", "-o", "x.tbt", "--for", "5"])
        .fails_with(2, &["write a number and a unit"]);
    machine.tombolo(["trace", "record", "-o", "/nowhere/x.tbt"]).fails_with(1, &["create /nowhere/x.tbt"]);
    machine.down();
}

/// Starts a recording of everything that runs until stopped, and waits until the machine traces.
fn start_recording(machine: &Machine) -> (Running, PathBuf) {
    let file = machine.folder().join("all.tbt");
    let mut command = machine.command();
    command.args(["trace", "record", "-o"]).arg(&file);
    let recorder = Running::start(&mut command);
    let domain = tombolo::Domain::attach_to_machine(machine.name()).expect("the machine is up");
    assert!(eventually(|| tombolo_admin::Machine::of(&domain).is_tracing().expect("it says")));
    (recorder, file)
}

/// Counts the messages sent from each node in a trace.
fn sent_from(machine: &Machine, file: &Path) -> BTreeMap<String, usize> {
    let mut sent = BTreeMap::new();
    for event in show(machine, file).iter().filter(|event| event["event"] == "send") {
        *sent.entry(event["node"].as_str().expect("a node").to_owned()).or_default() += 1;
    }
    sent
}

#[test]
fn trace_of_virtual_machine_is_read_before_shutdown() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let (recorder, file) = start_recording(&machine);
    // The recorder is stopped during all events and continues when the machine is about to go down.
    recorder.signal(Signal::STOP);
    machine.actor("host,arm0", &["exchange", "200"]).ok();
    let down = machine.start(["down"]);
    recorder.signal(Signal::CONT);
    let said = recorder.finish();
    assert!(said.status == 0 && said.stderr.contains(" events of "), "{said}");
    assert!(!said.stderr.contains("lost with a node"), "{said}");
    down.finish().ok();
    let sent = sent_from(&machine, &file);
    assert!(sent["host"] >= 200 && sent["arm0"] >= 200, "{sent:?}");
    machine.has_ended();
}

#[test]
fn trace_of_killed_virtual_machine_is_kept() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let (recorder, file) = start_recording(&machine);
    let stays = machine.start_actor("arm0", &["export", "stays"]);
    stays.wait_for("exported");
    machine.actor("host,arm0", &["exchange", "200"]).ok();
    // The recorder writes its buffers when there is nothing more to read.
    let read = || std::fs::metadata(&file).is_ok_and(|file| file.len() > 4 * 200 * 32);
    assert!(eventually(read));
    machine.kill(machine.node("arm0")["pid"].as_i64().expect("a process") as i32);
    assert!(eventually(|| machine.node("arm0")["state"] == "down"));
    recorder.signal(Signal::INT);
    let said = recorder.finish();
    // The events of `stays` are lost, and those of the other domain if the recorder had not read them to the
    // end.
    assert!(said.stderr.contains("lost with a node, and the latest events"), "{said}");
    let sent = sent_from(&machine, &file);
    assert!(sent["host"] >= 200 && sent.get("arm0").is_some_and(|sent| *sent > 0), "{sent:?}");
    // A reader that asks for more than was kept learns what is missing.
    let late = machine.folder().join("late.tbt");
    let dump = machine.tombolo(["trace".as_ref(), "dump".as_ref(), "-o".as_ref(), late.as_os_str()]);
    dump.ok();
    assert!(dump.stderr.contains("the trace of node arm0 is lost"), "{dump}");
    drop(stays);
    machine.down();
}
