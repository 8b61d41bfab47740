//! What the encodings of all messages are, as one number that is computed when this is compiled.
//!
//! Whoever sends and whoever receives must have been compiled from the same table of messages. Each type of it has a
//! shape: a hash of its name and of the names, tags and shapes of what it holds. So a field that is added, moved, renamed
//! or of another type shows without anybody's having to raise a number.

use tombolo_base::hash::fnv1a;

use crate::wire::Wire;

/// The shape of a word.
pub(crate) const fn text(word: &str) -> u64 {
    fnv1a(word.as_bytes())
}

/// A shape, and what follows.
pub(crate) const fn with(shape: u64, next: u64) -> u64 {
    let (a, b) = (shape.to_le_bytes(), next.to_le_bytes());
    fnv1a(&[a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
}

/// The shape of what `_get` has a part of: so that the type of a part need not be said where it is named.
pub(crate) const fn part<S, T: Wire>(name: &str, _get: fn(&S) -> &T) -> u64 {
    with(text(name), T::SHAPE)
}

/// 32 bits of several shapes.
pub(crate) const fn fold(shapes: &[u64]) -> u32 {
    let (mut all, mut index) = (0, 0);
    while index < shapes.len() {
        all = with(all, shapes[index]);
        index += 1;
    }
    (all ^ (all >> 32)) as u32
}
