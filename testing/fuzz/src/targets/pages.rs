//! Messages of the other ranks of a job about pages.

use tombolo_directory::world::Memory;
use tombolo_directory::{Access, Consistency, Geometry, Message, Node, Rank, wire};

use crate::read::Choices;

const PAGES: u32 = 6;
const CONTENT_BYTES: usize = 8;

/// Feeds a rank the messages of two others, while its program accesses pages and other ranks die. Its
/// operations on memory must always be valid.
pub(super) fn rank(input: &[u8]) {
    let mut choices = Choices::new(input);
    let geometry = Geometry {
        ranks: 3,
        me: Rank(0),
        pages: PAGES,
        block_pages: 2,
        hold_ns: u64::from(choices.below(4)),
        ahead: 2,
        consistency: Consistency::Sequential,
    };
    let mut node = Node::new(geometry).expect("a job that can be");
    let mut memory = Memory { pages: (0..PAGES).map(|page| (node.access(page), 0)).collect(), misuse: None };
    let mut now_ns = 0;
    while !choices.is_empty() {
        now_ns += 1;
        match choices.below(8) {
            0 => {
                let access = if choices.below(2) == 0 { Access::Read } else { Access::Write };
                let page = u32::from(choices.below(8));
                assert_eq!(node.fault(&mut memory, now_ns, page, access).is_err(), page >= PAGES);
            }
            1 => node.handle_death(&mut memory, now_ns, Rank(choices.below(4))).expect("no message"),
            2 => drop(node.tick(&mut memory, now_ns)),
            from => {
                let piece = choices.piece();
                let Ok(message) = wire::decode(piece, CONTENT_BYTES) else { continue };
                let mut bytes = wire::head(&message).to_vec();
                bytes.extend(message.content().copied().into_iter().flatten());
                assert_eq!(bytes, piece, "what is decoded is what would be encoded");
                let _ = node.receive(
                    &mut memory,
                    now_ns,
                    Rank(from % 3),
                    message.map(|content| content[0].into()),
                );
            }
        }
        while let Some((to, _)) = node.take_outgoing() {
            assert!(to != Rank(0) && to.0 < 3);
        }
        assert_eq!(memory.misuse, None);
        for page in 0..PAGES {
            assert_eq!(memory.pages[page as usize].0, node.access(page));
        }
    }
}

/// Does the same for a rank with release consistency, whose program also releases and refreshes.
pub(super) fn released(input: &[u8]) {
    let mut choices = Choices::new(input);
    let geometry = Geometry {
        ranks: 3,
        me: Rank(0),
        pages: PAGES,
        block_pages: 2,
        hold_ns: 0,
        ahead: choices.below(3),
        consistency: Consistency::Release,
    };
    let mut node = Node::new(geometry).expect("a job that can be");
    let mut memory = Memory {
        pages: (0..PAGES).map(|page| (node.access(page), vec![0; CONTENT_BYTES])).collect(),
        misuse: None,
    };
    while !choices.is_empty() {
        match choices.below(8) {
            0 => {
                let access = if choices.below(2) == 0 { Access::Read } else { Access::Write };
                let page = u32::from(choices.below(8));
                assert_eq!(node.fault(&mut memory, 0, page, access).is_err(), page >= PAGES);
            }
            1 => node.handle_death(&mut memory, 0, Rank(choices.below(4))).expect("no message"),
            2 => {
                let number = node.release(&mut memory);
                assert!(node.is_released(number) || node.dead().count() < 2);
            }
            3 => node.refresh(&mut memory),
            from => {
                let Ok(message) = wire::decode(choices.piece(), CONTENT_BYTES) else { continue };
                let _ = node.receive(&mut memory, 0, Rank(from % 3), message.map(<[u8]>::to_vec));
            }
        }
        while node.take_outgoing().is_some() {}
        assert_eq!(memory.misuse, None);
        for (page, (access, cells)) in (0..).zip(&memory.pages) {
            assert_eq!((*access, cells.len()), (node.access(page), CONTENT_BYTES));
        }
    }
}

pub(super) fn released_seeds() -> Vec<Vec<u8>> {
    let content: &[u8] = &[5; CONTENT_BYTES];
    let messages = [
        Message::Grant { page: 2, access: Access::Read, content: Some(content) },
        Message::Want { page: 0, access: Access::Read, ahead: 0 },
        Message::Difference { page: 0, content: &[3, 7] },
        Message::Confirm { number: 1 },
        Message::Confirmed { number: 1 },
    ];
    let bytes = messages.iter().flat_map(|message| {
        let content = message.content().copied().unwrap_or_default();
        let length = wire::HEAD_BYTES + content.len();
        [4, length as u8, 0]
            .into_iter()
            .chain(wire::head(message))
            .chain(content.to_vec())
            .collect::<Vec<u8>>()
    });
    // A write fault on page 2, the messages, a release and a refresh.
    vec![[0, 0, 1, 2].into_iter().chain(bytes).chain([2, 3]).collect()]
}

pub(super) fn rank_seeds() -> Vec<Vec<u8>> {
    let content: &[u8] = &[5; CONTENT_BYTES];
    let messages = [
        (4, Message::Want { page: 0, access: Access::Write, ahead: 0 }),
        (4, Message::Grant { page: 2, access: Access::Read, content: Some(content) }),
        (4, Message::Recall { page: 2, leave: Access::None, content: true }),
        (4, Message::Yield { page: 0, content: Some(content) }),
        (5, Message::Want { page: 1, access: Access::Read, ahead: 2 }),
        (5, Message::Held { first: 4, count: 2, access: Access::Read }),
        (5, Message::Reported { dead: tombolo_directory::Ranks(2) }),
        (5, Message::Lost { page: 4, with: Rank(1) }),
    ];
    let bytes = messages.iter().flat_map(|(from, message)| {
        let length = wire::HEAD_BYTES + message.content().map_or(0, |content| content.len());
        let head = wire::head(message);
        let content = message.content().copied().unwrap_or_default();
        [*from, length as u8, 0].into_iter().chain(head).chain(content.iter().copied()).collect::<Vec<u8>>()
    });
    // A read fault on page 2 first, so that its grant is expected.
    vec![[0, 0, 0, 2].into_iter().chain(bytes).collect()]
}
