//! OpenMP jobs with threads on several nodes, shown as one process from the data of their hub.

use serde::{Deserialize, Serialize};
use tombolo_omp_process::{NodeReport, ProcessReport, ThreadReport};

use super::{Filter, Page, RowRange};

/// Selects threads of a job by a word, and a page of them.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct ThreadsQuery {
    /// Domain of the job's program.
    pub domain: String,
    /// Word to find in the role, state, node or function.
    pub filter: String,
    /// Range of the matching rows.
    #[serde(flatten)]
    pub cut: RowRange,
}

/// A job as one process.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct ProcessRow {
    pub key: String,
    pub pid: u32,
    pub program: String,
    pub folder: String,
    pub nodes: Vec<ProcessNodeRow>,
    pub descriptors: Vec<DescriptorRow>,
}

/// A node of a job.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct ProcessNodeRow {
    pub name: String,
    pub isa: String,
    pub processors: u32,
    pub domain: Option<String>,
    pub threads: usize,
}

/// A descriptor of a job.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct DescriptorRow {
    pub number: u32,
    pub of: String,
}

/// A thread of a job.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct ThreadRow {
    pub key: String,
    pub role: &'static str,
    pub member: u32,
    pub handle: String,
    pub made: String,
    pub node: String,
    pub state: &'static str,
    pub time_ms: u64,
    pub moves: u64,
    pub function: Option<String>,
}

/// Returns the row of the job with this domain.
#[must_use]
pub fn process(domain: &str, report: &ProcessReport) -> ProcessRow {
    let on = |number: usize| report.threads.iter().filter(|thread| thread.node == number).count();
    let node = |(number, node): (usize, &NodeReport)| ProcessNodeRow {
        name: node.name.clone(),
        isa: node.isa.clone(),
        processors: node.processors,
        domain: node.domain.clone(),
        threads: on(number),
    };
    let descriptor = |(number, of): &(u32, String)| DescriptorRow { number: *number, of: of.clone() };
    ProcessRow {
        key: domain.to_owned(),
        pid: report.pid,
        program: report.program.clone(),
        folder: report.folder.clone(),
        nodes: report.nodes.iter().enumerate().map(node).collect(),
        descriptors: report.descriptors.iter().map(descriptor).collect(),
    }
}

/// Returns the threads that a query selects, by number.
#[must_use]
pub fn threads(report: &ProcessReport, query: &ThreadsQuery) -> Page<ThreadRow> {
    let filter = Filter::new(&query.filter);
    let name = |number: usize| report.nodes[number].name.as_str();
    let wanted = |thread: &&ThreadReport| {
        let function = thread.function.as_deref().unwrap_or_default();
        filter.matches([
            thread.role.name(),
            thread.state.name(),
            name(thread.home_node),
            name(thread.node),
            function,
        ])
    };
    let all: Vec<&ThreadReport> = report.threads.iter().filter(wanted).collect();
    query.cut.of(&all, |thread| ThreadRow {
        key: thread.number.to_string(),
        role: thread.role.name(),
        member: thread.team_number,
        handle: format!("{:#x}", thread.handle),
        made: name(thread.home_node).to_owned(),
        node: name(thread.node).to_owned(),
        state: thread.state.name(),
        time_ms: thread.time_ns / 1_000_000,
        moves: thread.moves,
        function: thread.function.clone(),
    })
}

#[cfg(test)]
mod tests {
    use tombolo_omp_process::{Role, State};

    use super::*;

    fn report() -> ProcessReport {
        let node =
            |name: &str| NodeReport { name: name.into(), isa: "aarch64".into(), processors: 1, domain: None };
        let thread = |number: u32, role, on| ThreadReport {
            number,
            role,
            team_number: 0,
            handle: 0xab00,
            home_node: 0,
            node: on,
            state: State::Running,
            time_ns: 1_999_999,
            moves: number.into(),
            function: (on == 1).then(|| "simulate".to_owned()),
        };
        ProcessReport {
            nodes: vec![node("host"), node("arm0")],
            threads: vec![thread(0, Role::Main, 0), thread(1, Role::Created, 1), thread(7, Role::Created, 1)],
            descriptors: vec![(0, "/dev/null".into())],
            ..ProcessReport::default()
        }
    }

    #[test]
    fn threads_are_filtered_and_cut() {
        let keys = |filter: &str, offset| {
            let cut = RowRange { offset, limit: 2 };
            let query = ThreadsQuery { filter: filter.into(), cut, ..ThreadsQuery::default() };
            let page = threads(&report(), &query);
            (page.total, page.rows.into_iter().map(|row| row.key).collect::<Vec<_>>())
        };
        assert_eq!(keys("", 0), (3, vec!["0".to_owned(), "1".to_owned()]));
        assert_eq!(keys("simul", 1), (2, vec!["7".to_owned()]));
        assert_eq!(keys("MAIN", 0), (1, vec!["0".to_owned()]));
        assert_eq!(keys("mars", 0), (0, Vec::new()));
    }

    #[test]
    fn a_job_has_its_threads_counted_by_node() {
        let row = process("0.1.2", &report());
        assert_eq!(row.nodes.iter().map(|node| node.threads).collect::<Vec<_>>(), [1, 2]);
        let page = threads(&report(), &ThreadsQuery::default());
        assert_eq!((page.rows[1].handle.as_str(), page.rows[1].time_ms), ("0xab00", 1));
        assert_eq!((page.rows[1].made.as_str(), page.rows[1].node.as_str()), ("host", "arm0"));
    }
}
