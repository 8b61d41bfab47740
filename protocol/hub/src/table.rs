//! Tables of hubs, in the server's own memory. With `--cfg sim` they count the operations on them, so that
//! the [bounds](crate::bound) can be checked.

use alloc::collections::{BTreeMap, BTreeSet};
use core::borrow::Borrow;

/// Counts a look-up, or a visit to one entry.
#[inline]
pub(crate) fn count_lookup() {
    #[cfg(any(sim, loom))]
    tombolo_base::steps::count(|steps| &mut steps.loads);
}

/// Counts an insertion or a removal.
#[inline]
pub(crate) fn count_update() {
    #[cfg(any(sim, loom))]
    tombolo_base::steps::count(|steps| &mut steps.stores);
}

/// Map in the order of its keys.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Table<K, V>(BTreeMap<K, V>);

impl<K: Ord, V> Default for Table<K, V> {
    fn default() -> Self {
        Table(BTreeMap::new())
    }
}

impl<K: Ord, V> Table<K, V> {
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        count_lookup();
        self.0.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        count_lookup();
        self.0.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        count_update();
        self.0.insert(key, value);
    }

    pub(crate) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        count_update();
        self.0.entry(key).or_default()
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        count_update();
        self.0.remove(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Visits the entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().inspect(|_| count_lookup())
    }
}

/// Ordered set of items.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ordered<T>(BTreeSet<T>);

impl<T: Ord> Default for Ordered<T> {
    fn default() -> Self {
        Ordered(BTreeSet::new())
    }
}

impl<T: Ord> Ordered<T> {
    pub(crate) fn first(&self) -> Option<&T> {
        count_lookup();
        self.0.first()
    }

    pub(crate) fn pop_first(&mut self) -> Option<T> {
        count_update();
        self.0.pop_first()
    }

    pub(crate) fn insert(&mut self, item: T) {
        count_update();
        self.0.insert(item);
    }

    pub(crate) fn remove(&mut self, item: &T) -> bool {
        count_update();
        self.0.remove(item)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Visits the items in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().inspect(|_| count_lookup())
    }
}
