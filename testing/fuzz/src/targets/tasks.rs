//! Messages of workers to the starter of their tasks.

use tombolo_task::{Bytes, Limits, Message, Output, Scheduler, WorkerId};

use crate::read::Choices;

/// Feeds a scheduler the messages of three workers, with starts, cancellations, deaths and timeouts between
/// them.
pub(super) fn tasks(input: &[u8]) {
    let mut choices = Choices::new(input);
    let mut scheduler = Scheduler::new(Limits { tasks: 8, wanted: 4 });
    for (node, speed) in [(0, 100), (0, 100), (1, 7)] {
        scheduler.add_worker(node, "node", speed);
    }
    let (mut now, mut started, mut ended) = (0, 0, 0);
    while !choices.is_empty() {
        let what = choices.byte();
        let worker = WorkerId(usize::from(what % 3));
        now += u64::from(what) * 100;
        scheduler.tick(now);
        if what.is_multiple_of(5) {
            let node = what.is_multiple_of(2).then_some(u16::from(what % 3));
            started += usize::from(scheduler.start(now, node, 1, Bytes::default()).is_ok());
        }
        if what.is_multiple_of(7) {
            scheduler.cancel(now, u32::from(what / 7));
        }
        let piece = choices.piece();
        let Ok(message) = Message::decode(piece) else { continue };
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again, piece, "what is decoded is what would be encoded");
        let heard = scheduler.receive(now, worker, piece);
        if heard.is_err() || what > 250 {
            scheduler.worker_ended(now, worker, "it broke the protocol");
        }
        for (what, count) in scheduler.resource_counts() {
            assert!(count <= 8, "{count} {what}");
        }
        ended += ends(&mut scheduler);
    }
    (0..3).for_each(|worker| scheduler.worker_ended(now, WorkerId(worker), "it died"));
    ended += ends(&mut scheduler);
    assert!(
        scheduler.resource_counts().iter().all(|(_, count)| *count == 0),
        "{:?}",
        scheduler.resource_counts()
    );
    assert_eq!(started, ended, "every task of the program ends once");
}

/// Takes the outputs and counts the ended tasks of the program.
fn ends(scheduler: &mut Scheduler) -> usize {
    let outputs = scheduler.take_outputs().into_iter();
    outputs
        .filter(|output| matches!(output, Output::Ended { origin: tombolo_task::Origin::Local, .. }))
        .count()
}

pub(super) fn tasks_seeds() -> Vec<Vec<u8>> {
    let done = tombolo_task::End::Done((*b"result").into());
    let failure = tombolo_task::Failure::new(tombolo_task::FailureKind::Panicked).with_text("text");
    let messages = [
        (0, Message::Want { more: 2, released: 0 }),
        (5, Message::Want { more: 1, released: 0 }),
        (10, Message::Start { task: 3, node: Some(1), function: 1, argument: b"argument" }),
        (0, Message::Ended(0, done)),
        (1, Message::Ended(1, tombolo_task::End::Failed(failure))),
        (1, Message::Cancel(3)),
    ];
    let mut all = Vec::new();
    for (what, message) in messages {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        all.extend([what, bytes.len() as u8, 0]);
        all.extend(bytes);
    }
    vec![all]
}
