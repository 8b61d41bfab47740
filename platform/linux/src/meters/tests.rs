//! Tests with a fake machine of files that has every meter: the machine that runs the tests may have none.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::*;

/// A fake machine, removed when dropped.
struct Machine {
    root: PathBuf,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Machine {
    fn new(name: &str) -> Machine {
        let root = std::env::temp_dir().join(format!("tombolo-meters-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::create_dir_all(root.join("sys")).unwrap();
        Machine { root }
    }

    fn paths(&self) -> SystemPaths {
        SystemPaths { proc: self.root.join("proc"), sys: self.root.join("sys") }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<str>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.as_ref()).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap().trim().to_owned()
    }

    /// Creates a machine with processors of 1 to 3 GHz without limits set.
    fn with_processors(name: &str, count: usize) -> Machine {
        let machine = Machine::new(name);
        for index in 0..count {
            for (file, text) in [
                ("cpuinfo_min_freq", "1000000"),
                ("cpuinfo_max_freq", "3000000"),
                ("scaling_min_freq", "1000000"),
                ("scaling_max_freq", "3000000"),
                ("scaling_cur_freq", "2000000"),
                ("scaling_governor", "schedutil"),
                ("scaling_available_governors", "performance powersave schedutil"),
            ] {
                machine.write(&cpu(index, file), format!("{text}\n"));
            }
        }
        machine
    }

    /// Returns the governor, minimum and maximum of each of its first `count` processors.
    fn settings(&self, count: usize) -> Vec<[String; 3]> {
        let files = ["scaling_governor", "scaling_min_freq", "scaling_max_freq"];
        (0..count).map(|index| files.map(|file| self.read(&cpu(index, file)))).collect()
    }
}

fn cpu(index: usize, file: &str) -> String {
    format!("sys/devices/system/cpu/cpu{index}/cpufreq/{file}")
}

fn ledger() -> OwnedFd {
    rustix::fs::memfd_create("ledger", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
}

#[test]
fn loads_are_since_the_last_reading() {
    let machine = Machine::new("loads");
    machine.write("proc/stat", "cpu 1 1 1 1\ncpu0 100 0 0 300 0 0 0 0\ncpu1 0 0 0 10 0 0 0 0\nintr 5\n");
    machine.write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 40 kB\n");
    let (mut reader, mut loads) = (Reader::default(), LoadMeter::open(&machine.paths()));
    assert_eq!(loads.processors(&mut reader), [250, 0]);
    machine.write("proc/stat", "cpu 1 1 1 1\ncpu0 175 0 0 325 0 0 0 0\ncpu1 0 0 0 10 0 0 0 0\nintr 5\n");
    assert_eq!(loads.processors(&mut reader), [750, 0]);
    // A new processor, and one whose counters start again.
    machine.write("proc/stat", "cpu0 1 0 0 1\ncpu1 0 0 0 11\ncpu2 5 0 0 5\n");
    assert_eq!(loads.processors(&mut reader), [750, 0, 500]);
    assert_eq!(loads.memory(&mut reader), MemoryUsage { used_bytes: 60 * 1024, total_bytes: 100 * 1024 });
    fs::remove_dir_all(machine.path("proc")).unwrap();
    let mut nothing = LoadMeter::open(&machine.paths());
    assert_eq!(nothing.processors(&mut reader), []);
    assert_eq!(nothing.memory(&mut reader), MemoryUsage::default());
}

#[test]
fn frequencies_are_read_in_turns() {
    let machine = Machine::with_processors("turns", 20);
    let (mut reader, mut frequencies) = (Reader::default(), FrequencyMeter::open(&machine.paths()));
    frequencies.sample(&mut reader, 20);
    let seen = |frequencies: &FrequencyMeter| frequencies.processors().filter(|each| each.khz > 0).count();
    assert_eq!(seen(&frequencies), 16);
    frequencies.sample(&mut reader, 20);
    assert_eq!(seen(&frequencies), 20);
    assert_eq!(frequencies.governors(), ["performance", "powersave", "schedutil"]);
    let expected = Frequency {
        khz: 2_000_000,
        min_khz: 1_000_000,
        max_khz: 3_000_000,
        floor_khz: 1_000_000,
        ceiling_khz: 3_000_000,
        governor: Some(2),
    };
    assert!(frequencies.processors().all(|each| *each == expected));
    // A processor without a list of governors still reports its current one.
    machine.write(&cpu(12, "scaling_governor"), "own\n");
    frequencies.sample(&mut reader, 20);
    assert_eq!(frequencies.governors().last().map(String::as_str), Some("own"));
    assert_eq!(frequencies.processors().nth(12).and_then(|each| each.governor), Some(3));
    frequencies.sample(&mut reader, 0);
    assert_eq!(frequencies.processors().count(), 0);
}

#[test]
fn without_sysfs_cpuinfo_gives_the_frequencies() {
    let machine = Machine::new("cpuinfo");
    machine.write("proc/cpuinfo", "processor: 0\ncpu MHz: 2400.5\n\nprocessor: 9\ncpu MHz: 1\n");
    let (mut reader, mut frequencies) = (Reader::default(), FrequencyMeter::open(&machine.paths()));
    frequencies.sample(&mut reader, 2);
    let khz: Vec<u32> = frequencies.processors().map(|each| each.khz).collect();
    assert_eq!(khz, [2_400_500, 0]);
    assert!(frequencies.governors().is_empty());
}

#[test]
fn power_is_that_of_packages_memory_and_sensors() {
    let machine = Machine::new("power");
    let zone = |zone: &str, name: &str, energy: &str| {
        machine.write(&format!("sys/class/powercap/{zone}/name"), name);
        machine.write(&format!("sys/class/powercap/{zone}/energy_uj"), energy);
        machine.write(&format!("sys/class/powercap/{zone}/max_energy_range_uj"), "1000000");
    };
    zone("intel-rapl:0", "package-0\n", "900000\n");
    zone("intel-rapl:0:0", "core\n", "1\n");
    zone("intel-rapl:0:1", "dram\n", "5000\n");
    zone("intel-rapl:1", "psys\n", "1\n");
    zone("intel-rapl-mmio:0", "package-0\n", "900000\n");
    zone("dtpm", "tree\n", "1\n");
    machine.write("sys/class/hwmon/hwmon3/name", "gpu\n");
    machine.write("sys/class/hwmon/hwmon3/power1_average", "12345678\n");
    machine.write("sys/class/hwmon/hwmon3/power2_input", "nonsense\n");
    machine.write("sys/class/hwmon/hwmon3/power2_label", "PPT\n");
    let mut reader = Reader::default();
    let mut power = PowerMeters::open(&machine.paths(), &mut reader);
    let readings = |power: &PowerMeters| -> Vec<(String, u32)> {
        power.meters().map(|meter| (meter.name.to_owned(), meter.power_mw)).collect()
    };
    let expected = |package, memory| {
        [("package-0", package), ("package-0 dram", memory), ("gpu power1", 12_345), ("gpu PPT", 0)]
            .map(|(name, power)| (name.to_owned(), power))
    };
    power.sample(&mut reader, 5_000_000_000);
    assert_eq!(readings(&power), expected(0, 0));
    // The counter wraps at one joule; both in a tenth of a second.
    zone("intel-rapl:0", "package-0\n", "100000\n");
    zone("intel-rapl:0:1", "dram\n", "6000\n");
    power.sample(&mut reader, 5_100_000_000);
    assert_eq!(readings(&power), expected(2000, 10));
    for meter in 0..40 {
        machine.write(&format!("sys/class/hwmon/hwmon{meter}/name"), "many\n");
        machine.write(&format!("sys/class/hwmon/hwmon{meter}/power1_input"), "1000\n");
    }
    assert_eq!(PowerMeters::open(&machine.paths(), &mut reader).meters().count(), MAX_METERS);
}

#[test]
fn restore_and_drop_restore_the_settings() {
    let machine = Machine::with_processors("back", 3);
    let before = machine.settings(3);
    let mut control = FrequencyControl::new(&machine.paths(), None);
    let fast = FrequencySettings {
        governor: Some("performance".into()),
        min_khz: Some(2_000_000),
        ..FrequencySettings::default()
    };
    control.set(&fast).unwrap();
    let one = FrequencySettings {
        processors: vec![1],
        min_khz: Some(1_200_000),
        max_khz: Some(1_500_000),
        ..FrequencySettings::default()
    };
    control.set(&one).unwrap();
    let text = |words: [&str; 3]| words.map(str::to_owned);
    let others = text(["performance", "2000000", "3000000"]);
    let expected = [others.clone(), text(["performance", "1200000", "1500000"]), others];
    assert_eq!(machine.settings(3), expected);
    assert!(control.has_changed());
    control.restore();
    assert_eq!(machine.settings(3), before);
    assert!(!control.has_changed());
    control.set(&fast).unwrap();
    drop(control);
    assert_eq!(machine.settings(3), before);
}

#[test]
fn impossible_changes_are_refused_with_the_reason() {
    let machine = Machine::with_processors("refused", 2);
    let before = machine.settings(2);
    let mut control = FrequencyControl::new(&machine.paths(), None);
    let mut refused = |change: FrequencySettings| control.set(&change).unwrap_err().to_string();
    let turbo = refused(FrequencySettings { governor: Some("turbo".into()), ..FrequencySettings::default() });
    assert_eq!(turbo, "processor 0 has no governor turbo; it offers performance powersave schedutil");
    let range = refused(FrequencySettings { min_khz: Some(500_000), ..FrequencySettings::default() });
    assert_eq!(
        range,
        "processor 0 cannot run from 500000 to 3000000 kHz; it supports 1000000 to 3000000 kHz"
    );
    assert!(
        refused(FrequencySettings { min_khz: Some(2), max_khz: Some(1), ..FrequencySettings::default() })
            .contains("cannot run from")
    );
    let third = refused(FrequencySettings {
        processors: vec![0, 2],
        max_khz: Some(1_500_000),
        ..FrequencySettings::default()
    });
    assert!(third.starts_with("cannot set the frequency of processor 2: there is no "), "{third}");
    assert_eq!(machine.settings(2), before);
    let nothing = Machine::new("nothing");
    let mut control = FrequencyControl::new(&nothing.paths(), None);
    let message = control.set(&FrequencySettings::default()).unwrap_err().to_string();
    assert!(message.starts_with("the node's kernel offers no frequency settings"), "{message}");
}

#[test]
fn a_change_that_fails_is_rolled_back() {
    let machine = Machine::with_processors("all", 3);
    // A file that can be read and not written, even by root.
    let path = machine.path(&cpu(2, "scaling_governor"));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/proc/version", &path).unwrap();
    let before = machine.settings(3);
    let ledger = ledger();
    let mut control = FrequencyControl::new(&machine.paths(), Some(ledger.try_clone().unwrap()));
    let change = FrequencySettings {
        governor: Some("powersave".into()),
        max_khz: Some(2_000_000),
        ..FrequencySettings::default()
    };
    let message = control.set(&change).unwrap_err().to_string();
    assert!(
        message.contains("cpu2/cpufreq/scaling_governor: ") && message.contains("nothing was changed"),
        "{message}"
    );
    assert_eq!(machine.settings(3), before);
    assert!(!control.has_changed());
    assert_eq!(rustix::fs::fstat(&ledger).unwrap().st_size, 0);
    // Earlier changes stay, and are still recorded.
    let others = FrequencySettings { processors: vec![0, 1], ..change.clone() };
    control.set(&others).unwrap();
    let changed = machine.settings(3);
    assert!(control.set(&FrequencySettings { min_khz: Some(1_500_000), ..change }).is_err());
    assert_eq!(machine.settings(3), changed);
    control.restore();
    assert_eq!(machine.settings(3), before);
    assert!(!control.has_changed());
}

#[test]
fn a_surviving_process_restores_the_settings() {
    let machine = Machine::with_processors("ledger", 2);
    let before = machine.settings(2);
    let ledger = ledger();
    let mut control = FrequencyControl::new(&machine.paths(), Some(ledger.try_clone().unwrap()));
    control.set(&FrequencySettings { max_khz: Some(1_000_000), ..FrequencySettings::default() }).unwrap();
    control
        .set(&FrequencySettings { governor: Some("powersave".into()), ..FrequencySettings::default() })
        .unwrap();
    // As after a kill: the values are restored before it is dropped.
    restore_recorded(&machine.paths(), &ledger).unwrap();
    assert_eq!(machine.settings(2), before);
    drop(control);
    assert_eq!(rustix::fs::fstat(&ledger).unwrap().st_size, 0);
    // Only files for which it has settings are written.
    rustix::io::pwrite(
        &ledger,
        b"0 scaling_setspeed 5\n1 scaling_governor performance\n0 ../x y\nnoise\n",
        0,
    )
    .unwrap();
    restore_recorded(&machine.paths(), &ledger).unwrap();
    assert_eq!(machine.read(&cpu(1, "scaling_governor")), "performance");
    rustix::io::pwrite(&ledger, b"7 scaling_governor performance\n", 0).unwrap();
    assert!(restore_recorded(&machine.paths(), &ledger).is_err());
}

#[test]
fn sysfs_path_comes_from_the_environment() {
    let usual = SystemPaths::default();
    assert_eq!(SystemPaths::with_sysfs(None), usual);
    assert_eq!(SystemPaths::with_sysfs(Some("".into())), usual);
    let elsewhere = SystemPaths::with_sysfs(Some("/elsewhere".into()));
    assert_eq!(elsewhere, SystemPaths { sys: "/elsewhere".into(), ..usual });
}
