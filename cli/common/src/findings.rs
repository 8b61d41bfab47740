//! Writes the findings of `tombolo litmus` and `tombolo bench link` into a machine file.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tombolo::Isa;
use tombolo_machine::file::{FileError, MAX_FILE_BYTES};
use tombolo_machine::{FoundCost, FoundMemory, Machine, TransportKind, replace_file};
use toml_edit::{Array, ArrayOfTables, Date, Datetime, DocumentMut, InlineTable, Item, Table, Value};

use crate::failure::Failure;
use crate::text;

/// Finding about the link between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Nodes of the link; rates are from the first to the second, and back.
    pub nodes: [String; 2],
    /// Transport of the messages.
    pub transport: TransportKind,
    /// Result of the command.
    pub part: Part,
}

/// Result of a command for a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// Result of `tombolo litmus`.
    Memory(FoundMemory),
    /// Result of `tombolo bench link`.
    Cost(FoundCost),
}

/// A machine file that can be updated.
#[derive(Debug)]
pub struct FindingsFile {
    /// Path as given.
    shown: PathBuf,
    /// Path without symbolic links: the file itself is replaced, not a link to it.
    path: PathBuf,
    machine: Machine,
}

impl FindingsFile {
    /// Checks the file before any measurement: it must describe the machine that is up, and be writable.
    ///
    /// # Errors
    /// A [`Failure`] of the command line, with advice; or the mistakes in the file.
    pub fn open(path: &Path, machine_name: &str) -> Result<FindingsFile, Failure> {
        let machine = Machine::open(path).map_err(|error| match error {
            FileError::Invalid(_) => error.into(),
            error => usage(error.to_string(), "give --write the machine file that `tombolo up` was given"),
        })?;
        if machine.name() != machine_name {
            return Err(usage(
                format!(
                    "{} describes machine '{}', and this is '{machine_name}'",
                    path.display(),
                    machine.name()
                ),
                "give --write the machine file that `tombolo up` was given, or choose the machine with --machine",
            ));
        }
        File::options().append(true).open(path).map_err(|error| unwritable(path, &error))?;
        let real = fs::canonicalize(path).map_err(|error| unwritable(path, &error))?;
        Ok(FindingsFile { shown: path.to_owned(), path: real, machine })
    }

    /// Writes the findings into the file, replacing earlier ones about the same links. Everything else is
    /// preserved, including comments. Readers see the old file or the new one, and of two concurrent commands
    /// the later one keeps the findings of the earlier one.
    ///
    /// # Errors
    /// A [`Failure`] of the command line, with advice. The file is then unchanged.
    pub fn write(&self, findings: &[Finding]) -> Result<(), Failure> {
        let failed = |error: io::Error| unwritable(&self.shown, &error);
        let _locked = lock(&self.path).map_err(failed)?;
        let text = fs::read_to_string(&self.path).map_err(failed)?;
        let mode = fs::metadata(&self.path).map_err(failed)?.permissions().mode() & 0o7777;
        let text = insert_findings(&text, &self.machine, findings, today())
            .map_err(|why| usage(format!("{}: {why}", self.shown.display()), UNCHANGED))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            let message = format!(
                "{} would be longer than the {MAX_FILE_BYTES} bytes that a machine file may have",
                self.shown.display()
            );
            return Err(usage(message, "measure some nodes instead of all"));
        }
        // Parse the result like any machine file, so that a mistake here cannot reach the file.
        Machine::parse(&text, &self.shown, Isa::current()).map_err(FileError::from)?;
        replace_file(&self.path, text.as_bytes(), mode).map_err(failed)
    }

    /// Returns the message after writing.
    #[must_use]
    pub fn written_message(&self, count: usize) -> String {
        format!("wrote what was found of {} to {}", text::count(count, "link"), self.shown.display())
    }
}

/// Locks the file against other commands until the result is dropped. Retries until the locked file is the
/// one at this path.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        let file = File::open(path)?;
        file.lock()?;
        // The previous holder of the lock has replaced the file.
        let (held, named) = (file.metadata()?, fs::metadata(path)?);
        if (held.dev(), held.ino()) == (named.dev(), named.ino()) {
            return Ok(file);
        }
    }
}

/// Hint of a command that could have written its findings.
pub const HINT: &str = "hint: `--write FILE` keeps what was found in the machine file";

const UNCHANGED: &str = "the file is as it was; delete its [[found]] tables and try again";

fn usage(message: String, hint: &'static str) -> Failure {
    Failure::Usage { message, hint: Some(hint) }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => "give --write the machine file that `tombolo up` was given",
        _ => "make the file and its folder writable, or copy it and give --write the copy",
    };
    usage(format!("cannot write {}: {error}", path.display()), hint)
}

/// Returns the text of a machine file with these findings in it.
fn insert_findings(text: &str, machine: &Machine, findings: &[Finding], on: Date) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("it is not TOML: {error}"))?;
    let tables = document.entry("found").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let tables =
        tables.as_array_of_tables_mut().ok_or("`found` is a value: write each as a table, [[found]]")?;
    for finding in findings {
        let [a, b] = &finding.nodes;
        let ids = [a, b].map(|name| machine.node_named(name).map(|node| node.id));
        let [Some(a_id), Some(b_id)] = ids else {
            return Err(format!("it has no node `{}`", if ids[0].is_none() { a } else { b }));
        };
        let mut finding = finding.clone();
        // Tables have the node with the smaller number first.
        if a_id > b_id {
            finding.nodes.reverse();
            if let Part::Cost(cost) = &mut finding.part {
                std::mem::swap(&mut cost.bytes_per_s, &mut cost.bytes_per_s_back);
            }
        }
        let index = tables.iter().position(|table| is_for_nodes(table, &finding.nodes));
        let table = match index {
            Some(index) => tables.get_mut(index),
            None => {
                tables.push(Table::new());
                tables.iter_mut().last()
            }
        };
        if let Some(table) = table {
            fill_table(table, &finding, on);
        }
    }
    Ok(document.to_string())
}

/// Returns whether a table is about these two nodes, in either order.
fn is_for_nodes(table: &Table, nodes: &[String; 2]) -> bool {
    let between = table.get("between").and_then(Item::as_array);
    let names: Vec<&str> = between.into_iter().flatten().filter_map(Value::as_str).collect();
    let [a, b] = nodes;
    names == [a, b] || names == [b, a]
}

fn fill_table(table: &mut Table, finding: &Finding, on: Date) {
    let nodes: Array = finding.nodes.iter().map(String::as_str).collect();
    // Each pair is written from its first node.
    set(table, "between", nodes.into());
    set(table, "transport", finding.transport.name().into());
    let (key, mut inner) = match &finding.part {
        Part::Memory(memory) => ("memory", memory_table(memory)),
        Part::Cost(cost) => ("cost", cost_table(cost)),
    };
    inner.insert("on", Datetime { date: Some(on), time: None, offset: None }.into());
    inner.insert("by", env!("CARGO_PKG_VERSION").into());
    set(table, key, inner.into());
}

/// Sets a value and preserves the comments around the previous one.
fn set(table: &mut Table, key: &str, mut value: Value) {
    let Some(item) = table.get_mut(key) else {
        table.insert(key, Item::Value(value));
        return;
    };
    if let Some(before) = item.as_value() {
        *value.decor_mut() = before.decor().clone();
    }
    *item = Item::Value(value);
}

fn memory_table(memory: &FoundMemory) -> InlineTable {
    let mut table = InlineTable::new();
    table.insert("coherence", if memory.coherent { "coherent" } else { "flush" }.into());
    table.insert("order", memory.order.name().into());
    table.insert("widest_store_bytes", i64::from(memory.widest_store_bytes).into());
    table.insert("atomics", memory.atomics.into());
    table
}

fn cost_table(cost: &FoundCost) -> InlineTable {
    let mut table = InlineTable::new();
    let mut curve = Array::new();
    for (bytes, time_ns) in &cost.latency_ns {
        curve.push(Value::from_iter([integer(*bytes), integer(*time_ns)]));
    }
    table.insert("round_trip_ns", integer(cost.round_trip_ns));
    table.insert("latency_ns", curve.into());
    table.insert("bytes_per_s", integer(cost.bytes_per_s));
    table.insert("bytes_per_s_back", integer(cost.bytes_per_s_back));
    table
}

fn integer(value: u64) -> Value {
    i64::try_from(value).unwrap_or(i64::MAX).into()
}

/// Returns today's date, in UTC.
fn today() -> Date {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_of_day(since.as_secs() / 86_400)
}

/// Returns the date of a day since 1970-01-01, in the Gregorian calendar.
fn date_of_day(days: u64) -> Date {
    // Years begin in March, so that a leap day is the last of its year; day 0 is 0000-03-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    Date { year: year as u16, month: month as u8, day: day as u8 }
}

#[cfg(test)]
mod tests {
    use tombolo_machine::Order;

    use super::*;

    const TEXT: &str = "# my lab\nname = \"m\"  # short\n\n[[node]]\nname = \"host\"\nkind = \"host\"\n\n[[node]]\n\
                        name = \"s390x-user\" # an emulator\nkind = \"user\"\nisa = \"s390x\"\n";
    const DAY: Date = Date { year: 2026, month: 11, day: 27 };

    fn machine(text: &str) -> Machine {
        Machine::parse(text, Path::new("m.toml"), Isa::X86_64)
            .unwrap_or_else(|report| panic!("{report}\n{text}"))
    }

    fn finding(nodes: [&str; 2], part: Part) -> Finding {
        Finding { nodes: nodes.map(str::to_owned), transport: TransportKind::Shm, part }
    }

    fn memory(widest_store_bytes: u8) -> FoundMemory {
        FoundMemory { coherent: true, order: Order::Sequential, widest_store_bytes, atomics: true }
    }

    fn cost() -> FoundCost {
        FoundCost {
            round_trip_ns: 900,
            latency_ns: vec![(8, 450), (64, 480)],
            bytes_per_s: 7,
            bytes_per_s_back: 9,
        }
    }

    #[test]
    fn findings_round_trip_and_the_rest_stays() {
        let (part, other) = (Part::Memory(memory(8)), Part::Cost(cost()));
        let first =
            insert_findings(TEXT, &machine(TEXT), &[finding(["host", "s390x-user"], part)], DAY).unwrap();
        assert!(first.starts_with(TEXT), "{first}");
        // The same pair in the other order: its rates are swapped.
        let second =
            insert_findings(&first, &machine(&first), &[finding(["s390x-user", "host"], other)], DAY)
                .unwrap();
        assert!(second.starts_with(TEXT) && second.matches("[[found]]").count() == 1, "{second}");
        let read = machine(&second);
        let [found] = read.found() else { panic!("{second}") };
        assert_eq!(found.memory, Some(memory(8)));
        assert_eq!(found.cost, Some(FoundCost { bytes_per_s: 9, bytes_per_s_back: 7, ..cost() }));
        assert!(second.contains("on = 2026-11-27"), "{second}");
    }

    #[test]
    fn a_later_finding_replaces_the_earlier_and_keeps_comments() {
        let of = |bytes| [finding(["host", "s390x-user"], Part::Memory(memory(bytes)))];
        let first = insert_findings(TEXT, &machine(TEXT), &of(8), DAY).unwrap();
        let marked = first.replacen("transport = \"shm\"", "# by hand\ntransport = \"shm\" # why", 1);
        let second = insert_findings(&marked, &machine(&marked), &of(16), DAY).unwrap();
        assert_eq!(machine(&second).found()[0].memory, Some(memory(16)));
        assert!(second.contains("# by hand\ntransport = \"shm\" # why"), "{second}");
        assert_eq!(second.replace("widest_store_bytes = 16", "widest_store_bytes = 8"), marked);
    }

    #[test]
    fn a_file_that_is_not_that_machine_or_cannot_be_written_is_wrong_usage() {
        let folder = std::env::temp_dir().join(format!("tombolo-found-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("m.toml");
        fs::write(&path, TEXT).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let failed = |path: &Path, name: &str| {
            let failure = FindingsFile::open(path, name).unwrap_err();
            assert!(failure.status() == 2 && failure.hint().is_some(), "{failure}");
            failure.to_string()
        };
        assert!(failed(&path, "other").contains("describes machine 'm', and this is 'other'"));
        assert!(failed(&folder.join("absent.toml"), "m").contains("absent.toml"));
        let link = folder.join("link.toml");
        std::os::unix::fs::symlink("m.toml", &link).unwrap();
        let file = FindingsFile::open(&link, "m").unwrap();
        file.write(&[finding(["host", "s390x-user"], Part::Cost(cost()))]).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link still is one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        let unknown = file.write(&[finding(["host", "mars"], Part::Cost(cost()))]).unwrap_err();
        assert!(unknown.status() == 2 && unknown.to_string().contains("no node `mars`"), "{unknown}");
        assert_eq!(machine(&fs::read_to_string(&path).unwrap()).found().len(), 1);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left beside the file");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn concurrent_writers_keep_all_findings() {
        let folder = std::env::temp_dir().join(format!("tombolo-found-at-once-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("m.toml");
        let nodes: Vec<String> = (0..8).map(|number| format!("user{number}")).collect();
        let node =
            |name: &String| format!("\n[[node]]\nname = \"{name}\"\nkind = \"user\"\nisa = \"s390x\"\n");
        fs::write(&path, TEXT.to_owned() + &nodes.iter().map(node).collect::<String>()).unwrap();
        std::thread::scope(|scope| {
            for node in &nodes {
                let file = FindingsFile::open(&path, "m").unwrap();
                scope.spawn(move || file.write(&[finding(["host", node], Part::Cost(cost()))]).unwrap());
            }
        });
        let written = machine(&fs::read_to_string(&path).unwrap()).found().len();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(written, nodes.len());
    }

    #[test]
    fn days_have_their_dates() {
        let shown = |days| {
            let Date { year, month, day } = date_of_day(days);
            (year, month, day)
        };
        assert_eq!([0, 58, 59].map(shown), [(1970, 1, 1), (1970, 2, 28), (1970, 3, 1)]);
        assert_eq!([11_016, 11_017, 20_784].map(shown), [(2000, 2, 29), (2000, 3, 1), (2026, 11, 27)]);
    }
}
