//! Messages of ranks to their process manager.

use tombolo_mpi_launch::pmi::{Event, MemberId, Server};

const RANKS: usize = 3;

/// Feeds the server pieces of the ranks' streams. Each is preceded by a byte for the rank and one for its
/// length.
pub(super) fn pmi(input: &[u8]) {
    let mut server = Server::new("fuzz");
    let (_, members) = server.add_world(&[0; RANKS], "(vector,(0,1,3))".into(), &[]);
    let mut broken = [0; RANKS];
    let mut rest = input;
    while let [who, length, after @ ..] = rest {
        let (piece, after) = after.split_at(usize::from(*length).min(after.len()));
        server.receive(members[usize::from(*who) % RANKS], piece);
        rest = after;
        while let Some(event) = server.next_event() {
            match event {
                Event::Violation(MemberId(member), _) => broken[member] += 1,
                Event::Spawn(member, commands) => {
                    assert!(!commands.is_empty(), "nothing to start");
                    server.reply_to_spawn(member, Ok(()));
                }
                Event::Send(_, bytes) => assert!(bytes.ends_with(b"\n") && bytes.len() < 4096),
                event @ (Event::Publish { .. } | Event::Unpublish { .. } | Event::Lookup { .. }) => {
                    server.reply(&event, Ok("port".into()));
                }
                Event::Initialized(_) | Event::Abort(..) => {}
            }
        }
    }
    assert!(broken.iter().all(|times| *times <= 1), "one that broke off is heard again");
}

pub(super) fn pmi_seeds() -> Vec<Vec<u8>> {
    let conversation = |lines: &[&str]| {
        let part = |line: &&str| [&[0, line.len() as u8], line.as_bytes()].concat();
        lines.iter().flat_map(part).collect()
    };
    let init = "cmd=init pmi_version=1 pmi_subversion=1\n";
    vec![
        conversation(&[init, "cmd=get_maxes\n", "cmd=get_my_kvsname\n", "cmd=put key=a value=b\n"]),
        conversation(&[init, "cmd=get key=PMI_process_mapping\n", "cmd=barrier_in\n", "cmd=finalize\n"]),
        conversation(&[init, "cmd=publish_name service=a port=b\n", "cmd=abort exitcode=7 message=x\n"]),
        conversation(&[
            init,
            "mcmd=spawn\nnprocs=2\nexecname=./a\ntotspawns=1\nspawnssofar=1\nargcnt=1\narg1=x\n",
            "preput_num=1\npreput_key_0=k\npreput_val_0=v\ninfo_num=1\ninfo_key_0=host\ninfo_val_0=h\nendcmd\n",
        ]),
    ]
}
