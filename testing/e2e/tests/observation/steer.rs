//! Changes by a steering page beyond a single domain: moving a domain to another node, starting jobs, and
//! setting the speed of processors.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tombolo_e2e::web::{Answer, Web};
use tombolo_e2e::{Machine, MachineFile, eventually, host_actor, image, restartable_actor_image};

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn refusal(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{}", answer.text());
    answer.json()["error"].as_str().expect("why").to_owned()
}

#[test]
fn restartable_domain_moves_to_another_isa() {
    let machine = Machine::up(&MachineFile::host().with_user("s390x-user", "s390x"));
    let (actor, fixed) = (restartable_actor_image(), image("pingpong"));
    let web = Web::start(&machine, &["--steer", "--images", path(&actor), "--images", path(&fixed)]);
    let start = |image: &Path, words: &[&str]| {
        let started = web.post("/api/start", &json!({"image": image, "node": "host", "arguments": words}));
        started.ok()["domain"].as_str().expect("an id").to_owned()
    };
    let move_to = |domain: &str, node: &str| {
        web.post("/api/move", &json!({"domain": domain, "node": node, "grace_ms": 1000}))
    };
    let mut live = web.watch(&json!([{"id": "d", "view": "domains", "state": "all"}]));

    let before = start(&actor, &["sleep", "600"]);
    let row = live.row("d", "the domain", |row| row["key"] == before.as_str());
    assert_eq!((&row["restartable"], &row["isa"]), (&json!(true), &json!(std::env::consts::ARCH)));
    let after = move_to(&before, "s390x-user").ok()["domain"].as_str().expect("an id").to_owned();
    assert_ne!(after, before);
    let row = live.row("d", "the domain elsewhere", |row| row["key"] == after.as_str());
    assert_eq!(
        (&row["node"], &row["isa"], &row["arguments"]),
        (&json!("s390x-user"), &json!("s390x"), &json!("sleep 600"))
    );
    let row = live.row("d", "its end here", |row| row["key"] == before.as_str() && !row["exit"].is_null());
    assert_eq!(row["exit"], "killed by SIGTERM");
    // It continues its work on the new node.
    let mut output = web.watch(&json!([{"id": "o", "view": "output", "domain": after}]));
    let _ = output.until("its output", |message| message.to_string().contains("sleeping"));

    // Impossible moves are refused.
    assert!(refusal(&move_to(&after, "s390x-user"), 409).contains("already"));
    assert!(refusal(&move_to(&after, "mars"), 404).contains("mars"));
    let _ = refusal(&move_to(&before, "host"), 404);
    let row = live.row("d", "the domain elsewhere", |row| row["key"] == after.as_str());
    assert!(row["exit"].is_null(), "{row}");

    assert_eq!(web.stop().status, 0);
    assert!(eventually(|| machine.domains_on("s390x-user").is_empty()), "it goes on without who moved it");
    machine.down();
}

#[test]
fn job_gets_ranks_environment_and_files() {
    let machine = Machine::up(&MachineFile::host());
    let actor = host_actor();
    let web = Web::start(&machine, &["--steer", "--images", path(&actor)]);
    let start = |ranks: Value| {
        let job = json!({
            "image": actor, "arguments": ["sleep", "600"], "ranks": ranks, "environment": {"COLOUR": "blue"},
            "grants": [format!("{}:rw", machine.folder().display())],
        });
        web.post("/api/start", &job)
    };
    let actors = || {
        machine.processes("sleep 600").into_iter().filter(|pid| environment(*pid).contains("TOMBOLO_RANK="))
    };
    let job = start(json!([{"node": "host", "count": 2}])).ok()["domain"].as_str().expect("an id").to_owned();
    let mut ranks = Vec::new();
    assert!(eventually(|| {
        let all = machine.json(&["ps"]);
        let all = all["domains"].as_array().expect("a list");
        ranks = all.iter().filter(|domain| domain["parent"] == job.as_str()).cloned().collect();
        ranks.len() == 2
    }));
    for rank in &ranks {
        let mut output = web.watch(&json!([{"id": "o", "view": "output", "domain": rank["id"]}]));
        let _ = output.until("its output", |message| message.to_string().contains("sleeping"));
    }
    assert_eq!(actors().count(), 2);
    for pid in actors() {
        let environment = environment(pid);
        assert!(
            environment.contains("TOMBOLO_SIZE=2\0") && environment.contains("COLOUR=blue\0"),
            "{environment}"
        );
        assert!(environment.contains("TOMBOLO_FILES="), "{environment}");
    }
    let _ = web.post("/api/stop", &json!({"domain": job})).ok();
    assert!(eventually(|| actors().count() == 0), "all of it is stopped");

    // Invalid requests fail immediately.
    assert!(refusal(&start(json!([{"node": "mars", "count": 1}])), 404).contains("mars"));
    assert!(refusal(&start(json!([{"node": "host", "count": 0}])), 400).contains("from 1 to 4096"));

    // The job ends with the server that started it.
    let _ = start(json!([{"node": "host", "count": 3}])).ok();
    assert!(eventually(|| actors().count() == 3));
    assert_eq!(web.stop().status, 0);
    assert!(eventually(|| machine.domains_on("host").is_empty()));
    machine.down();
}

/// Returns the initial environment of a process; empty if it is gone.
fn environment(pid: i32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()).into_owned()
}

/// A fake sysfs with as many processors as this host, as shown by a kernel that can set frequencies.
struct Sysfs {
    folder: PathBuf,
    processors: usize,
}

impl Sysfs {
    const FORMER: [(&str, &str); 3] =
        [("scaling_governor", "schedutil"), ("scaling_min_freq", "800000"), ("scaling_max_freq", "3000000")];

    fn new(machine: &Machine) -> Sysfs {
        let stat = std::fs::read_to_string("/proc/stat").expect("a kernel that counts");
        let is_processor = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        let sysfs = Sysfs {
            folder: machine.folder().join("sys"),
            processors: stat.lines().filter(is_processor).count(),
        };
        for processor in 0..sysfs.processors {
            let folder = sysfs.folder_of(processor);
            std::fs::create_dir_all(&folder).expect("a folder");
            let fixed = [
                ("cpuinfo_min_freq", "800000"),
                ("cpuinfo_max_freq", "3000000"),
                ("scaling_cur_freq", "1200000"),
                ("scaling_available_governors", "schedutil performance powersave"),
            ];
            for (name, value) in fixed.iter().chain(&Sysfs::FORMER) {
                std::fs::write(folder.join(name), format!("{value}\n")).expect("a file");
            }
        }
        sysfs
    }

    fn folder_of(&self, processor: usize) -> PathBuf {
        self.folder.join(format!("devices/system/cpu/cpu{processor}/cpufreq"))
    }

    fn read_setting(&self, processor: usize, name: &str) -> String {
        let path = self.folder_of(processor).join(name);
        std::fs::read_to_string(path).expect("a file").trim_end().to_owned()
    }

    /// Whether all settings are as the kernel had them at first.
    fn is_restored(&self) -> bool {
        let is_former = |processor| {
            Sysfs::FORMER.iter().all(|(name, value)| self.read_setting(processor, name) == *value)
        };
        (0..self.processors).all(is_former)
    }
}

/// Brings up a machine whose host has adjustable frequencies.
fn with_frequencies() -> (Machine, Sysfs) {
    let mut machine = Machine::new(&MachineFile::host());
    let sysfs = Sysfs::new(&machine);
    machine.bring_up_with(&[("TOMBOLO_SYSFS", &sysfs.folder)]);
    (machine, sysfs)
}

fn set(web: &Web, change: &Value) -> Answer {
    web.post("/api/frequency", change)
}

#[test]
fn processor_frequencies_are_set_and_restored() {
    let (machine, sysfs) = with_frequencies();
    let looking = Web::start(&machine, &[]);
    let powersave = json!({"node": "host", "cores": [], "governor": "powersave"});
    assert_eq!(set(&looking, &powersave).status, 403);
    assert!(sysfs.is_restored());

    let web = Web::start(&machine, &["--steer"]);
    let mut live = web.watch(&json!([{"id": "n", "view": "node", "node": "host"}]));
    let row = live.row("n", "what can be set", |row| row["core_list"][0]["governor"] == "schedutil");
    assert_eq!(row["governors"], json!(["schedutil", "performance", "powersave"]));
    assert_eq!(row["core_list"][0]["max_khz"], 3_000_000);

    let _ = set(&web, &powersave).ok();
    let _ = set(&web, &json!({"node": "host", "cores": [0], "max_khz": 2_000_000})).ok();
    assert!(
        (0..sysfs.processors)
            .all(|processor| sysfs.read_setting(processor, "scaling_governor") == "powersave")
    );
    assert_eq!(sysfs.read_setting(0, "scaling_max_freq"), "2000000");
    let _ = live.row("n", "the change", |row| {
        let core = &row["core_list"][0];
        core["governor"] == "powersave" && core["ceiling_khz"] == 2_000_000
    });

    // Invalid settings change nothing.
    for (change, said) in [
        (json!({"node": "host", "cores": [], "governor": "warp"}), "no governor warp"),
        (json!({"node": "host", "cores": [0], "max_khz": 9_000_000}), "supports 800000 to 3000000 kHz"),
        (json!({"node": "host", "cores": [0], "min_khz": 2_500_000}), "cannot run from 2500000 to 2000000"),
        (json!({"node": "host", "cores": [999], "min_khz": 900_000}), "processor 999"),
    ] {
        let answer = set(&web, &change);
        assert_eq!(answer.status, 409, "{}", answer.text());
        assert!(answer.json()["error"].to_string().contains(said), "{}", answer.text());
    }
    assert_eq!(set(&web, &json!({"node": "host", "cores": []})).status, 400);
    assert_eq!(set(&web, &json!({"node": "mars", "cores": [], "governor": "powersave"})).status, 404);
    assert_eq!(sysfs.read_setting(0, "scaling_max_freq"), "2000000");

    let _ = web.post("/api/restore", &json!({"node": "host"})).ok();
    assert!(sysfs.is_restored());

    // The settings of a client are restored when it leaves, however it ends.
    let _ = set(&web, &powersave).ok();
    assert_eq!(web.stop().status, 0);
    assert!(eventually(|| sysfs.is_restored()), "not given back when the server ended");
    let web = Web::start(&machine, &["--steer"]);
    let _ = set(&web, &powersave).ok();
    machine.kill(web.pid());
    assert!(eventually(|| sysfs.is_restored()), "not given back when the server was killed");
    assert_eq!(looking.stop().status, 0);
    machine.down();
}

#[test]
fn frequencies_are_restored_after_monitor_is_killed() {
    let (machine, sysfs) = with_frequencies();
    let web = Web::start(&machine, &["--steer"]);
    let _ = set(&web, &json!({"node": "host", "cores": [], "governor": "performance", "min_khz": 2_000_000}))
        .ok();
    assert!(!sysfs.is_restored());
    machine.kill(machine.pid_of("host"));
    assert!(eventually(|| sysfs.is_restored()), "not given back");
    assert_eq!(web.stop().status, 0);
    machine.has_ended();
}
