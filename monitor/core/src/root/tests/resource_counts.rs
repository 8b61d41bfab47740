//! Clients and domains that come and go leave no entry in any table.

use super::*;

/// Number of repetitions.
const ROUNDS: u32 = 50;

/// Connects a domain that was started, and attaches it.
fn attach_started(bench: &mut Bench, connection: u32, domain: tombolo_base::DomainId) {
    bench.report(ARM0, Report::Joined { connection, pid: 55, domain: Some(domain) });
    let attach = Request::Attach { version: FINGERPRINT, program: String::new() };
    assert!(matches!(bench.ask((ARM0, connection), attach), Some(Reply::Attach { spawned: true, .. })));
}

/// Creates a domain with everything that it can have when it dies: names, channels across the window, waits,
/// children about to start, a pending kill, input in flight, a reader of its trace.
fn create_busy_domain(
    bench: &mut Bench,
    connection: u32,
) -> (tombolo_base::DomainId, Vec<tombolo_base::ChannelId>) {
    let domain = start(bench, (HOST, 1));
    let client = (ARM0, connection);
    attach_started(bench, connection, domain);
    bench.export(client, &format!("of-{connection}"));
    let mut channels = Vec::new();
    for (from, to) in [((HOST, 1), format!("of-{connection}")), (client, "stays".to_owned())] {
        match bench.connect(from, &to) {
            Some(Reply::Connect { grant }) => channels.push(grant.channel),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(bench.connect(client, "never"), None);
    assert_eq!(bench.ask((HOST, 1), Request::Input { domain, stream: 0, bytes: vec![1] }), None);
    let read = Request::TraceRead { domain, offset_bytes: 0, length_bytes: 64 };
    assert_eq!(bench.ask(client, read), None);
    let kill = Request::Kill { domain, signal: 15, grace: Duration::from_secs(2) };
    bench.ask((HOST, 1), kill);
    (domain, channels)
}

fn acknowledge_programs(bench: &mut Bench) {
    for (node, order) in std::mem::take(&mut bench.orders) {
        if let Order::Program { hash, .. } = order {
            bench.report(node, Report::ProgramTaken { hash });
        }
    }
}

#[test]
fn tables_are_empty_after_kills_and_restarts() {
    let mut bench = Bench::up(6);
    bench.attach((HOST, 1));
    bench.export((HOST, 1), "stays");
    let before = bench.core.resource_counts();
    for round in 1..=ROUNDS {
        let (first, second) = (10 * round, 10 * round + 1);
        let (killed, channels) = create_busy_domain(&mut bench, first);
        let (_, _) = create_busy_domain(&mut bench, second);
        acknowledge_programs(&mut bench);
        assert_ne!(bench.core.resource_counts(), before);
        // One is killed, and the other ends with its node.
        bench.report(ARM0, Report::Ended { domain: killed, exit: Exit::Signalled { signal: 9 } });
        bench.report(ARM0, Report::Left { connection: first });
        for channel in channels {
            bench.report(ARM0, Report::Released { channel });
            bench.report(HOST, Report::Released { channel });
        }
        bench.core.node_lost(ARM0, "killed");
        bench.collect();
        bench.ask((HOST, 1), Request::Restart { node: "arm0".into(), force: false });
        bench.core.node_started(ARM0, 100, Some((1 << 20, 6)));
        bench.report(ARM0, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 2, pid: 100 });
        assert_eq!(bench.core.resource_counts(), before, "round {round}");
    }
}
