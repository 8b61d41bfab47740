//! "Did you mean" hints: finds the known word closest to a misspelt one.

/// Returns the word in `known` with the smallest edit distance to `word`, ignoring case. Returns `None` if
/// the distance exceeds a third of the length of `word` (at least 1). A swap of two adjacent letters counts
/// as one edit.
pub(crate) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.len() / 3).max(1);
    let lower = word.to_ascii_lowercase();
    let distances =
        known.into_iter().map(|known| (strsim::osa_distance(&lower, &known.to_ascii_lowercase()), known));
    distances.filter(|(distance, _)| *distance <= limit).min().map(|(_, known)| known)
}

/// Returns a hint that names the closest word, if there is one.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(word, known).map(|closest| format!("did you mean `{closest}`?"))
}
