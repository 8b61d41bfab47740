//! Pausing, restarting, moving, and frequencies.

use tombolo_base::DomainId;
use tombolo_control::observation::{DomainSample, Happening};
use tombolo_machine::Image;
use tombolo_machine::image::{ImageBuilder, elf};

use super::super::observing::MAX_IMAGES;
use super::*;

const USER: ClientId = (HOST, 1);
const GRACE: Duration = Duration::from_secs(2);

fn signals(bench: &Bench) -> Vec<(DomainId, u8)> {
    let signal = |order: &Order| match order {
        Order::Signal { domain, signal } => Some((*domain, *signal)),
        _ => None,
    };
    bench.orders.iter().filter_map(|(_, order)| signal(order)).collect()
}

fn pause(bench: &mut Bench, domain: DomainId, paused: bool) -> Option<Reply> {
    bench.orders.clear();
    bench.ask(USER, Request::Pause { domain, paused })
}

fn is_paused(bench: &mut Bench, domain: DomainId) -> bool {
    bench.replica(0, USER).domain(domain).unwrap().paused
}

#[test]
fn domain_is_paused_and_resumed() {
    let mut bench = Bench::up(4);
    bench.attach(USER);
    let domain = start(&mut bench, USER);
    assert_eq!(pause(&mut bench, domain, true), Some(Reply::Done));
    assert_eq!((signals(&bench), is_paused(&mut bench, domain)), (vec![(domain, 19)], true));
    assert_eq!(pause(&mut bench, domain, false), Some(Reply::Done));
    assert_eq!((signals(&bench), is_paused(&mut bench, domain)), (vec![(domain, 18)], false));
    let events = bench.replica(0, USER);
    assert_eq!(events.events_of(Happening::DOMAIN_PAUSED).len(), 1);
    assert_eq!(events.events_of(Happening::DOMAIN_RESUMED).len(), 1);
}

#[test]
fn signal_to_a_paused_domain_resumes_it() {
    let mut bench = Bench::up(4);
    bench.attach(USER);
    let domain = start(&mut bench, USER);
    let cases = [
        (15, vec![15, 18], false),
        (1, vec![1, 18], false),
        (9, vec![9], true),
        (17, vec![17], true),
        (18, vec![18], false),
        (19, vec![19], true),
    ];
    for (signal, sent, paused) in cases {
        pause(&mut bench, domain, true);
        bench.orders.clear();
        bench.ask(USER, Request::Kill { domain, signal, grace: Duration::ZERO });
        let sent: Vec<(DomainId, u8)> = sent.into_iter().map(|signal| (domain, signal)).collect();
        assert_eq!((signals(&bench), is_paused(&mut bench, domain)), (sent, paused), "{signal}");
    }
    pause(&mut bench, domain, false);
    bench.orders.clear();
    bench.ask(USER, Request::Kill { domain, signal: 15, grace: Duration::ZERO });
    assert_eq!(signals(&bench), [(domain, 15)], "it goes on anyway");
    // Samples show the signals of other processes, once the effect of the monitor's own is settled.
    let mut now = 10 * SECOND;
    for (stopped, later, paused) in [(true, 0, true), (false, 0, false)] {
        now += later;
        let sample = DomainSample { domain, load_permille: 0, resident_bytes: 0, threads: 1, stopped };
        bench.report_at(now, ARM0, Report::Sampled { node: None, domains: vec![sample], ends: vec![] });
        assert_eq!(is_paused(&mut bench, domain), paused);
    }
    bench.ask_at(now, USER, Request::Pause { domain, paused: true });
    let late = DomainSample { domain, load_permille: 1, resident_bytes: 0, threads: 1, stopped: false };
    for (at, paused) in [(now + 1, true), (now + 2 * SECOND - 1, true), (now + 2 * SECOND, false)] {
        bench.report_at(at, ARM0, Report::Sampled { node: None, domains: vec![late], ends: vec![] });
        assert_eq!(is_paused(&mut bench, domain), paused, "{at}");
    }
}

#[test]
fn unpausable_domain_is_refused_with_the_reason() {
    let board = "[[node]]\nname = \"b0\"\nkind = \"bare\"\nisa = \"riscv64\"\n";
    let mut bench = Bench::up_with(4, board);
    let own = bench.attach(USER);
    let refusal = |bench: &mut Bench, domain| match pause(bench, domain, true) {
        Some(Reply::Failed { fault: Fault::Refused { why } }) => why,
        other => panic!("{other:?}"),
    };
    assert!(refusal(&mut bench, own).contains("was not started by the machine"));
    let domain = start(&mut bench, USER);
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Exited { status: 0 } });
    let fault = Fault::NoSuchDomain { domain };
    assert_eq!(pause(&mut bench, domain, true), Some(Reply::Failed { fault }));
    assert!(signals(&bench).is_empty());
}

fn last_start(bench: &Bench) -> StartOrder {
    let start = |order: &Order| match order {
        Order::Start { order } => Some(order.clone()),
        _ => None,
    };
    bench.orders.iter().rev().find_map(|(_, order)| start(order)).unwrap()
}

#[test]
fn program_can_be_repeated_also_after_its_end() {
    let mut bench = Bench::up(4);
    let own = bench.attach(USER);
    let other = (HOST, 2);
    let parent = bench.attach(other);
    let domain = start(&mut bench, USER);
    let repeat = |bench: &mut Bench, domain, node: Option<&str>| {
        bench.ask(other, Request::Repeat { domain, node: node.map(str::to_owned) })
    };
    assert_eq!(repeat(&mut bench, domain, None), None);
    let order = last_start(&bench);
    assert_eq!(
        (order.program.name.as_str(), order.domain.node(), order.program.stdin),
        ("test", ARM0, false)
    );
    bench.report(ARM0, Report::Started { domain: order.domain, pid: 56 });
    assert_eq!(bench.answer(other), Some(Reply::Repeat { domain: order.domain }));
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Exited { status: 0 } });
    assert_eq!(repeat(&mut bench, domain, Some("arm1")), None);
    let elsewhere = last_start(&bench);
    assert_eq!(elsewhere.domain.node(), ARM1);
    let replica = bench.replica(0, USER);
    assert_eq!(replica.domain(elsewhere.domain).unwrap().parent, Some(parent));
    bench.report(ARM1, Report::NotStarted { domain: elsewhere.domain, why: "no".into() });
    let fault = Fault::StartFailed { node: "arm1".into(), why: "no".into() };
    assert_eq!(bench.answer(other), Some(Reply::Failed { fault }));
    assert!(matches!(repeat(&mut bench, own, None), Some(Reply::Failed { fault: Fault::Refused { .. } })));
    assert!(matches!(
        repeat(&mut bench, domain, Some("mars")),
        Some(Reply::Failed { fault: Fault::NoSuchNode { .. } })
    ));
    // They end with their parent.
    bench.report(HOST, Report::Left { connection: 2 });
    assert!(signals(&bench).contains(&(order.domain, 9)));
}

fn image_named(name: &str, restartable: bool) -> Image {
    let builder = ImageBuilder::new(name).restartable(restartable);
    builder.with_program(elf::smallest(Isa::Aarch64)).unwrap().finish().unwrap()
}

#[test]
fn images_of_ended_domains_are_limited() {
    for count in [MAX_IMAGES - 1, MAX_IMAGES, MAX_IMAGES + 1] {
        let mut bench = Bench::up(4);
        bench.attach(USER);
        let domains: Vec<DomainId> = (0..count)
            .map(|number| {
                let image = image_named(&format!("image{number}"), false);
                let domain = order_start_at(&mut bench, 0, USER, image).domain;
                bench.report(ARM0, Report::Started { domain, pid: 5 });
                bench.report(ARM0, Report::Ended { domain, exit: Exit::Exited { status: 0 } });
                domain
            })
            .collect();
        let replica = bench.replica(0, USER);
        let repeatable = domains.iter().filter(|domain| replica.domain(**domain).unwrap().repeatable).count();
        assert_eq!(repeatable, count.min(MAX_IMAGES));
        if count > MAX_IMAGES {
            let answer = bench.ask(USER, Request::Repeat { domain: domains[0], node: None });
            let Some(Reply::Failed { fault: Fault::Refused { why } }) = answer else { panic!("{answer:?}") };
            assert!(why.contains("no longer known"), "{why}");
        }
    }
}

/// Starts a restartable program on arm0.
fn start_restartable(bench: &mut Bench) -> DomainId {
    let domain = order_start_at(bench, 0, USER, image_named("job", true)).domain;
    bench.report(ARM0, Report::Started { domain, pid: 5 });
    domain
}

fn move_to(bench: &mut Bench, domain: DomainId, node: &str) -> Option<Reply> {
    bench.orders.clear();
    bench.ask(USER, Request::MoveTo { domain, node: node.into(), grace: GRACE })
}

#[test]
fn a_domain_moves_by_ending_and_starting_elsewhere() {
    let mut bench = Bench::up(4);
    bench.attach(USER);
    let before = bench.core.resource_counts();
    let domain = start_restartable(&mut bench);
    pause(&mut bench, domain, true);
    assert_eq!(move_to(&mut bench, domain, "arm1"), None);
    assert_eq!(signals(&bench), [(domain, 15), (domain, 18)], "it has to go on to end");
    assert!(matches!(
        bench.ask((HOST, 1), Request::MoveTo { domain, node: "arm1".into(), grace: GRACE }),
        Some(Reply::Failed { fault: Fault::Refused { .. } })
    ));
    bench.tick(2 * SECOND);
    assert_eq!(signals(&bench).last(), Some(&(domain, 9)));
    bench.delivered.clear();
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Signalled { signal: 9 } });
    let order = last_start(&bench);
    assert_eq!((order.domain.node(), bench.answer(USER)), (ARM1, None));
    bench.report(ARM1, Report::Started { domain: order.domain, pid: 6 });
    assert_eq!(bench.answer(USER), Some(Reply::MoveTo { domain: order.domain }));
    assert_eq!(bench.replica(0, USER).events_of(Happening::DOMAIN_MOVED).len(), 1);
    bench.report(ARM1, Report::Ended { domain: order.domain, exit: Exit::Exited { status: 0 } });
    for (node, order) in std::mem::take(&mut bench.orders) {
        if let Order::Program { hash, .. } = order {
            bench.report(node, Report::ProgramTaken { hash });
        }
    }
    let held = bench.core.resource_counts().into_iter().filter(|(what, _)| !what.contains("windows"));
    assert!(held.eq(before.into_iter().filter(|(what, _)| !what.contains("windows"))));
}

#[test]
fn failed_move_reports_that_the_domain_ended() {
    let mut bench = Bench::up(4);
    bench.attach(USER);
    // The node is lost while the domain ends, or the program does not start there.
    for lost in [true, false] {
        let domain = start_restartable(&mut bench);
        assert_eq!(move_to(&mut bench, domain, "arm1"), None);
        if lost {
            bench.core.node_lost(ARM1, "cut");
            bench.collect();
        }
        bench.delivered.clear();
        bench.report(ARM0, Report::Ended { domain, exit: Exit::Signalled { signal: 15 } });
        if lost {
            bench.core.node_started(ARM1, 100, Some((1 << 20, 4)));
        } else {
            let order = last_start(&bench);
            bench.report(ARM1, Report::NotStarted { domain: order.domain, why: "no".into() });
        }
        let Some(Reply::Failed { fault: Fault::StartFailed { node, why } }) = bench.answer(USER) else {
            panic!("{:?}", bench.delivered)
        };
        assert_eq!(node, "arm1");
        assert!(why.contains("has ended"), "{why}");
        if lost {
            bench.ask(USER, Request::Restart { node: "arm1".into(), force: false });
            bench.report(ARM1, Report::Ready { version: FINGERPRINT, isa: Isa::Aarch64, cores: 2, pid: 1 });
        }
    }
}

#[test]
fn unmovable_domain_is_not_ended() {
    let mut bench = Bench::up(4);
    let own = bench.attach(USER);
    let plain = start(&mut bench, USER);
    let domain = start_restartable(&mut bench);
    bench.core.node_lost(ARM1, "cut");
    bench.collect();
    for (domain, node, said) in [
        (plain, "arm1", "--restartable"),
        (own, "arm1", "was not started by the machine"),
        (domain, "arm0", "already"),
        (domain, "arm1", "cut"),
        (domain, "host", "no build"),
        (domain, "mars", "mars"),
    ] {
        let answer = move_to(&mut bench, domain, node);
        let Some(Reply::Failed { fault }) = answer else { panic!("{domain} to {node}: {answer:?}") };
        assert!(fault.to_string().contains(said), "{fault}");
        assert!(signals(&bench).is_empty(), "{node}");
    }
}

#[test]
fn client_that_leaves_cancels_its_move() {
    let mut bench = Bench::up(4);
    bench.attach(USER);
    bench.attach((HOST, 2));
    let domain = start_restartable(&mut bench);
    let before = bench.core.resource_counts();
    bench.ask((HOST, 2), Request::MoveTo { domain, node: "arm1".into(), grace: Duration::ZERO });
    assert_ne!(bench.core.resource_counts(), before);
    bench.report(HOST, Report::Left { connection: 2 });
    bench.orders.clear();
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Signalled { signal: 9 } });
    assert!(!bench.orders.iter().any(|(_, order)| matches!(order, Order::Start { .. })));
    assert!(
        bench.core.resource_counts().iter().all(|(what, count)| *what != "domains that move" || *count == 0)
    );
}

fn set(bench: &mut Bench, client: ClientId, node: &str) -> Option<Reply> {
    bench.orders.clear();
    let governor = Some("powersave".to_owned());
    let request =
        Request::SetFrequency { node: node.into(), cores: vec![], governor, min_khz: None, max_khz: None };
    bench.ask(client, request)
}

fn ticket(bench: &Bench) -> u64 {
    match bench.orders.last() {
        Some((_, Order::SetFrequency { ticket, .. })) => *ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frequencies_are_restored_when_their_setter_leaves() {
    let mut bench = Bench::up_with(4, "[[node]]\nname = \"rv\"\nkind = \"user\"\nisa = \"riscv64\"\n");
    bench.attach(USER);
    bench.attach((HOST, 2));
    let before = bench.core.resource_counts();
    assert_eq!(set(&mut bench, (HOST, 2), "arm0"), None);
    let restored =
        |bench: &Bench| bench.orders.iter().filter(|(_, order)| *order == Order::RestoreFrequency).count();
    let failing = ticket(&bench);
    let other_node = Report::FrequencySet { ticket: failing, failed: None };
    bench.report(ARM1, other_node);
    assert_eq!(bench.answer((HOST, 2)), None, "it was not asked");
    bench.report(ARM0, Report::FrequencySet { ticket: failing, failed: Some("no governors".into()) });
    let fault = Fault::Refused { why: "node arm0: no governors".into() };
    assert_eq!(bench.answer((HOST, 2)), Some(Reply::Failed { fault }));
    assert_eq!(restored(&bench), 1);
    // A client whose change failed does not block another; a partial change is undone.
    assert_eq!(set(&mut bench, USER, "arm0"), None);
    let of_user = ticket(&bench);
    bench.report(ARM0, Report::FrequencySet { ticket: of_user, failed: Some("no governors".into()) });
    assert!(matches!(bench.answer(USER), Some(Reply::Failed { .. })));
    assert_eq!(set(&mut bench, (HOST, 2), "arm0"), None);
    let second = ticket(&bench);
    bench.report(ARM0, Report::FrequencySet { ticket: second, failed: None });
    assert_eq!(bench.answer((HOST, 2)), Some(Reply::Done));
    // One at a time.
    assert!(matches!(set(&mut bench, USER, "arm0"), Some(Reply::Failed { fault: Fault::Refused { .. } })));
    let restore = Request::RestoreFrequency { node: "arm0".into() };
    assert!(matches!(bench.ask(USER, restore.clone()), Some(Reply::Failed { fault: Fault::Refused { .. } })));
    assert_eq!(restored(&bench), 0);
    bench.report(HOST, Report::Left { connection: 2 });
    assert_eq!(restored(&bench), 1);
    // The client that set it may restore it; the second time restores nothing.
    set(&mut bench, USER, "arm0");
    let last = ticket(&bench);
    assert_eq!(bench.ask(USER, restore.clone()), Some(Reply::Done));
    assert_eq!(bench.ask(USER, restore), Some(Reply::Done));
    assert_eq!(restored(&bench), 1);
    // The loss of a node fails the request that waits for it, and the node keeps no setting.
    set(&mut bench, USER, "arm1");
    bench.core.node_lost(ARM1, "cut");
    bench.collect();
    assert!(matches!(bench.answer(USER), Some(Reply::Failed { fault: Fault::NodeDown { .. } })));
    let held = |held: Vec<(&'static str, usize)>| -> Vec<(&'static str, usize)> {
        held.into_iter().filter(|(what, _)| what.contains("frequenc")).collect()
    };
    bench.report(ARM0, Report::FrequencySet { ticket: last, failed: None });
    assert_eq!(held(bench.core.resource_counts()), held(before));
}

#[test]
fn invalid_frequency_is_refused_with_the_reason() {
    let mut bench = Bench::up_with(4, "[[node]]\nname = \"rv\"\nkind = \"user\"\nisa = \"riscv64\"\n");
    bench.attach(USER);
    let ask = |bench: &mut Bench, node: &str, governor: Option<&str>, min_khz, max_khz| {
        let governor = governor.map(str::to_owned);
        let request = Request::SetFrequency { node: node.into(), cores: vec![], governor, min_khz, max_khz };
        match bench.ask(USER, request) {
            Some(Reply::Failed { fault }) => fault.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert!(ask(&mut bench, "rv", Some("x"), None, None).contains("node host"));
    assert!(ask(&mut bench, "arm0", None, None, None).contains("governor"));
    assert!(ask(&mut bench, "arm0", None, Some(2), Some(1)).contains("above the highest"));
    assert!(ask(&mut bench, "mars", Some("x"), None, None).contains("mars"));
}
