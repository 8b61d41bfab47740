//! The root's decisions about tracing.

use super::*;
use tombolo_control::TracedInfo;

fn start(while_attached: bool) -> Request {
    Request::Trace { on: true, keep_first: false, while_attached }
}

const STOP: Request = Request::Trace { on: false, keep_first: false, while_attached: false };

/// Returns the trace orders to nodes since the last call.
fn take_trace_orders(bench: &mut Bench) -> Vec<(NodeId, u64)> {
    let orders = std::mem::take(&mut bench.orders);
    orders
        .into_iter()
        .filter_map(|(node, order)| match order {
            Order::Trace { word } => Some((node, word)),
            _ => None,
        })
        .collect()
}

fn list_traced(bench: &mut Bench, client: ClientId) -> (Vec<TracedInfo>, bool) {
    match bench.ask(client, Request::Traced { after: 0 }) {
        Some(Reply::Traced { domains, more: false, on }) => (domains, on),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_domain_gets_a_page_as_it_attaches() {
    let mut bench = Bench::up(4);
    let domain = bench.attach((ARM0, 1));
    let (_, _, attachments, _) = &bench.delivered[0];
    assert_eq!(attachments, &[Attachment::TracePage { domain }]);
    let (domains, on) = list_traced(&mut bench, (ARM0, 1));
    assert_eq!((domains.len(), domains[0].id, domains[0].alive, on), (1, domain, true, false));
    assert_eq!((domains[0].node.as_str(), domains[0].program.as_str()), ("arm0", "test"));
}

#[test]
fn all_nodes_start_and_stop_together_and_a_node_that_comes_later_joins() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.core.node_lost(ARM1, "test");
    take_trace_orders(&mut bench);
    assert_eq!(bench.ask((HOST, 1), start(false)), Some(Reply::Done));
    let word = 1 | 1 << 32;
    assert_eq!(take_trace_orders(&mut bench), [(HOST, word), (ARM0, word)]);
    assert!(matches!(
        bench.ask((HOST, 1), start(false)),
        Some(Reply::Failed { fault: Fault::Refused { .. } })
    ));
    bench.ask((HOST, 1), Request::Restart { node: "arm1".into(), force: false });
    bench.core.node_started(ARM1, 100, Some((1 << 20, 4)));
    bench.report(ARM1, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 1, pid: 1 });
    assert_eq!(take_trace_orders(&mut bench), [(ARM1, word)]);
    assert_eq!(bench.ask((HOST, 1), STOP), Some(Reply::Done));
    assert_eq!(take_trace_orders(&mut bench), [(HOST, 0), (ARM0, 0), (ARM1, 0)]);
}

#[test]
fn recording_ends_with_its_holder() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.attach((HOST, 2));
    bench.ask((HOST, 2), start(true));
    take_trace_orders(&mut bench);
    bench.report(HOST, Report::Left { connection: 2 });
    assert!(take_trace_orders(&mut bench).contains(&(ARM0, 0)));
    let (domains, on) = list_traced(&mut bench, (HOST, 1));
    assert_eq!((domains.len(), on), (1, false));
}

#[test]
fn trace_page_of_a_dead_domain_is_kept_until_read() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let before = bench.attach((ARM0, 1));
    bench.report(ARM0, Report::Left { connection: 1 });
    assert!(bench.orders.contains(&(ARM0, Order::TraceForget { domain: before })), "nobody records");
    bench.ask((HOST, 1), start(false));
    let during = bench.attach((ARM0, 2));
    let after = bench.attach((ARM0, 3));
    bench.report(ARM0, Report::Left { connection: 2 });
    bench.ask((HOST, 1), STOP);
    bench.report(ARM0, Report::Left { connection: 3 });
    let (domains, _) = list_traced(&mut bench, (HOST, 1));
    let dead: Vec<_> = domains.iter().filter(|info| !info.alive).map(|info| info.id).collect();
    assert_eq!(dead, [during, after]);
    bench.orders.clear();
    bench.ask((HOST, 1), STOP);
    let forget = |domain| (ARM0, Order::TraceForget { domain });
    assert!(bench.orders.contains(&forget(during)) && bench.orders.contains(&forget(after)));
    assert_eq!(list_traced(&mut bench, (HOST, 1)).0.len(), 1);
}

#[test]
fn retained_trace_pages_are_limited() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.ask((HOST, 1), start(false));
    for connection in 2..=66 {
        bench.attach((ARM0, connection));
        bench.report(ARM0, Report::Left { connection });
        let kept = (connection as usize - 1).min(64);
        assert_eq!(list_traced(&mut bench, (HOST, 1)).0.len(), 1 + kept);
    }
}

#[test]
fn a_part_of_a_page_is_read_by_the_agent_of_its_node() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = bench.attach((ARM0, 1));
    let read = |domain| Request::TraceRead { domain, offset_bytes: 64, length_bytes: u32::MAX };
    assert_eq!(bench.ask((HOST, 1), read(domain)), None);
    let order = Order::TraceRead { ticket: 0, domain, offset_bytes: 64, length_bytes: 48 * 1024 };
    assert!(bench.orders.contains(&(ARM0, order)));
    // Answers of another node are ignored.
    let report = Report::TraceBytes { ticket: 0, bytes: Some(vec![5]) };
    bench.report(ARM1, report.clone());
    assert_eq!(bench.answer((HOST, 1)), None);
    bench.report(ARM0, report.clone());
    assert_eq!(bench.answer((HOST, 1)), Some(Reply::TraceRead { bytes: vec![5] }));
    // A second answer is ignored.
    bench.delivered.clear();
    bench.report(ARM0, report);
    assert!(bench.delivered.is_empty());

    let nobody = tombolo_base::DomainId::new(ARM0, std::num::NonZeroU16::MIN, 99);
    let fault = Fault::NoSuchDomain { domain: nobody };
    assert_eq!(bench.ask((HOST, 1), read(nobody)), Some(Reply::Failed { fault }));
    // A client that waits for a lost node is notified.
    assert_eq!(bench.ask((HOST, 1), read(domain)), None);
    bench.core.node_lost(ARM0, "test");
    bench.collect();
    assert!(matches!(bench.answer((HOST, 1)), Some(Reply::Failed { fault: Fault::Refused { .. } })));
}

#[test]
fn concurrent_trace_reads_are_limited() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = bench.attach((ARM0, 1));
    let read = Request::TraceRead { domain, offset_bytes: 0, length_bytes: 8 };
    for _ in 0..64 {
        assert_eq!(bench.ask((HOST, 1), read.clone()), None);
    }
    let refused = bench.ask((HOST, 1), read.clone());
    assert!(matches!(refused, Some(Reply::Failed { fault: Fault::Limit { .. } })));
    bench.report(ARM0, Report::TraceBytes { ticket: 0, bytes: None });
    assert_eq!(bench.ask((HOST, 1), read), None);
}

fn shut_down(bench: &Bench) -> bool {
    bench.effects.iter().any(|effect| matches!(effect, Effect::Shutdown))
}

#[test]
fn shutdown_waits_for_the_recorder() {
    let down = |bench: &mut Bench| {
        bench.ask((HOST, 2), Request::Down);
        shut_down(bench)
    };
    for leaves in [true, false] {
        let mut bench = Bench::up(4);
        bench.attach((HOST, 1));
        bench.attach((HOST, 2));
        assert_eq!(bench.ask((HOST, 1), start(true)), Some(Reply::Done));
        assert!(!down(&mut bench), "somebody records");
        assert!(!list_traced(&mut bench, (HOST, 1)).1);
        if leaves {
            bench.report(HOST, Report::Left { connection: 1 });
        } else {
            let due = bench.core.next_tick().expect("it is not waited for without end");
            bench.core.tick(due - 1);
            bench.collect();
            assert!(!shut_down(&bench));
            bench.core.tick(due);
            bench.collect();
        }
        assert!(shut_down(&bench));
    }
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.attach((HOST, 2));
    bench.ask((HOST, 1), start(true));
    assert!(!down(&mut bench) && down(&mut bench), "asked again it does not wait");
}
