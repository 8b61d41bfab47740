//! Parses the arguments of `tombolod join`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use tombolo_base::coherence::{Caches, Evictions};
use tombolo_platform::shared_window::{InvalidSource, WindowSource};
use tombolod::join::{JoinError, JoinOptions};

use crate::USAGE;

/// Returns the options of `join`; the outer error is a usage error.
pub(crate) fn join_options(words: &[&str]) -> Result<Result<JoinOptions, JoinError>, String> {
    let (mut window, mut file, mut node, mut key) = (None, None, None, None);
    let (mut size_mib, mut silence, mut timeout) = (None, None, None);
    let (mut once, mut force) = (false, false);
    let (mut coherence, mut cache_seed, mut evict_one_in) = (None, None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| format!("{word} needs a value"));
        let seconds = |text: &str| {
            let number = text.parse().ok().filter(|seconds| *seconds > 0);
            let number: u32 =
                number.ok_or_else(|| format!("invalid {word} {text}; give seconds, 1 or more"))?;
            Ok::<_, String>(Duration::from_secs(number.into()))
        };
        match *word {
            "--file" => file = Some(PathBuf::from(value()?)),
            "--node" => node = Some(value()?.to_owned()),
            "--key" => key = Some(PathBuf::from(value()?)),
            "--size-mib" => {
                let text = value()?;
                let number: Option<u32> = text.parse().ok().filter(|mib| *mib > 0);
                size_mib =
                    Some(number.ok_or_else(|| format!("invalid --size-mib {text}; give MiB, 1 or more"))?);
            }
            "--silence" => silence = Some(seconds(value()?)?),
            "--timeout" => timeout = Some(seconds(value()?)?),
            "--coherence" => coherence = Some(value()?),
            "--cache-seed" => cache_seed = Some(count(word, value()?)?),
            "--evict-one-in" => evict_one_in = Some(count(word, value()?)?),
            "--once" => once = true,
            "--force" => force = true,
            text if window.is_none() && !text.starts_with('-') => {
                let source: WindowSource = text.parse().map_err(|error: InvalidSource| error.to_string())?;
                window = Some(source);
            }
            other => return Err(format!("unexpected {other}\n{USAGE}")),
        }
    }
    let caches = caches(coherence, cache_seed, evict_one_in)?;
    let options = match (window, file, &node) {
        (Some(window), None, _) => Ok(JoinOptions { node, ..JoinOptions::new(window) }),
        (window, Some(file), Some(name)) => JoinOptions::from_file(&file, name)
            .map(|options| JoinOptions { window: window.unwrap_or(options.window.clone()), ..options }),
        _ => return Err("name the window, or --file and --node".to_owned()),
    };
    Ok(options.map(|options| JoinOptions {
        length_bytes: size_mib.map(|mib| u64::from(mib) << 20).or(options.length_bytes),
        caches: caches.unwrap_or(options.caches),
        key: key.or(options.key),
        silence: silence.unwrap_or(options.silence),
        timeout,
        once,
        force,
        ..options
    }))
}

fn count(word: &str, text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("invalid {word} {text}; give a number from 0 to {}", u32::MAX))
}

/// Parses this side's caches of the window, as in a machine file; `None` if not given.
fn caches(
    coherence: Option<&str>,
    cache_seed: Option<u32>,
    evict_one_in: Option<u32>,
) -> Result<Option<Option<Caches>>, String> {
    let is_emulated = cache_seed.is_some() || evict_one_in.is_some();
    match coherence {
        Some("flush") if is_emulated => {
            let seed = cache_seed.unwrap_or_default().into();
            let one_in = evict_one_in.and_then(NonZeroU32::new);
            Ok(Some(Some(Caches::Emulated(Evictions { seed, one_in }))))
        }
        Some("flush") => Ok(Some(Some(Caches::Processor))),
        _ if is_emulated => Err("--cache-seed and --evict-one-in need --coherence flush".to_owned()),
        Some("coherent") => Ok(Some(None)),
        Some(other) => Err(format!("unknown coherence '{other}'; give coherent or flush")),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coherence_options_match_the_machine_file() {
        let emulated =
            |seed, one_in| Some(Caches::Emulated(Evictions { seed, one_in: NonZeroU32::new(one_in) }));
        for (words, expected) in [
            ("ivshmem", None),
            ("ivshmem --coherence coherent", None),
            ("ivshmem --coherence flush", Some(Caches::Processor)),
            ("ivshmem --coherence flush --cache-seed 3", emulated(3, 0)),
            ("ivshmem --coherence flush --evict-one-in 4", emulated(0, 4)),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!(join_options(&words).unwrap().unwrap().caches, expected);
        }
        for (words, said) in [
            ("ivshmem --coherence copy", "unknown coherence 'copy'"),
            ("ivshmem --evict-one-in 4", "need --coherence flush"),
            ("ivshmem --coherence flush --cache-seed x", "invalid --cache-seed x"),
            ("ivshmem --coherence", "--coherence needs a value"),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let error = join_options(&words).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
