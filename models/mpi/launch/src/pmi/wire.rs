//! Wire format of PMI-1: lines `cmd=NAME key=value …`, and blocks of `mcmd=spawn`.

use super::spawn::SpawnCommand;

/// Maximum line length. A value has up to 1024 bytes, a name 256.
pub const MAX_LINE_BYTES: usize = 8 << 10;

/// Maximum total length of a spawn request.
pub const MAX_SPAWN_BYTES: usize = 1 << 20;

/// Error of a malformed PMI-1 message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// A line exceeds the limit.
    #[error("a line is longer than {MAX_LINE_BYTES} bytes")]
    LineTooLong,
    /// A spawn request exceeds the limit.
    #[error("a request to start programs is longer than {MAX_SPAWN_BYTES} bytes")]
    SpawnTooLong,
    /// The message belongs to another PMI version.
    #[error(
        "it speaks PMI-2; this process manager speaks PMI-1 (MPIR_CVAR_PMI_VERSION=1 chooses it in MPICH)"
    )]
    OtherVersion,
    /// The line has no command.
    #[error("'{0}' is not a line of PMI-1")]
    NotPmi(String),
    /// A spawn request has missing or excess fields.
    #[error("a request to start programs is not usable: {0}")]
    Spawn(String),
}

impl Malformed {
    fn not_pmi(line: &[u8]) -> Malformed {
        Malformed::NotPmi(excerpt(line))
    }
}

/// Excerpt of the received bytes, for messages.
pub(super) fn excerpt(bytes: &[u8]) -> String {
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

/// One line: a command and its fields.
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

    /// Value of a field, unescaped text as received.
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

/// Splits a line into words at spaces; a backslash escapes a space.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    let ends = move |character: char| {
        let ends = character == ' ' && !escaped;
        escaped = character == '\\' && !escaped;
        ends
    };
    text.split(ends).filter(|word| !word.is_empty())
}

/// Reassembles messages from a byte stream.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: Vec<u8>,
    /// Number of leading bytes known to contain no end of message.
    searched: usize,
}

impl Reader {
    /// Appends received bytes. The next call of `next` reports a message over the limit.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete message, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        const MANY: &[u8] = b"mcmd=";
        if self.bytes.starts_with(MANY) {
            return self.next_spawn();
        }
        let begins = self.bytes.len().min(4);
        if self.bytes[..begins] != b"cmd="[..begins] && self.bytes[..begins] != MANY[..begins] {
            // PMI-2 begins with a length of six digits instead of a command.
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
                self.consume(end + 1);
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

    fn consume(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.searched = 0;
    }

    /// Reads a spawn request up to the end of its last block; each block states how many there are.
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
                self.consume(end);
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
