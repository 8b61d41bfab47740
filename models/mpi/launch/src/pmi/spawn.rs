//! Spawn requests: one block of lines per program, from `mcmd=spawn` to `endcmd`.

use super::wire::{Malformed, excerpt};

/// Maximum number of programs in one request.
const MAX_COMMANDS: usize = 256;

/// Maximum number of arguments and of hints per program.
const MAX_FIELDS: usize = 4096;

/// One block of a spawn request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpawnCommand {
    /// Program to run.
    pub program: String,
    /// Number of ranks.
    pub count: usize,
    /// Arguments, without the program's name.
    pub arguments: Vec<String>,
    /// MPI info hints, such as `host` and `wdir`.
    pub info: Vec<(String, String)>,
    /// Initial keys of the new world; only in the first block.
    pub preput: Vec<(String, String)>,
}

impl SpawnCommand {
    /// Value of the hint `key`, if present.
    #[must_use]
    pub fn hint(&self, key: &str) -> Option<&str> {
        self.info.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether the last block in `bytes` is the last one of its request.
    pub(super) fn is_last(bytes: &[u8]) -> bool {
        let block = bytes.windows(5).rposition(|window| window == b"mcmd=").map_or(bytes, |at| &bytes[at..]);
        let number = |key: &[u8]| {
            let value = block.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(key))?;
            std::str::from_utf8(value).ok()?.parse::<usize>().ok()
        };
        // Without these fields the block counts as the last, and parsing reports what is missing.
        number(b"spawnssofar=").is_none_or(|so_far| number(b"totspawns=").is_none_or(|total| so_far >= total))
    }

    /// Parses all blocks of a request.
    pub(super) fn parse_all(bytes: &[u8]) -> Result<Vec<SpawnCommand>, Malformed> {
        let wrong = |why: &str| Malformed::Spawn(why.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8"))?;
        if text.contains('\0') {
            return Err(wrong("it has a zero byte"));
        }
        let mut commands = Vec::new();
        let mut fields = Vec::new();
        for line in text.lines() {
            match line.split_once('=').unwrap_or((line, "")) {
                ("mcmd", "spawn") => fields.clear(),
                ("mcmd", other) => {
                    return Err(Malformed::Spawn(format!("'{}' is asked for", excerpt(other.as_bytes()))));
                }
                ("endcmd", _) => {
                    commands.push(Self::of_fields(&std::mem::take(&mut fields))?);
                    if commands.len() > MAX_COMMANDS {
                        return Err(Malformed::Spawn(format!("it has more than {MAX_COMMANDS} programs")));
                    }
                }
                field => fields.push(field),
            }
        }
        let total = text
            .lines()
            .find_map(|line| line.strip_prefix("totspawns="))
            .and_then(|total| total.parse().ok());
        if total != Some(commands.len()) {
            return Err(wrong("it does not have as many programs as it says"));
        }
        Ok(commands)
    }

    fn of_fields(fields: &[(&str, &str)]) -> Result<SpawnCommand, Malformed> {
        let value = |key: &str| fields.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let missing = |key: &str| Malformed::Spawn(format!("it has no usable '{key}'"));
        let number = |key: &str, default: Option<usize>| match value(key) {
            None => default.ok_or_else(|| missing(key)),
            Some(text) => {
                text.parse().ok().filter(|number| *number <= MAX_FIELDS).ok_or_else(|| missing(key))
            }
        };
        let text = |key: String| value(&key).map(str::to_owned).ok_or_else(|| missing(&key));
        let pairs = |count: usize, what: &str| {
            (0..count)
                .map(|index| Ok((text(format!("{what}_key_{index}"))?, text(format!("{what}_val_{index}"))?)))
                .collect::<Result<Vec<_>, Malformed>>()
        };
        let program = text("execname".into())?;
        if program.is_empty() {
            return Err(missing("execname"));
        }
        Ok(SpawnCommand {
            program,
            count: number("nprocs", None)?,
            // An empty argument has no text after the equals sign.
            arguments: (1..=number("argcnt", Some(0))?)
                .map(|index| text(format!("arg{index}")))
                .collect::<Result<_, _>>()?,
            info: pairs(number("info_num", Some(0))?, "info")?,
            preput: pairs(number("preput_num", Some(0))?, "preput")?,
        })
    }
}
