//! Channels in streams of the link with a virtual machine without a window.

use tombolo_base::ChannelId;
use tombolo_control::{Attachment, Fault, Reply};

use super::{ARM0, Bench, HOST};
use crate::root::{Effect, Resource};

fn bench(more: &str) -> Bench {
    let link = "[[link]]\nbetween = [\"host\", \"arm0\"]\ntransport = \"socket\"\n";
    let mut bench = Bench::up_with(16, &format!("{link}{more}"));
    bench.attach((ARM0, 1));
    bench.attach((HOST, 1));
    bench.export((ARM0, 1), "pong");
    bench
}

fn channel_of(bench: &mut Bench) -> ChannelId {
    match bench.connect((HOST, 1), "pong") {
        Some(Reply::Connect { grant }) => grant.channel,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_side_gets_its_end_of_one_stream() {
    let mut bench = bench("");
    let channel = channel_of(&mut bench);
    let ends: Vec<_> =
        bench.delivered.iter().map(|((node, _), _, with, passed)| (*node, with, passed)).collect();
    let here = vec![Resource::LinkStream { node: ARM0, channel }];
    assert_eq!(
        ends,
        [(ARM0, &vec![Attachment::LinkStream], &vec![]), (HOST, &vec![Attachment::Passed], &here)]
    );
}

#[test]
fn two_programs_of_one_such_machine_need_no_link() {
    let mut bench = bench("");
    bench.attach((ARM0, 2));
    assert!(matches!(bench.connect((ARM0, 2), "pong"), Some(Reply::Connect { .. })));
    for (_, _, attachments, _) in &bench.delivered {
        assert!(matches!(attachments[..], [Attachment::PairEnd { .. }]), "{attachments:?}");
    }
}

#[test]
fn streams_count_for_their_opener_until_they_end() {
    let mut bench = bench("[limits]\nwindow_channels_per_domain = 2");
    let first = channel_of(&mut bench);
    channel_of(&mut bench);
    match bench.connect((HOST, 1), "pong") {
        Some(Reply::Failed { fault: Fault::Limit { what } }) => {
            assert!(what.contains("window_channels_per_domain"), "{what}");
        }
        other => panic!("{other:?} in place of the limit"),
    }
    bench.core.stream_ended(first);
    channel_of(&mut bench);
    // Channels of a lost node have ended.
    bench.core.node_lost(ARM0, "gone");
    bench.collect();
    assert!(bench.core.streams.is_empty());
}

#[test]
fn program_is_sent_in_a_stream() {
    let mut bench = bench("");
    super::start(&mut bench, (ARM0, 1));
    let effects = bench.effects.iter();
    let streamed =
        effects.clone().filter(|effect| matches!(effect, Effect::StreamProgram { node: ARM0, .. }));
    assert_eq!(streamed.count(), 1);
    assert!(!effects.clone().any(|effect| matches!(effect, Effect::WriteProgram { .. })));
}
