//! "Did you mean": finds the allowed word nearest to a mistyped one.

/// Maximum length of words that are compared: longer ones are not misspellings, and comparing takes time.
const MAX_WORD_BYTES: usize = 64;

/// Returns the word of `allowed` that is nearest to `word`, if it is near enough.
#[must_use]
pub fn nearest<'a>(word: &str, allowed: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > MAX_WORD_BYTES {
        return None;
    }
    let word = normalize(word);
    let scored = allowed.into_iter().filter_map(|candidate| {
        let normal_candidate = normalize(candidate);
        let begins = normal_candidate.starts_with(&word) && word.len() >= 3;
        let distance = if begins { 1 } else { strsim::osa_distance(&word, &normal_candidate) };
        let tolerable = (normal_candidate.chars().count().max(3)) / 3;
        (distance <= tolerable).then_some((distance, candidate))
    });
    scored.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Returns the instruction set for which `word` is the name in other systems.
pub(crate) fn isa_alias(word: &str) -> Option<&'static str> {
    match normalize(word).as_str() {
        "arm64" | "armv8" | "armv8_a" | "arm" => Some("aarch64"),
        "amd64" | "x64" | "x86" => Some("x86_64"),
        "riscv" | "riscv64gc" | "rv64" | "rv64gc" => Some("riscv64"),
        "s390" | "z" => Some("s390x"),
        "i486" | "i586" | "i686" | "ia32" => Some("i386"),
        "armhf" | "arm32" | "armv7l" | "armv7_a" | "armv7hf" => Some("armv7"),
        _ => None,
    }
}

fn normalize(word: &str) -> String {
    word.to_lowercase().replace(['-', ' '], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_typos_find_the_nearest_word() {
        let keys = ["name", "kind", "memory_mib", "window_mib", "doorbells"];
        assert_eq!(nearest("memroy_mib", keys), Some("memory_mib"));
        assert_eq!(nearest("Memory-MiB", keys), Some("memory_mib"));
        assert_eq!(nearest("memory", keys), Some("memory_mib"));
        assert_eq!(nearest("doorbell", keys), Some("doorbells"));
        assert_eq!(nearest("knid", keys), Some("kind"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
    }

    #[test]
    fn other_names_of_an_instruction_set_are_known() {
        assert_eq!(isa_alias("ARM64"), Some("aarch64"));
        assert_eq!(isa_alias("riscv64gc"), Some("riscv64"));
        assert_eq!(isa_alias("m68k"), None);
    }
}
