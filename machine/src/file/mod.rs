//! Machine files: parses TOML into a checked [`Machine`], or a [`Report`] of every mistake found, each shown
//! at its place. The format is described in `docs/specs/machine-file.md`.

mod attached;
mod boot;
mod coherence;
mod found;
mod limits;
mod links;
mod nodes;
mod report;
mod streams;
mod values;
mod windows;

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tombolo_base::{Isa, NodeId};
use toml::de::{DeTable, DeValue};

pub use report::{Problem, Report};

use crate::model::{Machine, Node, NodeSettings};
use nodes::{FileContext, NodeDraft};
use values::{Reader, Text, Value, with_article};

/// Maximum length of a machine file, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of nodes of a machine.
pub const MAX_NODES: usize = 1024;

const KEYS: [&str; 6] = ["name", "node", "window", "link", "limits", "found"];
const HOST_NOTE: &str = "a machine has exactly one host: [[node]] name = \"host\", kind = \"host\"";

/// Reason why a machine file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read machine file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is too long to be a machine file.
    #[error("{} is longer than the {MAX_FILE_BYTES} bytes that a machine file may have", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file is not text.
    #[error("{} is not a machine file: byte {offset_bytes} is not UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Offset of the first invalid byte.
        offset_bytes: usize,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Invalid(#[from] Report),
}

/// Default machine file of `tombolo up`: this host and a small Arm machine.
pub const DEFAULT_MACHINE_FILE: &str = include_str!("../../../machines/default.toml");

impl Machine {
    /// Returns the machine of [`DEFAULT_MACHINE_FILE`].
    ///
    /// # Errors
    /// A [`Report`] if that machine is not possible on a host of this instruction set.
    pub fn built_in() -> Result<Machine, Report> {
        Machine::parse(DEFAULT_MACHINE_FILE, Path::new("default.toml"), Isa::current())
    }

    /// Reads a machine file for this host.
    ///
    /// # Errors
    /// [`FileError`]; its text names the file, and for mistakes in it each line.
    pub fn open(path: &Path) -> Result<Machine, FileError> {
        let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(FileError::TooLong { path: path.to_owned() });
        }
        let text = String::from_utf8(bytes).map_err(|error| FileError::NotText {
            path: path.to_owned(),
            offset_bytes: error.utf8_error().valid_up_to(),
        })?;
        Ok(Machine::parse(&text, path, Isa::current())?)
    }

    /// Parses the text of a machine file. `path` is its name in errors and the base of relative paths;
    /// `host_isa` is the instruction set of the machine's host.
    ///
    /// # Errors
    /// A [`Report`] of all mistakes found.
    pub fn parse(text: &str, path: &Path, host_isa: Isa) -> Result<Machine, Report> {
        let origin = path.display().to_string();
        let (document, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let problems = errors.iter().map(|error| syntax_problem(error, text.len())).collect();
            return Err(Report::new(&origin, text, problems));
        }
        let mut reader = Reader::default();
        let folder = path.parent().unwrap_or(Path::new(""));
        let machine = read_machine(&mut reader, document.get_ref(), FileContext { host_isa, folder });
        match machine {
            Some(machine) if reader.problems.is_empty() => Ok(machine),
            _ => Err(Report::new(&origin, text, reader.problems)),
        }
    }
}

fn syntax_problem(error: &toml::de::Error, end: usize) -> Problem {
    let span = error.span().unwrap_or(end..end);
    let problem = Problem::new(span, error.message());
    if error.message().starts_with("duplicate key") {
        return problem.label("a key is written once per table");
    }
    problem.note("machine files are TOML: key = value, strings in quotes, tables as [[node]] and [[link]]")
}

/// Reads the machine; `None` if a part is missing, which the reader has recorded like every other mistake.
fn read_machine(reader: &mut Reader, root: &DeTable<'_>, context: FileContext<'_>) -> Option<Machine> {
    reader.refuse_unknown_keys(root, &KEYS, "a machine file");
    let name = match reader.value(root, "name") {
        Some(value) => reader.name(value, "a machine"),
        None => {
            reader.missing(0..0, "name", "this machine", "for example, in the first line: name = \"duo\"");
            None
        }
    };
    let node_tables = tables(reader, root, "node");
    if let Some((_, header)) = node_tables.get(MAX_NODES) {
        reader.report(Problem::new(header.clone(), format!("a machine has {MAX_NODES} nodes at most")));
    }
    let mut drafts: Vec<NodeDraft> = node_tables
        .iter()
        .take(MAX_NODES)
        .map(|(table, header)| nodes::read(reader, table, header.clone(), context))
        .collect();
    check_names(reader, &drafts);
    check_hosts(reader, root, &drafts);
    attached::check_overlaps(reader, &drafts);
    let mut names: Vec<String> = Vec::new();
    for name in drafts.iter().filter_map(|draft| draft.name.as_ref()) {
        if !names.contains(&name.text) {
            names.push(name.text.clone());
        }
    }
    let link_tables = tables(reader, root, "link");
    streams::apply_socket_links(reader, &mut drafts, &node_tables, &link_tables);
    let nodes = number_nodes(drafts);
    let window_tables = tables(reader, root, "window");
    let known = links::KnownNodes { nodes: &nodes, names: &names };
    let windows = windows::read(reader, window_tables.into_iter(), &known);
    let links = links::read(reader, link_tables.into_iter(), &known, &windows);
    let found_tables = tables(reader, root, "found");
    let of = found::Links { known, links: &links, windows: &windows };
    let found = found::read(reader, found_tables.into_iter(), &of);
    let limits = limits::read(reader, root);
    Some(Machine { name: name?.text, nodes, links, windows, found, limits })
}

/// Returns the tables `[[key]]` of the file, with where each begins.
fn tables<'t, 'i>(
    reader: &mut Reader,
    root: &'t DeTable<'i>,
    key: &str,
) -> Vec<(&'t DeTable<'i>, Range<usize>)> {
    let Some(value) = reader.value(root, key) else {
        return Vec::new();
    };
    let note = format!("each {key} is a table of its own, headed [[{key}]]");
    let mut wrong = |value: &Value<'_>, found: &str| {
        let label = if found == "table" { format!("write [[{key}]]") } else { String::new() };
        let message = format!("`{key}` must be a list of tables, not {}", with_article(found));
        reader.report(Problem::new(value.span(), message).label(label).note(note.clone()));
    };
    let DeValue::Array(array) = value.get_ref() else {
        wrong(value, value.get_ref().type_str());
        return Vec::new();
    };
    let mut tables = Vec::with_capacity(array.len());
    for item in array.iter() {
        match item.get_ref() {
            DeValue::Table(table) => tables.push((table, item.span())),
            other => wrong(item, other.type_str()),
        }
    }
    tables
}

/// Word of `--on` for automatic selection of a node.
const AUTO: &str = "auto";

/// Checks that names are unique in a machine and are not reserved words.
fn check_names(reader: &mut Reader, drafts: &[NodeDraft]) {
    let names: Vec<&Text> = drafts.iter().filter_map(|draft| draft.name.as_ref()).collect();
    for (index, name) in names.iter().enumerate() {
        if names[..index].iter().any(|earlier| earlier.text == name.text) {
            reader.report(
                Problem::new(name.span.clone(), format!("there is a node `{}` already", name.text))
                    .label("give this one another name")
                    .note("names of nodes are unique in a machine"),
            );
        }
        if name.text == AUTO {
            reader.report(
                Problem::new(name.span.clone(), format!("a node cannot be called `{AUTO}`"))
                    .label("give this one another name")
                    .note(format!("`--on {AUTO}` chooses nodes")),
            );
        }
    }
}

/// Checks that a machine has exactly one host. A node of unknown kind might be it.
fn check_hosts(reader: &mut Reader, root: &DeTable<'_>, drafts: &[NodeDraft]) {
    let hosts = drafts.iter().filter(|draft| draft.settings == Some(NodeSettings::Host));
    for second in hosts.clone().skip(1) {
        reader.report(
            Problem::new(second.header.clone(), "a second host")
                .label("this is a second host")
                .note(HOST_NOTE),
        );
    }
    let malformed = root.iter().any(|(key, value)| key.get_ref() == "node" && !value.get_ref().is_array());
    if hosts.count() == 0 && !malformed && drafts.iter().all(|draft| draft.settings.is_some()) {
        let place = drafts.first().map_or(0..0, |draft| draft.header.clone());
        reader.report(
            Problem::new(place, "this machine has no host").label("add a host before this").note(HOST_NOTE),
        );
    }
}

/// Assigns ids by position, the host first. Nodes with mistakes, already reported, are omitted.
fn number_nodes(drafts: Vec<NodeDraft>) -> Vec<Node> {
    let mut nodes: Vec<Node> = drafts
        .into_iter()
        .filter_map(|draft| {
            Some(Node {
                id: NodeId::HOST,
                name: draft.name?.text,
                isa: draft.isa?,
                settings: draft.settings?,
            })
        })
        .collect();
    nodes.sort_by_key(|node| node.settings != NodeSettings::Host);
    for (id, node) in (0..).zip(&mut nodes) {
        node.id = NodeId(id);
    }
    nodes
}

#[cfg(test)]
mod tests;
