//! Items that a hub holds.

use alloc::collections::VecDeque;

use crate::hubs::Client;
use crate::table::{Table, count_lookup, count_update};
use crate::{Bytes, Description, Kind};

/// Block of a pool; a resource has a single one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Block {
    pub(crate) number: u32,
    /// Whether its last holder ended without giving it back.
    pub(crate) abandoned: bool,
}

/// Holder of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Holding {
    pub(crate) client: Client,
    pub(crate) number: u32,
}

/// Item that is set aside for an offer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Item {
    /// Value, and its sequence number in sending order.
    Value(u64, Bytes),
    Unit,
    Block(Block),
}

/// Items of a hub. Items set aside are in none of the collections, but still count as occupied room.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Store {
    Values {
        items: VecDeque<(u64, Bytes)>,
        sent: u64,
        reserved: u32,
        capacity: u32,
    },
    Count {
        count: u32,
        reserved: u32,
        capacity: u32,
    },
    /// Held blocks by fencing token. Tokens increase, so that a later holder has a larger one.
    Blocks {
        free: VecDeque<Block>,
        held: Table<u64, Holding>,
        last_token: u64,
        reserved: u32,
    },
}

impl Store {
    pub(crate) fn new(description: &Description) -> Store {
        let Description { kind, capacity, initial, .. } = *description;
        match kind {
            Kind::Port | Kind::Fifo => {
                Store::Values { items: VecDeque::new(), sent: 0, reserved: 0, capacity }
            }
            Kind::Event | Kind::Semaphore => Store::Count { count: initial, reserved: 0, capacity },
            Kind::Resource | Kind::Pool => Store::Blocks {
                free: (0..capacity).map(|number| Block { number, abandoned: false }).collect(),
                held: Table::default(),
                last_token: 0,
                reserved: 0,
            },
        }
    }

    /// Returns the number of items that can be taken.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Store::Values { items, .. } => items.len(),
            Store::Count { count, .. } => *count as usize,
            Store::Blocks { free, .. } => free.len(),
        }
    }

    /// Whether its items are only counted.
    pub(crate) fn is_count(&self) -> bool {
        matches!(self, Store::Count { .. })
    }

    /// Sets the count, if its items are counted.
    pub(crate) fn set_count(&mut self, new: u32) {
        if let Store::Count { count, capacity, .. } = self {
            *count = new.min(*capacity);
        }
    }

    /// Returns the number of items or places that are set aside for offers.
    pub(crate) fn reserved(&self) -> u32 {
        match self {
            Store::Values { reserved, .. }
            | Store::Count { reserved, .. }
            | Store::Blocks { reserved, .. } => *reserved,
        }
    }

    fn reserved_mut(&mut self) -> &mut u32 {
        match self {
            Store::Values { reserved, .. }
            | Store::Count { reserved, .. }
            | Store::Blocks { reserved, .. } => reserved,
        }
    }

    /// Whether an item can be put in. Blocks come back by [`give_back`](Self::give_back) instead.
    pub(crate) fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Returns the number of items that can be put in.
    pub(crate) fn room(&self) -> u32 {
        match self {
            Store::Values { items, reserved, capacity, .. } => {
                let taken = u32::try_from(items.len()).unwrap_or(u32::MAX).saturating_add(*reserved);
                capacity.saturating_sub(taken)
            }
            Store::Count { count, reserved, capacity } => {
                capacity.saturating_sub(count.saturating_add(*reserved))
            }
            Store::Blocks { .. } => 0,
        }
    }

    /// Puts an item in. The caller has checked for room, or has a place set aside.
    pub(crate) fn put(&mut self, value: Bytes) {
        count_update();
        match self {
            Store::Values { items, sent, .. } => {
                *sent += 1;
                items.push_back((*sent, value));
            }
            Store::Count { count, .. } => *count = count.saturating_add(1),
            Store::Blocks { .. } => {}
        }
    }

    /// Returns the first value, if the items are values and there is one.
    pub(crate) fn first_value(&self) -> Option<&[u8]> {
        count_lookup();
        match self {
            Store::Values { items, .. } => items.front().map(|(_, value)| &**value),
            _ => None,
        }
    }

    /// Takes the first item.
    pub(crate) fn take(&mut self) -> Option<Item> {
        count_update();
        match self {
            Store::Values { items, .. } => {
                items.pop_front().map(|(number, value)| Item::Value(number, value))
            }
            Store::Count { count, .. } => {
                *count = count.checked_sub(1)?;
                Some(Item::Unit)
            }
            Store::Blocks { free, .. } => free.pop_front().map(Item::Block),
        }
    }

    /// Reserves a place for an offer: for an item that was taken and may come back, or for one to be put in.
    pub(crate) fn reserve_place(&mut self) {
        *self.reserved_mut() += 1;
    }

    /// Releases a place reserved by [`reserve_place`](Self::reserve_place).
    pub(crate) fn release_place(&mut self) {
        let reserved = self.reserved_mut();
        *reserved = reserved.saturating_sub(1);
    }

    /// Returns an item that an offer did not use to its original position.
    pub(crate) fn restore(&mut self, item: Item) {
        count_update();
        match (self, item) {
            (Store::Values { items, .. }, Item::Value(number, value)) => {
                let at = items.partition_point(|(earlier, _)| *earlier < number);
                let at = if tombolo_base::canary!("hub puts values back in the wrong order") {
                    items.len()
                } else {
                    at
                };
                // The items before it move: they were put back for offers that were made later.
                (0..at.min(items.len() - at)).for_each(|_| count_lookup());
                items.insert(at, (number, value));
            }
            (Store::Count { count, .. }, Item::Unit) => *count = count.saturating_add(1),
            (Store::Blocks { free, .. }, Item::Block(block)) => free.push_front(block),
            // Items return to the store that they were taken from.
            _ => {}
        }
    }

    /// Makes a client the holder of a block. Returns the fencing token.
    pub(crate) fn hold(&mut self, client: Client, block: Block) -> u64 {
        let Store::Blocks { held, last_token, .. } = self else { return 0 };
        *last_token += 1;
        held.insert(*last_token, Holding { client, number: block.number });
        *last_token
    }

    /// Frees a block, if this client holds it with this token.
    pub(crate) fn give_back(&mut self, client: Client, token: u64) -> bool {
        let Store::Blocks { held, free, .. } = self else { return false };
        let Some(holding) = held.get(&token).copied() else { return false };
        if holding.client != client && !tombolo_base::canary!("hub unlocks for any client") {
            return false;
        }
        held.remove(&token);
        count_update();
        free.push_back(Block { number: holding.number, abandoned: false });
        true
    }

    /// Frees everything that an ended client held. Returns whether it held anything.
    pub(crate) fn abandon(&mut self, client: Client) -> bool {
        let Store::Blocks { held, free, .. } = self else { return false };
        let tokens = held.iter().filter(|(_, holding)| holding.client == client).map(|(token, _)| *token);
        let tokens: alloc::vec::Vec<u64> = tokens.collect();
        for token in &tokens {
            if let Some(Holding { number, .. }) = held.remove(token) {
                count_update();
                free.push_back(Block { number, abandoned: true });
            }
        }
        !tokens.is_empty()
    }

    /// Returns the number of blocks that are held.
    pub(crate) fn held(&self) -> u32 {
        match self {
            Store::Blocks { held, .. } => u32::try_from(held.len()).unwrap_or(u32::MAX),
            _ => 0,
        }
    }

    /// Returns the holders of blocks, by fencing token.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (u64, Holding)> + '_ {
        let held = if let Store::Blocks { held, .. } = self { Some(held) } else { None };
        held.into_iter().flat_map(Table::iter).map(|(token, holding)| (*token, *holding))
    }
}
