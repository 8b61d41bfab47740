//! Lines of PMI-1: `cmd=NAME key=value …`, and the blocks of `mcmd=spawn`.

use super::spawn::SpawnCommand;

/// The longest line. What is put may have 1024 bytes, and a name 256.
pub const MAX_LINE_BYTES: usize = 8 << 10;

/// The longest request to start programs: all of its lines.
pub const MAX_SPAWN_BYTES: usize = 1 << 20;

/// Why bytes are no message of PMI-1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// A line has no end.
    #[error("a line is longer than {MAX_LINE_BYTES} bytes")]
    LineTooLong,
    /// A request to start programs has no end.
    #[error("a request to start programs is longer than {MAX_SPAWN_BYTES} bytes")]
    SpawnTooLong,
    /// It speaks another version.
    #[error(
        "it speaks PMI-2; this process manager speaks PMI-1 (MPIR_CVAR_PMI_VERSION=1 chooses it in MPICH)"
    )]
    OtherVersion,
    /// No command.
    #[error("'{0}' is not a line of PMI-1")]
    NotPmi(String),
    /// A request to start programs lacks something, or has too much of it.
    #[error("a request to start programs is not usable: {0}")]
    Spawn(String),
}

impl Malformed {
    fn not_pmi(line: &[u8]) -> Malformed {
        Malformed::NotPmi(shown(line))
    }
}

/// The beginning of what was received, for messages.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 60;
    let mut text = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string();
    if bytes.len() > SHOWN_BYTES {
        text.push('…');
    }
    text
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    Command(Command),
    Spawn(Vec<SpawnCommand>),
}

/// A line: what is to be done, and with what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Command {
    pub(super) name: String,
    fields: Vec<(String, String)>,
}

impl Command {
    fn parse(line: &[u8]) -> Result<Command, Malformed> {
        let text = std::str::from_utf8(line).ok().filter(|text| !text.chars().any(char::is_control));
        let mut words = words(text.ok_or_else(|| Malformed::not_pmi(line))?).map(split);
        match words.next() {
            Some((first, name)) if first == "cmd" && !name.is_empty() => {
                Ok(Command { name: name.to_owned(), fields: words.map(owned).collect() })
            }
            _ => Err(Malformed::not_pmi(line)),
        }
    }

    /// The value of a field, as it stands there.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }
}

fn split(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// The words of a line: between blanks, of which one behind a backslash is none.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    let ends = move |character: char| {
        let ends = character == ' ' && !escaped;
        escaped = character == '\\' && !escaped;
        ends
    };
    text.split(ends).filter(|word| !word.is_empty())
}

/// Takes bytes as they come and gives out whole messages.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: Vec<u8>,
    /// Bytes of it that hold no end of what is being read.
    searched: usize,
}

impl Reader {
    /// Takes bytes in. A sender of more than a message may have is refused by the next call of `next`.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        const MANY: &[u8] = b"mcmd=";
        if self.bytes.starts_with(MANY) {
            return self.next_spawn();
        }
        let begins = self.bytes.len().min(4);
        if self.bytes[..begins] != b"cmd="[..begins] && self.bytes[..begins] != MANY[..begins] {
            // Six digits of a length, in place of a command.
            let length = self.bytes.iter().take(6).all(|byte| byte.is_ascii_digit() || *byte == b' ');
            if length && self.bytes.len() < 6 {
                return Ok(None);
            }
            let line = self.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            return Err(if length { Malformed::OtherVersion } else { Malformed::not_pmi(line) });
        }
        match self.line_end() {
            Some(end) if end > MAX_LINE_BYTES => Err(Malformed::LineTooLong),
            None if self.bytes.len() > MAX_LINE_BYTES => Err(Malformed::LineTooLong),
            None => Ok(None),
            Some(end) => {
                let command = Command::parse(&self.bytes[..end])?;
                self.drop_first(end + 1);
                Ok(Some(Message::Command(command)))
            }
        }
    }

    fn line_end(&mut self) -> Option<usize> {
        let found = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = found.map(|index| self.searched + index);
        self.searched = end.unwrap_or(self.bytes.len());
        end
    }

    fn drop_first(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.searched = 0;
    }

    /// A block for each program, to the end of the last, which each says how many there are.
    fn next_spawn(&mut self) -> Result<Option<Message>, Malformed> {
        const END: &[u8] = b"\nendcmd\n";
        while let Some(index) = find(&self.bytes[self.searched..], END) {
            let end = self.searched + index + END.len();
            if end > MAX_SPAWN_BYTES {
                return Err(Malformed::SpawnTooLong);
            }
            self.searched = end - 1;
            if SpawnCommand::is_last(&self.bytes[..end]) {
                let commands = SpawnCommand::parse_all(&self.bytes[..end])?;
                self.drop_first(end);
                return Ok(Some(Message::Spawn(commands)));
            }
        }
        self.searched = self.searched.max(self.bytes.len().saturating_sub(END.len()));
        if self.bytes.len() > MAX_SPAWN_BYTES {
            return Err(Malformed::SpawnTooLong);
        }
        Ok(None)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
