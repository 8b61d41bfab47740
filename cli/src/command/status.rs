//! `tombolo status`

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde::Serialize;
use tombolo::Domain;
use tombolo::find::machines_up;
use tombolo::nodes::NodeInfo;
use tombolo_cli_common::other_users::other_users_hint;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

/// Shows the machines that are up, and their nodes
///
/// CORES, DOMAINS and WINDOW are as the node's monitor reports them: WINDOW is the part of the shared window
/// that is in use. BOOT is the time from start to ready. The domain of this command is not counted. The exit
/// status is 1 if a machine does not answer.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo status
  tombolo status --machine duo
  tombolo status --json | jq '.machines[].nodes[] | select(.state != \"up\")'")]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    machines: Vec<MachineReport>,
}

#[derive(Serialize)]
struct MachineReport {
    name: String,
    /// Reason why the nodes are unknown.
    error: Option<String>,
    nodes: Vec<NodeReport>,
}

/// A node, with stable keys.
#[derive(Serialize)]
struct NodeReport {
    id: u16,
    name: String,
    kind: &'static str,
    isa: &'static str,
    state: &'static str,
    /// Reason why it is down; empty otherwise.
    cause: String,
    generation: u16,
    cores: u16,
    domains: u32,
    /// Transport of its link with the host.
    link: Option<&'static str>,
    window_used_bytes: u64,
    window_bytes: u64,
    boot_s: f64,
    pid: i32,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let mut names = machines_up()?;
    if let Some(wanted) = &context.machine {
        names.retain(|name| name == wanted);
    }
    let machines: Vec<MachineReport> = names.into_iter().filter_map(query_machine).collect();
    if let (Some(wanted), true) = (&context.machine, machines.is_empty()) {
        return Err(not_up(wanted));
    }
    let silent: Vec<String> = machines.iter().filter_map(MachineReport::error_text).collect();
    show(context, options, machines)?;
    if silent.is_empty() { Ok(()) } else { Err(Failure::Job { message: silent.join("; "), status: 1 }) }
}

/// Returns the failure for a machine that is not up. Its usual hint would be this very command.
fn not_up(name: &str) -> Failure {
    let failure = Failure::NotUp(name.to_owned());
    match other_users_hint(Some(name)) {
        Some(_) => failure,
        None => failure.advised("`tombolo up` with its machine file brings it up"),
    }
}

fn show(context: &Context, options: &Options, machines: Vec<MachineReport>) -> Result<(), Failure> {
    if options.json {
        return print_json(&Report { machines });
    }
    if machines.is_empty() {
        let hint = Failure::NothingUp.hint().unwrap_or_default();
        context.info(format!("{}: {hint}", Failure::NothingUp));
    }
    let several = machines.len() > 1;
    let answering = machines.iter().filter(|machine| machine.error.is_none());
    let shown: Vec<String> = answering.map(|machine| render(machine, several, context.colour)).collect();
    print(shown.join("\n"))
}

/// Queries a machine. Errors are part of the report, so that a machine that does not respond does not hide
/// the others. `None` for one that ended meanwhile.
fn query_machine(name: String) -> Option<MachineReport> {
    let result =
        Domain::attach_to_machine(&name).and_then(|domain| Ok((domain.id().node(), domain.nodes()?)));
    match result {
        Ok((own, nodes)) => {
            let nodes = nodes.into_iter().map(|node| NodeReport::new(own == node.id, node)).collect();
            Some(MachineReport { name, error: None, nodes })
        }
        Err(tombolo::Error::MonitorLost { .. }) => None,
        Err(error) => Some(MachineReport { name, error: Some(error.to_string()), nodes: Vec::new() }),
    }
}

impl MachineReport {
    /// Returns the reason why the state is unknown.
    fn error_text(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(format!("machine '{}' does not answer: {error}", self.name))
    }
}

impl NodeReport {
    fn new(asker_is_here: bool, node: NodeInfo) -> NodeReport {
        let state = match (node.up, node.is_starting()) {
            (true, _) => "up",
            (false, true) => "starting",
            (false, false) => "down",
        };
        NodeReport {
            id: node.id.0,
            name: node.name,
            kind: node.kind.name(),
            isa: node.isa.name(),
            state,
            cause: if state == "down" { node.cause } else { String::new() },
            generation: node.generation,
            cores: node.cores,
            domains: node.domains.saturating_sub(u32::from(asker_is_here)),
            link: node.transport.map(|transport| transport.name()),
            window_used_bytes: node.window_bytes.0,
            window_bytes: node.window_bytes.1,
            boot_s: node.boot.as_secs_f64(),
            pid: node.pid,
        }
    }

    fn window(&self) -> String {
        match self.window_bytes {
            0 => "-".to_owned(),
            all => format!("{} of {}", text::bytes(self.window_used_bytes), text::bytes(all)),
        }
    }
}

fn render(machine: &MachineReport, titled: bool, colour: bool) -> String {
    let bold = if colour { Style::new().bold() } else { Style::new() };
    let mut shown = String::new();
    if titled {
        shown.push_str(&format!("machine {bold}{}{bold:#}\n", machine.name));
    }
    let mut table =
        Table::new(&["NODE", "KIND", "ISA", "STATE", "CORES>", "DOMAINS>", "LINK", "WINDOW>", "BOOT>"]);
    let plain = |text: String| (text, Style::new());
    for node in &machine.nodes {
        let state = if node.cause.is_empty() {
            node.state.to_owned()
        } else {
            format!("{}: {}", node.state, text::one_line(&node.cause))
        };
        let hue = match node.state {
            "up" => AnsiColor::Green,
            "starting" => AnsiColor::Yellow,
            _ => AnsiColor::Red,
        };
        let known = |number: u64| if number == 0 { "-".to_owned() } else { number.to_string() };
        table.styled_row([
            plain(node.name.clone()),
            plain(node.kind.to_owned()),
            plain(node.isa.to_owned()),
            (state, hue.on_default()),
            plain(known(u64::from(node.cores))),
            plain(node.domains.to_string()),
            plain(node.link.unwrap_or("-").to_owned()),
            plain(node.window()),
            plain(format!("{:.2} s", node.boot_s)),
        ]);
    }
    shown + &table.render(colour)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tombolo::nodes::NodeKind;
    use tombolo::{Isa, NodeId, TransportKind};

    use super::*;

    fn node(name: &str, up: bool) -> NodeInfo {
        NodeInfo {
            generation: 2,
            up,
            cause: if up { String::new() } else { "killed by SIGKILL".into() },
            cores: 1,
            domains: 3,
            transport: Some(TransportKind::Window),
            window_bytes: (1 << 20, 64 << 20),
            boot: Duration::from_millis(2910),
            ..NodeInfo::new(NodeId(1), name, NodeKind::Vm, Isa::Aarch64)
        }
    }

    fn machine(nodes: Vec<NodeReport>) -> MachineReport {
        MachineReport { name: "duo".into(), error: None, nodes }
    }

    #[test]
    fn a_machine_is_a_table_of_its_nodes() {
        let shown = machine(vec![
            NodeReport::new(true, node("arm0", true)),
            NodeReport::new(false, node("arm1", false)),
        ]);
        assert_eq!(
            render(&shown, false, false),
            "NODE  KIND  ISA      STATE                    CORES  DOMAINS  LINK             WINDOW    BOOT\n\
             arm0  vm    aarch64  up                           1        2  window  1 MiB of 64 MiB  2.91 s\n\
             arm1  vm    aarch64  down: killed by SIGKILL      1        3  window  1 MiB of 64 MiB  2.91 s\n"
        );
        assert!(render(&shown, true, false).starts_with("machine duo\nNODE"));
    }

    #[test]
    fn a_node_that_is_not_ready_yet_is_starting() {
        let starting = NodeInfo { cause: "starting".into(), ..node("arm0", false) };
        let shown = NodeReport::new(false, starting);
        assert_eq!((shown.state, shown.cause.as_str()), ("starting", ""));
        assert!(render(&machine(vec![shown]), false, false).contains(" starting "));
    }

    #[test]
    fn a_machine_that_does_not_answer_says_so() {
        let silent = MachineReport { name: "duo".into(), error: Some("late".into()), nodes: Vec::new() };
        assert_eq!(silent.error_text().as_deref(), Some("machine 'duo' does not answer: late"));
    }

    #[test]
    fn the_keys_of_the_json_are_stable() {
        let json = serde_json::to_value(machine(vec![NodeReport::new(false, node("arm0", true))])).unwrap();
        let keys: Vec<&str> = json["nodes"][0].as_object().unwrap().keys().map(String::as_str).collect();
        let mut wanted = vec![
            "id",
            "name",
            "kind",
            "isa",
            "state",
            "cause",
            "generation",
            "cores",
            "domains",
            "link",
            "window_used_bytes",
            "window_bytes",
            "boot_s",
            "pid",
        ];
        wanted.sort_unstable();
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(keys, wanted);
        assert_eq!(json["nodes"][0]["link"], "window");
    }
}
