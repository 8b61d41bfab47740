//! Locations of files that outlive a run: only caches, which are safe to delete.

use std::ffi::OsString;
use std::path::PathBuf;

/// Error: no folder for caches can be determined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no folder for caches: set TOMBOLO_CACHE, XDG_CACHE_HOME or HOME to an absolute path")]
pub struct NoCacheDir;

/// Returns the folder for caches: `$TOMBOLO_CACHE`, else `$XDG_CACHE_HOME/tombolo`, else
/// `$HOME/.cache/tombolo`. It may not exist yet.
///
/// # Errors
/// [`NoCacheDir`] when none of the variables is an absolute path.
pub fn cache_dir() -> Result<PathBuf, NoCacheDir> {
    cache_dir_from(|variable| std::env::var_os(variable))
}

fn cache_dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, NoCacheDir> {
    // A relative path would denote a different folder for each process; the XDG specification requires to
    // ignore it.
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("TOMBOLO_CACHE")
        .or_else(|| Some(absolute("XDG_CACHE_HOME")?.join("tombolo")))
        .or_else(|| Some(absolute("HOME")?.join(".cache/tombolo")))
        .ok_or(NoCacheDir)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<PathBuf, NoCacheDir> {
        cache_dir_from(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn most_specific_variable_wins() {
        let all = [("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("TOMBOLO_CACHE", "/t")];
        assert_eq!(with(&all).as_deref(), Ok(Path::new("/t")));
        assert_eq!(with(&all[..2]).as_deref(), Ok(Path::new("/x/tombolo")));
        assert_eq!(with(&all[..1]).as_deref(), Ok(Path::new("/h/.cache/tombolo")));
        assert_eq!(
            with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]).as_deref(),
            Ok(Path::new("/h/.cache/tombolo"))
        );
        assert_eq!(with(&[("HOME", "")]), Err(NoCacheDir));
    }
}
