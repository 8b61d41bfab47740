//! Host files granted to a job, on every kind of node.

use std::path::PathBuf;

use tombolo_e2e::{Finished, Machine, MachineFile, Running};

/// A machine and a folder of files for it.
struct GrantedFiles {
    machine: Machine,
    files: PathBuf,
}

impl GrantedFiles {
    fn new(file: &MachineFile) -> GrantedFiles {
        let machine = Machine::up(file);
        let files = machine.folder().join("files");
        std::fs::create_dir_all(files.join("data/below")).unwrap();
        std::fs::write(files.join("secret"), "nobody may see this").unwrap();
        std::fs::write(files.join("data/hello"), "hello from the host").unwrap();
        std::fs::write(files.join("data/below/deep"), "deep").unwrap();
        GrantedFiles { machine, files }
    }

    /// Arguments of `tombolo run` with the grants, relative to the folder of files.
    fn words(&self, on: &str, grants: &[&str], words: &[&str]) -> Vec<String> {
        let grants = grants.iter().flat_map(|grant| ["--grant", *grant]);
        let all = ["run", "--on", on].into_iter().chain(grants);
        let mut all: Vec<String> = all.map(str::to_owned).collect();
        let is_host = on.split(',').all(|node| node == "host");
        let image = if is_host { tombolo_e2e::host_actor() } else { tombolo_e2e::actor_image() };
        all.push(image.display().to_string());
        all.extend(words.iter().map(|&word| word.to_owned()));
        all
    }

    fn start(&self, on: &str, grants: &[&str], words: &[&str]) -> Running {
        let mut command = self.machine.command();
        Running::start(command.current_dir(&self.files).args(self.words(on, grants, words)))
    }

    fn run(&self, on: &str, grants: &[&str], words: &[&str]) -> Finished {
        self.start(on, grants, words).finish()
    }

    /// Writes a file of `length` pseudo-random bytes; returns its length and sum.
    fn write(&self, name: &str, length: usize) -> String {
        let mut state = length as u64 | 1;
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.extend_from_slice(&(state >> 3).to_le_bytes());
        }
        bytes.truncate(length);
        std::fs::write(self.files.join(name), &bytes).unwrap();
        let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("sum {length} {sum:016x}\n")
    }

    fn down(self) {
        self.machine.down();
    }
}

/// Tests all permitted operations on one node.
fn check_permitted_operations(place: &GrantedFiles, on: &str) {
    let said = place
        .run(on, &["data", "secret:ro"], &["file-show", "data/hello", "./data/below/../hello", "secret"])
        .ok();
    assert!(said.contains("data/hello: hello from the host\n"), "{on}: {said}");
    assert!(said.contains("data/below/../hello: hello from the host\n"), "{on}: {said}");
    assert!(said.contains("secret: nobody may see this\n"), "{on}: {said}");
    // By the absolute path, too.
    let path = place.files.join("data/hello").canonicalize().unwrap().display().to_string();
    let said = place.run(on, &["data/hello"], &["file-show", &path]).ok();
    assert!(said.contains("hello from the host"), "{on}: {said}");
    let listed = place.run(on, &["secret:rw", "data"], &["file-list", "data", "data/below"]).ok();
    assert!(listed.contains("granted: data/ secret\n"), "{on}: {listed}");
    assert!(listed.contains("data: 2 names: below/ hello\ndata: Folder, writable false\n"), "{on}: {listed}");
    assert!(listed.contains("data/below: 1 names: deep\n"), "{on}: {listed}");
    for length in [0, 1, 256 << 10, (1 << 20) + 77] {
        let sum = place.write("data/some", length);
        assert_eq!(place.run(on, &["data"], &["file-sum", "data/some"]).ok(), sum, "{on}");
    }
    std::fs::create_dir_all(place.files.join("out")).unwrap();
    let copied = place.run(on, &["data", "out:rw"], &["file-copy", "data/some", "out/copy"]).ok();
    assert_eq!(copied, format!("copied {}\n", (1 << 20) + 77), "{on}");
    let (from, to) = (place.files.join("data/some"), place.files.join("out/copy"));
    assert!(std::fs::read(from).unwrap() == std::fs::read(&to).unwrap(), "{on}: the copy is another");
    std::fs::remove_file(to).unwrap();
}

/// Tests all refused operations on one node.
fn check_refused_operations(place: &GrantedFiles, on: &str) {
    let link = |to: &str, name: &str| {
        let _ = std::os::unix::fs::symlink(to, place.files.join("data").join(name));
    };
    link("../secret", "out");
    link("/etc/passwd", "absolute");
    link("hello", "in");
    let paths = [
        "data/hello",
        "data/../secret",
        "data/below/../../secret",
        "data/out",
        "data/absolute",
        "data/in",
        "data/none",
        "data/below",
        "data/hello/x",
        "secret",
        "/etc/passwd",
        "",
    ];
    let words: Vec<&str> = ["file-try"].into_iter().chain(paths).collect();
    let said = place.run(on, &["data"], &words).ok();
    let read_only = "it was granted for reading only";
    for (path, reading, writing) in [
        ("data/hello", "opened", read_only),
        ("data/../secret", "it leads out of what was granted", read_only),
        ("data/below/../../secret", "it leads out of what was granted", read_only),
        ("data/out", "it leads out of what was granted", read_only),
        ("data/absolute", "it leads out of what was granted", read_only),
        ("data/in", "opened", read_only),
        ("data/none", "there is no such file", read_only),
        ("data/below", "it is a folder", read_only),
        ("data/hello/x", "is not a folder", read_only),
        ("secret", "it was not granted", "it was not granted"),
        ("/etc/passwd", "it was not granted", "it was not granted"),
        ("", "it was not granted", "it was not granted"),
    ] {
        for (what, expected) in [("read", reading), ("write", writing)] {
            let start = format!("{path}: {what}: ");
            let line = said.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
            assert!(line.contains(expected), "{on}: {path:?}: {expected:?} is not in {line:?}\n{said}");
        }
    }
    // A writable folder does not permit paths that lead out of it.
    let said = place.run(on, &["data:rw"], &["file-try", "data/out", "data/../secret", "data/hello"]).ok();
    assert!(said.contains("data/out: write: cannot open data/out: it leads out"), "{on}: {said}");
    assert!(said.contains("data/../secret: write: cannot open data/../secret: it leads out"), "{on}: {said}");
    assert!(said.contains("data/hello: write: opened"), "{on}: {said}");
    assert_eq!(std::fs::read_to_string(place.files.join("secret")).unwrap(), "nobody may see this");
    place.run(on, &[], &["file-show", "data/hello"]).fails_with(1, &["granted no files", "--grant"]);
}

#[test]
fn files_of_the_host_are_read_and_written_on_it() {
    let place = GrantedFiles::new(&MachineFile::host());
    check_permitted_operations(&place, "host");
    check_refused_operations(&place, "host");
    place.down();
}

#[test]
fn truncated_file_reads_to_its_new_end() {
    let place = GrantedFiles::new(&MachineFile::host());
    place.write("data/shrinks", 8 << 20);
    let mut reading = place.start("host", &["data"], &["file-shrinks", "data/shrinks"]);
    reading.wait_for("reading");
    let file = std::fs::File::options().write(true).open(place.files.join("data/shrinks")).unwrap();
    file.set_len(100_000).unwrap();
    std::io::Write::write_all(&mut reading.stdin(), b"x").unwrap();
    let said = reading.finish().ok();
    assert!(said.contains("ended after 100000 of 8388608"), "{said}");
    place.down();
}

#[test]
fn more_readers_than_buffers_take_turns() {
    let place = GrantedFiles::new(&MachineFile::host());
    place.write("data/many", 50_000);
    let said = place.run("host", &["data"], &["file-many", "data/many"]).ok();
    assert!(said.contains("many were right"), "{said}");
    place.down();
}

#[test]
fn only_children_are_served_within_limits() {
    let place = GrantedFiles::new(&MachineFile::host());
    let mut owner = place.start("host", &["data"], &["file-tell-name"]);
    let said = owner.wait_for("\n");
    let name = said.trim().trim_start_matches("name ");
    // A program of the same user, and one of a job with grants of its own.
    for grants in [&[][..], &["secret"]] {
        let said = place.run("host", grants, &["file-intrude", name]).ok();
        assert!(said.contains("turned away"), "{said}");
    }
    drop(owner.stdin());
    owner.finish().ok();
    let said = place.run("host", &[], &["file-serve", "data/hello"]).ok();
    for (what, how) in
        [("within limits", 0), ("more memory", 1), ("one more", 1), ("the next", 0), ("the last", 0)]
    {
        assert!(said.contains(&format!("{what}: Exited {{ status: {how} }}")), "{what}: {said}");
    }
    place.down();
}

#[test]
fn invalid_client_loses_only_its_channel() {
    let place = GrantedFiles::new(&MachineFile::host());
    place.write("data/some", 300_000);
    let said = place.run("host", &["data"], &["file-hostile", "data/some"]).ok();
    assert!(said.contains("nobody else noticed"), "{said}");
    place.down();
}

/// Clients and servers killed during transfers leave nothing, and the other domains of a job continue.
#[test]
fn killed_clients_and_servers_leave_nothing() {
    let place = GrantedFiles::new(&MachineFile::host());
    place.write("data/large", 4 << 20);
    let job = place.start("host", &["data"], &["file-for-ever", "data/large"]);
    job.wait_for("reading");
    let domains = place.machine.domains_on("host");
    let server = job.pid();
    let before = place.machine.open_descriptors(server);
    assert!(before > 0);
    // The client dies: the job reports that, and its server ends with it.
    place.machine.kill(domains[0].1);
    job.finish().fails_with(137, &["SIGKILL"]);
    // The server, which is `tombolo run` itself, dies: the monitor ends the job.
    let job = place.start("host", &["data"], &["file-for-ever", "data/large"]);
    job.wait_for("reading");
    place.machine.kill(job.pid());
    assert_eq!(job.finish().status, 137);
    assert!(tombolo_e2e::eventually(|| place.machine.domains_on("host").is_empty()));
    // Its resources are freed: another job does the same.
    let said = place.run("host", &["data"], &["file-many", "data/hello"]).ok();
    assert!(said.contains("many were right"), "{said}");
    place.down();
}

#[test]
fn invalid_grants_are_reported_at_start() {
    let place = GrantedFiles::new(&MachineFile::host());
    for (grant, status, why) in [
        ("none", 2, "No such file"),
        ("none/new:rw", 2, "No such file"),
        (":rw", 2, "there is no path"),
        ("/dev/null", 2, "No such device"),
    ] {
        place.run("host", &[grant], &["file-show"]).fails_with(status, &[why]);
    }
    place.run("host", &["data", "./data:rw"], &["file-show"]).fails_with(2, &["granted twice"]);
    place.down();
}
#[test]
fn files_of_the_host_are_accessed_on_other_nodes() {
    let place = GrantedFiles::new(&MachineFile::host().with_vm("arm0", "").with_user("s390x-user", "s390x"));
    for on in ["arm0", "s390x-user"] {
        check_permitted_operations(&place, on);
        check_refused_operations(&place, on);
        // Restore the folder for the next node.
        for left in ["absolute", "in", "out", "some"] {
            std::fs::remove_file(place.files.join("data").join(left)).unwrap();
        }
    }
    // All nodes read a large file at the same time.
    let sum = place.write("data/large", 64 << 20);
    let said = place.run("host,arm0,s390x-user", &["data/large"], &["file-sum", "data/large"]).ok();
    assert_eq!(said.matches(sum.trim_end()).count(), 3, "{said}");
    place.down();
}
