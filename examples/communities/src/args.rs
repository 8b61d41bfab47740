//! Command line of the program.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Parser};

/// Maximum number of workers of a search.
pub const WORKERS_MAX: u32 = 256;

const AFTER_HELP: &str = "\
The graph is undirected. An edge that is given several times, in either direction, is one edge with the sum of the weights.
A FILE is an edge list with `source target [weight]` per line, where # or % starts a comment, or in Matrix Market format
(coordinate; pattern, integer or real; general or symmetric). Either may be compressed with gzip. Decimal weights are
rounded to millionths. A file that was granted (`tombolo run --grant`) is read from the host, on whatever node this runs.

The answer depends on the graph and the seed alone, not on the number or placement of the workers.

In a machine, progress and the drawn result are records that `tombolo names 'job/*'` and `tombolo web` show.

Memory: each worker holds the whole graph, in 8 bytes per edge (16 with weights, 24 if a weight reaches 2^32) and 36 bytes
per vertex, and graphs contracted from it: 32 MiB for 2 million edges between 500,000 vertices, and up to 100 MiB with the
contracted graphs. The report has the actual figure.

Exit status: 0 done, 1 failed or not verified, 2 wrong usage.

Examples:
  tombolo run communities.tbi -- --debian --verify
  tombolo run communities.tbi -- --workers host:1,arm0:1 --top 3 web.mtx.gz
  tombolo run --on arm0 --grant friends.txt communities.tbi -- --json friends.txt
  tombolo run communities.tbi -- --rmat 18 --compare-spreading
  communities --threads 2 --seed 7 --output labels.tsv friends.txt";

/// Finds communities in a graph by modularity, with workers on all nodes of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(
    name = "communities",
    override_usage = "tombolo run communities.tbi -- [OPTIONS] [FILE | --debian]\n       \
                      communities [OPTIONS] [FILE | --debian]",
    group = ArgGroup::new("graph").multiple(false),
    group = ArgGroup::new("staff").multiple(false),
    after_help = AFTER_HELP
)]
pub struct Request {
    /// Read the graph from this file: an edge list or Matrix Market.
    #[arg(value_name = "FILE", group = "graph", help_heading = "Graph")]
    file: Option<PathBuf>,
    /// Use the dependencies between the packages in this machine's Debian package lists (the default).
    #[arg(long, group = "graph", help_heading = "Graph")]
    debian: bool,
    /// Generate a graph of 2^SCALE vertices with 8 edges each (R-MAT, the same each time).
    #[arg(long, value_name = "SCALE", group = "graph", help_heading = "Graph", value_parser = scale())]
    rmat: Option<u32>,
    /// The same with known communities (the LFR benchmark: power laws, 3 of 10 edges leave their community).
    #[arg(long, value_name = "SCALE", group = "graph", help_heading = "Graph", value_parser = scale())]
    lfr: Option<u32>,

    /// Nodes with the number of workers on each, such as host:2,arm0; `none` for the master alone [default:
    /// one worker on every node that is up, on the host one per two processors].
    #[arg(long, value_name = "LIST", group = "staff", help_heading = "Workers", value_parser = workers)]
    workers: Option<Staff>,
    /// Use this number of threads of this process instead; needs no machine.
    #[arg(long, value_name = "COUNT", group = "staff", help_heading = "Workers")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(WORKERS_MAX)))]
    threads: Option<u32>,

    /// Seed of the search: another seed gives another, about equally good answer.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Send the graph to the workers in both ways, three times each, and report how much longer messages
    /// take.
    #[arg(long)]
    pub compare_spreading: bool,
    /// Search again in one thread and compare the answers bit for bit; exit status 1 if they differ.
    #[arg(long)]
    pub verify: bool,

    /// Show the COUNT largest communities.
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = clap::value_parser!(u32))]
    #[arg(help_heading = "Output")]
    top: u32,
    /// Write `vertex<TAB>community` lines; community 1 is the largest.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Write the graph as an edge list of numbers, with the vertices counted from 0.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub edges: Option<PathBuf>,
    /// Draw the largest communities and the edges between them.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Serves a master, which starts this program with the first argument `worker`.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "communities worker")]
pub struct Worker {
    /// The name that the master exports.
    #[arg(long)]
    pub connect: String,
    /// The number of this worker, from 0.
    #[arg(long)]
    pub number: u32,
}

/// Task selected by the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Search a graph for communities.
    Search(Request),
    /// Serve a master as its worker.
    Work(Worker),
}

impl Command {
    /// Parses the command line, including the program name.
    ///
    /// # Errors
    /// Invalid usage, or a request for help.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
        let mut words: Vec<OsString> = words.into_iter().collect();
        if words.get(1).is_some_and(|word| word == "worker") {
            words.remove(0);
            return Worker::try_parse_from(words).map(Command::Work);
        }
        Request::try_parse_from(words).map(Command::Search)
    }
}

/// Origin of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This machine's package lists.
    Debian,
    /// A file.
    File(PathBuf),
    /// A generated graph without communities of this scale.
    Rmat(u32),
    /// A generated graph with communities of this scale.
    Lfr(u32),
}

/// Workers of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staff {
    /// Domains on every node that is up.
    EveryNode,
    /// Domains on these nodes, with the number on each.
    Nodes(Vec<(String, u32)>),
    /// Threads of this process; 0 for the master alone.
    Threads(u32),
}

impl Request {
    /// Returns the origin of the graph.
    #[must_use]
    pub fn source(&self) -> Source {
        match (&self.file, self.rmat, self.lfr) {
            (Some(path), ..) => Source::File(path.clone()),
            (_, Some(scale), _) => Source::Rmat(scale),
            (_, _, Some(scale)) => Source::Lfr(scale),
            _ => Source::Debian,
        }
    }

    /// Returns the requested workers.
    #[must_use]
    pub fn staff(&self) -> Staff {
        match (&self.workers, self.threads) {
            (Some(staff), _) => staff.clone(),
            (None, Some(count)) => Staff::Threads(count),
            (None, None) => Staff::EveryNode,
        }
    }

    /// Returns the number of communities to show.
    #[must_use]
    pub fn top(&self) -> usize {
        self.top as usize
    }
}

fn scale() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(4..=24)
}

fn workers(text: &str) -> Result<Staff, String> {
    if text == "none" {
        return Ok(Staff::Threads(0));
    }
    let mut nodes = Vec::new();
    let mut total = 0;
    for item in text.split(',') {
        let (node, count) = item.split_once(':').unwrap_or((item, "1"));
        let count = count.parse::<u32>().ok().filter(|count| (1..=WORKERS_MAX).contains(count));
        let Some(count) = count.filter(|_| !node.is_empty()) else {
            return Err("use nodes with numbers of workers, such as host:2,arm0, or none".to_owned());
        };
        total += count;
        nodes.push((node.to_owned(), count));
    }
    if total > WORKERS_MAX {
        return Err(format!("{total} workers are too many; the limit is {WORKERS_MAX}"));
    }
    Ok(Staff::Nodes(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        let words = ["communities"].into_iter().chain(line.split_whitespace());
        Command::parse(words.map(OsString::from)).map_err(|error| error.to_string())
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
        assert_eq!(found.staff(), Staff::Nodes(vec![("host".into(), 2), ("arm0".into(), 1)]));
        assert_eq!((found.seed, found.top(), found.verify, found.json), (9, 3, true, true));
        assert_eq!(found.source(), Source::File("a=b.txt".into()));
        assert_eq!(found.output, Some("out.tsv".into()));
        assert_eq!((request("").source(), request("").staff()), (Source::Debian, Staff::EveryNode));
        let generated = request("--rmat 4 --compare-spreading");
        assert_eq!((generated.source(), generated.compare_spreading), (Source::Rmat(4), true));
        assert_eq!(request("--lfr 24").source(), Source::Lfr(24));
        assert_eq!(request("-- --debian").source(), Source::File("--debian".into()));
        assert_eq!(request("--workers none").staff(), Staff::Threads(0));
        assert_eq!(request("--threads 256").staff(), Staff::Threads(256));
        assert!(parsed("--workers host:256").is_ok());
    }

    #[test]
    fn a_worker() {
        let worker = Worker { connect: "m".into(), number: 3 };
        assert_eq!(parsed("worker --connect m --number 3"), Ok(Command::Work(worker)));
        for line in ["worker", "worker --connect m", "worker --connect m --number x", "worker --other 1"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn wrong_usage_says_what_is_expected() {
        for (line, said) in [
            ("--worker host", "unexpected argument '--worker'"),
            ("--verify=yes", "unexpected value 'yes' for '--verify'"),
            ("-x", "unexpected argument '-x'"),
            ("--seed", "a value is required for '--seed"),
            ("--seed x", "invalid value 'x' for '--seed"),
            ("--threads 0", "1..=256"),
            ("--threads 257", "1..=256"),
            ("--workers host:0", "such as host:2,arm0"),
            ("--workers host:256,arm0:1", "257 workers are too many; the limit is 256"),
            ("--workers ,", "such as host:2,arm0"),
            ("--workers host --threads 2", "cannot be used with"),
            ("--debian file", "cannot be used with"),
            ("--rmat 3", "4..=24"),
            ("--rmat 25", "4..=24"),
            ("--lfr 3", "4..=24"),
            ("--lfr 18 --rmat 18", "cannot be used with"),
            ("--rmat 24 --debian", "cannot be used with"),
            ("one two", "unexpected argument 'two'"),
        ] {
            let error = parsed(line).expect_err(line);
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
