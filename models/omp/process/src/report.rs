//! Report of a job by its hub, as lines of words. The last word of some lines is text with spaces.
//!
//! ```text
//! process PID
//! program TEXT_BYTES_MAX
//! folder TEXT_BYTES_MAX
//! node NAME ISA PROCESSORS DOMAIN          in the order of their numbers; DOMAIN may be -
//! descriptor NUMBER TEXT_BYTES_MAX
//! thread NUMBER ROLE MEMBER HANDLE MADE ON STATE TIME_NS MOVES FUNCTION    FUNCTION may be -
//! end
//! ```

/// Maximum number of nodes of a job.
const NODES_MAX: usize = 64;
/// Maximum number of threads, and of descriptors, in a report.
const ROWS_MAX: usize = 65_536;
/// Maximum length of a text in bytes; longer ones are truncated.
const TEXT_BYTES_MAX: usize = 512;
/// Maximum size of a message in bytes, unless a single line is longer.
const MESSAGE_BYTES: usize = 1024;

/// Role of a thread in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs `main`.
    Main,
    /// Created by the program.
    Created,
    /// Worker of teams.
    Worker,
}

impl Role {
    const ALL: [Role; 3] = [Role::Main, Role::Created, Role::Worker];

    /// Name of the role in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Main => "main",
            Role::Created => "pthread",
            Role::Worker => "worker",
        }
    }
}

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On a processor or runnable.
    Running,
    /// Waits for other threads of the job.
    Waiting,
    /// Waits for a C library call that the program's process makes for it.
    Calling,
    /// Sleeps in its kernel.
    Sleeping,
    /// Has no work.
    Idle,
}

impl State {
    const ALL: [State; 5] = [State::Running, State::Waiting, State::Calling, State::Sleeping, State::Idle];

    /// Name of the state in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Waiting => "waiting",
            State::Calling => "calling",
            State::Sleeping => "sleeping",
            State::Idle => "idle",
        }
    }
}

/// Node of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeReport {
    /// Name of the node.
    pub name: String,
    /// Name of its instruction set.
    pub isa: String,
    /// Number of its processors.
    pub processors: u32,
    /// Domain of the job's threads on the node, if any.
    pub domain: Option<String>,
}

/// Thread of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadReport {
    /// Number in the job, in the order in which threads began.
    pub number: u32,
    /// Role in the program.
    pub role: Role,
    /// Thread number in its team, for a worker.
    pub team_number: u32,
    /// Handle as returned by `pthread_self` on its node.
    pub handle: u64,
    /// Node on which it was created, an index into the report's nodes.
    pub home_node: usize,
    /// Node on which it is now, an index into the report's nodes.
    pub node: usize,
    /// Current state.
    pub state: State,
    /// Processor time on all nodes, in nanoseconds.
    pub time_ns: u64,
    /// Number of migrations between nodes.
    pub moves: u64,
    /// Function that was called on the current node.
    pub function: Option<String>,
}

/// Job shown as one process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessReport {
    /// Process id as returned by `getpid`.
    pub pid: u32,
    /// Name of the program.
    pub program: String,
    /// Current working directory.
    pub folder: String,
    /// Nodes of the job; the first is where it started.
    pub nodes: Vec<NodeReport>,
    /// Open descriptors and what each refers to.
    pub descriptors: Vec<(u32, String)>,
    /// Threads sorted by number.
    pub threads: Vec<ThreadReport>,
}

/// Encodes text at the end of a line: truncates it and replaces control characters.
fn encode_text(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].chars().map(|each| if each.is_control() { '\u{fffd}' } else { each }).collect()
}

/// Encodes text as one word.
fn encode_word(text: &str) -> String {
    let text: String = encode_text(text).chars().map(|each| if each == ' ' { '_' } else { each }).collect();
    if text.is_empty() { "-".to_owned() } else { text }
}

fn encode_optional(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), encode_word)
}

impl ThreadReport {
    fn encode(&self) -> String {
        let ThreadReport { number, team_number, handle, home_node, node, time_ns, moves, .. } = self;
        let (role, state) = (self.role.name(), self.state.name());
        let function = encode_optional(self.function.as_deref());
        format!(
            "thread {number} {role} {team_number} {handle} {home_node} {node} {state} {time_ns} {moves} {function}"
        )
    }
}

impl ProcessReport {
    /// Encodes the report as messages.
    #[must_use]
    pub fn to_messages(&self) -> Vec<Vec<u8>> {
        let mut lines = vec![
            format!("process {}", self.pid),
            format!("program {}", encode_text(&self.program)),
            format!("folder {}", encode_text(&self.folder)),
        ];
        lines.extend(self.nodes.iter().map(|node| {
            let (name, isa, domain) =
                (encode_word(&node.name), encode_word(&node.isa), encode_optional(node.domain.as_deref()));
            format!("node {name} {isa} {} {domain}", node.processors)
        }));
        lines.extend(
            self.descriptors.iter().map(|(number, of)| format!("descriptor {number} {}", encode_text(of))),
        );
        lines.extend(self.threads.iter().map(ThreadReport::encode));
        lines.push("end".to_owned());
        let mut messages: Vec<Vec<u8>> = Vec::new();
        for line in lines {
            match messages.last_mut() {
                Some(last) if last.len() + line.len() < MESSAGE_BYTES => {
                    last.push(b'\n');
                    last.extend(line.bytes());
                }
                _ => messages.push(line.into_bytes()),
            }
        }
        messages
    }
}

/// Decoder of a report. Its messages come from another program, so everything in them is validated.
#[derive(Debug, Default)]
pub struct Decoder {
    report: ProcessReport,
    ended: bool,
}

impl Decoder {
    /// Decodes a message. Returns whether it was the last; `None` if it is invalid.
    pub fn decode(&mut self, message: &[u8]) -> Option<bool> {
        for line in std::str::from_utf8(message).ok()?.split('\n') {
            if self.ended {
                return None;
            }
            self.decode_line(line)?;
        }
        Some(self.ended)
    }

    /// Returns the report after its last message; `None` if it is incomplete or inconsistent.
    #[must_use]
    pub fn finish(self) -> Option<ProcessReport> {
        let nodes = self.report.nodes.len();
        let has_valid_nodes = |thread: &ThreadReport| thread.home_node < nodes && thread.node < nodes;
        (self.ended && self.report.threads.iter().all(has_valid_nodes)).then_some(self.report)
    }

    fn decode_line(&mut self, line: &str) -> Option<()> {
        let (kind, text) = line.split_once(' ').unwrap_or((line, ""));
        let report = &mut self.report;
        match kind {
            "process" => report.pid = text.parse().ok()?,
            "program" => text.clone_into(&mut report.program),
            "folder" => text.clone_into(&mut report.folder),
            "node" if report.nodes.len() < NODES_MAX => report.nodes.push(decode_node(text)?),
            "descriptor" if report.descriptors.len() < ROWS_MAX => {
                let (number, of) = text.split_once(' ')?;
                report.descriptors.push((number.parse().ok()?, of.to_owned()));
            }
            "thread" if report.threads.len() < ROWS_MAX => report.threads.push(decode_thread(text)?),
            "end" => self.ended = true,
            _ => return None,
        }
        Some(())
    }
}

fn decode_optional(word: &str) -> Option<String> {
    (word != "-").then(|| word.to_owned())
}

fn decode_node(text: &str) -> Option<NodeReport> {
    let words: Vec<&str> = text.split(' ').collect();
    let [node_name, isa, processors, domain] = words[..] else { return None };
    let processors = processors.parse().ok()?;
    Some(NodeReport {
        name: node_name.to_owned(),
        isa: isa.to_owned(),
        processors,
        domain: decode_optional(domain),
    })
}

fn decode_thread(text: &str) -> Option<ThreadReport> {
    let words: Vec<&str> = text.split(' ').collect();
    let [number, role, team_number, handle, home_node, node, state, time_ns, moves, function] = words[..]
    else {
        return None;
    };
    Some(ThreadReport {
        number: number.parse().ok()?,
        role: Role::ALL.into_iter().find(|of| of.name() == role)?,
        team_number: team_number.parse().ok()?,
        handle: handle.parse().ok()?,
        home_node: home_node.parse().ok()?,
        node: node.parse().ok()?,
        state: State::ALL.into_iter().find(|of| of.name() == state)?,
        time_ns: time_ns.parse().ok()?,
        moves: moves.parse().ok()?,
        function: decode_optional(function),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(threads: u32) -> ProcessReport {
        let node = |name: &str, domain: Option<&str>| NodeReport {
            name: name.into(),
            isa: "x86_64".into(),
            processors: 2,
            domain: domain.map(str::to_owned),
        };
        let thread = |number: u32| ThreadReport {
            number,
            role: Role::ALL[number as usize % 3],
            team_number: number / 4,
            handle: 1 << 40 | u64::from(number),
            home_node: 0,
            node: number as usize % 2,
            state: State::ALL[number as usize % 5],
            time_ns: u64::MAX,
            moves: u64::from(number),
            function: (number % 2 == 1).then(|| "work".to_owned()),
        };
        ProcessReport {
            pid: 7,
            program: "a program.tbi with words".into(),
            folder: "/a b".into(),
            nodes: vec![node("host", Some("0.1.2")), node("arm0", None)],
            descriptors: vec![(0, "pipe:[12]".into()), (3, String::new())],
            threads: (0..threads).map(thread).collect(),
        }
    }

    fn decode_all(messages: &[Vec<u8>]) -> Option<ProcessReport> {
        let mut decoder = Decoder::default();
        let last = messages.len() - 1;
        for (index, message) in messages.iter().enumerate() {
            assert_eq!(decoder.decode(message)?, index == last);
        }
        decoder.finish()
    }

    #[test]
    fn report_is_decoded_as_it_was_encoded() {
        for threads in [0, 1, 9, 500] {
            let report = report(threads);
            let messages = report.to_messages();
            assert!(messages.iter().all(|message| message.len() <= MESSAGE_BYTES));
            assert_eq!(decode_all(&messages), Some(report), "{threads}");
        }
    }

    #[test]
    fn unencodable_characters_are_replaced() {
        let mut report = report(1);
        report.program = format!("a\nb{}", "é".repeat(TEXT_BYTES_MAX));
        report.threads[0].function = Some("operator new".into());
        let decoded = decode_all(&report.to_messages()).unwrap();
        assert!(
            decoded.program.starts_with("a\u{fffd}bé") && decoded.program.len() <= TEXT_BYTES_MAX + 4,
            "{}",
            decoded.program
        );
        assert_eq!(decoded.threads[0].function.as_deref(), Some("operator_new"));
    }

    #[test]
    fn invalid_reports_are_rejected() {
        let taken = |text: &str| Decoder::default().decode(text.as_bytes());
        for text in
            ["", "x", "process -1", "node a b 1", "node a b c -", "thread 1", "end\nend", "descriptor 3"]
        {
            assert_eq!(taken(text), None, "{text}");
        }
        assert_eq!(Decoder::default().decode(&[0xff]), None);
        let of = |text: &str| {
            let mut decoder = Decoder::default();
            decoder.decode(text.as_bytes()).and_then(|_| decoder.finish())
        };
        assert!(of("end").is_some());
        assert_eq!(of("process 1"), None, "it has no end");
        let thread = |on: u32| format!("node a b 1 -\nthread 1 main 0 0 0 {on} idle 1 1 -\nend");
        assert!(of(&thread(0)).is_some());
        assert_eq!(of(&thread(1)), None, "there is no such node");
        let nodes = |count: usize| format!("{}end", "node a b 1 -\n".repeat(count));
        assert!(of(&nodes(NODES_MAX)).is_some());
        assert_eq!(of(&nodes(NODES_MAX + 1)), None);
    }

    proptest! {
        #[test]
        fn arbitrary_lines_are_handled(messages in prop::collection::vec("((process|node|thread|end|descriptor) ?[0-9a -]{0,24}\n?){0,4}", 0..4)) {
            let mut decoder = Decoder::default();
            for message in &messages {
                let _ = decoder.decode(message.as_bytes());
            }
            if let Some(report) = decoder.finish() {
                prop_assert!(report.threads.iter().all(|thread| thread.node < report.nodes.len()));
            }
        }
    }
}
