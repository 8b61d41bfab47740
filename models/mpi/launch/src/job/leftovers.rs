//! Removal of the shared-memory files that MPICH leaves behind when ranks are killed.
//!
//! Ranks of a world on one kernel rendezvous through `/dev/shm/mpich_shm_WORLD_NODE`, and some through
//! `mpich_vci_…`. The last rank in `MPI_Finalize` removes the file, so killed ranks leave it. A shared window
//! is a file `mpich_shar_tmp…` while it is being created; its name does not contain the world.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use tombolo::nodes::NodeInfo;
use tombolo::{Domain, DomainId, Error, Exit, SpawnOptions};
use tombolo_machine::Kit;

/// Shared-memory folder of the host's programs, native and emulated.
const SHARED_MEMORY: &str = "/dev/shm";

/// Prefixes of MPICH's file names.
const FILE_PREFIXES: [&str; 2] = ["mpich_shm_", "mpich_vci_"];

/// Prefix of window files; `mkstemp` appends six characters.
const WINDOW_FILE_PREFIX: &str = "mpich_shar_tmp";

/// Whether `file` is the name of a window file.
fn is_window(file: &str) -> bool {
    let chosen = file.strip_prefix(WINDOW_FILE_PREFIX);
    chosen.is_some_and(|chosen| chosen.len() == 6 && chosen.bytes().all(|at| at.is_ascii_alphanumeric()))
}

/// Minimum age of an unused file: a newer one may not be mapped yet.
const MIN_STALE_AGE: Duration = Duration::from_secs(60);

/// Time limit for all nodes of a job together to remove their files.
const CLEAN_TIMEOUT: Duration = Duration::from_secs(5);

/// World identifier in MPICH's file names: the FNV-1a hash of the world's PMI key-value space name
/// (`src/util/mpir_pmi.c`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct WorldFiles(u32);

impl WorldFiles {
    /// Files of the world with this key-value space.
    pub(super) fn of(space: &str) -> WorldFiles {
        const BASIS: u32 = 0x811c_9dc5;
        const PRIME: u32 = 0x0100_0193;
        WorldFiles(space.bytes().fold(BASIS, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME)))
    }

    /// Parses the form that `Display` writes.
    pub(super) fn parse(text: &str) -> Option<WorldFiles> {
        u32::from_str_radix(text, 16).ok().map(WorldFiles)
    }

    /// World that a file belongs to; `None` if MPICH does not use such names.
    fn owner(file: &str) -> Option<WorldFiles> {
        let (world, node) = FILE_PREFIXES.iter().find_map(|kind| file.strip_prefix(kind))?.split_once('_')?;
        let files = WorldFiles::parse(world)?;
        // Accept only what printf writes, such as no leading zeros.
        let is_node = node.parse::<u32>().is_ok_and(|number| number.to_string() == node);
        (is_node && files.to_string() == world).then_some(files)
    }
}

impl fmt::Display for WorldFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// Name of a job's key-value spaces. It must be unique on the host, because MPICH derives file names from it;
/// a domain's number is unique only within its machine.
pub(super) fn job_name(domain: DomainId) -> String {
    format!("tombolo-{domain}-{:016x}", RandomState::new().build_hasher().finish())
}

/// Removes the files of these worlds from the host, and also stale files of earlier jobs: files of this user
/// that no process uses and that are older than [`MIN_STALE_AGE`] or belong to a window. Returns the number
/// of stale files removed.
pub(super) fn clean_host(worlds: &BTreeSet<WorldFiles>) -> io::Result<usize> {
    clean(Path::new(SHARED_MEMORY), worlds, SystemTime::now(), || in_use(Path::new("/proc")))
}

fn clean(
    folder: &Path,
    worlds: &BTreeSet<WorldFiles>,
    now: SystemTime,
    in_use: impl FnOnce() -> io::Result<BTreeSet<PathBuf>>,
) -> io::Result<usize> {
    let user = current_uid()?;
    let mut old = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let (owner, is_window) = match name.to_str().map(|name| (WorldFiles::owner(name), is_window(name))) {
            None | Some((None, false)) => continue,
            Some(found) => found,
        };
        let is_old =
            |then: SystemTime| is_window || now.duration_since(then).is_ok_and(|age| age > MIN_STALE_AGE);
        if owner.is_some_and(|owner| worlds.contains(&owner)) {
            remove(&entry.path())?;
        } else if let Ok(about) = entry.metadata()
            && about.is_file()
            && about.uid() == user
            && about.modified().is_ok_and(is_old)
        {
            old.push(entry.path());
        }
    }
    if old.is_empty() {
        return Ok(0);
    }
    let in_use = in_use()?;
    old.retain(|path| !in_use.contains(path));
    old.iter().try_for_each(|path| remove(path))?;
    Ok(old.len())
}

fn current_uid() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// Removes a file; succeeds if it is gone already.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// MPICH's files that processes of this user have mapped or open. Skips processes that cannot be inspected:
/// privileged ones are not ranks, and exited ones have nothing mapped. Removing a file does not affect
/// processes that have it mapped.
fn in_use(proc: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let user = current_uid()?;
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        if is_process
            && entry.metadata().is_ok_and(|about| about.uid() == user)
            && let Ok(maps) = fs::read(entry.path().join("maps"))
        {
            all.extend(mapped_files(&String::from_utf8_lossy(&maps)));
            all.extend(open_files(&entry.path()));
        }
    }
    Ok(all)
}

/// Whether the path has one of MPICH's names.
fn is_mpich_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| WorldFiles::owner(name).is_some() || is_window(name))
}

/// MPICH's files among a process's open descriptors.
fn open_files(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).filter(|path| is_mpich_file(path))
}

/// MPICH's files in the text of `/proc/PID/maps`.
fn mapped_files(maps: &str) -> impl Iterator<Item = PathBuf> + '_ {
    maps.lines().filter_map(|line| {
        let path = Path::new(line.split_ascii_whitespace().nth(5)?);
        is_mpich_file(path).then(|| path.to_owned())
    })
}

/// Removes the files of worlds from nodes with their own kernel, and reports failures as notes.
pub(super) fn clean_nodes(
    domain: &Domain,
    nodes: BTreeMap<usize, (&NodeInfo, BTreeSet<WorldFiles>)>,
    note: &dyn Fn(&str),
) {
    let (done, outcomes) = mpsc::channel();
    let mut pending_nodes: BTreeSet<String> = BTreeSet::new();
    for (node, worlds) in nodes.into_values() {
        let (domain, node, done) = (domain.clone(), node.clone(), done.clone());
        pending_nodes.insert(node.name.clone());
        // A thread per node, because a node may hang together with its monitor.
        std::thread::spawn(move || {
            let outcome = clean_node(&domain, &node, &worlds);
            // The receiver is gone once the time limit has passed.
            let _ = done.send((node.name, outcome));
        });
    }
    drop(done);
    let report_left = |node: &str, why: &str| {
        note(&format!("files of MPICH may stay in {SHARED_MEMORY} of {node}: {why}"));
    };
    let deadline = Instant::now() + CLEAN_TIMEOUT;
    while let Ok((node, outcome)) = outcomes.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        pending_nodes.remove(&node);
        if let Err(why) = outcome {
            report_left(&node, &why);
        }
    }
    for node in pending_nodes {
        report_left(&node, &format!("they were not removed within {} s", CLEAN_TIMEOUT.as_secs()));
    }
}

/// Removes the files on one node by a shell that is sent there, as nodes need not have one.
fn clean_node(domain: &Domain, node: &NodeInfo, worlds: &BTreeSet<WorldFiles>) -> Result<(), String> {
    let kit = Kit::locate().map_err(|error| error.to_string())?;
    let shell = kit.root().join(node.isa.name()).join("busybox");
    let error_text = |error: Error| error.to_string();
    let spawn =
        SpawnOptions::image(&shell).on(&*node.name).directory("/").args(["sh", "-c", &script(worlds)]);
    let child = domain.spawn(&spawn).map_err(error_text)?;
    match child.wait(CLEAN_TIMEOUT).map_err(error_text)? {
        Exit::Exited { status: 0 } => Ok(()),
        exit => Err(format!("{} {exit}", shell.display())),
    }
}

/// Shell script that removes the files of these worlds silently.
fn script(worlds: &BTreeSet<WorldFiles>) -> String {
    let worlds: Vec<String> = worlds.iter().map(WorldFiles::to_string).collect();
    let [shm, vci] = FILE_PREFIXES.map(|kind| format!("{SHARED_MEMORY}/{kind}${{world}}_*"));
    format!("for world in {}; do rm -f {shm} {vci} || exit; done 2>/dev/null", worlds.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_match_those_of_mpich() {
        // Observed with MPICH 5.0.2 and PMI_DEBUG=1.
        let files = WorldFiles::of("tombolo-0.1.329-0");
        assert_eq!(files, WorldFiles(0xaff1_c88e));
        assert_eq!(WorldFiles::owner("mpich_shm_aff1c88e_0"), Some(files));
        assert_eq!(WorldFiles::owner("mpich_vci_aff1c88e_17"), Some(files));
        // Leading zeros of the hash are not written.
        assert_eq!(WorldFiles::owner("mpich_shm_1c88e_1"), Some(WorldFiles(0x1_c88e)));
        for other in [
            "mpich_shm_",
            "mpich_shm_aff1c88e",
            "mpich_shm_aff1c88e_",
            "mpich_shm_aff1c88e_0x",
            "mpich_shm_aff1c88e_+1",
            "mpich_shm_aff1c88e_01",
            "mpich_shm_AFF1C88E_0",
            "mpich_shm_0ff1c88e_0",
            "mpich_shm_aff1c88e0_0",
            "mpich_shm_+ff1c88e_0",
            "mpich_sem_aff1c88e_0",
            "my_mpich_shm_aff1c88e_0",
        ] {
            assert_eq!(WorldFiles::owner(other), None, "{other}");
        }
    }

    #[test]
    fn job_names_are_unique() {
        let domain = DomainId::from_bits(0x1_0000_0001).unwrap();
        assert_ne!(job_name(domain), job_name(domain));
    }

    #[test]
    fn files_of_the_job_and_unused_files_are_removed() {
        let folder = std::env::temp_dir().join(format!("tombolo-leftovers-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for (name, is_one) in [
            ("mpich_shar_tmpUJ852S", true),
            ("mpich_shar_tmpUJ852", false),
            ("mpich_shar_tmpUJ85.S", false),
            ("my_mpich_shar_tmpUJ852S", false),
        ] {
            assert_eq!(is_window(name), is_one, "{name}");
        }
        let own = ["mpich_shm_a_0", "mpich_vci_a_3", "mpich_shm_b_0"];
        let others = ["mpich_shm_c_0", "mpich_shm_c_1", "mpich_shm_c_x", "mpich", "sem.a"];
        own.iter().chain(&others).for_each(|name| fs::write(folder.join(name), "").unwrap());
        let file_names = || {
            let names =
                fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.collect::<BTreeSet<String>>()
        };
        let worlds = BTreeSet::from([WorldFiles(0xa), WorldFiles(0xb)]);
        let now = SystemTime::now();
        // Files of other worlds are too new to be considered.
        assert_eq!(clean(&folder, &worlds, now, || unreachable!()).unwrap(), 0);
        assert_eq!(file_names(), others.map(str::to_owned).into());
        let later = now + 2 * MIN_STALE_AGE;
        let files_unreadable = || Err(io::ErrorKind::PermissionDenied.into());
        assert!(clean(&folder, &worlds, later, files_unreadable).is_err());
        assert_eq!(file_names().len(), others.len());
        let used = folder.join("mpich_shm_c_1");
        assert_eq!(clean(&folder, &worlds, later, || Ok(BTreeSet::from([used]))).unwrap(), 1);
        assert_eq!(file_names(), others[1..].iter().map(|name| (*name).to_owned()).collect());
        // New window files are removed too, but not those that a rank has created and not mapped yet.
        let windows = ["mpich_shar_tmpaaaaaa", "mpich_shar_tmpbbbbbb"];
        windows.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        let held = fs::File::open(folder.join(windows[0])).unwrap();
        assert_eq!(clean(&folder, &worlds, now, || in_use(Path::new("/proc"))).unwrap(), 1);
        assert!(file_names().contains(windows[0]) && !file_names().contains(windows[1]));
        drop(held);
        assert_eq!(clean(&folder, &worlds, now, || in_use(Path::new("/proc"))).unwrap(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_in_use_are_detected() {
        let maps = "7f50a0000000-7f50a0103000 rw-s 00000000 00:1b 2   /dev/shm/mpich_shm_aff1c88e_0\n\
                    7f50a1000000-7f50a1103000 rw-s 00000000 00:1b 3   /dev/shm/mpich_shm_b_1 (deleted)\n\
                    7f50a2000000-7f50a2103000 rw-p 00000000 00:00 0 \n\
                    7f50a3000000-7f50a3103000 r-xp 00000000 00:1b 4   /usr/lib/libmpi.so.12\n";
        let seen: Vec<PathBuf> = mapped_files(maps).collect();
        let expected = ["/dev/shm/mpich_shm_aff1c88e_0", "/dev/shm/mpich_shm_b_1"].map(PathBuf::from);
        assert_eq!(seen, expected);
        // Inspects every process.
        let proc = std::env::temp_dir().join(format!("tombolo-processes-{}", std::process::id()));
        let _ = fs::remove_dir_all(&proc);
        for (name, maps) in [("7", maps), ("9", "5-6 rw-s 0 0:1 2 /dev/shm/mpich_vci_c_0\n"), ("self", maps)]
        {
            fs::create_dir_all(proc.join(name)).unwrap();
            fs::write(proc.join(name).join("maps"), maps).unwrap();
        }
        fs::create_dir_all(proc.join("11")).unwrap();
        let all: Vec<PathBuf> = in_use(&proc).unwrap().into_iter().collect();
        assert_eq!(all, [expected.as_slice(), &["/dev/shm/mpich_vci_c_0".into()]].concat());
        fs::remove_dir_all(&proc).unwrap();
        assert!(in_use(Path::new("/proc")).is_ok());
    }

    #[test]
    fn node_script_removes_files_of_worlds_silently() {
        assert_eq!(
            script(&BTreeSet::from([WorldFiles(0xa), WorldFiles(0xaff1_c88e)])),
            "for world in a aff1c88e; do rm -f /dev/shm/mpich_shm_${world}_* /dev/shm/mpich_vci_${world}_* || exit; done 2>/dev/null"
        );
    }
}
