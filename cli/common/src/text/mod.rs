//! Formatting of values for people.

mod table;

use std::path::Path;
use std::time::Duration;

use tombolo::nodes::Target;
use tombolo_machine::Image;

pub use table::Table;

/// Formats a time span with two or three digits: `0.8 s`, `2m 05s`, `3h 20m`, `4d 07h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", (time.as_secs_f64() * 10.0).floor() / 10.0),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Formats a number of bytes with a binary prefix: `512 B`, `1.5 KiB`, `64 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

/// Parses a number of bytes: `4096`, `64KiB`, `16M`, `1GiB`, `1T`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err("give a whole number of bytes, or one with KiB, MiB, GiB or TiB: 64KiB".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "a size begins with a whole number".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "the size exceeds 64 bits".to_owned())
}

/// Formats a number with a noun: `1 domain`, `2 domains`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Formats a line about a new image: `job.tbi: 1.2 MiB, for x86_64, aarch64`.
#[must_use]
pub fn packed(path: &Path, image: &Image) -> String {
    let targets: Vec<&str> = image.targets().into_iter().map(Target::name).collect();
    format!("{}: {}, for {}\n", path.display(), bytes(image.as_bytes().len() as u64), targets.join(", "))
}

/// Returns the text with line breaks and terminal control characters made visible.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Returns the text without terminal control characters; line breaks are kept.
pub fn printable(text: &str) -> String {
    text.lines().map(one_line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65_536),
            ("16M", 16 << 20),
            ("1GiB", 1 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "4KB", "-1", "1.5MiB", "18446744073709551616", "17179869184GiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_short() {
        let shown = |ms| duration(Duration::from_millis(ms));
        assert_eq!(shown(0), "0.0 s");
        assert_eq!(shown(849), "0.8 s");
        assert_eq!(shown(9_999), "9.9 s");
        assert_eq!(shown(59_999), "59 s");
        assert_eq!(shown(125_000), "2m 05s");
        assert_eq!(shown(12_000_000), "3h 20m");
        assert_eq!(shown(371_000_000), "4d 07h");
    }

    #[test]
    fn bytes_have_binary_prefixes() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("a\nb\x1b[31m"), "a\u{fffd}b\u{fffd}[31m");
        assert_eq!(printable("a\r\n\nb\x1b[31m\n"), "a\n\nb\u{fffd}[31m");
        assert_eq!(count(1, "node"), "1 node");
        assert_eq!(count(0, "node"), "0 nodes");
    }
}
