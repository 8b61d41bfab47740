//! Messages of peers to a reliable-datagram endpoint while its program uses it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use tombolo::{Draft, Message, WaitSet};
use tombolo_mpi_fabric::{
    Access, Address, Atomic, AtomicOp, Datatype, Engine, Event, Exposed, LinkEnd, LinkId, Memory, NO_ADDRESS,
    Net, Peek, Read, Receive, Region, Send, Stages, Write,
};

use crate::read::Choices;

/// Number of peers; their links have the numbers below it.
const PEERS: u8 = 2;
const CHUNKS: u16 = 2;
const CHUNK_BYTES: u32 = 4096;
const KEY: u64 = 7;
const BASE: u64 = 4096;
const REGION_BYTES: usize = 64;

/// Number of messages that a link holds until the peer receives.
const ROOM: usize = 8;

/// Number of the endpoint's messages that a peer remembers.
const REMEMBERED: u8 = 4;

fn address(of: u64) -> Address {
    Address { endpoint: of + 1, domain: 1000 * (of + 1) }
}

/// Memory of the program. Panics on accesses out of bounds, which are bugs of the engine.
#[derive(Clone, Debug)]
struct Buffer {
    bytes: Rc<RefCell<Vec<u8>>>,
    start: usize,
    length: usize,
}

impl Buffer {
    fn new(length: usize) -> Buffer {
        Buffer { bytes: Rc::new(RefCell::new(vec![0x5a; length])), start: 0, length }
    }
}

impl Memory for Buffer {
    fn len(&self) -> usize {
        self.length
    }

    fn for_each_source(&self, offset: usize, length: usize, mut take: impl FnMut(&[u8])) {
        assert!(offset + length <= self.length, "{length} bytes at {offset} of {}", self.length);
        take(&self.bytes.borrow()[self.start + offset..][..length]);
    }

    fn for_each_target(&mut self, offset: usize, length: usize, mut give: impl FnMut(&mut [u8])) {
        let there = self.length.saturating_sub(offset).min(length);
        assert_eq!(there, length, "bytes at {offset} of {}", self.length);
        give(&mut self.bytes.borrow_mut()[self.start + offset..][..length]);
    }

    fn as_contiguous(&self) -> Option<(usize, usize)> {
        Some((1 << 20, self.length))
    }

    fn part(&self, offset: usize, length: usize) -> Buffer {
        assert!(offset + length <= self.length, "a part of {length} bytes at {offset} of {}", self.length);
        Buffer { bytes: Rc::clone(&self.bytes), start: self.start + offset, length }
    }
}

/// Memory of the endpoint that peers read. Panics on writes out of bounds, which are bugs of the engine.
struct Chunks(Vec<u8>);

impl Stages for Chunks {
    fn write(&mut self, place: usize, offset_bytes: usize, source: &[u8]) {
        assert_eq!(place, 0);
        self.0[offset_bytes..offset_bytes + source.len()].copy_from_slice(source);
    }
}

/// Links whose remote ends are played by the input. A view is the length that the peer claimed.
struct Wire {
    events: VecDeque<Event<usize>>,
    incoming: HashMap<LinkId, VecDeque<Vec<u8>>>,
    /// Messages sent on each link, newest first, and the number of those not received yet.
    sent: HashMap<LinkId, (VecDeque<Vec<u8>>, usize)>,
    open: Vec<LinkId>,
    chunks: Chunks,
}

/// The endpoint's side of the links.
struct Ends(Rc<RefCell<Wire>>);

impl Net for Ends {
    type View = usize;
    type Stages = Chunks;

    fn address(&self) -> Address {
        address(0)
    }

    fn connect(&mut self, to: Address, _: usize) {
        self.0.borrow_mut().events.push_back(Event::NotConnected { to });
    }

    fn cancel_connect(&mut self, _: Address) -> bool {
        // Every connection attempt is answered at once.
        false
    }

    fn has_event(&self) -> bool {
        !self.0.borrow().events.is_empty()
    }

    fn next_event(&mut self) -> Option<Event<usize>> {
        let mut wire = self.0.borrow_mut();
        let event = wire.events.pop_front()?;
        if let Event::Accepted { link, .. } = &event {
            wire.open.push(*link);
        }
        Some(event)
    }

    fn is_accepting(&self) -> bool {
        false
    }

    fn warn_unreachable(&mut self, _: Address) {}

    fn hot(&self) -> usize {
        self.0.borrow().open.len()
    }

    fn hot_link(&self, index: usize) -> Option<LinkId> {
        self.0.borrow().open.get(index).copied()
    }

    fn receive<R>(
        &mut self,
        link: LinkId,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, LinkEnd> {
        assert!(self.0.borrow().open.contains(&link), "{link:?} has ended");
        let message = self.0.borrow_mut().incoming.get_mut(&link).and_then(VecDeque::pop_front);
        Ok(message.map(|bytes| read(&Message::of_bytes(&bytes))))
    }

    fn send(
        &mut self,
        link: LinkId,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>, &mut Chunks),
    ) -> Result<bool, LinkEnd> {
        let wire = &mut *self.0.borrow_mut();
        if !wire.open.contains(&link) {
            return Err(LinkEnd::Closed);
        }
        assert!(length_bytes <= 16384, "{length_bytes} bytes are more than a link carries");
        let (sent, unreceived) = wire.sent.entry(link).or_default();
        if *unreceived == ROOM {
            return Ok(false);
        }
        let mut bytes = vec![0xa5; length_bytes];
        write(&mut Draft::of_bytes(&mut bytes), &mut wire.chunks);
        sent.push_front(bytes);
        sent.truncate(REMEMBERED.into());
        *unreceived += 1;
        Ok(true)
    }

    fn max_message_bytes(&self, _: LinkId) -> usize {
        16384
    }

    fn close(&mut self, link: LinkId) {
        self.0.borrow_mut().open.retain(|open| *open != link);
    }

    fn place(&self, _: LinkId) -> Option<usize> {
        Some(0)
    }

    fn chunks(&self) -> (u16, u32) {
        (CHUNKS, CHUNK_BYTES)
    }

    fn stage(&mut self, link: LinkId) {
        self.0.borrow_mut().events.push_back(Event::Staged { link, capability: Some(1) });
    }

    fn map(&mut self, link: LinkId, _: u64, length_bytes: u64) {
        let view = usize::try_from(length_bytes).ok();
        self.0.borrow_mut().events.push_back(Event::Mapped { link, view });
    }

    fn expose(
        &mut self,
        _: LinkId,
        _: u64,
        (_, length): (usize, usize),
        _: bool,
        _: &[u64],
    ) -> Option<Vec<Exposed>> {
        let length = length as u64;
        Some(vec![Exposed { capability: 2, region_bytes: length, offset: 0, length }])
    }

    fn withdraw(&mut self, _: u64) {}

    fn map_direct(&mut self, link: LinkId, key: u64, capability: u64, length_bytes: u64, _: bool) {
        let view = usize::try_from(length_bytes).ok();
        self.0.borrow_mut().events.push_back(Event::DirectMapped { link, key, capability, view });
    }

    fn is_view_valid(_: &usize) -> bool {
        true
    }

    fn write_view(view: &usize, offset_bytes: usize, source: &[u8]) -> bool {
        offset_bytes.checked_add(source.len()).is_some_and(|end| end <= *view)
    }

    fn read_view(view: &usize, offset_bytes: usize, target: &mut [u8]) -> bool {
        target.fill(0xc3);
        offset_bytes.checked_add(target.len()).is_some_and(|end| end <= *view)
    }

    fn prepare_wait(&mut self, _: &[LinkId]) -> Option<&mut WaitSet> {
        None
    }
}

fn hello(peer: u64) -> Vec<u8> {
    [&1_u64.to_le_bytes()[..], &address(peer).to_bytes()].concat()
}

/// Operations in flight, by context.
#[derive(Default)]
struct OpenOperations {
    last: usize,
    open: HashSet<usize>,
    /// Operations that complete more than once.
    multi: HashSet<usize>,
}

impl OpenOperations {
    fn next(&mut self) -> usize {
        self.last += 1;
        self.open.insert(self.last);
        self.last
    }

    fn complete(&mut self, context: usize) {
        // Context 0 reports a peer's write with data.
        if context != 0 && !self.multi.contains(&context) {
            assert!(self.open.remove(&context), "operation {context} ended twice");
        }
    }
}

pub(super) fn endpoint(input: &[u8]) {
    let incoming = |peer: u8| (LinkId(peer.into()), VecDeque::from([hello(u64::from(peer) + 1)]));
    let accepted =
        |peer: u8| Event::Accepted { link: LinkId(peer.into()), domain: address(u64::from(peer) + 1).domain };
    let wire = Rc::new(RefCell::new(Wire {
        events: (0..PEERS).map(accepted).collect(),
        incoming: (0..PEERS).map(incoming).collect(),
        sent: HashMap::new(),
        open: Vec::new(),
        chunks: Chunks(vec![0; usize::from(CHUNKS) * CHUNK_BYTES as usize]),
    }));
    let mut engine = Engine::new(Ends(Rc::clone(&wire)));
    for peer in 0..u64::from(PEERS) {
        engine.set_route(peer, Some(address(peer + 1)));
    }
    let access = Access { read: true, write: true };
    engine.register(KEY, Region { memory: Buffer::new(REGION_BYTES), base: BASE, access });
    engine.process_events();
    engine.progress();
    assert_eq!(engine.load().0, usize::from(PEERS), "peers that said hello");

    let mut operations = OpenOperations::default();
    let mut choices = Choices::new(input);
    while !choices.is_empty() {
        match choices.below(8) {
            0 => receive_all(&mut choices, &wire),
            1 => send_as_peer(&mut choices, &wire, false),
            2 | 3 => send_as_peer(&mut choices, &wire, true),
            _ => use_endpoint(&mut choices, &mut engine, &mut operations),
        }
        engine.process_events();
        engine.progress();
        while let Some(completion) = engine.next_sent() {
            operations.complete(completion.context);
        }
        while let Some(completion) = engine.next_received() {
            operations.complete(completion.context);
        }
    }
}

fn link(choices: &mut Choices<'_>) -> LinkId {
    LinkId(choices.below(PEERS).into())
}

/// Lets a peer receive all waiting messages.
fn receive_all(choices: &mut Choices<'_>, wire: &RefCell<Wire>) {
    if let Some((_, unreceived)) = wire.borrow_mut().sent.get_mut(&link(choices)) {
        *unreceived = 0;
    }
}

/// Sends a piece of the input as a message of a peer. In an answer one word is copied from an earlier message
/// of the endpoint, so that it can name the endpoint's operations.
fn send_as_peer(choices: &mut Choices<'_>, wire: &RefCell<Wire>, answer: bool) {
    let link = link(choices);
    let mut chosen = |limit: u8| if answer { choices.below(limit) } else { 0 };
    let (to, back, from) = (chosen(5), chosen(REMEMBERED), chosen(5));
    let mut bytes = choices.piece().to_vec();
    let wire = &mut *wire.borrow_mut();
    let word = |at: u8| 8 * usize::from(at)..8 * usize::from(at) + 8;
    if answer
        && let Some(target) = bytes.get_mut(word(to))
        && let Some((sent, _)) = wire.sent.get(&link)
        && let Some(source) = sent.get(usize::from(back)).and_then(|sent| sent.get(word(from)))
    {
        target.copy_from_slice(source);
    }
    wire.incoming.entry(link).or_default().push_back(bytes);
}

/// Performs an operation of the program.
fn use_endpoint(
    choices: &mut Choices<'_>,
    engine: &mut Engine<Ends, Buffer>,
    operations: &mut OpenOperations,
) {
    const LENGTHS: [usize; 4] = [3, 2000, 9000, 70_000];
    let what = choices.below(7);
    let to = u64::from(choices.below(PEERS));
    let memory = Buffer::new(LENGTHS[usize::from(choices.below(4))]);
    let options = choices.byte();
    let option = |bit: u8| options >> bit & 1 == 1;
    let (tagged, context) = (option(0), operations.next());
    let result = match what {
        0 | 1 => engine.receive(Receive {
            from: if option(1) { NO_ADDRESS } else { to },
            tag: tagged.then_some((5, 1)),
            memory,
            context,
            report: true,
            multi: !tagged && option(2) && operations.multi.insert(context),
            claimed: tagged && option(3),
        }),
        2 => engine.send(Send {
            to,
            tag: tagged.then_some(5),
            data: option(1).then_some(9),
            memory,
            context,
            report: true,
            inject: false,
            delivery: option(2),
        }),
        3 => engine.write(Write {
            to,
            key: KEY,
            address: BASE,
            data: option(1).then_some(9),
            memory,
            context,
            report: true,
            inject: false,
        }),
        4 => engine.read(Read { from: to, key: KEY, address: BASE, memory, context, report: true }),
        5 => {
            let (claim, discard) = (option(1), option(2));
            engine.peek(Peek { from: NO_ADDRESS, tag: 5, ignore: 1, context, claim, discard });
            Ok(())
        }
        _ => engine.atomic(Atomic {
            to,
            key: KEY,
            address: BASE,
            op: AtomicOp::Sum,
            datatype: Datatype::U64,
            count: 1,
            operands: [1; 8].into(),
            compares: None,
            result: option(1).then(|| Buffer::new(8)),
            context,
            report: true,
        }),
    };
    if result.is_err() {
        operations.complete(context);
    }
}

pub(super) fn endpoint_seeds() -> Vec<Vec<u8>> {
    let message = |head: u64, words: &[u64], rest: &[u8]| {
        let words = std::iter::once(&head).chain(words).flat_map(|word| word.to_le_bytes());
        words.chain(rest.iter().copied()).collect::<Vec<u8>>()
    };
    let piece = |bytes: Vec<u8>| [&(bytes.len() as u16).to_le_bytes()[..], &bytes].concat();
    let head =
        |kind: u64, flags: u64, small: u64, length: u64| kind | flags << 8 | small << 16 | length << 32;
    let says = |bytes: Vec<u8>| [vec![1, 0], piece(bytes)].concat();
    // The first word after the head names an operation. It is copied from word `from` of the message `back`
    // messages ago.
    let answers = |back: u8, from: u8, bytes: Vec<u8>| [vec![2, 0, 1, back, from], piece(bytes)].concat();
    let does = |what: u8, length: u8, options: u8| vec![4, what, 0, length, options];
    let eager = message(head(2, 1, 0, 3), &[5], b"abc");
    let wanted = message(head(2, 5, 0, 3), &[5, 77], b"abc");
    let offered = message(head(4, 1, 0, 0), &[5, 88, 8], b"");
    let written = message(head(13, 8, 0, 2), &[KEY, BASE + 3, 99], b"xy");
    let asked = message(head(15, 0, 0, 0), &[KEY, BASE, 98, 16], b"");
    let staged = message(head(11, 0, CHUNKS.into(), 0), &[6, CHUNK_BYTES.into()], b"");
    let by_chunk = message(head(3, 1, 1, 3000), &[5], b"");
    let (listens, done) = (vec![0, 0], message(head(9, 0, 0, 0), &[0], b""));
    let reachable = message(head(18, 0, 7, 0), &[KEY, 3, 4096, 0, BASE, 64], b"");
    let data = |bytes: &[u8]| message(head(6, 0, 0, bytes.len() as u64), &[0, 0], bytes);
    let seeds: [&[Vec<u8>]; 8] = [
        // Expected and unexpected messages; one is claimed.
        &[does(0, 0, 1), says(eager), says(wanted), does(5, 0, 2), does(0, 1, 1 | 8), does(0, 1, 1)],
        // An offered message, and its bytes.
        &[does(0, 2, 1), says(offered), answers(0, 2, data(b"12345678"))],
        // A message offered by this side with its chunks, which the peer requests completely.
        &[
            does(2, 3, 1),
            says(message(head(12, 0, 1, 0), &[], b"")),
            answers(1, 2, message(head(5, 0, 0, 0), &[0, 41, 70_000], b"")),
            says(message(head(8, 0, 0, 0), &[], b"")),
            says(message(head(8, 0, 1, 0), &[], b"")),
            listens.clone(),
        ],
        // Remote memory, from both sides. With its first access the endpoint also asks whether it can reach
        // the memory directly, so the request is one message back.
        &[says(written), says(asked), does(3, 0, 0), answers(1, 3, done.clone())],
        &[does(4, 0, 0), answers(1, 3, data(b"abc")), does(6, 0, 2), answers(0, 3, data(b"12345678"))],
        &[does(3, 0, 0), answers(1, 3, done), says(reachable), listens.clone(), does(3, 0, 0), does(4, 0, 0)],
        // Chunks of the peer, and a multi-receive buffer.
        &[
            says(staged),
            says(by_chunk),
            does(0, 3, 4),
            says(message(head(2, 0, 0, 3), &[], b"abc")),
            does(0, 2, 1),
        ],
        // Credit for sent messages, and a request to reach memory directly.
        &[
            does(2, 0, 1),
            says(message(head(10, 0, 0, 0), &[3, 1], b"")),
            says(message(head(17, 0, 0, 0), &[KEY], b"")),
        ],
    ];
    seeds.into_iter().map(<[Vec<u8>]>::concat).collect()
}
