//! The messages between master and workers: fixed-width little-endian fields, and for lists of vertices the
//! gaps between them as variable-length numbers. Everything received is validated, as peers are not trusted.
//!
//! | first byte | from | message | fields |
//! |---|---|---|---|
//! | 1 | master | a graph of some depth follows | depth u8, vertices u32, arcs u32, bytes per weight u8 (0:
//! all are 1), self-loops u8 (0 or 1) |
//! | 2 | master | a piece of an array | which u8, first index u32, elements |
//! | 3 | master | search the graph of that depth | depth u8, singletons u8 (0: an array of labels follows) |
//! | 4 | master | find the best moves of these | part u32, count u32, ascending vertices |
//! | 5 | master | these moves are made | count u32, moves in ascending order of vertices |
//! | 6 | master | the search is over | – |
//! | 7 | master | has everything before this arrived? | – |
//! | 8 | master | labels become bounds, and every vertex starts by itself within them | – |
//! | 129 | worker | here I am | version u32, number u32, instruction set (text) |
//! | 130 | worker | best moves of a part | part u32, arcs u64, compute_ns u64, count u32, moves |
//! | 131 | worker | what I did | compute_ns u64, wait_ns u64, memory_bytes u64 |
//! | 132 | worker | I give up | why (text) |
//! | 133 | worker | everything has arrived | – |
//!
//! A message that begins with 0 is of the channel itself ([`crate::launch`]).

mod read;
mod write;

pub use read::{read_answer, read_order};
pub use write::{
    arrived, enter, finish, found, give_up, graph, has_arrived, hello, moves, piece_u32, piece_u64, refine,
    summary, work,
};

/// Version of these messages; both sides must have the same.
pub const VERSION: u32 = 3;

/// Returns the maximum length of a message with `count` moves, in bytes.
#[must_use]
pub const fn moves_bytes_max(count: usize) -> usize {
    FIXED_BYTES_MAX + count * 2 * VARINT_BYTES_MAX
}

/// Maximum length of the fixed fields of any message, in bytes.
pub const FIXED_BYTES_MAX: usize = 32;

/// Maximum length of a variable-length 32-bit number, in bytes.
pub const VARINT_BYTES_MAX: usize = 5;

/// Maximum length of text in a message, in bytes.
pub const TEXT_BYTES_MAX: usize = 200;

const GRAPH: u8 = 1;
const PIECE: u8 = 2;
const ENTER: u8 = 3;
const WORK: u8 = 4;
const MOVES: u8 = 5;
const FINISH: u8 = 6;
const HAS_ARRIVED: u8 = 7;
const REFINE: u8 = 8;
const HELLO: u8 = 129;
const FOUND: u8 = 130;
const SUMMARY: u8 = 131;
const GIVE_UP: u8 = 132;
const ARRIVED: u8 = 133;

/// Reason why bytes are not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The message ends too early.
    #[error("a message ends within its {0}")]
    Truncated(&'static str),
    /// The message continues after its last field.
    #[error("a message has {0} bytes too many")]
    Trailing(usize),
    /// The first byte is unknown.
    #[error("a message of unknown kind {0}")]
    UnknownKind(u8),
    /// A field has an invalid value.
    #[error("a message with an impossible {0}")]
    Impossible(&'static str),
}

/// Array that is sent in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array {
    /// Start of each vertex's arcs, u32.
    Offsets = 0,
    /// Target of each arc, u32.
    Targets = 1,
    /// Weights of arcs, u32 or u64.
    Weights = 2,
    /// Weights of the self-loops, u64.
    Loops = 3,
    /// Labels to start from, u32.
    Labels = 4,
}

impl Array {
    fn from_byte(byte: u8) -> Result<Self, WireError> {
        Ok(match byte {
            0 => Array::Offsets,
            1 => Array::Targets,
            2 => Array::Weights,
            3 => Array::Loops,
            4 => Array::Labels,
            _ => return Err(WireError::Impossible("array")),
        })
    }
}

/// Shape of a graph whose arrays follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of contractions.
    pub depth: u8,
    /// Number of vertices.
    pub vertices: u32,
    /// Number of arcs.
    pub arcs: u32,
    /// Bytes of each weight, 0, 4 or 8; 0 means that all weigh 1.
    pub weight_bytes: u8,
    /// Whether there are self-loops.
    pub loops: bool,
}

/// Message from the master, with lists still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order<'a> {
    /// A graph follows.
    Graph(Shape),
    /// A piece of an array follows from index `first` on.
    Piece {
        /// The array.
        array: Array,
        /// Index of its first element.
        first: u32,
        /// The elements, little-endian.
        elements: &'a [u8],
    },
    /// Search the graph of this depth.
    Enter {
        /// Depth of the graph.
        depth: u8,
        /// Whether every vertex starts alone; otherwise labels follow.
        singletons: bool,
    },
    /// Find best moves.
    Work {
        /// Number of the part, to be repeated in the answer.
        part: u32,
        /// The vertices.
        vertices: Packed<'a>,
    },
    /// Moves to apply.
    Moves(Packed<'a>),
    /// The search has ended.
    Finish,
    /// Request to confirm that everything before this has arrived.
    HasArrived,
    /// Divide the communities of the current graph: they become bounds, and every vertex starts alone within
    /// them.
    Refine,
}

/// Message from a worker, with lists still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The worker is ready.
    Hello {
        /// Protocol version of the worker.
        version: u32,
        /// The number of the worker.
        number: u32,
        /// Its instruction set.
        isa: &'a str,
    },
    /// The best moves of a part.
    Found {
        /// Number of the part.
        part: u32,
        /// Number of arcs examined.
        arcs: u64,
        /// Time it took, in nanoseconds.
        compute_ns: u64,
        /// The moves.
        moves: Packed<'a>,
    },
    /// Summary of the worker's work.
    Summary(Summary),
    /// The worker gives up.
    GiveUp(&'a str),
    /// Everything that was sent has arrived.
    Arrived,
}

/// Work of a worker in the whole search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Time spent finding moves, in nanoseconds.
    pub compute_ns: u64,
    /// Time spent waiting for messages, in nanoseconds.
    pub wait_ns: u64,
    /// Peak memory of its graphs and labels, in bytes.
    pub memory_bytes: u64,
}

/// Encoded list of vertices or moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    count: u32,
    bytes: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Move;

    #[test]
    fn golden_bytes() {
        let list = [Move { vertex: 1, label: 300 }, Move { vertex: 200, label: 0 }];
        assert_eq!(moves(&list), [5, 2, 0, 0, 0, 1, 0xac, 2, 0xc6, 1, 0]);
        assert_eq!(work(7, &[0, 1, 130]), [4, 7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0x80, 1]);
        assert_eq!(piece_u32(Array::Labels, 1, &[0x0102_0304]), [2, 4, 1, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!(hello(3, "s390x"), [129, 3, 0, 0, 0, 3, 0, 0, 0, 5, b's', b'3', b'9', b'0', b'x']);
    }

    #[test]
    fn what_is_written_is_read() {
        let shape = Shape { depth: 2, vertices: 9, arcs: 4, weight_bytes: 8, loops: true };
        assert_eq!(read_order(&graph(shape)), Ok(Order::Graph(shape)));
        assert_eq!(read_order(&enter(1, false)), Ok(Order::Enter { depth: 1, singletons: false }));
        assert_eq!(read_order(&finish()), Ok(Order::Finish));
        assert_eq!(read_order(&has_arrived()), Ok(Order::HasArrived));
        assert_eq!(refine(), [8]);
        assert_eq!(read_order(&refine()), Ok(Order::Refine));
        assert_eq!(read_answer(&arrived()), Ok(Answer::Arrived));
        let done = Summary { compute_ns: 1, wait_ns: u64::MAX, memory_bytes: 3 };
        assert_eq!(read_answer(&summary(done)), Ok(Answer::Summary(done)));
        let long = "ü".repeat(TEXT_BYTES_MAX);
        assert!(
            matches!(read_answer(&give_up(&long)), Ok(Answer::GiveUp(text)) if text.len() == TEXT_BYTES_MAX)
        );

        let list = [Move { vertex: 0, label: 5 }, Move { vertex: 9, label: 9 }];
        let bytes = found(4, 5, 6, &list);
        let Ok(Answer::Found { part: 4, arcs: 5, compute_ns: 6, moves }) = read_answer(&bytes) else {
            panic!("no answer")
        };
        let mut back = Vec::new();
        moves.moves(10, &mut back).unwrap();
        assert_eq!(back, list);
        assert_eq!(moves.moves(9, &mut back), Err(WireError::Impossible("vertex")));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let order = |bytes: &[u8]| read_order(bytes).expect_err("refused");
        assert_eq!(order(&[]), WireError::Truncated("kind"));
        assert_eq!(order(&[77]), WireError::UnknownKind(77));
        assert_eq!(order(&[6, 0]), WireError::Trailing(1));
        assert_eq!(order(&[3, 0, 2]), WireError::Impossible("singletons"));
        assert_eq!(order(&[2, 5, 0, 0, 0, 0]), WireError::Impossible("array"));
        assert_eq!(order(&[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0]), WireError::Impossible("width of weights"));
        assert_eq!(order(&[4, 0, 0, 0, 0, 255, 255, 255, 255, 0]), WireError::Truncated("list"));
        let refused = |bytes: &[u8]| match read_order(bytes) {
            Ok(Order::Work { vertices, .. }) => vertices.vertices(100, &mut Vec::new()).expect_err("refused"),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(&[4, 0, 0, 0, 0, 1, 0, 0, 0, 100]), WireError::Impossible("vertex"));
        assert_eq!(refused(&[4, 0, 0, 0, 0, 1, 0, 0, 0, 0x80]), WireError::Truncated("number"));
        assert_eq!(
            refused(&[4, 0, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f]),
            WireError::Impossible("number")
        );
        assert_eq!(refused(&[4, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1]), WireError::Trailing(1));
    }
}
