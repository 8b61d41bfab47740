//! `tombolo ps`

mod threads;

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use tombolo::DomainId;
use tombolo_admin::trace::TracedInfo;
use tombolo_admin::{DomainInfo, Machine};
use tombolo_trace::page::RowState;
use tombolo_trace::snapshot::RowInfo;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

/// Lists the domains of a machine, on all its nodes
///
/// An ID is NODE.GENERATION.INDEX; the generation counts the starts of the node, so an id is never used
/// again. PID is the process in the kernel of the domain's node. CHANNELS is how many channels the domain has
/// open, `-` if it does not count them. The domain of this command is left out.
///
/// With --threads it shows jobs whose threads are on several nodes, each as one process: images of `tombolo
/// ompcc` that run with OMP_TOMBOLO=hybrid or exclusive. MADE is the node on which a thread was created, NODE
/// where it is now, MOVES how often it has changed its node, TIME how long it has had processors, on any
/// node. A thread is `running`, `waiting` for others of the job, `calling` the C library of the program's
/// process from another node, `sleeping` in its kernel, or `idle`. HANDLE is what pthread_self returns;
/// FUNCTION was called on the node on which the thread is.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo ps
  tombolo ps --threads
  tombolo ps --threads 0.1.4 --json | jq '.jobs[].threads[] | select(.node != .made)'
  tombolo ps --json | jq -r '.domains[] | select(.node == \"arm0\").id'")]
pub(crate) struct Options {
    /// Show the threads of jobs
    #[arg(long)]
    threads: bool,

    /// The job, by the domain of its program [default: all jobs]
    #[arg(value_name = "DOMAIN", requires = "threads")]
    job: Option<DomainId>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A domain, with stable keys.
#[derive(Serialize)]
struct DomainReport {
    id: String,
    node: String,
    program: String,
    pid: i32,
    parent: Option<String>,
    age_s: f64,
    /// Number of open channels; null if the domain does not count them.
    channels: Option<usize>,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    domains: Vec<DomainReport>,
}

impl DomainReport {
    fn new(info: DomainInfo, open: &OpenChannels) -> Self {
        DomainReport {
            id: info.id.to_string(),
            node: info.node,
            program: info.program,
            pid: info.pid,
            parent: info.parent.map(|parent| parent.to_string()),
            age_s: info.age.as_secs_f64(),
            channels: open.get(&info.id).copied(),
        }
    }
}

/// Number of open channels of each domain that counts them.
type OpenChannels = BTreeMap<DomainId, usize>;

fn open_channels(rows: &[(TracedInfo, Vec<RowInfo>)]) -> OpenChannels {
    let open = |rows: &[RowInfo]| rows.iter().filter(|row| row.state == RowState::Open).count();
    rows.iter().map(|(info, rows)| (info.id, open(rows))).collect()
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    if options.threads {
        return threads::run(context, &domain, options.job, options.json);
    }
    let machine = Machine::of(&domain);
    let mut domains = machine.domains()?;
    domains.retain(|info| info.id != domain.id());
    let open = open_channels(&machine.channel_rows()?);
    if options.json {
        let domains = domains.into_iter().map(|info| DomainReport::new(info, &open)).collect();
        return print_json(&Report { machine: domain.machine_name().to_owned(), domains });
    }
    print(render(&domains, &open, context.colour))
}

fn render(domains: &[DomainInfo], open: &OpenChannels, colour: bool) -> String {
    let mut table = Table::new(&["DOMAIN", "NODE", "PID>", "PARENT", "AGE>", "CHANNELS>", "PROGRAM"]);
    for info in domains {
        table.row([
            info.id.to_string(),
            info.node.clone(),
            info.pid.to_string(),
            info.parent.map_or_else(|| "-".to_owned(), |parent| parent.to_string()),
            text::duration(info.age),
            open.get(&info.id).map_or_else(|| "-".to_owned(), ToString::to_string),
            text::one_line(&info.program),
        ]);
    }
    table.render(colour)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn domains_are_listed_with_who_started_them() {
        let info = |id: &str, parent: Option<&str>| DomainInfo {
            id: id.parse().unwrap(),
            node: "arm0".into(),
            program: "work\x1b[31m".into(),
            pid: 42,
            parent: parent.map(|id| id.parse().unwrap()),
            age: Duration::from_secs(75),
            channels: 1,
        };
        let one: DomainId = "1.1.3".parse().unwrap();
        assert_eq!(
            render(&[info("1.1.3", Some("0.1.2")), info("1.1.4", None)], &BTreeMap::from([(one, 2)]), false),
            "DOMAIN  NODE  PID  PARENT     AGE  CHANNELS  PROGRAM\n\
             1.1.3   arm0   42  0.1.2   1m 15s         2  work\u{fffd}[31m\n\
             1.1.4   arm0   42  -       1m 15s         -  work\u{fffd}[31m\n"
        );
    }
}
