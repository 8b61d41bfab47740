//! Environment variables of the run-time: `OMP_…` and a few `GOMP_…`.

use std::env;
use std::fmt::Write as _;
use std::sync::OnceLock;

use super::report::{self, ReportFormat};
use crate::constructs::affinity;
use crate::primitives::icv::{
    ACTIVE_LEVELS_MAX, ByLevel, MONOTONIC, PthreadPlacement, Schedule, ScheduleKind, Settings,
};
use crate::primitives::nodes::{NAME_BYTES_MAX, NODES_MAX, NamedNode};
use crate::primitives::places;
use crate::primitives::sys::{self, Processors};
use crate::team::root::Root;

/// Whether the workers of a job are threads or processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Threads of the program.
    #[default]
    Shared,
    /// Processes, each with an address space of its own.
    Exclusive,
    /// Groups of threads, each group in a process.
    Hybrid,
}

impl Mode {
    /// The mode with this name; an empty name stands for [`Shared`](Self::Shared).
    #[must_use]
    pub fn from_name(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"" | b"shared" => Self::Shared,
            b"exclusive" => Self::Exclusive,
            b"hybrid" => Self::Hybrid,
            _ => return None,
        })
    }
}

/// Required memory of a team whose workers have address spaces of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Memory shared by all nodes if possible, otherwise pages.
    #[default]
    Any,
    /// Memory shared by all nodes.
    Shared,
    /// Pages transferred in messages.
    Pages,
}

impl Memory {
    /// The kind with this name; an empty name stands for [`Any`](Self::Any).
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Any,
            "shared" => Self::Shared,
            "pages" => Self::Pages,
            _ => return None,
        })
    }
}

/// Settings read from the environment.
#[derive(Clone, Debug)]
pub struct EnvSettings {
    /// Numeric settings (ICVs).
    pub settings: Settings,
    /// `OMP_AFFINITY_FORMAT`.
    pub affinity_format: String,
    /// `OMP_PLACES` or its default.
    pub places: Vec<Processors>,
    /// `OMP_TOMBOLO`: the kind of workers.
    pub mode: Mode,
    /// `OMP_TOMBOLO_MEMORY`: the kind of the team's memory.
    pub memory: Memory,
    /// `OMP_TOMBOLO_GROUP`: threads per process in hybrid mode.
    pub group: u32,
    /// `OMP_TOMBOLO_NODES`: nodes for threads besides the master's, which may be listed to limit its threads.
    pub nodes: Vec<NamedNode>,
    /// `OMP_TOMBOLO_NEEDS`: requirements for nodes that are not named.
    pub needs: String,
    /// `OMP_TOMBOLO_REPORT`: form of the report.
    pub report: ReportFormat,
    /// `OMP_DISPLAY_ENV`: whether the display is verbose; `None` for no display.
    pub display: Option<bool>,
}

impl EnvSettings {
    /// Ends the program if it asks for workers on other nodes or memory in pages, which this mode does not
    /// support.
    pub fn require_single_node(&self) {
        if self.memory == Memory::Pages {
            sys::fatal(
                "OMP_TOMBOLO_MEMORY=pages: only a program that `tombolo ompcc` made can have its memory in pages, and OMP_TOMBOLO has to be exclusive or hybrid",
            );
        }
        if !self.nodes.is_empty() {
            let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            sys::fatal(format_args!(
                "OMP_TOMBOLO_NODES={}: only a program that `tombolo ompcc` made can have workers on nodes, and OMP_TOMBOLO has to be exclusive or hybrid",
                names.join(",")
            ));
        }
    }
}

/// Default of `OMP_AFFINITY_FORMAT`.
const FORMAT: &str = "level %L thread %i affinity %A";

/// Reads the environment. Reports invalid values on standard error and ignores them.
pub fn read() -> EnvSettings {
    read_from(|name| env::var(name).ok(), &sys::affinity())
}

fn read_from(get: impl Fn(&str) -> Option<String>, processors: &Processors) -> EnvSettings {
    let mut settings = Settings::of(sys::count(processors));
    let variables = Variables { get: &get };
    let mut nodes = Vec::new();
    variables.set("OMP_TOMBOLO_NODES", parse_nodes, &mut nodes);
    let needs = variables.text("OMP_TOMBOLO_NEEDS").unwrap_or_default();
    if !nodes.is_empty() {
        // The number follows from the nodes' speeds.
        settings.icv.threads = 0;
    }
    let places = read_levels(&variables, &mut settings, processors);
    let icv = &mut settings.icv;
    variables.set("OMP_SCHEDULE", parse_schedule, &mut icv.schedule);
    variables.set("OMP_DYNAMIC", parse_bool, &mut icv.dynamic);
    variables.set("OMP_THREAD_LIMIT", parse_positive, &mut icv.limit);
    variables.set(
        "OMP_DEFAULT_DEVICE",
        |text| text.parse().ok().filter(|&device| device >= 0),
        &mut icv.device,
    );
    variables.set("OMP_ALLOCATOR", parse_allocator, &mut icv.allocator);
    variables.set("OMP_CANCELLATION", parse_bool, &mut settings.cancellation);
    variables.set(
        "OMP_MAX_TASK_PRIORITY",
        |text| text.parse().ok().filter(|&at| at >= 0),
        &mut settings.priority,
    );
    variables.set("OMP_NUM_TEAMS", parse_positive, &mut settings.teams);
    variables.set("OMP_TEAMS_THREAD_LIMIT", parse_positive, &mut settings.teams_limit);
    variables.set("OMP_DISPLAY_AFFINITY", parse_bool, &mut settings.display_affinity);
    let mut report = ReportFormat::None;
    variables.set("OMP_TOMBOLO_REPORT", ReportFormat::parse, &mut report);
    settings.report = report != ReportFormat::None;
    variables.set("OMP_TOMBOLO_ARENA", |text| parse_bytes(text, 1 << 20), &mut settings.arena);
    let stack = |text: &str| parse_bytes(text, 1 << 10).filter(|&size| size >= libc::PTHREAD_STACK_MIN);
    variables.set("GOMP_STACKSIZE", stack, &mut settings.stack);
    variables.set("OMP_STACKSIZE", stack, &mut settings.stack);
    variables.set("OMP_WAIT_POLICY", parse_wait_policy, &mut settings.active_wait);
    variables.set("GOMP_SPINCOUNT", |text| parse_spins(text).map(Some), &mut settings.spins);
    let mut offload = (false, false);
    variables.set("OMP_TARGET_OFFLOAD", parse_offload, &mut offload);
    (settings.offload_mandatory, settings.offload_disabled) = offload;
    variables.set("OMP_TOMBOLO_TARGET", parse_target, &mut settings.target_copies);
    let mode = variables.text("OMP_TOMBOLO").unwrap_or_default();
    let mode = Mode::from_name(mode.as_bytes()).unwrap_or_else(|| {
        sys::fatal(format_args!("OMP_TOMBOLO={mode}: there are `shared`, `exclusive` and `hybrid`"))
    });
    let memory = variables.text("OMP_TOMBOLO_MEMORY").unwrap_or_default();
    let memory = Memory::from_name(&memory).unwrap_or_else(|| {
        sys::fatal(format_args!("OMP_TOMBOLO_MEMORY={memory}: there are `shared` and `pages`"))
    });
    let pthread_placement = variables.text("OMP_TOMBOLO_PTHREADS").filter(|text| !text.is_empty());
    settings.pthread_placement = pthread_placement.map_or(PthreadPlacement::Here, |text| {
        PthreadPlacement::from_name(&text).unwrap_or_else(|| {
            sys::fatal(format_args!("OMP_TOMBOLO_PTHREADS={text}: there are `here`, `spread` and `others`"))
        })
    });
    variables.set("OMP_TOMBOLO_BALANCE", parse_bool, &mut settings.balance);
    settings.own_memory = mode == Mode::Hybrid;
    let mut group = settings.processors;
    variables.set("OMP_TOMBOLO_GROUP", parse_positive, &mut group);
    let mut display = None;
    variables.set("OMP_DISPLAY_ENV", parse_display, &mut display);
    let affinity_format = variables.text("OMP_AFFINITY_FORMAT").unwrap_or_else(|| FORMAT.to_owned());
    EnvSettings { settings, affinity_format, places, mode, memory, group, nodes, needs, report, display }
}

struct Variables<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
}

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).map(|text| text.trim().to_owned())
    }

    fn set<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>, place: &mut T) {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else { return };
        match parse(&text) {
            Some(value) => *place = value,
            None => {
                sys::print_error(format_args!("tombolo omp: {name}={text} makes no sense and is left out\n"));
            }
        }
    }
}

/// Reads the numbers of threads, their binding and the number of active levels. A list for several levels
/// implies the maximum of active levels.
fn read_levels(
    variables: &Variables<'_>,
    settings: &mut Settings,
    processors: &Processors,
) -> Vec<Processors> {
    let list =
        |text: &str| text.split(',').map(|item| parse_positive(item.trim())).collect::<Option<Vec<u32>>>();
    let (mut threads, mut binds) = (Vec::new(), Vec::new());
    variables.set("OMP_NUM_THREADS", list, &mut threads);
    variables.set("OMP_PROC_BIND", parse_bindings, &mut binds);
    if let Some(&first) = threads.first() {
        settings.icv.threads = first;
        settings.threads = ByLevel::of(&threads);
    }
    let mut nested = None;
    variables.set("OMP_NESTED", |text| parse_bool(text).map(Some), &mut nested);
    let levels = &mut settings.icv.active_levels;
    match nested {
        Some(false) => *levels = 1,
        None if threads.len().max(binds.len()) < 2 => {}
        _ => *levels = ACTIVE_LEVELS_MAX,
    }
    let level = |text: &str| text.parse::<u32>().ok().map(|levels| levels.min(ACTIVE_LEVELS_MAX));
    variables.set("OMP_MAX_ACTIVE_LEVELS", level, levels);
    read_places(variables, settings, binds, processors)
}

fn read_places(
    variables: &Variables<'_>,
    settings: &mut Settings,
    mut binds: Vec<u8>,
    processors: &Processors,
) -> Vec<Processors> {
    let mut found = Vec::new();
    variables.set("OMP_PLACES", |text| places::parse(text, processors), &mut found);
    if found.is_empty() {
        variables.set("GOMP_CPU_AFFINITY", |text| places::parse_list(text, processors), &mut found);
    }
    if binds.is_empty() && !found.is_empty() {
        binds.push(places::TRUE);
    }
    if binds.first().is_some_and(|&bind| bind != places::FALSE) {
        if found.is_empty() {
            found = places::threads(processors);
        }
    } else {
        found.clear();
    }
    settings.icv.bind = binds.first().copied().unwrap_or(places::FALSE);
    settings.binds = ByLevel::of(&binds);
    found
}

/// Parses `node,node:threads,…` without duplicates.
fn parse_nodes(text: &str) -> Option<Vec<NamedNode>> {
    let mut nodes: Vec<NamedNode> = Vec::new();
    for item in text.split(',') {
        let (name, threads) = match item.split_once(':') {
            Some((name, threads)) => (name.trim(), parse_positive(threads.trim())?),
            None => (item.trim(), 0),
        };
        let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(char::is_whitespace);
        if !fits || nodes.iter().any(|node| node.name == name) {
            return None;
        }
        nodes.push(NamedNode { name: name.to_owned(), threads });
    }
    (nodes.len() < NODES_MAX).then_some(nodes)
}

fn parse_positive(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|&value| value > 0 && i32::try_from(value).is_ok())
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Parses a size in bytes; `unit` applies if it has no suffix.
fn parse_bytes(text: &str, unit: usize) -> Option<usize> {
    let digits = text.trim_end_matches(|at: char| !at.is_ascii_digit());
    let factor = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" => unit,
        "b" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(factor)
}

fn parse_spins(text: &str) -> Option<u64> {
    if matches!(text.to_ascii_lowercase().as_str(), "infinite" | "infinity") {
        return Some(u64::MAX);
    }
    let digits = text.trim_end_matches(|at: char| !at.is_ascii_digit());
    let factor = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn parse_wait_policy(text: &str) -> Option<Option<bool>> {
    match text.to_ascii_lowercase().as_str() {
        "active" => Some(Some(true)),
        "passive" => Some(Some(false)),
        _ => None,
    }
}

/// Parses `OMP_TARGET_OFFLOAD`: whether a device is mandatory, and whether devices are disabled.
fn parse_offload(text: &str) -> Option<(bool, bool)> {
    match text.to_ascii_lowercase().as_str() {
        "mandatory" => Some((true, false)),
        "disabled" => Some((false, true)),
        "default" => Some((false, false)),
        _ => None,
    }
}

fn parse_target(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "share" => Some(false),
        "copy" => Some(true),
        _ => None,
    }
}

fn parse_display(text: &str) -> Option<Option<bool>> {
    if text.eq_ignore_ascii_case("verbose") {
        return Some(Some(true));
    }
    parse_bool(text).map(|wanted| wanted.then_some(false))
}

/// Parses `[modifier:]kind[,chunk]`.
fn parse_schedule(text: &str) -> Option<Schedule> {
    let text = text.to_ascii_lowercase();
    let (modifier, rest) = match text.split_once(':') {
        Some((modifier, rest)) => (Some(modifier.trim()), rest),
        None => (None, text.as_str()),
    };
    let (kind, chunk) = match rest.split_once(',') {
        Some((kind, chunk)) => {
            (kind.trim(), Some(chunk.trim().parse::<i32>().ok().filter(|&chunk| chunk >= 0)?))
        }
        None => (rest.trim(), None),
    };
    let kind = match kind {
        "static" => ScheduleKind::Static,
        "dynamic" => ScheduleKind::Dynamic,
        "guided" => ScheduleKind::Guided,
        "auto" => ScheduleKind::Auto,
        _ => return None,
    };
    let modifier = match modifier {
        Some("monotonic") => MONOTONIC,
        Some("nonmonotonic") => 0,
        None if kind == ScheduleKind::Static => MONOTONIC,
        None => 0,
        Some(_) => return None,
    };
    let smallest = i32::from(matches!(kind, ScheduleKind::Dynamic | ScheduleKind::Guided));
    Some(Schedule { kind, modifier, chunk: chunk.unwrap_or(smallest).max(smallest) })
}

/// Parses a binding policy per level, or a truth value for all.
fn parse_bindings(text: &str) -> Option<Vec<u8>> {
    if let Some(bound) = parse_bool(text) {
        return Some(vec![if bound { places::TRUE } else { places::FALSE }]);
    }
    text.split(',')
        .map(|item| match item.trim().to_ascii_lowercase().as_str() {
            "primary" | "master" => Some(places::PRIMARY),
            "close" => Some(places::CLOSE),
            "spread" => Some(places::SPREAD),
            _ => None,
        })
        .collect()
}

fn parse_allocator(text: &str) -> Option<usize> {
    const NAMES: [&str; 8] = [
        "omp_default_mem_alloc",
        "omp_large_cap_mem_alloc",
        "omp_const_mem_alloc",
        "omp_high_bw_mem_alloc",
        "omp_low_lat_mem_alloc",
        "omp_cgroup_mem_alloc",
        "omp_pteam_mem_alloc",
        "omp_thread_mem_alloc",
    ];
    if let Ok(number) = text.parse::<usize>() {
        return (1..=8).contains(&number).then_some(number);
    }
    NAMES.iter().position(|name| text.eq_ignore_ascii_case(name)).map(|index| index + 1)
}

/// Formats the output of `OMP_DISPLAY_ENV` and `omp_display_env`.
pub fn display(root: &Root, verbosely: bool) -> String {
    let settings = &root.settings;
    let icv = settings.icv;
    let mut text = String::from("\nOPENMP DISPLAY ENVIRONMENT BEGIN\n");
    let mut show = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "  {name} = '{value}'");
    };
    show("_OPENMP", &"201511");
    show("OMP_DYNAMIC", &format_bool(icv.dynamic));
    show("OMP_NESTED", &format_bool(icv.active_levels > 1));
    let threads: Vec<String> = match settings.threads.all() {
        [] if icv.threads == 0 => vec!["BY SPEED".to_owned()],
        [] => vec![icv.threads.to_string()],
        list => list.iter().map(ToString::to_string).collect(),
    };
    show("OMP_NUM_THREADS", &threads.join(","));
    let kind = format!("{:?}", icv.schedule.kind).to_uppercase();
    let chunk = if icv.schedule.chunk > 1 { format!(",{}", icv.schedule.chunk) } else { String::new() };
    show("OMP_SCHEDULE", &format!("{kind}{chunk}"));
    let binds: Vec<&str> = match settings.binds.all() {
        [] => vec![places::bind_policy_name(icv.bind)],
        list => list.iter().map(|&bind| places::bind_policy_name(bind)).collect(),
    };
    show("OMP_PROC_BIND", &binds.join(","));
    show("OMP_PLACES", &root.places().describe());
    show("OMP_STACKSIZE", &settings.stack);
    show("OMP_WAIT_POLICY", &if settings.active_wait == Some(true) { "ACTIVE" } else { "PASSIVE" });
    show("OMP_THREAD_LIMIT", &icv.limit);
    show("OMP_MAX_ACTIVE_LEVELS", &icv.active_levels);
    show("OMP_NUM_TEAMS", &settings.teams);
    show("OMP_TEAMS_THREAD_LIMIT", &settings.teams_limit);
    show("OMP_CANCELLATION", &format_bool(settings.cancellation));
    show("OMP_DEFAULT_DEVICE", &icv.device);
    show("OMP_MAX_TASK_PRIORITY", &settings.priority);
    show("OMP_DISPLAY_AFFINITY", &format_bool(settings.display_affinity));
    show("OMP_AFFINITY_FORMAT", &affinity::format(root));
    show("OMP_ALLOCATOR", &icv.allocator);
    let offload = match (settings.offload_mandatory, settings.offload_disabled) {
        (true, _) => "MANDATORY",
        (_, true) => "DISABLED",
        _ => "DEFAULT",
    };
    show("OMP_TARGET_OFFLOAD", &offload);
    if verbosely {
        show("GOMP_SPINCOUNT", &settings.turns());
        show("OMP_TOMBOLO_REPORT", &report::report_format().name());
        show("OMP_TOMBOLO_NODES", &format_nodes());
        show("OMP_TOMBOLO_TARGET", &if settings.target_copies { "COPY" } else { "SHARE" });
    }
    text.push_str("OPENMP DISPLAY ENVIRONMENT END\n");
    text
}

/// Nodes requested for this process's job, for display.
static REQUESTED_NODES: OnceLock<Vec<NamedNode>> = OnceLock::new();

/// Keeps settings that are displayed but stored nowhere else.
pub(crate) fn record(env_settings: &EnvSettings) {
    let _ = REQUESTED_NODES.set(env_settings.nodes.clone());
}

/// Formats the nodes as in `OMP_TOMBOLO_NODES`.
fn format_nodes() -> String {
    let show = |node: &NamedNode| match node.threads {
        0 => node.name.clone(),
        threads => format!("{}:{threads}", node.name),
    };
    REQUESTED_NODES.get().into_iter().flatten().map(show).collect::<Vec<_>>().join(",")
}

fn format_bool(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_from(pairs: &[(&str, &str)]) -> Settings {
        let mut processors = sys::affinity();
        sys::include(&mut processors, 0);
        let get =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        read_from(get, &processors).settings
    }

    #[test]
    fn lists_set_levels_and_allow_nesting() {
        let settings = settings_from(&[("OMP_NUM_THREADS", "4, 2")]);
        assert_eq!((settings.icv.threads, settings.threads.at(1)), (4, Some(2)));
        assert_eq!(settings.icv.active_levels, ACTIVE_LEVELS_MAX);
        assert_eq!(settings_from(&[("OMP_NUM_THREADS", "4")]).icv.active_levels, 1);
        assert_eq!(
            settings_from(&[("OMP_NUM_THREADS", "4,2"), ("OMP_MAX_ACTIVE_LEVELS", "1")]).icv.active_levels,
            1
        );
        assert_eq!(
            settings_from(&[("OMP_NUM_THREADS", "4,2"), ("OMP_NESTED", "false")]).icv.active_levels,
            1
        );
        let bound = settings_from(&[("OMP_PROC_BIND", "spread, close")]);
        assert_eq!(bound.icv.active_levels, ACTIVE_LEVELS_MAX);
        assert_eq!((bound.icv.bind, bound.binds.at(1)), (places::SPREAD, Some(places::CLOSE)));
        assert_eq!(settings_from(&[("OMP_PROC_BIND", "spread")]).icv.active_levels, 1);
    }

    #[test]
    fn schedules_are_parsed() {
        assert_eq!(
            parse_schedule("guided,7"),
            Some(Schedule { kind: ScheduleKind::Guided, modifier: 0, chunk: 7 })
        );
        assert_eq!(
            parse_schedule("Monotonic: dynamic"),
            Some(Schedule { kind: ScheduleKind::Dynamic, modifier: MONOTONIC, chunk: 1 })
        );
        assert_eq!(parse_schedule("static").map(|schedule| schedule.chunk), Some(0));
        assert_eq!(parse_schedule("sometimes"), None);
        assert_eq!(parse_schedule("dynamic,-1"), None);
    }

    #[test]
    fn sizes_are_parsed_with_units() {
        assert_eq!(parse_bytes("64", 1024), Some(65536));
        assert_eq!(parse_bytes("2 M", 1024), Some(2 << 20));
        assert_eq!(parse_bytes("12B", 1024), Some(12));
        assert_eq!(parse_bytes("12X", 1024), None);
        assert_eq!(parse_bytes("99999999999999999999G", 1), None);
    }

    #[test]
    fn nodes_have_names_and_threads() {
        let node = |name: &str, threads| NamedNode { name: name.to_owned(), threads };
        assert_eq!(parse_nodes("arm"), Some(vec![node("arm", 0)]));
        assert_eq!(
            parse_nodes("host:2, arm:16,vm"),
            Some(vec![node("host", 2), node("arm", 16), node("vm", 0)])
        );
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        let many = (0..NODES_MAX).map(|index| index.to_string()).collect::<Vec<_>>().join(",");
        for wrong in
            ["", "arm,", "arm:0", "arm:", "arm:x", ":2", "arm,arm:2", "an arm", "arm:1:2", &long, &many]
        {
            assert_eq!(parse_nodes(wrong), None, "{wrong}");
        }
        assert_eq!(settings_from(&[("OMP_TOMBOLO_NODES", "arm")]).icv.threads, 0);
        assert_eq!(settings_from(&[("OMP_TOMBOLO_NODES", "arm"), ("OMP_NUM_THREADS", "3")]).icv.threads, 3);
    }

    #[test]
    fn invalid_values_are_ignored() {
        let settings = settings_from(&[
            ("OMP_NUM_THREADS", "0"),
            ("OMP_DYNAMIC", "perhaps"),
            ("OMP_WAIT_POLICY", "active"),
        ]);
        assert_eq!(settings.icv.threads, settings.processors);
        assert!(!settings.icv.dynamic);
        let usual = settings_from(&[]);
        for (name, value) in [("OMP_PROC_BIND", "true,close"), ("OMP_PROC_BIND", "spread,true")] {
            assert_eq!(settings_from(&[(name, value)]).icv.bind, places::FALSE, "{value}");
        }
        for value in ["0", "64B", "15k"] {
            assert_eq!(settings_from(&[("OMP_STACKSIZE", value)]).stack, usual.stack, "{value}");
        }
        assert_eq!(settings_from(&[("OMP_STACKSIZE", "16k")]).stack, 16 << 10);
        assert_eq!(settings_from(&[("OMP_DEFAULT_DEVICE", "-1")]).icv.device, usual.icv.device);
        assert_eq!(settings.turns(), 30_000_000_000);
    }
}
