//! Slab whose tokens are never reused.

use std::fmt;

/// Identifier of a member of a waitset. The token of a removed member stays invalid, even if its slot is
/// reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Token {
    pub(super) const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Token { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}.{})", self.index, self.generation)
    }
}

/// Slots, each with the number of times it was used.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    taken: usize,
}

/// Highest index, which no slot has, so that keys with it can have other meanings.
pub(super) const NO_INDEX: u32 = u32::MAX;

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { places: Vec::new(), free: Vec::new(), taken: 0 }
    }

    /// Returns the token that [`insert`](Self::insert) is going to return.
    pub(super) fn next_token(&self) -> Option<Token> {
        match self.free.last() {
            Some(&index) => Some(Token { index, generation: self.places[index as usize].0 }),
            None => {
                let index = u32::try_from(self.places.len()).ok().filter(|index| *index < NO_INDEX)?;
                Some(Token { index, generation: 0 })
            }
        }
    }

    /// Inserts a value. Returns `None` if all slots are in use.
    pub(super) fn insert(&mut self, value: T) -> Option<Token> {
        let token = self.next_token()?;
        match self.free.pop() {
            Some(index) => self.places[index as usize].1 = Some(value),
            None => self.places.push((0, Some(value))),
        }
        self.taken += 1;
        Some(token)
    }

    #[inline]
    pub(super) fn get(&self, token: Token) -> Option<&T> {
        match self.places.get(token.index as usize) {
            Some((generation, Some(value))) if *generation == token.generation => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        match self.places.get_mut(token.index as usize) {
            Some((generation, Some(value))) if *generation == token.generation => Some(value),
            _ => None,
        }
    }

    /// Returns two values at once, or `None` if they are the same or one is missing.
    pub(super) fn get_two_mut(&mut self, tokens: [Token; 2]) -> Option<[&mut T; 2]> {
        let places = self.places.get_disjoint_mut(tokens.map(|token| token.index as usize)).ok()?;
        let [first, second] = places;
        match (first, second) {
            ((generation, Some(first)), (other, Some(second)))
                if *generation == tokens[0].generation && *other == tokens[1].generation =>
            {
                Some([first, second])
            }
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<T> {
        self.get(token)?;
        let (generation, place) = &mut self.places[token.index as usize];
        let value = place.take();
        self.taken -= 1;
        // A slot whose generation counter is exhausted is not reused.
        if let Some(next) = generation.checked_add(1) {
            *generation = next;
            self.free.push(token.index);
        }
        value
    }

    pub(super) fn len(&self) -> usize {
        self.taken
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = Token> {
        (0..)
            .zip(&self.places)
            .filter(|(_, (_, place))| place.is_some())
            .map(|(index, (generation, _))| Token { index, generation: *generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_valid_until_removed_and_not_reused() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a').unwrap(), slab.insert('b').unwrap());
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (Some(&'a'), Some(&'b'), 2));
        assert_eq!((slab.remove(a), slab.remove(a), slab.get(a)), (Some('a'), None, None));
        let c = slab.insert('c').unwrap();
        assert_eq!(c.index, a.index);
        assert_eq!(slab.get_mut(a), None);
        assert_eq!((slab.get(a), slab.get(c)), (None, Some(&'c')));
        assert_eq!(slab.get_two_mut([b, c]), Some([&mut 'b', &mut 'c']));
        for not_two in [[a, b], [b, a], [c, a], [b, b]] {
            assert_eq!(slab.get_two_mut(not_two), None);
        }
        assert_eq!(slab.tokens().collect::<Vec<_>>(), [c, b]);
        assert_eq!(Token::from_bits(c.to_bits()), c);
    }

    #[test]
    fn an_exhausted_place_is_not_reused() {
        let mut slab = Slab::new();
        let token = slab.insert(1).unwrap();
        slab.places[0].0 = u32::MAX;
        let last = Token { generation: u32::MAX, ..token };
        assert_eq!(slab.remove(last), Some(1));
        assert_eq!(slab.insert(2).unwrap().index, 1);
        assert_eq!(slab.get(last), None);
    }
}
