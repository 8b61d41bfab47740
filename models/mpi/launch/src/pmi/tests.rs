//! Request sequences of MPICH and other clients, and malformed input.

use proptest::prelude::*;

use super::*;

fn server(size: usize) -> (Server, Vec<MemberId>) {
    let mut server = Server::new("job-1.2.3");
    let mapping = format!("(vector,(0,{size},1))");
    let (_, members) = server.add_world(&vec![0; size], mapping, &[]);
    (server, members)
}

fn events(server: &mut Server) -> Vec<Event> {
    std::iter::from_fn(|| server.next_event()).collect()
}

/// Sends a line as a rank and returns the reply. Panics if there is any other event.
fn send_and_receive(server: &mut Server, member: MemberId, line: &str) -> String {
    server.receive(member, format!("{line}\n").as_bytes());
    let said: Vec<Event> =
        events(server).into_iter().filter(|event| !matches!(event, Event::Initialized(_))).collect();
    match said.as_slice() {
        [Event::Send(to, bytes)] if *to == member => {
            String::from_utf8(bytes.clone()).unwrap().trim_end().to_owned()
        }
        other => panic!("{line}: {other:?}"),
    }
}

fn init(server: &mut Server, member: MemberId) {
    assert_eq!(
        send_and_receive(server, member, "cmd=init pmi_version=1 pmi_subversion=1"),
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"
    );
}

/// Sends bytes as an initialized rank and returns the reason why the server refuses it.
fn refusal(bytes: &[u8]) -> String {
    let (mut server, members) = server(2);
    init(&mut server, members[0]);
    server.receive(members[0], bytes);
    match events(&mut server).as_slice() {
        [.., Event::Violation(_, refusal)] => refusal.to_string(),
        other => panic!("{}: {other:?}", bytes.escape_ascii()),
    }
}

#[test]
fn ranks_exchange_keys_through_the_server() {
    let (mut server, members) = server(2);
    let [a, b] = members[..] else { panic!() };
    for member in [a, b] {
        init(&mut server, member);
        assert_eq!(server.phase(member), Phase::Inside);
        let maxes = send_and_receive(&mut server, member, "cmd=get_maxes");
        assert_eq!(maxes, "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024");
        assert_eq!(send_and_receive(&mut server, member, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=0");
        assert_eq!(
            send_and_receive(&mut server, member, "cmd=get_my_kvsname"),
            "cmd=my_kvsname rc=0 kvsname=job-1.2.3-0"
        );
        assert_eq!(
            send_and_receive(&mut server, member, "cmd=get_universe_size"),
            "cmd=universe_size rc=0 size=-1"
        );
    }
    let get = "cmd=get kvsname=job-1.2.3-0 key=PMI_process_mapping";
    assert_eq!(send_and_receive(&mut server, a, get), "cmd=get_result rc=0 value=(vector,(0,2,1))");
    // Values are stored verbatim, including escaped blanks.
    let put = "cmd=put kvsname=job-1.2.3-0 key=P0-bc value=a\\ b=c#$";
    assert_eq!(send_and_receive(&mut server, a, put), "cmd=put_result rc=0");
    server.receive(a, b"cmd=barrier_in\n");
    assert!(events(&mut server).is_empty(), "the other is still to come");
    server.receive(b, b"cmd=barr");
    server.receive(b, b"ier_in\ncmd=get key=P0-bc\n");
    let send_line = |to, line: &str| Event::Send(to, format!("{line}\n").into_bytes());
    let out = "cmd=barrier_out rc=0";
    assert_eq!(
        events(&mut server),
        [send_line(a, out), send_line(b, out), send_line(b, "cmd=get_result rc=0 value=a\\ b=c#$")]
    );
    assert!(
        send_and_receive(&mut server, b, "cmd=get kvsname=job-1.2.3-0 key=none")
            .starts_with("cmd=get_result rc=-1")
    );
    assert!(
        send_and_receive(&mut server, b, "cmd=get kvsname=elsewhere key=P0-bc")
            .starts_with("cmd=get_result rc=-1")
    );
    assert!(
        send_and_receive(&mut server, b, "cmd=put kvsname=elsewhere key=x value=y")
            .starts_with("cmd=put_result rc=-1")
    );
    assert!(
        send_and_receive(&mut server, b, "cmd=put key=PMI_process_mapping value=y")
            .starts_with("cmd=put_result rc=-1")
    );
    assert_eq!(send_and_receive(&mut server, b, "cmd=finalize"), "cmd=finalize_ack rc=0");
    assert_eq!(server.phase(b), Phase::Finalized);
    // A program that uses MPI sessions may initialize again, whether it has finalized or not.
    init(&mut server, b);
    assert_eq!(
        send_and_receive(&mut server, b, "cmd=init pmi_version=1 pmi_subversion=1"),
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"
    );
    assert_eq!(send_and_receive(&mut server, b, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=0");
}

#[test]
fn spawned_ranks_get_their_own_world() {
    let (mut server, members) = server(1);
    init(&mut server, members[0]);
    let request = "mcmd=spawn\nnprocs=2\nexecname=./child\ntotspawns=2\nspawnssofar=1\nargcnt=2\narg1=-n\narg2=\n\
                   preput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$\ninfo_num=1\n\
                   info_key_0=host\ninfo_val_0=arm0\nendcmd\n\
                   mcmd=spawn\nnprocs=1\nexecname=other\ntotspawns=2\nspawnssofar=2\nargcnt=0\ninfo_num=0\nendcmd\n";
    // The request arrives in arbitrary pieces.
    for piece in request.as_bytes().chunks(7) {
        server.receive(members[0], piece);
    }
    let Some(Event::Spawn(by, commands)) = events(&mut server).pop() else { panic!() };
    assert_eq!((by, commands.len()), (members[0], 2));
    assert_eq!((commands[0].program.as_str(), commands[0].count), ("./child", 2));
    assert_eq!(commands[0].arguments, ["-n", ""]);
    assert_eq!(commands[0].hint("host"), Some("arm0"));
    assert_eq!(commands[0].preput, [("PARENT_ROOT_PORT_NAME".to_owned(), "tag#0$".to_owned())]);
    assert_eq!((commands[1].program.as_str(), commands[1].hint("host")), ("other", None));
    let (_, children) = server.add_world(&[0, 0, 1], "(vector,(0,3,1))".into(), &commands[0].preput);
    server.reply_to_spawn(by, Ok(()));
    let done = Event::Send(by, b"cmd=spawn_result rc=0\n".to_vec());
    assert_eq!(events(&mut server), [done]);
    init(&mut server, children[2]);
    assert_eq!(send_and_receive(&mut server, children[2], "cmd=get_appnum"), "cmd=appnum rc=0 appnum=1");
    let get = "cmd=get kvsname=job-1.2.3-1 key=PARENT_ROOT_PORT_NAME";
    assert_eq!(send_and_receive(&mut server, children[2], get), "cmd=get_result rc=0 value=tag#0$");
    assert_eq!(server.world_of(children[0]), children);
    // The barrier of the first world does not wait for the children.
    assert_eq!(send_and_receive(&mut server, by, "cmd=barrier_in"), "cmd=barrier_out rc=0");
    server.reply_to_spawn(by, Err("no such node".into()));
    let not = Event::Send(by, b"cmd=spawn_result rc=-1 msg=no_such_node\n".to_vec());
    assert_eq!(events(&mut server), [not]);
}

#[test]
fn services_and_aborts_become_events() {
    let (mut server, members) = server(1);
    let rank = members[0];
    init(&mut server, rank);
    server
        .receive(rank, b"cmd=publish_name service=ocean port=tag#0$desc#7$\ncmd=lookup_name service=ocean\n");
    let said = events(&mut server);
    let publish = Event::Publish { member: rank, service: "ocean".into(), port: "tag#0$desc#7$".into() };
    let lookup = Event::Lookup { member: rank, service: "ocean".into() };
    assert_eq!(said, [publish.clone(), lookup.clone()]);
    server.reply(&publish, Ok(String::new()));
    server.reply(&lookup, Ok("tag#0$desc#7$".into()));
    server.reply(&Event::Unpublish { member: rank, service: "x".into() }, Err("nobody has it".into()));
    let lines: Vec<String> = events(&mut server)
        .into_iter()
        .map(|event| match event {
            Event::Send(_, bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        lines,
        [
            "cmd=publish_result rc=0\n",
            "cmd=lookup_result rc=0 port=tag#0$desc#7$\n",
            "cmd=unpublish_result rc=-1 msg=nobody_has_it\n"
        ]
    );
    server.receive(rank, b"cmd=abort exitcode=7 message=abort\n");
    assert_eq!(events(&mut server), [Event::Abort(rank, 7, Some("abort".into()))]);
    server.receive(rank, b"cmd=abort\n");
    assert_eq!(events(&mut server), [Event::Abort(rank, 1, None)]);
}

#[test]
fn malformed_messages_are_reported_and_end_the_connection() {
    assert_eq!(refusal(b"\x7fELF\n"), "'\\x7fELF' is not a line of PMI-1");
    assert_eq!(refusal(b"GET / HTTP/1.1\n"), "'GET / HTTP/1.1' is not a line of PMI-1");
    assert!(refusal(b"cmd=put key=\xff\n").contains("is not a line of PMI-1"));
    assert!(refusal(b"cmd=\n").contains("is not a line"));
    assert!(refusal(b"   122cmd=init;").contains("PMI-2"));
    assert_eq!(refusal(b"cmd=frobnicate\n"), "it asks for 'frobnicate', which PMI-1 does not have");
    assert_eq!(refusal(b"cmd=put key=a\n"), "its 'put' is not usable: it has no 'value'");
    assert_eq!(
        refusal(b"cmd=barrier_in\ncmd=init pmi_version=1 pmi_subversion=1\n"),
        "it asks for 'init' while it is in a barrier"
    );
    assert!(refusal(b"cmd=barrier_in\ncmd=barrier_in\n").contains("while it is in a barrier"));
    assert!(refusal(b"cmd=finalize\ncmd=get key=a\n").contains("after 'finalize'"));
    for (command, at_most) in [("put key=", 64), ("put key=k value=", 1024), ("lookup_name service=", 1024)] {
        let line = |bytes: usize| {
            format!("cmd={command}{} {}\n", "x".repeat(bytes), if at_most == 64 { "value=v" } else { "" })
        };
        let (mut server, members) = server(1);
        init(&mut server, members[0]);
        server.receive(members[0], line(at_most).as_bytes());
        assert!(!matches!(events(&mut server).last(), Some(Event::Violation(..))), "{command} of {at_most}");
        assert!(refusal(line(at_most + 1).as_bytes()).contains(&format!("may have {at_most}")));
    }
    let overlong = vec![b'x'; MAX_LINE_BYTES];
    assert!(refusal(&[b"cmd=".as_slice(), &overlong].concat()).contains("longer than"));
    let overlong = vec![b'x'; MAX_SPAWN_BYTES];
    assert!(refusal(&[b"mcmd=spawn\n".as_slice(), &overlong].concat()).contains("longer than"));
    let spawn = |text: &str| refusal(format!("mcmd=spawn\n{text}endcmd\n").as_bytes());
    assert!(spawn("execname=a\ntotspawns=1\nspawnssofar=1\n").contains("no usable 'nprocs'"));
    assert!(spawn("nprocs=1\ntotspawns=1\nspawnssofar=1\n").contains("no usable 'execname'"));
    assert!(spawn("nprocs=-1\nexecname=a\ntotspawns=1\nspawnssofar=1\n").contains("no usable 'nprocs'"));
    assert!(spawn("nprocs=1\nexecname=a\n").contains("as many programs as it says"));
    assert!(spawn("nprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\nargcnt=2\narg1=x\n").contains("'arg2'"));
    assert!(
        spawn("nprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\nargcnt=99999999\n").contains("'argcnt'")
    );
    // Further input of a refused rank is ignored and not answered.
    let (mut server, members) = server(1);
    server.receive(members[0], b"nonsense\n");
    events(&mut server);
    server.receive(members[0], b"cmd=init pmi_version=1 pmi_subversion=1\n");
    assert!(events(&mut server).is_empty());
}

#[test]
fn other_pmi_version_is_refused() {
    let (mut server, members) = server(1);
    server.receive(members[0], b"cmd=init pmi_version=2 pmi_subversion=0\n");
    let said = events(&mut server);
    let [Event::Send(_, answer), Event::Violation(_, refusal)] = &said[..] else { panic!("{said:?}") };
    assert!(answer.starts_with(b"cmd=response_to_init rc=-1 "));
    assert_eq!(refusal.to_string(), "it asks for PMI 2.0; this process manager speaks PMI 1.1");
    server.receive(members[0], b"cmd=get_maxes\n");
    assert!(events(&mut server).is_empty());
}

#[test]
fn keys_are_bounded() {
    let (mut server, members) = server(1);
    init(&mut server, members[0]);
    for key in 0..1088 {
        assert_eq!(
            send_and_receive(&mut server, members[0], &format!("cmd=put key=k{key} value=v")),
            "cmd=put_result rc=0"
        );
    }
    assert_eq!(
        send_and_receive(&mut server, members[0], "cmd=put key=k0 value=again"),
        "cmd=put_result rc=0"
    );
    server.receive(members[0], b"cmd=put key=one-more value=v\n");
    let said = events(&mut server);
    assert!(matches!(&said[..], [Event::Violation(_, Refusal::Full(1088))]), "{said:?}");
}

/// Generates valid requests, requests with one changed byte, and random bytes.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let command = prop::sample::select(vec![
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=get_maxes\n",
        "cmd=put key=a value=b\n",
        "cmd=get key=a\n",
        "cmd=barrier_in\n",
        "cmd=finalize\n",
        "cmd=abort exitcode=3\n",
        "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\nargcnt=0\nendcmd\n",
        "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nspawnssofar=1\nargcnt=1\narg1=x\nendcmd\n",
        "cmd=publish_name service=a port=b\n",
    ]);
    let changed =
        (command.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(line, at, byte)| {
            let mut line = line.as_bytes().to_vec();
            let at = at.index(line.len());
            line[at] = byte;
            line
        });
    prop_oneof![
        8 => command.prop_map(|line| line.as_bytes().to_vec()),
        1 => changed,
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    /// Arbitrary input in arbitrary pieces does not panic, has the same result as in one piece, and breaks
    /// each member at most once.
    #[test]
    fn parsing_does_not_depend_on_chunking(
        said in prop::collection::vec((0_usize..3, line()), 0..30),
        size in 1_usize..20,
    ) {
        let run = |size: usize| {
            let (mut server, members) = server(3);
            let mut observed = Vec::new();
            for (rank, bytes) in &said {
                for piece in bytes.chunks(size) {
                    server.receive(members[*rank], piece);
                }
                observed.extend(events(&mut server));
            }
            observed
        };
        let whole = run(usize::MAX);
        for rank in 0..3 {
            let broken = whole.iter().filter(|event| matches!(event, Event::Violation(id, _) if id.0 == rank)).count();
            prop_assert!(broken <= 1);
        }
        let in_pieces = run(size);
        // If the first line arrives in pieces, the refusal may quote less of it, so reasons are not compared.
        let kind = |event: &Event| match event {
            Event::Violation(id, _) => Event::Violation(*id, Refusal::Full(0)),
            other => other.clone(),
        };
        prop_assert_eq!(in_pieces.iter().map(kind).collect::<Vec<_>>(), whole.iter().map(kind).collect::<Vec<_>>());
    }
}
