//! Collectives of shared objects under a model checker, and the recovery of the surviving ranks after a
//! death.
//!
//! Ranks run barriers along the real tree. A rank whose channel ends notifies its neighbours and asks to
//! continue without the dead; rank 0 decides by the real rule. The checker explores every order of steps,
//! with deaths at every step. Each rank learns of a death independently, at any later time. The checker
//! verifies that barriers hold, that no living rank is left out, and in each final state that no rank waits
//! forever.

use std::collections::{BTreeMap, VecDeque};

use stateright::{Model, Property};
use tombolo_sharing::{Members, Rank, Ranks};

/// Configuration and bounds of a model.
#[derive(Clone, Debug)]
pub struct CollectiveModel {
    /// Number of ranks.
    pub ranks: u8,
    /// Number of barriers in the first tree; each later tree runs one more.
    pub barriers: u8,
    /// Number of ranks that may die.
    pub deaths: u8,
    /// Mistake that the checker must find, if any.
    pub mistake: CollectiveMistake,
}

/// Mistakes that an implementation could make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectiveMistake {
    /// None.
    None,
    /// A rank whose collective fails does not notify its neighbours.
    KeepsSilent,
    /// Rank 0 decides before all living ranks have asked.
    DoesNotWait,
    /// Rank 0 waits for the dead as well.
    WaitsForTheDead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Message {
    Value,
    Ended(Rank),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// In a barrier, after this number of sends and receives.
    Barrier(u8),
    /// Asks to continue, and waits for the decision.
    Asks,
    /// Opens the channels of the tree of the decision.
    Opens,
    /// Its program completed.
    Done,
    /// Gave up because rank 0 ended, and the memory with it.
    GaveUp,
    Dead,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RankState {
    phase: Phase,
    /// Number of barriers left in this tree.
    left: u8,
    /// Generation of its current tree.
    tree: u8,
    /// Members of its current tree.
    members: Members,
    /// Generation of the last decision that it adopted.
    taken: u8,
    /// Ranks that it knows to have ended.
    gone: Ranks,
}

/// All ranks, their channels, and the requests and decisions they exchange through names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CollectiveState {
    ranks: Vec<RankState>,
    /// Channels by generation, sender and receiver.
    channels: BTreeMap<(u8, u8, u8), VecDeque<Message>>,
    asked: BTreeMap<u8, Ranks>,
    decided: BTreeMap<u8, Members>,
    /// Ranks that opened their ends of the channels of a tree, by generation.
    opened: BTreeMap<u8, Ranks>,
    /// Ranks that dropped those ends again.
    dropped: BTreeMap<u8, Ranks>,
    /// Number of barriers begun, by generation and rank.
    begun: BTreeMap<(u8, u8), u8>,
    deaths: u8,
    broken: Option<&'static str>,
}

/// One step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectiveAction {
    /// A rank performs its next operation.
    Step(u8),
    /// A rank abandons opening channels after the end of a member, or asking after the end of rank 0.
    GivesUp(u8),
    /// A rank learns that another has ended.
    Learns(u8, u8),
    /// A rank dies.
    Die(u8),
}

impl CollectiveState {
    fn is_over(&self, rank: u8) -> bool {
        matches!(self.ranks[rank as usize].phase, Phase::Dead | Phase::Done | Phase::GaveUp)
    }

    /// Returns whether a rank has closed its ends of the channels of a tree.
    fn closed(&self, rank: u8, tree: u8) -> bool {
        let dropped = self.dropped.get(&tree).is_some_and(|ranks| ranks.contains(Rank(rank)));
        self.is_over(rank) || dropped || self.ranks[rank as usize].tree > tree
    }

    /// Returns one operation of a rank in a barrier: whether it sends, and the peer.
    fn operation(&self, rank: u8, number: u8) -> Option<(bool, Rank)> {
        let members = self.ranks[rank as usize].members;
        let children: Vec<Rank> = members.children(Rank(rank)).collect();
        let parent = members.parent(Rank(rank));
        let up = children.iter().map(|child| (false, *child)).chain(parent.map(|parent| (true, parent)));
        let down = parent.map(|parent| (false, parent)).into_iter();
        up.chain(down).chain(children.iter().rev().map(|child| (true, *child))).nth(number.into())
    }

    fn channel(&mut self, tree: u8, from: u8, to: u8) -> &mut VecDeque<Message> {
        self.channels.entry((tree, from, to)).or_default()
    }

    fn begin(&mut self, rank: u8) {
        let state = &mut self.ranks[rank as usize];
        state.phase = Phase::Barrier(0);
        *self.begun.entry((state.tree, rank)).or_default() += 1;
    }

    /// Performs the next send or receive of a barrier. Returns `None` if the rank must wait.
    fn barrier(&mut self, rank: u8, number: u8, mistake: CollectiveMistake) -> Option<()> {
        let tree = self.ranks[rank as usize].tree;
        let Some((sends, peer)) = self.operation(rank, number) else {
            self.end_barrier(rank);
            return Some(());
        };
        if sends && self.closed(peer.0, tree) {
            // The last message of an ended peer may name another rank.
            let last = self.channel(tree, peer.0, rank).iter().find_map(|message| match message {
                Message::Ended(who) => Some(*who),
                Message::Value => None,
            });
            self.fail(rank, last.unwrap_or(peer), mistake);
        } else if sends {
            self.channel(tree, rank, peer.0).push_back(Message::Value);
            self.ranks[rank as usize].phase = Phase::Barrier(number + 1);
        } else {
            match self.channel(tree, peer.0, rank).pop_front() {
                Some(Message::Value) => self.ranks[rank as usize].phase = Phase::Barrier(number + 1),
                Some(Message::Ended(who)) => self.fail(rank, who, mistake),
                None if self.closed(peer.0, tree) => self.fail(rank, peer, mistake),
                None => return None,
            }
        }
        Some(())
    }

    fn end_barrier(&mut self, rank: u8) {
        let RankState { tree, members, .. } = self.ranks[rank as usize];
        let begun = |rank: u8| self.begun.get(&(tree, rank)).copied().unwrap_or(0);
        if members.ranks().iter().any(|other| begun(other.0) < begun(rank)) {
            self.broken.get_or_insert("a barrier ended before all had begun it");
        }
        let state = &mut self.ranks[rank as usize];
        state.left -= 1;
        if state.left == 0 {
            state.phase = Phase::Done;
        } else {
            self.begin(rank);
        }
    }

    /// Handles a failed collective: notifies the neighbours, and asks to continue.
    fn fail(&mut self, rank: u8, who: Rank, mistake: CollectiveMistake) {
        let RankState { tree, members, .. } = self.ranks[rank as usize];
        if mistake != CollectiveMistake::KeepsSilent {
            for other in members.parent(Rank(rank)).into_iter().chain(members.children(Rank(rank))) {
                if !self.closed(other.0, tree) {
                    self.channel(tree, rank, other.0).push_back(Message::Ended(who));
                }
            }
        }
        self.asks(rank);
    }

    fn asks(&mut self, rank: u8) {
        let state = &mut self.ranks[rank as usize];
        state.phase = Phase::Asks;
        self.asked.entry(state.taken + 1).or_insert(Ranks::of(Rank(0))).add(Rank(rank));
    }

    fn decides(&mut self, mistake: CollectiveMistake) -> Option<()> {
        let state = &self.ranks[0];
        let generation = state.taken + 1;
        let before = self.decided.get(&state.taken).copied().unwrap_or(state.members);
        let asked = self.asked.get(&generation).copied().unwrap_or(Ranks::NONE);
        let members = match mistake {
            CollectiveMistake::DoesNotWait => Members::new(Ranks(before.ranks().0 & asked.0 & !state.gone.0)),
            CollectiveMistake::WaitsForTheDead => before.decide(Ranks::NONE, asked).ok()?,
            _ => before.decide(state.gone, asked).ok()?,
        };
        let left_out = |rank: Rank| !members.ranks().contains(rank) && !self.is_over(rank.0);
        if before.ranks().iter().any(left_out) {
            self.broken.get_or_insert("a rank that lives is left out");
        }
        self.decided.insert(generation, members);
        Some(())
    }

    /// Adopts the decision, if there is one, and opens the channels of the new tree.
    fn takes(&mut self, rank: u8, mistake: CollectiveMistake) -> Option<()> {
        let generation = self.ranks[rank as usize].taken + 1;
        if rank == 0 && !self.decided.contains_key(&generation) {
            self.decides(mistake)?;
        }
        self.decided.get(&generation)?;
        let state = &mut self.ranks[rank as usize];
        state.taken = generation;
        state.phase = Phase::Opens;
        self.opened.entry(generation).or_insert(Ranks::NONE).add(Rank(rank));
        Some(())
    }

    /// Starts the first barrier of a new tree once the neighbours have opened their channels.
    fn opens(&mut self, rank: u8) -> Option<()> {
        let generation = self.ranks[rank as usize].taken;
        let members = *self.decided.get(&generation)?;
        let opened = self.opened[&generation];
        let mut neighbours = members.parent(Rank(rank)).into_iter().chain(members.children(Rank(rank)));
        if !neighbours.all(|other| opened.contains(other)) {
            return None;
        }
        let state = &mut self.ranks[rank as usize];
        (state.tree, state.members, state.left) = (generation, members, 1);
        self.begin(rank);
        Some(())
    }

    fn gives_up(&mut self, rank: u8) {
        let state = &self.ranks[rank as usize];
        if state.gone.contains(Rank(0)) && rank != 0 {
            self.ranks[rank as usize].phase = Phase::GaveUp;
        } else {
            self.dropped.entry(state.taken).or_insert(Ranks::NONE).add(Rank(rank));
            self.asks(rank);
        }
    }

    /// Returns whether a rank may abandon its wait because it knows of an ended rank.
    fn may_give_up(&self, rank: u8) -> bool {
        let state = &self.ranks[rank as usize];
        match state.phase {
            Phase::Asks => rank != 0 && state.gone.contains(Rank(0)),
            Phase::Opens => {
                let members = self.decided.get(&state.taken).map_or(0, |members| members.ranks().0);
                members & state.gone.0 != 0
            }
            _ => false,
        }
    }

    /// Describes the violated invariant, if there is one.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        self.broken
    }
}

impl Model for CollectiveModel {
    type State = CollectiveState;
    type Action = CollectiveAction;

    fn init_states(&self) -> Vec<CollectiveState> {
        let rank = RankState {
            phase: Phase::Barrier(0),
            left: self.barriers,
            tree: 0,
            members: Members::new(Ranks::below(self.ranks)),
            taken: 0,
            gone: Ranks::NONE,
        };
        let mut state = CollectiveState {
            ranks: vec![rank; self.ranks.into()],
            channels: BTreeMap::new(),
            asked: BTreeMap::new(),
            decided: BTreeMap::new(),
            opened: BTreeMap::new(),
            dropped: BTreeMap::new(),
            begun: BTreeMap::new(),
            deaths: self.deaths,
            broken: None,
        };
        (0..self.ranks).for_each(|rank| state.begin(rank));
        vec![state]
    }

    fn actions(&self, state: &CollectiveState, actions: &mut Vec<CollectiveAction>) {
        if state.broken.is_some() {
            return;
        }
        for rank in (0..self.ranks).filter(|rank| !state.is_over(*rank)) {
            if self.next_state(state, CollectiveAction::Step(rank)).is_some() {
                actions.push(CollectiveAction::Step(rank));
            }
            if state.may_give_up(rank) {
                actions.push(CollectiveAction::GivesUp(rank));
            }
            let gone = state.ranks[rank as usize].gone;
            let unknown =
                (0..self.ranks).filter(|other| state.is_over(*other) && !gone.contains(Rank(*other)));
            actions.extend(unknown.map(|other| CollectiveAction::Learns(rank, other)));
            if state.deaths > 0 {
                actions.push(CollectiveAction::Die(rank));
            }
        }
    }

    fn next_state(&self, before: &CollectiveState, action: CollectiveAction) -> Option<CollectiveState> {
        let mut state = before.clone();
        match action {
            CollectiveAction::Step(rank) => match state.ranks[rank as usize].phase {
                Phase::Barrier(number) => state.barrier(rank, number, self.mistake)?,
                Phase::Asks => state.takes(rank, self.mistake)?,
                Phase::Opens => state.opens(rank)?,
                _ => return None,
            },
            CollectiveAction::GivesUp(rank) => state.gives_up(rank),
            CollectiveAction::Learns(rank, other) => state.ranks[rank as usize].gone.add(Rank(other)),
            CollectiveAction::Die(rank) => {
                state.deaths -= 1;
                state.ranks[rank as usize].phase = Phase::Dead;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "barriers are barriers, and nobody is left out",
                |_, state: &CollectiveState| state.fault().is_none(),
            ),
            Property::always("nobody waits for ever", |model: &CollectiveModel, state: &CollectiveState| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let moves = actions.iter().any(|action| !matches!(action, CollectiveAction::Die(_)));
                moves || state.fault().is_some() || (0..model.ranks).all(|rank| state.is_over(rank))
            }),
        ]
    }
}
