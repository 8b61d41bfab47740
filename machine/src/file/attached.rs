//! Keys of a node that the machine does not start.

use std::ops::Range;
use std::path::{Path, PathBuf};

use tombolo_link::rendezvous::BellKind;
use tombolo_platform::shared_window::{SOURCE_FORMS, WindowSource};
use toml::de::DeTable;

use super::coherence;
use super::nodes::{NodeDraft, NumberKey, number, range_bounds, read_window, unknown_word};
use super::report::Problem;
use super::values::Reader;
use crate::NodeSettings;
use crate::attached::AttachedNode;

const WINDOW_NOTE: &str =
    "window: the memory that the node and this host share, for example \"file:/dev/shm/card0\"";
const JOIN_NOTE: &str = "join: the same memory as the node reaches it, for example \"pci:0000:00:01.0/2\"";
const DOORBELL_NOTE: &str =
    "doorbell: how a sleeping side is woken; with \"poll\" both monitors look at counters in the window";
const KEY_NOTE: &str = "key: a file of 16 bytes or more, the same on both sides";
const SILENCE: NumberKey =
    ("silence_s", "after how many seconds without a sign of life the node counts as lost");

/// Reads the settings; `None` if the window is missing or invalid, which is then reported.
pub(super) fn read(
    reader: &mut Reader,
    table: &DeTable<'_>,
    header: Range<usize>,
    folder: &Path,
) -> Option<AttachedNode> {
    if reader.value(table, "window").is_none() {
        reader.missing(header, "window", "this node", WINDOW_NOTE);
    }
    let window = read_source(reader, table, "window", WINDOW_NOTE).map(|window| window.relative_to(folder));
    let join = read_source(reader, table, "join", JOIN_NOTE);
    let (window_mib, doorbells) = read_window(reader, table, (64, 16));
    let caches = coherence::read(reader, table);
    let doorbell = read_doorbell(reader, table);
    let key = reader.value(table, "key").and_then(|value| reader.path("key", value, KEY_NOTE));
    let silence_s = number(
        reader,
        table,
        &SILENCE,
        range_bounds(&AttachedNode::SILENCE_S),
        AttachedNode::DEFAULT_SILENCE_S,
    );
    let key: Option<PathBuf> = key.map(|key| folder.join(key));
    Some(AttachedNode { window: window?, join, window_mib, doorbells, doorbell, caches, key, silence_s })
}

/// Reports attached nodes that share the same memory with the host: they would overwrite each other.
pub(super) fn check_overlaps(reader: &mut Reader, drafts: &[NodeDraft]) {
    let windows: Vec<(&NodeDraft, &AttachedNode)> = drafts
        .iter()
        .filter_map(|draft| match &draft.settings {
            Some(NodeSettings::Attached(node)) => Some((draft, node)),
            _ => None,
        })
        .collect();
    for (index, (draft, node)) in windows.iter().enumerate() {
        let Some((other, _)) = windows[..index].iter().find(|(_, other)| overlap(node, other)) else {
            continue;
        };
        let [name, other] = [draft, other].map(|draft| draft.name.as_ref().map_or("?", |name| &name.text));
        let what = format!("the windows of nodes `{other}` and `{name}` overlap");
        reader.report(
            Problem::new(draft.header.clone(), what)
                .label(format!("its window is {} MiB of {}", node.window_mib, node.window))
                .note("each node that joins has memory of its own with the host"),
        );
    }
}

fn overlap(one: &AttachedNode, other: &AttachedNode) -> bool {
    /// Returns the identity of the memory, and the offset of the window in it.
    fn place(source: &WindowSource) -> (String, u64) {
        match source {
            WindowSource::File { path, offset_bytes } => (path.display().to_string(), *offset_bytes),
            WindowSource::Physical(address) => ("memory:".to_owned(), *address),
            device => (device.to_string(), 0),
        }
    }
    let ((here, first), (there, second)) = (place(&one.window), place(&other.window));
    let end = |first: u64, node: &AttachedNode| first.saturating_add(u64::from(node.window_mib) << 20);
    here == there && first < end(second, other) && second < end(first, one)
}

fn read_source(
    reader: &mut Reader,
    table: &DeTable<'_>,
    key: &'static str,
    note: &str,
) -> Option<WindowSource> {
    let text = reader.text(key, reader.value(table, key)?, note)?;
    match text.text.parse() {
        Ok(source) => Some(source),
        Err(error) => {
            let forms = format!("{key}: {SOURCE_FORMS}");
            reader.report(Problem::new(text.span, error.to_string()).note(forms));
            None
        }
    }
}

fn read_doorbell(reader: &mut Reader, table: &DeTable<'_>) -> BellKind {
    let value = reader.value(table, "doorbell");
    if let Some(text) = value.and_then(|value| reader.text("doorbell", value, DOORBELL_NOTE))
        && text.text != BellKind::Poll.name()
    {
        reader.report(unknown_word(&text, "doorbell", [BellKind::Poll.name()]).note(DOORBELL_NOTE));
    }
    BellKind::Poll
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::path::Path;

    use tombolo_base::Isa;
    use tombolo_base::coherence::{Caches, Evictions};

    use crate::Machine;

    const TEXT: &str = "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"card0\"\n\
                        kind = \"attached\"\nisa = \"x86_64\"\nwindow = \"pci:0000:03:00.0/2\"\njoin = \"ivshmem\"\n\
                        window_mib = 4\ndoorbells = 3\nkey = \"k\"\nsilence_s = 2\n";

    fn parse(text: &str) -> Result<Machine, String> {
        Machine::parse(text, Path::new("/lab/m.toml"), Isa::X86_64).map_err(|error| error.to_string())
    }

    #[test]
    fn a_node_that_joins_has_its_settings() {
        let machine = parse(TEXT).unwrap();
        let node = machine.node_named("card0").unwrap().as_attached().unwrap();
        assert_eq!(node.window.to_string(), "pci:0000:03:00.0/2");
        assert_eq!(node.joiner_window().to_string(), "ivshmem");
        assert_eq!((node.window_mib, node.doorbells, node.silence_s), (4, 3, 2));
        assert_eq!(node.key.as_deref(), Some(Path::new("/lab/k")));
        let short = "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"card0\"\n\
                     kind = \"attached\"\nisa = \"aarch64\"\nwindow = \"file:w\"\n";
        let machine = parse(short).unwrap();
        let node = machine.node_named("card0").unwrap().as_attached().unwrap();
        assert_eq!(node.joiner_window().to_string(), "file:/lab/w");
        assert_eq!((node.window_mib, node.doorbells, node.silence_s), (64, 16, 10));
        assert_eq!((&node.key, node.caches), (&None, None));
    }

    #[test]
    fn a_window_need_not_be_coherent() {
        for (keys, caches) in [
            ("coherence = \"coherent\"", None),
            ("coherence = \"flush\"", Some(Caches::Processor)),
            (
                "coherence = \"flush\"\ncache_seed = 7\nevict_one_in = 4",
                Some(Caches::Emulated(Evictions { seed: 7, one_in: NonZeroU32::new(4) })),
            ),
        ] {
            let machine = parse(&TEXT.replacen("key", &format!("{keys}\nkey"), 1)).unwrap();
            let node = machine.node_named("card0").unwrap();
            assert_eq!(node.as_attached().unwrap().caches, caches);
            assert_eq!(machine.own_window(node.id).unwrap().caches, caches);
        }
    }

    #[test]
    fn windows_that_overlap_are_refused() {
        let card = |name: &str, window: &str| {
            format!(
                "[[node]]\nname = \"{name}\"\nkind = \"attached\"\nisa = \"x86_64\"\nwindow_mib = 4\n\
                 window = \"{window}\"\n"
            )
        };
        let both = |first: &str, second: &str| {
            let host = "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n";
            parse(&format!("{host}{}{}", card("card0", first), card("card1", second)))
        };
        for (first, second) in [
            ("pci:0000:03:00.0/2", "pci:0000:03:00.0/2"),
            ("ivshmem", "ivshmem"),
            ("file:w", "file:/lab/w+0x3ff000"),
            ("memory:0x40300000", "memory:0x40000000"),
        ] {
            let error = both(first, second).unwrap_err();
            assert!(error.contains("the windows of nodes `card0` and `card1` overlap"), "{error}");
        }
        for (first, second) in [
            ("pci:0000:03:00.0/2", "pci:0000:03:00.0/4"),
            ("file:w", "file:w+0x400000"),
            ("file:w", "file:v"),
            ("memory:0x40400000", "memory:0x40000000"),
        ] {
            both(first, second).unwrap();
        }
    }

    #[test]
    fn mistakes_are_shown() {
        for (from, to, said) in [
            ("window = \"pci:0000:03:00.0/2\"\n", "", "has no `window`"),
            ("pci:0000:03:00.0/2", "pci:0000:03:00.0/7", "a BAR is 0 to 5"),
            ("\"ivshmem\"", "\"shm\"", "invalid window 'shm'"),
            ("silence_s = 2", "silence_s = 0", "too small"),
            ("window_mib = 4", "window_mib = 3", "power of two"),
            ("key", "coherence = \"copy\"\nkey", "a window cannot be `copy`"),
            ("key", "cache_seed = 1\nkey", "has no meaning for a coherent window"),
            ("key", "coherence = \"none\"\nkey", "unknown coherence"),
            ("key", "doorbell = \"irq\"\nkey", "unknown doorbell"),
            ("key", "memory_mib = 4\nkey", "an attached node has no `memory_mib`"),
        ] {
            let error = parse(&TEXT.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(said), "{to}: {error}");
        }
    }
}
