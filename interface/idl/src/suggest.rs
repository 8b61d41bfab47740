//! "Did you mean": the known word that a misspelt one is nearest to.

/// The one of `known` that differs least from `word`, if it differs little. A swap of two neighbours is one
/// difference.
pub(crate) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.len() / 3).max(1);
    let lower = word.to_ascii_lowercase();
    let distances =
        known.into_iter().map(|known| (strsim::osa_distance(&lower, &known.to_ascii_lowercase()), known));
    distances.filter(|(distance, _)| *distance <= limit).min().map(|(_, known)| known)
}

/// The hint that names it.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(word, known).map(|closest| format!("did you mean `{closest}`?"))
}
