//! Listings that are longer than one answer.

use alloc::vec::Vec;

/// Returns all entries of a listing. `ask` returns the entries after the last known one, as many as fit into
/// an answer, and whether there are more.
///
/// # Errors
/// The first error of `ask`.
pub fn all_pages<T, E>(mut ask: impl FnMut(Option<&T>) -> Result<(Vec<T>, bool), E>) -> Result<Vec<T>, E> {
    let mut all = Vec::new();
    loop {
        let (page, more) = ask(all.last())?;
        // An empty page that announces more entries would be requested forever.
        let more = more && !page.is_empty();
        all.extend(page);
        if !more {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_requested_until_the_last() {
        let ask = |last: Option<&u8>| {
            let from = last.map_or(0, |last| last + 1);
            Ok::<_, u8>(((from..10).take(3).collect(), from + 3 < 10))
        };
        assert_eq!(all_pages(ask), Ok((0..10).collect()));
        assert_eq!(all_pages(|_| Ok::<_, u8>((Vec::<u8>::new(), true))), Ok(Vec::new()));
        assert_eq!(all_pages::<u8, _>(|_| Err(3)), Err(3));
    }
}
