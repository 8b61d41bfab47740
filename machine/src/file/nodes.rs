//! The `[[node]]` tables of a machine file.

use std::ops::{Range, RangeInclusive};
use std::path::{Component, Path, PathBuf};

use tombolo_base::Isa;
use toml::de::{DeTable, DeValue};

use super::report::Problem;
use super::values::{Reader, Text, Value, quoted_list, with_article};
use super::{attached, boot, coherence};
use crate::model::{Accelerator, BareNode, Folder, NodeSettings, UserNode, VmNode};
use crate::suggest;
use crate::vm::Architecture;

/// A partially read node: a part with a mistake, already reported, is `None`.
pub(super) struct NodeDraft {
    pub(super) name: Option<Text>,
    pub(super) settings: Option<NodeSettings>,
    pub(super) isa: Option<Isa>,
    /// Location of the node's `[[node]]` line.
    pub(super) header: Range<usize>,
}

/// Context of a node outside its own table.
#[derive(Clone, Copy)]
pub(super) struct FileContext<'a> {
    pub(super) host_isa: Isa,
    /// Folder that relative paths are resolved against.
    pub(super) folder: &'a Path,
}

/// Keys of a node, and the kinds that have them.
const KEYS: [(&str, &[&str]); 24] = [
    ("name", &["host", "user", "vm", "bare", "attached"]),
    ("kind", &["host", "user", "vm", "bare", "attached"]),
    ("isa", &["user", "vm", "bare", "attached"]),
    ("memory_mib", &["vm", "bare"]),
    ("processors", &["vm"]),
    ("window", &["attached"]),
    ("window_mib", &["vm", "bare", "attached"]),
    ("doorbells", &["vm", "bare", "attached"]),
    ("doorbell", &["attached"]),
    ("coherence", &["vm", "bare", "attached"]),
    ("join", &["attached"]),
    ("key", &["attached"]),
    ("cache_seed", &["vm", "bare", "attached"]),
    ("evict_one_in", &["vm", "bare", "attached"]),
    ("silence_s", &["attached"]),
    ("accelerator", &["vm"]),
    ("cpu", &["user", "vm", "bare"]),
    ("instruction_clock", &["bare"]),
    ("files", &["user", "vm"]),
    ("kernel", &["vm"]),
    ("modules", &["vm"]),
    ("root", &["vm"]),
    ("disks", &["vm"]),
    ("emulator", &["user", "vm", "bare"]),
];

const CPU_NOTE: &str = "cpu: the emulator's processor model, for example \"cortex-a72\"";
const FILES_NOTE: &str = "files: folders whose contents the node has at its root, for example [\"arm64-root\"]; of the kit: [\"kit:mpi/aarch64\"]";
const EMULATOR_NOTE: &str = "emulator: the program that runs the node, a path or a name on PATH";

/// Reads one `[[node]]`.
pub(super) fn read(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
    context: FileContext<'_>,
) -> NodeDraft {
    let name = match reader.value(table, "name") {
        Some(value) => reader.name(value, "a node"),
        None => {
            reader.missing(header.clone(), "name", "this node", "for example: name = \"arm0\"");
            None
        }
    };
    let Some(kind) = read_kind(reader, table, header.clone()) else {
        let all: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
        reader.refuse_unknown_keys(table, &all, "a node");
        return NodeDraft { name, settings: None, isa: None, header };
    };
    refuse_foreign_keys(reader, table, kind, context.host_isa);
    let isa = match kind {
        "host" => Some(context.host_isa),
        _ => read_isa(reader, table, header.clone(), kind, context.host_isa),
    };
    let settings = match kind {
        "host" => Some(NodeSettings::Host),
        "user" => Some(NodeSettings::User(UserNode {
            cpu: read_cpu(reader, table),
            files: read_files(reader, table, context.folder, UserNode::FOLDERS).pop(),
            emulator: read_emulator(reader, table, context.folder),
        })),
        "vm" => Some(NodeSettings::Vm(VmNode {
            accelerator: read_accelerator(reader, table, isa, context.host_isa),
            ..read_vm(reader, table, context.folder)
        })),
        "attached" => {
            attached::read(reader, table, header.clone(), context.folder).map(NodeSettings::Attached)
        }
        _ => Some(NodeSettings::Bare(read_bare(reader, table, context.folder))),
    };
    NodeDraft { name, settings, isa, header }
}

fn keys_of(kind: &str) -> Vec<&'static str> {
    KEYS.iter().filter(|(_, kinds)| kinds.contains(&kind)).map(|(key, _)| *key).collect()
}

fn read_kind(reader: &mut Reader, table: &DeTable<'_>, header: Range<usize>) -> Option<&'static str> {
    let note = format!("kind: one of {}", quoted_list(NodeSettings::NAMES));
    let Some(value) = reader.value(table, "kind") else {
        reader.missing(header, "kind", "this node", &note);
        return None;
    };
    let text = reader.text("kind", value, &note)?;
    let known = NodeSettings::NAMES.into_iter().find(|name| *name == text.text);
    if known.is_none() {
        reader.report(unknown_word(&text, "kind of node", NodeSettings::NAMES).note(note));
    }
    known
}

/// Returns the problem of a word that is not in `allowed`, with the nearest one as a hint.
pub(super) fn unknown_word<'a>(
    text: &Text,
    what: &str,
    allowed: impl IntoIterator<Item = &'a str>,
) -> Problem {
    let label = match suggest::nearest(&text.text, allowed) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => String::new(),
    };
    Problem::new(text.span.clone(), format!("unknown {what} `{}`", text.text.escape_debug())).label(label)
}

/// Reports keys that no node has, and keys that only nodes of another kind have.
fn refuse_foreign_keys(reader: &mut Reader, table: &DeTable<'_>, kind: &str, host_isa: Isa) {
    let (allowed, what) = (keys_of(kind), node_description(kind));
    for (key, _) in table.iter() {
        let name = key.get_ref().as_ref();
        if allowed.contains(&name) {
            continue;
        }
        let Some((_, kinds)) = KEYS.iter().find(|(known, _)| *known == name) else {
            reader.unknown_key(key.span(), name, &allowed, &what);
            continue;
        };
        let label = match name {
            "isa" => format!("the host's instruction set is detected: {host_isa} here"),
            _ => format!("only {} nodes have it", join_list(kinds)),
        };
        reader.report(
            Problem::new(key.span(), format!("{what} has no `{name}`"))
                .label(label)
                .note(format!("{what} may have: {}", allowed.join(", "))),
        );
    }
}

fn node_description(kind: &str) -> String {
    if kind == "attached" { "an attached node".to_owned() } else { format!("a {kind} node") }
}

fn read_isa(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
    kind: &str,
    host_isa: Isa,
) -> Option<Isa> {
    let possible: Vec<Isa> = Isa::ALL
        .into_iter()
        .filter(|isa| match kind {
            "vm" => Architecture::of(*isa).is_some(),
            "bare" => BareNode::ISAS.contains(isa),
            "attached" => true,
            _ => *isa != host_isa,
        })
        .collect();
    let note =
        format!("isa of {}: {}", node_description(kind), quoted_list(possible.iter().map(|isa| isa.name())));
    let Some(value) = reader.value(table, "isa") else {
        reader.missing(header, "isa", "this node", &note);
        return None;
    };
    let text = reader.text("isa", value, &note)?;
    let problem = match Isa::from_name(&text.text) {
        Some(isa) if possible.contains(&isa) => return Some(isa),
        Some(isa) => {
            let reason = match kind {
                "user" => "the host runs such programs itself",
                "bare" => "there is no board of it yet",
                _ => "there is no virtual machine of it yet",
            };
            Problem::new(text.span, format!("{} cannot be {isa}", node_description(kind))).label(reason)
        }
        None => match suggest::isa_alias(&text.text) {
            Some(name) => Problem::new(text.span, format!("unknown instruction set `{}`", text.text))
                .label(format!("it is called \"{name}\" here")),
            None => unknown_word(&text, "instruction set", possible.iter().map(|isa| isa.name())),
        },
    };
    reader.report(problem.note(note));
    None
}

fn read_cpu(reader: &mut Reader, table: &DeTable<'_>) -> Option<String> {
    let value = reader.value(table, "cpu")?;
    reader.argument("cpu", value, CPU_NOTE)
}

/// Reads an emulator. A bare name is looked up on `PATH` later; a relative path starts at the machine file.
fn read_emulator(reader: &mut Reader, table: &DeTable<'_>, folder: &Path) -> Option<PathBuf> {
    let value = reader.value(table, "emulator")?;
    let text = reader.argument("emulator", value, EMULATOR_NOTE)?;
    Some(if text.contains('/') { folder.join(text) } else { PathBuf::from(text) })
}

/// Reads folders, which are relative to the machine file. Missing folders are reported when the node starts.
fn read_files(reader: &mut Reader, table: &DeTable<'_>, folder: &Path, most: usize) -> Vec<Folder> {
    let Some(value) = reader.value(table, "files") else { return Vec::new() };
    let DeValue::Array(array) = value.get_ref() else {
        let found = with_article(value.get_ref().type_str());
        let mut problem =
            Problem::new(value.span(), format!("`files` must be a list of folders, not {found}"));
        if let DeValue::String(text) = value.get_ref() {
            problem = problem.label(format!("write [{text:?}]"));
        }
        reader.report(problem.note(FILES_NOTE));
        return Vec::new();
    };
    if array.len() > most {
        let message = format!("`files` names {} folders", array.len());
        let label = format!("at most {most}");
        reader.report(Problem::new(value.span(), message).label(label).note(FILES_NOTE));
        return Vec::new();
    }
    array.iter().filter_map(|item| read_folder(reader, item, folder)).collect()
}

/// Prefix of a path in the kit. A folder with such a name is written behind `./`.
const KIT: &str = "kit:";

fn read_folder(reader: &mut Reader, item: &Value<'_>, folder: &Path) -> Option<Folder> {
    let path = reader.path("files", item, FILES_NOTE)?;
    let Some(in_kit) = path.strip_prefix(KIT) else { return Some(Folder::At(folder.join(path))) };
    let in_kit = Path::new(in_kit);
    if in_kit != Path::new("") && in_kit.components().all(|part| matches!(part, Component::Normal(_))) {
        return Some(Folder::InKit(in_kit.to_owned()));
    }
    let problem = Problem::new(item.span(), "a path in `files` is not in the kit");
    reader.report(problem.label("after `kit:` comes a path below it, without `..`").note(FILES_NOTE));
    None
}

fn read_vm(reader: &mut Reader, table: &DeTable<'_>, folder: &Path) -> VmNode {
    let default = VmNode::default();
    let memory_mib = number(reader, table, &MEMORY, range_bounds(&VmNode::MEMORY_MIB), default.memory_mib);
    let processors =
        number(reader, table, &PROCESSORS, range_bounds(&VmNode::PROCESSORS), default.processors.into());
    let (window_mib, doorbells) = read_window(reader, table, (default.window_mib, default.doorbells));
    VmNode {
        memory_mib,
        processors: u8::try_from(processors).unwrap_or(default.processors),
        // A [[link]] of the file may override it.
        join: default.join,
        window_mib,
        doorbells,
        caches: coherence::read(reader, table),
        accelerator: default.accelerator,
        cpu: read_cpu(reader, table),
        files: read_files(reader, table, folder, VmNode::FOLDERS),
        emulator: read_emulator(reader, table, folder),
        boot: boot::read(reader, table, folder),
    }
}

/// Reads the accelerator. A missing `/dev/kvm` is reported when the node starts.
fn read_accelerator(
    reader: &mut Reader,
    table: &DeTable<'_>,
    isa: Option<Isa>,
    host_isa: Isa,
) -> Accelerator {
    let Some(value) = reader.value(table, "accelerator") else { return Accelerator::Tcg };
    let note = format!("accelerator: one of {}", quoted_list(Accelerator::NAMES));
    let Some(word) = reader.text("accelerator", value, &note) else { return Accelerator::Tcg };
    match word.text.as_str() {
        "tcg" => Accelerator::Tcg,
        "kvm" => {
            if let Some(isa) = isa.filter(|isa| *isa != host_isa) {
                let message = format!("KVM executes no {isa}: this host is {host_isa}");
                reader.report(Problem::new(word.span, message).label("\"tcg\" emulates it").note(note));
            }
            Accelerator::Kvm
        }
        _ => {
            reader.report(unknown_word(&word, "accelerator", Accelerator::NAMES).note(note));
            Accelerator::Tcg
        }
    }
}

fn read_bare(reader: &mut Reader, table: &DeTable<'_>, folder: &Path) -> BareNode {
    let default = BareNode::default();
    let memory_mib = number(reader, table, &MEMORY, range_bounds(&BareNode::MEMORY_MIB), default.memory_mib);
    let (window_mib, doorbells) = read_window(reader, table, (default.window_mib, default.doorbells));
    BareNode {
        memory_mib,
        window_mib,
        doorbells,
        cpu: read_cpu(reader, table),
        instruction_clock: read_instruction_clock(reader, table),
        caches: coherence::read(reader, table),
        emulator: read_emulator(reader, table, folder),
    }
}

fn read_instruction_clock(reader: &mut Reader, table: &DeTable<'_>) -> Option<u8> {
    let value = reader.value(table, "instruction_clock")?;
    let meaning = "the clock counts instructions, 2ⁿ nanoseconds for each";
    let shift =
        reader.number("instruction_clock", value, range_bounds(&BareNode::INSTRUCTION_CLOCK), meaning)?;
    u8::try_from(shift).ok()
}

/// Formats kinds as a list: `user`, `vm and bare`, `vm, bare and attached`.
fn join_list(kinds: &[&str]) -> String {
    match kinds {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => kinds.concat(),
    }
}

/// Numeric key with its meaning.
pub(super) type NumberKey = (&'static str, &'static str);

const MEMORY: NumberKey = ("memory_mib", "the node's own memory");
const PROCESSORS: NumberKey = ("processors", "how many the node has");
const WINDOW: NumberKey = ("window_mib", "the memory shared with the host, a power of two");
const DOORBELLS: NumberKey =
    ("doorbells", "interrupts of the window, one for the monitors and one that channels share");

pub(super) fn number(
    reader: &mut Reader,
    table: &DeTable<'_>,
    key: &NumberKey,
    range: (u32, u32),
    default: u32,
) -> u32 {
    let (key, meaning) = *key;
    let value = reader.value(table, key);
    value.and_then(|value| reader.number(key, value, range, meaning)).unwrap_or(default)
}

/// Reads the size of a window and its number of doorbells.
pub(super) fn read_window(reader: &mut Reader, table: &DeTable<'_>, default: (u32, u16)) -> (u32, u16) {
    let window_mib = number(reader, table, &WINDOW, range_bounds(&VmNode::WINDOW_MIB), default.0);
    let doorbells = number(reader, table, &DOORBELLS, range_bounds(&VmNode::DOORBELLS), default.1.into());
    check_window(reader, table, "window_mib", window_mib);
    (window_mib, u16::try_from(doorbells).unwrap_or(default.1))
}

/// Returns the bounds of a range, widened to the type of values read.
pub(super) fn range_bounds<T: Copy + Into<u32>>(range: &RangeInclusive<T>) -> (u32, u32) {
    ((*range.start()).into(), (*range.end()).into())
}

pub(super) fn check_window(reader: &mut Reader, table: &DeTable<'_>, key: &str, window_mib: u32) {
    if let Some(value) = reader.value(table, key)
        && !window_mib.is_power_of_two()
    {
        let above = window_mib.next_power_of_two();
        reader.report(
            Problem::new(value.span(), format!("`{key}` must be a power of two; {window_mib} is not"))
                .label(format!("the nearest are {} and {above}", above / 2))
                .note("a window is a PCI memory region, which has no other sizes"),
        );
    }
}
