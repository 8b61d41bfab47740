//! Decoding of messages. Every length is bounded by the received bytes.

use super::{
    ARRIVED, Answer, Array, ENTER, FINISH, FOUND, GIVE_UP, GRAPH, HAS_ARRIVED, HELLO, MOVES, Order, PIECE,
    Packed, REFINE, SUMMARY, Shape, Summary, TEXT_BYTES_MAX, VARINT_BYTES_MAX, WORK, WireError,
};
use crate::search::Move;

/// Decodes an order of the master.
///
/// # Errors
/// The bytes are not an order.
pub fn read_order(bytes: &[u8]) -> Result<Order<'_>, WireError> {
    let mut reader = Reader { bytes };
    let order = match reader.u8("kind")? {
        GRAPH => Order::Graph(Shape {
            depth: reader.u8("depth")?,
            vertices: reader.u32("vertices")?,
            arcs: reader.u32("arcs")?,
            weight_bytes: match reader.u8("weights")? {
                width @ (0 | 4 | 8) => width,
                _ => return Err(WireError::Impossible("width of weights")),
            },
            loops: reader.flag("self-loops")?,
        }),
        PIECE => Order::Piece {
            array: Array::from_byte(reader.u8("array")?)?,
            first: reader.u32("index")?,
            elements: reader.rest(),
        },
        ENTER => Order::Enter { depth: reader.u8("depth")?, singletons: reader.flag("singletons")? },
        WORK => Order::Work { part: reader.u32("part")?, vertices: reader.packed()? },
        MOVES => Order::Moves(reader.packed()?),
        FINISH => Order::Finish,
        HAS_ARRIVED => Order::HasArrived,
        REFINE => Order::Refine,
        kind => return Err(WireError::UnknownKind(kind)),
    };
    reader.end()?;
    Ok(order)
}

/// Decodes an answer of a worker.
///
/// # Errors
/// The bytes are not an answer.
pub fn read_answer(bytes: &[u8]) -> Result<Answer<'_>, WireError> {
    let mut reader = Reader { bytes };
    let answer = match reader.u8("kind")? {
        HELLO => Answer::Hello {
            version: reader.u32("version")?,
            number: reader.u32("number")?,
            isa: reader.text()?,
        },
        FOUND => Answer::Found {
            part: reader.u32("part")?,
            arcs: reader.u64("arcs")?,
            compute_ns: reader.u64("time")?,
            moves: reader.packed()?,
        },
        SUMMARY => Answer::Summary(Summary {
            compute_ns: reader.u64("time")?,
            wait_ns: reader.u64("time")?,
            memory_bytes: reader.u64("memory")?,
        }),
        GIVE_UP => Answer::GiveUp(reader.text()?),
        ARRIVED => Answer::Arrived,
        kind => return Err(WireError::UnknownKind(kind)),
    };
    reader.end()?;
    Ok(answer)
}

impl Packed<'_> {
    /// Decodes the list and appends its vertices, which ascend and are below `limit`.
    ///
    /// # Errors
    /// The bytes are not a valid list.
    pub fn vertices(&self, limit: u32, vertices: &mut Vec<u32>) -> Result<(), WireError> {
        let mut reader = Reader { bytes: self.bytes };
        let mut next = 0u32;
        for _ in 0..self.count {
            let vertex = reader.vertex(next, limit)?;
            vertices.push(vertex);
            next = vertex + 1;
        }
        reader.end()
    }

    /// Decodes the list and appends its moves, whose vertices ascend and are below `limit`, as are the
    /// labels.
    ///
    /// # Errors
    /// The bytes are not a valid list.
    pub fn moves(&self, limit: u32, moves: &mut Vec<Move>) -> Result<(), WireError> {
        let mut reader = Reader { bytes: self.bytes };
        let mut next = 0u32;
        for _ in 0..self.count {
            let vertex = reader.vertex(next, limit)?;
            let label = reader.varint()?;
            if label >= limit {
                return Err(WireError::Impossible("label"));
            }
            moves.push(Move { vertex, label });
            next = vertex + 1;
        }
        reader.end()
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(WireError::Truncated(field))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        Ok(self.take(1, field)?[0])
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        let mut value = [0; 4];
        value.copy_from_slice(self.take(4, field)?);
        Ok(u32::from_le_bytes(value))
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        let mut value = [0; 8];
        value.copy_from_slice(self.take(8, field)?);
        Ok(u64::from_le_bytes(value))
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, WireError> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Impossible(field)),
        }
    }

    fn text(&mut self) -> Result<&'a str, WireError> {
        let length = usize::from(self.u8("text")?);
        if length > TEXT_BYTES_MAX {
            return Err(WireError::Impossible("length of a text"));
        }
        std::str::from_utf8(self.take(length, "text")?).map_err(|_| WireError::Impossible("text"))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn packed(&mut self) -> Result<Packed<'a>, WireError> {
        let count = self.u32("count")?;
        let bytes = self.rest();
        // Every element takes at least one byte, so a count cannot cause a larger allocation than was sent.
        if count as usize > bytes.len() {
            return Err(WireError::Truncated("list"));
        }
        Ok(Packed { count, bytes })
    }

    fn varint(&mut self) -> Result<u32, WireError> {
        let mut value = 0u64;
        for index in 0..VARINT_BYTES_MAX {
            let byte = self.u8("number")?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| WireError::Impossible("number"));
            }
        }
        Err(WireError::Impossible("number"))
    }

    /// Decodes a vertex given as the gap from `next`.
    fn vertex(&mut self, next: u32, limit: u32) -> Result<u32, WireError> {
        let vertex = next.checked_add(self.varint()?);
        vertex.filter(|&vertex| vertex < limit).ok_or(WireError::Impossible("vertex"))
    }

    fn end(&self) -> Result<(), WireError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(WireError::Trailing(self.bytes.len())) }
    }
}
