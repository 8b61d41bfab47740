//! Client side of waiting for the first of several operations.
//!
//! The client sends each operation, an *arm*, as a tentative request. A hub that can serve an arm sends an
//! offer; the client claims one offer, and the hub confirms. The other arms are withdrawn, and the items set
//! aside for them go to others: exactly one arm is done, regardless of the nodes of the hubs.
//!
//! At a port both sides may be selecting, and each may have claimed at another hub. Every client orders hubs
//! by the same [`HubKey`]: one that has claimed, and gets an offer of a hub with a lower place, takes its
//! claim back and claims there. Among clients that wait for one another, those at the lowest hub have claimed
//! each other, so some client always makes progress.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::Fault;
use crate::hub::{Outcome, Taken};

/// Maximum number of arms of a select.
pub const MAX_ARMS: usize = 256;

/// Position of a hub in the order that all clients share: its service (the number of that domain), and its
/// number there.
pub type HubKey = (u64, u32);

/// Reason why a select cannot start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SelectError {
    /// There are no arms.
    #[error("a select needs an operation or more")]
    Empty,
    /// There are too many arms.
    #[error("a select of {0} operations; give at most {MAX_ARMS}")]
    TooMany(usize),
    /// Two arms are for one hub; these are their indices.
    #[error("operations {0} and {1} of a select are for the same hub; give each hub once")]
    DuplicateHub(usize, usize),
}

/// Message that the client must send to the hub of an arm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SelectCommand {
    /// A claim.
    Claim {
        /// Index of the arm.
        arm: usize,
        /// Number of the offer.
        offer: u32,
    },
    /// Takes a claim back.
    Unclaim {
        /// Index of the arm.
        arm: usize,
        /// Number of the offer.
        offer: u32,
    },
    /// Withdraws an arm.
    Withdraw {
        /// Index of the arm.
        arm: usize,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Posted,
    Offered(u32),
    Withdrawing,
    Ended(Option<Fault>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Arm {
    hub_key: HubKey,
    state: State,
}

/// State of a wait for the first of several operations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Select {
    arms: Vec<Arm>,
    /// Arm that is claimed.
    claimed: Option<usize>,
    /// Whether the claim is being taken back.
    unclaiming: bool,
    /// Whether the client no longer wants to wait.
    abandoned: bool,
    result: Option<(usize, Result<Taken, Fault>)>,
}

impl Select {
    /// Creates a select with an arm for each of these hubs. The client sends each as a tentative request.
    ///
    /// # Errors
    /// [`SelectError`].
    pub fn new(hub_keys: &[HubKey]) -> Result<Select, SelectError> {
        if hub_keys.is_empty() {
            return Err(SelectError::Empty);
        }
        if hub_keys.len() > MAX_ARMS {
            return Err(SelectError::TooMany(hub_keys.len()));
        }
        let mut seen = BTreeSet::new();
        if let Some(second) = hub_keys.iter().position(|hub_key| !seen.insert(*hub_key)) {
            let first = hub_keys.iter().position(|hub_key| *hub_key == hub_keys[second]).unwrap_or(second);
            return Err(SelectError::DuplicateHub(first, second));
        }
        let arms = hub_keys.iter().map(|hub_key| Arm { hub_key: *hub_key, state: State::Posted }).collect();
        Ok(Select { arms, claimed: None, unclaiming: false, abandoned: false, result: None })
    }

    /// Returns the arm that was done or that failed, for example because its hub is closed. At most one arm
    /// was done.
    #[must_use]
    pub fn result(&self) -> Option<&(usize, Result<Taken, Fault>)> {
        self.result.as_ref()
    }

    /// Takes the [`result`](Self::result).
    pub fn take_result(&mut self) -> Option<(usize, Result<Taken, Fault>)> {
        self.result.take()
    }

    /// Whether no arm can be done any more: nothing was ready, or the select was abandoned.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.arms.iter().all(|arm| matches!(arm.state, State::Ended(_)))
    }

    /// Handles the answer of a hub about an arm.
    pub fn handle_outcome(&mut self, index: usize, outcome: Outcome, commands: &mut Vec<SelectCommand>) {
        let Some(arm) = self.arms.get_mut(index) else { return };
        let is_claimed = self.claimed == Some(index);
        match outcome {
            Outcome::Offered(offer) if arm.state == State::Posted => arm.state = State::Offered(offer),
            Outcome::Revoked if matches!(arm.state, State::Offered(_)) => {
                arm.state = State::Posted;
                self.release(is_claimed);
            }
            Outcome::Unclaimed if self.unclaiming => self.release(is_claimed),
            Outcome::Done(taken) => {
                arm.state = State::Ended(None);
                self.release(is_claimed);
                self.result = Some((index, Ok(taken)));
            }
            Outcome::Failed(fault) => {
                arm.state = State::Ended(Some(fault));
                self.release(is_claimed);
            }
            Outcome::Withdrawn => {
                arm.state = State::Ended(None);
                self.release(is_claimed);
            }
            _ => {}
        }
        self.decide(commands);
    }

    /// Handles the loss of the node of an arm's hub. `fault` becomes the result unless another arm can be
    /// done. If the arm was claimed, `fault` is always the result, because the hub may have done the
    /// operation.
    pub fn handle_loss(&mut self, index: usize, fault: Fault, commands: &mut Vec<SelectCommand>) {
        if self.claimed == Some(index) && self.result.is_none() {
            self.result = Some((index, Err(fault)));
        }
        self.handle_outcome(index, Outcome::Failed(fault), commands);
    }

    /// Abandons the wait. An arm that was claimed may still be done.
    pub fn abandon(&mut self, commands: &mut Vec<SelectCommand>) {
        self.abandoned = true;
        self.decide(commands);
    }

    fn release(&mut self, is_claimed: bool) {
        if is_claimed {
            self.claimed = None;
            self.unclaiming = false;
        }
    }

    fn decide(&mut self, commands: &mut Vec<SelectCommand>) {
        if self.result.is_none() && !self.abandoned {
            match self.claimed {
                Some(claimed) => self.change_claim(claimed, commands),
                None => self.claim_lowest_offer(commands),
            }
        }
        if self.result.is_some() || self.abandoned {
            for (index, arm) in self.arms.iter_mut().enumerate() {
                if matches!(arm.state, State::Posted | State::Offered(_)) {
                    arm.state = State::Withdrawing;
                    commands.push(SelectCommand::Withdraw { arm: index });
                }
            }
        }
    }

    /// Returns the offer of the lowest hub.
    fn lowest_offer(&self) -> Option<(usize, u32)> {
        let offered = self.arms.iter().enumerate().filter_map(|(index, arm)| match arm.state {
            State::Offered(offer) => Some((arm.hub_key, index, offer)),
            _ => None,
        });
        offered.min().map(|(_, index, offer)| (index, offer))
    }

    fn change_claim(&mut self, claimed: usize, commands: &mut Vec<SelectCommand>) {
        if self.unclaiming {
            return;
        }
        let State::Offered(offer) = self.arms[claimed].state else { return };
        if self.lowest_offer().is_some_and(|(lowest, _)| lowest != claimed) {
            self.unclaiming = true;
            commands.push(SelectCommand::Unclaim { arm: claimed, offer });
        }
    }

    fn claim_lowest_offer(&mut self, commands: &mut Vec<SelectCommand>) {
        if let Some((arm, offer)) = self.lowest_offer() {
            self.claimed = Some(arm);
            commands.push(SelectCommand::Claim { arm, offer });
            return;
        }
        let failed = self.arms.iter().enumerate().find_map(|(index, arm)| match arm.state {
            State::Ended(Some(fault)) if !fault.is_not_ready() => Some((index, fault)),
            _ => None,
        });
        if let Some((index, fault)) = failed {
            self.result = Some((index, Err(fault)));
        }
    }
}
