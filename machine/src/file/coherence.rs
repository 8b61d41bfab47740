//! Coherence of a window, and the emulated caches of a window that is not coherent.

use std::num::NonZeroU32;

use tombolo_base::coherence::{Caches, Evictions};
use toml::de::DeTable;

use super::nodes::unknown_word;
use super::report::Problem;
use super::values::{Reader, quoted_list};

const WORDS: [&str; 2] = ["coherent", "flush"];

const EMULATED_NOTE: &str = "cache_seed and evict_one_in emulate a cache for each side of a window with \
                             coherence = \"flush\"; without them the processor's instructions are used";

/// Reads the caches of the window in `table`; `None` if it is coherent.
pub(super) fn read(reader: &mut Reader, table: &DeTable<'_>) -> Option<Caches> {
    let flush = read_word(reader, table);
    let seed = read_number(reader, table, "cache_seed", "chooses what the emulated caches evict");
    let meaning = "at one in this many operations an emulated cache evicts a line; 0 for never";
    let one_in = read_number(reader, table, "evict_one_in", meaning);
    let emulated = seed.is_some() || one_in.is_some();
    if emulated && !flush {
        let key = if seed.is_some() { "cache_seed" } else { "evict_one_in" };
        if let Some(value) = reader.value(table, key) {
            reader.report(
                Problem::new(value.span(), format!("`{key}` has no meaning for a coherent window"))
                    .label("add coherence = \"flush\"")
                    .note(EMULATED_NOTE),
            );
        }
    }
    let evictions =
        Evictions { seed: seed.unwrap_or_default().into(), one_in: one_in.and_then(NonZeroU32::new) };
    flush.then_some(if emulated { Caches::Emulated(evictions) } else { Caches::Processor })
}

fn read_number(reader: &mut Reader, table: &DeTable<'_>, key: &str, meaning: &str) -> Option<u32> {
    let value = reader.value(table, key)?;
    reader.number(key, value, (0, u32::MAX), meaning)
}

/// Returns whether the window needs explicit write-back and invalidation.
fn read_word(reader: &mut Reader, table: &DeTable<'_>) -> bool {
    let Some(value) = reader.value(table, "coherence") else { return false };
    let note = format!("coherence: one of {}", quoted_list(WORDS.into_iter()));
    let Some(word) = reader.text("coherence", value, &note) else { return false };
    match word.text.as_str() {
        "flush" => true,
        "coherent" => false,
        "copy" => {
            reader.report(
                Problem::new(word.span, "a window cannot be `copy`: its nodes map one memory")
                    .label(
                        "if both sides can map it, it is \"flush\" or \"coherent\"; if not, it is no window",
                    )
                    .note(note),
            );
            false
        }
        _ => {
            reader.report(unknown_word(&word, "coherence", WORDS).note(note));
            false
        }
    }
}
