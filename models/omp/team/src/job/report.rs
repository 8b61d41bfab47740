//! Report of `OMP_TOMBOLO_REPORT`: the durations of regions, and each thread's work and waiting time.

use std::fmt::Write as _;
use std::fs;
use std::sync::OnceLock;

use crate::primitives::balance::Measurement;
use crate::primitives::nodes::Node;
use crate::primitives::sys;
use crate::team::root::Root;
use crate::team::tally::{RegionTally, Totals};

/// Form of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReportFormat {
    /// No report.
    #[default]
    None,
    /// Text on standard error, with a line per node and optionally per thread.
    Text {
        /// Whether to include a line per thread.
        threads: bool,
    },
    /// JSON lines for programs, on standard error or in a file.
    Json(Option<String>),
}

impl ReportFormat {
    /// Parses the value of `OMP_TOMBOLO_REPORT`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "0" | "false" | "no" | "off" => Self::None,
            "1" | "true" | "yes" | "on" => Self::Text { threads: false },
            "2" | "threads" => Self::Text { threads: true },
            "json" => Self::Json(None),
            _ if text.contains(['/', '.']) => Self::Json(Some(text.to_owned())),
            _ => return None,
        })
    }

    /// Returns the value shown by `OMP_DISPLAY_ENV`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::None => "FALSE",
            Self::Text { threads: false } => "TRUE",
            Self::Text { threads: true } => "THREADS",
            Self::Json(None) => "JSON",
            Self::Json(Some(path)) => path,
        }
    }
}

static REPORT_FORMAT: OnceLock<ReportFormat> = OnceLock::new();

/// Sets the form of this process's report; only the first call takes effect.
pub(crate) fn set_report_format(form: ReportFormat) {
    let _ = REPORT_FORMAT.set(form);
}

/// Returns the form of this process's report.
pub(crate) fn report_format() -> &'static ReportFormat {
    REPORT_FORMAT.get().unwrap_or(&ReportFormat::None)
}

/// Writes a report to its file, or returns an error message.
type ReportWriter = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

static WRITER: OnceLock<ReportWriter> = OnceLock::new();

/// Sets the function that writes the report, instead of a file opened by this process; only the first call
/// takes effect.
pub fn set_writer(write: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) {
    let _ = WRITER.set(Box::new(write));
}

/// Memory of a team whose workers have address spaces of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Memory of the one kernel that all workers run on.
    Kernel,
    /// Window with this name.
    Window(String),
    /// Pages transferred between nodes.
    Pages(Faults),
}

/// Page faults of the program's process, and pages taken from it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Faults {
    /// Read faults that waited for a page.
    pub read: u64,
    /// Write faults that waited for a page.
    pub written: u64,
    /// Write faults on pages that were already readable.
    pub upgraded: u64,
    /// Pages taken by other processes.
    pub taken: u64,
}

static MEMORY: OnceLock<fn() -> Memory> = OnceLock::new();

/// Sets the function that describes the team's memory.
pub fn set_memory_source(memory: fn() -> Memory) {
    let _ = MEMORY.set(memory);
}

impl Memory {
    fn to_text(&self) -> String {
        match self {
            Self::Kernel => "memory: that of the one kernel that all workers are on".to_owned(),
            Self::Window(name) => format!("memory: the window {name}"),
            Self::Pages(Faults { read, written, upgraded, taken }) => format!(
                "memory: pages sent by messages; the program's process waited for {read} pages to read, {written} to write and \
                 {upgraded} to write after it had read them, and gave {taken} away"
            ),
        }
    }

    fn to_json(&self) -> String {
        match self {
            Self::Kernel => r#"{"memory":"kernel"}"#.to_owned(),
            Self::Window(name) => format!("{{\"memory\":\"window\",\"window\":{}}}", quote_json(name)),
            Self::Pages(Faults { read, written, upgraded, taken }) => format!(
                "{{\"memory\":\"pages\",\"read\":{read},\"written\":{written},\"upgraded\":{upgraded},\"taken\":{taken}}}"
            ),
        }
    }
}

/// Writes the report, if one is wanted. `name` maps a function's address to its name.
pub fn write(root: &Root, name: impl Fn(usize) -> String) {
    match report_format() {
        ReportFormat::None => {}
        ReportFormat::Text { threads } => sys::print_error(format_text(root, *threads, name)),
        ReportFormat::Json(None) => sys::print_error(format_json(root, name)),
        ReportFormat::Json(Some(path)) => write_to(path, &format_json(root, name)),
    }
}

/// Writes a report to a file, or to standard error if that fails, so that no measurements are lost.
fn write_to(path: &str, report: &str) {
    let written = match WRITER.get() {
        Some(write) => write(report),
        None => fs::write(path, report).map_err(|error| error.to_string()),
    };
    if let Err(error) = written {
        sys::print_error(format_args!(
            "tombolo omp: the report cannot be written to {path}: {error}; it is\n{report}"
        ));
    }
}

fn name_of(line: &RegionTally, name: impl Fn(usize) -> String) -> String {
    if line.function == 0 { "(others)".to_owned() } else { name(line.function) }
}

fn format_milliseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1_000_000, nanoseconds / 1000 % 1000)
}

/// Returns the ratio of the busiest thread's busy time to the mean, in percent; 100 is perfect balance.
fn imbalance(line: &RegionTally) -> u64 {
    let percent = (u128::from(line.busiest) * 100).checked_div(u128::from(line.mean));
    percent.map_or(100, |percent| u64::try_from(percent).unwrap_or(u64::MAX))
}

fn format_text(root: &Root, threads: bool, name: impl Fn(usize) -> String) -> String {
    let nodes = root.nodes();
    let mut text = String::new();
    if let Some(memory) = MEMORY.get() {
        let _ = writeln!(text, "tombolo omp: {}", memory().to_text());
    }
    if nodes.has_several() {
        text.push_str("tombolo omp: nodes; speeds are steps in a millisecond\n");
        let _ = writeln!(text, "{:>10} {:>8}  node", "processors", "speed");
        for (_, node) in nodes.all() {
            let (isa, processors) = (node.isa().name(), node.processors());
            let _ = writeln!(text, "{processors:>10} {:>8}  {} ({isa})", format_speed(node), node.name());
        }
    }
    text.push_str(
        "tombolo omp: regions; iterations are of loops that call the library, not of static ones that GCC compiles in place\n",
    );
    let _ = writeln!(
        text,
        "{:>10} {:>8} {:>12} {:>12} {:>9}  region",
        "runs", "threads", "total ms", "longest ms", "imbalance"
    );
    root.tallies.read(|lines| {
        for line in lines {
            let (total, longest) = (format_milliseconds(line.nanoseconds), format_milliseconds(line.longest));
            let imbalance = imbalance(line);
            let imbalance = format!("{}.{:02}", imbalance / 100, imbalance % 100);
            let name = name_of(line, &name);
            let _ = writeln!(
                text,
                "{:>10} {:>8} {total:>12} {longest:>12} {imbalance:>9}  {name}",
                line.runs, line.threads
            );
            for sum in line.by_node(nodes.count()).iter().filter(|sum| sum.threads > 0) {
                let who = format!("{} on {}", sum.threads, nodes.at(sum.node).name());
                write_totals(&mut text, &who, sum);
            }
            for (id, sum) in line.by_thread().iter().enumerate().filter(|_| threads) {
                write_totals(&mut text, &format!("thread {id} ({})", nodes.at(sum.node).name()), sum);
            }
        }
    });
    for (node, known) in measured_functions(root) {
        let (run, there) = (format_milliseconds(known.run_ns), format_milliseconds(known.move_ns));
        let (name, calls) = (name(known.key), known.calls);
        let _ = writeln!(
            text,
            "function {name} on {node}: {calls} calls, one takes {run} ms, and {there} ms more from another node"
        );
    }
    let moved = root.tallies.bytes_moved_outside();
    if moved > 0 {
        let _ = writeln!(text, "tombolo omp: outside of regions {moved} bytes were moved");
    }
    for (node, node_record) in root.nodes().all() {
        let (to, from) = root.devices().at(node).transferred_bytes();
        if to + from > 0 {
            let (device, name) = (node.saturating_sub(1), node_record.name());
            let _ = writeln!(
                text,
                "device {device} (node {name}): {to} bytes moved there, {from} bytes moved back"
            );
        }
    }
    text
}

/// Returns the load balancer's measurements of functions, with the names of the nodes.
fn measured_functions(root: &Root) -> Vec<(String, Measurement)> {
    let known = root.balancer().map_or_else(Vec::new, |balancer| balancer.measurements(root.nodes()));
    known.into_iter().map(|known| (root.nodes().at(known.node).name(), known)).collect()
}

fn format_speed(node: &Node) -> String {
    match node.speed() {
        0 => "-".to_owned(),
        speed => speed.to_string(),
    }
}

fn write_totals(text: &mut String, who: &str, sum: &Totals) {
    let (busy, waited) = (format_milliseconds(sum.busy), format_milliseconds(sum.waited));
    let _ = writeln!(
        text,
        "{:>10} {who}: busy {busy} ms, waited {waited} ms, {} iterations, {} tasks, {} bytes moved",
        "", sum.iterations, sum.tasks, sum.bytes_moved
    );
}

fn format_json(root: &Root, name: impl Fn(usize) -> String) -> String {
    let nodes = root.nodes();
    let mut text = String::new();
    if let Some(memory) = MEMORY.get() {
        let _ = writeln!(text, "{}", memory().to_json());
    }
    for (_, node) in nodes.all() {
        let (name, isa) = (quote_json(&node.name()), node.isa().name());
        let (processors, speed) = (node.processors(), node.speed());
        let _ = writeln!(
            text,
            "{{\"node\":{name},\"isa\":\"{isa}\",\"processors\":{processors},\"speed\":{speed}}}"
        );
    }
    root.tallies.read(|lines| {
        for line in lines {
            let sums = |sums: &[Totals]| {
                let used = sums.iter().filter(|sum| sum.threads > 0);
                used.map(|sum| format_json_totals(&nodes.at(sum.node).name(), sum)).collect::<Vec<_>>().join(",")
            };
            let imbalance = imbalance(line);
            let _ = writeln!(
                text,
                "{{\"region\":{},\"runs\":{},\"threads\":{},\"total_ns\":{},\"longest_ns\":{},\"imbalance\":{}.{:02},\"by_node\":[{}],\"by_thread\":[{}]}}",
                quote_json(&name_of(line, &name)),
                line.runs,
                line.threads,
                line.nanoseconds,
                line.longest,
                imbalance / 100,
                imbalance % 100,
                sums(line.by_node(nodes.count())),
                sums(line.by_thread()),
            );
        }
    });
    for (node, known) in measured_functions(root) {
        let (name, node) = (quote_json(&name(known.key)), quote_json(&node));
        let Measurement { calls, run_ns, move_ns, .. } = known;
        let _ = writeln!(
            text,
            "{{\"function\":{name},\"node\":{node},\"calls\":{calls},\"run_ns\":{run_ns},\"move_ns\":{move_ns}}}"
        );
    }
    let _ = writeln!(text, "{{\"moved_outside_bytes\":{}}}", root.tallies.bytes_moved_outside());
    text
}

fn format_json_totals(node: &str, sum: &Totals) -> String {
    let Totals { threads, iterations, tasks, busy, waited, bytes_moved, .. } = sum;
    let node = quote_json(node);
    format!(
        "{{\"node\":{node},\"threads\":{threads},\"iterations\":{iterations},\"tasks\":{tasks},\"busy_ns\":{busy},\"waited_ns\":{waited},\"moved_bytes\":{bytes_moved}}}"
    )
}

/// Formats a string as JSON.
fn quote_json(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_formats_are_parsed() {
        assert_eq!(ReportFormat::parse("off"), Some(ReportFormat::None));
        assert_eq!(ReportFormat::parse("TRUE"), Some(ReportFormat::Text { threads: false }));
        assert_eq!(ReportFormat::parse("2"), Some(ReportFormat::Text { threads: true }));
        assert_eq!(ReportFormat::parse("JSON"), Some(ReportFormat::Json(None)));
        assert_eq!(ReportFormat::parse("./Out"), Some(ReportFormat::Json(Some("./Out".to_owned()))));
        assert_eq!(ReportFormat::parse("out.jsonl"), Some(ReportFormat::Json(Some("out.jsonl".to_owned()))));
        assert_eq!(ReportFormat::parse("perhaps"), None);
    }

    #[test]
    fn names_are_quoted_as_json_strings() {
        assert_eq!(quote_json("operator\"\" \\ \n"), "\"operator\\\"\\\" \\\\ \\u000a\"");
    }
}
