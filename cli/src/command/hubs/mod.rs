//! `tombolo hubs`

mod run;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use tombolo::DomainId;
use tombolo_hubs::plan::{Application, Plan, PlanError, Topology};
use tombolo_hubs::{Description, HubError, Kind, Status, Waiting};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::Table;

/// Shows and serves hubs: queues, semaphores, events, locks and pools that programs on all nodes share
///
/// Without a subcommand it lists the hubs of the machine. DEPTH counts what can be taken: the values of a
/// fifo, the count of a semaphore, the free blocks of a pool. Waiting requests are shown by priority, the
/// highest first, as PRIORITY×COUNT. INHERITANCE of a resource is `off`, or `on` with the priority that its
/// owner inherits.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo hubs                                       list the hubs of the machine
  tombolo hubs --json | jq '.hubs[].name'
  tombolo hubs run app.toml topology.toml            serve the hubs of an application and run its tasks
  tombolo hubs serve jobs:fifo:64 done:semaphore:100 --on arm0")]
pub(crate) struct Options {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,

    #[command(subcommand)]
    command: Option<HubsCommand>,
}

#[derive(Subcommand, Debug)]
enum HubsCommand {
    Run(RunOptions),
    Serve(ServeOptions),
}

/// Serves the hubs of an application and runs its tasks
///
/// APPLICATION declares hubs and tasks by name; TOPOLOGY places them on nodes. The command ends when all
/// tasks have ended, with the status of the first that failed; without tasks it serves until Ctrl-C. Then
/// the hubs are gone, with what they held.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo hubs run app.toml topology.toml
  tombolo hubs run app.toml --on host                everything on one node
  tombolo hubs run app.toml topology.toml --check    only check the files against the machine")]
struct RunOptions {
    /// The application file
    application: PathBuf,

    /// The topology file
    #[arg(conflicts_with = "on", required_unless_present = "on")]
    topology: Option<PathBuf>,

    /// Place everything on this node
    #[arg(long, value_name = "NODE")]
    on: Option<String>,

    /// Check the files, and start nothing
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    common: Common,
}

/// Serves hubs on a node
///
/// A hub is NAME:KIND, NAME:KIND:CAPACITY or NAME:KIND:CAPACITY:BYTES, where BYTES is the longest value of a
/// port or fifo, 256 unless set, or the size of a block of a pool. Kinds are port, fifo, event, semaphore,
/// resource and pool. Runs until Ctrl-C; then the hubs are gone, with what they held.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo hubs serve jobs:fifo:64 done:semaphore:100
  tombolo hubs serve guard:resource start:event --on arm0
  tombolo hubs serve frames:pool:8:4096")]
struct ServeOptions {
    /// The hubs
    #[arg(value_name = "HUB", required = true, value_parser = hub)]
    hubs: Vec<Description>,

    /// The node that serves them
    #[arg(long, value_name = "NODE", default_value = "host")]
    on: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
pub(super) struct Common {
    /// The image of the program that serves hubs [default: that of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

/// Parses `NAME:KIND[:CAPACITY[:BYTES]]`.
fn hub(text: &str) -> Result<Description, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (name, kind, numbers) = match parts[..] {
        [name, kind, ref numbers @ ..] if numbers.len() <= 2 => (name, kind, numbers),
        _ => {
            return Err(
                "give NAME:KIND, NAME:KIND:CAPACITY or NAME:KIND:CAPACITY:BYTES, such as jobs:fifo:64".into(),
            );
        }
    };
    let kinds = || Kind::ALL.map(Kind::name).join(", ");
    let kind = Kind::from_name(kind).ok_or_else(|| format!("there is no kind '{kind}'; use {}", kinds()))?;
    let number = |text: &&str| text.parse::<u32>().map_err(|_| format!("'{text}' is not a number"));
    let mut description = Description::new(name, kind);
    if let Some(capacity) = numbers.first() {
        description.capacity = number(capacity)?;
    }
    match numbers.get(1) {
        Some(bytes) if kind.has_values() || kind == Kind::Pool => description.value_bytes = number(bytes)?,
        Some(_) => return Err(format!("a {kind} has no values or blocks; leave out their size")),
        None => {}
    }
    description.check().map_err(|error| error.to_string())?;
    Ok(description)
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    match &options.command {
        None => list(context, options.json).map(|()| 0),
        Some(HubsCommand::Serve(serve)) => {
            let mut names: Vec<&str> = serve.hubs.iter().map(|hub| hub.name.as_str()).collect();
            names.sort_unstable();
            if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                let message = format!("two hubs have the name '{}'; give each a name of its own", twice[0]);
                return Err(Failure::Usage { message, hint: None });
            }
            let application = Application { hubs: serve.hubs.clone(), tasks: Vec::new() };
            let plan = plan_for_machine(context, &application, &Topology::all_on(&serve.on))?;
            run::run(context, &serve.common, &plan, std::path::Path::new(""))
        }
        Some(HubsCommand::Run(options)) => {
            let application = read(&options.application, Application::parse)?;
            let topology = match (&options.topology, &options.on) {
                (Some(file), _) => read(file, Topology::parse)?,
                (None, on) => Topology::all_on(on.as_deref().unwrap_or("host")),
            };
            let plan = plan_for_machine(context, &application, &topology)?;
            let folder = options.application.parent().unwrap_or(std::path::Path::new(""));
            if options.check {
                return print(format_plan(&plan)).map(|()| 0);
            }
            run::run(context, &options.common, &plan, folder)
        }
    }
}

fn read<T>(file: &PathBuf, parse: impl FnOnce(&str) -> Result<T, PlanError>) -> Result<T, Failure> {
    let text = std::fs::read_to_string(file).map_err(Failure::unreadable(file))?;
    parse(&text).map_err(|error| Failure::Malformed { path: file.clone(), why: error.to_string() })
}

fn plan_for_machine(
    context: &Context,
    application: &Application,
    topology: &Topology,
) -> Result<Plan, Failure> {
    let nodes = context.attach_running()?.nodes()?;
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    Plan::new(application, topology, &names).map_err(|error| match error {
        // As for all commands, this is an error of the machine.
        PlanError::UnknownNode { .. } => error.into(),
        _ => Failure::Usage { message: error.to_string(), hint: None },
    })
}

/// Formats the output of `--check`.
fn format_plan(plan: &Plan) -> String {
    let mut text = String::new();
    for (node, hubs) in &plan.hubs {
        for hub in hubs {
            text += &format!("{node}: {} '{}'\n", hub.kind, hub.name);
        }
    }
    for (task, node) in &plan.tasks {
        text += &format!("{node}: task '{}', {}\n", task.name, task.image);
    }
    text
}

#[derive(Serialize)]
struct Report {
    machine: String,
    hubs: Vec<HubReport>,
}

/// A hub, with stable keys.
#[derive(Serialize)]
struct HubReport {
    name: String,
    kind: &'static str,
    node: String,
    capacity: u32,
    depth: u32,
    held: u32,
    /// The owner of a resource, or the holder of the oldest block in use.
    owner: Option<String>,
    fencing_token: Option<u64>,
    inheritance: bool,
    /// Priority that the owner inherits through this hub.
    inherited: Option<u8>,
    closed: bool,
    putters: Vec<WaitingReport>,
    getters: Vec<WaitingReport>,
}

#[derive(Serialize)]
struct WaitingReport {
    priority: u8,
    count: u32,
}

fn list(context: &Context, json: bool) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let hubs = tombolo_hubs::list(&domain).map_err(hub_failure)?;
    let hubs: Vec<HubReport> = hubs.into_iter().map(|(node, status)| report(node, status)).collect();
    if json {
        return print_json(&Report { machine: domain.machine_name().to_owned(), hubs });
    }
    print(render(&hubs, context.colour))
}

fn hub_failure(error: HubError) -> Failure {
    match error {
        HubError::Tombolo(error) => error.into(),
        error => Failure::Other(error.into()),
    }
}

fn report(node: String, status: Status) -> HubReport {
    let waiting = |all: &[Waiting]| {
        let report = |waiting: &Waiting| WaitingReport { priority: waiting.priority, count: waiting.count };
        all.iter().map(report).collect()
    };
    let inherited = status.inherited();
    let Description { name, kind, capacity, inheritance, .. } = status.description;
    HubReport {
        name,
        kind: kind.name(),
        node,
        capacity,
        depth: status.depth,
        held: status.held,
        owner: status.owner.and_then(|(domain, _)| DomainId::from_bits(domain)).map(|id| id.to_string()),
        fencing_token: status.owner.map(|(_, token)| token),
        inheritance,
        inherited,
        closed: status.closed,
        putters: waiting(&status.putters),
        getters: waiting(&status.getters),
    }
}

fn render(hubs: &[HubReport], colour: bool) -> String {
    let header =
        ["HUB", "KIND", "NODE", "CAPACITY>", "DEPTH>", "PUTTING", "GETTING", "OWNER", "INHERITANCE", "STATE"];
    let mut table = Table::new(&header);
    let waiting = |all: &[WaitingReport]| match all {
        [] => "-".to_owned(),
        all => all.iter().map(|one| format!("{}×{}", one.priority, one.count)).collect::<Vec<_>>().join(" "),
    };
    for hub in hubs {
        let inheritance = match (hub.kind, hub.inheritance, hub.inherited) {
            ("resource", true, Some(priority)) => format!("on, {priority}"),
            ("resource", true, None) => "on".to_owned(),
            ("resource", false, _) => "off".to_owned(),
            _ => "-".to_owned(),
        };
        table.row([
            hub.name.clone(),
            hub.kind.to_owned(),
            hub.node.clone(),
            hub.capacity.to_string(),
            hub.depth.to_string(),
            waiting(&hub.putters),
            waiting(&hub.getters),
            hub.owner.clone().unwrap_or_else(|| "-".to_owned()),
            inheritance,
            if hub.closed { "closed" } else { "open" }.to_owned(),
        ]);
    }
    table.render(colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hubs_on_the_command_line() {
        let jobs = hub("jobs:fifo:64").unwrap();
        assert_eq!((jobs.name.as_str(), jobs.kind, jobs.capacity), ("jobs", Kind::Fifo, 64));
        assert_eq!(hub("guard:resource").unwrap().capacity, 1);
        assert_eq!(hub("meet:port").unwrap().capacity, 0);
        assert_eq!(hub("frames:pool:8:4096").unwrap().value_bytes, 4096);
        for wrong in [
            "",
            "jobs",
            "jobs:queue",
            "jobs:fifo:0",
            "jobs:fifo:65537",
            "jobs:fifo:x",
            "a b:port",
            "a:port:1",
            "a:event:1:2",
            "a:fifo:1:2:3",
        ] {
            assert!(hub(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_table_of_hubs() {
        let description = Description { inheritance: true, ..Description::new("guard", Kind::Resource) };
        let getters = vec![Waiting { priority: 9, count: 1 }, Waiting { priority: 2, count: 3 }];
        let owner = Some((0x0001_0001_0000_0002, 7));
        let status =
            Status { description, depth: 0, held: 1, owner, closed: false, putters: Vec::new(), getters };
        let text = render(&[report("arm0".into(), status)], false);
        let row = text.lines().nth(1).expect("a row");
        for word in ["guard", "resource", "arm0", "9×1 2×3", "on, 9", "open"] {
            assert!(row.contains(word), "{word}: {row}");
        }
    }
}
