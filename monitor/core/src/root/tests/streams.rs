//! Side streams: their owners, and how they are fed.

use tombolo_control::streams::{INPUT, SIDE};

use super::*;

/// Returns the immediate answer to a feeding, if any.
fn feed(
    bench: &mut Bench,
    client: ClientId,
    domain: tombolo_base::DomainId,
    stream: u8,
    bytes: &[u8],
) -> Option<Reply> {
    bench.ask(client, Request::Input { domain, stream, bytes: bytes.to_vec() })
}

fn is_refused(reply: Option<Reply>) -> bool {
    matches!(reply, Some(Reply::Failed { fault: Fault::Refused { .. } }))
}

#[test]
fn side_stream_belongs_to_the_parent() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    bench.attach((HOST, 2));
    let domain = start(&mut bench, (HOST, 1));
    bench.report(ARM0, Report::Joined { connection: 5, pid: 55, domain: Some(domain) });
    let attach = Request::Attach { version: FINGERPRINT, program: String::new() };
    assert!(matches!(bench.ask((ARM0, 5), attach), Some(Reply::Attach { .. })));
    // A child of the child: its output goes to the client that started the job, its side stream to its
    // parent.
    let grandchild = {
        assert_eq!(bench.spawn((ARM0, 5), "arm1"), None);
        let Some((ARM1, Order::Start { order })) = bench.orders.last() else { panic!() };
        let domain = order.domain;
        bench.report(ARM1, Report::Started { domain, pid: 60 });
        domain
    };
    bench.delivered.clear();
    for stream in [1, SIDE] {
        bench.report(ARM1, Report::Output { domain: grandchild, stream, bytes: vec![stream] });
    }
    let told: Vec<_> = bench.delivered.iter().map(|(to, message, ..)| (*to, message.body.clone())).collect();
    let output = |stream: u8| Reply::Output { domain: grandchild, stream, bytes: vec![stream] };
    assert_eq!(told, [((HOST, 1), output(1)), ((ARM0, 5), output(SIDE))]);
    // Only the parent acknowledges output of the side stream, and only the parent feeds it.
    bench.orders.clear();
    for client in [(HOST, 1), (ARM0, 5)] {
        bench.ask(client, Request::OutputTaken { domain: grandchild, stream: SIDE, bytes: 1 });
    }
    assert_eq!(bench.orders, [(ARM1, Order::OutputTaken { domain: grandchild, stream: SIDE, bytes: 1 })]);
    assert!(is_refused(feed(&mut bench, (HOST, 1), grandchild, SIDE, b"x")));
    assert!(is_refused(feed(&mut bench, (HOST, 2), domain, SIDE, b"x")));
    assert_eq!(feed(&mut bench, (ARM0, 5), grandchild, SIDE, b"x"), None);
}

/// Checks that the last output of descendants is delivered before the end of the job.
#[test]
fn exit_is_reported_after_all_descendants_ended() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = start(&mut bench, (HOST, 1));
    bench.report(ARM0, Report::Joined { connection: 5, pid: 55, domain: Some(domain) });
    let attach = Request::Attach { version: FINGERPRINT, program: String::new() };
    bench.ask((ARM0, 5), attach.clone());
    let mut start_child = |client: ClientId, connection: u32| {
        assert_eq!(bench.spawn(client, "arm1"), None);
        let Some((ARM1, Order::Start { order })) = bench.orders.last() else { panic!() };
        let domain = order.domain;
        bench.report(ARM1, Report::Started { domain, pid: 60 });
        bench.report(ARM1, Report::Joined { connection, pid: 60, domain: Some(domain) });
        bench.ask((ARM1, connection), attach.clone());
        domain
    };
    let child = start_child((ARM0, 5), 6);
    let grandchild = start_child((ARM1, 6), 7);
    bench.delivered.clear();
    let exit = Exit::Exited { status: 0 };
    bench.report(ARM0, Report::Left { connection: 5 });
    bench.report(ARM0, Report::Ended { domain, exit: exit.clone() });
    bench.report(ARM1, Report::Left { connection: 6 });
    bench.report(ARM1, Report::Ended { domain: child, exit: Exit::Signalled { signal: 9 } });
    assert_eq!(bench.delivered.len(), 0, "the grandchild has not ended");
    bench.report(ARM1, Report::Output { domain: grandchild, stream: 1, bytes: b"last".to_vec() });
    bench.report(ARM1, Report::Ended { domain: grandchild, exit: Exit::Signalled { signal: 9 } });
    let told: Vec<_> = bench.delivered.iter().map(|(to, message, ..)| (*to, message.body.clone())).collect();
    let output = Reply::Output { domain: grandchild, stream: 1, bytes: b"last".to_vec() };
    assert_eq!(told, [((HOST, 1), output), ((HOST, 1), Reply::Ended { domain, exit })]);
}

#[test]
fn input_accepts_one_piece_at_a_time_and_an_end() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    let domain = start(&mut bench, (HOST, 1));
    for stream in [INPUT, SIDE] {
        assert_eq!(feed(&mut bench, (HOST, 1), domain, stream, b"x"), None);
        assert!(is_refused(feed(&mut bench, (HOST, 1), domain, stream, b"y")), "{stream} is still taking");
    }
    assert_eq!(feed(&mut bench, (HOST, 1), domain, SIDE, b""), None, "an end");
    assert!(is_refused(feed(&mut bench, (HOST, 1), domain, SIDE, b"")), "and one alone");
    for stream in [1, 2, 4, 255] {
        assert!(is_refused(feed(&mut bench, (HOST, 1), domain, stream, b"x")), "{stream} is no input");
    }
    bench.delivered.clear();
    bench.report(ARM0, Report::InputTaken { domain, stream: SIDE });
    assert_eq!(bench.answer((HOST, 1)), Some(Reply::Done));
    // The death of a reader acknowledges all of its output.
    bench.delivered.clear();
    bench.report(ARM0, Report::Ended { domain, exit: Exit::Signalled { signal: 9 } });
    let gone = Reply::Failed { fault: Fault::NoSuchDomain { domain } };
    let answers = bench.delivered.iter().filter(|(_, message, ..)| message.body == gone).count();
    assert_eq!(answers, 2);
}

#[test]
fn the_variable_of_a_side_stream_is_a_name() {
    let mut bench = Bench::up(4);
    bench.attach((HOST, 1));
    for (variable, good) in [("PMI_FD", true), ("", false), ("A=B", false), ("A B", false), ("é", false)] {
        let spawn = SpawnRequest {
            node: "arm0".into(),
            own_image: true,
            program: ProgramSpec { side: Some(variable.into()), ..ProgramSpec::new("") },
            given: Vec::new(),
        };
        let Some(Reply::Failed { fault: Fault::Refused { why } }) =
            bench.ask((HOST, 1), Request::Spawn { spawn })
        else {
            panic!("a program without an image has none of its own")
        };
        assert_eq!(!why.contains("side stream"), good, "{variable:?}: {why}");
    }
}
