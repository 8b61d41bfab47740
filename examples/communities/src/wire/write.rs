//! Encoding of messages.

use super::{
    ARRIVED, Array, ENTER, FINISH, FOUND, GIVE_UP, GRAPH, HAS_ARRIVED, HELLO, MOVES, PIECE, REFINE, SUMMARY,
    Shape, Summary, TEXT_BYTES_MAX, VERSION, WORK,
};
use crate::search::Move;

/// Encoder of one message.
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn new(kind: u8) -> Self {
        Self { bytes: vec![kind] }
    }

    fn u8(mut self, value: u8) -> Self {
        self.bytes.push(value);
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn text(mut self, text: &str) -> Self {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes.push(end as u8);
        self.bytes.extend_from_slice(&text.as_bytes()[..end]);
        self
    }

    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn moves(mut self, moves: &[Move]) -> Vec<u8> {
        self = self.u32(moves.len() as u32);
        let mut next = 0;
        for &Move { vertex, label } in moves {
            self.varint(vertex - next);
            self.varint(label);
            next = vertex + 1;
        }
        self.bytes
    }
}

/// Encodes `Order::Graph`.
#[must_use]
pub fn graph(shape: Shape) -> Vec<u8> {
    let writer = Writer::new(GRAPH).u8(shape.depth).u32(shape.vertices).u32(shape.arcs);
    writer.u8(shape.weight_bytes).u8(u8::from(shape.loops)).bytes
}

/// Encodes `Order::Piece` with 32-bit elements.
#[must_use]
pub fn piece_u32(array: Array, first: u32, elements: &[u32]) -> Vec<u8> {
    let mut bytes = Writer::new(PIECE).u8(array as u8).u32(first).bytes;
    bytes.reserve(elements.len() * 4);
    bytes.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    bytes
}

/// Encodes `Order::Piece` with 64-bit elements.
#[must_use]
pub fn piece_u64(array: Array, first: u32, elements: &[u64]) -> Vec<u8> {
    let mut bytes = Writer::new(PIECE).u8(array as u8).u32(first).bytes;
    bytes.reserve(elements.len() * 8);
    bytes.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    bytes
}

/// Encodes `Order::Enter`.
#[must_use]
pub fn enter(depth: u8, singletons: bool) -> Vec<u8> {
    Writer::new(ENTER).u8(depth).u8(u8::from(singletons)).bytes
}

/// Encodes `Order::Work`. `vertices` must ascend.
#[must_use]
pub fn work(part: u32, vertices: &[u32]) -> Vec<u8> {
    let mut writer = Writer::new(WORK).u32(part).u32(vertices.len() as u32);
    let mut next = 0;
    for &vertex in vertices {
        writer.varint(vertex - next);
        next = vertex + 1;
    }
    writer.bytes
}

/// Encodes `Order::Moves`. The vertices of `moves` must ascend.
#[must_use]
pub fn moves(moves: &[Move]) -> Vec<u8> {
    Writer::new(MOVES).moves(moves)
}

/// Encodes `Order::Finish`.
#[must_use]
pub fn finish() -> Vec<u8> {
    Writer::new(FINISH).bytes
}

/// Encodes `Order::HasArrived`.
#[must_use]
pub fn has_arrived() -> Vec<u8> {
    Writer::new(HAS_ARRIVED).bytes
}

/// Encodes `Order::Refine`.
#[must_use]
pub fn refine() -> Vec<u8> {
    Writer::new(REFINE).bytes
}

/// Encodes `Answer::Arrived`.
#[must_use]
pub fn arrived() -> Vec<u8> {
    Writer::new(ARRIVED).bytes
}

/// Encodes `Answer::Hello`.
#[must_use]
pub fn hello(number: u32, isa: &str) -> Vec<u8> {
    Writer::new(HELLO).u32(VERSION).u32(number).text(isa).bytes
}

/// Encodes `Answer::Found`. The vertices of `moves` must ascend.
#[must_use]
pub fn found(part: u32, arcs: u64, compute_ns: u64, moves: &[Move]) -> Vec<u8> {
    Writer::new(FOUND).u32(part).u64(arcs).u64(compute_ns).moves(moves)
}

/// Encodes `Answer::Summary`.
#[must_use]
pub fn summary(summary: Summary) -> Vec<u8> {
    Writer::new(SUMMARY).u64(summary.compute_ns).u64(summary.wait_ns).u64(summary.memory_bytes).bytes
}

/// Encodes `Answer::GiveUp`; a long reason is truncated.
#[must_use]
pub fn give_up(why: &str) -> Vec<u8> {
    Writer::new(GIVE_UP).text(why).bytes
}
