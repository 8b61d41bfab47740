//! Slab with generational ids, which can be sent to peers: the id of a removed entry is never valid again.

/// A slab of values under generational ids.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                // Memory runs out long before 2^32 entries.
                let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
                self.slots.push((1, None));
                index
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.1 = Some(value);
        u64::from(slot.0) << 32 | u64::from(index)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut((id & 0xffff_ffff) as usize)?;
        if u64::from(slot.0) == id >> 32 { slot.1.as_mut() } else { None }
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let index = id as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if u64::from(slot.0) != id >> 32 {
            return None;
        }
        let value = slot.1.take()?;
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the ids of all values for which `predicate` is true.
    pub(crate) fn ids(&self, predicate: impl Fn(&T) -> bool) -> Vec<u64> {
        let matching_id = |(index, (generation, value)): (usize, &(u32, Option<T>))| {
            value.as_ref().filter(|value| predicate(value))?;
            Some(u64::from(*generation) << 32 | index as u64)
        };
        self.slots.iter().enumerate().filter_map(matching_id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_removed_entry_is_invalid() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        assert_eq!(slab.get_mut(first), Some(&mut 'a'));
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_ne!(first, second);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.ids(|value| *value == 'b'), [second]);
        assert_eq!((slab.len(), slab.remove(second | 7)), (1, None));
    }
}
