//! `tombolo names`

use clap::Args;
use serde::Serialize;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::Table;

/// Lists the names that domains have taken up
///
/// A name is what others connect to; it is unique in a machine and goes with the domain that has it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo names
  tombolo names --json | jq -r '.names[].name'")]
pub(crate) struct Options {
    /// For machines
    #[arg(long)]
    json: bool,
}

/// A name, with stable keys.
#[derive(Serialize)]
struct NameReport {
    name: String,
    domain: String,
    node: String,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    names: Vec<NameReport>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let names = domain.names()?;
    if options.json {
        let names = names
            .into_iter()
            .map(|info| NameReport { name: info.name, domain: info.owner.to_string(), node: info.node })
            .collect();
        return print_json(&Report { machine: domain.machine_name().to_owned(), names });
    }
    let mut table = Table::new(&["NAME", "DOMAIN", "NODE"]);
    for info in names {
        table.row([info.name, info.owner.to_string(), info.node]);
    }
    print(table.render(context.colour))
}
