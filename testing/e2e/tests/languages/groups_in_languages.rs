//! Groups whose members are programs in Rust, C and Python.

use std::collections::BTreeMap;
use std::path::Path;

use tombolo_e2e::c::{AARCH64, HOST, Toolchain};
use tombolo_e2e::python::Python;
use tombolo_e2e::{Machine, MachineFile, Running};

/// Received messages of each survivor: by its number, the count and hash of all messages per source.
type Took = BTreeMap<String, BTreeMap<String, String>>;

fn took(said: &[String]) -> Took {
    let mut members = Took::new();
    for text in said {
        let mut own = String::new();
        for line in text.lines() {
            // `tombolo run` prefixes a job's lines with rank and node.
            let line = line.split_once("] ").map_or(line, |(_, rest)| rest);
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["member", id] => (*id).clone_into(&mut own),
                ["took", source, count, hash] => {
                    let all = members.entry(own.clone()).or_default();
                    all.insert((*source).to_owned(), format!("{count} {hash}"));
                }
                _ => {}
            }
        }
        assert!(text.contains(" true"), "each was told of the death: {text}");
    }
    members
}

fn compiled(machine: &Machine, toolchain: Toolchain, library: &Path, node: &str) -> String {
    let program = machine.folder().join(format!("group-{node}"));
    toolchain.build(&["testing/e2e/c/group.c"], library, &program);
    program.display().to_string()
}

#[test]
fn survivors_in_all_languages_deliver_the_same() {
    let host = HOST.library().expect("this test depends on it");
    let Some(arm) = AARCH64.library() else { return };
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let Some(python) = Python::of(&machine) else { return machine.down() };
    let on_host = compiled(&machine, HOST, &host, "host");
    let on_arm = compiled(&machine, AARCH64, &arm, "arm0");
    for order in ["per-source", "total"] {
        let words = ["in-languages", "5", "60", order];
        let in_c = |node: &str, program: &str, words: &[&str]| {
            machine.start(["run", "--on", node, program].iter().chain(words))
        };
        let mut in_python = python.command(&machine);
        in_python.arg("group_member.py").args(words);
        let survivors = [
            machine.start_actor("host", &["group", words[0], words[1], words[2], words[3]]),
            in_c("host", &on_host, &words),
            in_c("arm0", &on_arm, &words),
            Running::start(&mut in_python),
        ];
        // A count of 0 makes it kill itself after it has sent and forwarded some messages.
        let victim = in_c("arm0", &on_arm, &["in-languages", "5", "0", order]).finish();
        assert_eq!(victim.status, 137, "it kills itself: {victim}");
        let said: Vec<String> = survivors.into_iter().map(|member| member.finish().ok()).collect();
        let members = took(&said);
        assert_eq!(members.len(), 4, "{said:?}");
        for (one, of_one) in &members {
            // With an order per source a member does not count itself; with a total order there is one line
            // for all.
            assert_eq!(of_one.len(), if order == "total" { 1 } else { 4 }, "{one}: {of_one:?}");
            for (other, of_other) in &members {
                for (source, what) in of_one.iter().filter(|(source, _)| *source != other) {
                    assert_eq!(of_other.get(source), Some(what), "{order}, of {source}: {one} and {other}");
                }
            }
        }
    }
    machine.down();
}
