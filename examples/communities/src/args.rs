//! The command line.

use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
Finds communities in a graph by modularity, with workers on all nodes of a machine.

Usage:
  tombolo run communities.tbi -- [OPTIONS] [FILE | --debian]
  communities [OPTIONS] [FILE | --debian]

The graph (undirected; an edge given twice, in either direction, is one edge: weights add up):
  FILE             an edge list: `source target [weight]` per line, names or numbers, # or % starts a comment;
                   or Matrix Market: coordinate, pattern|integer|real, general|symmetric;
                   either may be compressed with gzip. Decimal weights count in millionths
                   A file that was granted (`tombolo run --grant`) is the host's, on whatever node this runs
  --debian         the dependencies between the packages in this machine's Debian package lists (default)
  --rmat SCALE     a generated graph of 2^SCALE vertices and 8 edges for each (R-MAT, the same each time): 4 to 24
  --lfr SCALE      the same with known communities (the LFR benchmark: power laws, 3 of 10 edges lead elsewhere)

Who works:
  --workers LIST   nodes with the number of workers on each, such as host:2,arm0; `none`: the master alone.
                   Default: every node that is up, one worker each, on the host one per two processors
  --threads N      N threads of this process instead; needs no machine

The answer depends on the graph and the seed alone, never on who works:
  --seed N         another seed gives another, about equally good answer (default 1)
  --compare-spreading  spread the graph in both ways, three times each, and say how much longer messages take
  --verify         search again in one thread and compare the answers bit for bit; exit status 1 if they differ

Output:
  --top N          show the N largest communities (default 10)
  --output FILE    write `vertex<TAB>community` lines; community 1 is the largest
  --edges FILE     write the graph as an edge list of numbers, the vertices counted from 0
  --svg FILE       draw the largest communities and what joins them
  --json           print the report as JSON
  -h, --help       print this

Examples:
  tombolo run communities.tbi -- --debian --verify
  tombolo run communities.tbi -- --workers host:1,arm0:1 --top 3 web.mtx.gz
  tombolo run --on arm0 --grant friends.txt communities.tbi -- --json friends.txt
  tombolo run communities.tbi -- --rmat 18 --compare-spreading
  communities --threads 2 --seed 7 --output labels.tsv friends.txt

In a machine, progress and the drawn result are records that `tombolo names 'job/*'` and `tombolo web` show.

Memory: each worker holds the whole graph, in 8 bytes per edge (16 with weights, 24 if a weight reaches 2^32)
and 36 bytes per vertex, and graphs contracted from it, which have weights: 32 MiB for 2 million edges between
500,000 vertices, and up to 100 MiB with what is contracted. The report says what it was.

Exit status: 0 done, 1 failed or not verified, 2 wrong usage.
";

/// What the program is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Print [`HELP`].
    Help,
    /// Search a graph.
    Search(Request),
    /// Serve a master; the master starts this.
    Work {
        /// The name that the master exports.
        master: String,
        /// Which worker this is.
        number: u32,
    },
}

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where the graph comes from.
    pub source: Source,
    /// Who works.
    pub staff: Staff,
    /// What fixes the course of the search.
    pub seed: u64,
    /// How many communities are shown.
    pub top: usize,
    /// Whether to search again alone and compare.
    pub verify: bool,
    /// Whether to spread the graph by messages first.
    pub compare_spreading: bool,
    /// Whether the report is JSON.
    pub json: bool,
    /// Where the labels go.
    pub output: Option<PathBuf>,
    /// Where the graph goes.
    pub edges: Option<PathBuf>,
    /// Where the drawing goes.
    pub svg: Option<PathBuf>,
}

/// Where the graph comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This machine's package lists.
    Debian,
    /// A file.
    File(PathBuf),
    /// A generated graph without communities of that scale.
    Rmat(u32),
    /// A generated graph with communities of that scale.
    Lfr(u32),
}

/// Who works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staff {
    /// Domains on every node that is up.
    EveryNode,
    /// Domains on these nodes, so many on each.
    Nodes(Vec<(String, u32)>),
    /// So many threads of this process; 0 for the master alone.
    Threads(u32),
}

/// Most workers of one search.
pub const WORKERS_MAX: u32 = 256;

/// Why a command line makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// An option that there is not.
    #[error("there is no option {0}")]
    UnknownOption(String),
    /// An option without what belongs to it.
    #[error("{0} needs a value")]
    NoValue(&'static str),
    /// An option with a value that it cannot have.
    #[error("{option} {value}: expected {expected}")]
    BadValue {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it can have.
        expected: &'static str,
    },
    /// Two things of which one is possible.
    #[error("{0} and {1} exclude each other")]
    Exclusive(String, String),
    /// A worker that does not know its master.
    #[error("`worker` is started by a master, with --connect NAME --number N")]
    Worker,
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// They make no sense.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.next_if_eq("worker").is_some() {
        return parse_worker(arguments);
    }
    let mut request = Request {
        source: Source::Debian,
        staff: Staff::EveryNode,
        seed: 1,
        top: 10,
        verify: false,
        compare_spreading: false,
        json: false,
        output: None,
        edges: None,
        svg: None,
    };
    let mut source: Option<(String, Source)> = None;
    let mut staff: Option<&'static str> = None;
    let mut only_files = false;
    while let Some(argument) = arguments.next() {
        if only_files {
            choose(&mut source, &argument, Source::File(argument.as_str().into()))?;
            continue;
        }
        let (option, mut inline) = split(&argument);
        let mut value =
            |name: &'static str| inline.take().or_else(|| arguments.next()).ok_or(UsageError::NoValue(name));
        match option {
            "--" => only_files = true,
            "-h" | "--help" => return Ok(Command::Help),
            "--workers" => {
                claim(&mut staff, "--workers")?;
                request.staff = parse_workers(value("--workers")?)?;
            }
            "--threads" => {
                claim(&mut staff, "--threads")?;
                let text = value("--threads")?;
                request.staff =
                    Staff::Threads(number("--threads", text, WORKERS, 1..=u64::from(WORKERS_MAX))? as u32);
            }
            "--seed" => request.seed = number("--seed", value("--seed")?, "a whole number", 0..=u64::MAX)?,
            "--top" => {
                let limit = u64::from(u32::MAX);
                request.top = number("--top", value("--top")?, "a whole number", 0..=limit)? as usize;
            }
            "--output" => request.output = Some(value("--output")?.into()),
            "--edges" => request.edges = Some(value("--edges")?.into()),
            "--svg" => request.svg = Some(value("--svg")?.into()),
            "--verify" => request.verify = true,
            "--compare-spreading" => request.compare_spreading = true,
            "--json" => request.json = true,
            "--rmat" => {
                let scale = number("--rmat", value("--rmat")?, "a scale from 4 to 24", 4..=24)? as u32;
                choose(&mut source, &format!("--rmat {scale}"), Source::Rmat(scale))?;
            }
            "--lfr" => {
                let scale = number("--lfr", value("--lfr")?, "a scale from 4 to 24", 4..=24)? as u32;
                choose(&mut source, &format!("--lfr {scale}"), Source::Lfr(scale))?;
            }
            "--debian" => choose(&mut source, "--debian", Source::Debian)?,
            _ if option.starts_with('-') => return Err(UsageError::UnknownOption(argument)),
            _ => choose(&mut source, &argument, Source::File(argument.as_str().into()))?,
        }
        if inline.is_some() {
            return Err(UsageError::UnknownOption(argument));
        }
    }
    if let Some((_, source)) = source {
        request.source = source;
    }
    Ok(Command::Search(request))
}

const WORKERS: &str = "a number of workers from 1 to 256";

/// `--option=value` as two; everything else as one.
fn split(argument: &str) -> (&str, Option<String>) {
    match argument.split_once('=') {
        Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
        _ => (argument, None),
    }
}

fn claim(staff: &mut Option<&'static str>, option: &'static str) -> Result<(), UsageError> {
    match staff.replace(option) {
        Some(other) if other != option => Err(UsageError::Exclusive(other.to_owned(), option.to_owned())),
        _ => Ok(()),
    }
}

fn choose(source: &mut Option<(String, Source)>, text: &str, choice: Source) -> Result<(), UsageError> {
    match source.replace((text.to_owned(), choice)) {
        Some((other, _)) if other != text => Err(UsageError::Exclusive(other, text.to_owned())),
        _ => Ok(()),
    }
}

fn number(
    option: &'static str,
    value: String,
    expected: &'static str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, UsageError> {
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(UsageError::BadValue { option, value, expected }),
    }
}

fn parse_workers(text: String) -> Result<Staff, UsageError> {
    if text == "none" {
        return Ok(Staff::Threads(0));
    }
    let mut nodes = Vec::new();
    let mut total = 0;
    for item in text.split(',') {
        let (node, count) = item.split_once(':').unwrap_or((item, "1"));
        let count = count.parse::<u32>().ok().filter(|count| (1..=WORKERS_MAX).contains(count));
        let Some(count) = count.filter(|_| !node.is_empty()) else {
            let expected = "nodes with numbers of workers, such as host:2,arm0, or none";
            return Err(UsageError::BadValue { option: "--workers", value: text, expected });
        };
        total += count;
        nodes.push((node.to_owned(), count));
    }
    if total > WORKERS_MAX {
        return Err(UsageError::BadValue {
            option: "--workers",
            value: text,
            expected: "256 workers at most",
        });
    }
    Ok(Staff::Nodes(nodes))
}

fn parse_worker(mut arguments: impl Iterator<Item = String>) -> Result<Command, UsageError> {
    let (mut master, mut worker) = (None, None);
    while let Some(argument) = arguments.next() {
        let value = arguments.next();
        match argument.as_str() {
            "--connect" => master = value,
            "--number" => worker = value.and_then(|value| value.parse().ok()),
            _ => return Err(UsageError::Worker),
        }
    }
    let (Some(master), Some(number)) = (master, worker) else { return Err(UsageError::Worker) };
    Ok(Command::Work { master, number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned)).map_err(|error| error.to_string())
    }

    fn request(line: &str) -> Request {
        match parsed(line) {
            Ok(Command::Search(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_search_with_everything() {
        let found =
            request("--workers host:2,arm0 --seed=9 --top 3 --verify --json --output out.tsv a=b.txt");
        assert_eq!(found.staff, Staff::Nodes(vec![("host".into(), 2), ("arm0".into(), 1)]));
        assert_eq!((found.seed, found.top, found.verify, found.json), (9, 3, true, true));
        assert_eq!(found.source, Source::File("a=b.txt".into()));
        assert_eq!(found.output, Some("out.tsv".into()));
        assert_eq!(request("").source, Source::Debian);
        let made_up = request("--rmat 4 --compare-spreading");
        assert_eq!((made_up.source, made_up.compare_spreading), (Source::Rmat(4), true));
        assert_eq!(request("--lfr 24").source, Source::Lfr(24));
        assert_eq!(request("-- --debian").source, Source::File("--debian".into()));
        assert_eq!(request("--workers none").staff, Staff::Threads(0));
    }

    #[test]
    fn a_worker() {
        let work = Command::Work { master: "m".into(), number: 3 };
        assert_eq!(parsed("worker --connect m --number 3"), Ok(work));
        for line in ["worker", "worker --connect m", "worker --connect m --number x", "worker --other 1"] {
            assert!(parsed(line).unwrap_err().contains("started by a master"), "{line}");
        }
    }

    #[test]
    fn wrong_usage_says_what_is_expected() {
        for (line, said) in [
            ("--worker host", "no option --worker"),
            ("--verify=yes", "no option --verify=yes"),
            ("-x", "no option -x"),
            ("--seed", "--seed needs a value"),
            ("--seed -1", "expected a whole number"),
            ("--threads 0", "from 1 to 256"),
            ("--threads 257", "from 1 to 256"),
            ("--workers host:0", "such as host:2,arm0"),
            ("--workers host:256,arm0:1", "256 workers at most"),
            ("--workers ,", "such as host:2,arm0"),
            ("--workers host --threads 2", "exclude each other"),
            ("--debian file", "--debian and file exclude each other"),
            ("--rmat 3", "a scale from 4 to 24"),
            ("--rmat 25", "a scale from 4 to 24"),
            ("--lfr 3", "a scale from 4 to 24"),
            ("--lfr 18 --rmat 18", "--lfr 18 and --rmat 18 exclude each other"),
            ("--rmat 24 --debian", "--rmat 24 and --debian exclude each other"),
            ("one two", "one and two exclude each other"),
        ] {
            let error = parsed(line).expect_err(line);
            assert!(error.contains(said), "{line}: {error}");
        }
        assert!(parsed("--threads 256").is_ok() && parsed("--workers host:256").is_ok());
    }
}
