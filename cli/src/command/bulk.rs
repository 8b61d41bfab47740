//! `tombolo bulk`

use clap::{Args, Subcommand};
use serde::Serialize;
use tombolo::Domain;
use tombolo::names::Value;
use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo_cli_common::nodes::node_named;
use tombolo_copies::engines::{
    Abilities, Choice, Curve, Effort, Engines, Reach, Route, UnavailableEngine, declared,
};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

/// Shows how bulk data gets from node to node
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bulk explain --from host --to arm0 --size 16MiB")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: BulkCommand,
}

#[derive(Subcommand, Debug)]
enum BulkCommand {
    Explain(ExplainOptions),
}

/// Explains which engine copies a number of bytes from node to node
///
/// Lists every engine with every way to get the bytes there, cheapest first; the first is used. A time is
/// either measured (by the first program of the node that asked for engines, and kept with the machine) or
/// declared, as an order of magnitude. A pool that both nodes can reach needs no engine: its buffers are
/// handed over in messages.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bulk explain --from host --to host --size 64KiB
  tombolo bulk explain --from host --to arm0 --size 16MiB
  tombolo bulk explain --from host --to host --size 1MiB --again
  tombolo bulk explain --from host --to host --size 4096 --json | jq '.ways[0].engine'")]
struct ExplainOptions {
    /// The node that has the bytes
    #[arg(long, value_name = "NODE")]
    from: String,

    /// The node that is to get them
    #[arg(long, value_name = "NODE")]
    to: String,

    /// The number of bytes: 4096, 64KiB, 16MiB, 1GiB
    #[arg(long, value_name = "SIZE", value_parser = text::parse_bytes)]
    size: u64,

    /// Measure the engines of this node again
    #[arg(long)]
    again: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    from: String,
    to: String,
    bytes: u64,
    /// Whether both sides can map the same memory, so that a pool needs no copy.
    shared: bool,
    ways: Vec<WayReport>,
    /// Engines that this node lacks.
    missing: Vec<MissingReport>,
}

/// A route, with stable keys.
#[derive(Serialize)]
struct WayReport {
    engine: String,
    /// Node whose processor copies.
    node: String,
    way: String,
    time_ns: Option<u64>,
    bytes_per_s: Option<u64>,
    /// Measured or declared; null if the route is impossible.
    origin: Option<&'static str>,
    /// Reason why it is impossible.
    refused: Option<String>,
}

#[derive(Serialize)]
struct MissingReport {
    engine: String,
    why: String,
}

impl From<&UnavailableEngine> for MissingReport {
    fn from(missing: &UnavailableEngine) -> MissingReport {
        MissingReport { engine: missing.engine.clone(), why: missing.why.clone() }
    }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let BulkCommand::Explain(options) = &options.command;
    let domain = context.attach_running()?;
    let nodes = domain.nodes()?;
    let (from, to) = (node_named(&nodes, &options.from)?, node_named(&nodes, &options.to)?);
    let mut engines = Engines::new(&domain)?;
    let mut missing: Vec<MissingReport> = engines.missing().iter().map(Into::into).collect();
    if options.again {
        missing.extend(engines.calibrate(Effort::default())?.iter().map(MissingReport::from));
    }
    let here = nodes.iter().find(|node| node.id == domain.id().node()).unwrap_or(from);
    let copy_plan = CopyPlan { domain: &domain, engines: &engines, here, from, to, bytes: options.size };
    let report = Report {
        machine: domain.machine_name().to_owned(),
        from: from.name.clone(),
        to: to.name.clone(),
        bytes: options.size,
        shared: copy_plan.share_memory(),
        ways: copy_plan.ways()?,
        missing,
    };
    if options.json { print_json(&report) } else { print(render(&report, context.colour)) }
}

/// Returns whether its programs run on the host's kernel.
fn runs_on_host_kernel(node: &NodeInfo) -> bool {
    matches!(node.kind, NodeKind::Host | NodeKind::User)
}

/// Copy to be explained.
struct CopyPlan<'a> {
    domain: &'a Domain,
    engines: &'a Engines,
    here: &'a NodeInfo,
    from: &'a NodeInfo,
    to: &'a NodeInfo,
    bytes: u64,
}

impl CopyPlan<'_> {
    /// Returns whether both can map common memory.
    fn share_memory(&self) -> bool {
        self.from.id == self.to.id || runs_on_host_kernel(self.from) || runs_on_host_kernel(self.to)
    }

    fn ways(&self) -> Result<Vec<WayReport>, Failure> {
        let mut ways = match (runs_on_host_kernel(self.from), runs_on_host_kernel(self.to)) {
            (true, true) => self.routes_within_kernel(),
            (true, false) => self.across_link(self.to, true)?,
            (false, true) => self.across_link(self.from, false)?,
            (false, false) if self.share_memory() => {
                self.routes_by_far_node(self.from, "between memories of that node")?
            }
            (false, false) => Vec::new(),
        };
        ways.sort_by_key(|way| way.time_ns.unwrap_or(u64::MAX));
        Ok(ways)
    }

    /// Returns the routes between programs of the kernel that this one runs on.
    fn routes_within_kernel(&self) -> Vec<WayReport> {
        let routes = [
            Route::copy(Reach::Mapped, Reach::Mapped),
            Route::copy(Reach::Process, Reach::Mapped),
            Route::copy(Reach::Mapped, Reach::Process),
        ];
        let words =
            ["memory that both map", "out of the other's private memory", "into the other's private memory"];
        self.engine_routes(&routes, |way| words[way].to_owned())
    }

    /// Returns the routes across the link between the host's kernel and a node behind it.
    fn across_link(&self, far: &NodeInfo, to_far: bool) -> Result<Vec<WayReport>, Failure> {
        let mapped = [Route::copy(Reach::Mapped, Reach::Mapped)];
        let (ours, theirs) = if to_far { ("push", "pull") } else { ("pull", "push") };
        let mut ways = self.engine_routes(&mapped, |_| format!("{ours}: through the window, by this side"));
        ways.retain(|way| way.refused.is_none());
        ways.extend(self.routes_by_far_node(far, &format!("{theirs}: through the window, by the far side"))?);
        let carried = declared(Abilities::FAR, Route::copy(Reach::Mapped, Reach::Far)).time_ns(self.bytes);
        ways.push(self.way("far", &far.name, "in messages of a channel".into(), Ok((carried, "declared"))));
        Ok(ways)
    }

    /// Returns the routes by a processor of another node, which is requested in a message.
    fn routes_by_far_node(&self, far: &NodeInfo, way: &str) -> Result<Vec<WayReport>, Failure> {
        let told = declared(Abilities::FAR_ALONE, Route::copy(Reach::Far, Reach::Far));
        let name = format!("copy.costs/{}/caller", far.name);
        let measured = self.domain.names().find(&name)?.into_iter().find_map(|record| {
            let Some(Value::Text(text)) = record.attributes.get("mapped-mapped") else { return None };
            Some(text.parse::<Curve>().ok()?.time_ns(self.bytes))
        });
        let estimate = match measured {
            Some(time_ns) => (time_ns.saturating_add(told.latency_ns), "measured"),
            None => (told.time_ns(self.bytes), "declared"),
        };
        Ok(vec![self.way("far", &far.name, way.to_owned(), Ok(estimate))])
    }

    fn engine_routes(&self, routes: &[Route], words: impl Fn(usize) -> String) -> Vec<WayReport> {
        let candidates = match self.engines.explain(routes, self.bytes) {
            Ok(Choice { candidates }) | Err(tombolo_copies::engines::Unable::NoEngine { candidates }) => {
                candidates
            }
            // No copy is in progress here.
            Err(_) => Vec::new(),
        };
        let report = |candidate: tombolo_copies::engines::Candidate| {
            let estimate = match candidate.estimate {
                Ok(estimate) => {
                    Ok((estimate.time_ns(), if estimate.measured() { "measured" } else { "declared" }))
                }
                Err(refusal) => Err(refusal.to_string()),
            };
            self.way(&candidate.engine, &self.here.name, words(candidate.way), estimate)
        };
        candidates.into_iter().map(report).collect()
    }

    fn way(
        &self,
        engine: &str,
        node: &str,
        way: String,
        estimate: Result<(u64, &'static str), String>,
    ) -> WayReport {
        let time_ns = estimate.as_ref().ok().map(|(time_ns, _)| *time_ns);
        let rate = |time_ns: u64| {
            let per_s = u128::from(self.bytes) * 1_000_000_000 / u128::from(time_ns.max(1));
            u64::try_from(per_s).unwrap_or(u64::MAX)
        };
        WayReport {
            engine: engine.to_owned(),
            node: node.to_owned(),
            way,
            time_ns,
            bytes_per_s: time_ns.map(rate),
            origin: estimate.as_ref().ok().map(|(_, origin)| *origin),
            refused: estimate.err(),
        }
    }
}

fn render(report: &Report, colour: bool) -> String {
    let Report { from, to, bytes, .. } = report;
    let mut output = format!("{} from {from} to {to}\n", text::bytes(*bytes));
    let possible: Vec<&WayReport> = report.ways.iter().filter(|way| way.refused.is_none()).collect();
    match possible.first() {
        Some(best) => {
            let reason = match (possible.get(1), best.origin) {
                (None, _) => "nothing else can",
                (Some(_), Some("measured")) => "measured to be the cheapest for this length",
                (Some(_), _) => "the cheapest by its declared order of magnitude; it has not been measured",
            };
            output += &format!("chosen: {} on {}, {}: {reason}\n\n", best.engine, best.node, best.way);
        }
        None => {
            output += "no engine reaches both: a bulk channel copies the content in its messages, which the host relays\n";
            return output;
        }
    }
    let mut table = Table::new(&["ENGINE", "ON", "WAY", "TIME>", "GB/S>", "IS"]);
    for way in possible {
        let time_us = way.time_ns.unwrap_or(0) as f64 / 1000.0;
        let rate = way.bytes_per_s.unwrap_or(0) as f64 / 1e9;
        table.row([
            way.engine.clone(),
            way.node.clone(),
            way.way.clone(),
            format!("{time_us:.1} µs"),
            format!("{rate:.1}"),
            way.origin.unwrap_or("").to_owned(),
        ]);
    }
    output += &table.render(colour);
    if report.shared {
        output += "\nIn a pool that both reach nothing is copied: a buffer is moved by one message.\n";
    }
    for missing in &report.missing {
        output += &format!("{}: {}\n", missing.engine, missing.why);
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(engine: &str, time_ns: Option<u64>, origin: Option<&'static str>) -> WayReport {
        let refused = time_ns.is_none().then(|| "it does not reach far-far".to_owned());
        let bytes_per_s = time_ns.map(|time_ns| 1_000_000_000 / time_ns);
        let (engine, node) = (engine.to_owned(), "host".to_owned());
        WayReport { engine, node, way: "memory that both map".into(), time_ns, bytes_per_s, origin, refused }
    }

    fn report(ways: Vec<WayReport>) -> Report {
        let missing = vec![MissingReport { engine: "cuda-0".into(), why: "no CUDA driver".into() }];
        Report {
            machine: "m".into(),
            from: "a".into(),
            to: "b".into(),
            bytes: 4096,
            shared: true,
            ways,
            missing,
        }
    }

    #[test]
    fn first_route_is_chosen_with_reason() {
        let ways = vec![
            way("caller", Some(500), Some("measured")),
            way("threads-2", Some(20_000), Some("measured")),
            way("attach", None, None),
        ];
        let output = render(&report(ways), false);
        assert!(
            output.starts_with("4 KiB from a to b\nchosen: caller on host, memory that both map: measured"),
            "{output}"
        );
        assert!(output.contains("0.5 µs") && output.contains("cuda-0: no CUDA driver"), "{output}");
        assert!(!output.contains("attach"), "what cannot be done is for machines: {output}");
        let declared = render(
            &report(vec![way("a", Some(5), Some("declared")), way("b", Some(9), Some("declared"))]),
            false,
        );
        assert!(declared.contains("it has not been measured"), "{declared}");
        assert!(render(&report(vec![way("a", Some(5), None)]), false).contains("nothing else can"));
        assert!(render(&report(Vec::new()), false).contains("copies the content"));
    }
}
